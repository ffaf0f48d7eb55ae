//! Machines that join a cluster.

use std::time::Instant;

use futures::TryStreamExt;
use k8s_openapi::api::core::v1::Node as KubeNode;
use kube::runtime::watcher::{Config, Event, watcher};
use kube::{Api, ResourceExt};
use muster_tests::instances::user_data::{self, NodeConfig};
use muster_tests::instances::{Node, Site};
use muster_tests::machine::{BUSYBOX, Image, Shape};
use muster_tests::{Ground, on_site, wait};
use serde_json::json;

use super::MOST;

pub(crate) fn is_ready(node: &KubeNode) -> bool {
    let conditions = node.status.as_ref().and_then(|status| status.conditions.as_ref());
    conditions.into_iter().flatten().any(|condition| condition.type_ == "Ready" && condition.status == "True")
}

/// Waits until the Node of a machine is Ready; on failure shows what the machine said.
async fn ready(site: &Site, node: &Node) -> KubeNode {
    let nodes: Api<KubeNode> = Api::all(site.cluster().unwrap().client());
    let name = &node.served.instance.host_name;
    match wait::until(nodes, name, MOST, "the node is Ready", is_ready).await {
        Ok(found) => found,
        Err(error) => {
            let journal = node.machine.journal().tail(60);
            panic!("{error}\n--- console\n{}\n--- journal\n{journal}", node.machine.console().tail(40));
        }
    }
}

#[test]
fn an_al2023_machine_becomes_the_node_that_its_user_data_says() {
    on_site("al2023", Ground::Cluster, async |case| {
        let site = case.site();
        let cluster = site.cluster().unwrap();
        let nodes: Api<KubeNode> = Api::all(cluster.client());
        let first = tokio::spawn(first_version(nodes));

        let start = Instant::now();
        let mut instance = site.instance();
        instance.instance_type = "c5.4xlarge".to_owned();
        let config = NodeConfig {
            taints: json!([{"key": "karpenter.sh/unregistered", "effect": "NoExecute"}]),
            config: json!({"maxPods": 12}),
            script: "echo first >/run/first".to_owned(),
            ..NodeConfig::default()
        };
        instance.user_data = Some(user_data::al2023(cluster, &config).unwrap());
        let shape = Shape::of_type("c5.4xlarge").unwrap();
        let node = site.boot(instance, Image::Al2023, |spec| spec.shape = shape).await.unwrap();
        let found = ready(site, &node).await;
        println!("Ready after {:?}", start.elapsed());

        let first = first.await.unwrap();
        let taints = first.spec.as_ref().and_then(|spec| spec.taints.clone()).unwrap_or_default();
        assert!(
            taints.iter().any(|taint| taint.key == "karpenter.sh/unregistered" && taint.effect == "NoExecute"),
            "{taints:?}"
        );
        assert_eq!(first.labels()["karpenter.sh/nodepool"], "default", "from its first version");
        let capacity = found.status.unwrap().capacity.unwrap();
        assert_eq!(capacity["cpu"].0, "16");
        assert_eq!(capacity["memory"].0, "30Gi");
        assert_eq!(capacity["pods"].0, "12", "Karpenter's part comes last and wins");
        let id = &node.served.instance.instance_id;
        assert_eq!(found.spec.unwrap().provider_id.unwrap(), format!("aws:///us-west-2a/{id}"));
        assert_eq!(node.machine.run(["cat", "/run/first"]).await.unwrap(), "first\n", "user scripts ran");

        let start = Instant::now();
        site.terminate(node).await.unwrap();
        println!("gone after {:?}", start.elapsed());
    });
}

