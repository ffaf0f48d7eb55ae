//! Many machines, and machines whose owner dies.

use std::time::Instant;

use k8s_openapi::api::core::v1::Node as KubeNode;
use kube::Api;
use muster_tests::instances::user_data::{self, NodeConfig};
use muster_tests::instances::{Node, Site};
use muster_tests::machine::Image;
use muster_tests::wait::{self, Selection};
use muster_tests::{Ground, on_site};

use super::{MOST, node::is_ready};

async fn launch(site: &Site) -> Node {
    let mut instance = site.instance();
    instance.user_data = Some(user_data::al2023(site.cluster().unwrap(), &NodeConfig::default()).unwrap());
    site.boot(instance, Image::Al2023, |_| {}).await.unwrap()
}

/// Launches `count` machines at once, waits until all are Ready, terminates them.
async fn together(site: &Site, count: usize) {
    let free = available();
    let start = Instant::now();
    let nodes = futures::future::join_all((0..count).map(|_| launch(site))).await;
    let api: Api<KubeNode> = Api::all(site.cluster().unwrap().client());
    let mut times = Vec::new();
    let all = wait::until_all(api, Selection::all(), MOST * 3, "all nodes are Ready", |found| {
        times.resize(found.iter().filter(|node| is_ready(node)).count().max(times.len()), start.elapsed());
        times.len() == count
    });
    if let Err(error) = all.await {
        panic!("{error}\n{}", nodes[0].machine.journal().tail(30));
    }
    let used = free.saturating_sub(available()) / count as u64;
    println!(
        "{count} at once: Ready after {:?} (median), {:?} (last), {used} MiB each",
        times[count / 2],
        times[count - 1]
    );
    let start = Instant::now();
    futures::future::join_all(nodes.into_iter().map(|node| site.terminate(node)))
        .await
        .into_iter()
        .for_each(Result::unwrap);
    println!("{count} gone after {:?}", start.elapsed());
}

/// MiB of memory that are free or can be freed.
fn available() -> u64 {
    let mut system = sysinfo::System::new().unwrap();
    system.refresh_memory();
    system.available_memory() >> 20
}

#[test]
fn three_at_once_and_each_is_a_node_of_its_own() {
    on_site("three", Ground::Cluster, async |case| {
        let site = case.site();
        together(site, 3).await;
    });
}

/// Scale: ten at once, and nine one after the other for a median.
#[test]
#[ignore = "scale"]
fn ten_at_once_and_nine_in_a_row() {
    on_site("ten", Ground::Cluster, async |case| {
        let site = case.site();
        together(site, 10).await;
        site.cluster().unwrap().kubectl(&["delete", "nodes", "--all"]).await.unwrap();
        let api: Api<KubeNode> = Api::all(site.cluster().unwrap().client());
        let (mut ready, mut gone) = (Vec::new(), Vec::new());
        for _ in 0..9 {
            let start = Instant::now();
            let node = launch(site).await;
            wait::until(api.clone(), &node.served.instance.host_name, MOST, "the node is Ready", is_ready)
                .await
                .unwrap();
            ready.push(start.elapsed());
            let start = Instant::now();
            site.terminate(node).await.unwrap();
            gone.push(start.elapsed());
        }
        ready.sort();
        gone.sort();
        println!(
            "one: Ready after {:?} (median of 9, {:?} to {:?}), gone after {:?}",
            ready[4], ready[0], ready[8], gone[4]
        );
    });
}
