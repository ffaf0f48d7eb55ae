//! Execution of disruption: decides which nodes to disrupt, begins commands, and reconciles those in progress.
//!
//! ```text
//!   PassSchedule ── due ──► plan_disruption: DisruptionPlanner::turn, own thread ─┬─► command_starts ──► open
//!                                                                                 └─► told: conditions, beside it
//!   a claim with a mark, or a replacement, changes ──► reconcile: progress ──► edge
//!   a taint without a mark ──────────────────────────► reconcile: cleanup ───► edge
//! ```
//!
//! The state of a command is stored in the claims alone ([`muster_stages::disruption`]), so that a new leader continues
//! it.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use futures::StreamExt;
use jiff::Timestamp;
use muster_cloud::after;
use muster_manifest::ObservedCloud;
use muster_manifest::snapshot::Snapshot;
use muster_scheduling::disrupt::{Decision, DisruptionInput, Moments};
use muster_stages::disruption::{
    CommandNode, CommandStart, CommandStarts, DisruptionPlanner, FirstSteps, Launches, Turn, deletion_costs,
    repair_blocked,
};
use muster_stages::driver::command::advance;
use muster_stages::driver::recording::Occurrence;
use muster_stages::driver::{CommandItem, DueRepairs, LOST, Verdict, tell_due_repairs};
use muster_stages::lifecycle::disruption_status::{self, DisruptionStatus};
use muster_stages::lifecycle::{Answers, consistency};
use muster_stages::notices;
use muster_stages::state::Cluster;
use muster_stages::step::{Step, Write};
use tokio::time::Instant;

use super::context::LeaderContext;
use super::round::{Supply, assemble, notice_events};
use super::{now, repairs};
use crate::edge::{End, ObservedVersions};
use crate::provider::Provider;

/// Maximum number of concurrent writes of claim conditions.
const AT_ONCE: usize = 8;
/// Maximum number of commands that are begun at a time, each with writes of its own one after the other.
const COMMANDS_AT_ONCE: usize = 4;
/// Minimum interval between comparisons of deletion costs: Karpenter's value.
const COSTS: Duration = Duration::from_secs(60);

/// Result of planning disruption once.
pub(super) struct PlannedDisruption {
    /// State to be passed to the next pass.
    pub(super) planner: DisruptionPlanner,
    /// Commands to begin.
    pub(super) command_starts: Vec<CommandStart>,
    /// Deletion costs of pods to write.
    pub(super) deletion_costs: Vec<Write>,
    /// Time of the next pass if something has changed by then.
    pub(super) again: Timestamp,
    /// Times of the next pass if nothing changes.
    pub(super) moments: Moments,
    /// Events about what does not happen, and why.
    pub(super) notices: Step,
    /// Conditions of claims to write.
    pub(super) told: Vec<StatusWrite>,
}

// === impl PlannedDisruption ===

impl PlannedDisruption {
    /// Returns a result without commands; the next pass is at `again` if something has changed by then.
    fn nothing(planner: DisruptionPlanner, again: Timestamp) -> Self {
        let (command_starts, deletion_costs, moments) = (Vec::new(), Vec::new(), Moments::default());
        Self { planner, command_starts, deletion_costs, again, moments, notices: Step::rest(), told: Vec::new() }
    }
}

/// Decides which nodes to disrupt.
pub(super) async fn plan_disruption<P: Provider>(
    context: Arc<LeaderContext<P>>,
    mut planner: DisruptionPlanner,
) -> PlannedDisruption {
    // What events have shown is kept for the next pass if this one fails.
    let unhealthy = {
        let mut leader_state = context.leader_state();
        planner.note_left(&std::mem::take(&mut leader_state.left));
        context.record(None, now(), || Occurrence::DisruptionBegan);
        leader_state.unhealthy.take()
    };
    let (before, conditions) = (planner.clone(), unhealthy.clone());
    let thinking = Arc::clone(&context);
    // It may take long and must not block a thread of the async runtime.
    let decided = tokio::task::spawn_blocking(move || think(&thinking, planner, conditions, now())).await;
    let why = match decided {
        Ok(Ok(mut planned)) => {
            planned.notices.writes.extend(notice_events(&context, now()));
            return planned;
        }
        Ok(Err(why)) => why,
        Err(error) => error.to_string(),
    };
    tracing::error!(why, "disruption was not decided");
    context.leader_state().unhealthy.put_back(unhealthy);
    let again = after(now(), context.settings.driver.timing.every);
    PlannedDisruption::nothing(before, again)
}

