//! Reconciliation of a disruption command in progress, or of a taint without a command.

use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use muster_api::NodeClaim;
use muster_cloud::after;

use super::claim::ASK;
use super::{CommandItem, LeaderState, Settings};
use crate::disruption::{CommandNode, ObservedCommand, cleanup, progress, running};
use crate::state::Cluster;
use crate::step::Step;

/// Returns the next step, and the claims and Nodes that it is based on. The step has no writes while there are none, or
/// while the cluster shows one of the objects older than our last write.
pub fn advance(
    settings: &Settings,
    cluster: &Cluster,
    state: &LeaderState,
    item: &CommandItem,
    now: Timestamp,
) -> (Step, Vec<CommandNode>) {
    let command_nodes = |claims: &[&NodeClaim]| -> Vec<CommandNode> {
        let ours = claims.iter().filter(|claim| settings.serves(&claim.spec.node_class_ref.kind));
        let names = ours.filter_map(|claim| claim.metadata.name.as_deref());
        names.filter_map(|name| CommandNode::of_claim(cluster, &state.plan, name)).collect()
    };
    match item {
        CommandItem::Command(command) => {
            let mut commands = running(cluster.claims());
            let Some((candidates, launched)) = commands.remove(command) else { return (Step::rest(), Vec::new()) };
            let (mut command_nodes, launched) = (command_nodes(&candidates), command_nodes(&launched));
            if is_behind(state, command_nodes.iter().chain(&launched), now) {
                return (Step::until(after(now, ASK)), Vec::new());
            }
            let observed = ObservedCommand {
                candidates: command_nodes.iter().map(CommandNode::candidate).collect(),
                replacements: launched.iter().map(CommandNode::replacement).collect(),
                pause: cluster.pause(&settings.namespace),
                timing: settings.timing,
            };
            let step = progress(&observed, now);
            command_nodes.extend(launched);
            (step, command_nodes)
        }
        CommandItem::Stale(claim) => {
            let command_nodes = command_nodes(&cluster.claim(claim).into_iter().collect::<Vec<_>>());
            if is_behind(state, command_nodes.iter(), now) {
                return (Step::until(after(now, ASK)), Vec::new());
            }
            let step =
                command_nodes.first().map_or_else(Step::rest, |one| cleanup(&one.candidate(), settings.timing, now));
            (step, command_nodes)
        }
    }
}

/// Returns true if the cluster shows any of the objects older than our last write.
fn is_behind<'h>(
    state: &LeaderState,
    command_nodes: impl IntoIterator<Item = &'h CommandNode>,
    now: Timestamp,
) -> bool {
    command_nodes.into_iter().any(|command_node| {
        let of = |kind, meta: &ObjectMeta| {
            let name = meta.name.as_deref().unwrap_or_default();
            state.is_behind(kind, name, meta.resource_version.as_deref(), now)
        };
        of("NodeClaim", &command_node.claim.metadata)
            || command_node.node.as_ref().is_some_and(|node| of("Node", &node.metadata))
    })
}
