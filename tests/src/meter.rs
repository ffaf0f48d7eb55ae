//! What a replica takes of the machine, as the kernel and its own metrics say.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use fs_err as fs;
use sysinfo::{Pid, ProcessRefreshKind, ProcessesToUpdate, System};

use crate::error::{Error, Result};
use crate::ledger::ProcessId;
use crate::replica::Replica;
use crate::wait;

/// As much is read of its metrics, in bytes.
const LONGEST_TEXT: u64 = 100_000_000;

/// Since a moment.
pub struct Meter<'r> {
    replica: &'r Replica,
    begun: Instant,
    cpu: Duration,
}

/// What was taken.
#[derive(Debug, Clone, Copy)]
pub struct Taken {
    /// Seconds of CPU, of the program and of the kernel for it.
    pub cpu: f64,
    /// How long.
    pub wall: Duration,
    /// Memory at most, in MiB.
    pub peak: u64,
    /// Memory at the end, in MiB.
    pub now: u64,
}

// === impl Meter ===

impl<'r> Meter<'r> {
    /// Begins when the replica leads, and forgets the peak of its memory until now.
    ///
    /// # Errors
    /// It does not lead in time, or the kernel does not say.
    pub async fn of(replica: &'r Replica) -> Result<Self> {
        let leads = wait::until_some("it leads", Duration::from_secs(120), || async {
            Ok(replica.said().contains("leading").then_some(()))
        });
        leads.await?;
        Self::from_now(replica)
    }

    /// Begins now, and forgets the peak of its memory until now.
    ///
    /// # Errors
    /// The kernel does not say.
    pub fn from_now(replica: &'r Replica) -> Result<Self> {
        fs::write(format!("/proc/{}/clear_refs", replica.id().pid), "5")?;
        Ok(Self { replica, begun: Instant::now(), cpu: used(replica.id())?.cpu })
    }

    /// What was taken until now.
    ///
    /// # Errors
    /// The kernel does not say, such as of a process that has ended.
    pub fn read(&self) -> Result<Taken> {
        let Used { cpu, memory } = used(self.replica.id())?;
        Ok(Taken {
            cpu: cpu.saturating_sub(self.cpu).as_secs_f64(),
            wall: self.begun.elapsed(),
            peak: peak(self.replica)?,
            now: memory >> 20,
        })
    }
}

impl Taken {
    /// Cores that it kept busy, on average.
    pub fn cores(&self) -> f64 {
        self.cpu / self.wall.as_secs_f64()
    }
}

/// Usage of a process since it was started.
#[derive(Debug, Clone, Copy)]
pub struct Used {
    /// CPU time, of the program and of the kernel for it.
    pub cpu: Duration,
    /// Resident memory now, in bytes.
    pub memory: u64,
}

/// Returns the usage of a process.
///
/// # Errors
/// It has ended.
pub fn used(process: ProcessId) -> Result<Used> {
    let silent = |error: &dyn std::fmt::Display| Error::Daemon(format!("process {}: {error}", process.pid));
    let pid = Pid::from_u32(process.pid.unsigned_abs());
    let mut system = System::new().map_err(|error| silent(&error))?;
    let kind = ProcessRefreshKind::nothing().without_tasks().with_cpu().with_memory();
    system.refresh_processes_specifics(ProcessesToUpdate::Some(&[pid]), false, kind);
    let found = system.process(pid).ok_or_else(|| silent(&"it has ended"))?;
    Ok(Used { cpu: Duration::from_millis(found.accumulated_cpu_time()), memory: found.memory() })
}

/// Returns the most memory that it had, in MiB. Read by hand: the library does not say.
fn peak(replica: &Replica) -> Result<u64> {
    let status = fs::read_to_string(format!("/proc/{}/status", replica.id().pid))?;
    let found = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    let kibibytes = found.and_then(|line| line.trim().trim_end_matches(" kB").trim().parse::<u64>().ok());
    Ok(kibibytes.unwrap_or_default() / 1024)
}

/// How often each write was carried out since it was started, by its name.
///
/// # Errors
/// It does not say.
pub async fn writes(replica: &Replica) -> Result<BTreeMap<String, u64>> {
    let mut all = BTreeMap::new();
    for (labels, count) in counted(replica, "muster_writes_total").await? {
        let name = labels.split("write=\"").nth(1).and_then(|rest| rest.split('"').next()).unwrap_or_default();
        *all.entry(name.to_owned()).or_default() += count;
    }
    Ok(all)
}

/// Number of writes to the API server, and of those among them that lost against another writer, since it was started.
///
/// # Errors
/// It does not say.
pub async fn conflicts(replica: &Replica) -> Result<(u64, u64)> {
    let (mut all, mut lost) = (0, 0);
    for (labels, count) in counted(replica, "muster_writes_total").await? {
        all += count;
        lost += if labels.contains("fate=\"conflict\"") { count } else { 0 };
    }
    Ok((all, lost))
}

/// The series of a counter: labels as its metrics have them, and how much.
///
/// # Errors
/// It does not say.
pub async fn counted(replica: &Replica, metric: &str) -> Result<BTreeMap<String, u64>> {
    let text = metrics(replica).await?;
    let series = text.lines().filter_map(|line| line.strip_prefix(metric)?.strip_prefix('{')?.rsplit_once("} "));
    Ok(series.filter_map(|(labels, count)| Some((labels.to_owned(), count.parse().ok()?))).collect())
}

/// Address of its metrics on loopback, once it has told its port.
pub fn address(replica: &Replica) -> Option<String> {
    let said = replica.said();
    let mut lines = said.lines().filter_map(|line| serde_json::from_str::<serde_json::Value>(line).ok());
    let port = lines.find_map(|line| Some(line["metrics"].as_str()?.rsplit_once(':')?.1.to_owned()))?;
    Some(format!("127.0.0.1:{port}"))
}

/// All its metrics, in the text format of Prometheus.
///
/// # Errors
/// It does not say.
pub async fn metrics(replica: &Replica) -> Result<String> {
    let url = format!("http://{}/metrics", address(replica).unwrap_or_else(|| "127.0.0.1:0".to_owned()));
    // With many nodes the text is longer than what is read of an answer otherwise.
    let asked = tokio::task::spawn_blocking(move || {
        ureq::get(&url).call()?.body_mut().with_config().limit(LONGEST_TEXT).read_to_string()
    });
    let silent = |error: &dyn std::fmt::Display| Error::Daemon(format!("its metrics: {error}"));
    asked.await.map_err(|error| silent(&error))?.map_err(|error| silent(&error))
}
