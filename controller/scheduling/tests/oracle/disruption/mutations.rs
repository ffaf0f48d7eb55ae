//! The validator of disruptions finds each kind of fault: good decisions are spoiled in one way at a time.

use std::collections::BTreeMap;
use std::sync::Arc;

use jiff::SignedDuration;
use muster_scheduling::Promise;
use muster_scheduling::disrupt::{
    Block, Blocked, BudgetLimit, Cause, Command, Consolidation, Decision, DisruptionBlocker, DisruptionInput, Settings,
    decide,
};
use muster_scheduling::model::Refused;
use muster_scheduling::validate_disruption;

use super::{input, now};

/// A calm cluster, and a decision about it that moves pods to nodes that stay.
fn moving() -> (DisruptionInput, Decision) {
    let found = (0..500).find_map(|seed| {
        let input = input(seed, true);
        let decision = decide(&input, now(), &Settings::default());
        let moves = |command: &Command| command.cause == Cause::Underutilized && !command.existing.is_empty();
        (decision.commands.iter().any(moves) && !decision.blocked.is_empty()).then_some((input, decision))
    });
    found.unwrap()
}

fn promises(input: &DisruptionInput, decision: &Decision) -> Vec<Promise> {
    let found = validate_disruption(input, now(), &Settings::default(), decision);
    found.into_iter().map(|violation| violation.promise).collect()
}

fn moved(decision: &mut Decision) -> &mut Command {
    let moves = |command: &&mut Command| command.cause == Cause::Underutilized && !command.existing.is_empty();
    decision.commands.iter_mut().find(moves).unwrap()
}

/// Spoils what is good, and looks for the promise that is broken.
#[track_caller]
fn spoiled(promise: Promise, spoil: impl FnOnce(&mut DisruptionInput, &mut Decision)) {
    let (mut input, mut decision) = moving();
    assert_eq!(promises(&input, &decision), []);
    spoil(&mut input, &mut decision);
    let found = promises(&input, &decision);
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
    spoiled(Promise::Resources, |input, decision| {
        let node = moved(decision).existing[0].0;
        input.problem.nodes[node].allocatable = Default::default();
    });
}

#[test]
fn a_pod_that_asks_to_stay() {
    spoiled(Promise::Held, |input, decision| {
        let node = moved(decision).candidates[0];
        input.managed_nodes[node].as_mut().unwrap().node_pods[0].hold = Some(DisruptionBlocker::Always);
    });
}

#[test]
fn a_pod_that_a_budget_guards() {
    spoiled(Promise::Held, |input, decision| {
        input.pod_budgets[0].allowed = 0;
        let node = moved(decision).candidates[0];
        input.managed_nodes[node].as_mut().unwrap().node_pods[0].budgets = vec![0];
    });
}

#[test]
fn a_node_that_asks_to_stay() {
    spoiled(Promise::Held, |input, decision| {
        let node = moved(decision).candidates[0];
        input.managed_nodes[node].as_mut().unwrap().do_not_disrupt = true;
    });
}

#[test]
fn a_node_that_stays_in_a_zone_that_is_shifted_away() {
    spoiled(Promise::Held, |input, decision| {
        let node = moved(decision).candidates[0];
        input.managed_nodes[node].as_mut().unwrap().closed_zone = Some("its zone is shifted away".into());
    });
}

#[test]
fn a_node_that_is_coming_up() {
    spoiled(Promise::Untouchable, |input, decision| {
        let node = moved(decision).candidates[0];
        input.problem.nodes[node].initialized = false;
    });
}

#[test]
fn more_nodes_than_a_budget_allows() {
    spoiled(Promise::NodeBudgets, |input, _| {
        input.policies.iter_mut().for_each(|policy| policy.budgets[0].nodes = BudgetLimit::Count(0));
    });
}

#[test]
fn savings_that_are_not_there() {
    spoiled(Promise::Savings, |_, decision| moved(decision).savings += 0.01);
}

#[test]
fn nodes_that_share_a_budget_of_pods() {
    let found = (0..500).find_map(|seed| {
        let input = input(seed, true);
        let decision = decide(&input, now(), &Settings::default());
        let going = decision.commands.iter().flat_map(|command| command.candidates.clone());
        let has_pods = |node: &usize| input.managed_nodes[*node].as_ref().is_some_and(|it| !it.node_pods.is_empty());
        let going: Vec<usize> = going.filter(has_pods).collect();
        (going.len() > 1).then_some((input, decision, going))
    });
    let (mut input, decision, going) = found.unwrap();
    for node in going {
        input.managed_nodes[node].as_mut().unwrap().node_pods[0].budgets = vec![0];
    }
    assert_eq!(promises(&input, &decision), [], "nine may go");
    input.pod_budgets[0].allowed = 1;
    assert_eq!(promises(&input, &decision), [Promise::Held]);
}

#[test]
fn a_node_that_was_promised_to_a_pod() {
    spoiled(Promise::Untouchable, |input, decision| {
        let node = moved(decision).candidates[0];
        input.managed_nodes[node].as_mut().unwrap().nominated_by = Some("default/web".into());
    });
}

