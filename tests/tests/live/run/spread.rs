//! The default topology spread of a scheduler configuration: of pods whose owner or Service selects them.

use std::collections::BTreeMap;
use std::io::Write;

use k8s_openapi::api::core::v1::{Node, Pod};
use kube::ResourceExt;
use kube::api::ListParams;
use serde_json::{Value, json};

use super::ground::{Ground, SOON};

const ZONE: &str = "topology.kubernetes.io/zone";

/// A configuration with one pod more in a zone than in another as the default.
fn configuration() -> Value {
    let constraint = json!({"maxSkew": 1, "topologyKey": ZONE, "whenUnsatisfiable": "ScheduleAnyway"});
    let args = json!({"defaultingType": "List", "defaultConstraints": [constraint]});
    let profile = json!({"pluginConfig": [{"name": "PodTopologySpread", "args": args}]});
    json!({"apiVersion": "kubescheduler.config.k8s.io/v1", "kind": "KubeSchedulerConfiguration", "profiles": [profile]})
}

/// Number of pods in each zone.
fn by_zone(pods: &[Pod], nodes: &[Node]) -> BTreeMap<String, usize> {
    let zones: BTreeMap<String, String> =
        nodes.iter().map(|node| (node.name_any(), node.labels()[ZONE].clone())).collect();
    let mut counts = BTreeMap::new();
    for node in pods.iter().filter_map(|pod| pod.spec.as_ref()?.node_name.as_ref()) {
        *counts.entry(zones[node].clone()).or_default() += 1;
    }
    counts
}

#[tokio::test]
async fn replicas_are_spread_by_the_selector_of_their_owner() {
    let ground = Ground::new("run suite").await;
    ground.small_nodes(&json!({}), &json!({"consolidateAfter": "Never"})).await;
    // Two fit on a node, and nodes cost the same in each of the four zones; no Service selects them.
    ground.deploy_pairs(8).await;
    let mut file = tempfile::NamedTempFile::new().unwrap();
    file.write_all(configuration().to_string().as_bytes()).unwrap();
    let arguments = ["--scheduler-config", file.path().to_str().unwrap()];
    let _replica = ground.replica_as("muster", ground.cluster().kubeconfig(), &arguments);
    let pods = ground.running(8, SOON).await;
    let nodes = ground.nodes().list(&ListParams::default()).await.unwrap().items;
    let counts = by_zone(&pods, &nodes);
    assert_eq!(counts.into_values().collect::<Vec<_>>(), [2, 2, 2, 2], "of {} nodes", nodes.len());
}

#[tokio::test]
async fn without_a_configuration_they_share_the_cheapest_zone() {
    let ground = Ground::new("run suite").await;
    ground.small_nodes(&json!({}), &json!({"consolidateAfter": "Never"})).await;
    ground.deploy_pairs(8).await;
    let _replica = ground.replica("muster");
    let pods = ground.running(8, SOON).await;
    let nodes = ground.nodes().list(&ListParams::default()).await.unwrap().items;
    assert_eq!(by_zone(&pods, &nodes).len(), 1);
}
