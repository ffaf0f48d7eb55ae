//! Instances that become less than a machine, and what a test that forgets one is told.

use std::panic::catch_unwind;
use std::time::Duration;

use k8s_openapi::api::core::v1::{Node as KubeNode, Pod};
use kube::Api;
use muster_tests::case::{Ground, OnSite, kept_logs, on_site};
use muster_tests::cluster::Kwok;
use muster_tests::instances::{Becomes, Bridge};
use muster_tests::snapshot::is_ready;
use muster_tests::wait::{self, Selection};

use super::MOST;
use crate::world::launch::{Launches, is_of};

/// A bridge that does what the tag `becomes` says.
async fn start(case: &OnSite) -> (Bridge, Launches) {
    let ec2 = case.ec2().await.unwrap();
    let bridge = Bridge::start(case.site(), ec2, |instance| match instance.tags["becomes"].as_str() {
        "kwok" => Becomes::KwokNode,
        _ => Becomes::Nothing,
    });
    (bridge, Launches::prepare(ec2, b"#!/bin/sh\n").await)
}

#[test]
fn an_instance_can_be_a_node_of_kwok() {
    on_site("kwok", Ground::Cluster, async |case| {
        let cluster = case.cluster().unwrap();
        let kwok = Kwok::start(case.site().world().spawner(), cluster).unwrap();
        let (bridge, launches) = start(case).await;
        let id = launches.one("kwok").await;
        let nodes: Api<KubeNode> = Api::all(cluster.client());
        let is_there = |nodes: &[KubeNode]| nodes.iter().any(|node| is_of(node, &id) && is_ready(node));
        let found = wait::until_all(nodes.clone(), Selection::all(), MOST, "KWOK's node is Ready", is_there).await;
        let node = found.unwrap().remove(0);
        let labels = node.metadata.labels.unwrap();
        assert_eq!(labels["node.kubernetes.io/instance-type"], "m5.xlarge");
        assert_eq!(node.status.unwrap().capacity.unwrap()["cpu"].0, "4");

        cluster.kubectl(&["run", "web", "--image=any", "--restart=Never"]).await.unwrap();
        let pods: Api<Pod> = Api::default_namespaced(cluster.client());
        let runs = wait::until(pods, "web", MOST, "its pod runs", |pod| {
            pod.status.as_ref().and_then(|status| status.phase.as_deref()) == Some("Running")
        });
        assert_eq!(runs.await.unwrap().spec.unwrap().node_name, node.metadata.name);

        launches.terminate(&id).await;
        bridge.gone(&id, MOST).await.unwrap();
        wait::until_gone(nodes, &node.metadata.name.unwrap(), MOST).await.unwrap();
        launches.clean_up().await;
        drop(kwok);
    });
}

#[test]
fn an_instance_can_be_one_that_never_joins() {
    on_site("nothing", Ground::Cluster, async |case| {
        let (bridge, launches) = start(case).await;
        let id = launches.one("nothing").await;
        let running = launches.client.describe_instances().instance_ids(&id).send().await.unwrap();
        let state = running.reservations()[0].instances()[0].state().unwrap().name().unwrap();
        assert_eq!(state.as_str(), "running", "EC2 sees nothing wrong with it");
        let nodes: Api<KubeNode> = Api::all(case.cluster().unwrap().client());
        let none = |nodes: &[KubeNode]| nodes.is_empty();
        wait::stays(nodes, Selection::all(), Duration::from_secs(1), "no Node", none).await.unwrap();
        let error = bridge.node(&id, Duration::from_millis(10)).await.unwrap_err();
        assert!(error.is_deadline(), "{error}");
        launches.terminate(&id).await;
        bridge.gone(&id, MOST).await.unwrap();
        launches.clean_up().await;
    });
}

#[test]
fn a_test_that_forgets_an_instance_fails_and_keeps_all_logs() {
    let seen = std::sync::Mutex::new(None);
    let outcome = catch_unwind(|| {
        on_site("forgets", Ground::Cluster, async |case| {
            let (_bridge, launches) = start(case).await;
            let id = launches.one("nothing").await;
            *seen.lock().unwrap() = Some((id, case.title().to_owned()));
        });
    });
    let message = *outcome.unwrap_err().downcast::<String>().unwrap();
    let (id, title) = seen.into_inner().unwrap().unwrap();
    assert!(message.contains(&format!("instance `{id}`")), "{message}");
    assert!(message.contains("launch template `nodes`"), "{message}");
    assert!(message.contains("volume `vol-"), "{message}");

    let folder = kept_logs(&title);
    let read = |name: &str| std::fs::read_to_string(folder.join(name)).unwrap();
    assert!(read("ec2-calls.jsonl").contains("CreateFleet"));
    assert!(read("picture.txt").contains(&id));
    assert!(read("plane-audit.log").contains("\"verb\":\"create\""));
    assert!(folder.join("plane-kube-apiserver.log").is_file() && folder.join("moto.log").is_file());
    std::fs::remove_dir_all(folder).unwrap();
}
