//! Jobs of the loop, and their ends.

use std::collections::BTreeMap;
use std::time::Duration;

use jiff::Timestamp;
use muster_scheduling::disrupt::Moments;

use super::{CommandItem, Item, Verdict};
use crate::disruption::{DisruptionPlanner, Rest};

/// Something to do now.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Job {
    /// Reconcile an object, which has been due for this long.
    Reconcile(Item, Duration),
    /// Reconcile an object of disruption, which has been due for this long.
    Advance(CommandItem, Duration),
    /// Decide what to launch for pending pods, and create the NodeClaims.
    DecidePods,
    /// Carry out the order that waits.
    CarryOutOrder,
    /// Decide which nodes to disrupt.
    DecideDisruption,
    /// Compute the nominations to write, and which Nodes wait for them; without the nominations while earlier ones are
    /// being written.
    Nominate {
        /// True if earlier nominations are being written.
        is_writing: bool,
    },
    /// List the instances of the cloud, and remove what has no owner.
    CollectGarbage,
}

/// End of a job, or of the writes that it caused.
#[derive(Debug, Clone, PartialEq)]
pub enum Done {
    /// An object has been reconciled.
    Reconciled(Item, Verdict),
    /// An object of disruption has been reconciled.
    Advanced(CommandItem, Verdict),
    /// A round has ended, and its plan is in the [`LeaderState`](super::LeaderState).
    DecidedPods {
        /// Time of the next round if nothing changes.
        again: Option<Timestamp>,
    },
    /// An order has been decided, executed and answered.
    CarriedOutOrder,
    /// Disruption has been decided.
    DecidedDisruption(PassEnd),
    /// The commands have been begun.
    BegunCommands {
        /// True if one that cannot wait has to be decided again.
        is_open: bool,
    },
    /// Nominations have been computed, and the gates are in the [`LeaderState`](super::LeaderState).
    Nominated {
        /// Time at which they are computed again if nothing changes.
        again: Option<Timestamp>,
        /// True if there are nominations to write: [`Done::WroteNominations`] follows.
        writes: bool,
    },
    /// Nominations have been written.
    WroteNominations,
    /// Instances have been listed.
    CollectedGarbage {
        /// Claims whose instance is missing, or has left its capacity reservation.
        concerned: Vec<String>,
        /// True if an instance differs from the last listing.
        is_news: bool,
        /// Time of the next listing.
        again: Timestamp,
    },
}

/// End of a decision about disruption.
#[derive(Debug, Clone, PartialEq)]
pub struct PassEnd {
    /// Time of the next decision if something has changed by then.
    pub again: Timestamp,
    /// Times of the next decision if nothing changes.
    pub moments: Moments,
    /// True if the result has to be confirmed.
    pub is_open: bool,
    /// NodePools whose consolidation rests.
    pub rests: BTreeMap<String, Rest>,
    /// True if there are commands to begin: [`Done::BegunCommands`] follows.
    pub begins: bool,
}

// === impl PassEnd ===

impl PassEnd {
    /// Returns the end of the planner's last decision.
    #[must_use]
    pub fn of(planner: &DisruptionPlanner, again: Timestamp, moments: Moments, begins: bool) -> Self {
        let rests = planner.delivered().filter_map(|one| Some((one.pool.to_string(), one.rest?))).collect();
        Self { again, moments, is_open: planner.is_open(), rests, begins }
    }
}
