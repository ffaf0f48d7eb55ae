//! Input of a disruption decision, in addition to the packing problem: the pool of each node, the disruption settings
//! of its pods and pool, and the times of their last changes. Every text is already parsed.

use std::fmt;
use std::sync::Arc;

use jiff::{SignedDuration, Timestamp};

use super::schedule::Schedule;
use crate::model::Problem;

/// A node that was rebooted so many times within [`REBOOTS_WITHIN`] is replaced instead, as with Karpenter.
const MOST_REBOOTS: usize = 2;
pub(super) const REBOOTS_WITHIN: SignedDuration = SignedDuration::from_hours(24);

/// A snapshot of everything that disruption depends on.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct DisruptionInput {
    /// Nodes, pools, types and pending pods.
    pub problem: Problem,
    /// Members by node of the problem; `None` if Muster did not launch the node or it has not joined yet.
    pub managed_nodes: Vec<Option<ManagedNode>>,
    /// Disruption policies by pool of the problem.
    pub policies: Vec<Policy>,
    /// PodDisruptionBudgets.
    pub pod_budgets: Vec<PodBudget>,
}

/// A node with a NodeClaim.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct ManagedNode {
    /// The name of its pool.
    pub pool_name: Arc<str>,
    /// Index of that pool in the problem; `None` if no pool has this name.
    pub pool: Option<usize>,
    /// True if its condition Ready is True or is not reported at all.
    pub ready: bool,
    /// Creation time of its NodeClaim.
    pub created: Option<Timestamp>,
    /// Time at which it became initialized.
    pub initialized: Option<Timestamp>,
    /// True if the condition Consolidatable is True and no pod was bound to it or left it since.
    pub consolidatable: bool,
    /// Time at which a pod was last bound to it or left it.
    pub last_pod_event: Option<Timestamp>,
    /// Set if it has drifted from its pool or class.
    pub drifted: Option<Drift>,
    /// Age at which it is replaced; `None` means never.
    pub expire_after: Option<SignedDuration>,
    /// True if draining is forced after a while (`terminationGracePeriod`).
    pub drain_is_bounded: bool,
    /// Set if the cloud reclaims it.
    pub interrupted: Option<Interruption>,
    /// Conditions that report that it is unhealthy, each to be repaired after a while; the first to be due comes first.
    pub repair_conditions: Vec<RepairCondition>,
    /// True if its annotation `karpenter.sh/do-not-repair` is `true`.
    pub do_not_repair: bool,
    /// True while it is being rebooted: it has no conditions to repair, and is away.
    pub rebooting: bool,
    /// Times of its last reboots.
    pub reboots: Vec<Timestamp>,
    /// True if the cloud ends its instance: budgets no longer count the node.
    pub instance_ends: bool,
    /// True if its annotation `karpenter.sh/do-not-disrupt` is `true`.
    pub do_not_disrupt: bool,
    /// Set if its zone is closed and its nodes stay: the zone and the reason, as a sentence. Nodes of a pool that
    /// drains such zones have drifted instead.
    pub closed_zone: Option<Arc<str>>,
    /// A pod that is nominated to it.
    pub nominated_by: Option<Arc<str>>,
    /// Share of the node for which it was launched, daemons included: that of cpu or memory, whichever is larger.
    pub launched_for: f64,
    /// Time until which consolidation keeps it, because it was launched recently and its load has not fallen since.
    /// `None` if that is unknown, as for input from files, or does not apply.
    pub keeps_until: Option<Timestamp>,
    /// True if a command launched it in place of other nodes, false if it was launched for pending pods.
    pub is_replacement: bool,
    /// Occupants by pod of [`crate::model::Node::bound`].
    pub node_pods: Vec<NodePod>,
}

impl ManagedNode {
    /// Returns true if `after` (`consolidateAfter`; `None`: never) has passed since it became initialized and since its
    /// last pod event.
    #[must_use]
    pub fn has_rested(&self, after: Option<SignedDuration>, now: Timestamp) -> bool {
        let since = self.last_pod_event.max(self.initialized);
        after.is_some_and(|after| after.is_zero() || since.is_some_and(|since| now.duration_since(since) >= after))
    }

    /// Returns true if [`Self::has_rested`], or if its condition Consolidatable is set and `after` is not `None`.
    #[must_use]
    pub fn is_consolidatable(&self, after: Option<SignedDuration>, now: Timestamp) -> bool {
        after.is_some() && self.consolidatable || self.has_rested(after, now)
    }
}

