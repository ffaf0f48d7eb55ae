//! Script of a simulation: its events and their times.

mod day;
mod offered;
mod read;
mod rehearse;
mod write;

use std::collections::BTreeMap;
use std::time::Duration;

use jiff::Timestamp;
use serde_json::Value;

pub use self::day::default_day;
pub use self::read::{Written, read};
pub use self::rehearse::{Misdeed, Remark, rehearse};
use super::api::Path;
use super::world::{Habits, Meant, ReportedFault};

/// See the module.
#[derive(Debug, Clone)]
pub struct Script {
    /// Start time.
    pub(crate) start: Timestamp,
    /// Length of the day.
    pub(crate) length: Duration,
    /// Durations of simulated processes.
    pub(crate) habits: Habits,
    /// Times that instances take to start and to terminate.
    pub(crate) boot: Duration,
    pub(crate) end: Duration,
    /// Run times of the pods of Jobs, by Job or CronJob.
    pub(crate) runs: BTreeMap<Path, Duration>,
    /// Events, ordered by time; those at the same time are in script order.
    pub(crate) deeds: Vec<(Duration, Deed)>,
}

/// Reference to an object.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Reference {
    pub(crate) kind: String,
    pub(crate) path: Path,
}

/// Event of a script.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Deed {
    /// Scales a workload to this number of pods.
    Scale(Reference, u32),
    /// Creates or replaces an object.
    Apply(Value),
    /// Changes fields of an object with a merge patch.
    Patch(Reference, Value),
    /// Deletes an object.
    Delete(Reference),
    /// Deletes all workloads, PodDisruptionBudgets, NodePools and NodeClasses.
    DeleteAll,
    /// Makes offerings unavailable for this duration.
    RunOut(Meant, Duration),
    /// Refuses the preferred offering of each of the next launches; it is unavailable for this duration.
    Refuse(u32, Duration),
    /// Prevents the machines of the next launches from joining, with this verdict code.
    Misregister(u32, &'static str),
    /// Interrupts this number of matching spot instances.
    Interrupt(Meant, u32),
    /// Publishes another image, which all classes select from now on.
    Publish,
    /// Sets a condition of this number of matching Nodes.
    ReportFault(Meant, u32, ReportedFault),
    /// Kills the controller after this number of further writes, and restarts it after this duration.
    Stop(u64, Duration),
}

// === impl Script ===

impl Script {
    /// Returns a script without events.
    pub(crate) fn quiet(start: Timestamp, length: Duration) -> Self {
        let latencies = muster_cloud::memory::Latencies::default();
        Self {
            start,
            length,
            habits: Habits::default(),
            boot: latencies.boot,
            end: latencies.end,
            runs: BTreeMap::new(),
            deeds: Vec::new(),
        }
    }

    /// Returns the event at this position as text; empty if there are fewer.
    #[must_use]
    pub fn text_of(&self, number: usize) -> String {
        self.deeds.get(number).map(|(_, deed)| deed.to_string()).unwrap_or_default()
    }

    /// Returns the start time.
    pub const fn start(&self) -> Timestamp {
        self.start
    }

    /// Returns the end time.
    pub(crate) fn ends_at(&self) -> Timestamp {
        muster_cloud::after(self.start, self.length)
    }
}

// === impl Reference ===

impl std::fmt::Display for Reference {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} {}", self.kind, self.path)
    }
}

// === impl Deed ===

impl std::fmt::Display for Deed {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let nodes = |count: &u32| if *count == 1 { "1 node".to_owned() } else { format!("{count} nodes") };
        let launches =
            |count: &u32| if *count == 1 { "the next launch".to_owned() } else { format!("the next {count} launches") };
        let span = |span: &Duration| muster_api::Span(*span).to_string();
        match self {
            Self::Scale(what, replicas) => write!(f, "{what} is scaled to {replicas}"),
            Self::Apply(object) => {
                write!(f, "{} is applied", super::objects::reference_of(object))
            }
            Self::Patch(what, _) => write!(f, "{what} is changed"),
            Self::Delete(what) => write!(f, "{what} is deleted"),
            Self::DeleteAll => f.write_str("everything is deleted"),
            Self::RunOut(meant, lasts) => write!(f, "there is no capacity of {meant} for {}", span(lasts)),
            Self::Refuse(count, lasts) => {
                write!(f, "there is no capacity of what {} would get, for {}", launches(count), span(lasts))
            }
            Self::Misregister(count, code) => write!(f, "the machine of {} will not join ({code})", launches(count)),
            Self::Interrupt(meant, count) => write!(f, "the cloud reclaims {} of {meant}", nodes(count)),
            Self::Publish => f.write_str("another image is published"),
            Self::ReportFault(meant, count, ReportedFault { kind, status, reason }) => {
                write!(f, "{} of {meant} report {kind}={status} ({reason})", nodes(count))
            }
            Self::Stop(_, away) => {
                write!(f, "the controller stops between two writes, and is back after {}", span(away))
            }
        }
    }
}

// === impl Meant ===

impl std::fmt::Display for Meant {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let text = |text: &Option<String>| text.clone().unwrap_or_else(|| "*".to_owned());
        let kind = self.capacity_type.map_or_else(|| "*".to_owned(), |kind| kind.to_string());
        write!(f, "{}/{}/{kind}", text(&self.instance_type), text(&self.zone))
    }
}
