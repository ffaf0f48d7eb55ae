//! What the validator finds.

use std::fmt;

/// Where in a plan a violation is.
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

/// Which promise a plan breaks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Promise {
    /// Every index names something.
    Index,
    /// Every pending pod is in exactly one place.
    Once,
    /// A pod that can be placed nowhere is placed nowhere.
    Refusal,
    /// Nodes being deleted take no pods.
    Deleting,
    /// Taints are tolerated.
    Taints,
    /// Requirements of pools, pods and volumes hold on the node.
    Requirements,
    /// A label that a pod asks for is defined by something.
    KnownLabels,
    /// Pods and daemons fit.
    Resources,
    /// No host port is taken twice.
    HostPorts,
    /// The node can attach the volumes.
    AttachLimits,
    /// New nodes are of pools that may launch.
    Pool,
    /// Static pools get the nodes they miss, without pods; other nodes carry pods.
    Replicas,
    /// Alternatives are there, at most 600, distinct, cheapest first.
    Alternatives,
    /// Every alternative can be launched under the node's requirements.
    Launchable,
    /// The price is that of the offering, and of the cheapest launch.
    Price,
    /// The node's requests are those of its pods and daemons.
    Requests,
    /// Enough kinds of instances are left.
    MinValues,
    /// Pool limits hold.
    Limits,
    /// Reservations are not overdrawn.
    Reservations,
    /// Heavier pools come first.
    Weights,
    /// A label that a rule counts by has one value on the node.
    Pinned,
    /// Required anti-affinity, own and inverse.
    AntiAffinity,
    /// Required affinity.
    Affinity,
    /// Required spread.
    Spread,
    /// Every managed node is in one command, or is blocked once.
    Accounted,
    /// The pods of nodes that go, and no others, are placed, each once.
    Moved,
    /// Nodes that are still coming up, or in nobody's hands, are left alone.
    Untouchable,
    /// Nodes and pods that ask not to be disrupted are not, nor pods whose budget allows no eviction.
    Held,
    /// What is stated as the reason holds, and what the pool says lets it be one.
    Justified,
    /// Budgets of pools hold.
    NodeBudgets,
    /// A consolidation saves money, and savings are what is stated.
    Savings,
}

/// A promise that a plan breaks, and where.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Violation {
    /// Which promise.
    pub promise: Promise,
    /// Where.
    pub place: Place,
    /// How, for people.
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
    /// Notes a violation.
    pub(crate) fn note(&mut self, place: Place, promise: Promise, detail: impl Into<String>) {
        self.0.push(Violation { promise, place, detail: detail.into() });
    }

    /// All of them, by place.
    pub(crate) fn into_sorted(mut self) -> Vec<Violation> {
        self.0.sort_by_key(|violation| (violation.place, violation.promise));
        self.0
    }
}
