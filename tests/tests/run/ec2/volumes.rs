//! Volumes of pods on nodes that do not exist yet: a node gets no more of them than its type attaches.
//!
//! The volumes are there and bound, so that no provisioner is needed. An m5.large attaches 27, of which its own and a
//! second network interface take one each.

use serde_json::{Value, json};

use super::ground::{CONTROLLER, Ground, SOON, launches};

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

    /// Checks that so many nodes were launched, whatever has become of them: kube-scheduler knows no limit before the
    /// driver has registered, and may leave some empty.
    fn have_launched(&self, count: usize) {
        assert_eq!(launches(self), count, "{}", self.ec2.calls().by(CONTROLLER).lines());
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_new_node_gets_no_more_volumes_than_it_can_attach() {
    let ground = Ground::new("run ec2 suite").await;
    ground.deploy_with_volumes(0..4).await;
    let _controller = ground.controller().await;
    // All four would fit on one node by what they ask for.
    ground.running(4, SOON).await;
    ground.have_launched(2);
}
