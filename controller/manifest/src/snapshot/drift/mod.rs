//! Differences between nodes and what their NodePool and NodeClass ask for now.
//!
//! ```text
//!   template   hash of the NodePool ─► requirements ─► type is gone ─► hash of the class
//!   selection  ─► image ─► security groups ─► subnet ─► capacity reservation ─► placement group
//!   zonal shift, where the NodePool asks that such a zone be drained
//! ```
//!
//! The order is Karpenter's, which does not have the last one, and the first reason that holds counts. A reason that
//! cannot be checked, because the class is not in the input or not ready, hashes have different versions, or the
//! instance has not been listed yet, stays if the claim's condition Drifted has it.

mod selection;
mod template;

use std::cell::OnceCell;
use std::sync::Arc;

use muster_scheduling::disrupt::Drift;
use muster_scheduling::labels::INSTANCE_TYPE;
use muster_scheduling::model::{InstanceType, Labels, Problem, Requirements};
use rustc_hash::FxHashMap;

use self::selection::Class;
use self::template::PoolHash;
use super::disruption::{condition, moment};
use super::zonal_shift;
use crate::{Manifests, Node, NodeClaim, NodePool, ObservedInstance};

/// Result of checking one reason.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Check {
    /// The node has drifted; the difference in words.
    Drifted(String),
    /// The node is as it should be.
    Same,
    /// The input does not say.
    Unknown,
}

/// A node, its claim, and its NodePool with its index in the problem.
#[derive(Clone, Copy)]
struct Subject<'m> {
    node: &'m Node,
    claim: &'m NodeClaim,
    pool: usize,
    manifest: &'m NodePool,
}

/// The inputs that all nodes share.
pub(super) struct Drifts<'m> {
    manifests: &'m Manifests,
    problem: &'m Problem,
    hashes: FxHashMap<&'m str, PoolHash>,
    /// By kind and name.
    classes: FxHashMap<(&'m str, &'m str), Class<'m>>,
    /// Types by name, for each catalogue.
    types: Vec<OnceCell<FxHashMap<&'m str, &'m InstanceType>>>,
}

/// A check of one reason.
type Checks = fn(&Drifts<'_>, &Subject<'_>) -> Check;

/// Karpenter's reasons, in its order, and one of our own.
const REASONS: [(&str, Checks); 10] = [
    ("NodePoolDrifted", template::pool_hash),
    ("RequirementsDrifted", template::requirements),
    ("InstanceTypeNotFound", selection::instance_type),
    ("NodeClassDrift", template::class_hash),
    ("AMIDrift", selection::image),
    ("SecurityGroupDrift", selection::security_groups),
    ("SubnetDrift", selection::subnet),
    ("CapacityReservationDrift", selection::reservation),
    ("PlacementGroupDrift", selection::placement_group),
    ("ZonalShift", zonal_shift),
];

// === impl Drifts ===

impl<'m> Drifts<'m> {
    pub(super) fn new(manifests: &'m Manifests, problem: &'m Problem) -> Self {
        let hash = |pool: &'m NodePool| Some((&*pool.meta.name, PoolHash::of(pool)?));
        let classes = manifests.node_classes.iter();
        Self {
            manifests,
            problem,
            hashes: manifests.node_pools.iter().filter_map(hash).collect(),
            classes: classes.map(|class| ((class.kind, &*class.name), Class::of(class))).collect(),
            types: problem.catalogues.iter().map(|_| OnceCell::new()).collect(),
        }
    }

    /// Returns the drift of a node. `pool` is its NodePool, if it exists, with its index in the problem.
    pub(super) fn of(&self, node: &Node, claim: &NodeClaim, pool: Option<(usize, &NodePool)>) -> Option<Drift> {
        let said = said(claim);
        let Some((pool, manifest)) = pool else { return said };
        let subject = Subject { node, claim, pool, manifest };
        for (reason, check) in REASONS {
            let is_said = said.as_ref().is_some_and(|said| &*said.reason == reason);
            match check(self, &subject) {
                Check::Drifted(detail) => {
                    let since = said.filter(|_| is_said).and_then(|said| said.since);
                    return Some(Drift { since, reason: reason.into(), detail: detail.into() });
                }
                Check::Unknown if is_said => return said,
                Check::Same | Check::Unknown => {}
            }
        }
        said.filter(|said| REASONS.iter().all(|(reason, _)| *reason != &*said.reason))
    }

    fn class<'s>(&'s self, claim: &'s NodeClaim) -> Option<&'s Class<'m>> {
        self.classes.get(&(&*claim.class.kind, &*claim.class.name))
    }

    /// Returns the instance of the claim as the cloud has described it, if it has.
    fn observed(&self, claim: &NodeClaim) -> Option<&'m ObservedInstance> {
        self.manifests.observed.instances.get(claim.provider_id.as_ref()?)
    }

    /// Returns the type of the node, if the catalogue of its pool has it.
    fn type_of(&self, subject: &Subject<'_>) -> Option<&'m InstanceType> {
        self.types_of(subject.pool)?.get(&**subject.label(INSTANCE_TYPE)?).copied()
    }

    fn types_of(&self, pool: usize) -> Option<&FxHashMap<&'m str, &'m InstanceType>> {
        let catalogue = self.problem.pools.get(pool)?.catalogue;
        let types = self.problem.catalogues.get(catalogue)?.types();
        Some(self.types.get(catalogue)?.get_or_init(|| types.iter().map(|one| (&*one.name, one)).collect()))
    }
}

// === impl Subject ===

impl Subject<'_> {
    /// Returns a label of the claim, or else of the node.
    fn label(&self, key: &str) -> Option<&Arc<str>> {
        self.claim.meta.labels.get(key).or_else(|| self.node.meta.labels.get(key))
    }

    /// Returns the labels of the node and the claim; the claim's win.
    fn labels(&self) -> Labels {
        let mut labels = self.node.meta.labels.clone();
        for (key, value) in self.claim.meta.labels.iter() {
            labels.set(Arc::clone(key), Arc::clone(value));
        }
        labels
    }

    /// Returns the requirements that its type and its labels meet, for a type that is not in the catalogue.
    fn own_requirements(&self) -> Requirements {
        Requirements::from_labels(&self.labels())
    }
}

/// Checks if the node is to leave its zone, because traffic is shifted away from it.
fn zonal_shift(drifts: &Drifts<'_>, subject: &Subject<'_>) -> Check {
    if !zonal_shift::drains(subject.manifest) {
        return Check::Same;
    }
    // Only a running controller knows of shifts.
    if drifts.manifests.observed.at.is_none() {
        return Check::Unknown;
    }
    let shift = zonal_shift::of(drifts.manifests, drifts.problem, subject.node, subject.claim);
    shift.map_or(Check::Same, Check::Drifted)
}

/// Returns the drift in the claim's own condition.
fn said(claim: &NodeClaim) -> Option<Drift> {
    let drifted = condition(&claim.conditions, "Drifted").filter(|drifted| &*drifted.status == "True")?;
    Some(Drift {
        since: moment(drifted.since.as_deref()),
        reason: if drifted.reason.is_empty() { "Drifted".into() } else { Arc::clone(&drifted.reason) },
        detail: Arc::clone(&drifted.message),
    })
}
