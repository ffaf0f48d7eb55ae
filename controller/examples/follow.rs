//! Cost of following a cluster: waits until so many pods are known, and until they all have a node, and says what
//! CPU time and memory that took.
//!
//! ```sh
//! cargo run --release -p muster-controller --example follow -- 5000    # KUBECONFIG says which cluster
//! ```
#![expect(clippy::print_stdout, reason = "it is a program")]

use muster_controller::watch::{ClusterCache, Extras, connect_to_follow, follow};
use muster_stages::state::Cluster;

type Result<T> = std::result::Result<T, Box<dyn std::error::Error>>;

fn main() -> Result<()> {
    let count: usize = std::env::args().nth(1).ok_or("usage: follow PODS")?.parse()?;
    tokio::runtime::Builder::new_current_thread().enable_all().build()?.block_on(watch(count))
}

async fn watch(count: usize) -> Result<()> {
    let (cluster_cache, _following) = follow(&connect_to_follow(None).await?, Extras::default());
    cluster_cache.synced().await;
    report("synced", &cluster_cache);
    wait(&cluster_cache, |cluster| cluster.pods().len() >= count).await;
    report("all pods are known", &cluster_cache);
    wait(&cluster_cache, |cluster| cluster.unbound().next().is_none()).await;
    report("all pods have a node", &cluster_cache);
    wait(&cluster_cache, |cluster| cluster.pods().all(|pod| pod.pod.ready)).await;
    report("all pods are ready", &cluster_cache);
    wait(&cluster_cache, |cluster| cluster.pods().len() < count).await;
    wait(&cluster_cache, |cluster| cluster.pods().len() < 100).await;
    report("all pods are gone", &cluster_cache);
    Ok(())
}

async fn wait(cluster_cache: &ClusterCache, holds: impl Fn(&Cluster) -> bool) {
    while !holds(&cluster_cache.read()) {
        cluster_cache.changed().await;
        // The cache is read now and then, not at every change.
        tokio::time::sleep(std::time::Duration::from_millis(250)).await;
    }
}

fn report(what: &str, cluster_cache: &ClusterCache) {
    let cluster = cluster_cache.read();
    let (pods, nodes, revision) = (cluster.pods().len(), cluster.nodes().len(), cluster.revision());
    let memory = |name: &str| {
        let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
        let line = status.lines().find_map(|line| line.strip_prefix(name)).map(str::trim);
        line.and_then(|line| line.split(' ').next()?.parse::<f64>().ok()).unwrap_or_default() / 1024.0
    };
    // Nanoseconds on a CPU come first; there is one thread.
    let schedule = std::fs::read_to_string("/proc/self/schedstat").unwrap_or_default();
    let cpu = schedule.split(' ').next().and_then(|number| number.parse::<f64>().ok()).unwrap_or_default() / 1e9;
    println!(
        "{what}: {pods} pods, {nodes} nodes, revision {revision}; {cpu:.2} CPU s, {:.0} MiB, at most {:.0}",
        memory("VmRSS:"),
        memory("VmHWM:")
    );
}
