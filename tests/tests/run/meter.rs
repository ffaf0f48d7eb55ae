//! What a replica takes of the machine, as the kernel and its own metrics say.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use fs_err as fs;
use muster_tests::wait;

use muster_tests::replica::Replica;

/// Clock ticks a second in `/proc`: fixed since Linux 2.6.
const TICKS: f64 = 100.0;

/// Since a moment.
pub(crate) struct Meter<'r> {
    replica: &'r Replica,
    begun: Instant,
    cpu: f64,
}

/// What was taken.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Taken {
    /// Seconds of CPU, of the program and of the kernel for it.
    pub(crate) cpu: f64,
    /// How long.
    pub(crate) wall: Duration,
    /// Memory at most, in MiB.
    pub(crate) peak: u64,
}

// === impl Meter ===

impl<'r> Meter<'r> {
    /// Begins when the replica leads, and forgets the peak of its memory until now.
    pub(crate) async fn of(replica: &'r Replica) -> Self {
        let log = replica.log().to_owned();
        let leads = wait::until_some("it leads", Duration::from_secs(120), || {
            let text = fs::read_to_string(&log).unwrap_or_default();
            async move { Ok(text.contains("leading").then_some(())) }
        });
        leads.await.unwrap();
        fs::write(format!("/proc/{}/clear_refs", replica.id().pid), "5").unwrap();
        Self { replica, begun: Instant::now(), cpu: cpu(replica) }
    }

    /// What was taken until now.
    pub(crate) fn read(&self) -> Taken {
        Taken { cpu: cpu(self.replica) - self.cpu, wall: self.begun.elapsed(), peak: mebibytes(self.replica, "VmHWM:") }
    }
}

/// Seconds of CPU since it was started.
fn cpu(replica: &Replica) -> f64 {
    let stat = fs::read_to_string(format!("/proc/{}/stat", replica.id().pid)).unwrap();
    let fields: Vec<&str> = stat.rsplit_once(')').unwrap().1.split_whitespace().collect();
    let ticks = |number: usize| fields[number - 3].parse::<f64>().unwrap();
    (ticks(14) + ticks(15)) / TICKS
}

fn mebibytes(replica: &Replica, field: &str) -> u64 {
    let status = fs::read_to_string(format!("/proc/{}/status", replica.id().pid)).unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix(field)).unwrap();
    line.trim().trim_end_matches(" kB").trim().parse::<u64>().unwrap() / 1024
}

/// How often each write was carried out since it was started, by its name.
pub(crate) async fn writes(replica: &Replica) -> BTreeMap<String, u64> {
    let log = fs::read_to_string(replica.log()).unwrap();
    let started = log.lines().filter_map(|line| serde_json::from_str::<serde_json::Value>(line).ok());
    let address = started.filter_map(|line| Some(line["metrics"].as_str()?.to_owned())).next().unwrap();
    let port = address.rsplit_once(':').unwrap().1.to_owned();
    let url = format!("http://127.0.0.1:{port}/metrics");
    let text = tokio::task::spawn_blocking(move || ureq::get(&url).call()?.body_mut().read_to_string());
    let text = text.await.unwrap().unwrap();
    let mut all = BTreeMap::new();
    for line in text.lines().filter(|line| line.starts_with("muster_writes_total{")) {
        let name = line.split("write=\"").nth(1).unwrap().split('"').next().unwrap();
        let count: u64 = line.rsplit(' ').next().unwrap().parse().unwrap();
        *all.entry(name.to_owned()).or_default() += count;
    }
    all
}
