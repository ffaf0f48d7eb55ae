//! Pods and nodes: the scheduler, the controllers and KWOK, and what a test must not leave behind.

use std::panic::catch_unwind;
use std::time::Duration;

use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::core::v1::{ConfigMap, Node, Pod};
use kube::Api;
use kube::api::{DeleteParams, PostParams};
use muster_tests::case::kept_logs;
use muster_tests::cluster::fake_node;
use muster_tests::snapshot::{Snapshot, is_ready};
use muster_tests::wait::{self, Selection};
use muster_tests::world::Part;
use muster_tests::{Case, case};
use serde_json::{Value, json};

const SOON: Duration = Duration::from_secs(60);
const PARTS: [Part; 2] = [Part::Cluster, Part::Kwok];

/// A Deployment whose pods go to nodes with the label `pool=<id>` and nowhere else.
fn web(case: &Case, replicas: u32, cpu: &str) -> Deployment {
    let labels = json!({"app": "web"});
    let template = json!({
        "metadata": {"labels": labels},
        "spec": {
            "nodeSelector": {"pool": case.id()},
            "containers": [{"name": "main", "image": "none", "resources": {"requests": {"cpu": cpu}}}],
        },
    });
    let spec = json!({"replicas": replicas, "selector": {"matchLabels": labels}, "template": template});
    serde_json::from_value(json!({"metadata": {"name": "web"}, "spec": spec})).unwrap()
}

async fn add_node(case: &Case, name: &str, with: Value) -> Api<Node> {
    let nodes: Api<Node> = Api::all(case.cluster().client());
    let mut node = fake_node(name, with).unwrap();
    node.metadata.labels.get_or_insert_default().insert("pool".to_owned(), case.id().to_owned());
    nodes.create(&PostParams::default(), &node).await.unwrap();
    nodes
}

async fn remove_node(nodes: Api<Node>, name: &str) {
    nodes.delete(name, &DeleteParams::default()).await.unwrap();
    wait::until_gone(nodes, name, SOON).await.unwrap();
}

fn condition<'a>(pod: &'a Pod, kind: &str) -> Option<&'a k8s_openapi::api::core::v1::PodCondition> {
    pod.status.as_ref()?.conditions.as_ref()?.iter().find(|condition| condition.type_ == kind)
}

#[test]
fn a_deployment_waits_for_a_node_and_runs_on_it() {
    case("deployment", &PARTS, async |case| {
        let deployments: Api<Deployment> = Api::namespaced(case.cluster().client(), case.namespace());
        let pods: Api<Pod> = Api::namespaced(case.cluster().client(), case.namespace());
        deployments.create(&PostParams::default(), &web(case, 3, "1")).await.unwrap();
        let pending = wait::until_all(pods, Selection::labelled("app=web"), SOON, "three pods are refused", |pods| {
            let is_refused = |pod: &Pod| {
                condition(pod, "PodScheduled").is_some_and(|it| it.reason.as_deref() == Some("Unschedulable"))
            };
            pods.len() == 3 && pods.iter().all(is_refused)
        });
        pending.await.unwrap();

        let name = case.named("node");
        let nodes =
            add_node(case, &name, json!({"spec": {"providerID": "aws:///us-east-1a/i-0123456789abcdef0"}})).await;
        wait::until(nodes.clone(), &name, SOON, "the node is ready", is_ready).await.unwrap();
        let available = wait::until(deployments.clone(), "web", SOON, "three replicas are available", |web| {
            web.status.as_ref().and_then(|status| status.available_replicas) == Some(3)
        });
        available.await.unwrap();

        let snapshot = Snapshot::take(case.cluster(), Vec::new(), case.id()).await.unwrap().to_string();
        let line = snapshot.lines().nth(1).unwrap();
        assert!(line.starts_with("(i-0123456789abcdef0)") && line.contains(&format!("{name} Ready")), "{snapshot}");
        assert_eq!(line.matches("web-").count(), 3, "{snapshot}");

        deployments.delete("web", &DeleteParams::foreground()).await.unwrap();
        wait::until_gone(deployments, "web", SOON).await.unwrap();
        remove_node(nodes, &name).await;
    });
}

