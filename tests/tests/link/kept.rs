//! What is kept of a node that could not become one, after its NodeClaim and its instance are gone.

use k8s_openapi::api::core::v1::ConfigMap;
use kube::core::DynamicObject;
use kube::{Api, ResourceExt};
use muster_tests::wait::{self, Selection};
use serde_json::Value;

use super::MOST;
use super::ground::{Ground, instance_of};

/// The record is there, with the logs that its agent has sent, and an operator reads them.
pub(crate) async fn of_a_node_that_is_gone(ground: &Ground<'_>, broken: &DynamicObject) {
    let maps: Api<ConfigMap> = Api::all(ground.cluster().client());
    let has_logs = |map: &ConfigMap| {
        let record =
            map.annotations().get("muster.dev/verdict").and_then(|text| serde_json::from_str::<Value>(text).ok());
        record.is_some_and(|it| it["claim"] == broken.name_any() && it["bundleBytes"].as_u64() > Some(0))
    };
    let of_ours = Selection::labelled("muster.dev/record=verdict");
    let what = "the logs of the node that is gone are kept";
    let all = wait::until_all(maps, of_ours, MOST, what, |all| all.iter().any(has_logs)).await;
    let all = all.unwrap_or_else(|error| panic!("{error}\n{}", ground.told()));
    let map = all.iter().find(|map| has_logs(map)).unwrap();
    assert!(map.name_any().starts_with("muster-verdict-"), "{}", map.name_any());
    assert_eq!(map.annotations()["muster.dev/verdict"].matches(broken.uid().unwrap().as_str()).count(), 1);
    let logs = &map.data.as_ref().unwrap()["bundle.txt"];
    // Its report, and what systemd and the units have said.
    assert!(logs.contains("\"KA17\"") && logs.contains("=== "), "{logs}");
    assert!(!logs.contains("PRIVATE KEY") && !logs.contains("mlt-"), "{logs}");

    let list = super::muster(ground.cluster().kubeconfig(), &["verdicts", "--cluster", "-o", "json"]).await;
    let document: Value = serde_json::from_str(&list).unwrap();
    let of_broken = |it: &&Value| it["nodeClaim"] == broken.name_any();
    let verdict = document["verdicts"].as_array().unwrap().iter().find(of_broken).cloned().unwrap();
    assert_eq!((&verdict["code"], &verdict["phase"]), (&"KA17".into(), &Value::Null), "{document:#}");
    assert_eq!(verdict["bundleBytes"], logs.len());
    let one = super::muster(ground.cluster().kubeconfig(), &["verdicts", &broken.name_any(), "--cluster"]).await;
    assert!(one.contains(&instance_of(broken)) && one.contains("swap") && one.ends_with(logs.as_str()), "{one}");
}
