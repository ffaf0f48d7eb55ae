//! What following a cluster costs: waits until so many pods are known, and until they all have a node, and says what CPU
//! time and memory that took.
//!
//! ```sh
//! cargo run --release -p muster-controller --example follow -- 5000    # KUBECONFIG says which cluster
//! ```
#![expect(clippy::print_stdout, reason = "it is a program")]

use muster_controller::state::Cluster;
use muster_controller::watch::{Picture, connect_to_follow, follow};

type Result<T> = std::result::Result<T, Box<dyn std::error::Error>>;

fn main() -> Result<()> {
    let count: usize = std::env::args().nth(1).ok_or("usage: follow PODS")?.parse()?;
    tokio::runtime::Builder::new_current_thread().enable_all().build()?.block_on(watch(count))
}

async fn watch(count: usize) -> Result<()> {
    let (picture, _following) = follow(&connect_to_follow(None).await?, false);
    picture.synced().await;
    report("synced", &picture);
    wait(&picture, |cluster| cluster.pods().len() >= count).await;
    report("all pods are known", &picture);
    wait(&picture, |cluster| cluster.unbound().next().is_none()).await;
    report("all pods have a node", &picture);
    wait(&picture, |cluster| cluster.pods().all(|pod| pod.pod.ready)).await;
    report("all pods are ready", &picture);
    wait(&picture, |cluster| cluster.pods().len() < count).await;
    wait(&picture, |cluster| cluster.pods().len() < 100).await;
    report("all pods are gone", &picture);
    Ok(())
}

async fn wait(picture: &Picture, holds: impl Fn(&Cluster) -> bool) {
    while !holds(&picture.glance()) {
        picture.changed().await;
        // A picture is looked at now and then, not at every change.
        tokio::time::sleep(std::time::Duration::from_millis(250)).await;
    }
}

fn report(what: &str, picture: &Picture) {
    let cluster = picture.glance();
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
