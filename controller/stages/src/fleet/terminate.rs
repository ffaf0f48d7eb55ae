//! Termination of a NodeClaim on an operator's request.

use muster_api::NodeClaim;

use super::{Ended, Kind, Refusal};
use crate::step::{DeletionCause, Write};

/// Termination request and its user.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Termination {
    /// Name of the user.
    pub by: String,
    /// Name of the NodeClaim.
    pub claim: String,
    /// Its UID, if only that object is meant.
    pub uid: Option<String>,
}

/// Result of a termination request.
#[derive(Debug, Clone, PartialEq)]
pub struct Ending {
    /// The NodeClaim.
    pub ended: Ended,
    /// Write that deletes the NodeClaim; none if it is already being deleted.
    pub write: Option<Write>,
}

/// Returns the deletion of the requested NodeClaim, out of `claims`; `kind` is the kind of NodeClass that this
/// controller launches with.
///
/// # Errors
/// Returns a refusal if the NodeClaim does not exist, has another UID, or belongs to another controller.
pub fn terminate(claims: &[&NodeClaim], kind: &str, wanted: &Termination) -> Result<Ending, Refusal> {
    let Termination { by: _, claim: name, uid: meant } = wanted;
    let names = claims.iter().filter_map(|one| one.metadata.name.as_deref());
    let Some(claim) = claims.iter().find(|one| one.metadata.name.as_ref() == Some(name)) else {
        return Err(Refusal::not_found("NodeClaim", name, names));
    };
    let uid = claim.metadata.uid.clone().unwrap_or_default();
    let refused = |what: String, hint: &str| {
        Err(Refusal::new(Kind::Precondition, format!("NodeClaim `{name}` {what}\n\nhint: {hint}")))
    };
    if let Some(meant) = meant.as_ref().filter(|meant| **meant != uid) {
        return refused(format!("was replaced: its UID is {uid}, not {meant}"), "List shows those that there are");
    }
    let class = &claim.spec.node_class_ref.kind;
    if class != kind {
        return refused(
            format!("is of the kind `{class}`, and this controller launches with `{kind}`"),
            "ask the controller that has launched it",
        );
    }
    let was_ending = claim.metadata.deletion_timestamp.is_some();
    let write = (!was_ending).then(|| Write::DeleteClaim {
        name: name.clone(),
        uid: uid.clone(),
        cause: DeletionCause::Ordered,
    });
    Ok(Ending { ended: Ended { uid, was_ending }, write })
}
