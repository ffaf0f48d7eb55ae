//! Disruption: which nodes to remove, why, and where their pods go.
//!
//! ```text
//!  Input ───► candidates  reasons not to disrupt a node at all ────────────────────────────────────┐
//!  now        budgets     number of nodes that may be disrupted at once                            │
//!               │                                                                                  ▼
//!               ▼                                                                               blocked
//!  forceful ──► repair ──► emptiness ──► drift ──► consolidate (many, then one) ──► commands   (each other node,
//!     │           │           │            │            │                                     reason, since when)
//!     └───────────┴───────────┴── world ◄──┴────────────┘
//!                      trial: where would the pods go?  (the packer, on the room that earlier commands leave)
//! ```
//!
//! The input is a [`DisruptionInput`]. Before all of them, pending pods are assumed to go where a plan would place
//! them, but not on nodes of a forceful disruption ([`Arrivals`]): rules between pods count them. Real ones keep their
//! nodes. Virtual pods keep a node from being empty, and otherwise move with the pods that run on it.
//!
//! Proposals of consolidation are replayed with the placement of kube-scheduler (`delivery`), and only parts that still
//! save are kept. `moments` computes the times at which the result may change although the snapshot does not.
//!
//! A pass is a total function of a snapshot and a time. Nodes that take pods are never disrupted in the same pass, so
//! commands may be executed in any order. New nodes of a command count as full: their room is used by the next pass,
//! once they are ready.

mod budgets;
mod candidates;
mod carried_out;
mod consolidate;
mod decision;
mod delivery;
mod departures;
mod drift;
mod forceful;
mod input;
mod launch;
mod moments;
mod pass;
mod ranking;
mod removal;
mod repair;
mod savings;
mod schedule;
mod split;
mod terminate_first;
#[cfg(test)]
mod tests;
mod validation;
mod world;

pub use budgets::allowed_disruptions;
pub use carried_out::{carried_out, populated};
pub use decision::{Arrivals, Block, Blocked, Command, Decision, Method};
pub use departures::{Departures, departures};
pub(crate) use forceful::LATE;
pub use input::{
    BudgetLimit, Cause, Consolidation, DisruptionBlocker, DisruptionInput, Drift, Interruption, ManagedNode,
    NodeBudget, NodePod, PodBudget, Policy, RepairAction, RepairCondition, RepairDue, Window,
};
pub use moments::{Moments, next_moments};
pub use removal::{Removal, if_removed};
pub use schedule::Schedule;
pub use validation::validate_disruption;

use std::collections::BTreeSet;

use jiff::{SignedDuration, Timestamp};

use crate::model::{Options, PodSpec};
use pass::Pass;
use validation::places_hold;

/// The operator's choices for a pass.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Settings {
    /// Options of the packer.
    pub options: Options,
    /// Repair of unhealthy nodes.
    pub repair: Repair,
    /// Gate `StaticCapacity`: without it, nodes of pools with `replicas` are not replaced when they have drifted.
    pub static_capacity: bool,
    /// Nodes that go before their replacements.
    pub terminate_first: TerminateFirst,
    /// Gate `SpotToSpotConsolidation`.
    pub spot_to_spot: bool,
    /// True to stop at the first voluntary command, like one pass of Karpenter's loop.
    pub first: bool,
    /// Minimum saving per moved pod, in USD per hour.
    pub move_price: f64,
    /// True to consolidate only if it saves after kube-scheduler, not the plan, has placed the recreated pods.
    pub replayed: bool,
    /// Time in which a launch pays back: see [`ManagedNode::keeps_until`], which the live controller and the simulator
    /// set.
    pub payback: SignedDuration,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            options: Options::default(),
            repair: Repair::Off,
            static_capacity: true,
            terminate_first: TerminateFirst::default(),
            spot_to_spot: false,
            first: false,
            move_price: MOVE_PRICE,
            payback: PAYBACK,
            replayed: true,
        }
    }
}

/// Repair of unhealthy nodes: the gate `NodeRepair`, and `--legacy-node-repair`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Repair {
    /// Nothing is repaired.
    #[default]
    Off,
    /// Replacements come first, and budgets apply.
    Voluntary,
    /// Nodes go without regard to budgets and replacements.
    Legacy,
}

