//! Violations that the validator finds.

use std::fmt;

/// Place of a violation in a plan.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Place {
    /// The plan as a whole.
    Plan,
    /// A pending pod, by index.
    Pod(usize),
    /// An existing node, by index in the problem.
    Existing(usize),
    /// A new node, by index in the plan.
    New(usize),
    /// A pool, by index in the problem.
    Pool(usize),
    /// A command of a disruption, by index.
    Command(usize),
}

/// Promise that a plan breaks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Promise {
    /// Every index is valid.
    Index,
    /// Every pending pod is in exactly one place.
    Once,
    /// A pod that cannot be placed on any node is not placed.
    Refusal,
    /// Nodes being deleted take no pods.
    Deleting,
    /// Taints are tolerated.
    Taints,
    /// Requirements of pools, pods and volumes hold on the node.
    Requirements,
    /// A label that a pod requires is defined by a pool or a launch.
    KnownLabels,
    /// Pods and daemons fit.
    Resources,
    /// No host port is used twice.
    HostPorts,
    /// The node can attach the volumes.
    AttachLimits,
    /// New nodes are of pools that may launch.
    Pool,
    /// Static pools get their missing nodes, without pods; other nodes have pods.
    Replicas,
    /// Alternatives exist, are at most 600, distinct, and sorted by price.
    Alternatives,
    /// Every alternative can be launched under the node's requirements.
    Launchable,
    /// The price is that of the offering, and that of the cheapest launch.
    Price,
    /// The node's requests are the sum of its pods and daemons.
    Requests,
    /// Enough distinct values are left for `minValues`.
    MinValues,
    /// Pool limits hold.
    Limits,
    /// Reservations are not exceeded.
    Reservations,
    /// Heavier pools are used first.
    Weights,
    /// A topology key of a rule has one value on the node.
    Pinned,
    /// Required anti-affinity, own and inverse.
    AntiAffinity,
    /// Required affinity.
    Affinity,
    /// Required spread.
    Spread,
    /// Every managed node is in one command, or is blocked, exactly once.
    Accounted,
    /// Exactly the pods of deleted nodes are placed, each once.
    Moved,
    /// Nodes that are not initialized, have no pool, or are nominated to pending pods are not disrupted.
    Untouchable,
    /// Nodes and pods whose annotations forbid disruption are not disrupted, nor pods whose budget allows no eviction.
    Held,
    /// The stated cause is true, and the pool's settings allow it.
    Justified,
    /// Budgets of pools are respected.
    NodeBudgets,
    /// A consolidation saves money, and stated savings are correct.
    Savings,
}

/// A promise that a plan breaks, with its place.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Violation {
    /// The promise.
    pub promise: Promise,
    /// The place.
    pub place: Place,
    /// Details, for people.
    pub detail: String,
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Plan => f.write_str("plan"),
            Self::Pod(pod) => write!(f, "pod {pod}"),
            Self::Existing(node) => write!(f, "existing node {node}"),
            Self::New(node) => write!(f, "new node {node}"),
            Self::Pool(pool) => write!(f, "pool {pool}"),
            Self::Command(command) => write!(f, "command {command}"),
        }
    }
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {:?}: {}", self.place, self.promise, self.detail)
    }
}

/// The violations found so far.
#[derive(Debug, Default)]
pub(crate) struct Findings(Vec<Violation>);

impl Findings {
    /// Adds a violation.
    pub(crate) fn note(&mut self, place: Place, promise: Promise, detail: impl Into<String>) {
        self.0.push(Violation { promise, place, detail: detail.into() });
    }

    /// Returns all violations, sorted by place.
    pub(crate) fn into_sorted(mut self) -> Vec<Violation> {
        self.0.sort_by_key(|violation| (violation.place, violation.promise));
        self.0
    }
}
