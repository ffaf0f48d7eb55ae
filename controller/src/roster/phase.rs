//! How far a node has come, by the conditions of its NodeClaim and Node.

use std::sync::Arc;

use jiff::Timestamp;
use muster_api::conditions::{READY, nodeclaim};

use super::{condition, moment, some};
use crate::manifest::{Condition, Node, NodeClaim};

/// A part of a node's life.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Phase {
    /// There is no instance yet.
    Launching,
    /// There is an instance, and no Node that has registered.
    Launched,
    /// There is a Node, which does not take its pods yet.
    Registered,
    /// It takes pods, as its claim says; there is no Node of it in the input that could be asked.
    Initialized,
    /// It takes pods, and its kubelet says that it is well.
    Ready,
    /// It took pods, and its kubelet does not say any more that it is well.
    NotReady,
    /// It has been decided that it goes; its pods still run.
    Disrupting,
    /// It is being drained and ended.
    Terminating,
}

/// Where a node stands.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Stand {
    /// How far it has come.
    pub phase: Phase,
    /// Since when.
    pub since: Option<Timestamp>,
    /// Why it has come no further, or why it goes: a word.
    pub reason: Option<Arc<str>>,
    /// The same in a line.
    pub message: Option<Arc<str>>,
}

// === impl Phase ===

impl Phase {
    /// All of them, in the order of a life.
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

    /// As it is written.
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
            // What has been done last, or is waited for.
            let way = [nodeclaim::INSTANCE_TERMINATING, nodeclaim::VOLUMES_DETACHED, nodeclaim::DRAINED];
            let told = way.into_iter().find_map(|kind| condition(&claim.conditions, kind));
            return Self::new(Phase::Terminating, moment(Some(deleted)), told);
        }
        // The decision is the news, whatever the node was before it.
        if let Some(going) = held(nodeclaim::DISRUPTION_REASON).or_else(|| held(nodeclaim::INTERRUPTED)) {
            return Self::new(Phase::Disrupting, since(going), Some(going));
        }
        // The last of them is the word: objects that were written by hand often have no other.
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

    /// What the Node's condition Ready says. A Node that has none is not Ready.
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
