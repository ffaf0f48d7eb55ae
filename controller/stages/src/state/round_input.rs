//! Input of a provisioning round.

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use muster_api::{NodeClaim, labels};
use muster_manifest::Manifests;

use super::cluster::Cluster;
use crate::lifecycle::has_label;
use crate::provision::{ClaimAndNode, PendingPod, PlacementView, PodBindings};

/// NodeClaims, Nodes, and pods that need a node, as input of provisioning.
#[derive(Debug)]
pub struct Moment<'c> {
    /// All NodeClaims with their Nodes, by name.
    pub claims: Vec<ClaimAndNode<'c>>,
    /// Pods without a node, and pods on nodes that are being removed, by path.
    pub pending_pods: Cow<'c, BTreeMap<Arc<str>, Arc<PendingPod>>>,
    /// Names of all Nodes.
    pub nodes: BTreeSet<&'c str>,
    /// Nodes to which pods are bound.
    bindings: &'c Cluster,
}

// === impl Moment ===

impl Moment<'_> {
    /// Returns the data as input of the provisioning stages.
    #[must_use]
    pub fn view(&self) -> PlacementView<'_> {
        PlacementView {
            claims: &self.claims,
            pending_pods: &self.pending_pods,
            nodes: &self.nodes,
            bindings: self.bindings,
        }
    }
}

// === impl Cluster ===

impl PodBindings for Cluster {
    fn node_of(&self, path: &str, uid: &str) -> Option<&str> {
        self.pod(path).filter(|pod| *pod.uid == *uid)?.pod.node.as_deref()
    }
}

impl Cluster {
    /// Returns a NodeClaim with its Node.
    #[must_use]
    pub fn claimed<'c>(&'c self, claim: &'c NodeClaim) -> ClaimAndNode<'c> {
        ClaimAndNode { claim, node: self.node_of(claim) }
    }

    /// Returns the input of a provisioning round, apart from the problem.
    #[must_use]
    pub fn moment(&self) -> Moment<'_> {
        let claims: Vec<ClaimAndNode<'_>> = self.claims().map(|claim| self.claimed(claim)).collect();
        let ending = claims.iter().filter(|claimed| claimed.is_leaving() || claimed.is_marked());
        let ending = ending.filter_map(|claimed| Some((claimed.node?.metadata.name.as_deref()?, claimed.is_leaving())));
        let ending = ending.flat_map(|(node, is_leaving)| self.pods_on(node).map(move |pod| (pod, is_leaving)));
        let leaving = ending.map(|(pod, is_leaving)| {
            let pending_pod = PendingPod { is_provided_for: !is_leaving, ..pod.pending_pod() };
            (Arc::clone(&pod.pod.path), Arc::new(pending_pod))
        });
        // This runs several times a second while many pods wait: copy only if a node is being removed.
        let mut pending_pods = Cow::Borrowed(&self.unbound);
        for (path, pending_pod) in leaving {
            pending_pods.to_mut().insert(path, pending_pod);
        }
        let nodes = self.nodes().filter_map(|node| node.metadata.name.as_deref()).collect();
        Moment { claims, pending_pods, nodes, bindings: self }
    }

    /// Returns all objects, but without nominations that cannot succeed: kube-scheduler has marked the pod
    /// unschedulable, the node is initialized, and none of its pods is being deleted (as after a preemption). The
    /// scheduler that set the nomination may have ended and the capacity may be taken by another pod; the pod would
    /// wait forever.
    #[must_use]
    pub fn without_void_nominations(&self) -> Manifests {
        let mut manifests = self.manifests();
        for pod in manifests.pods.iter_mut().filter(|pod| pod.node.is_none()) {
            let Some(name) = &pod.nominated_node else { continue };
            let is_marked = self.pod(&pod.path).is_some_and(|live| live.is_marked);
            let takes_pods = self.node(name).is_some_and(|node| has_label(node, labels::INITIALIZED));
            let is_preempted = self.pods_on(name).any(|other| other.deleted_at.is_some());
            if is_marked && takes_pods && !is_preempted {
                pod.nominated_node = None;
            }
        }
        manifests
    }
}
