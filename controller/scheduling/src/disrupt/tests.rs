//! Virtual pods, static pools, and nodes that leave or stay for reasons of their own, on clusters of one pool.

use jiff::{SignedDuration, Timestamp};

use super::{
    Block, BudgetLimit, Cause, Command, Consolidation, Decision, DisruptionBlocker, DisruptionInput, Drift,
    ManagedNode, Method, NodeBudget, NodePod, Policy, Repair, RepairAction, RepairCondition, Settings, Window,
    carried_out, decide, validate_disruption,
};
use crate::labels;
use crate::model::{
    BoundPod, InstanceType, Labels, Node, NodePool, Offering, Operator, Pod, PodSpec, PoolState, Requirement,
    Requirements, Resource, Resources,
};
use crate::validate::Promise;

const CHUNK: &str = "default/spare-buffer-0";

fn now() -> Timestamp {
    "2026-11-20T12:00:00Z".parse().unwrap()
}

fn amounts(milli_cpu: i64, gi: i64, pods: i64) -> Resources {
    Resources::from_iter([(Resource::Cpu, milli_cpu), (Resource::Memory, gi << 30), (Resource::Pods, pods)])
}

fn only(key: &'static str, value: &'static str) -> (&'static str, Requirement) {
    (key, Requirement::new(Operator::In, [value]))
}

fn instance_type(name: &'static str, cpu: i64, gi: i64, price: f64) -> InstanceType {
    let place = [only(labels::ZONE, "a"), only(labels::CAPACITY_TYPE, "on-demand")];
    InstanceType {
        name: name.into(),
        requirements: place.iter().cloned().chain([only(labels::INSTANCE_TYPE, name)]).collect(),
        capacity: amounts(cpu * 1000, gi, 20),
        overhead: Resources::new(),
        offerings: vec![Offering {
            requirements: place.into_iter().collect(),
            price: Some(price),
            available: true,
            reservation_capacity: 0,
        }],
    }
}

/// A cluster without nodes. Its pool has m.small (2 cpu, $0.1) and m.large (8 cpu, $0.4).
fn cluster() -> DisruptionInput {
    let mut input = DisruptionInput::default();
    let types = vec![instance_type("m.small", 2, 4, 0.1), instance_type("m.large", 8, 32, 0.4)];
    input.problem.catalogues.push(types.into());
    input.problem.pools.push(NodePool {
        name: "general".into(),
        weight: 0,
        requirements: Requirements::new(),
        labels: Labels::default(),
        annotations: Labels::default(),
        taints: Vec::new(),
        startup_taints: Vec::new(),
        limits: None,
        usage: Resources::new(),
        catalogue: 0,
        state: PoolState::Ready,
        missing_replicas: None,
    });
    input.policies.push(Policy {
        consolidate_after: Some(SignedDuration::ZERO),
        consolidation: Consolidation::default(),
        budgets: vec![NodeBudget { nodes: BudgetLimit::Percent(100), causes: Vec::new(), window: Window::Always }],
        rests_until: None,
    });
    input
}

/// Adds a node of type `kind` with pods of so many millicores; returns its index.
fn add(input: &mut DisruptionInput, name: &str, kind: &str, pods: &[i64]) -> usize {
    let mut bound: Vec<BoundPod> = Vec::new();
    for (at, milli_cpu) in pods.iter().enumerate() {
        let spec = input.problem.intern(PodSpec::unconstrained("default", amounts(*milli_cpu, 1, 1)));
        let name = format!("default/{name}-{at}").into();
        bound.push(BoundPod { name, spec, counts: true, planned: false, daemon: false });
    }
    let node_pod = NodePod {
        reschedulable: true,
        evictable: true,
        eviction_cost: 1.0,
        hold: None,
        budgets: Vec::new(),
        started: None,
        controlled: true,
    };
    let of_kind = input.problem.catalogues[0].types().iter().find(|it| &*it.name == kind).unwrap();
    let allocatable = of_kind.allocatable();
    input.problem.nodes.push(Node {
        name: name.into(),
        labels: Labels::from_iter([
            (labels::HOSTNAME, name),
            (labels::ZONE, "a"),
            (labels::CAPACITY_TYPE, "on-demand"),
            (labels::INSTANCE_TYPE, kind),
        ]),
        taints: Vec::new(),
        allocatable,
        daemon_requests: Resources::new(),
        initialized: true,
        deleting: false,
        bound,
        attach_limits: Vec::new(),
        attached: Vec::new(),
    });
    let since = Some(now() - SignedDuration::from_hours(2));
    input.managed_nodes.push(Some(ManagedNode {
        pool_name: "general".into(),
        pool: Some(0),
        ready: true,
        created: since,
        initialized: since,
        node_pods: vec![node_pod; pods.len()],
        ..ManagedNode::default()
    }));
    input.managed_nodes.len() - 1
}

fn managed(input: &mut DisruptionInput, node: usize) -> &mut ManagedNode {
    input.managed_nodes[node].as_mut().unwrap()
}

fn drift(input: &mut DisruptionInput, node: usize) {
    managed(input, node).drifted = Some(Drift { since: None, reason: "AMIDrift".into(), detail: "".into() });
}