#[test]
fn a_pool_that_does_not_consolidate_like_this() {
    spoiled(Promise::Justified, |input, _| {
        input.policies.iter_mut().for_each(|policy| policy.consolidate_after = None);
    });
    spoiled(Promise::Justified, |input, _| {
        input.policies.iter_mut().for_each(|policy| policy.consolidation = Consolidation::WhenEmpty);
    });
    spoiled(Promise::Justified, |input, decision| {
        let after = Some(SignedDuration::from_hours(1));
        input.policies.iter_mut().for_each(|policy| policy.consolidate_after = after);
        let node = moved(decision).candidates[0];
        input.managed_nodes[node].as_mut().unwrap().last_pod_event = Some(now());
    });
    spoiled(Promise::Justified, |input, _| {
        input.problem.pools.iter_mut().for_each(|pool| pool.missing_replicas = Some(0));
    });
}

#[test]
fn a_reason_that_does_not_hold() {
    for cause in [Cause::Empty, Cause::Drifted, Cause::Expired, Cause::Unhealthy, Cause::Broken, Cause::Interrupted] {
        spoiled(Promise::Justified, |_, decision| moved(decision).cause = cause);
    }
}

/// One way to spoil a command; `None` if this one has nothing to spoil.
type Spoil = fn(&DisruptionInput, &mut Decision, usize) -> Option<()>;

const SPOILS: [(&str, Spoil); 9] = [
    ("a node that must not be touched goes too", |_, decision, number| {
        let blocks = [
            Block::NotInitialized,
            Block::Rebooting,
            Block::DoNotDisrupt,
            Block::PodDoNotDisrupt,
            Block::ConsolidateAfter,
            Block::ConsolidationPolicy,
        ];
        let blocked = decision.blocked.iter().position(|blocked| blocks.contains(&blocked.block))?;
        let node = decision.blocked.remove(blocked).node;
        let command = decision.commands.get_mut(number).filter(|command| !command.cause.forceful())?;
        command.candidates.push(node);
        Some(())
    }),
    ("a node goes that is not named", |_, decision, number| decision.commands[number].candidates.pop().map(drop)),
    ("a pod is left out", |_, decision, number| decision.commands[number].existing.first_mut()?.1.pop().map(drop)),
    ("a pod is in two places", |_, decision, number| {
        let pods = &mut decision.commands[number].existing.first_mut()?.1;
        pods.push(*pods.first()?);
        Some(())
    }),
    ("pods go where their node was", |_, decision, number| {
        let command = &mut decision.commands[number];
        command.existing.first_mut()?.0 = command.candidates[0];
        Some(())
    }),
    ("more is saved", |_, decision, number| {
        decision.commands[number].savings += 0.001;
        Some(())
    }),
    ("a launch is cheaper", |_, decision, number| {
        let command = &mut decision.commands[number];
        command.replacements.first_mut()?.price *= 0.9;
        let price = command.replacements[0].price;
        command.savings += price / 9.0;
        Some(())
    }),
    ("a launch asks for less", |_, decision, number| {
        let node = decision.commands[number].replacements.iter_mut().find(|node| !node.pods.is_empty())?;
        node.requests = Default::default();
        Some(())
    }),
    ("the cheapest type of a launch is another", |_, decision, number| {
        let node = decision.commands[number].replacements.iter_mut().find(|node| node.alternatives.len() > 1)?;
        node.alternatives = Arc::from(&node.alternatives[1..]);
        Some(())
    }),
];

#[test]
fn every_spoiled_command_is_refused() {
    let mut times: BTreeMap<&str, usize> = BTreeMap::new();
    for seed in 0..800 {
        let (input, settings) = (input(seed, false), Settings::default());
        let decision = decide(&input, now(), &settings);
        for number in 0..decision.commands.len() {
            for (what, spoil) in SPOILS {
                let mut spoiled = decision.clone();
                if spoil(&input, &mut spoiled, number).is_none() {
                    continue;
                }
                let found = validate_disruption(&input, now(), &settings, &spoiled);
                assert!(!found.is_empty(), "seed {seed}, command {number}: {what}\n{:?}", spoiled.commands[number]);
                *times.entry(what).or_default() += 1;
            }
        }
    }
    // Each way is worth something only if it is met.
    assert!(times.len() == SPOILS.len() && times.values().all(|&count| count >= 15), "{times:?}");
}

#[test]
fn capacity_that_was_refused() {
    let found = (0..500).find_map(|seed| {
        let input = input(seed, true);
        let decision = decide(&input, now(), &Settings::default());
        let launch = decision.commands.iter().flat_map(|command| &command.replacements).next()?.clone();
        Some((input, decision, launch))
    });
    let (mut input, decision, launch) = found.unwrap();
    assert_eq!(promises(&input, &decision), []);
    let catalogue = input.problem.pools[launch.pool].catalogue;
    let instance_type = input.problem.catalogues[catalogue].types()[launch.instance_type].name.clone();
    input.problem.refuse(&[Refused { instance_type, zone: None, capacity_type: None, reservation: None }]);
    assert!(promises(&input, &decision).contains(&Promise::Launchable));
}
