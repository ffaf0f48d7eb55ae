//! What is kept of a node that could not become one, after its NodeClaim and its instance are gone.

use std::time::Duration;

use k8s_openapi::api::core::v1::ConfigMap;
use kube::core::DynamicObject;
use kube::{Api, ResourceExt};
use muster_tests::wait::{self, Selection};
use serde_json::Value;

use super::MOST;
use super::ground::{Ground, instance_of};

/// How long the logs are waited for: an agent has collected them in seconds.
const LOGS: Duration = Duration::from_secs(60);

/// The record is there, with the logs that its agent has sent if they came in time, and an operator reads them. Returns the logs, or
/// nothing if there are none.
pub(crate) async fn of_a_node_that_is_gone(ground: &Ground<'_>, broken: &DynamicObject) -> String {
    let maps: Api<ConfigMap> = Api::all(ground.cluster().client());
    let record_of = |map: &ConfigMap| {
        let record =
            map.annotations().get("muster.dev/verdict").and_then(|text| serde_json::from_str::<Value>(text).ok());
        record.filter(|it| it["claim"] == broken.name_any())
    };
    let has_logs = |map: &ConfigMap| record_of(map).is_some_and(|it| it["bundleBytes"].as_u64() > Some(0));
    let of_ours = || Selection::labelled("muster.dev/record=verdict");
    let is_kept = |all: &[ConfigMap]| all.iter().any(|map| record_of(map).is_some());
    let all = wait::until_all(maps.clone(), of_ours(), MOST, "the verdict is kept", is_kept).await;
    let mut all = all.unwrap_or_else(|error| panic!("{error}\n{}", ground.told()));
    // Nothing waits for the logs of a node that is being ended: on a machine that is starved they may not come.
    match wait::until_all(maps, of_ours(), LOGS, "its logs are kept", |all: &[ConfigMap]| all.iter().any(has_logs))
        .await
    {
        Ok(with_logs) => all = with_logs,
        Err(_) => println!("the instance was gone before its logs had come"),
    }
    let map = all.iter().find(|map| record_of(map).is_some()).unwrap();
    assert!(map.name_any().starts_with("muster-verdict-"), "{}", map.name_any());
    assert_eq!(map.annotations()["muster.dev/verdict"].matches(broken.uid().unwrap().as_str()).count(), 1);
    let logs = map.data.as_ref().and_then(|data| data.get("bundle.txt")).cloned().unwrap_or_default();
    if has_logs(map) {
        // Its report, and what systemd and the units have said.
        assert!(logs.contains("\"KA17\"") && logs.contains("=== "), "{logs}");
        assert!(!logs.contains("PRIVATE KEY") && !logs.contains("mlt-"), "{logs}");
    }

    let list = super::muster(ground.cluster().kubeconfig(), &["verdicts", "--cluster", "-o", "json"]).await;
    let document: Value = serde_json::from_str(&list).unwrap();
    let of_broken = |it: &&Value| it["nodeClaim"] == broken.name_any();
    let verdict = document["verdicts"].as_array().unwrap().iter().find(of_broken).cloned().unwrap();
    assert_eq!((&verdict["code"], &verdict["phase"]), (&"KA17".into(), &Value::Null), "{document:#}");
    assert_eq!(verdict["bundleBytes"], logs.len());
    let one = super::muster(ground.cluster().kubeconfig(), &["verdicts", &broken.name_any(), "--cluster"]).await;
    assert!(one.contains(&instance_of(broken)) && one.contains("swap") && one.ends_with(logs.as_str()), "{one}");
    logs
}
