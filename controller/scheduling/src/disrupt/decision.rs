//! What is decided: commands in their order, and why each other node stays.

use jiff::Timestamp;

use super::estate::Cause;
use crate::model::Pod;
use crate::solution::{NewNode, Solution};

/// One pass of the disruption loop. Every managed node that is not being deleted is in exactly one place.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Decision {
    /// Pods that have to move, which commands name by their index here.
    pub pods: Vec<Pod>,
    /// What is done, in this order.
    pub commands: Vec<Command>,
    /// What is not done, by node.
    pub blocked: Vec<Blocked>,
    /// Pods that wait for a place, and where the commands take them to go.
    pub arrivals: Arrivals,
}

/// The pending pods of a snapshot, and their plan. Nothing carries it out: it is what commands leave room for, and what
/// rules between pods (a spread over zones) are counted with.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Arrivals {
    /// The pods.
    pub pods: Vec<Pod>,
    /// Where they go, by their index in `pods`.
    pub solution: Solution,
}

/// Nodes that are taken away together.
#[derive(Debug, Clone, PartialEq)]
pub struct Command {
    /// Why.
    pub cause: Cause,
    /// Which method found it.
    pub method: Method,
    /// The nodes that go, by index in the problem.
    pub candidates: Vec<usize>,
    /// What is launched, and ready, before they go. Pods by index in [`Decision::pods`].
    pub replacements: Vec<NewNode>,
    /// Pods that go to nodes that stay: the node, its pods ascending.
    pub existing: Vec<(usize, Vec<usize>)>,
    /// Pods that find no place. Only a command that cannot wait, or pods that are worth nothing, leave any.
    pub unplaced: Vec<usize>,
    /// Pods among all of these that nothing creates anew.
    pub bare: Vec<usize>,
    /// USD per hour less than before.
    pub savings: f64,
}

impl Command {
    /// Whether it launches anything.
    pub fn replaces(&self) -> bool {
        !self.replacements.is_empty()
    }
}

/// How a command was found; the names are part of the command-line contract.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Method {
    /// The cloud takes nodes back.
    Interruption,
    /// Broken nodes.
    Repair,
    /// Old nodes.
    Expiration,
    /// Nodes without pods.
    Emptiness,
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
            Self::Expiration => "expiration",
            Self::Emptiness => "emptiness",
            Self::StaticDrift => "static-drift",
            Self::Drift => "drift",
            Self::MultiNode => "multi-node",
            Self::SingleNode => "single-node",
        }
    }
}

/// Why a node stays.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Blocked {
    /// Its index in the problem.
    pub node: usize,
    /// The first thing in the way.
    pub block: Block,
    /// Since when, as far as is known.
    pub since: Option<Timestamp>,
    /// One line for people: names the pod, budget, annotation or price.
    pub message: String,
}

/// What is in the way; the names are part of the command-line contract.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Block {
    /// It is still coming up.
    NotInitialized,
    /// A pending pod was promised room on it.
    Nominated,
    /// Its annotation says no.
    DoNotDisrupt,
    /// A pod's annotation says no.
    PodDoNotDisrupt,
    /// A PodDisruptionBudget allows no eviction.
    PodDisruptionBudget,
    /// A budget of its pool is used up.
    Budget,
    /// Its pods have changed too lately, or its pool never consolidates.
    ConsolidateAfter,
    /// Consolidation of its pool rests: the last commands did not save what they promised.
    PoolRests,
    /// It was launched lately, and its load has not fallen since.
    LaunchedLately,
    /// Its pool consolidates empty nodes only.
    ConsolidationPolicy,
    /// Its pool does not exist.
    NodePoolMissing,
    /// Its type or offering is not in the catalogue, so its price is unknown.
    UnknownInstanceType,
    /// A label that tells its price is missing.
    MissingLabel,
    /// Its pods fit nowhere else.
    PodsWouldNotFit,
    /// Whatever holds its pods costs as much.
    NoCheaperReplacement,
    /// Spot would be replaced by spot, with too little choice or without leave.
    SpotToSpot,
    /// Its pool has a fixed number of nodes.
    StaticPool,
    /// Nothing is wrong with it, and moving its pods is not worth it.
    NothingToGain,
}

impl Block {
    /// Its name in JSON.
    pub fn name(self) -> &'static str {
        match self {
            Self::NotInitialized => "NotInitialized",
            Self::Nominated => "Nominated",
            Self::DoNotDisrupt => "DoNotDisrupt",
            Self::PodDoNotDisrupt => "PodDoNotDisrupt",
            Self::PodDisruptionBudget => "PodDisruptionBudget",
            Self::Budget => "Budget",
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
