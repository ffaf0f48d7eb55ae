//! Node pools and the daemons of their nodes.

use std::sync::Arc;

use super::{Labels, Requirements, Resources, SpecId, Taint};

/// A NodePool, with its NodeClass resolved to a set of instance types.
#[derive(Debug, Clone, PartialEq)]
pub struct NodePool {
    /// Its name.
    pub name: Arc<str>,
    /// `spec.weight`, 0 if absent. Heavier pools are used first.
    pub weight: i32,
    /// Requirements on its nodes: `spec.template` requirements and labels, the NodeClass label,
    /// `karpenter.sh/nodepool`. `minValues` are on the requirements.
    pub requirements: Requirements,
    /// Labels of `spec.template`, plus the NodeClass and pool labels.
    pub labels: Labels,
    /// Annotations of `spec.template`.
    pub annotations: Labels,
    /// Permanent taints.
    pub taints: Vec<Taint>,
    /// Taints that are removed before the node is initialized; pods need not tolerate them.
    pub startup_taints: Vec<Taint>,
    /// `spec.limits`; the limit on the number of nodes is the resource `nodes`.
    pub limits: Option<Resources>,
    /// Capacity of its existing nodes, those being deleted included; their number is the resource `nodes`.
    pub usage: Resources,
    /// Index in [`super::Problem::catalogues`].
    pub catalogue: usize,
    /// State that decides if it may launch nodes.
    pub state: PoolState,
    /// `spec.replicas` minus the nodes that exist, for a static pool. Pods never open nodes of such a pool.
    pub missing_replicas: Option<u32>,
}

impl NodePool {
    /// Returns true if its limits leave room for one more node of `capacity`.
    pub(crate) fn allows_one_more(&self, capacity: &Resources) -> bool {
        let within =
            |(resource, limit)| self.usage.get(resource).saturating_add(capacity.against_limit(resource)) <= limit;
        self.limits.as_ref().is_none_or(|limits| limits.iter().all(within))
    }
}

/// State that decides if a pool may launch nodes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum PoolState {
    /// It may launch.
    Ready,
    /// It may not; the reason, for people.
    NotReady(String),
}

/// A DaemonSet whose pods run on every node that they fit.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DaemonSet {
    /// `namespace/name`.
    pub name: Arc<str>,
    /// Constraints of its pods; preferences are ignored.
    pub spec: SpecId,
}
