//! Disruption of a node that was launched from a NodePool: the reason why it stays or goes, and the effect of its
//! removal.

use jiff::Timestamp;
use muster_scheduling::disrupt::{DisruptionInput, Settings, if_removed};
use serde::Serialize;

use super::super::disrupt::{BlockedNode, CommandDocument, judge, with_pods};
use super::super::failure::Failure;
use super::super::plan::{ExistingNode, NewNode, UnschedulablePod};
use super::super::progress::Progress;

/// Current disruption decision about a node.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct ManagedNodeDocument {
    /// Reason why it stays or goes.
    pub(super) reason: &'static str,
    pub(super) since: Option<String>,
    pub(super) message: String,
    /// Command that disrupts it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) command: Option<CommandDocument>,
}

/// Effect of removing the node.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct RemovalDocument {
    pub(super) pods: Vec<String>,
    pub(super) existing_nodes: Vec<ExistingNode>,
    pub(super) replacements: Vec<NewNode>,
    pub(super) unplaced: Vec<UnschedulablePod>,
    pub(super) bare_pods: Vec<String>,
    /// Saving in USD per hour; negative if the replacements cost more.
    pub(super) savings: f64,
}

impl ManagedNodeDocument {
    /// Builds the document of the node with this index; `None` if it is not managed, or is being deleted.
    pub(super) fn new(
        input: &DisruptionInput,
        (now, settings): (Timestamp, &Settings),
        node: usize,
        progress: &mut Progress,
    ) -> Result<Option<Self>, Failure> {
        let decision = judge(input, now, settings, progress)?.decision;
        if let Some(blocked) = decision.blocked.iter().find(|blocked| blocked.node == node) {
            let BlockedNode { node: _, reason, since, message } = BlockedNode::new(&input.problem, blocked, now);
            return Ok(Some(Self { reason, since: Some(since), message, command: None }));
        }
        let Some(at) = decision.commands.iter().position(|command| command.candidates.contains(&node)) else {
            return Ok(None);
        };
        let command = CommandDocument::all(input, &decision.pods, &decision.commands).swap_remove(at);
        let others = match command.candidates.len() {
            1 => String::new(),
            count => format!(" with {} others", count - 1),
        };
        let message = format!("command {} of {} removes it{others}", at + 1, decision.commands.len());
        Ok(Some(Self { reason: command.reason, since: None, message, command: Some(command) }))
    }
}

impl RemovalDocument {
    /// Builds the document of the node with this index.
    ///
    /// # Errors
    /// The node is not managed, or is being deleted.
    pub(super) fn new(
        input: &DisruptionInput,
        (now, settings): (Timestamp, &Settings),
        node: usize,
    ) -> Result<Self, Failure> {
        let name = &input.problem.nodes[node].name;
        let removal = if_removed(input, now, settings, node).ok_or_else(|| {
            Failure::Usage(format!(
                "node `{name}` has no NodeClaim, or is being deleted already\n\nhint: `--if-removed` is about managed nodes that stay"
            ))
        })?;
        let mut commands = CommandDocument::all(input, &removal.pods, std::slice::from_ref(&removal.command));
        let command = commands.swap_remove(0);
        let problem = with_pods(input, &removal.pods);
        Ok(Self {
            pods: removal.pods.iter().map(|pod| pod.name.to_string()).collect(),
            existing_nodes: command.existing_nodes,
            replacements: command.replacements,
            unplaced: removal.unplaced.iter().map(|pod| UnschedulablePod::new(&problem, pod, Vec::new())).collect(),
            bare_pods: command.bare_pods,
            savings: command.savings,
        })
    }
}
