//! Record of a live loop: what it was told and what it decided, in the order in which its state was used. With the same
//! input, the driver and the stages decide the same again.

use jiff::Timestamp;
use muster_cloud::{Instance, LaunchError, Launched};

use super::claim::PodEvent;
use super::{CommandItem, Done, Job};
use crate::disruption::FirstSteps;
use crate::lifecycle::Answers;
use crate::state::{Changed, Cluster};
use crate::step::{Step, Write};

/// Receiver of the record of a loop.
pub trait LoopRecorder: Send + Sync {
    /// Called while the state of the loop is locked: it must not block.
    fn record(&self, entry: Entry);
}

/// Something that the loop was told or has decided, with the cluster as it was then.
#[derive(Debug, Clone)]
pub struct Entry {
    /// Time that the decision was made with.
    pub at: Timestamp,
    /// The cluster, if it matters.
    pub cluster: Option<Box<Cluster>>,
    /// The occurrence.
    pub occurrence: Occurrence,
}

/// See [`Entry`].
#[derive(Debug, Clone)]
pub enum Occurrence {
    /// The loop has begun.
    Started,
    /// [`Driver::on`](super::Driver::on).
    Changed(Box<Changed>),
    /// A job that [`Driver::next_job`](super::Driver::next_job) has returned.
    Began(Job),
    /// [`Driver::done`](super::Driver::done).
    Ended(Done),
    /// The versions that were written, and the version that caused a conflict, by kind and name.
    Wrote {
        /// The versions.
        versions: Vec<(&'static str, String, String)>,
        /// The conflict.
        conflict: Option<(&'static str, String, String)>,
    },
    /// [`pod_event`](super::claim::pod_event) of a claim.
    PodEvent(String, PodEvent),
    /// [`wrote_pod_event`](super::claim::wrote_pod_event) of a claim.
    WrotePodEvent(String, Timestamp),
    /// [`prepare`](super::claim::prepare) of a claim. True if it has something to write.
    Prepared(String, bool),
    /// A step of a claim, which was decided from the answers.
    Decided(String, Box<Answers>, Step),
    /// [`note_outcome`](super::claim::note_outcome) of a claim.
    Outcome(String, bool),
    /// [`note_launch`](super::claim::note_launch).
    Launched(Box<Result<Launched, LaunchError>>),
    /// [`PreparedClaim::note_instance`](super::claim::PreparedClaim::note_instance) of a claim.
    Instance(String, Box<Answers>),
    /// The status of a NodePool.
    Pool(String, Step),
    /// The next step of an object of disruption.
    Advanced(CommandItem, Step),
    /// Nominations, and whether earlier ones were being written.
    Nominated(bool, Step),
    /// A decision about pods is made from this cluster.
    DecidingPods,
    /// Its writes.
    DecidedPods(Vec<Write>),
    /// The plan of that decision has been taken over.
    TookPlan,
    /// A decision about disruption begins: it takes what events have shown since the last one.
    DisruptionBegan,
    /// It is made from this cluster.
    DecidingDisruption,
    /// The first steps of its commands, which are those of the candidates in this cluster.
    DecidedDisruption(Vec<FirstSteps>),
    /// [`note_listing`](super::cluster_wide::note_listing).
    Listed(Vec<Instance>),
}
