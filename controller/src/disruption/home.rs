//! A claim and what is around it, taken out of the picture so that it outlives a glance at it.

use muster_api::{NodeClaim, NodePool};

use super::look::{Candidate, Replacement};
use crate::lifecycle::Resident;
use crate::node::Node;
use crate::provision::Plan;
use crate::state::{Cluster, LivePod};

/// A claim, its Node, the pods there, and the pod that is about to come there.
#[derive(Debug, Clone)]
pub struct Home {
    /// The claim.
    pub claim: NodeClaim,
    /// Its NodePool, if it has one that exists.
    pub pool: Option<NodePool>,
    /// Its Node, if it has one.
    pub node: Option<Node>,
    residents: Vec<Resident>,
    promised_to: Option<String>,
}

// === impl Home ===

impl Home {
    /// The home of a Node, if it has a claim.
    #[must_use]
    pub fn of_node(cluster: &Cluster, plan: &Plan, node: &str) -> Option<Self> {
        let id = cluster.node(node)?.spec.as_ref()?.provider_id.as_deref()?;
        let claim = cluster.claims_of(id).next()?;
        Self::of_claim(cluster, plan, claim.metadata.name.as_deref()?)
    }

    /// The home that a claim stands for.
    #[must_use]
    pub fn of_claim(cluster: &Cluster, plan: &Plan, claim: &str) -> Option<Self> {
        let around = cluster.around(claim)?;
        let node = around.nodes.first().copied().cloned();
        let name = node.as_ref().and_then(|node| node.metadata.name.as_deref());
        let is_told = |pod: &&LivePod| pod.waits() && pod.pod.nominated_node.as_deref() == name;
        let told = name.and_then(|_| cluster.unbound().find(is_told)).map(|pod| &*pod.pod.path);
        let planned = plan.placed_on(claim).filter(|path| cluster.pod(path).is_some_and(LivePod::waits));
        let promised_to = planned.chain(told).min().map(str::to_owned);
        let pool = around.pool.cloned();
        let residents = around.residents().to_vec();
        Some(Self { claim: around.claim.clone(), pool, node, residents, promised_to })
    }

    /// As something that is to go.
    #[must_use]
    pub fn candidate(&self) -> Candidate<'_> {
        Candidate {
            claim: &self.claim,
            pool: self.pool.as_ref(),
            node: self.node.as_ref(),
            residents: &self.residents,
            promised_to: self.promised_to.as_deref(),
        }
    }

    /// As something that was launched.
    #[must_use]
    pub fn replacement(&self) -> Replacement<'_> {
        Replacement {
            claim: &self.claim,
            pool: self.pool.as_ref(),
            residents: &self.residents,
            promised_to: self.promised_to.as_deref(),
        }
    }
}