impl Repair {
    /// Returns the repair that these options ask for.
    #[must_use]
    pub const fn of(is_on: bool, is_legacy: bool) -> Self {
        match (is_on, is_legacy) {
            (false, _) => Self::Off,
            (true, false) => Self::Voluntary,
            (true, true) => Self::Legacy,
        }
    }
}

/// Causes for which a node may go before its replacement where nothing can be launched beside it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct TerminateFirst {
    /// Gate `TerminateFirstDrift`.
    pub drift: bool,
    /// Gate `TerminateFirstRepair`.
    pub repair: bool,
}

impl TerminateFirst {
    pub(crate) const fn covers(self, cause: Cause) -> bool {
        match cause {
            Cause::Drifted => self.drift,
            Cause::Unhealthy => self.repair,
            _ => false,
        }
    }
}

/// Default of [`Settings::move_price`]. A pod that moves is unavailable for about a minute, and its images are pulled
/// again. At half a thousandth of a dollar per hour, a saving that lasts an hour pays for two minutes of a quarter of a
/// core.
const MOVE_PRICE: f64 = 0.0005;

/// Default of [`Settings::payback`]: time in which a saving pays for its moves, and a launch for itself.
const PAYBACK: SignedDuration = SignedDuration::from_hours(1);

/// Decides which nodes to disrupt at `now`, with a reason for every other managed node.
///
/// Each trial respects the rules between pods that it can see. If the commands together break one, the pass is
/// repeated, and each command must keep the rules together with all commands before it.
///
/// ```
/// use jiff::Timestamp;
/// use muster_scheduling::disrupt::{DisruptionInput, Settings, decide};
/// use muster_scheduling::validate_disruption;
///
/// let (input, settings) = (DisruptionInput::default(), Settings::default());
/// let decision = decide(&input, Timestamp::UNIX_EPOCH, &settings);
/// assert!(decision.commands.is_empty(), "a cluster without managed nodes");
/// assert!(validate_disruption(&input, Timestamp::UNIX_EPOCH, &settings, &decision).is_empty());
/// ```
pub fn decide(input: &DisruptionInput, now: Timestamp, settings: &Settings) -> Decision {
    decide_about(input, now, settings, None)
}

/// Like [`decide`], but limits voluntary disruption to `nodes`, the choice of an earlier decision. Forceful disruption
/// is not limited.
pub fn decide_among(input: &DisruptionInput, now: Timestamp, settings: &Settings, nodes: &BTreeSet<usize>) -> Decision {
    decide_about(input, now, settings, Some(nodes))
}

fn decide_about(
    input: &DisruptionInput,
    now: Timestamp,
    settings: &Settings,
    among: Option<&BTreeSet<usize>>,
) -> Decision {
    let decision = pass(input, now, settings, among, false);
    let has_rules =
        |spec: &PodSpec| !spec.spread.is_empty() || !spec.affinity.is_empty() || !spec.anti_affinity.is_empty();
    if !input.problem.specs.iter().any(has_rules) || places_hold(input, &settings.options, &decision) {
        return decision;
    }
    pass(input, now, settings, among, true)
}

fn pass<'a>(
    input: &'a DisruptionInput,
    now: Timestamp,
    settings: &'a Settings,
    among: Option<&'a BTreeSet<usize>>,
    careful: bool,
) -> Decision {
    let mut pass = Pass::new(input, settings, now, careful);
    pass.among = among;
    let forced = pass.forced();
    let mut going: Vec<usize> = forced.iter().flat_map(|(_, nodes)| nodes).copied().collect();
    let due = if settings.repair == Repair::Voluntary { pass.due_for_repair(&going) } else { Vec::new() };
    going.extend(&due);
    // None of these nodes takes pods of the others, or pending pods.
    pass.settle(&going);
    pass.forceful(forced);
    let forced = pass.commands.len();
    pass.repair(&due);
    if settings.first && (pass.commands.len() > forced || !pass.reboots.is_empty()) {
        return pass.end();
    }
    let voluntary = [Pass::emptiness, Pass::static_drift, Pass::drift, Pass::consolidate];
    for method in voluntary {
        method(&mut pass);
        if settings.first && pass.commands.len() > forced {
            break;
        }
    }
    pass.end()
}
