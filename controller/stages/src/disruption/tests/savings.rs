//! Promised savings against delivered ones.

use jiff::Timestamp;
use muster_scheduling::disrupt::{Block, Cause, Decision, DisruptionInput, Settings, decide};
use muster_scheduling::model::{Operator, Pod, PodSpec, Refusal, Requirement, Resources};

use super::super::delivered_savings::{Rest, Savings};
use super::super::{CommandStart, DisruptionPlanner};
use super::planner::{at, input};

const MINUTE: i64 = 60;

/// A decision that takes one node away, and the node.
fn begun(input: &DisruptionInput) -> (Decision, usize) {
    let decision = decide(input, at(0), &Settings::default());
    assert_eq!(decision.commands.len(), 1);
    assert_eq!(decision.commands[0].cause, Cause::Underutilized);
    let node = decision.commands[0].candidates[0];
    (decision, node)
}

/// The cluster after the command: its pod has come back, on a node that was created at that second.
fn bought_again(input: &DisruptionInput, node: usize, second: i64) -> DisruptionInput {
    let mut after = input.clone();
    after.problem.nodes[node].name = "again".into();
    after.managed_nodes[node].as_mut().unwrap().created = Some(at(second));
    after
}

/// The rest of the pool after three passes, each judged ten minutes after it began in the cluster of `after`.
fn rest_after(
    savings: &mut Savings,
    from: i64,
    after: impl Fn(&DisruptionInput, usize, i64) -> DisruptionInput,
) -> Option<Rest> {
    let input = input();
    let (decision, node) = begun(&input);
    for pass in 0..3 {
        let begins = from + pass * 11 * MINUTE;
        savings.note_begun(&input, &decision.commands, at(begins));
        savings.observe(&mut after(&input, node, begins), at(begins + 10 * MINUTE));
    }
    savings.delivered().next().and_then(|one| one.rest)
}

fn until(rest: Option<Rest>) -> Option<Timestamp> {
    rest.map(|rest| rest.until)
}

#[test]
fn pool_rests_for_longer_each_time_when_savings_are_bought_again() {
    let mut savings = Savings::default();
    let again = |input: &DisruptionInput, node: usize, second: i64| bought_again(input, node, second + 30);
    let judged = 32 * MINUTE;
    assert_eq!(until(rest_after(&mut savings, 0, again)), Some(at(judged + 10 * MINUTE)));
    let one = savings.delivered().next().unwrap();
    assert!(one.promised > 0.0 && one.delivered.abs() < 1e-9, "all of it was bought again: {one:?}");

    let mut resting = input();
    savings.observe(&mut resting, at(judged + 9 * MINUTE));
    let decision = decide(&resting, at(judged + 9 * MINUTE), &Settings::default());
    assert_eq!(decision.commands, []);
    assert!(decision.blocked.iter().any(|one| one.block == Block::PoolRests), "{:?}", decision.blocked);
    savings.observe(&mut resting, at(judged + 10 * MINUTE));
    assert_eq!(decide(&resting, at(judged + 10 * MINUTE), &Settings::default()).commands.len(), 1, "and then no more");

    for (hours, minutes) in [(1, 20), (2, 40), (3, 60), (4, 60)] {
        let from = hours * 60 * MINUTE;
        assert_eq!(until(rest_after(&mut savings, from, again)), Some(at(from + judged + minutes * MINUTE)));
    }
}

#[test]
fn nodes_that_other_causes_explain_are_not_counted() {
    let mut savings = Savings::default();
    assert_eq!(rest_after(&mut savings, 0, |input, _, _| input.clone()), None, "no node is new");
    let replacement = |input: &DisruptionInput, node: usize, second: i64| {
        let mut after = bought_again(input, node, second + 30);
        after.managed_nodes[node].as_mut().unwrap().is_replacement = true;
        after
    };
    assert_eq!(rest_after(&mut savings, 3600, replacement), None, "what a command launches is in its promise");
    let grown = |input: &DisruptionInput, node: usize, second: i64| {
        let mut after = bought_again(input, node, second + 30);
        let spec = after.problem.nodes[node].bound.iter().find(|pod| !pod.daemon).unwrap().spec;
        after.problem.pods.push(Pod { name: "shop/one-more".into(), spec });
        after
    };
    assert_eq!(rest_after(&mut savings, 7200, grown), None, "there are more pods than before");
    let one = savings.delivered().next().unwrap();
    assert!((one.promised - one.delivered).abs() < 1e-9, "{one:?}");
}

