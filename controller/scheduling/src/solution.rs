//! Output of the engine.

use std::sync::Arc;

use crate::model::{Requirements, Resources};

/// A plan. Pods are given by their index in [`crate::model::Problem::pods`]; every pending pod is in exactly one place.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Solution {
    /// Nodes to launch, in the order in which they were decided.
    pub new_nodes: Vec<NewNode>,
    /// Pods placed on existing nodes: index in [`crate::model::Problem::nodes`], its pods ascending. Nodes without pods
    /// of the plan are left out.
    pub existing: Vec<(usize, Vec<usize>)>,
    /// Pods that cannot be placed, ascending.
    pub unschedulable: Vec<Unschedulable>,
}

/// A node to launch.
#[derive(Debug, Clone, PartialEq)]
pub struct NewNode {
    /// Index in [`crate::model::Problem::pools`].
    pub pool: usize,
    /// Its pods, ascending.
    pub pods: Vec<usize>,
    /// Index of the cheapest type it may be launched as, in the pool's catalogue.
    pub instance_type: usize,
    /// Index of that type's offering.
    pub offering: usize,
    /// USD per hour of that offering.
    pub price: f64,
    /// All types that it may be launched as, cheapest first, at most 600; the first is `instance_type`.
    pub alternatives: Arc<[usize]>,
    /// Requirements of its NodeClaim: those of the pool and of its pods.
    pub requirements: Arc<Requirements>,
    /// Sum of the requests of pods and daemons.
    pub requests: Resources,
    /// `Some(true)` if `minValues` had to be lowered, `Some(false)` if they were set and met.
    pub min_values_relaxed: Option<bool>,
}

/// A pod that cannot be placed, with the reasons.
#[derive(Debug, Clone, PartialEq)]
pub struct Unschedulable {
    /// Index of the pod.
    pub pod: usize,
    /// The most specific reason over all pools: that of the pool which came closest to taking the pod.
    pub reason: Reason,
    /// One line for people.
    pub message: String,
    /// Verdict of each pool, in the order in which they would be tried.
    pub pools: Vec<PoolVerdict>,
}

/// Reason why one pool cannot take a pod.
#[derive(Debug, Clone, PartialEq)]
pub struct PoolVerdict {
    /// The pool's name.
    pub pool: Arc<str>,
    /// Reason of the first constraint that fails.
    pub reason: Reason,
    /// The constraint, in words.
    pub message: String,
    /// The closest candidate, if there is one.
    pub nearest: Option<String>,
    /// An edit that would help, if there is one.
    pub hint: Option<String>,
}

/// Reason why a pod cannot be placed; the names are part of the command-line contract.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Reason {
    /// No pool may launch nodes.
    NoNodePool,
    /// A label is defined, but no value suits both sides.
    IncompatibleRequirements,
    /// A required label is not defined by any pool or offering.
    UnknownLabel,
    /// A taint is not tolerated.
    Taints,
    /// No type is large enough.
    Resources,
    /// Required pod affinity.
    PodAffinity,
    /// Required pod anti-affinity, its own or another pod's.
    PodAntiAffinity,
    /// A required topology spread.
    TopologySpread,
    /// A host port is in use.
    HostPort,
    /// A volume cannot be attached where the pod may run.
    Volume,
    /// Too many volumes for the node.
    VolumeLimit,
    /// Fewer distinct values than `minValues` are left.
    MinValues,
    /// The pool's limit is reached.
    Limits,
    /// The reserved capacity is used up.
    Reserved,
    /// Types fit, but none can be bought where the pod may run.
    NoOffering,
    /// The pod claims dynamic resources.
    DynamicResources,
    /// Its rules about other pods take more work than the share of its namespace.
    TooComplex,
}

impl Reason {
    /// Returns its name in JSON.
    pub fn name(self) -> &'static str {
        match self {
            Self::NoNodePool => "NoNodePool",
            Self::IncompatibleRequirements => "IncompatibleRequirements",
            Self::UnknownLabel => "UnknownLabel",
            Self::Taints => "Taints",
            Self::Resources => "Resources",
            Self::PodAffinity => "PodAffinity",
            Self::PodAntiAffinity => "PodAntiAffinity",
            Self::TopologySpread => "TopologySpread",
            Self::HostPort => "HostPort",
            Self::Volume => "Volume",
            Self::VolumeLimit => "VolumeLimit",
            Self::MinValues => "MinValues",
            Self::Limits => "Limits",
            Self::Reserved => "Reserved",
            Self::NoOffering => "NoOffering",
            Self::DynamicResources => "DynamicResources",
            Self::TooComplex => "TooComplex",
        }
    }
}
