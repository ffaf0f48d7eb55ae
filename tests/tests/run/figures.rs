//! What it costs to place a thousand and five thousand pods at once: the workload of Karpenter's own comparison.

use std::time::{Duration, Instant};

use kube::api::ListParams;
use muster_tests::process::Running;
use muster_tests::wait::{self, Selection};

use super::ground::{Ground, condition, hourly_price};

/// How long the largest may take on a machine that does other things.
const LONG: Duration = Duration::from_secs(600);

/// Of `/proc/PID/status`, in MiB.
fn peak(replica: &Running) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{}/status", replica.id().pid)).unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).unwrap();
    line.trim().trim_end_matches(" kB").trim().parse::<u64>().unwrap() / 1024
}

/// CPU seconds since it was started.
fn cpu(replica: &Running) -> f64 {
    let stat = std::fs::read_to_string(format!("/proc/{}/stat", replica.id().pid)).unwrap();
    let fields: Vec<&str> = stat.rsplit_once(')').unwrap().1.split_whitespace().collect();
    let ticks = |number: usize| fields[number - 3].parse::<f64>().unwrap();
    (ticks(14) + ticks(15)) / 100.0
}

async fn measure(count: usize) {
    let ground = Ground::new("run figures").await;
    let replica = ground.replica("muster");
    let log = replica.log().to_owned();
    let leads = wait::until_some("it leads", LONG, || {
        let text = std::fs::read_to_string(&log).unwrap_or_default();
        async move { Ok(text.contains("leading").then_some(())) }
    });
    leads.await.unwrap();
    let (before, begun) = (cpu(&replica), Instant::now());
    ground.deploy(count).await;
    ground.running(count, LONG).await;
    let bound = begun.elapsed();
    let ready = wait::until_all(ground.claims(), Selection::all(), LONG, "all claims are ready", |claims| {
        !claims.is_empty() && claims.iter().all(|claim| condition(claim, "Ready") == "True")
    });
    let claims = ready.await.unwrap();
    let nodes = ground.nodes().list(&ListParams::default()).await.unwrap().items;
    let price = hourly_price(&nodes);
    println!(
        "{count} pods: {:.2} CPU s, peak {} MiB, {} nodes, {} claims, {price:.3} USD/h, all run after {:.1} s",
        cpu(&replica) - before,
        peak(&replica),
        nodes.len(),
        claims.len(),
        bound.as_secs_f64(),
    );
    ground.scale(0).await;
    ground.clear(LONG).await;
}

#[tokio::test]
#[ignore = "scale: minutes, and its figures are those of an optimised program"]
async fn a_thousand_pods() {
    measure(1000).await;
}

#[tokio::test]
#[ignore = "scale: minutes, and its figures are those of an optimised program"]
async fn five_thousand_pods() {
    measure(5000).await;
}