#[test]
fn pods_run_on_a_machine_and_it_suffers_what_a_test_does_to_it() {
    on_site("faults", Ground::Cluster, async |case| {
        let site = case.site();
        let cluster = site.cluster().unwrap();
        let mut instance = site.instance();
        instance.user_data = Some(user_data::al2023(cluster, &NodeConfig::default()).unwrap());
        let node = site.boot(instance, Image::Al2023, |_| {}).await.unwrap();
        ready(site, &node).await;

        let start = Instant::now();
        let deployment = [
            "create",
            "deployment",
            "web",
            "--image",
            BUSYBOX,
            "--replicas=2",
            "--",
            "sh",
            "-c",
            "trap 'exit 0' TERM; echo hello from $HOSTNAME; while :; do sleep 3600 & wait; done",
        ];
        cluster.kubectl(&deployment).await.unwrap();
        if let Err(error) = cluster.kubectl(&["rollout", "status", "deployment/web", "--timeout=60s"]).await {
            let events = cluster.kubectl(&["get", "events", "--all-namespaces"]).await.unwrap();
            panic!("{error}\n{events}");
        }
        println!("a Deployment of two is rolled out {:?} after it was made", start.elapsed());
        let logs = cluster.kubectl(&["logs", "deployment/web"]).await.unwrap();
        assert!(logs.starts_with("hello from web-"), "{logs}");
        let said = cluster.kubectl(&["exec", "deployment/web", "--", "cat", "/proc/1/comm"]).await.unwrap();
        assert_eq!(said, "sh\n");

        node.machine.fill_disk().await.unwrap();
        let full = node.machine.put("/var/lib/kubelet/more".as_ref(), &"x".repeat(1 << 20)).await.unwrap_err();
        assert!(full.to_string().contains("No space left on device"), "{full}");
        condition(site, &node, "DiskPressure", "True").await;
        node.machine.empty_disk().await.unwrap();
        node.machine.put("/var/lib/kubelet/more".as_ref(), &"x".repeat(1 << 20)).await.unwrap();

        node.machine.stop_containerd().await.unwrap();
        condition(site, &node, "Ready", "False").await;
        node.machine.run(["systemctl", "start", "containerd"]).await.unwrap();
        condition(site, &node, "Ready", "True").await;

        node.machine.kill_kubelet().await.unwrap();
        node.machine.journal().line("kubelet.service: Scheduled restart job", MOST).await.unwrap();

        node.machine.cut_network().await.unwrap();
        assert!(
            node.machine.run(["timeout", "2", "imds", "meta-data/instance-id"]).await.is_err(),
            "metadata is cut off"
        );
        node.machine.mend_network().await.unwrap();
        node.machine.run(["imds", "meta-data/instance-id"]).await.unwrap();
        site.terminate(node).await.unwrap();
    });
}

/// Waits until the Node's condition of this kind has this status.
async fn condition(site: &Site, node: &Node, kind: &str, status: &str) {
    let nodes: Api<KubeNode> = Api::all(site.cluster().unwrap().client());
    let what = format!("{kind} is {status}");
    let name = &node.served.instance.host_name;
    let found = wait::until(nodes, name, MOST, &what, |node| {
        let conditions = node.status.as_ref().and_then(|status| status.conditions.as_ref());
        conditions.into_iter().flatten().any(|condition| condition.type_ == kind && condition.status == status)
    });
    if let Err(error) = found.await {
        panic!("{error}\n{}", node.machine.journal().tail(40));
    }
}

#[test]
fn an_al2_machine_joins_by_the_script_of_its_image() {
    on_site("al2", Ground::Cluster, async |case| {
        let site = case.site();
        let mut instance = site.instance();
        instance.user_data = Some(user_data::al2(site.cluster().unwrap(), "karpenter.sh/nodepool=default").unwrap());
        let node = site.boot(instance, Image::Al2, |_| {}).await.unwrap();
        let found = ready(site, &node).await;
        assert_eq!(found.labels()["karpenter.sh/nodepool"], "default");
        assert_eq!(found.status.unwrap().capacity.unwrap()["pods"].0, "29", "from eni-max-pods.txt");
        let log = node.machine.run(["cat", "/var/log/user-data.log"]).await.unwrap();
        assert!(log.contains("[eks-bootstrap] INFO: complete!"), "{log}");
        site.terminate(node).await.unwrap();
    });
}

/// The first version of the first Node that the API server tells of.
async fn first_version(nodes: Api<KubeNode>) -> KubeNode {
    let mut events = std::pin::pin!(watcher(nodes, Config::default()));
    while let Some(event) = events.try_next().await.unwrap() {
        if let Event::Apply(node) | Event::InitApply(node) = event {
            return node;
        }
    }
    panic!("the watch ended")
}
