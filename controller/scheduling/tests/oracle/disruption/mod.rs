//! Disruption on random clusters: the plans of random problems are carried out, load falls, and owners say all that they
//! can say about it. What is decided must pass the validator, twice the same, and come to an end.

mod at_rest;
mod mutations;

use jiff::{SignedDuration, Timestamp};
use muster_scheduling::disrupt::{
    BudgetLimit, Cause, Consolidation, Decision, DisruptionBlocker, DisruptionInput, Drift, Interruption, NodeBudget,
    NodePod, PodBudget, Policy, Schedule, Settings, Window, carried_out, decide, populated,
};
use muster_scheduling::model::Options;
use muster_scheduling::{solve, validate_disruption};

use crate::cases;
use crate::random::Random;

const CASES: u64 = 4_000;

/// Rounds in which a cluster must come to rest.
const ROUNDS: usize = 30;

fn now() -> Timestamp {
    "2026-11-20T12:00:00Z".parse().unwrap()
}

/// A cluster whose load has fallen. `calm`: nobody objects to anything.
fn input(seed: u64, calm: bool) -> DisruptionInput {
    let mut random = Random::new(seed ^ 0xd15);
    let problem = cases::crowd(seed);
    let pod_budgets = (0..3).map(|number| PodBudget {
        name: format!("default/budget-{number}").into(),
        allowed: if calm { 9 } else { random.below(4) as u32 },
    });
    let pod_budgets: Vec<PodBudget> = pod_budgets.collect();
    let policies = problem.pools.iter().map(|_| policy(&mut random, calm)).collect();
    let managed_nodes = problem.nodes.iter().map(|_| None).collect();
    let solution = solve(&problem, &Options::default());
    let empty = DisruptionInput { problem, managed_nodes, policies, pod_budgets };
    let since = now() - SignedDuration::from_hours(2);
    let mut input = populated(empty, &solution, since, |_| node_pod(&mut random, calm));
    input.problem.pods.clear();
    for (node, managed_node) in input.problem.nodes.iter_mut().zip(&mut input.managed_nodes) {
        let Some(managed_node) = managed_node else { continue };
        let stays: Vec<bool> = node.bound.iter().map(|_| random.chance(55)).collect();
        let mut stays_at = stays.iter();
        node.bound.retain(|_| *stays_at.next().unwrap());
        let mut stays_at = stays.iter();
        managed_node.node_pods.retain(|_| *stays_at.next().unwrap());
        if calm {
            continue;
        }
        node.initialized = !random.chance(3);
        managed_node.ready = !random.chance(5);
        managed_node.do_not_disrupt = random.chance(5);
        managed_node.drain_is_bounded = random.chance(30);
        if random.chance(8) {
            let since = random.chance(50).then(|| since + SignedDuration::from_mins(random.below(60) as i64));
            managed_node.drifted = Some(Drift { since, reason: "AMIDrift".into(), detail: "".into() });
        }
        managed_node.expire_after = random.chance(5).then(|| SignedDuration::from_mins(60 + random.below(120) as i64));
        if random.chance(3) {
            managed_node.interrupted = Some(Interruption { since: None, notice: "notice".into() });
        }
    }
    input
}

fn policy(random: &mut Random, calm: bool) -> Policy {
    let all = NodeBudget { nodes: BudgetLimit::Percent(100), causes: Vec::new(), window: Window::Always };
    if calm {
        let consolidate_after = Some(SignedDuration::ZERO);
        return Policy {
            consolidate_after,
            consolidation: Consolidation::default(),
            budgets: vec![all],
            rests_until: None,
        };
    }
    let mut budgets = vec![NodeBudget { nodes: BudgetLimit::Percent(20 + random.below(80) as u64), ..all.clone() }];
    if random.chance(30) {
        let causes = vec![*random.pick(&[Cause::Empty, Cause::Underutilized, Cause::Drifted])];
        budgets.push(NodeBudget { nodes: BudgetLimit::Count(random.below(3) as u64), causes, window: Window::Always });
    }
    if random.chance(20) {
        let schedule = Schedule::parse("0 9 * * mon-fri").unwrap();
        let window = Window::After(schedule, SignedDuration::from_hours(*random.pick(&[1, 8])));
        budgets.push(NodeBudget { nodes: BudgetLimit::Count(1), causes: Vec::new(), window });
    }
    let kinds = [Consolidation::WhenEmpty, Consolidation::WhenEmptyOrUnderutilized, Consolidation::Balanced];
    Policy {
        consolidate_after: (!random.chance(10)).then(|| SignedDuration::from_hours(*random.pick(&[0, 1, 3]))),
        consolidation: if random.chance(60) { kinds[1] } else { *random.pick(&kinds) },
        budgets,
        rests_until: None,
    }
}

