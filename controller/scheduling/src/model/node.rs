//! Nodes that exist or are on their way.

use std::sync::Arc;

use super::{Labels, Resources, SpecId, Taint};

/// A node that takes pods without being launched by this solve.
#[derive(Debug, Clone, PartialEq)]
pub struct Node {
    /// Its name; for one in flight, its NodeClaim's.
    pub name: Arc<str>,
    /// Its labels, with the hostname. For a node in flight: what it will have.
    pub labels: Labels,
    /// Taints that pods must tolerate: startup and ephemeral ones are left out while the node is not initialized.
    pub taints: Vec<Taint>,
    /// What pods and daemons may use in all.
    pub allocatable: Resources,
    /// Requests of the daemons that are still to come.
    pub daemon_requests: Resources,
    /// Registered and initialized.
    pub initialized: bool,
    /// Being deleted: takes no pod; its pods do not count for spreads and affinities.
    pub deleting: bool,
    /// The pods on it, daemons and nominated pods included.
    pub bound: Vec<BoundPod>,
    /// Volumes it can still attach, by CSI driver; a driver that is absent has no limit.
    pub attach_limits: Vec<(Arc<str>, u32)>,
}

/// A pod that has its node.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BoundPod {
    /// `namespace/name`.
    pub name: Arc<str>,
    /// What it needs and what others may say of it.
    pub spec: SpecId,
    /// Whether it counts for topology: false for terminal and terminating pods.
    pub counts: bool,
    /// It is of the plan at hand and not there yet: the spreads that it asks for must hold when all are.
    pub planned: bool,
    /// It never waits for a node: a DaemonSet's, or a static pod of the kubelet.
    pub daemon: bool,
}
