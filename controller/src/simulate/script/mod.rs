//! What happens on a day, and when: the script of a simulation.

mod day;
mod read;
mod rehearse;
mod write;

use std::collections::BTreeMap;
use std::time::Duration;

use jiff::Timestamp;
use serde_json::Value;

pub(crate) use self::day::default_day;
pub(crate) use self::read::{Written, read};
pub(crate) use self::rehearse::{Misdeed, Remark, rehearse};
use super::api::Path;
use super::world::{Habits, Meant};

/// See the module.
#[derive(Debug, Clone)]
pub(crate) struct Script {
    /// When the day begins.
    pub(crate) start: Timestamp,
    /// How long it is.
    pub(crate) length: Duration,
    /// How long things take.
    pub(crate) habits: Habits,
    /// How long instances take to run, and to end.
    pub(crate) boot: Duration,
    pub(crate) end: Duration,
    /// How long the pods of Jobs run, by their Job or CronJob.
    pub(crate) runs: BTreeMap<Path, Duration>,
    /// What happens, in the order of time; what is at one moment in the order of the script.
    pub(crate) deeds: Vec<(Duration, Deed)>,
}

/// An object that a deed is about.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Reference {
    pub(crate) kind: String,
    pub(crate) path: Path,
}

/// Something that happens.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Deed {
    /// A workload is to have so many pods.
    Scale(Reference, u32),
    /// An object is made, or replaced.
    Apply(Value),
    /// Fields of an object are set, as a merge patch does it.
    Patch(Reference, Value),
    /// An object is deleted.
    Delete(Reference),
    /// Every workload, PodDisruptionBudget, NodePool and NodeClass is deleted.
    DeleteAll,
    /// There is none of what is meant for so long.
    RunOut(Meant, Duration),
    /// The next launches are refused what they would have got; that is gone for so long.
    Refuse(u32, Duration),
    /// The machines of the next launches never join, for the reason with this code.
    Misregister(u32, &'static str),
    /// So many spot instances of those that are meant are taken back.
    Interrupt(Meant, u32),
    /// The controller stops after so many more writes, and is back after so long.
    Stop(u64, Duration),
}

// === impl Script ===

impl Script {
    /// A day from `start` on which nothing happens.
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

    /// When it begins.
    pub(crate) const fn start(&self) -> Timestamp {
        self.start
    }

    /// When it is over.
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
            Self::Interrupt(meant, count) => write!(f, "the cloud takes {} of {meant} back", nodes(count)),
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
