//! Machines that are wrong in a way that keeps them from joining, and say so.

use std::time::Duration;

use jiff::SignedDuration;
use k8s_openapi::api::core::v1::Node as KubeNode;
use kube::Api;
use muster_tests::instances::user_data::{self, NodeConfig};
use muster_tests::instances::{Node, Site};
use muster_tests::machine::{Image, Shape};
use muster_tests::wait::{self, Selection};
use muster_tests::{Ground, on_site};
use serde_json::json;

use super::MOST;

async fn boot(site: &Site, shape: Shape, config: serde_json::Value) -> Node {
    let mut instance = site.instance();
    let config = NodeConfig { config, ..NodeConfig::default() };
    instance.user_data = Some(user_data::al2023(site.cluster().unwrap(), &config).unwrap());
    site.boot(instance, Image::Al2023, |spec| spec.shape = shape).await.unwrap()
}

/// What the kubelet says in the journal, while no Node comes.
async fn says(site: &Site, node: &Node, words: &str) {
    if let Err(error) = node.machine.journal().line(words, MOST).await {
        panic!("{error}\n{}", node.machine.journal().tail(40));
    }
    let nodes: Api<KubeNode> = Api::all(site.cluster().unwrap().client());
    let name = &node.served.instance.host_name;
    let none = |nodes: &[KubeNode]| nodes.is_empty();
    wait::stays(nodes, Selection::named(name), Duration::from_millis(500), "no Node", none).await.unwrap();
}

#[test]
fn a_machine_with_swap_or_another_kernel_does_not_join() {
    on_site("kernel", Ground::Cluster, async |case| {
        let site = case.site();
        let swap = Shape { swap_mib: 512, ..Shape::default() };
        let node = boot(site, swap, json!({"failSwapOn": true})).await;
        says(site, &node, "running with swap on is not supported, please disable swap").await;
        let swaps = node.machine.run(["cat", "/proc/swaps"]).await.unwrap();
        assert!(swaps.lines().nth(1).unwrap().contains("524288"), "512 MiB: {swaps}");
        site.terminate(node).await.unwrap();

        let kernel = [("vm/overcommit_memory".to_owned(), "2".to_owned())].into();
        let strict = Shape { kernel, ..Shape::default() };
        let node = boot(site, strict, json!({"protectKernelDefaults": true})).await;
        says(site, &node, "invalid kernel flag: vm/overcommit_memory, expected value: 1, actual value: 2").await;
        let host = std::fs::read_to_string("/proc/sys/vm/overcommit_memory").unwrap();
        let inside = node.machine.run(["cat", "/proc/sys/vm/overcommit_memory"]).await.unwrap();
        assert_eq!((inside.trim(), host.trim() != "2"), ("2", true), "the host keeps its own");
        site.terminate(node).await.unwrap();
    });
}

/// As a machine whose clock is twenty minutes slow, or more than a year fast, sees its servers.
#[test]
fn a_machine_whose_clock_is_wrong_does_not_join() {
    for (name, ahead, words) in [
        ("slow", SignedDuration::from_mins(20), "is before"),
        ("fast", SignedDuration::from_hours(-24 * 400), "is after"),
    ] {
        on_site(name, Ground::ClusterAhead(ahead), async |case| {
            let site = case.site();
            let node = boot(site, Shape::default(), json!({})).await;
            says(site, &node, "x509: certificate has expired or is not yet valid: current time").await;
            says(site, &node, words).await;
            let ask = "exec 3<>/dev/tcp/169.254.169.254/80
                printf 'GET / HTTP/1.1\\r\\nHost: x\\r\\nConnection: close\\r\\n\\r\\n' >&3
                grep -i ^date: <&3";
            let date = node.machine.run(["bash", "-c", ask]).await.unwrap();
            let date = jiff::fmt::rfc2822::parse(date["date:".len()..].trim()).unwrap().timestamp();
            let off = date.duration_since(jiff::Timestamp::now()) - ahead;
            assert!(off.abs() < SignedDuration::from_mins(1), "the Date header of metadata: {date}");
            site.terminate(node).await.unwrap();
        });
    }
}