/// A status write of a claim, and the versions on which it is based.
pub(super) type StatusWrite = (ObservedVersions, Write);

/// Writes the conditions of claims. The next pass retries those that have changed meanwhile.
pub(super) async fn tell<P: Provider>(context: &LeaderContext<P>, told: Vec<StatusWrite>) {
    let one = async |(mut observed, write): StatusWrite| {
        let end = context.edge.carry_out(&Step::act([write]), &mut observed, &mut Answers::default()).await;
        context.note_written(&observed, now());
        if let End::Failed(why) = end {
            tracing::warn!(why, "the disruption conditions of a claim were not written");
        }
    };
    futures::stream::iter(told).map(one).buffer_unordered(AT_ONCE).collect::<()>().await;
}

/// Returns the writes of conditions that claims do not have yet. Those of claims whose commands begin have to wait: a
/// new version of the claim would refuse the first write of its command.
fn untold<P: Provider>(
    context: &LeaderContext<P>,
    input: &DisruptionInput,
    command_starts: &[CommandStart],
    now: Timestamp,
) -> Vec<StatusWrite> {
    let begun = command_starts.iter().flat_map(|start| &start.command_nodes);
    let begun: BTreeSet<&str> = begun.filter_map(|one| one.claim.metadata.name.as_deref()).collect();
    let cluster = context.cluster_cache.read();
    let leader_state = context.leader_state();
    let managed_nodes = input.problem.nodes.iter().zip(&input.managed_nodes);
    let known = managed_nodes.filter_map(|(node, managed_node)| Some((node, managed_node.as_ref()?)));
    let told = known.filter_map(|(node, managed_node)| {
        let claim = cluster.claim_of(cluster.node(&node.name)?)?;
        let name = claim.metadata.name.as_deref().filter(|name| !begun.contains(name))?;
        if leader_state.is_behind("NodeClaim", name, claim.metadata.resource_version.as_deref(), now) {
            return None;
        }
        let after = managed_node.pool.and_then(|pool| input.policies.get(pool)?.consolidate_after);
        let write = disruption_status::tell(claim, DisruptionStatus::of(managed_node, after, now), now);
        let write = write.or_else(|| consistency::tell(claim, cluster.node(&node.name)?, now))?;
        Some((ObservedVersions::default().claim(claim), write))
    });
    told.collect()
}

