//! What a disruption is decided from, beside the packing problem: who launched each node, what its pods and its pool say
//! about being moved, and since when things are as they are. Every text is already parsed.

use std::sync::Arc;

use jiff::{SignedDuration, Timestamp};

use super::schedule::Schedule;
use crate::model::Problem;

/// A snapshot of everything that disruption looks at.
#[derive(Debug, Clone, Default)]
pub struct Estate {
    /// Nodes, pools, types and pending pods.
    pub problem: Problem,
    /// By node of the problem; `None`: nobody of ours launched it, or it has not joined yet.
    pub members: Vec<Option<Member>>,
    /// By pool of the problem.
    pub policies: Vec<Policy>,
    /// PodDisruptionBudgets.
    pub pod_budgets: Vec<PodBudget>,
}

/// A node with a NodeClaim.
#[derive(Debug, Clone, PartialEq)]
pub struct Member {
    /// The name of its pool.
    pub pool_name: Arc<str>,
    /// Index of that pool in the problem; `None` if there is none of the name.
    pub pool: Option<usize>,
    /// Whether its condition Ready is True (or is not reported at all).
    pub ready: bool,
    /// When its NodeClaim was made.
    pub created: Option<Timestamp>,
    /// When it became initialized.
    pub initialized: Option<Timestamp>,
    /// Whether the condition Consolidatable is True, and no pod has come or left since.
    pub consolidatable: bool,
    /// When a pod last came to it or left it.
    pub last_pod_event: Option<Timestamp>,
    /// It no longer is what its pool or class says.
    pub drifted: Option<Drift>,
    /// The age at which it is replaced; `None`: never.
    pub expire_after: Option<SignedDuration>,
    /// Draining it may be forced after a while (`terminationGracePeriod`).
    pub drain_is_bounded: bool,
    /// The cloud takes it back.
    pub interrupted: Option<Interruption>,
    /// A condition says that it is broken, and that it is to be repaired after a while.
    pub ailment: Option<Ailment>,
    /// Its annotation `karpenter.sh/do-not-disrupt` is `true`.
    pub do_not_disrupt: bool,
    /// A pod that was promised room on it.
    pub nominated_by: Option<Arc<str>>,
    /// The share of the node for which it was launched, daemons included: that of cpu or memory, whichever is larger.
    pub launched_for: f64,
    /// Consolidation leaves it alone until then: it was launched lately, and its load has not fallen since. `None`: that is not
    /// known, as on files, or is no reason.
    pub keeps_until: Option<Timestamp>,
    /// True if a command launched it in place of other nodes, false if it was launched for pending pods.
    pub is_replacement: bool,
    /// By pod of [`crate::model::Node::bound`].
    pub occupants: Vec<Occupant>,
}

impl Member {
    /// Whether `consolidateAfter` (`None`: never) has passed since it became initialized and a pod last came to it or left it.
    #[must_use]
    pub fn has_rested(&self, after: Option<SignedDuration>, now: Timestamp) -> bool {
        let since = self.last_pod_event.max(self.initialized);
        after.is_some_and(|after| after.is_zero() || since.is_some_and(|since| now.duration_since(since) >= after))
    }

    /// Whether it has, or its condition says so.
    #[must_use]
    pub fn is_consolidatable(&self, after: Option<SignedDuration>, now: Timestamp) -> bool {
        after.is_some() && self.consolidatable || self.has_rested(after, now)
    }
}

/// Why a node is no longer as it should be.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Drift {
    /// Since when, as far as is known.
    pub since: Option<Timestamp>,
    /// One word (`NodePoolDrifted`, `RequirementsDrifted`, `AMIDrift`).
    pub reason: Arc<str>,
    /// What differs, if that is known.
    pub detail: Arc<str>,
}

/// That the cloud takes a node back.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Interruption {
    /// Since when that is known.
    pub since: Option<Timestamp>,
    /// What said so.
    pub notice: Arc<str>,
}

/// A condition under which a node is replaced once it has lasted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Ailment {
    /// The condition and its status (`Ready=False`).
    pub condition: Arc<str>,
    /// Since when.
    pub since: Timestamp,
    /// How long that is tolerated.
    pub tolerated: SignedDuration,
}

/// A pod on a node, as far as moving it is concerned.
#[derive(Debug, Clone, PartialEq)]
pub struct Occupant {
    /// It will want another node: neither a daemon nor a mirror pod, and not on its way out.
    pub reschedulable: bool,
    /// It is evicted when its node is drained: neither a mirror pod nor on its way out.
    pub evictable: bool,
    /// What moving it costs: 1 for an ordinary pod, −10 to 10, from its deletion cost and priority.
    pub eviction_cost: f64,
    /// It asks not to be moved.
    pub hold: Option<Hold>,
    /// Indices in [`Estate::pod_budgets`] of those that guard it now.
    pub budgets: Vec<usize>,
    /// When it started.
    pub started: Option<Timestamp>,
    /// Something would create it anew. A bare pod is lost when it is evicted.
    pub controlled: bool,
}

