//! Verdict of a node's agent, from the condition NodeVerdict of its NodeClaim.

use std::sync::Arc;

use jiff::Timestamp;
use muster_api::conditions::nodeclaim;
use muster_bootstrap::verdicts;
use muster_manifest::NodeClaim;

use super::{condition, moment, some};

/// Separator between the problem and its fix in the condition's message.
pub const FIX: &str = "; fix: ";

/// A verdict on a node.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Fault {
    /// A code of `docs/verdicts.md`, or of a newer agent.
    pub code: Arc<str>,
    /// Time since which it holds.
    pub since: Option<Timestamp>,
    /// Problem on this node, and where it was detected.
    pub message: Option<Arc<str>>,
    /// Short title of the code; none if this version does not know it.
    pub title: Option<&'static str>,
    /// Cause of the problem and its consequences.
    pub cause: Option<&'static str>,
    /// Instructions to fix it.
    pub fix: Option<Arc<str>>,
}

// === impl Fault ===

impl Fault {
    /// Returns the current verdict; none if it was withdrawn.
    pub(super) fn of(claim: &NodeClaim) -> Option<Self> {
        let stands = condition(&claim.conditions, nodeclaim::NODE_VERDICT).filter(|one| &*one.status == "False")?;
        Some(Self::new(&stands.reason, &stands.message, moment(stands.since.as_deref())))
    }

    /// Creates a fault from a code and the condition's message.
    pub fn new(code: &str, told: &str, since: Option<Timestamp>) -> Self {
        let (message, advice) = told.split_once(FIX).unwrap_or((told, ""));
        let known = verdicts::find(code);
        Self {
            code: code.into(),
            since,
            message: some(message),
            title: known.map(|verdict| verdict.title),
            cause: known.map(|verdict| verdict.cause),
            // The fix in the message may be truncated; the known one is complete.
            fix: known.map(|verdict| verdict.fix.into()).or_else(|| some(advice)),
        }
    }
}
