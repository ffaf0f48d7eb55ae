//! Volumes of pods on nodes that do not exist yet: a node gets no more of them than its type attaches.
//!
//! The volumes are there and bound, so that no provisioner is needed. An m5.large attaches 27, of which its own and a
//! second network interface take one each.

use k8s_openapi::api::storage::v1::CSINode;
use kube::api::{ListParams, PostParams};
use kube::{Api, ResourceExt};
use muster_tests::wait::{self, Selection};
use serde_json::{Value, json};

use super::ground::{Ground, SOON};

const VOLUMES: usize = 10;

/// A pod `web-<number>` with its volumes and their claims.
fn pod_with_volumes(number: usize) -> Vec<Value> {
    let pod = format!("web-{number}");
    let names: Vec<String> = (0..VOLUMES).map(|volume| format!("{pod}-{volume}")).collect();
    let modes = json!(["ReadWriteOnce"]);
    let mut objects = Vec::new();
    for name in &names {
        objects.push(json!({
            "apiVersion": "v1", "kind": "PersistentVolume", "metadata": {"name": name},
            "spec": {
                "capacity": {"storage": "1Gi"}, "accessModes": modes, "storageClassName": "",
                "csi": {"driver": "ebs.csi.aws.com", "volumeHandle": format!("vol-{name}")},
                "claimRef": {"namespace": "default", "name": name},
            },
        }));
        objects.push(json!({
            "apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": {"name": name, "namespace": "default"},
            "spec": {
                "accessModes": modes, "storageClassName": "", "volumeName": name,
                "resources": {"requests": {"storage": "1Gi"}},
            },
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

    /// Waits until there are so many claims and Nodes, and gives the names of the Nodes.
    async fn have_nodes(&self, count: usize) -> Vec<String> {
        let what = format!("{count} Nodes are there");
        let are = move |nodes: &[k8s_openapi::api::core::v1::Node]| nodes.len() == count;
        let nodes = wait::until_all(self.nodes(), Selection::all(), SOON, &what, are).await.unwrap();
        let claims = self.claims().list(&ListParams::default()).await.unwrap().items;
        assert_eq!(claims.len(), count, "{:?}", claims.iter().map(ResourceExt::name_any).collect::<Vec<_>>());
        nodes.iter().map(ResourceExt::name_any).collect()
    }

    /// What the driver of volumes reports of a node.
    async fn reports_volumes(&self, node: &str, count: i32) {
        let drivers =
            json!([{"name": "ebs.csi.aws.com", "nodeID": node, "topologyKeys": [], "allocatable": {"count": count}}]);
        let csi_node = json!({"metadata": {"name": node}, "spec": {"drivers": drivers}});
        let all: Api<CSINode> = Api::all(self.kube());
        all.create(&PostParams::default(), &serde_json::from_value(csi_node).unwrap()).await.unwrap();
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_new_node_gets_no_more_volumes_than_it_can_attach() {
    let ground = Ground::new("run ec2 suite").await;
    ground.deploy_with_volumes(0..4).await;
    let _controller = ground.controller().await;
    // All four would fit on one node by what they ask for.
    ground.running(4, SOON).await;
    let nodes = ground.have_nodes(2).await;

    // The driver says that a node attaches thirteen: the next ones get ten each.
    for node in &nodes {
        ground.reports_volumes(node, 13).await;
    }
    ground.deploy_with_volumes(4..6).await;
    ground.running(6, SOON).await;
    ground.have_nodes(4).await;
}
