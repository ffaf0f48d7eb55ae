//! What a node's agent says of its way into the cluster, as the condition AgentReady of its NodeClaim has it.

use std::sync::Arc;

use jiff::Timestamp;
use muster_api::annotations;
use muster_api::conditions::{nodeclaim, reason};

use super::{condition, moment, some};
use crate::manifest::NodeClaim;

/// How a node's agent is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AgentState {
    /// It is waited for, and has not said anything yet.
    Expected,
    /// It says at which stage the node is.
    Starting,
    /// It says that the node is there.
    Ready,
    /// It said something once, and does not any more.
    Silent,
}

/// A node's agent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Agent {
    /// How it is.
    pub state: AgentState,
    /// The stage that is not done: `Preflight`, `Bootstrap`, `Kubelet`, `Registered`, `Devices` or `Initialized`.
    pub stage: Option<Arc<str>>,
    /// Since when it is so.
    pub since: Option<Timestamp>,
    /// What it waits for.
    pub message: Option<Arc<str>>,
    /// When it was heard of, as of some connection of its last hour.
    pub heard: Option<Timestamp>,
}

// === impl AgentState ===

impl AgentState {
    /// As it is written.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Expected => "Expected",
            Self::Starting => "Starting",
            Self::Ready => "Ready",
            Self::Silent => "Silent",
        }
    }
}

// === impl Agent ===

impl Agent {
    pub(super) fn of(claim: &NodeClaim) -> Option<Self> {
        let annotation = |key: &str| claim.meta.annotations.get(key).map(|value| &**value);
        let heard = moment(annotation(annotations::AGENT_HEARD));
        let Some(word) = condition(&claim.conditions, nodeclaim::AGENT_READY) else {
            let is_expected = annotation(annotations::AGENT) == Some(annotations::AGENT_EXPECTED);
            let expected = Self { state: AgentState::Expected, stage: None, since: None, message: None, heard };
            return is_expected.then_some(expected);
        };
        let state = match (&*word.status, &*word.reason) {
            ("True", _) => AgentState::Ready,
            (_, reason::AGENT_SILENT) => AgentState::Silent,
            _ => AgentState::Starting,
        };
        Some(Self {
            state,
            stage: (state == AgentState::Starting).then(|| some(&word.reason)).flatten(),
            since: moment(word.since.as_deref()),
            message: some(&word.message),
            heard,
        })
    }

    /// In a word: the stage, where it is at one.
    #[must_use]
    pub fn word(&self) -> &str {
        self.stage.as_deref().unwrap_or(self.state.name())
    }
}
