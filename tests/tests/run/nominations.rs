//! What is planned is what binds: the share of pods that the real kube-scheduler binds to the node that they were told of.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use k8s_openapi::api::core::v1::Pod;
use kube::ResourceExt;
use muster_tests::wait::{self, Selection};

use super::ground::{Ground, condition};

/// How long it may take on a machine that does other things.
const LONG: Duration = Duration::from_secs(600);

#[tokio::test]
#[ignore = "scale: minutes, and its figures are those of an optimised program"]
async fn a_thousand_pods_go_where_they_were_told() {
    let ground = Ground::new("run figures").await;
    let replica = ground.replica("muster");
    let log = replica.log().to_owned();
    let leads = wait::until_some("it leads", LONG, || {
        let text = std::fs::read_to_string(&log).unwrap_or_default();
        async move { Ok(text.contains("leading").then_some(())) }
    });
    leads.await.unwrap();
    ground.deploy(1000).await;
    // Once a pod is bound, nobody can tell any more what it was told before.
    let mut told: BTreeMap<String, String> = BTreeMap::new();
    let mut bound: BTreeMap<String, String> = BTreeMap::new();
    let all =
        wait::until_all(ground.pods(), Selection::labelled("app=web"), LONG, "all pods are bound", |pods: &[Pod]| {
            for pod in pods {
                let node = pod.spec.as_ref().and_then(|spec| spec.node_name.clone());
                let hint = pod.status.as_ref().and_then(|status| status.nominated_node_name.clone());
                match (node, hint) {
                    (Some(node), _) => drop(bound.insert(pod.name_any(), node)),
                    (None, Some(hint)) => drop(told.insert(pod.name_any(), hint)),
                    (None, None) => {}
                }
            }
            pods.len() == 1000 && bound.len() == 1000
        });
    all.await.unwrap();
    let kept = bound.iter().filter(|(pod, node)| told.get(*pod) == Some(node)).count();
    let ready = wait::until_all(ground.claims(), Selection::all(), LONG, "all claims are ready", |claims| {
        !claims.is_empty() && claims.iter().all(|claim| condition(claim, "Ready") == "True")
    });
    let claims = ready.await.unwrap();
    let used: BTreeSet<&String> = bound.values().collect();
    println!("{kept} of 1000 pods are where they were told, on {} nodes of {} claims", used.len(), claims.len());
    assert!(kept >= 950, "{kept} of 1000");
    assert_eq!(used.len(), claims.len(), "no second round was bought");
    ground.scale(0).await;
    ground.clear(LONG).await;
}
