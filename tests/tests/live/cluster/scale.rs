//! Large numbers, in a world of their own. Their figures stand in `tests/README.md`.

use std::time::{Duration, Instant};

use futures::{StreamExt, TryStreamExt, stream};
use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::core::v1::{Node, Pod};
use kube::api::PostParams;
use kube::{Api, Client};
use muster_tests::cluster::{Kwok, Options, fake_node};
use muster_tests::meter::used;
use muster_tests::process::Running;
use muster_tests::snapshot::is_ready;
use muster_tests::wait::{self, Selection};
use muster_tests::world::World;
use serde_json::json;

const MOST: Duration = Duration::from_secs(600);
const NODES: usize = 500;
const PODS: usize = 5000;
/// Each Deployment has so many pods.
const REPLICAS: usize = 50;
/// Requests in flight: the API server does the work of some at once, and the rest would only wait.
const AT_ONCE: usize = 16;

async fn add_nodes(client: &Client) {
    let nodes: Api<Node> = Api::all(client.clone());
    let all = stream::iter(0..NODES).map(|number| {
        let (nodes, node) = (nodes.clone(), fake_node(&format!("node-{number:04}"), json!({})).unwrap());
        async move { nodes.create(&PostParams::default(), &node).await }
    });
    all.buffer_unordered(AT_ONCE).try_collect::<Vec<_>>().await.unwrap();
    let ready = wait::until_all(nodes, Selection::all(), MOST, "all nodes are ready", |nodes| {
        nodes.len() == NODES && nodes.iter().all(is_ready)
    });
    ready.await.unwrap();
}

async fn add_pods(client: &Client) {
    let deployments: Api<Deployment> = Api::default_namespaced(client.clone());
    let all = stream::iter(0..PODS / REPLICAS).map(|number| {
        let name = format!("web-{number:03}");
        let labels = json!({"app": name, "suite": "scale"});
        let container = json!({"name": "main", "image": "none", "resources": {"requests": {"cpu": "100m"}}});
        let template = json!({"metadata": {"labels": labels}, "spec": {"containers": [container]}});
        let spec = json!({"replicas": REPLICAS, "selector": {"matchLabels": {"app": name}}, "template": template});
        let deployment: Deployment = serde_json::from_value(json!({"metadata": {"name": name}, "spec": spec})).unwrap();
        let deployments = deployments.clone();
        async move { deployments.create(&PostParams::default(), &deployment).await }
    });
    all.buffer_unordered(AT_ONCE).try_collect::<Vec<_>>().await.unwrap();
    let pods: Api<Pod> = Api::default_namespaced(client.clone());
    let running = wait::until_all(pods, Selection::labelled("suite=scale"), MOST, "all pods run", |pods| {
        let is_running = |pod: &Pod| pod.status.as_ref().is_some_and(|it| it.phase.as_deref() == Some("Running"));
        pods.len() == PODS && pods.iter().all(is_running)
    });
    running.await.unwrap();
}

/// Resident memory in MiB.
fn memory(server: &Running) -> u64 {
    used(server.id()).unwrap().memory >> 20
}

#[tokio::test]
#[ignore = "scale tier: takes minutes"]
async fn five_hundred_nodes_run_five_thousand_pods() {
    let world = World::open("scale suite").unwrap();
    let start = Instant::now();
    let plane = world.control_plane(&Options::named("scale")).await.unwrap();
    let kwok = Kwok::start(world.spawner(), plane.cluster()).unwrap();
    println!("control plane: {:.1} s", start.elapsed().as_secs_f64());
    let client = plane.cluster().client();
    let start = Instant::now();
    add_nodes(&client).await;
    println!("{NODES} nodes ready: {:.1} s", start.elapsed().as_secs_f64());
    let start = Instant::now();
    add_pods(&client).await;
    println!("{PODS} pods running: {:.1} s", start.elapsed().as_secs_f64());
    for server in plane.servers().iter().chain([kwok.server()]) {
        println!("{}: {} MiB", server.name(), memory(server));
    }
    drop(kwok);
    drop(plane);
    world.close().unwrap();
}
