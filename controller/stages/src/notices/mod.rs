//! Events about what does not happen, and why: decided from a state, written by the caller.
//!
//! ```text
//!   blocked   why nodes are not disrupted, and why they are not consolidated   a decision about nodes
//!   pods      what do-not-disrupt annotations of pods mean                     the cluster
//!   progress  what a termination or a replacement waits for                    the cluster
//!   pools     NodePools whose requirements no instance type meets              a decision about pods
//!   zonal_shifts   zones in which NodePools launch nothing, or do again        what the cloud says
//! ```
//!
//! They are the same each time that they are decided; the one that publishes events drops those that were published a
//! moment ago, and limits how many of a kind there are.

mod blocked;
mod pods;
mod pools;
mod progress;
mod zonal_shifts;

#[cfg(test)]
mod tests;

pub use blocked::blocked;
pub use pods::holds;
pub use pools::incompatible;
pub use progress::progress;
pub use zonal_shifts::ToldShifts;

use muster_api::NodeClaim;

use crate::node::Node;
use crate::step::{Event, EventType, Subject};

fn of_claim(claim: &NodeClaim) -> Subject {
    Subject {
        kind: "NodeClaim".to_owned(),
        namespace: None,
        name: claim.metadata.name.clone().unwrap_or_default(),
        uid: claim.metadata.uid.clone().unwrap_or_default(),
    }
}

/// Returns the reference of a Node. The UID in events about Nodes is their name, as the kubelet has it.
fn of_node(node: &Node) -> Subject {
    let name = node.metadata.name.clone().unwrap_or_default();
    Subject { kind: "Node".to_owned(), namespace: None, uid: name.clone(), name }
}

fn event(about: Subject, kind: EventType, reason: &'static str, message: impl Into<String>) -> Event {
    Event { about, kind, reason, message: message.into() }
}