/// Adds the chunk of a buffer, with one cpu.
fn add_chunk(input: &mut DisruptionInput) {
    let requests = amounts(1000, 1, 1);
    let spec = PodSpec { priority: i32::MIN, is_virtual: true, ..PodSpec::unconstrained("default", requests) };
    let spec = input.problem.intern(spec);
    input.problem.pods.push(Pod { name: CHUNK.into(), spec });
}

/// A static pool with one node, whose pod selects a label that nothing else has.
fn static_cluster() -> DisruptionInput {
    let mut input = cluster();
    let node = add(&mut input, "old", "m.small", &[500]);
    input.problem.pools[0].missing_replicas = Some(0);
    let mut spec = PodSpec::unconstrained("default", amounts(500, 1, 1));
    spec.node_selector = [only("rack", "7")].into_iter().collect();
    let spec = input.problem.intern(spec);
    input.problem.nodes[node].labels.set("rack", "7");
    input.problem.nodes[node].bound[0].spec = spec;
    input
}

/// Returns the decision, which has to be valid.
#[track_caller]
fn decided(input: &DisruptionInput, settings: &Settings) -> Decision {
    let decision = decide(input, now(), settings);
    assert_eq!(validate_disruption(input, now(), settings, &decision), [], "{decision:?}");
    decision
}

#[track_caller]
fn only_command(decision: &Decision) -> &Command {
    let [command] = &decision.commands[..] else { panic!("{decision:?}") };
    command
}

fn pods_of_launches(command: &Command) -> Vec<Vec<usize>> {
    command.replacements.iter().map(|node| node.pods.clone()).collect()
}

fn promises(input: &DisruptionInput, decision: &Decision) -> Vec<Promise> {
    let found = validate_disruption(input, now(), &Settings::default(), decision);
    found.into_iter().map(|violation| violation.promise).collect()
}

#[test]
fn a_drifted_node_takes_the_room_of_virtual_pods_along() {
    let settings = Settings::default();
    for first in [false, true] {
        for count in [0, 1] {
            let mut input = cluster();
            let old = add(&mut input, "old", "m.small", &vec![500; count]);
            drift(&mut input, old);
            add_chunk(&mut input);
            let decision = decided(&input, &Settings { first, ..settings });
            let command = only_command(&decision);
            assert_eq!((command.cause, &command.candidates[..]), (Cause::Drifted, &[old][..]));
            assert_eq!(pods_of_launches(command), [(0..=count).collect::<Vec<usize>>()]);
            assert_eq!(&*decision.pods[count].name, CHUNK);
        }
    }
}

#[test]
fn a_drifted_node_goes_where_the_room_of_virtual_pods_is_nowhere_else() {
    let mut input = cluster();
    let old = add(&mut input, "old", "m.small", &[]);
    drift(&mut input, old);
    add_chunk(&mut input);
    input.problem.pools[0].state = PoolState::NotReady("it is paused".to_owned());
    let decision = decided(&input, &Settings::default());
    let command = only_command(&decision);
    assert_eq!((command.cause, &command.unplaced[..]), (Cause::Drifted, &[0][..]));
    assert!(!command.replaces());
    let after = carried_out(&input, &decision, now());
    assert_eq!(after.problem.pods, input.problem.pods, "it is pending once, as before");
}

#[test]
fn a_drifted_static_node_takes_the_room_of_virtual_pods_along() {
    let mut input = cluster();
    input.problem.pools[0].missing_replicas = Some(0);
    let old = add(&mut input, "old", "m.small", &[]);
    drift(&mut input, old);
    add_chunk(&mut input);
    let decision = decided(&input, &Settings::default());
    let command = only_command(&decision);
    assert_eq!(command.method, Method::StaticDrift);
    assert_eq!(pods_of_launches(command), [[0]]);
}

#[test]
fn room_of_virtual_pods_moves_to_a_cheaper_node() {
    let mut input = cluster();
    let big = add(&mut input, "big", "m.large", &[]);
    add_chunk(&mut input);
    let decision = decided(&input, &Settings::default());
    let command = only_command(&decision);
    assert_eq!((command.cause, &command.candidates[..]), (Cause::Underutilized, &[big][..]));
    assert_eq!(pods_of_launches(command), [[0]]);
    assert!((command.savings - 0.3).abs() < 1e-9, "{command:?}");
}

#[test]
fn room_of_virtual_pods_moves_to_a_node_that_is_there() {
    let mut input = cluster();
    let idle = add(&mut input, "idle", "m.small", &[]);
    let busy = add(&mut input, "busy", "m.large", &[1000]);
    managed(&mut input, busy).node_pods[0].hold = Some(DisruptionBlocker::Always);
    add_chunk(&mut input);
    let decision = decided(&input, &Settings::default());
    let command = only_command(&decision);
    assert_eq!(command.candidates, [idle]);
    assert!(!command.replaces());
}

