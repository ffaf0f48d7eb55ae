//! Devices of a machine as the cluster sees them.
//!
//! Needs of the world: root, for namespaces; the programs of `tests/setup`.

#![expect(clippy::panic, reason = "a test that cannot go on has failed, and says what it saw")]

use std::time::{Duration, Instant};

use k8s_openapi::api::core::v1::Node as KubeNode;
use kube::Api;
use muster_tests::cluster::Cluster;
use muster_tests::instances::{Node, user_data};
use muster_tests::machine::{BUSYBOX, Image, Inventory};
use muster_tests::{Ground, on_site, wait};

/// How long anything here may take. Seconds on an idle machine; this is for one that builds on all cores.
const MOST: Duration = Duration::from_secs(60);

/// Waits until the Node has these numbers of a resource: in its capacity, and to give away.
async fn has(cluster: &Cluster, node: &Node, resource: &str, capacity: &str, allocatable: &str) {
    let nodes: Api<KubeNode> = Api::all(cluster.client());
    let what = format!("the node has {resource}: {capacity}, {allocatable} of them to give away");
    let found = wait::until(nodes, &node.served.instance.host_name, MOST, &what, |node| {
        let Some(status) = &node.status else { return false };
        let number = |of: &Option<std::collections::BTreeMap<String, _>>| {
            of.as_ref()
                .and_then(|of| of.get(resource))
                .map(|quantity: &k8s_openapi::apimachinery::pkg::api::resource::Quantity| quantity.0.clone())
        };
        number(&status.capacity).as_deref() == Some(capacity)
            && number(&status.allocatable).as_deref() == Some(allocatable)
    });
    if let Err(error) = found.await {
        panic!("{error}\n{}", node.machine.journal().tail(40));
    }
}

#[test]
fn devices_are_counted_given_to_pods_and_lost() {
    on_site("devices", Ground::Cluster, async |case| {
        let site = case.site();
        let cluster = site.cluster().unwrap();
        let mut instance = site.instance();
        instance.user_data = Some(user_data::al2023(cluster, &user_data::NodeConfig::default()).unwrap());
        let node = site.boot(instance, Image::Al2023, |_| {}).await.unwrap();
        node.machine.booted(MOST).await.unwrap();

        let start = Instant::now();
        let gpus = Inventory::nvidia(2);
        node.machine.plug_in(&gpus).await.unwrap();
        node.machine.plug_in(&Inventory::efa(1)).await.unwrap();
        has(cluster, &node, "nvidia.com/gpu", "2", "2").await;
        println!("two GPUs after {:?}", start.elapsed());
        has(cluster, &node, "vpc.amazonaws.com/efa", "1", "1").await;

        let overrides = format!(
            r#"{{"spec":{{"containers":[{{"name":"cuda","image":"{BUSYBOX}","resources":{{"limits":{{"nvidia.com/gpu":"1"}}}}}}]}}}}"#
        );
        cluster.kubectl(&["run", "cuda", "--image", BUSYBOX, "--overrides", &overrides]).await.unwrap();
        cluster.kubectl(&["wait", "pod/cuda", "--for=condition=Ready", "--timeout=60s"]).await.unwrap();
        let seen = cluster
            .kubectl(&["exec", "cuda", "--", "sh", "-c", "echo $NVIDIA_VISIBLE_DEVICES; ls /dev"])
            .await
            .unwrap();
        let (ids, dev) = seen.split_once('\n').unwrap();
        let number = ids.strip_prefix("GPU-").unwrap();
        assert!(dev.lines().any(|line| line == format!("nvidia{number}")), "{seen}");

        let start = Instant::now();
        node.machine.change_devices(&gpus.clone().with_unhealthy("GPU-1")).await.unwrap();
        has(cluster, &node, "nvidia.com/gpu", "2", "1").await;
        println!("one is lost after {:?}", start.elapsed());

        // The kubelet forgets its plugins when it starts; each must register again.
        node.machine.change_devices(&gpus).await.unwrap();
        node.machine.run(["systemctl", "restart", "kubelet"]).await.unwrap();
        has(cluster, &node, "nvidia.com/gpu", "2", "2").await;
        node.machine.unplug(&gpus).await.unwrap();
        has(cluster, &node, "nvidia.com/gpu", "2", "0").await;
        site.terminate(node).await.unwrap();
    });
}