fn think<P: Provider>(
    context: &LeaderContext<P>,
    mut planner: DisruptionPlanner,
    unhealthy: DueRepairs,
    now: Timestamp,
) -> Result<PlannedDisruption, String> {
    let begun = Instant::now();
    let (Supply { mut manifests, pools: _, pause, stops }, foreign) = {
        let cluster = context.cluster_cache.read();
        if cluster.claims().len() == 0 {
            let again = after(now, context.settings.driver.timing.every);
            return Ok(PlannedDisruption::nothing(planner, again));
        }
        let mut supply = Supply::of(context, &cluster, now);
        let leader_state = context.leader_state();
        leader_state.tell_moves(&mut supply.manifests);
        let (instances, has_all_types) = (Arc::clone(&leader_state.instances), context.provider.has_all_types());
        supply.manifests.observed = ObservedCloud { at: Some(now), instances, has_all_types, closed_zones: Vec::new() };
        context.record(Some(&cluster), now, || Occurrence::DecidingDisruption);
        (supply, foreign::<P>(&cluster))
    };
    tell_due_repairs(&mut manifests, unhealthy);
    let Snapshot { problem, managed_nodes, .. } = assemble(context, manifests, now)?;
    let mut input = managed_nodes.into_disruption_input(problem);
    for (node, managed_node) in input.problem.nodes.iter().zip(&mut input.managed_nodes) {
        if foreign.contains(&*node.name) {
            *managed_node = None;
        }
    }
    let was_open = planner.is_open();
    let turn = planner.turn(&mut input, now, &context.settings.disruption);
    let was_decided_again = was_open && !planner.is_open();
    let planned = (&turn, was_decided_again);
    context.metrics.disruption_planned(&input, planned, planner.delivered(), now, begun.elapsed());
    let Turn { decision, again, moments, violations } = turn;
    for violation in &violations {
        tracing::error!(%violation, "a disruption decision is invalid: please report this");
    }
    let command_starts = if pause.disruption {
        Vec::new()
    } else {
        let launches = Launches { pause, stops: &stops, caps: context.settings.provision.caps };
        let plan = context.leader_state().plan.clone();
        let cluster = context.cluster_cache.read();
        let command_starts = CommandStarts::new(&decision, &input, launches).all(&cluster, &plan, now);
        planner.note_begun(&input, &decision, &command_starts, now);
        context.record(Some(&cluster), now, || {
            Occurrence::DecidedDisruption(command_starts.iter().flat_map(|one| one.steps.clone()).collect())
        });
        command_starts
    };
    repairs::tell(&context.metrics, (&decision, &input), &command_starts, now);
    let mut told = untold(context, &input, &command_starts, now);
    let blocked = repair_blocked(&decision, &input, &context.cluster_cache.read());
    told.extend(blocked.into_iter().map(|write| (ObservedVersions::default(), write)));
    let deletion_costs = if pause.disruption { Vec::new() } else { costs(context, &input, now) };
    let notices = news(context, &input, &decision, was_open, now);
    Ok(PlannedDisruption { planner, command_starts, deletion_costs, again, moments, notices, told })
}

/// Returns the deletion costs that have changed, at most once a minute, if it is the controller that manages them.
fn costs<P: Provider>(context: &LeaderContext<P>, input: &DisruptionInput, now: Timestamp) -> Vec<Write> {
    if !context.settings.snapshot.gates.pod_deletion_cost_management {
        return Vec::new();
    }
    {
        let mut leader_state = context.leader_state();
        if leader_state.deletion_costs_at.is_some_and(|last| now < after(last, COSTS)) {
            return Vec::new();
        }
        leader_state.deletion_costs_at = Some(now);
    }
    let writes = deletion_costs(input, &context.cluster_cache.read(), &context.settings.disruption, now);
    context.metrics.deletion_costs(&writes);
    writes
}

/// Returns the events about nodes that stay and about what terminations wait for, without those that were published
/// lately.
fn news<P: Provider>(
    context: &LeaderContext<P>,
    input: &DisruptionInput,
    decision: &Decision,
    was_open: bool,
    now: Timestamp,
) -> Step {
    let cluster = context.cluster_cache.read();
    // A decision about an earlier choice says nothing about other nodes.
    let blocked = if was_open { Vec::new() } else { notices::blocked(input, decision, &cluster, now) };
    let others = notices::holds(&cluster, now).into_iter().chain(notices::progress(&cluster));
    let news = blocked.into_iter().chain(others).filter(|event| context.edge.is_news(event));
    Step::act(news.map(Write::Event))
}

/// Returns the Nodes of claims whose class belongs to another cloud, which another controller manages.
fn foreign<P: Provider>(cluster: &Cluster) -> BTreeSet<String> {
    let others = cluster.claims().filter(|claim| claim.spec.node_class_ref.kind != P::CLASS);
    let ids = others.filter_map(|claim| claim.status.as_ref()?.provider_id.as_deref());
    ids.flat_map(|id| cluster.nodes_of(id)).filter_map(|node| node.metadata.name.clone()).collect()
}

