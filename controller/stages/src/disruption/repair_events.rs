//! Events about unhealthy nodes that are not repaired because too many of their pool are.

use std::collections::BTreeSet;

use muster_api::events;
use muster_scheduling::disrupt::{Block, Decision, DisruptionInput};

use crate::state::Cluster;
use crate::step::{Event, EventType, Subject, Write};

/// Maximum number of nodes of which a decision tells. The pool tells of all.
const MOST: usize = 20;

/// Returns the events of `decision`, on each Node, its NodeClaim, and the NodePool, as in Karpenter.
#[must_use]
pub fn repair_blocked(decision: &Decision, input: &DisruptionInput, cluster: &Cluster) -> Vec<Write> {
    let told = |kind: &str, name: &str, uid: Option<&String>, message: &str| {
        let (kind, name, uid) = (kind.to_owned(), name.to_owned(), uid.cloned().unwrap_or_default());
        Write::Event(Event {
            about: Subject { kind, namespace: None, name, uid },
            kind: EventType::Warning,
            reason: events::NODE_REPAIR_BLOCKED,
            message: message.to_owned(),
        })
    };
    let mut writes = Vec::new();
    let mut pools: BTreeSet<&str> = BTreeSet::new();
    let blocked = decision.blocked.iter().filter(|blocked| blocked.block == Block::NodeRepairBlocked);
    for (number, blocked) in blocked.enumerate() {
        let Some(managed_node) = input.managed_nodes.get(blocked.node).and_then(Option::as_ref) else { continue };
        let pool = &*managed_node.pool_name;
        if let Some(there) = cluster.pool(pool).filter(|_| pools.insert(pool)) {
            let message = format!("more than 20% of nodes in NodePool `{pool}` are unhealthy: none is repaired");
            writes.push(told("NodePool", pool, there.metadata.uid.as_ref(), &message));
        }
        if number >= MOST {
            continue;
        }
        let name = &*input.problem.nodes[blocked.node].name;
        let Some(node) = cluster.node(name) else { continue };
        writes.push(told("Node", name, node.metadata.uid.as_ref(), &blocked.message));
        if let Some(claim) = cluster.claim_of(node) {
            let claim_name = claim.metadata.name.as_deref().unwrap_or_default();
            writes.push(told("NodeClaim", claim_name, claim.metadata.uid.as_ref(), &blocked.message));
        }
    }
    writes
}