#[test]
fn a_node_with_the_only_room_of_virtual_pods_stays() {
    let mut input = cluster();
    add(&mut input, "idle", "m.small", &[]);
    add_chunk(&mut input);
    let stays = |input: &DisruptionInput| {
        let decision = decided(input, &Settings::default());
        assert!(decision.is_empty(), "{decision:?}");
        (decision.blocked[0].block, decision.blocked[0].message.clone())
    };
    assert_eq!(stays(&input).0, Block::NoCheaperReplacement);
    input.policies[0].consolidation = Consolidation::WhenEmpty;
    let (block, message) = stays(&input);
    assert_eq!(block, Block::ConsolidationPolicy);
    assert!(message.contains(CHUNK), "{message}");
}

#[test]
fn static_nodes_are_replaced_one_for_one_wherever_their_pods_go() {
    let mut input = static_cluster();
    drift(&mut input, 0);
    let decision = decided(&input, &Settings::default());
    let command = only_command(&decision);
    assert_eq!((command.method, &command.unplaced[..]), (Method::StaticDrift, &[0][..]));
    assert_eq!(pods_of_launches(command), [[0_usize; 0]]);

    let mut sick = static_cluster();
    managed(&mut sick, 0).repair_conditions = vec![RepairCondition {
        condition: "Ready=False".into(),
        reason: "".into(),
        since: now() - SignedDuration::from_hours(1),
        tolerated: SignedDuration::from_mins(30),
        drain: None,
        action: RepairAction::Replace,
    }];
    let decision = decided(&sick, &Settings { repair: Repair::Voluntary, ..Settings::default() });
    let command = only_command(&decision);
    assert_eq!((command.method, &command.unplaced[..]), (Method::Repair, &[0][..]));
    assert_eq!(command.replacements.len(), 1);
}

#[test]
fn a_static_node_is_not_split() {
    let mut input = cluster();
    input.problem.pools[0].missing_replicas = Some(0);
    // Two nodes of two cpu would be cheaper than one of eight.
    let old = add(&mut input, "old", "m.large", &[1500, 1500]);
    drift(&mut input, old);
    let decision = decided(&input, &Settings::default());
    let command = only_command(&decision);
    assert_eq!((pods_of_launches(command), &command.unplaced[..]), (vec![vec![0, 1]], &[][..]));
}

#[test]
fn a_static_node_holds_what_fits_on_one() {
    let mut input = cluster();
    input.problem.pools[0].missing_replicas = Some(0);
    let old = add(&mut input, "old", "m.large", &[6000, 6000]);
    drift(&mut input, old);
    add_chunk(&mut input);
    let decision = decided(&input, &Settings::default());
    let command = only_command(&decision);
    let [placed] = &pods_of_launches(command)[..] else { panic!("{command:?}") };
    assert!(placed.contains(&0) != placed.contains(&1), "one of the two: {command:?}");
}

#[test]
fn spoiled_decisions_about_virtual_pods_and_static_nodes_are_refused() {
    let mut input = cluster();
    let old = add(&mut input, "old", "m.small", &[]);
    drift(&mut input, old);
    add_chunk(&mut input);
    let decision = decided(&input, &Settings::default());
    let mut spoiled = decision.clone();
    spoiled.commands[0].replacements.clear();
    assert!(promises(&input, &spoiled).contains(&Promise::Moved), "the chunk is forgotten");
    let mut spoiled = decision;
    spoiled.commands[0].cause = Cause::Empty;
    assert!(promises(&input, &spoiled).contains(&Promise::Justified), "it is not empty");

    let mut input = static_cluster();
    drift(&mut input, 0);
    let mut spoiled = decided(&input, &Settings::default());
    spoiled.commands[0].replacements.clear();
    let found = promises(&input, &spoiled);
    assert!(found.contains(&Promise::Replicas) && found.contains(&Promise::Moved), "{found:?}");
}

#[test]
fn a_node_whose_instance_ends_uses_no_budget() {
    for instance_ends in [false, true] {
        let mut input = cluster();
        input.policies[0].budgets[0].nodes = BudgetLimit::Count(1);
        let old = add(&mut input, "old", "m.small", &[500]);
        drift(&mut input, old);
        let leaving = add(&mut input, "leaving", "m.small", &[]);
        input.problem.nodes[leaving].deleting = true;
        managed(&mut input, leaving).instance_ends = instance_ends;
        let decision = decided(&input, &Settings::default());
        assert_eq!(decision.commands.len(), usize::from(instance_ends), "{decision:?}");
    }
}

#[test]
fn a_node_with_a_pod_that_cannot_be_read_stays() {
    let mut input = cluster();
    let old = add(&mut input, "old", "m.small", &[500]);
    drift(&mut input, old);
    managed(&mut input, old).node_pods[0].hold = Some(DisruptionBlocker::Unreadable);
    let decision = decided(&input, &Settings::default());
    assert!(decision.commands.is_empty(), "{decision:?}");
    let [blocked] = &decision.blocked[..] else { panic!("{decision:?}") };
    assert_eq!(blocked.block, Block::PodDoNotDisrupt);
    assert_eq!(blocked.message, "pod `default/old-0` cannot be read, and what it needs elsewhere is unknown");
}
