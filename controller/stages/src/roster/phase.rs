//! Phase of a node, from the conditions of its NodeClaim and Node.

use std::sync::Arc;

use jiff::Timestamp;
use muster_api::conditions::{READY, nodeclaim};
use muster_manifest::{Condition, Node, NodeClaim};

use super::{condition, moment, some};

/// Phase in a node's lifecycle.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Phase {
    /// The instance does not exist yet.
    Launching,
    /// The instance exists, but its Node has not registered.
    Launched,
    /// The Node has registered, but is not initialized.
    Registered,
    /// The claim is initialized; its Node is not in the input.
    Initialized,
    /// The Node is initialized and Ready.
    Ready,
    /// The Node was initialized and is not Ready.
    NotReady,
    /// The node is selected for disruption or interrupted; its pods still run.
    Disrupting,
    /// The node is being drained and terminated.
    Terminating,
}

/// Phase of a node, with its time and reason.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Stand {
    /// The phase.
    pub phase: Phase,
    /// Time of the transition to this phase.
    pub since: Option<Timestamp>,
    /// Reason (one word) why it has not proceeded, or why it is being removed.
    pub reason: Option<Arc<str>>,
    /// Message that belongs to the reason.
    pub message: Option<Arc<str>>,
}

// === impl Phase ===

impl Phase {
    /// All phases, in lifecycle order.
    pub const ALL: [Self; 8] = [
        Self::Launching,
        Self::Launched,
        Self::Registered,
        Self::Initialized,
        Self::Ready,
        Self::NotReady,
        Self::Disrupting,
        Self::Terminating,
    ];

    /// Returns the name as printed.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Launching => "Launching",
            Self::Launched => "Launched",
            Self::Registered => "Registered",
            Self::Initialized => "Initialized",
            Self::Ready => "Ready",
            Self::NotReady => "NotReady",
            Self::Disrupting => "Disrupting",
            Self::Terminating => "Terminating",
        }
    }
}

// === impl Stand ===

impl Stand {
    pub(super) fn of(claim: &NodeClaim, node: Option<&Node>) -> Self {
        let held = |kind| condition(&claim.conditions, kind).filter(|one| &*one.status == "True");
        let open = |kind| condition(&claim.conditions, kind).filter(|one| &*one.status != "True");
        let deleted = claim.meta.deleted.as_ref().or_else(|| node?.meta.deleted.as_ref());
        if let Some(deleted) = deleted {
            // The last completed step of the termination, or the one being waited for.
            let way = [nodeclaim::INSTANCE_TERMINATING, nodeclaim::VOLUMES_DETACHED, nodeclaim::DRAINED];
            let told = way.into_iter().find_map(|kind| condition(&claim.conditions, kind));
            return Self::new(Phase::Terminating, moment(Some(deleted)), told);
        }
        // A decision to remove the node takes precedence over its previous phase.
        if let Some(going) = held(nodeclaim::DISRUPTION_REASON).or_else(|| held(nodeclaim::INTERRUPTED)) {
            return Self::new(Phase::Disrupting, since(going), Some(going));
        }
        // Initialized alone decides: hand-written objects often have no other condition.
        let Some(initialized) = held(nodeclaim::INITIALIZED) else {
            return match (held(nodeclaim::REGISTERED), held(nodeclaim::LAUNCHED)) {
                (Some(registered), _) => Self::new(Phase::Registered, since(registered), open(nodeclaim::INITIALIZED)),
                (None, Some(launched)) => Self::new(Phase::Launched, since(launched), open(nodeclaim::REGISTERED)),
                (None, None) => {
                    let created = moment(claim.meta.created.as_deref());
                    Self::new(Phase::Launching, created, open(nodeclaim::LAUNCHED))
                }
            };
        };
        match node {
            None => Self::new(Phase::Initialized, since(initialized), None),
            Some(node) => {
                let word = Self::by_kubelet(node);
                // A Node is Ready before it is initialized.
                let since = word.since.max(since(initialized));
                if word.phase == Phase::Ready { Self { since, ..word } } else { word }
            }
        }
    }

    pub(super) fn without_claim(node: &Node) -> Self {
        match &node.meta.deleted {
            Some(deleted) => Self::new(Phase::Terminating, moment(Some(deleted)), None),
            None => Self::by_kubelet(node),
        }
    }

    /// Returns the phase from the Node's condition Ready. A Node without the condition is not Ready.
    fn by_kubelet(node: &Node) -> Self {
        match condition(&node.conditions, READY) {
            Some(ready) if &*ready.status == "True" => Self::new(Phase::Ready, since(ready), None),
            ready => Self::new(Phase::NotReady, ready.and_then(since), ready),
        }
    }

    fn new(phase: Phase, since: Option<Timestamp>, told: Option<&Condition>) -> Self {
        let reason = told.and_then(|one| some(&one.reason));
        let message = told.and_then(|one| some(&one.message));
        Self { phase, since, reason, message }
    }
}

fn since(condition: &Condition) -> Option<Timestamp> {
    moment(condition.since.as_deref())
}