/// Reason why a node has drifted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Drift {
    /// Time since which it has drifted, if known.
    pub since: Option<Timestamp>,
    /// One word (`NodePoolDrifted`, `RequirementsDrifted`, `AMIDrift`).
    pub reason: Arc<str>,
    /// The difference, if known.
    pub detail: Arc<str>,
}

/// Announcement that the cloud reclaims a node.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Interruption {
    /// Time of the announcement, if known.
    pub since: Option<Timestamp>,
    /// Source of the announcement.
    pub notice: Arc<str>,
}

/// A condition under which a node is repaired once it has lasted for a time.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RepairCondition {
    /// The condition and its status (`Ready=False`).
    pub condition: Arc<str>,
    /// Its reason (`NvidiaXID79Error`); may be empty.
    pub reason: Arc<str>,
    /// Time since which the condition has had this status.
    pub since: Timestamp,
    /// Duration for which the condition is tolerated.
    pub tolerated: SignedDuration,
    /// Longest drain of the node, if the policy bounds it.
    pub drain: Option<SignedDuration>,
    /// Remedy.
    pub action: RepairAction,
}

/// Remedy of an unhealthy node; a later one rules out those before it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum RepairAction {
    /// Its instance is rebooted.
    Reboot,
    /// Another node takes its place.
    Replace,
}

/// The repair of a node that is due.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RepairDue<'a> {
    /// The condition that gives the reason: the one that was due first, of those with the strongest remedy.
    pub condition: &'a RepairCondition,
    /// Longest drain: the shortest of all conditions that are due.
    pub drain: Option<SignedDuration>,
    /// Remedy: that of the condition, or a replacement if reboots have not helped.
    pub action: RepairAction,
}

/// Disruption properties of a pod on a node.
#[derive(Debug, Clone, PartialEq)]
pub struct NodePod {
    /// True if it needs another node once evicted: not a daemon, not a mirror pod, not terminating.
    pub reschedulable: bool,
    /// True if draining its node evicts it: not a mirror pod, not terminating.
    pub evictable: bool,
    /// Cost of moving it: 1 for an ordinary pod, −10 to 10, from its deletion cost and priority.
    pub eviction_cost: f64,
    /// Set if its annotation forbids disruption.
    pub hold: Option<DisruptionBlocker>,
    /// Indices in [`DisruptionInput::pod_budgets`] of the budgets that currently select it.
    pub budgets: Vec<usize>,
    /// Start time.
    pub started: Option<Timestamp>,
    /// True if a controller would recreate it. A bare pod is lost when it is evicted.
    pub controlled: bool,
}

/// Duration for which a pod forbids disruption.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DisruptionBlocker {
    /// As long as the annotation exists.
    Always,
    /// As long as the pod cannot be read: what it needs elsewhere is unknown.
    Unreadable,
    /// Until this time.
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

/// Disruption settings of a NodePool.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Policy {
    /// Minimum time without pod events before consolidation; `None` means that consolidation never takes a node.
    pub consolidate_after: Option<SignedDuration>,
    /// Nodes that may be consolidated.
    pub consolidation: Consolidation,
    /// Limits on unavailable nodes.
    pub budgets: Vec<NodeBudget>,
    /// End of a rest, in which only empty nodes are consolidated: the last commands saved less than half of what they
    /// promised. `None`: the pool does not rest, or that is not known, as on files.
    pub rests_until: Option<Timestamp>,
}

/// `consolidationPolicy`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Consolidation {
    /// Only nodes without pods that would have to move.
    WhenEmpty,
    /// Also nodes whose pods fit on other or cheaper nodes.
    #[default]
    WhenEmptyOrUnderutilized,
    /// Like `WhenEmptyOrUnderutilized`, but only if the savings are worth moving the pods.
    Balanced,
}

/// One entry of `spec.disruption.budgets`.
#[derive(Debug, Clone, PartialEq)]
pub struct NodeBudget {
    /// Maximum number of unavailable nodes.
    pub nodes: BudgetLimit,
    /// Causes to which it applies; empty means all.
    pub causes: Vec<Cause>,
    /// Time in which it is active.
    pub window: Window,
}

