//! The replay of kube-scheduler against kube-scheduler: pod after pod, each among those that the real one has bound.
//!
//! ```text
//!   pod ──► API server ──► kube-scheduler ──► node
//!    │                                          │ compared: it is one of those that the replay holds to be best
//!    └────► replay, of the same nodes ──────────┘
//! ```

use std::collections::BTreeMap;
use std::sync::Arc;

use k8s_openapi::api::core::v1::{Node, Pod};
use kube::api::{ListParams, PostParams};
use kube::{Api, Client, ResourceExt};
use muster_manifest::read_text;
use muster_manifest::snapshot::{Settings, assemble};
use muster_scheduling::model::{BoundPod, Catalogue, Problem};
use muster_scheduling::{Waiting, schedule};
use muster_tests::cluster::{Kwok, Options, fake_node};
use muster_tests::snapshot::is_ready;
use muster_tests::wait::{self, Selection};
use muster_tests::world::World;
use serde_json::{Value, json};

use super::ground::SOON;

/// Fewer than kube-scheduler scores all of: what it leaves out follows from where it stopped the time before.
const NODES: usize = 48;
/// Kinds of pods: by what their spec says beside requests.
const KINDS: [&str; 6] = ["plain", "spread softly", "spread", "apart", "of a zone", "tolerant"];

async fn add_nodes(client: &Client) {
    let nodes: Api<Node> = Api::all(client.clone());
    let sizes = [("4", "16Gi"), ("8", "16Gi"), ("8", "32Gi"), ("16", "64Gi")];
    for number in 0..NODES {
        let (cpu, memory) = sizes[number % sizes.len()];
        let room = json!({"cpu": cpu, "memory": memory});
        let zone = ["a", "b", "c"][number / sizes.len() % 3];
        let taints = if number % 8 == 7 { json!([{"key": "batch", "effect": "NoSchedule"}]) } else { json!([]) };
        let with = json!({
            "metadata": {"labels": {"topology.kubernetes.io/zone": zone}},
            "spec": {"taints": taints}, "status": {"allocatable": room, "capacity": room},
        });
        nodes.create(&PostParams::default(), &fake_node(&format!("node-{number:02}"), with).unwrap()).await.unwrap();
    }
    let ready = wait::until_all(nodes, Selection::all(), SOON, "all nodes are ready", |nodes| {
        nodes.len() == NODES && nodes.iter().all(is_ready)
    });
    ready.await.unwrap();
}

