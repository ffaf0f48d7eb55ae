//! Volumes of pods on nodes that do not exist yet: a node gets no more of them than its type attaches.
//!
//! The volumes are there, so that no provisioner is needed. An m5.large attaches 27, of which its own and a second
//! network interface take one each; an m7i.16xlarge attaches 48 beside its interfaces.

use std::collections::BTreeMap;
use std::pin::pin;

use futures::StreamExt;
use k8s_openapi::api::core::v1::Node;
use k8s_openapi::api::storage::v1::CSINode;
use kube::api::{ListParams, Patch, PatchParams, PostParams};
use kube::runtime::WatchStreamExt;
use kube::runtime::watcher::{Config, watcher};
use kube::{Api, Client, ResourceExt};
use serde_json::{Value, json};
use tokio::task::JoinSet;

use super::ground::{CONTROLLER, Ground, SOON, launches, pool, requirements};

const VOLUMES: usize = 10;
const DRIVER: &str = "ebs.csi.aws.com";
/// Keeps pods from a node until the driver has said there how many volumes it attaches.
const STARTUP_TAINT: &str = "ebs.csi.aws.com/agent-not-ready";
/// Limits that the driver states of new nodes with one disk, by instance type.
const LIMITS: [(&str, u32); 2] = [("m5.large", 25), ("m7i.16xlarge", 47)];

/// A volume that is kept for the claim of this name.
fn volume(claim: &str) -> Value {
    json!({
        "apiVersion": "v1", "kind": "PersistentVolume", "metadata": {"name": claim},
        "spec": {
            "capacity": {"storage": "1Gi"}, "accessModes": ["ReadWriteOnce"], "storageClassName": "",
            "csi": {"driver": DRIVER, "volumeHandle": format!("vol-{claim}")},
            "claimRef": {"namespace": "default", "name": claim},
        },
    })
}

fn claim_spec() -> Value {
    json!({
        "accessModes": ["ReadWriteOnce"], "storageClassName": "", "resources": {"requests": {"storage": "1Gi"}},
    })
}

/// A StatefulSet for the nodes of this pool, whose replicas have so many volumes each, and the volumes.
fn stateful_set(name: &str, pool: &str, replicas: usize, volumes: usize) -> Vec<Value> {
    let templates: Vec<String> = (0..volumes).map(|volume| format!("data{volume}")).collect();
    let claims = (0..replicas).flat_map(|replica| templates.iter().map(move |of| format!("{of}-{name}-{replica}")));
    let mut objects: Vec<Value> = claims.map(|claim| volume(&claim)).collect();
    // `running` selects by `app`.
    let labels = json!({"app": "web", "set": name});
    let containers = json!([{"name": "main", "image": "none", "resources": {"requests": {"cpu": "50m"}}}]);
    let templates: Vec<Value> =
        templates.iter().map(|template| json!({"metadata": {"name": template}, "spec": claim_spec()})).collect();
    objects.push(json!({
        "apiVersion": "apps/v1", "kind": "StatefulSet", "metadata": {"name": name, "namespace": "default"},
        "spec": {
            "serviceName": name, "replicas": replicas, "podManagementPolicy": "Parallel",
            "selector": {"matchLabels": labels}, "volumeClaimTemplates": templates,
            "template": {
                "metadata": {"labels": labels},
                "spec": {"containers": containers, "nodeSelector": {"karpenter.sh/nodepool": pool}},
            },
        },
    }));
    objects
}

/// States on each node how many volumes it attaches, and removes the startup taint, as the driver does: for ever.
async fn drive(client: Client) {
    let nodes: Api<Node> = Api::all(client.clone());
    let said: Api<CSINode> = Api::all(client);
    let mut seen = pin!(watcher(nodes.clone(), Config::default()).default_backoff().applied_objects());
    while let Some(node) = seen.next().await {
        let Ok(node) = node else { continue };
        let taints = node.spec.iter().filter_map(|spec| spec.taints.as_ref()).flatten();
        let (ours, others): (Vec<_>, Vec<_>) = taints.cloned().partition(|taint| taint.key == STARTUP_TAINT);
        if ours.is_empty() {
            continue;
        }
        let name = node.name_any();
        let of_type = node.labels().get("node.kubernetes.io/instance-type");
        let (_, count) = LIMITS.into_iter().find(|(one, _)| of_type.is_some_and(|of| of == one)).unwrap();
        let driver = json!({"name": DRIVER, "nodeID": name, "allocatable": {"count": count}});
        let of_node: CSINode =
            serde_json::from_value(json!({"metadata": {"name": name}, "spec": {"drivers": [driver]}})).unwrap();
        match said.create(&PostParams::default(), &of_node).await {
            Ok(_) => {}
            Err(kube::Error::Api(status)) if status.code == 409 => {}
            Err(error) => panic!("{error}"),
        }
        // A Node that was changed meanwhile comes again.
        let version = node.resource_version();
        let patch = json!({"metadata": {"resourceVersion": version}, "spec": {"taints": others}});
        let _changed = nodes.patch(&name, &PatchParams::default(), &Patch::Merge(patch)).await;
    }
}