/// The input with a virtual pod, changed by `change`.
fn with_virtual(mut input: DisruptionInput, change: impl FnOnce(&mut PodSpec)) -> DisruptionInput {
    let mut spec = PodSpec::unconstrained("shop", Resources::new());
    spec.is_virtual = true;
    change(&mut spec);
    let spec = input.problem.intern(spec);
    input.problem.pods.push(Pod { name: "shop/spare-buffer-0".into(), spec });
    input
}

/// True if the pool rests after three passes, each followed by a new node without pods.
fn rests_after_empty_nodes(input: &DisruptionInput, initialized: bool) -> bool {
    let mut savings = Savings::default();
    let (decision, node) = begun(input);
    for pass in 0..3 {
        let begins = pass * 11 * MINUTE;
        savings.note_begun(input, &decision.commands, at(begins));
        let mut after = bought_again(input, node, begins + 30);
        after.problem.nodes[node].bound.clear();
        after.problem.nodes[node].initialized = initialized;
        savings.observe(&mut after, at(begins + 10 * MINUTE));
    }
    savings.delivered().next().unwrap().rest.is_some()
}

#[test]
fn nodes_for_room_that_virtual_pods_lost_are_counted() {
    let kept = with_virtual(input(), |_| {});
    assert!(rests_after_empty_nodes(&kept, true));
    assert!(!rests_after_empty_nodes(&kept, false), "its pods may come yet");
    assert!(!rests_after_empty_nodes(&input(), true), "nothing keeps room");
    let refused = with_virtual(input(), |spec| spec.refusal = Some(Refusal::EmptyTerm));
    assert!(!rests_after_empty_nodes(&refused, true), "no node is bought for it");
    let elsewhere = with_virtual(input(), |spec| {
        spec.node_selector.add("zone", Requirement::new(Operator::In, ["of others"]));
    });
    assert!(!rests_after_empty_nodes(&elsewhere, true), "the node does not suit it");
}

#[test]
fn two_passes_that_fail_are_no_reason_to_rest() {
    let (input, mut savings) = (input(), Savings::default());
    let (decision, node) = begun(&input);
    for begins in [0, 11 * MINUTE] {
        savings.note_begun(&input, &decision.commands, at(begins));
        savings.observe(&mut bought_again(&input, node, begins + 30), at(begins + 10 * MINUTE));
    }
    assert_eq!(savings.delivered().next().unwrap().rest, None);
}

#[test]
fn node_of_a_later_pass_is_counted_once() {
    let (input, mut savings) = (input(), Savings::default());
    let (decision, node) = begun(&input);
    savings.note_begun(&input, &decision.commands, at(0));
    savings.note_begun(&input, &decision.commands, at(MINUTE));
    savings.observe(&mut bought_again(&input, node, 2 * MINUTE), at(12 * MINUTE));
    let one = savings.delivered().next().unwrap();
    assert!((one.promised - 2.0 * one.delivered).abs() < 1e-9, "{one:?}");
}

#[test]
fn command_that_is_held_back_promises_nothing() {
    let input = input();
    let (decision, node) = begun(&input);
    let promised = |begun: &[CommandStart]| {
        let mut planner = DisruptionPlanner::default();
        planner.note_begun(&input, &decision, begun, at(0));
        let _ = planner.turn(&mut bought_again(&input, node, 30), at(10 * MINUTE), &Settings::default());
        planner.delivered().next().is_some()
    };
    assert!(!promised(&[]), "none was begun");
    let cause = Cause::Underutilized;
    let (number, is_reboot, command_nodes, steps) = (0, false, Vec::new(), Vec::new());
    assert!(promised(&[CommandStart { number, is_reboot, cause, savings: 1.0, command_nodes, steps }]));
}