/// The pod of that number, and the number of its kind.
fn pod(number: usize) -> (usize, Pod) {
    // Knuth's multiplicative hash: all that differs is spread, and the same each time.
    let drawn = number.wrapping_mul(2_654_435_761);
    let kind = number % KINDS.len();
    let app = format!("{}-{}", KINDS[kind].replace(' ', "-"), number / KINDS.len() % 4);
    let cpu = ["100m", "200m", "300m", "500m"][(drawn >> 8) % 4];
    let memory = ["128Mi", "256Mi", "512Mi", "1Gi", "2Gi"][(drawn >> 16) % 5];
    let labels = json!({"app": app});
    let selector = json!({"matchLabels": labels});
    let spread = |key: &str, otherwise: &str| json!({"maxSkew": 1, "topologyKey": key, "whenUnsatisfiable": otherwise, "labelSelector": selector});
    let (zone, host) = ("topology.kubernetes.io/zone", "kubernetes.io/hostname");
    let mut spec = json!({
        "containers": [{"name": "main", "image": "none", "resources": {"requests": {"cpu": cpu, "memory": memory}}}],
    });
    match kind {
        1 => {
            spec["topologySpreadConstraints"] = json!([spread(zone, "ScheduleAnyway"), spread(host, "ScheduleAnyway")]);
        }
        2 => spec["topologySpreadConstraints"] = json!([spread(zone, "DoNotSchedule")]),
        3 => {
            let term = json!({"topologyKey": host, "labelSelector": selector});
            spec["affinity"] = json!({"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}});
        }
        4 => spec["nodeSelector"] = json!({zone: (["a", "b", "c"][(drawn >> 12) % 3])}),
        5 => spec["tolerations"] = json!([{"key": "batch", "operator": "Exists"}]),
        _ => {}
    }
    let pod = json!({"metadata": {"name": format!("pod-{number:04}"), "labels": labels}, "spec": spec});
    (kind, serde_json::from_value(pod).unwrap())
}

/// The nodes and the pods, all of which wait.
fn problem(nodes: &[Node], pods: &[Pod]) -> Problem {
    let of = |kind: &str, object: Value| {
        let mut object = object;
        object["apiVersion"] = json!("v1");
        object["kind"] = json!(kind);
        object
    };
    let nodes = nodes.iter().map(|node| of("Node", serde_json::to_value(node).unwrap()));
    let pods = pods.iter().map(|pod| of("Pod", serde_json::to_value(pod).unwrap()));
    let list = json!({"apiVersion": "v1", "kind": "List", "items": nodes.chain(pods).collect::<Vec<_>>()});
    let manifests = read_text("cluster", &list.to_string()).unwrap();
    assemble(&manifests, &Settings::default(), &|_| Catalogue::default()).unwrap().problem
}

/// Creates pods one after the other. Prints and returns the share of them on a node that the replay holds to be best.
async fn agreed(count: usize) -> f64 {
    let world = World::open("run suite").unwrap();
    let plane = world.control_plane(&Options::named("scheduler")).await.unwrap();
    let _kwok = Kwok::start(world.spawner(), plane.cluster()).unwrap();
    let client = plane.cluster().client();
    add_nodes(&client).await;
    let api: Api<Pod> = Api::default_namespaced(client.clone());
    let (mut pods, mut kinds, mut bound) = (Vec::new(), Vec::new(), Vec::new());
    for number in 0..count {
        let (kind, pod) = pod(number);
        let made = api.create(&PostParams::default(), &pod).await.unwrap();
        let has_node = |pod: &Pod| pod.spec.as_ref().is_some_and(|spec| spec.node_name.is_some());
        let there = wait::until(api.clone(), &made.name_any(), SOON, "the pod is bound", has_node).await.unwrap();
        bound.push(there.spec.unwrap().node_name.unwrap());
        pods.push(made);
        kinds.push(kind);
    }

    let nodes = Api::<Node>::all(client).list(&ListParams::default()).await.unwrap().items;
    let mut problem = problem(&nodes, &pods);
    let names: BTreeMap<Arc<str>, usize> =
        problem.pods.iter().enumerate().map(|(number, pod)| (Arc::clone(&pod.name), number)).collect();
    let mut equal: BTreeMap<&str, (usize, usize)> = BTreeMap::new();
    for ((pod, kind), node) in pods.iter().zip(kinds).zip(&bound) {
        let number = names[format!("default/{}", pod.name_any()).as_str()];
        let there = problem.nodes.iter().position(|one| *one.name == **node).unwrap();
        // Of nodes that are equally good kube-scheduler draws one, and the replay takes the first.
        problem.nodes.swap(0, there);
        let found = schedule(&problem, &[Waiting { pod: number, hint: None }]);
        let (same, all) = equal.entry(KINDS[kind]).or_default();
        *same += usize::from(found == [Some(0)]);
        *all += 1;
        let (name, spec) = (Arc::clone(&problem.pods[number].name), problem.pods[number].spec);
        problem.nodes[0].bound.push(BoundPod { name, spec, counts: true, planned: false, daemon: false });
    }
    println!("placements that are equal, by kind: {equal:?}");
    let same: usize = equal.values().map(|(same, _)| same).sum();
    same as f64 / count as f64
}

#[tokio::test]
async fn replay_puts_pods_where_kube_scheduler_does() {
    let share = agreed(180).await;
    assert!(share >= 0.95, "{share}");
}

#[tokio::test]
#[ignore = "scale: a minute for a thousand pods"]
async fn replay_puts_a_thousand_pods_where_kube_scheduler_does() {
    let share = agreed(1000).await;
    assert!(share >= 0.95, "{share}");
}

/// A node in a zone, and a pod pinned to the zone that must be with its own kind in its zone.
fn pinned(zone: &str) -> (Node, Pod) {
    let key = "topology.kubernetes.io/zone";
    let node = fake_node(&format!("node-{zone}"), json!({"metadata": {"labels": {key: zone}}})).unwrap();
    let labels = json!({"app": "worker"});
    let term = json!({"topologyKey": key, "labelSelector": {"matchLabels": labels}});
    let pod = json!({"metadata": {"name": format!("worker-{zone}"), "labels": labels}, "spec": {
        "nodeSelector": {key: zone},
        "affinity": {"podAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}},
        "containers": [{"name": "main", "image": "none"}],
    }});
    (node, serde_json::from_value(pod).unwrap())
}

/// The reason why the scenario `self-affinity-pinned` plans no node for the second pod.
#[tokio::test]
async fn kube_scheduler_lets_pods_with_affinity_to_themselves_start_one_domain() {
    let world = World::open("run suite").unwrap();
    let plane = world.control_plane(&Options::named("scheduler")).await.unwrap();
    let _kwok = Kwok::start(world.spawner(), plane.cluster()).unwrap();
    let client = plane.cluster().client();
    let (nodes, pods) = (Api::<Node>::all(client.clone()), Api::<Pod>::default_namespaced(client));
    let of_zones = ["a", "b"].map(pinned);
    for (node, _) in &of_zones {
        nodes.create(&PostParams::default(), node).await.unwrap();
    }
    let are_ready = |nodes: &[Node]| nodes.len() == 2 && nodes.iter().all(is_ready);
    wait::until_all(nodes, Selection::all(), SOON, "both nodes are ready", are_ready).await.unwrap();
    let has_node = |pod: &Pod| pod.spec.as_ref().is_some_and(|spec| spec.node_name.is_some());
    let is_refused = |pod: &Pod| {
        let conditions = pod.status.as_ref().and_then(|status| status.conditions.as_ref());
        let message = conditions.into_iter().flatten().find_map(|one| one.message.as_deref()).unwrap_or_default();
        message.contains("didn't match pod affinity rules")
    };
    pods.create(&PostParams::default(), &of_zones[0].1).await.unwrap();
    wait::until(pods.clone(), "worker-a", SOON, "it is bound", has_node).await.unwrap();
    pods.create(&PostParams::default(), &of_zones[1].1).await.unwrap();
    wait::until(pods, "worker-b", SOON, "it is refused", is_refused).await.unwrap();
}