/// A pod `web-<number>` with its volumes and their claims.
fn pod_with_volumes(number: usize) -> Vec<Value> {
    let pod = format!("web-{number}");
    let names: Vec<String> = (0..VOLUMES).map(|volume| format!("{pod}-{volume}")).collect();
    let mut objects = Vec::new();
    for name in &names {
        objects.push(volume(name));
        let mut spec = claim_spec();
        spec["volumeName"] = json!(name);
        objects.push(json!({
            "apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": {"name": name, "namespace": "default"},
            "spec": spec,
        }));
    }
    let volumes: Vec<Value> =
        names.iter().map(|name| json!({"name": name, "persistentVolumeClaim": {"claimName": name}})).collect();
    let containers = json!([{"name": "main", "image": "none", "resources": {"requests": {"cpu": "100m"}}}]);
    objects.push(json!({
        "apiVersion": "v1", "kind": "Pod",
        "metadata": {"name": pod, "namespace": "default", "labels": {"app": "web"}},
        "spec": {"containers": containers, "volumes": volumes},
    }));
    objects
}

impl Ground {
    async fn deploy_with_volumes(&self, numbers: std::ops::Range<usize>) {
        let objects: Vec<Value> = numbers.flat_map(pod_with_volumes).collect();
        self.apply(&objects).await;
    }

    /// Creates the class, and two equal pools of nodes of both types that wait for the driver.
    async fn furnish_for_driver(&self) {
        let types = LIMITS.map(|(name, _)| name);
        let general = pool(&json!({
            "startupTaints": [{"key": STARTUP_TAINT, "effect": "NoExecute"}],
            "requirements": requirements(&types, &["us-east-1a"], &["on-demand"]),
        }));
        let mut other = general.clone();
        other["metadata"]["name"] = json!("other");
        self.apply(&[self.class(json!({})), general, other]).await;
    }

    /// Starts the driver on all nodes. It ends with the value.
    fn start_driver(&self) -> JoinSet<()> {
        let mut driver = JoinSet::new();
        driver.spawn(drive(self.kube()));
        driver
    }

    /// Checks that so many nodes were launched, whatever has become of them.
    async fn have_launched(&self, count: usize) {
        let pods = self.pods().list(&ListParams::default()).await.unwrap();
        let mut on: BTreeMap<String, Vec<String>> = BTreeMap::new();
        for pod in pods {
            let node = pod.spec.as_ref().and_then(|spec| spec.node_name.clone()).unwrap_or_default();
            on.entry(node).or_default().push(pod.name_any());
        }
        assert_eq!(launches(self), count, "{on:#?}\n{}", self.ec2.calls().by(CONTROLLER).lines());
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_new_node_gets_no_more_volumes_than_it_can_attach() {
    let ground = Ground::bare("run ec2 suite").await;
    ground.furnish_for_driver().await;
    ground.deploy_with_volumes(0..4).await;
    let _controller = ground.controller().await;
    // All four would fit on one node by what they ask for, and nothing says otherwise before the driver starts.
    ground.ec2.wait_for_calls(SOON, |_| launches(&ground) >= 2).await.unwrap();
    let _driver = ground.start_driver();
    ground.running(4, SOON).await;
    ground.have_launched(2).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn stateful_sets_with_forty_volumes_wait_for_no_attachment() {
    let ground = Ground::bare("run ec2 suite").await;
    ground.furnish_for_driver().await;
    let _controller = ground.controller().await;
    // Pods of both kinds on one node would be a question of whom kube-scheduler tries first.
    let narrow = ["a", "b", "c"].into_iter().flat_map(|name| stateful_set(name, "general", 20, 2));
    let sets: Vec<Value> = narrow.chain(stateful_set("wide", "other", 2, 40)).collect();
    ground.apply(&sets).await;
    // Nothing but the types says how many volumes the nodes attach before the driver starts.
    ground.ec2.wait_for_calls(SOON, |_| launches(&ground) >= 7).await.unwrap();
    let _driver = ground.start_driver();
    ground.running(62, SOON).await;
    // Five small nodes for 120 volumes, and a large one for each replica of `wide`.
    ground.have_launched(7).await;
}
