//! The validator of disruptions finds each kind of fault: good decisions are spoiled in one way at a time.

use muster_scheduling::Promise;
use muster_scheduling::disrupt::{Block, Blocked, Cause, Command, Decision, Estate, Hold, Settings, Share, decide};
use muster_scheduling::validate_disruption;

use super::{estate, now};

/// A calm cluster, and a decision about it that moves pods to nodes that stay.
fn moving() -> (Estate, Decision) {
    let found = (0..500).find_map(|seed| {
        let estate = estate(seed, true);
        let decision = decide(&estate, now(), &Settings::default());
        let moves = |command: &Command| command.cause == Cause::Underutilized && !command.existing.is_empty();
        (decision.commands.iter().any(moves) && !decision.blocked.is_empty()).then_some((estate, decision))
    });
    found.unwrap()
}

fn promises(estate: &Estate, decision: &Decision) -> Vec<Promise> {
    let found = validate_disruption(estate, now(), &Settings::default(), decision);
    found.into_iter().map(|violation| violation.promise).collect()
}

fn moved(decision: &mut Decision) -> &mut Command {
    let moves = |command: &&mut Command| command.cause == Cause::Underutilized && !command.existing.is_empty();
    decision.commands.iter_mut().find(moves).unwrap()
}

/// Spoils what is good, and looks for the promise that is broken.
#[track_caller]
fn spoiled(promise: Promise, spoil: impl FnOnce(&mut Estate, &mut Decision)) {
    let (mut estate, mut decision) = moving();
    assert_eq!(promises(&estate, &decision), []);
    spoil(&mut estate, &mut decision);
    let found = promises(&estate, &decision);
    assert!(found.contains(&promise), "{found:?}");
}

#[test]
fn a_node_that_nobody_mentions() {
    spoiled(Promise::Accounted, |_, decision| drop(decision.blocked.pop()));
}

#[test]
fn a_node_that_stays_and_goes() {
    spoiled(Promise::Accounted, |_, decision| {
        let node = decision.commands[0].candidates[0];
        let message = String::new();
        decision.blocked.push(Blocked { node, block: Block::NothingToGain, since: None, message });
    });
}

#[test]
fn a_pod_that_is_forgotten() {
    spoiled(Promise::Moved, |_, decision| drop(moved(decision).existing.pop()));
}

#[test]
fn a_pod_without_a_place() {
    spoiled(Promise::Moved, |_, decision| {
        let command = moved(decision);
        let (_, pods) = command.existing.pop().unwrap();
        command.unplaced.extend(pods);
    });
}

#[test]
fn pods_on_a_node_that_goes() {
    spoiled(Promise::Deleting, |_, decision| {
        let command = moved(decision);
        command.existing[0].0 = command.candidates[0];
    });
}

#[test]
fn pods_where_no_room_is_left() {
    spoiled(Promise::Resources, |estate, decision| {
        let node = moved(decision).existing[0].0;
        estate.problem.nodes[node].allocatable = Default::default();
    });
}

#[test]
fn a_pod_that_asks_to_stay() {
    spoiled(Promise::Held, |estate, decision| {
        let node = moved(decision).candidates[0];
        estate.members[node].as_mut().unwrap().occupants[0].hold = Some(Hold::Always);
    });
}

#[test]
fn a_pod_that_a_budget_guards() {
    spoiled(Promise::Held, |estate, decision| {
        estate.pod_budgets[0].allowed = 0;
        let node = moved(decision).candidates[0];
        estate.members[node].as_mut().unwrap().occupants[0].budgets = vec![0];
    });
}

#[test]
fn a_node_that_asks_to_stay() {
    spoiled(Promise::Held, |estate, decision| {
        let node = moved(decision).candidates[0];
        estate.members[node].as_mut().unwrap().do_not_disrupt = true;
    });
}

#[test]
fn a_node_that_is_coming_up() {
    spoiled(Promise::Untouchable, |estate, decision| {
        let node = moved(decision).candidates[0];
        estate.problem.nodes[node].initialized = false;
    });
}

#[test]
fn more_nodes_than_a_budget_allows() {
    spoiled(Promise::NodeBudgets, |estate, _| {
        estate.policies.iter_mut().for_each(|policy| policy.budgets[0].nodes = Share::Count(0));
    });
}

#[test]
fn savings_that_are_not_there() {
    spoiled(Promise::Savings, |_, decision| moved(decision).savings += 0.01);
}
