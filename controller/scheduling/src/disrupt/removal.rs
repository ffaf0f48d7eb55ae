//! Prediction of the effects of removing one node, for any cause.

use jiff::Timestamp;

use super::Settings;
use super::decision::{Command, Method};
use super::input::{Cause, DisruptionInput};
use super::pass::Pass;
use crate::explain::Explainer;
use crate::model::{Pod, Problem};
use crate::solution::Unschedulable;

/// New places of the pods of a removed node.
#[derive(Debug, Clone, PartialEq)]
pub struct Removal {
    /// The pods that would have to move.
    pub pods: Vec<Pod>,
    /// Places and launches; its cause has no meaning.
    pub command: Command,
    /// Reasons why pods have no place, by their index.
    pub unplaced: Vec<Unschedulable>,
}

/// Predicts the effects of removing `node`; `None` if Muster did not launch it, or it is already being deleted.
pub fn if_removed(input: &DisruptionInput, now: Timestamp, settings: &Settings, node: usize) -> Option<Removal> {
    input.managed_nodes.get(node)?.as_ref()?;
    if input.problem.nodes[node].deleting {
        return None;
    }
    let mut pass = Pass::new(input, settings, now, false);
    pass.settle(&[node]);
    let trial = pass.world.attempt(&[node]);
    let pods: Vec<Pod> = trial.pods.iter().map(|&place| pass.world.pod(place)).collect();
    let mut problem: Problem = pass.world.problem.clone();
    problem.nodes[node].deleting = true;
    problem.pods.clone_from(&pods);
    let mut explainer = Explainer::new(&problem, &settings.options, &trial.solution);
    let unplaced = trial.solution.unschedulable.iter().map(|one| explainer.unschedulable(one.pod)).collect();
    let launches = trial.solution.new_nodes.clone();
    pass.accept((Cause::Underutilized, Method::SingleNode), &trial, launches);
    let command = pass.commands.pop()?;
    Some(Removal { pods, command, unplaced })
}