/// How long a pod asks not to be moved.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Hold {
    /// As long as it says so.
    Always,
    /// Until then.
    Until(Timestamp),
}

/// A PodDisruptionBudget.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PodBudget {
    /// `namespace/name`.
    pub name: Arc<str>,
    /// `status.disruptionsAllowed`.
    pub allowed: u32,
}

/// What a NodePool says about disruption.
#[derive(Debug, Clone, Default)]
pub struct Policy {
    /// How long a node must have been without pod changes; `None`: consolidation never takes it.
    pub consolidate_after: Option<SignedDuration>,
    /// Which nodes may be consolidated.
    pub consolidation: Consolidation,
    /// How many nodes may be away at once.
    pub budgets: Vec<NodeBudget>,
    /// End of a rest, in which only empty nodes are consolidated: the last commands saved less than half of what they promised. `None`:
    /// the pool does not rest, or that is not known, as on files.
    pub rests_until: Option<Timestamp>,
}

/// `consolidationPolicy`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Consolidation {
    /// Only nodes without pods that would have to move.
    WhenEmpty,
    /// Also nodes whose pods fit elsewhere, or on something cheaper.
    #[default]
    WhenEmptyOrUnderutilized,
    /// As before, if what is saved is worth the pods that have to move.
    Balanced,
}

/// One entry of `spec.disruption.budgets`.
#[derive(Debug, Clone)]
pub struct NodeBudget {
    /// How many.
    pub nodes: Share,
    /// Causes that it holds for; empty: all.
    pub causes: Vec<Cause>,
    /// When it is in force.
    pub window: Window,
}

/// A number of nodes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Share {
    /// So many.
    Count(u64),
    /// So many hundredths of the pool's nodes, rounded up.
    Percent(u64),
}

/// When a budget is in force.
#[derive(Debug, Clone)]
pub enum Window {
    /// Always.
    Always,
    /// For a while after each hit of a schedule.
    After(Schedule, SignedDuration),
    /// Nobody knows, and so nothing is allowed: why, as the end of a sentence (`its schedule cannot be read: …`).
    Unreadable(Arc<str>),
}

/// Why a node is disrupted; the names are part of the command-line contract.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Cause {
    /// It has no pod that would have to move.
    Empty,
    /// Its pods fit elsewhere, or on something cheaper.
    Underutilized,
    /// It is no longer what its pool or class says.
    Drifted,
    /// It is as old as nodes of its pool may get.
    Expired,
    /// It is broken.
    Unhealthy,
    /// The cloud takes it back.
    Interrupted,
}

// === impl Cause ===

impl Cause {
    /// Its name in JSON.
    pub fn name(self) -> &'static str {
        match self {
            Self::Empty => "Empty",
            Self::Underutilized => "Underutilized",
            Self::Drifted => "Drifted",
            Self::Expired => "Expired",
            Self::Unhealthy => "Unhealthy",
            Self::Interrupted => "Interrupted",
        }
    }

    /// Whether it happens whatever pods, budgets and owners say.
    pub fn forceful(self) -> bool {
        matches!(self, Self::Expired | Self::Unhealthy | Self::Interrupted)
    }
}

// === impl Member ===

impl Member {
    /// When it reaches the age at which it is replaced.
    pub fn expires(&self) -> Option<Timestamp> {
        self.created?.checked_add(self.expire_after?).ok()
    }

    /// Pods that would want another node, by their place among the node's pods.
    pub fn leavers(&self) -> impl Iterator<Item = usize> {
        let occupants = self.occupants.iter().enumerate();
        occupants.filter(|(_, occupant)| occupant.reschedulable).map(|(at, _)| at)
    }

    /// What moving its pods costs: Karpenter's "reschedule disruption cost", 1 for the node and more for each pod.
    pub fn moving_cost(&self) -> f64 {
        let leavers = self.occupants.iter().filter(|occupant| occupant.reschedulable);
        1.0 + leavers.map(|occupant| occupant.eviction_cost.max(0.0)).sum::<f64>()
    }

    /// Since when it has been as it is, as far as is known.
    pub fn known_since(&self) -> Option<Timestamp> {
        self.initialized.or(self.created)
    }
}

// === impl Occupant ===

impl Occupant {
    /// Whether it asks not to be moved at `now`.
    pub fn holds(&self, now: Timestamp) -> bool {
        match self.hold {
            Some(Hold::Always) => true,
            Some(Hold::Until(end)) => now < end,
            None => false,
        }
    }
}
