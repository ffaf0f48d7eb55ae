//! Nodes that exist or are being launched.

use std::sync::Arc;

use super::{Labels, Resources, SpecId, Taint};

/// A node that takes pods and is not launched by this solve.
#[derive(Debug, Clone, PartialEq)]
pub struct Node {
    /// Its name; for a node in flight, that of its NodeClaim.
    pub name: Arc<str>,
    /// Its labels, with the hostname. For a node in flight: the labels that it will have.
    pub labels: Labels,
    /// Taints that pods must tolerate: startup and ephemeral taints are left out while the node is not initialized.
    pub taints: Vec<Taint>,
    /// Total amounts that pods and daemons can use.
    pub allocatable: Resources,
    /// Requests of the daemons that do not run on it yet.
    pub daemon_requests: Resources,
    /// True if it is registered and initialized.
    pub initialized: bool,
    /// True if it is being deleted: it takes no pods, and its pods do not count for spreads and affinities.
    pub deleting: bool,
    /// The pods on it, daemons and nominated pods included.
    pub bound: Vec<BoundPod>,
    /// Volumes that it can still attach, by CSI driver; a driver that is absent has no limit.
    pub attach_limits: Vec<(Arc<str>, u32)>,
}

/// A pod that has a node.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BoundPod {
    /// `namespace/name`.
    pub name: Arc<str>,
    /// Id of its constraints and labels.
    pub spec: SpecId,
    /// True if it counts for topology: false for terminal and terminating pods.
    pub counts: bool,
    /// True if the current plan puts it there: its own spreads must hold once all planned pods are placed.
    pub planned: bool,
    /// True if it never waits for a node: the pod of a DaemonSet, or a static pod of the kubelet.
    pub daemon: bool,
}