/// A number of nodes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BudgetLimit {
    /// A fixed number.
    Count(u64),
    /// A percentage of the pool's nodes, rounded up.
    Percent(u64),
}

/// Time in which a budget is active.
#[derive(Debug, Clone, PartialEq)]
pub enum Window {
    /// Always.
    Always,
    /// For a duration after each occurrence of a schedule.
    After(Schedule, SignedDuration),
    /// Unknown, so that no disruption is allowed; the reason, as the end of a sentence (`its schedule cannot be read:
    /// …`).
    Unreadable(Arc<str>),
}

/// Reason why a node is disrupted; the names are part of the command-line contract.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Cause {
    /// No pod on it would have to move.
    Empty,
    /// Its pods fit on other or cheaper nodes.
    Underutilized,
    /// It no longer matches its pool or class.
    Drifted,
    /// It has reached `expireAfter`.
    Expired,
    /// It is unhealthy, and is replaced like a drifted one.
    Unhealthy,
    /// It is unhealthy, and goes without regard to budgets and replacements, as with Karpenter before 1.15
    /// (`--legacy-node-repair`).
    Broken,
    /// The cloud reclaims it.
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
            Self::Unhealthy | Self::Broken => "Unhealthy",
            Self::Interrupted => "Interrupted",
        }
    }

    /// Returns true if it ignores budgets and the annotations of pods and nodes.
    pub fn forceful(self) -> bool {
        matches!(self, Self::Expired | Self::Broken | Self::Interrupted)
    }

    /// Returns true if its commands begin in the pass that finds them. Those of the other causes are decided again
    /// after a delay.
    pub fn begins_at_once(self) -> bool {
        self.forceful() || self == Self::Unhealthy
    }
}

// === impl ManagedNode ===

impl ManagedNode {
    /// Returns the time at which it expires.
    pub fn expires(&self) -> Option<Timestamp> {
        self.created?.checked_add(self.expire_after?).ok()
    }

    /// Returns its repair, if one is due at `now`.
    pub fn repair_due(&self, now: Timestamp) -> Option<RepairDue<'_>> {
        let due = || self.repair_conditions.iter().filter(|one| one.due() <= now);
        let strongest = due().map(|one| one.action).max()?;
        let condition = due().find(|one| one.action == strongest)?;
        let is_lately = |at: &&Timestamp| now.duration_since(**at) < REBOOTS_WITHIN;
        let action = if self.reboots.iter().filter(is_lately).count() < MOST_REBOOTS {
            strongest
        } else {
            RepairAction::Replace
        };
        Some(RepairDue { condition, drain: due().filter_map(|one| one.drain).min(), action })
    }

    /// Returns the pods that need another node, by their index among the node's pods.
    pub fn leavers(&self) -> impl Iterator<Item = usize> {
        let node_pods = self.node_pods.iter().enumerate();
        node_pods.filter(|(_, node_pod)| node_pod.reschedulable).map(|(at, _)| at)
    }

    /// Returns the cost of moving its pods: Karpenter's "reschedule disruption cost", 1 for the node and more for each
    /// pod.
    pub fn moving_cost(&self) -> f64 {
        let leavers = self.node_pods.iter().filter(|node_pod| node_pod.reschedulable);
        1.0 + leavers.map(|node_pod| node_pod.eviction_cost.max(0.0)).sum::<f64>()
    }

    /// Returns the time since which its state has been known: its initialization, or else its creation.
    pub fn known_since(&self) -> Option<Timestamp> {
        self.initialized.or(self.created)
    }
}

// === impl RepairCondition ===

impl RepairCondition {
    /// Returns the time from which the node is to be repaired.
    pub fn due(&self) -> Timestamp {
        self.since.checked_add(self.tolerated).unwrap_or(Timestamp::MAX)
    }
}

impl fmt::Display for RepairCondition {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { condition, reason, since, .. } = self;
        match &**reason {
            "" => write!(f, "{condition} since {since}"),
            reason => write!(f, "{condition} ({reason}) since {since}"),
        }
    }
}

// === impl NodePod ===

impl NodePod {
    /// Returns true if it forbids disruption at `now`.
    pub fn holds(&self, now: Timestamp) -> bool {
        match self.hold {
            Some(DisruptionBlocker::Always | DisruptionBlocker::Unreadable) => true,
            Some(DisruptionBlocker::Until(end)) => now < end,
            None => false,
        }
    }
}