fn node_pod(random: &mut Random, calm: bool) -> NodePod {
    let plain = NodePod {
        reschedulable: true,
        evictable: true,
        eviction_cost: 1.0,
        hold: None,
        budgets: Vec::new(),
        started: None,
        controlled: true,
    };
    if calm {
        return plain;
    }
    let until = |hours: i64| Some(DisruptionBlocker::Until(now() + SignedDuration::from_hours(hours)));
    NodePod {
        eviction_cost: *random.pick(&[1.0, 1.0, 1.0, 2.5, 0.0, -3.0]),
        hold: if random.chance(6) {
            *random.pick(&[Some(DisruptionBlocker::Always), until(1), until(-1)])
        } else {
            None
        },
        budgets: if random.chance(25) { vec![random.below(3)] } else { Vec::new() },
        controlled: !random.chance(10),
        ..plain
    }
}

fn settings(seed: u64) -> Settings {
    Settings { spot_to_spot: seed.is_multiple_of(3), first: seed.is_multiple_of(7), ..Settings::default() }
}

fn faults(input: &DisruptionInput, settings: &Settings, decision: &Decision) -> Vec<String> {
    validate_disruption(input, now(), settings, decision).iter().map(ToString::to_string).collect()
}

#[test]
fn every_decision_keeps_its_promises() {
    let mut failed = Vec::new();
    let mut seen = std::collections::BTreeMap::new();
    for seed in 0..CASES {
        let (input, settings) = (input(seed, false), settings(seed));
        let decision = decide(&input, now(), &settings);
        assert_eq!(decide(&input, now(), &settings), decision, "seed {seed}: two passes differ");
        let faults = faults(&input, &settings, &decision);
        faults.iter().for_each(|fault| println!("seed {seed}: {fault}"));
        if !faults.is_empty() {
            failed.push(seed);
        }
        for command in &decision.commands {
            *seen.entry(command.method.name()).or_insert(0) += 1;
        }
        decision.blocked.iter().for_each(|blocked| *seen.entry(blocked.block.name()).or_insert(0) += 1);
    }
    assert!(failed.is_empty(), "{} of {CASES} seeds: {failed:?}", failed.len());
    // The cases are worth something only if they reach what they are about.
    let methods = ["emptiness", "drift", "multi-node", "single-node", "expiration", "interruption"];
    let blocks =
        ["Budget", "PodDisruptionBudget", "PodDoNotDisrupt", "PodsWouldNotFit", "NoCheaperReplacement", "SpotToSpot"];
    for name in methods.iter().chain(&blocks) {
        assert!(seen.get(name).is_some_and(|&times| times >= 5), "{name} is hardly met: {seen:?}");
    }
}

#[test]
fn a_calm_cluster_comes_to_rest_and_only_gets_cheaper() {
    for seed in 0..CASES / 4 {
        let mut input = input(seed, true);
        let settings = Settings { spot_to_spot: true, ..Settings::default() };
        let pods = |input: &DisruptionInput| input.problem.nodes.iter().map(|node| node.bound.len()).sum::<usize>();
        let before = pods(&input);
        let mut moment = now();
        let mut rounds = 0;
        loop {
            let decision = decide(&input, moment, &settings);
            let faults = faults(&input, &settings, &decision);
            assert!(faults.is_empty(), "seed {seed}, round {rounds}: {faults:?}");
            if decision.commands.is_empty() {
                break;
            }
            assert!(decision.commands.iter().all(|command| command.savings > 0.0), "seed {seed}: {decision:?}");
            input = carried_out(&input, &decision, moment);
            assert_eq!(pods(&input) + input.problem.pods.len(), before, "seed {seed}: pods are lost");
            moment += SignedDuration::from_mins(10);
            rounds += 1;
            assert!(rounds <= ROUNDS, "seed {seed} does not come to rest");
        }
    }
}