/// Begins the commands. If a write fails, the reconciliation of the marks continues the command or rolls it back.
/// Returns true if a claim of one that begins at once has changed since the decision.
pub(super) async fn open<P: Provider>(context: Arc<LeaderContext<P>>, command_starts: Vec<CommandStart>) -> bool {
    // No node is in two of them. A hundred nodes that are taken back at once have two minutes.
    let opened = command_starts.into_iter().map(|start| open_one(&context, start));
    futures::stream::iter(opened)
        .buffer_unordered(COMMANDS_AT_ONCE)
        .fold(false, async |is_open, one| is_open | one)
        .await
}

/// Begins a command, and returns as [`open`].
async fn open_one<P: Provider>(context: &LeaderContext<P>, start: CommandStart) -> bool {
    let CommandStart { number: _, is_reboot, cause, savings, command_nodes, steps } = start;
    let nodes: Vec<&str> =
        command_nodes.iter().filter_map(|command_node| command_node.node.as_ref()?.metadata.name.as_deref()).collect();
    let message = if is_reboot { "rebooting" } else { "disrupting" };
    tracing::info!(cause = cause.name(), ?nodes, hourly_savings = savings, message);
    let mut is_open = false;
    for FirstSteps { begin, keep_away } in &steps {
        let mut observed = observed(&command_nodes);
        let end = context.edge.carry_out(begin, &mut observed, &mut Answers::default()).await;
        context.note_written(&observed, now());
        match end {
            End::Done => {
                context.metrics.opened(begin, &command_nodes);
                // Writes that fail are made by the reconciliation of the marks.
                let _ = context.edge.carry_out(keep_away, &mut observed, &mut Answers::default()).await;
                context.note_written(&observed, now());
            }
            End::Stale => {
                is_open |= cause.begins_at_once();
                tracing::info!(cause = cause.name(), ?nodes, "a claim has changed since the decision");
            }
            End::Failed(why) => {
                tracing::warn!(cause = cause.name(), ?nodes, why, "a disruption command was not started completely");
            }
            End::Fenced => return false,
        }
    }
    is_open
}

/// Executes the next step of a command in progress.
pub(super) async fn reconcile<P: Provider>(context: &LeaderContext<P>, item: &CommandItem) -> Verdict {
    let (step, command_nodes) = {
        let cluster = context.cluster_cache.read();
        let now = now();
        let leader_state = context.leader_state();
        let (step, command_nodes) = advance(&context.settings.driver, &cluster, &leader_state, item, now);
        context.record(Some(&cluster), now, || Occurrence::Advanced(item.clone(), step.clone()));
        (step, command_nodes)
    };
    if step.writes.is_empty() {
        return Verdict::Rest(step.again);
    }
    let mut observed = observed(&command_nodes);
    let end = context.edge.carry_out(&step, &mut observed, &mut Answers::default()).await;
    context.note_written(&observed, now());
    context.metrics.advanced(&step, &command_nodes);
    match end {
        End::Done => Verdict::Rest(Some(step.again.unwrap_or_else(|| after(now(), LOST)))),
        End::Stale => Verdict::Conflicted,
        End::Failed(why) => {
            tracing::warn!(?item, why, "will be tried again");
            Verdict::Failed
        }
        // The next leader starts over.
        End::Fenced => Verdict::Rest(None),
    }
}

fn observed(command_nodes: &[CommandNode]) -> ObservedVersions {
    let with_claims = command_nodes
        .iter()
        .fold(ObservedVersions::default(), |observed, command_node| observed.claim(&command_node.claim));
    command_nodes.iter().filter_map(|command_node| command_node.node.as_ref()).fold(with_claims, ObservedVersions::node)
}
