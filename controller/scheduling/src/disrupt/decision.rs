//! Result of a pass: commands in their order, reboots, and the reason why each other node stays.

use jiff::Timestamp;

use super::input::Cause;
use crate::model::Pod;
use crate::solution::{NewNode, Solution};

/// Result of one pass of the disruption loop. Every managed node that is not being deleted occurs exactly once.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Decision {
    /// Pods that have to move, and virtual pods whose room does; commands refer to them by their index here.
    pub pods: Vec<Pod>,
    /// The commands, in the order of execution.
    pub commands: Vec<Command>,
    /// Nodes whose instances are rebooted, by index in the problem. Their pods are evicted and come back, to them or to
    /// other nodes.
    pub reboots: Vec<usize>,
    /// Nodes that stay, with the reason.
    pub blocked: Vec<Blocked>,
    /// Pending pods, and the plan for them that the commands take into account.
    pub arrivals: Arrivals,
}

impl Decision {
    /// Returns true if every node stays.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.commands.is_empty() && self.reboots.is_empty()
    }
}

/// The pending pods of a snapshot, and a plan for them. It is not executed: commands leave room for it, and it counts
/// for rules between pods (such as a zone spread). Virtual pods that it puts on nodes which go are placed again by the
/// commands.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Arrivals {
    /// The pods.
    pub pods: Vec<Pod>,
    /// Plan for the pods, by their index in `pods`.
    pub solution: Solution,
}

/// Nodes that are disrupted together.
#[derive(Debug, Clone, PartialEq)]
pub struct Command {
    /// Reason for the disruption.
    pub cause: Cause,
    /// Method that found the command.
    pub method: Method,
    /// The nodes to delete, by index in the problem.
    pub candidates: Vec<usize>,
    /// Nodes that are launched, and must be ready, before the candidates are deleted. Pods by index in
    /// [`Decision::pods`].
    pub replacements: Vec<NewNode>,
    /// Pods that move to existing nodes: the node, its pods ascending.
    pub existing: Vec<(usize, Vec<usize>)>,
    /// Pods without a place. They occur only with forceful causes, with [`Method::TerminateFirst`], where a node of a
    /// static pool is replaced, for pods whose eviction cost is zero, and for virtual pods of drifted nodes.
    pub unplaced: Vec<usize>,
    /// Pods of these that have no controller which would recreate them.
    pub bare: Vec<usize>,
    /// Savings in USD per hour.
    pub savings: f64,
}

impl Command {
    /// Returns true if it launches nodes.
    pub fn replaces(&self) -> bool {
        !self.replacements.is_empty()
    }
}

/// Method that found a command; the names are part of the command-line contract.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Method {
    /// The cloud reclaims nodes.
    Interruption,
    /// Unhealthy nodes, replaced as budgets allow.
    Repair,
    /// Unhealthy nodes, without regard to budgets.
    ForcefulRepair,
    /// Expired nodes.
    Expiration,
    /// Nodes without pods.
    Emptiness,
    /// Drifted or unhealthy nodes beside which nothing can be launched.
    TerminateFirst,
    /// Drifted nodes of static pools.
    StaticDrift,
    /// Drifted nodes.
    Drift,
    /// Many nodes at once.
    MultiNode,
    /// One node.
    SingleNode,
}

impl Method {
    /// Its name in JSON.
    pub fn name(self) -> &'static str {
        match self {
            Self::Interruption => "interruption",
            Self::Repair => "repair",
            Self::ForcefulRepair => "forceful-repair",
            Self::Expiration => "expiration",
            Self::Emptiness => "emptiness",
            Self::TerminateFirst => "terminate-first",
            Self::StaticDrift => "static-drift",
            Self::Drift => "drift",
            Self::MultiNode => "multi-node",
            Self::SingleNode => "single-node",
        }
    }
}

/// Reason why a node stays.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Blocked {
    /// Its index in the problem.
    pub node: usize,
    /// The first reason.
    pub block: Block,
    /// Time since which it applies, if known.
    pub since: Option<Timestamp>,
    /// One line for people, with the name of the pod, budget, annotation or price.
    pub message: String,
}

/// Reason not to disrupt a node; the names are part of the command-line contract.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Block {
    /// It is not initialized yet.
    NotInitialized,
    /// It is being rebooted.
    Rebooting,
    /// A pending pod, not a virtual one, is nominated to it.
    Nominated,
    /// The node is annotated `karpenter.sh/do-not-disrupt`.
    DoNotDisrupt,
    /// Its zone is shifted away, and its pool does not ask that the zone be drained.
    ZonalShift,
    /// One of its pods is annotated `karpenter.sh/do-not-disrupt`.
    PodDoNotDisrupt,
    /// A PodDisruptionBudget allows no eviction.
    PodDisruptionBudget,
    /// A disruption budget of its pool is used up.
    Budget,
    /// It is unhealthy, and annotated `karpenter.sh/do-not-repair`.
    DoNotRepair,
    /// It is unhealthy, which is tolerated for a while.
    RepairNotDue,
    /// It is unhealthy, like too many nodes of its pool.
    NodeRepairBlocked,
    /// Its pods changed within `consolidateAfter`, or its pool never consolidates.
    ConsolidateAfter,
    /// Consolidation of its pool rests: the last commands did not save what they promised.
    PoolRests,
    /// It was launched recently, and its load has not fallen since.
    LaunchedLately,
    /// Its pool consolidates empty nodes only.
    ConsolidationPolicy,
    /// Its pool does not exist.
    NodePoolMissing,
    /// Its type or offering is not in the catalogue, so its price is unknown.
    UnknownInstanceType,
    /// A label that determines its price is missing.
    MissingLabel,
    /// Its pods do not fit on other nodes.
    PodsWouldNotFit,
    /// Every replacement for its pods costs as much.
    NoCheaperReplacement,
    /// Spot would be replaced by spot, with too few types to choose from or without the gate.
    SpotToSpot,
    /// Its pool has a fixed number of nodes.
    StaticPool,
    /// It is in order, and moving its pods is not worth it.
    NothingToGain,
}

impl Block {
    /// Its name in JSON.
    pub fn name(self) -> &'static str {
        match self {
            Self::NotInitialized => "NotInitialized",
            Self::Rebooting => "Rebooting",
            Self::Nominated => "Nominated",
            Self::DoNotDisrupt => "DoNotDisrupt",
            Self::ZonalShift => "ZonalShift",
            Self::PodDoNotDisrupt => "PodDoNotDisrupt",
            Self::PodDisruptionBudget => "PodDisruptionBudget",
            Self::Budget => "Budget",
            Self::DoNotRepair => "DoNotRepair",
            Self::RepairNotDue => "RepairNotDue",
            Self::NodeRepairBlocked => "NodeRepairBlocked",
            Self::ConsolidateAfter => "ConsolidateAfter",
            Self::PoolRests => "PoolRests",
            Self::LaunchedLately => "LaunchedLately",
            Self::ConsolidationPolicy => "ConsolidationPolicy",
            Self::NodePoolMissing => "NodePoolMissing",
            Self::UnknownInstanceType => "UnknownInstanceType",
            Self::MissingLabel => "MissingLabel",
            Self::PodsWouldNotFit => "PodsWouldNotFit",
            Self::NoCheaperReplacement => "NoCheaperReplacement",
            Self::SpotToSpot => "SpotToSpot",
            Self::StaticPool => "StaticPool",
            Self::NothingToGain => "NothingToGain",
        }
    }
}