/// As a node that Karpenter has launched: pods keep off it until the taint goes.
#[test]
fn a_taint_keeps_pods_off_until_it_is_removed() {
    case("taint", &PARTS, async |case| {
        let name = case.named("node");
        let taint = json!({"key": "karpenter.sh/unregistered", "effect": "NoExecute"});
        let nodes = add_node(case, &name, json!({"spec": {"taints": [taint]}})).await;
        wait::until(nodes.clone(), &name, SOON, "the node is ready", is_ready).await.unwrap();
        let deployments: Api<Deployment> = Api::namespaced(case.cluster().client(), case.namespace());
        let pods: Api<Pod> = Api::namespaced(case.cluster().client(), case.namespace());
        deployments.create(&PostParams::default(), &web(case, 1, "1")).await.unwrap();
        let selection = || Selection::labelled("app=web");
        let pod = wait::until_all(pods.clone(), selection(), SOON, "the scheduler blames the taint", |pods| {
            let message = pods.first().and_then(|pod| condition(pod, "PodScheduled")?.message.as_deref());
            message.is_some_and(|message| message.contains("1 node(s) had untolerated taint(s)"))
        });
        pod.await.unwrap();
        let still = wait::stays(pods.clone(), selection(), Duration::from_secs(1), "no pod is bound", |pods| {
            pods.iter().all(|pod| pod.spec.as_ref().is_some_and(|spec| spec.node_name.is_none()))
        });
        still.await.unwrap();

        let taint = "karpenter.sh/unregistered:NoExecute-";
        case.cluster().kubectl(&["taint", "node", &name, taint]).await.unwrap();
        let bound = wait::until_all(pods, selection(), SOON, "the pod is bound", |pods| {
            pods.iter().any(|pod| pod.spec.as_ref().is_some_and(|spec| spec.node_name.as_deref() == Some(&name)))
        });
        bound.await.unwrap();
        deployments.delete("web", &DeleteParams::foreground()).await.unwrap();
        wait::until_gone(deployments, "web", SOON).await.unwrap();
        remove_node(nodes, &name).await;
    });
}

#[test]
fn a_deadline_says_what_was_seen_last() {
    case("deadline", &[Part::Cluster], async |case| {
        let maps: Api<ConfigMap> = Api::namespaced(case.cluster().client(), case.namespace());
        let map = serde_json::from_value(json!({"metadata": {"name": "seen"}, "data": {"state": "pending"}})).unwrap();
        maps.create(&PostParams::default(), &map).await.unwrap();
        let never = wait::until(maps, "seen", Duration::from_secs(1), "its state is done", |map| {
            map.data.iter().flatten().any(|(_, state)| state == "done")
        });
        let error = never.await.unwrap_err();
        assert!(error.is_deadline());
        let text = error.to_string();
        assert!(text.starts_with("its state is done: not so after 1 s; last seen: ["), "{text}");
        assert!(text.contains(r#""state": "pending""#) && !text.contains("managedFields"), "{text}");
    });
}

#[test]
fn a_test_that_leaves_a_node_behind_fails() {
    let left = std::sync::Mutex::new(None);
    let outcome = catch_unwind(|| {
        case("leak", &[Part::Cluster], async |case| {
            let name = case.named("forgotten");
            add_node(case, &name, json!({})).await;
            *left.lock().unwrap() = Some((case.cluster().clone(), name, case.namespace().to_owned()));
        });
    });
    let message = *outcome.unwrap_err().downcast::<String>().unwrap();
    let (cluster, name, namespace) = left.into_inner().unwrap().unwrap();
    assert!(message.contains(&format!("`leak` left behind:\nNode `{name}`")), "{message}");
    // What every failed test leaves for whoever looks into it.
    let logs = kept_logs(&namespace);
    let requests = std::fs::read_to_string(logs.join("shared-audit.log")).unwrap();
    assert!(requests.contains(&name));
    std::fs::remove_dir_all(logs).unwrap();

    // Now that it was noticed, for the sake of the others. In a runtime of its own: the case has taken its own along.
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(cluster.kubectl(&["delete", "node", &name])).unwrap();
}
