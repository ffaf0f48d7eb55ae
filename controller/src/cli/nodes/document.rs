//! Nodes for programs.

use jiff::Timestamp;
use muster_stages::roster::{Agent, Fault, Member, Phase, Stand};
use serde::Serialize;

use super::super::printable::{plain, plain_name};

const API_VERSION: &str = "muster.dev/v1";
const KIND: &str = "Nodes";

/// `kind: Nodes`.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct NodesDocument {
    api_version: &'static str,
    kind: &'static str,
    pub(super) nodes: Vec<NodeDocument>,
    pub(super) summary: Summary,
}

/// Node or NodeClaim.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct NodeDocument {
    pub(super) name: String,
    pub(super) node_claim: Option<String>,
    pub(super) node: Option<String>,
    pub(super) node_pool: Option<String>,
    pub(super) node_class: Option<String>,
    pub(super) instance_type: Option<String>,
    pub(super) zone: Option<String>,
    pub(super) capacity_type: Option<String>,
    #[serde(rename = "providerID")]
    pub(super) provider_id: Option<String>,
    pub(super) created: Option<String>,
    #[serde(flatten)]
    pub(super) stand: StandDocument,
    pub(super) agent: Option<AgentDocument>,
    pub(super) verdict: Option<FaultDocument>,
}

/// Lifecycle phase of a node.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct StandDocument {
    pub(crate) phase: &'static str,
    pub(crate) phase_since: Option<String>,
    /// Seconds from then to the time of the request; never negative.
    pub(crate) phase_seconds: Option<i64>,
    pub(crate) phase_reason: Option<String>,
    pub(crate) phase_message: Option<String>,
}

/// Report of a node's agent.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct AgentDocument {
    pub(crate) state: &'static str,
    pub(crate) stage: Option<String>,
    pub(crate) since: Option<String>,
    pub(crate) message: Option<String>,
    pub(crate) heard: Option<String>,
}

/// Verdict of a node's agent.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct FaultDocument {
    pub(crate) code: String,
    pub(crate) since: Option<String>,
    pub(crate) message: Option<String>,
    pub(crate) title: Option<&'static str>,
    pub(crate) cause: Option<&'static str>,
    pub(crate) fix: Option<String>,
}

/// Number of nodes by phase.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Summary {
    pub(super) nodes: usize,
    /// Nodes with a verdict. They are also counted by their phase.
    pub(super) broken: usize,
    pub(super) launching: usize,
    pub(super) launched: usize,
    pub(super) registered: usize,
    pub(super) initialized: usize,
    pub(super) ready: usize,
    pub(super) not_ready: usize,
    pub(super) disrupting: usize,
    pub(super) terminating: usize,
}

// === impl NodesDocument ===

impl NodesDocument {
    /// Builds the document of `members`, in their order, at `now`.
    pub(crate) fn new(members: &[Member], now: Timestamp) -> Self {
        let of = |phase| members.iter().filter(|member| member.stand.phase == phase).count();
        Self {
            api_version: API_VERSION,
            kind: KIND,
            nodes: members.iter().map(|member| NodeDocument::new(member, now)).collect(),
            summary: Summary {
                nodes: members.len(),
                broken: members.iter().filter(|member| member.is_broken()).count(),
                launching: of(Phase::Launching),
                launched: of(Phase::Launched),
                registered: of(Phase::Registered),
                initialized: of(Phase::Initialized),
                ready: of(Phase::Ready),
                not_ready: of(Phase::NotReady),
                disrupting: of(Phase::Disrupting),
                terminating: of(Phase::Terminating),
            },
        }
    }
}

// === impl NodeDocument ===

impl NodeDocument {
    pub(crate) fn new(member: &Member, now: Timestamp) -> Self {
        let Member { name, claim, node, pool, class, instance_type, zone, capacity_type, provider_id, .. } = member;
        let text = |text: &Option<std::sync::Arc<str>>| text.as_deref().map(plain_name);
        Self {
            name: plain_name(name),
            node_claim: text(claim),
            node: text(node),
            node_pool: text(pool),
            node_class: text(class),
            instance_type: text(instance_type),
            zone: text(zone),
            capacity_type: text(capacity_type),
            provider_id: text(provider_id),
            created: written(member.created),
            stand: StandDocument::new(&member.stand, now),
            agent: member.agent.as_ref().map(AgentDocument::new),
            verdict: member.fault.as_ref().map(FaultDocument::new),
        }
    }
}

// === impl StandDocument ===

impl StandDocument {
    pub(crate) fn new(stand: &Stand, now: Timestamp) -> Self {
        let Stand { phase, since, reason, message } = stand;
        Self {
            phase: phase.name(),
            phase_since: written(*since),
            phase_seconds: since.map(|since| now.duration_since(since).as_secs().max(0)),
            phase_reason: reason.as_deref().map(plain_name),
            phase_message: message.as_deref().map(plain),
        }
    }
}

// === impl AgentDocument ===

impl AgentDocument {
    pub(crate) fn new(agent: &Agent) -> Self {
        let Agent { state, stage, since, message, heard } = agent;
        Self {
            state: state.name(),
            stage: stage.as_deref().map(plain_name),
            since: written(*since),
            message: message.as_deref().map(plain),
            heard: written(*heard),
        }
    }
}

// === impl FaultDocument ===

impl FaultDocument {
    pub(crate) fn new(fault: &Fault) -> Self {
        let Fault { code, since, message, title, cause, fix } = fault;
        Self {
            code: plain_name(code),
            since: written(*since),
            message: message.as_deref().map(plain),
            title: *title,
            cause: *cause,
            fix: fix.as_deref().map(plain),
        }
    }
}

fn written(moment: Option<Timestamp>) -> Option<String> {
    moment.map(|moment| moment.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_an_agent_wrote_commands_no_terminal() {
        let fault = FaultDocument::new(&Fault::new("ZZ99", "\u{1b}]0;title; fix: \u{9b}31m", None));
        assert_eq!((fault.message.as_deref(), fault.fix.as_deref()), (Some("\u{fffd}]0;title"), Some("\u{fffd}31m")));
    }
}
