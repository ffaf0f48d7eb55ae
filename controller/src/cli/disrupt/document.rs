//! Disruption plan for programs. Field names are a contract: fields may be added, never renamed or removed.

use jiff::{SignedDuration, Timestamp};
use muster_scheduling::disrupt::{Blocked, Command, DisruptionInput, Method, RepairCondition};
use muster_scheduling::model::{Pod, Problem};
use serde::Serialize;

use super::super::plan::{ExistingNode, NewNode, dollars, existing_nodes, new_nodes, pod_names};
use super::Verdict;

/// `kind: DisruptionPlan`.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct DisruptionDocument {
    api_version: &'static str,
    kind: &'static str,
    pub(super) commands: Vec<CommandDocument>,
    /// Nodes whose instances are rebooted.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(super) reboots: Vec<RebootDocument>,
    pub(super) blocked: Vec<BlockedNode>,
    pub(super) summary: Summary,
}

/// Nodes that are disrupted together.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct CommandDocument {
    pub(crate) reason: &'static str,
    pub(crate) method: &'static str,
    pub(crate) decision: &'static str,
    pub(crate) candidates: Vec<String>,
    pub(crate) replacements: Vec<NewNode>,
    pub(crate) existing_nodes: Vec<ExistingNode>,
    pub(crate) savings: f64,
    /// Pods without a place on another node.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(crate) unplaced: Vec<String>,
    /// Pods without a controller, which are not recreated.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(crate) bare_pods: Vec<String>,
    /// Details of the reason, per node, where there are any.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(crate) details: Vec<String>,
    /// The pods among all these that exist: others are room of a CapacityBuffer, which nobody evicts.
    #[serde(skip)]
    pub(super) moved: Vec<String>,
    /// True if the nodes are of static pools, whose replacements alone take their pods.
    #[serde(skip)]
    pub(super) is_static: bool,
}

/// Node that is rebooted, and stays.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct RebootDocument {
    pub(crate) node: String,
    pub(crate) detail: String,
}

/// Node that stays.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct BlockedNode {
    pub(crate) node: String,
    pub(crate) reason: &'static str,
    /// Time since which it stays; the time of the decision if no earlier one is known.
    pub(crate) since: String,
    pub(crate) message: String,
}

/// Summary of the decision in figures.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Summary {
    pub(crate) nodes: usize,
    pub(crate) commands: usize,
    pub(crate) candidates: usize,
    pub(crate) replacements: usize,
    pub(crate) moved_pods: usize,
    pub(crate) blocked: usize,
    pub(crate) savings: f64,
    /// Source of the prices.
    pub(crate) price_source: String,
    pub(crate) decide_seconds: f64,
    pub(crate) validate_seconds: f64,
}

impl DisruptionDocument {
    /// Builds the document of a decision about `input`. `price_source` describes where the prices come from.
    pub(super) fn new(input: &DisruptionInput, verdict: &Verdict, now: Timestamp, price_source: &str) -> Self {
        let Verdict { decision, decide_seconds, validate_seconds } = verdict;
        let commands = CommandDocument::all(input, &decision.pods, &decision.commands);
        let blocked: Vec<BlockedNode> =
            decision.blocked.iter().map(|blocked| BlockedNode::new(&input.problem, blocked, now)).collect();
        let candidates = commands.iter().map(|command| command.candidates.len()).sum();
        let reboots = decision.reboots.iter().map(|&node| RebootDocument::new(input, node, now)).collect::<Vec<_>>();
        let summary = Summary {
            nodes: candidates + reboots.len() + blocked.len(),
            commands: commands.len(),
            candidates,
            replacements: commands.iter().map(|command| command.replacements.len()).sum(),
            moved_pods: decision.pods.iter().filter(|pod| !input.problem.specs[pod.spec].is_virtual).count(),
            blocked: blocked.len(),
            savings: dollars(commands.iter().map(|command| command.savings).sum()),
            price_source: price_source.to_owned(),
            decide_seconds: *decide_seconds,
            validate_seconds: *validate_seconds,
        };
        Self { api_version: "muster.dev/v1", kind: "DisruptionPlan", commands, reboots, blocked, summary }
    }
}

