//! A copy of a claim and its surroundings, which outlives the lock on the watch cache.

use muster_api::{NodeClaim, NodePool};

use super::observed_command::{Candidate, Replacement};
use crate::lifecycle::Resident;
use crate::node::Node;
use crate::provision::Plan;
use crate::state::{Cluster, LivePod};

/// A claim, its Node, its pods, and the pod that is about to be bound there.
#[derive(Debug, Clone)]
pub struct CommandNode {
    /// The claim.
    pub claim: NodeClaim,
    /// Its NodePool, if it exists.
    pub pool: Option<NodePool>,
    /// Its Node, if it exists.
    pub node: Option<Node>,
    residents: Vec<Resident>,
    promised_to: Option<String>,
}

// === impl CommandNode ===

impl CommandNode {
    /// Returns the home of a Node, if it has a claim.
    #[must_use]
    pub fn of_node(cluster: &Cluster, plan: &Plan, node: &str) -> Option<Self> {
        let claim = cluster.claim_of(cluster.node(node)?)?;
        Self::of_claim(cluster, plan, claim.metadata.name.as_deref()?)
    }

    /// Returns the home of a claim.
    #[must_use]
    pub fn of_claim(cluster: &Cluster, plan: &Plan, claim: &str) -> Option<Self> {
        let around = cluster.around(claim)?;
        let node = around.nodes.first().copied().cloned();
        let name = node.as_ref().and_then(|node| node.metadata.name.as_deref());
        let nominated = name.and_then(|name| cluster.nominated_to(name).next()).map(|pod| &*pod.pod.path);
        let planned = plan.placed_on(claim).filter(|path| cluster.pod(path).is_some_and(LivePod::waits));
        let promised_to = planned.chain(nominated).min().map(str::to_owned);
        let pool = around.pool.cloned();
        let residents = around.residents().to_vec();
        Some(Self { claim: around.claim.clone(), pool, node, residents, promised_to })
    }

    /// Returns the candidate of a command.
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

    /// Returns the replacement of a command.
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
