//! State of a node's agent, from the condition AgentReady of its NodeClaim.

use std::sync::Arc;

use jiff::Timestamp;
use muster_api::annotations;
use muster_api::conditions::{nodeclaim, reason};
use muster_manifest::NodeClaim;

use super::{condition, moment, some};

/// State of a node's agent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AgentState {
    /// The controller expects an agent that has not reported yet.
    Expected,
    /// The agent reports the stage at which the node is.
    Starting,
    /// The agent reports that the node has joined.
    Ready,
    /// The agent has reported before, but no longer does.
    Silent,
}

/// A node's agent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Agent {
    /// Its state.
    pub state: AgentState,
    /// Unfinished stage: `Preflight`, `Bootstrap`, `Kubelet`, `Registered`, `Devices` or `Initialized`.
    pub stage: Option<Arc<str>>,
    /// Time of the last change of state.
    pub since: Option<Timestamp>,
    /// Message of the condition: what the agent is waiting for.
    pub message: Option<Arc<str>>,
    /// Time of the last recorded connection of the agent.
    pub heard: Option<Timestamp>,
}

// === impl AgentState ===

impl AgentState {
    /// Returns the name as printed.
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

    /// Returns a one-word summary: the stage if there is one, else the state.
    #[must_use]
    pub fn word(&self) -> &str {
        self.stage.as_deref().unwrap_or(self.state.name())
    }
}
