//! What is wanted must be wanted twice, unless it cannot wait.

use std::path::PathBuf;

use jiff::{SignedDuration, Timestamp};
use muster_aws::catalogue;
use muster_manifest as manifest;
use muster_manifest::snapshot::{Settings as SnapshotSettings, assemble};
use muster_scheduling::disrupt::{Cause, Command, Decision, DisruptionInput, Interruption, Settings, decide};
use muster_scheduling::model::Catalogue;
use muster_scheduling::{Place, Violation, validate_disruption};

use super::super::planner::retain_sound;
use super::super::{DisruptionPlanner, Timing, Turn};

const CATALOGUE: &str = include_str!("../../../../tests/scenarios/catalogue.yaml");
/// Two nodes, the pod of one of which fits on the other.
const CLUSTER: &str = include_str!("../../../../tests/disruption/grace-period-is-for-drift.yaml");

pub(in crate::disruption) fn input() -> DisruptionInput {
    let types: Catalogue = catalogue::read(CATALOGUE).unwrap().into();
    let free = CLUSTER.replace("karpenter.sh/do-not-disrupt: \"true\"", "a: b");
    let manifests = manifest::read(&[PathBuf::from("-")], &mut free.as_bytes()).unwrap();
    let snapshot = assemble(&manifests, &SnapshotSettings::default(), &|_| types.clone()).unwrap();
    snapshot.managed_nodes.disruption_input(&snapshot.problem)
}

pub(crate) fn at(seconds: i64) -> Timestamp {
    "2026-11-21T12:00:00Z".parse::<Timestamp>().unwrap() + SignedDuration::from_secs(seconds)
}

fn going(input: &DisruptionInput, decision: &Decision) -> Vec<String> {
    let nodes = decision.commands.iter().flat_map(|command| &command.candidates);
    nodes.map(|&node| input.problem.nodes[node].name.to_string()).collect()
}

#[test]
fn what_is_still_right_after_a_while_is_begun() {
    let (input, settings) = (input(), Settings::default());
    let mut planner = DisruptionPlanner::default();
    for (seconds, expected, again) in [(0, 0, 10), (10, 0, 15), (15, 1, 25), (25, 0, 35)] {
        let Turn { decision, again: next, violations, .. } = planner.turn(&mut input.clone(), at(seconds), &settings);
        assert_eq!(violations, []);
        assert_eq!((going(&input, &decision).len(), next), (expected, at(again)), "at {seconds} s");
    }
    let Timing { every, validation, .. } = Timing::default();
    assert_eq!((every.as_secs(), validation.as_secs()), (10, 15));
}

#[test]
fn what_somebody_objects_to_meanwhile_is_not() {
    let (before, settings) = (input(), Settings::default());
    let mut planner = DisruptionPlanner::default();
    let _ = planner.turn(&mut before.clone(), at(0), &settings);
    let mut after = before.clone();
    after.managed_nodes.iter_mut().flatten().for_each(|managed_node| managed_node.do_not_disrupt = true);
    let Turn { decision, .. } = planner.turn(&mut after.clone(), at(15), &settings);
    assert_eq!(going(&after, &decision), [""; 0]);
    // Nor what is wanted for the first time.
    let mut planner = DisruptionPlanner::default();
    let _ = planner.turn(&mut after.clone(), at(0), &settings);
    assert_eq!(going(&before, &planner.turn(&mut before.clone(), at(15), &settings).decision), [""; 0]);
}

#[test]
fn a_pass_that_found_nothing_holds_until_time_or_a_change() {
    let (mut input, settings) = (input(), Settings::default());
    input.policies[0].consolidate_after = Some(SignedDuration::from_mins(2));
    input.managed_nodes.iter_mut().flatten().for_each(|managed_node| managed_node.last_pod_event = Some(at(0)));
    let proposes = |planner: &mut DisruptionPlanner, input: &DisruptionInput, seconds| {
        let Turn { decision, .. } = planner.turn(&mut input.clone(), at(seconds), &settings);
        assert_eq!(decision.blocked.len(), if planner.is_open() { 1 } else { 2 }, "each that stays has a reason");
        planner.is_open()
    };
    let mut planner = DisruptionPlanner::default();
    for (seconds, expected) in [(0, false), (10, false), (119, false), (120, true)] {
        assert_eq!(proposes(&mut planner, &input, seconds), expected, "at {seconds} s");
    }
    let mut planner = DisruptionPlanner::default();
    assert!(!proposes(&mut planner, &input, 0));
    let mut quiet = input.clone();
    quiet.managed_nodes.iter_mut().flatten().for_each(|managed_node| managed_node.last_pod_event = Some(at(-300)));
    assert!(proposes(&mut planner, &quiet, 10), "what changes is looked at");
}

#[test]
fn what_cannot_wait_does_not() {
    let (mut input, settings) = (input(), Settings::default());
    let interrupt = |input: &mut DisruptionInput| {
        let managed_node = input.managed_nodes.iter_mut().flatten().next().unwrap();
        managed_node.interrupted = Some(Interruption { since: None, notice: "SpotInterrupted".into() });
    };
    let mut planner = DisruptionPlanner::default();
    let _ = planner.turn(&mut input.clone(), at(0), &settings);
    interrupt(&mut input);
    let Turn { decision, .. } = planner.turn(&mut input.clone(), at(10), &settings);
    assert_eq!(decision.commands.len(), 1);
    assert_eq!(decision.commands[0].cause, Cause::Interrupted);
}

#[test]
fn what_the_validator_objects_to_is_not_begun() {
    let (input, settings) = (input(), Settings::default());
    let sound = decide(&input, at(0), &settings);
    let mut spoiled = sound.clone();
    spoiled.commands[0].savings += 1.0;
    let violations = validate_disruption(&input, at(0), &settings, &spoiled);
    assert!(!violations.is_empty());
    let begun = |causes: &[Cause], violations: &[Violation]| {
        let mut decision = spoiled.clone();
        decision.commands = causes.iter().map(|&cause| Command { cause, ..spoiled.commands[0].clone() }).collect();
        retain_sound(&mut decision, violations);
        decision.commands.len()
    };
    let all = [Cause::Underutilized, Cause::Underutilized, Cause::Interrupted];
    assert_eq!(begun(&all, &[]), 3);
    assert_eq!(begun(&all, &violations), 2, "the other two are not accused: {violations:?}");
    assert_eq!(begun(&[Cause::Interrupted], &violations), 1, "what cannot wait goes");
    let of_all = [Violation { place: Place::Plan, ..violations[0].clone() }];
    assert_eq!(begun(&all, &of_all), 1, "whom it concerns is not known");
}
