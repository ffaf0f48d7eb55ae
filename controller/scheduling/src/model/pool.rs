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
    /// What its nodes must be: `spec.template` requirements and labels, the NodeClass label, `karpenter.sh/nodepool`.
    /// `minValues` are on the requirements.
    pub requirements: Requirements,
    /// Labels of `spec.template`, plus NodeClass and pool label.
    pub labels: Labels,
    /// Annotations of `spec.template`.
    pub annotations: Labels,
    /// Taints that stay.
    pub taints: Vec<Taint>,
    /// Taints that go before the node is initialized; pods need not tolerate them.
    pub startup_taints: Vec<Taint>,
    /// `spec.limits`, the count of nodes as resource `nodes`.
    pub limits: Option<Resources>,
    /// Capacity of its nodes so far, those being deleted included; the count as resource `nodes`.
    pub usage: Resources,
    /// Index in [`super::Problem::catalogues`].
    pub catalogue: usize,
    /// Whether it may launch.
    pub state: PoolState,
    /// `spec.replicas` less the nodes that exist: for a static pool, how many are missing. Pods never open such nodes.
    pub missing_replicas: Option<u32>,
}

impl NodePool {
    /// Whether its limits leave room for one more node of `capacity`.
    pub(crate) fn allows_one_more(&self, capacity: &Resources) -> bool {
        let within =
            |(resource, limit)| self.usage.get(resource).saturating_add(capacity.against_limit(resource)) <= limit;
        self.limits.as_ref().is_none_or(|limits| limits.iter().all(within))
    }
}

/// Whether a pool may launch.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum PoolState {
    /// It may.
    Ready,
    /// It may not; the reason is for people.
    NotReady(String),
}

/// A daemon that every node it fits on will carry.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DaemonSet {
    /// `namespace/name`.
    pub name: Arc<str>,
    /// Its pods' constraints; preferences are ignored.
    pub spec: SpecId,
}
