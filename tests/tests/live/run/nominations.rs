//! What is planned is what binds: the share of pods that the real kube-scheduler binds to the node that they were told of.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use k8s_openapi::api::core::v1::Pod;
use kube::ResourceExt;
use kube::api::ListParams;
use muster_tests::meter::Meter;
use muster_tests::wait::{self, Selection};
use serde_json::{Value, json};

use super::ground::{Ground, condition, hourly_price};

/// How long it may take on a machine that does other things.
const LONG: Duration = Duration::from_secs(600);
const PODS: usize = 1000;

/// Cores and MiB of a pod: deciles of what clusters run, most small, some large.
const SIZES: [(u64, u64); 9] =
    [(110, 256), (180, 512), (240, 576), (320, 768), (410, 960), (520, 1280), (690, 1664), (940, 2304), (1500, 3584)];
/// Replicas of a Deployment, likewise.
const REPLICAS: [usize; 7] = [3, 6, 9, 13, 20, 31, 60];

/// A thousand pods of Deployments as clusters have them: half of these are spread over zones, and every seventh has no two
/// pods on one node.
fn deployments() -> Vec<Value> {
    let mut all = Vec::new();
    let mut left = PODS;
    for number in 0.. {
        if left == 0 {
            break;
        }
        let replicas = REPLICAS[number % REPLICAS.len()].min(left);
        left -= replicas;
        let (cpu, memory) = SIZES[number * 4 % SIZES.len()];
        let name = format!("app-{number}");
        let selector = json!({"matchLabels": {"app": name}});
        let requests = json!({"cpu": format!("{cpu}m"), "memory": format!("{memory}Mi")});
        let mut spec = json!({"containers": [{"name": "main", "image": "none", "resources": {"requests": requests}}]});
        if number % 2 == 0 {
            spec["topologySpreadConstraints"] = json!([{
                "maxSkew": 1, "topologyKey": "topology.kubernetes.io/zone", "whenUnsatisfiable": "DoNotSchedule",
                "labelSelector": selector,
            }]);
        } else if number % 7 == 1 {
            let apart = json!([{"topologyKey": "kubernetes.io/hostname", "labelSelector": selector}]);
            spec["affinity"] = json!({"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": apart}});
        }
        let labels = json!({"app": name, "of": "mixed"});
        all.push(json!({
            "apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": name, "namespace": "default"},
            "spec": {
                "replicas": replicas, "selector": selector,
                "template": {"metadata": {"labels": labels}, "spec": spec},
            },
        }));
    }
    all
}

/// What came of it.
struct Bound {
    /// Pods on the node that they were told of.
    kept: usize,
    /// Nodes with a pod.
    used: usize,
    claims: usize,
    price: f64,
}

async fn bind(arguments: &[&str]) -> Bound {
    let ground = Ground::new("run figures").await;
    let replica = ground.replica_as("muster", ground.cluster().kubeconfig(), arguments);
    let _ = Meter::of(&replica).await.unwrap();
    ground.apply(&deployments()).await;
    // Once a pod is bound, nobody can tell any more what it was told before.
    let mut told: BTreeMap<String, String> = BTreeMap::new();
    let mut bound: BTreeMap<String, String> = BTreeMap::new();
    let selection = Selection::labelled("of=mixed");
    let all = wait::until_all(ground.pods(), selection, LONG, "all pods are bound", |pods: &[Pod]| {
        for pod in pods {
            let node = pod.spec.as_ref().and_then(|spec| spec.node_name.clone());
            let hint = pod.status.as_ref().and_then(|status| status.nominated_node_name.clone());
            match (node, hint) {
                (Some(node), _) => drop(bound.insert(pod.name_any(), node)),
                (None, Some(hint)) => drop(told.insert(pod.name_any(), hint)),
                (None, None) => {}
            }
        }
        pods.len() == PODS && bound.len() == PODS
    });
    all.await.unwrap();
    let ready = wait::until_all(ground.claims(), Selection::all(), LONG, "all claims are ready", |claims| {
        !claims.is_empty() && claims.iter().all(|claim| condition(claim, "Ready") == "True")
    });
    let claims = ready.await.unwrap().len();
    let used: BTreeSet<&String> = bound.values().collect();
    let nodes = ground.nodes().list(&ListParams::default()).await.unwrap().items;
    let kept = bound.iter().filter(|(pod, node)| told.get(*pod) == Some(node)).count();
    let found = Bound { kept, used: used.len(), claims, price: hourly_price(&nodes) };
    let rounds = std::fs::read_to_string(replica.log()).unwrap();
    let rounds: Vec<&str> = rounds.lines().filter(|line| line.contains("decided about pods")).collect();
    println!(
        "{arguments:?}: {} of {PODS} pods are where they were told, on {} nodes of {} claims for {:.3} USD/h\n{}",
        found.kept,
        found.used,
        found.claims,
        found.price,
        rounds.join("\n"),
    );
    found
}

#[tokio::test]
#[ignore = "scale: minutes, and its figures are those of an optimised program"]
async fn a_thousand_pods_go_where_they_were_told() {
    let Bound { kept, used, claims, price: _ } = bind(&[]).await;
    assert!(kept * 100 >= PODS * 95, "{kept} of {PODS}");
    assert_eq!(used, claims, "no second round was bought");
}

#[tokio::test]
#[ignore = "scale: minutes, and its figures are those of an optimised program"]
async fn a_thousand_pods_that_are_told_nothing() {
    let Bound { kept, .. } = bind(&["--disable-nominations"]).await;
    assert_eq!(kept, 0);
}
