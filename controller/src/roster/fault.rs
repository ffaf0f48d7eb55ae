//! What a node's agent says is wrong, as the condition NodeVerdict of its NodeClaim has it.

use std::sync::Arc;

use jiff::Timestamp;
use muster_api::conditions::nodeclaim;
use muster_bootstrap::verdicts;

use super::{condition, moment, some};
use crate::manifest::NodeClaim;

/// What stands between what is wrong and what to do about it, in the message of the condition.
pub(crate) const FIX: &str = "; fix: ";

/// A verdict on a node.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Fault {
    /// A code of `docs/verdicts.md`, or of a newer agent.
    pub code: Arc<str>,
    /// Since when.
    pub since: Option<Timestamp>,
    /// What is wrong with this node, and where it was seen.
    pub message: Option<Arc<str>>,
    /// What the code means in a few words; none if it is not known here.
    pub title: Option<&'static str>,
    /// Why it happens and what comes of it.
    pub cause: Option<&'static str>,
    /// What to do.
    pub fix: Option<Arc<str>>,
}

// === impl Fault ===

impl Fault {
    /// The verdict that stands; one that was taken back is none.
    pub(super) fn of(claim: &NodeClaim) -> Option<Self> {
        let stands = condition(&claim.conditions, nodeclaim::NODE_VERDICT).filter(|one| &*one.status == "False")?;
        Some(Self::new(&stands.reason, &stands.message, moment(stands.since.as_deref())))
    }

    /// Of a code and of what the condition said.
    pub(crate) fn new(code: &str, told: &str, since: Option<Timestamp>) -> Self {
        let (message, advice) = told.split_once(FIX).unwrap_or((told, ""));
        let known = verdicts::find(code);
        Self {
            code: code.into(),
            since,
            message: some(message),
            title: known.map(|verdict| verdict.title),
            cause: known.map(|verdict| verdict.cause),
            // What was said may be cut off; what is known is not.
            fix: known.map(|verdict| verdict.fix.into()).or_else(|| some(advice)),
        }
    }
}
