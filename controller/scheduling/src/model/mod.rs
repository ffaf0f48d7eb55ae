//! Input of the engine: a snapshot of pods, nodes, pools and instance types, with every text already parsed.

mod catalogue;
mod closed_zone;
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

pub use catalogue::{Amount, AttachFacts, Catalogue};
pub(crate) use catalogue::{Offer, OfferingSet, SetId};
pub use closed_zone::ClosedZone;
pub(crate) use closed_zone::zone_id;
pub use instance_type::{InstanceType, Offering};
pub(crate) use node::of_driver;
pub use node::{BoundPod, Node};
pub use pod::{
    AffinityTerm, Attachment, HostPort, NamespaceScope, NodeTerm, Pod, PodSpec, Protocol, Refusal, SpreadConstraint,
    WeightedAffinityTerm, WeightedNodeTerm,
};
pub use pool::{DaemonSet, NodePool, PoolState};
pub use refused::Refused;
pub use requirement::{Operator, Requirement};
pub use requirements::{Conflict, Requirements};
pub(crate) use reservation::{Reservation, credit, draw, reservations_left};
pub(crate) use resources::UNLIMITED;
pub use resources::{Resource, Resources};
pub use selector::{Effect, LabelSelector, Labels, SelectorOperator, SelectorTerm, Taint, Toleration};

use std::hash::BuildHasher;

use rustc_hash::{FxBuildHasher, FxHashMap};
use smallvec::SmallVec;

/// Index of an entry of [`Problem::specs`].
pub type SpecId = usize;

/// A snapshot: the complete input of a solve. Two equal snapshots give byte-identical plans.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Problem {
    /// The pods to place, in the order of the input. Their constraints are shared in `specs`.
    pub pods: Vec<Pod>,
    /// Distinct pod constraints, of pending and of bound pods; filled by [`Problem::intern`].
    pub specs: Vec<PodSpec>,
    /// Launchable pools, in the order of the input.
    pub pools: Vec<NodePool>,
    /// Sets of instance types; [`NodePool::catalogue`] is an index into it (pools of one NodeClass share one).
    pub catalogues: Vec<Catalogue>,
    /// Zones in which nothing is launched for now. Their offerings are unavailable in the catalogues already; this says
    /// why.
    pub closed_zones: Vec<ClosedZone>,
    /// Nodes that exist or are being launched.
    pub nodes: Vec<Node>,
    /// DaemonSets whose pods run on every node that they fit.
    pub daemons: Vec<DaemonSet>,
    /// Specs by their hash, so that none is stored twice.
    interned: FxHashMap<u64, SmallVec<[SpecId; 1]>>,
}

impl Problem {
    /// Returns the id of `spec`, which is stored once even if many pods have it.
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

    /// Returns the constraints of the pending pod with index `pod`.
    pub fn spec_of(&self, pod: usize) -> &PodSpec {
        &self.specs[self.pods[pod].spec]
    }
}

/// Treatment of preferred terms (`--preference-policy`).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum PreferencePolicy {
    /// Preferred spreads are dropped where they cost more than 0.5 %; anti-affinity between replicas gets three hosts;
    /// all others are kept where they cost nothing, or no more than [`Options::preference_price`].
    #[default]
    Respect,
    /// Ignores preferred terms.
    Ignore,
}

/// Treatment of a pool's `minValues` that cannot be met (`--min-values-policy`).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum MinValuesPolicy {
    /// The node is not launched.
    #[default]
    Strict,
    /// The requirement is lowered to the number that is available, and the node is marked.
    BestEffort,
}

/// Algorithm that fills nodes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Packing {
    /// Maximizes the value of a node's pods for its price.
    #[default]
    Priced,
    /// Adds one pod after the other and prices the node last, like Karpenter's first fit. For comparison only.
    FirstFit,
}

/// The operator's choices for one solve.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Options {
    /// Treatment of preferred terms.
    pub preferences: PreferencePolicy,
    /// Most that a preference of weight 100 may cost for one pod, in millionths of a USD per hour.
    pub preference_price: u32,
    /// Treatment of `minValues` that cannot be met.
    pub min_values: MinValuesPolicy,
    /// True if `reserved` offerings may be used (gate ReservedCapacity).
    pub reserved_capacity: bool,
    /// Maximum number of construction passes; the first always runs. A count, not a time, so that a plan does not
    /// depend on load.
    pub passes: usize,
    /// Algorithm that fills nodes.
    pub packing: Packing,
    /// True if the controller nominates the node of each pod to kube-scheduler. For a spread, kube-scheduler counts
    /// nominated pods as if they were bound, and then refuses all of them if more than `maxSkew` are on one node: a
    /// plan does not exceed that where this costs next to nothing.
    pub tells_nodes: bool,
}

impl Options {
    /// Default of [`Options::preference_price`]: 0.36 USD in a month.
    pub const PREFERENCE_PRICE: u32 = 500;

    /// Returns what preferences with this sum of weights may cost, in USD per hour.
    pub(crate) fn preference_worth(&self, weight: i64) -> f64 {
        weight as f64 / 100.0 * f64::from(self.preference_price) / 1e6
    }
}

impl Default for Options {
    fn default() -> Self {
        Self {
            preferences: PreferencePolicy::Respect,
            preference_price: Self::PREFERENCE_PRICE,
            min_values: MinValuesPolicy::Strict,
            reserved_capacity: true,
            passes: 3,
            packing: Packing::Priced,
            tells_nodes: false,
        }
    }
}
