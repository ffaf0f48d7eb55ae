//! What the engine is told: a snapshot of pods, nodes, pools and instance types, every text already parsed.

mod catalogue;
mod instance_type;
mod node;
mod pod;
mod pool;
mod refused;
mod requirement;
mod requirements;
mod reservation;
mod resources;
mod selector;

pub use catalogue::Catalogue;
pub(crate) use catalogue::{Offer, OfferingSet};
pub use instance_type::{InstanceType, Offering};
pub use node::{BoundPod, Node};
pub use pod::{
    AffinityTerm, Attachment, HostPort, NamespaceScope, NodeTerm, Pod, PodSpec, Protocol, Refusal, SpreadConstraint,
    WeightedAffinityTerm, WeightedNodeTerm,
};
pub use pool::{DaemonSet, NodePool, PoolState};
pub use refused::Refused;
pub use requirement::{Operator, Requirement};
pub use requirements::{Conflict, Requirements};
pub(crate) use reservation::{Reservation, draw, reservations_left};
pub use resources::{Resource, Resources};
pub use selector::{Effect, LabelSelector, Labels, SelectorOperator, SelectorTerm, Taint, Toleration};

use std::hash::BuildHasher;

use rustc_hash::{FxBuildHasher, FxHashMap};
use smallvec::SmallVec;

/// Index of an entry of [`Problem::specs`].
pub type SpecId = usize;

/// A snapshot: everything a solve may look at. Two equal snapshots give the same bytes of plan.
#[derive(Debug, Clone, Default)]
pub struct Problem {
    /// The pods to place, in the order of the input. Their constraints are shared in `specs`.
    pub pods: Vec<Pod>,
    /// Distinct pod constraints, of pending and of bound pods; filled by [`Problem::intern`].
    pub specs: Vec<PodSpec>,
    /// Launchable pools, in the order of the input.
    pub pools: Vec<NodePool>,
    /// Sets of instance types; [`NodePool::catalogue`] points here (pools of one NodeClass share one).
    pub catalogues: Vec<Catalogue>,
    /// Nodes that exist or are on their way.
    pub nodes: Vec<Node>,
    /// Daemons that every fitting node will carry.
    pub daemons: Vec<DaemonSet>,
    /// Specs by their hash, so that none is stored twice.
    interned: FxHashMap<u64, SmallVec<[SpecId; 1]>>,
}

impl Problem {
    /// The id of `spec`, stored once however many pods have it.
    pub fn intern(&mut self, spec: PodSpec) -> SpecId {
        let alike = self.interned.entry(FxBuildHasher.hash_one(&spec)).or_default();
        if let Some(&id) = alike.iter().find(|&&id| self.specs[id] == spec) {
            return id;
        }
        let id = self.specs.len();
        alike.push(id);
        self.specs.push(spec);
        id
    }

    /// The constraints of pending pod number `pod`.
    pub fn spec_of(&self, pod: usize) -> &PodSpec {
        &self.specs[self.pods[pod].spec]
    }
}

/// How preferred terms are read (`--preference-policy`).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum PreferencePolicy {
    /// Spreads over domains give way where they cost more than 0.5 %; anti-affinity between replicas gets three hosts; zones
    /// and capacity types are taken where they are free.
    #[default]
    Respect,
    /// Never considered.
    Ignore,
}

/// What happens when a pool's `minValues` cannot be met (`--min-values-policy`).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum MinValuesPolicy {
    /// The node is not launched.
    #[default]
    Strict,
    /// The requirement is lowered to what is there, and the node says so.
    BestEffort,
}

/// How nodes are filled.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Packing {
    /// So that they are worth most for their price.
    #[default]
    Priced,
    /// One pod after the other, and priced last: what Karpenter's first fit comes to. For comparison only.
    FirstFit,
}

/// The operator's choices for one solve.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Options {
    /// Preferred terms.
    pub preferences: PreferencePolicy,
    /// Flexibility of launches.
    pub min_values: MinValuesPolicy,
    /// Whether `reserved` offerings may be used (gate ReservedCapacity).
    pub reserved_capacity: bool,
    /// Construction passes at most; the first is always run. Counted, never timed, so that a plan does not depend on load.
    pub passes: usize,
    /// How nodes are filled.
    pub packing: Packing,
    /// Whether kube-scheduler will be told the node of each pod. It counts pods that it has been told of for a spread as if
    /// they were bound, and more than `maxSkew` of them on one node then refuse each other: a plan has no more there, where
    /// that costs next to nothing.
    pub tells_nodes: bool,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            preferences: PreferencePolicy::Respect,
            min_values: MinValuesPolicy::Strict,
            reserved_capacity: true,
            passes: 3,
            packing: Packing::Priced,
            tells_nodes: false,
        }
    }
}
