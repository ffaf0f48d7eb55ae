//! `muster run --dry-run --cloud aws`: it reports what it would do, beside an active controller too, and may read and no
//! more.

use kube::ResourceExt;
use kube::api::ListParams;
use muster_tests::wait::{self, Selection};
use serde_json::{Value, json};

use super::ground::{Ground, SOON, condition, pool, writes};
use crate::run::rights::{line, reader};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_dry_run_on_ec2_reads_and_no_more() {
    let ground = Ground::new("run ec2 suite").await;
    let kubeconfig = reader(ground.cluster()).await;
    let observer = ground.replica_with("observer", &kubeconfig, &["--dry-run", "-o", "json"]);
    ground.deploy(3, json!({})).await;
    let launches = |line: &Value| line["launches"].as_array().map_or(0, Vec::len);
    let told = line(&observer, "launches for all three pods are told", |line| {
        line["kind"] == "DryRunReport" && launches(line) == 3
    })
    .await;
    for launch in told["launches"].as_array().unwrap() {
        assert_eq!((&launch["nodePool"], &launch["instanceTypes"]), (&json!("general"), &json!(["m5.large"])));
    }
    assert!(told["hourlyPrice"].as_f64().unwrap() > 0.0, "{told:#}");

    // The class has been looked up, and is as its owner wrote it.
    let class = ground.classes().get("default").await.unwrap();
    assert_eq!((class.finalizers(), class.data.get("status")), (&[][..], None));
    assert_eq!(ground.claims().list(&ListParams::default()).await.unwrap().items, []);
    ground.nothing_is_left_in_ec2().await;

    // Another one does it, and leaves nodes that are worth nothing.
    let controller = ground.controller().await;
    ground.running(3, SOON).await;
    let initialized = wait::until_all(ground.claims(), Selection::all(), SOON, "all are initialized", |claims| {
        let is = |one| condition(one, "Initialized").is_some_and(|it| it["status"] == "True");
        !claims.is_empty() && claims.iter().all(is)
    });
    initialized.await.unwrap();
    drop(controller);
    let mut emptied = pool(&json!({}));
    emptied["spec"]["disruption"] = json!({"consolidateAfter": "1s", "consolidationPolicy": "WhenEmpty"});
    ground.apply(&[emptied]).await;
    ground.cluster().kubectl(&["scale", "deployment", "web", "--replicas=0"]).await.unwrap();
    ground.running(0, SOON).await;
    let is_disruption = |line: &Value| line["disruptions"].as_array().is_some_and(|all| !all.is_empty());
    let told = line(&observer, "a disruption is told", is_disruption).await;
    assert_eq!(told["disruptions"][0]["cause"], "Empty", "{told:#}");

    let calls = ground.ec2.calls().by("observer");
    assert!(calls.0.iter().any(|call| call.action == "DescribeSubnets"), "{}", calls.lines());
    let changed = writes(calls);
    assert!(changed.0.is_empty(), "{}", changed.lines());
    let refused = std::fs::read_to_string(observer.log()).unwrap();
    assert!(!refused.contains("forbidden"), "nothing was tried that a reader may not: {refused}");
}