impl CommandDocument {
    /// Builds the documents of `commands`, which refer to `pods` by index.
    pub(crate) fn all(input: &DisruptionInput, pods: &[Pod], commands: &[Command]) -> Vec<Self> {
        let problem = &with_pods(input, pods);
        let launches: Vec<_> = commands.iter().flat_map(|command| command.replacements.iter().cloned()).collect();
        let mut launches = new_nodes(problem, &launches).into_iter();
        let document = |command: &Command| Self {
            reason: command.cause.name(),
            method: command.method.name(),
            decision: match command.method {
                Method::TerminateFirst => "terminate-first",
                _ if command.replaces() => "replace",
                _ => "delete",
            },
            candidates: command.candidates.iter().map(|&node| problem.nodes[node].name.to_string()).collect(),
            replacements: launches.by_ref().take(command.replacements.len()).collect(),
            existing_nodes: existing_nodes(problem, &command.existing),
            savings: dollars(command.savings),
            // Room of a buffer that is lost is made again.
            unplaced: pod_names(problem, &real(problem, &command.unplaced).collect::<Vec<_>>()),
            bare_pods: pod_names(problem, &command.bare),
            details: command.candidates.iter().filter_map(|&node| detail(input, command, node)).collect(),
            moved: pod_names(problem, &moved(problem, command)),
            is_static: command.candidates.iter().all(|&node| is_static(input, node)),
        };
        commands.iter().map(document).collect()
    }
}

/// Returns the problem of `input` with these pods to place, by which documents name pods.
pub(crate) fn with_pods(input: &DisruptionInput, pods: &[Pod]) -> Problem {
    let mut problem = input.problem.clone();
    problem.pods = pods.to_vec();
    problem
}

/// Returns the pods of `problem` that the command evicts.
fn moved(problem: &Problem, command: &Command) -> Vec<usize> {
    let placed = command.existing.iter().flat_map(|(_, pods)| pods);
    let placed = placed.chain(command.replacements.iter().flat_map(|node| &node.pods)).chain(&command.unplaced);
    real(problem, placed).collect()
}

/// Returns those of the pods that are not the room of a buffer.
fn real<'p>(problem: &Problem, pods: impl IntoIterator<Item = &'p usize>) -> impl Iterator<Item = usize> {
    pods.into_iter().copied().filter(|&pod| !problem.spec_of(pod).is_virtual)
}

/// Returns true if the node's pool has a fixed number of nodes.
fn is_static(input: &DisruptionInput, node: usize) -> bool {
    let pool = input.managed_nodes[node].as_ref().and_then(|managed_node| managed_node.pool);
    pool.is_some_and(|pool| input.problem.pools[pool].missing_replicas.is_some())
}

/// Returns the details of a command's reason for a node.
fn detail(input: &DisruptionInput, command: &Command, node: usize) -> Option<String> {
    use muster_scheduling::disrupt::Cause;
    let managed_node = input.managed_nodes[node].as_ref()?;
    let name = &input.problem.nodes[node].name;
    match command.cause {
        Cause::Empty | Cause::Underutilized => None,
        Cause::Drifted => managed_node.drifted.as_ref().map(|drift| match &*drift.detail {
            "" => format!("{name}: {}", drift.reason),
            detail => format!("{name}: {}: {detail}", drift.reason),
        }),
        Cause::Expired => managed_node.expires().map(|end| format!("{name}: expired at {end}")),
        Cause::Unhealthy | Cause::Broken => {
            let condition = managed_node.repair_conditions.first();
            condition.map(|it| format!("{name}: {}", repair_detail(it, it.drain)))
        }
        Cause::Interrupted => managed_node.interrupted.as_ref().map(|it| format!("{name}: {}", it.notice)),
    }
}

impl RebootDocument {
    fn new(input: &DisruptionInput, node: usize, now: Timestamp) -> Self {
        let due = input.managed_nodes[node].as_ref().and_then(|managed_node| managed_node.repair_due(now));
        let detail = due.map(|due| repair_detail(due.condition, due.drain)).unwrap_or_default();
        Self { node: input.problem.nodes[node].name.to_string(), detail }
    }
}

/// Describes the repair for a condition.
fn repair_detail(condition: &RepairCondition, drain: Option<SignedDuration>) -> String {
    match drain {
        Some(drain) => format!("{condition}; drained for at most {} min", drain.as_mins()),
        None => condition.to_string(),
    }
}

impl BlockedNode {
    pub(crate) fn new(problem: &Problem, blocked: &Blocked, now: Timestamp) -> Self {
        Self {
            node: problem.nodes[blocked.node].name.to_string(),
            reason: blocked.block.name(),
            since: blocked.since.unwrap_or(now).to_string(),
            message: blocked.message.clone(),
        }
    }
}
