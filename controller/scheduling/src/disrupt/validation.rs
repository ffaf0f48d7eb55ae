//! Independent check of a disruption: its pods may be moved and have a place, and its savings are correct.
//!
//! Places are checked like those of a plan: all candidates of all commands are deleted, their pods are pending together
//! with the already pending ones, and the commands with the places of both are the plan. So commands can be executed in
//! any order without breaking a rule that holds at the end. Virtual pods that the plan for pending pods puts on a
//! candidate are placed by its command.

use std::collections::{BTreeMap, BTreeSet};

use jiff::Timestamp;

use super::{
    Arrivals, BudgetLimit, Cause, Command, Consolidation, Decision, DisruptionBlocker, DisruptionInput, LATE,
    ManagedNode, Method, NodeBudget, Repair, RepairAction, Settings, Window,
};
use crate::labels;
use crate::model::{Options, Pod, Problem, Resource};
use crate::solution::{NewNode, Reason, Solution, Unschedulable};
use crate::validate::{Findings, Place, Promise, Violation, validate};

/// Tolerance for prices in USD per hour. Prices are sums of a few dozen list prices: smaller differences are rounding.
const DUST: f64 = 1e-6;

/// Returns the violations of `decision`, sorted by place.
pub fn validate_disruption(
    input: &DisruptionInput,
    now: Timestamp,
    settings: &Settings,
    decision: &Decision,
) -> Vec<Violation> {
    let mut findings = Findings::default();
    if accounted(input, decision, &mut findings) {
        moved(input, now, decision, &mut findings);
        for (number, command) in decision.commands.iter().enumerate() {
            for &node in &command.candidates {
                touchable(input, now, command.cause, (number, node), &mut findings);
                justified(input, now, command.cause, (number, node), &mut findings);
                at_once(input, settings, command.cause, (number, node), &mut findings);
            }
            goes_first(input, settings, (number, command), &mut findings);
            one_for_one(input, (number, command), &mut findings);
        }
        reboots(input, now, decision, &mut findings);
        node_budgets(input, now, decision, &mut findings);
        evictions(input, decision, &mut findings);
        savings(input, decision, &mut findings);
        let (problem, solution) = as_plan(input, decision);
        for Violation { promise, place, detail } in validate(&problem, &settings.options, &solution) {
            findings.note(place, promise, detail);
        }
    }
    findings.into_sorted()
}

/// Returns true if each managed node occurs exactly once, in a command, as rebooted or as blocked, and no other node
/// does.
fn accounted(input: &DisruptionInput, decision: &Decision, findings: &mut Findings) -> bool {
    let mut sound = true;
    let mut times: BTreeMap<usize, u32> = BTreeMap::new();
    let going = decision.commands.iter().flat_map(|command| &command.candidates).chain(&decision.reboots);
    for &node in going.chain(decision.blocked.iter().map(|blocked| &blocked.node)) {
        *times.entry(node).or_default() += 1;
    }
    for (node, about) in input.problem.nodes.iter().enumerate() {
        let managed = input.managed_nodes[node].is_some() && !about.deleting;
        let count = times.remove(&node).unwrap_or(0);
        if count != u32::from(managed) {
            sound = false;
            findings.note(Place::Existing(node), Promise::Accounted, format!("it is named {count} times"));
        }
    }
    for node in times.into_keys() {
        sound = false;
        findings.note(Place::Existing(node), Promise::Accounted, "there is no such node");
    }
    let gone = decision.commands.iter().flat_map(|command| &command.candidates).chain(&decision.reboots);
    let gone: BTreeSet<usize> = gone.copied().collect();
    for (number, command) in decision.commands.iter().enumerate() {
        for (node, _) in &command.existing {
            if *node >= input.problem.nodes.len() || gone.contains(node) {
                sound = false;
                findings.note(
                    Place::Command(number),
                    Promise::Deleting,
                    format!("node {node} takes pods, and goes or is not there"),
                );
            }
        }
    }
    sound
}

/// Returns the virtual pods that the plan for pending pods puts on each node, by their index in `arrivals`.
fn virtual_pods(input: &DisruptionInput, arrivals: &Arrivals) -> BTreeMap<usize, Vec<usize>> {
    let is_virtual = |pod: &usize| input.problem.specs[arrivals.pods[*pod].spec].is_virtual;
    let mut by_node: BTreeMap<usize, Vec<usize>> = BTreeMap::new();
    for (node, pods) in &arrivals.solution.existing {
        by_node.entry(*node).or_default().extend(pods.iter().copied().filter(is_virtual));
    }
    by_node.retain(|_, pods| !pods.is_empty());
    by_node
}

/// Checks that each command places exactly the pods of its nodes, and that nodes with virtual pods are not empty.
fn moved(input: &DisruptionInput, now: Timestamp, decision: &Decision, findings: &mut Findings) {
    let unseen = virtual_pods(input, &decision.arrivals);
    for (number, command) in decision.commands.iter().enumerate() {
        let mut leaving: Vec<(&str, usize)> = Vec::new();
        for &node in &command.candidates {
            let node_pods = input.managed_nodes[node].iter().flat_map(|managed_node| &managed_node.node_pods);
            let pods = input.problem.nodes[node].bound.iter().zip(node_pods);
            leaving.extend(pods.filter(|(_, it)| it.reschedulable).map(|(pod, _)| (&*pod.name, pod.spec)));
            let Some(unseen) = unseen.get(&node) else { continue };
            leaving.extend(unseen.iter().map(|&pod| &decision.arrivals.pods[pod]).map(|pod| (&*pod.name, pod.spec)));
            if command.cause == Cause::Empty {
                let detail = format!("node {}: it has the room of virtual pods", input.problem.nodes[node].name);
                findings.note(Place::Command(number), Promise::Justified, detail);
            }
        }
        let placed = command.replacements.iter().flat_map(|node| &node.pods);
        let placed = placed.chain(command.existing.iter().flat_map(|(_, pods)| pods)).chain(&command.unplaced);
        let mut named: Vec<(&str, usize)> = Vec::new();
        for &pod in placed {
            match decision.pods.get(pod) {
                Some(pod) => named.push((&pod.name, pod.spec)),
                None => findings.note(Place::Command(number), Promise::Index, format!("pod {pod} does not exist")),
            }
        }
        leaving.sort_unstable();
        named.sort_unstable();
        if leaving != named {
            let detail = format!("{} pods are placed, and {} have to move", named.len(), leaving.len());
            findings.note(Place::Command(number), Promise::Moved, detail);
        }
        for pod in command.unplaced.iter().filter_map(|&pod| decision.pods.get(pod)) {
            if !may_leave_behind(input, now, command, pod) {
                findings.note(Place::Command(number), Promise::Moved, format!("pod {} gets no place", pod.name));
            }
        }
    }
}

/// Returns true if the command may leave `pod`, one of its nodes', without a place.
fn may_leave_behind(input: &DisruptionInput, now: Timestamp, command: &Command, pod: &Pod) -> bool {
    if replaces_static(input, command) || command.method == Method::TerminateFirst {
        return true;
    }
    let expires = |node: usize| input.managed_nodes[node].as_ref().and_then(ManagedNode::expires);
    let is_late = |node: usize| expires(node).is_some_and(|expires| now.duration_since(expires) >= LATE);
    let mut candidates = command.candidates.iter().copied();
    match command.cause {
        Cause::Expired => candidates.any(|node| {
            let mut bound = input.problem.nodes[node].bound.iter();
            is_late(node) && bound.any(|it| it.name == pod.name)
        }),
        Cause::Empty => candidates.any(|node| {
            let node_pods = input.managed_nodes[node].iter().flat_map(|managed_node| &managed_node.node_pods);
            let mut pods = input.problem.nodes[node].bound.iter().zip(node_pods);
            pods.any(|(bound, it)| bound.name == pod.name && it.eviction_cost <= 0.0)
        }),
        // Their room is bought again.
        Cause::Drifted => input.problem.specs[pod.spec].is_virtual,
        cause => cause.forceful(),
    }
}

/// Returns true if the command replaces a node of a static pool by one of the same pool. The pool promises a number of
/// nodes, and no places.
fn replaces_static(input: &DisruptionInput, command: &Command) -> bool {
    let ([node], [replacement]) = (&command.candidates[..], &command.replacements[..]) else { return false };
    let pool = input.managed_nodes[*node].as_ref().and_then(|managed_node| managed_node.pool);
    pool == Some(replacement.pool) && input.problem.pools[replacement.pool].missing_replicas.is_some()
}

/// Checks that nodes of static pools are replaced one for one, unless they have to go at any cost or go first.
fn one_for_one(input: &DisruptionInput, (number, command): (usize, &Command), findings: &mut Findings) {
    let is_static = |&node: &usize| {
        let pool = input.managed_nodes[node].as_ref().and_then(|managed_node| managed_node.pool);
        pool.is_some_and(|pool| input.problem.pools[pool].missing_replicas.is_some())
    };
    let is_replaced = matches!(command.cause, Cause::Drifted | Cause::Unhealthy);
    if is_replaced
        && command.method != Method::TerminateFirst
        && command.candidates.iter().any(is_static)
        && !replaces_static(input, command)
    {
        findings.note(Place::Command(number), Promise::Replicas, "a node of a static pool is not replaced by one");
    }
}

/// Checks that a command without replacements, whose pods have no place, may be carried out all the same: by its gate,
/// and because nothing can be launched beside its nodes.
fn goes_first(
    input: &DisruptionInput,
    settings: &Settings,
    (number, command): (usize, &Command),
    findings: &mut Findings,
) {
    if command.method != Method::TerminateFirst {
        return;
    }
    let is_full = |&node: &usize| {
        let pool = input.managed_nodes[node].as_ref().and_then(|it| it.pool).map(|pool| &input.problem.pools[pool]);
        let nodes = Resource::new("nodes");
        let limit = pool.and_then(|pool| pool.limits.as_ref()).filter(|limits| limits.contains(&nodes));
        let is_static = pool.is_some_and(|pool| pool.missing_replicas.is_some());
        let at_limit = pool.zip(limit).is_some_and(|(pool, limit)| pool.usage.get(&nodes) >= limit.get(&nodes));
        let is_reserved = input.problem.nodes[node].labels.get(labels::CAPACITY_RESERVATION_ID).is_some();
        if is_static { at_limit } else { is_reserved }
    };
    let is_allowed = settings.terminate_first.covers(command.cause) && command.replacements.is_empty();
    if !is_allowed || !command.candidates.iter().all(is_full) {
        findings.note(Place::Command(number), Promise::Justified, "its nodes need not go before their replacements");
    }
}

/// Checks that a node may be disrupted for `cause`.
fn touchable(
    input: &DisruptionInput,
    now: Timestamp,
    cause: Cause,
    (command, node): (usize, usize),
    findings: &mut Findings,
) {
    let Some(managed_node) = &input.managed_nodes[node] else { return };
    if cause.forceful() {
        return;
    }
    let place = Place::Command(command);
    let name = &input.problem.nodes[node].name;
    let is_nominated = managed_node.nominated_by.is_some() && cause != Cause::Unhealthy;
    if !input.problem.nodes[node].initialized || managed_node.pool.is_none() || is_nominated {
        findings.note(place, Promise::Untouchable, format!("node {name} is not to be touched"));
    }
    if cause == Cause::Unhealthy {
        if managed_node.do_not_repair {
            findings.note(place, Promise::Held, format!("node {name} asks not to be repaired"));
        }
        return;
    }
    if managed_node.do_not_disrupt {
        findings.note(place, Promise::Held, format!("node {name} asks not to be disrupted"));
    }
    if managed_node.closed_zone.is_some() && cause != Cause::Unhealthy {
        findings.note(place, Promise::Held, format!("node {name} stays in its zone"));
    }
    if cause == Cause::Drifted && managed_node.drain_is_bounded {
        return;
    }
    for (pod, it) in input.problem.nodes[node].bound.iter().zip(&managed_node.node_pods).filter(|(_, it)| it.evictable)
    {
        let held = match it.hold {
            Some(DisruptionBlocker::Always | DisruptionBlocker::Unreadable) => true,
            Some(DisruptionBlocker::Until(end)) => end > now,
            None => false,
        };
        let forbidden = it.budgets.len() > 1 || it.budgets.iter().any(|&budget| input.pod_budgets[budget].allowed == 0);
        if held || forbidden {
            findings.note(place, Promise::Held, format!("pod {} is not to be moved", pod.name));
        }
    }
}

/// Checks that the node meets the conditions of the cause.
fn justified(
    input: &DisruptionInput,
    now: Timestamp,
    cause: Cause,
    (command, node): (usize, usize),
    findings: &mut Findings,
) {
    let Some(managed_node) = &input.managed_nodes[node] else { return };
    let fault = match cause {
        Cause::Empty | Cause::Underutilized => not_consolidatable(input, now, managed_node, cause),
        Cause::Drifted => managed_node.drifted.is_none().then_some("it has not drifted"),
        Cause::Interrupted => managed_node.interrupted.is_none().then_some("it is not interrupted"),
        Cause::Expired => {
            let age = managed_node.created.map(|created| now.duration_since(created));
            let is_old = age.is_some_and(|age| managed_node.expire_after.is_some_and(|most| age >= most));
            (!is_old).then_some("it is not too old")
        }
        Cause::Unhealthy | Cause::Broken => {
            let is_broken = |it: &crate::disrupt::RepairCondition| now.duration_since(it.since) >= it.tolerated;
            let is_any = managed_node.repair_conditions.iter().any(is_broken);
            (!is_any).then_some("it is not broken, or not for long enough")
        }
    };
    if let Some(fault) = fault {
        let name = &input.problem.nodes[node].name;
        findings.note(Place::Command(command), Promise::Justified, format!("node {name}: {fault}"));
    }
}

/// Checks that an unhealthy node goes without regard to budgets only if it was never initialized, or all do.
fn at_once(
    input: &DisruptionInput,
    settings: &Settings,
    cause: Cause,
    (command, node): (usize, usize),
    findings: &mut Findings,
) {
    let Some(managed_node) = &input.managed_nodes[node] else { return };
    let may_wait = input.problem.nodes[node].initialized || managed_node.do_not_repair;
    if cause == Cause::Broken && settings.repair != Repair::Legacy && may_wait {
        let name = &input.problem.nodes[node].name;
        findings.note(Place::Command(command), Promise::Untouchable, format!("node {name} may wait for its repair"));
    }
}

/// Checks that nodes are rebooted for a condition that a reboot might mend, and for no other.
fn reboots(input: &DisruptionInput, now: Timestamp, decision: &Decision, findings: &mut Findings) {
    for &node in &decision.reboots {
        let Some(managed_node) = &input.managed_nodes[node] else { continue };
        let name = &input.problem.nodes[node].name;
        let place = Place::Existing(node);
        if !input.problem.nodes[node].initialized || managed_node.pool.is_none() || managed_node.rebooting {
            findings.note(place, Promise::Untouchable, format!("node {name} is not to be rebooted"));
        }
        if managed_node.do_not_repair {
            findings.note(place, Promise::Held, format!("node {name} asks not to be repaired"));
        }
        let mut actions =
            managed_node.repair_conditions.iter().filter(|it| now.duration_since(it.since) >= it.tolerated);
        let is_mended = actions.clone().next().is_some() && actions.all(|it| it.action == RepairAction::Reboot);
        if !is_mended {
            findings.note(place, Promise::Justified, format!("node {name}: a reboot is not its remedy"));
        }
    }
}

/// Returns the reason why the pool does not allow consolidation of the node, if there is one.
fn not_consolidatable(
    input: &DisruptionInput,
    now: Timestamp,
    managed_node: &ManagedNode,
    cause: Cause,
) -> Option<&'static str> {
    let pool = managed_node.pool?;
    let policy = &input.policies[pool];
    let moves = managed_node.node_pods.iter().any(|it| it.reschedulable && it.eviction_cost > 0.0);
    let Some(after) = policy.consolidate_after else { return Some("its pool never consolidates") };
    let quiet_since = [managed_node.initialized, managed_node.last_pod_event].into_iter().flatten().max();
    let is_quiet = after.is_zero()
        || managed_node.consolidatable
        || quiet_since.is_some_and(|since| now.duration_since(since) >= after);
    match () {
        () if input.problem.pools[pool].missing_replicas.is_some() => Some("its pool has a fixed number of nodes"),
        () if !is_quiet => Some("its pods have changed too lately"),
        () if cause == Cause::Empty => moves.then_some("it is not empty"),
        () if policy.rests_until.is_some_and(|until| now < until) => Some("consolidation of its pool rests"),
        () if managed_node.keeps_until.is_some_and(|until| now < until) => Some("it was launched lately"),
        () if policy.consolidation == Consolidation::WhenEmpty => Some("its pool consolidates empty nodes only"),
        () => None,
    }
}

/// Checks that the unavailable nodes of each pool are within its budgets, by cause.
fn node_budgets(input: &DisruptionInput, now: Timestamp, decision: &Decision, findings: &mut Findings) {
    for (pool, policy) in input.policies.iter().enumerate() {
        let mine = |managed_node: &&ManagedNode| managed_node.pool == Some(pool);
        let nodes = input.problem.nodes.iter().zip(&input.managed_nodes);
        let nodes = nodes.filter_map(|(node, managed_node)| Some((node, managed_node.as_ref().filter(mine)?)));
        let counts =
            |node: &crate::model::Node, it: &ManagedNode| node.initialized && !it.instance_ends || it.rebooting;
        let nodes: Vec<_> = nodes.filter(|(node, it)| counts(node, it)).collect();
        let total = nodes.len() as u64;
        let is_away = |(node, it): &(&crate::model::Node, &ManagedNode)| node.deleting || it.rebooting;
        let is_mine = |&&node: &&usize| input.managed_nodes[node].as_ref().is_some_and(|it| it.pool == Some(pool));
        let rebooted = decision.reboots.iter().filter(is_mine).count() as u64;
        let mut away = nodes.iter().filter(|it| is_away(it)).count() as u64 + rebooted;
        let unready = nodes.iter().filter(|it| !is_away(it) && !it.1.ready).count() as u64;
        let for_repair = decision.commands.iter().filter(|it| it.cause.forceful() || it.cause == Cause::Unhealthy);
        let for_repair = away + for_repair.flat_map(|it| &it.candidates).filter(is_mine).count() as u64;
        for budget in policy.budgets.iter().filter(|_| rebooted > 0) {
            if let Some(allowed) = allowed(budget, Cause::Unhealthy, total, now).filter(|most| for_repair > *most) {
                let detail = format!("{for_repair} nodes of pool {pool} would be away, and {allowed} may be");
                findings.note(Place::Plan, Promise::NodeBudgets, detail);
            }
        }
        for (number, command) in decision.commands.iter().enumerate() {
            let taken = command.candidates.iter().filter(is_mine).count() as u64;
            away += taken;
            if taken == 0 || command.cause.forceful() {
                continue;
            }
            // Nodes that are not ready are what repair is for.
            let away = away + if command.cause == Cause::Unhealthy { 0 } else { unready };
            for budget in &policy.budgets {
                if let Some(allowed) = allowed(budget, command.cause, total, now).filter(|most| away > *most) {
                    let detail = format!("{away} nodes of pool {pool} would be away, and {allowed} may be");
                    findings.note(Place::Command(number), Promise::NodeBudgets, detail);
                }
            }
        }
    }
}

/// Returns the number of nodes that a budget allows to be away for `cause`; `None` if it has no say in it now.
fn allowed(budget: &NodeBudget, cause: Cause, total: u64, now: Timestamp) -> Option<u64> {
    let concerns = budget.causes.is_empty() || budget.causes.contains(&cause);
    let in_force = match &budget.window {
        Window::Always | Window::Unreadable(_) => true,
        Window::After(schedule, duration) => schedule.open_since(now, *duration).is_some(),
    };
    let allowed = match (&budget.window, budget.nodes) {
        (Window::Unreadable(_), _) => 0,
        (_, BudgetLimit::Count(count)) => count,
        (_, BudgetLimit::Percent(percent)) => total.saturating_mul(percent).div_ceil(100),
    };
    (concerns && in_force).then_some(allowed)
}

/// Checks that nodes which are disrupted together do not need more evictions of a budget than it allows. A single node
/// is drained at the pace of the budget.
fn evictions(input: &DisruptionInput, decision: &Decision, findings: &mut Findings) {
    let mut needed: BTreeMap<usize, (u32, u32)> = BTreeMap::new();
    // The drain of an unhealthy node is bounded, so that its pods' budgets do not hold it.
    let gentle = |command: &&Command| !command.cause.forceful() && command.cause != Cause::Unhealthy;
    let voluntary = decision.commands.iter().filter(gentle);
    for &node in voluntary.flat_map(|command| &command.candidates) {
        let Some(managed_node) = &input.managed_nodes[node] else { continue };
        let mut of_node: BTreeMap<usize, u32> = BTreeMap::new();
        for &budget in managed_node.node_pods.iter().filter(|it| it.evictable).flat_map(|it| &it.budgets) {
            *of_node.entry(budget).or_default() += 1;
        }
        for (budget, count) in of_node {
            let (nodes, pods) = needed.entry(budget).or_default();
            *nodes += 1;
            *pods += count;
        }
    }
    for (budget, (nodes, pods)) in needed {
        let about = &input.pod_budgets[budget];
        if nodes > 1 && pods > about.allowed {
            let detail = format!("{pods} evictions on {nodes} nodes, and {} allows {}", about.name, about.allowed);
            findings.note(Place::Plan, Promise::Held, detail);
        }
    }
}

/// Checks the stated savings against prices.
fn savings(input: &DisruptionInput, decision: &Decision, findings: &mut Findings) {
    for (number, command) in decision.commands.iter().enumerate() {
        let before: f64 = command.candidates.iter().filter_map(|&node| price(input, node)).sum();
        let after: f64 = command.replacements.iter().map(|node| node.price).sum();
        if (before - after - command.savings).abs() > DUST {
            let detail = format!("{} is stated, and it is {}", command.savings, before - after);
            findings.note(Place::Command(number), Promise::Savings, detail);
        }
        if command.cause == Cause::Underutilized && before - after <= 0.0 {
            findings.note(Place::Command(number), Promise::Savings, "it saves nothing");
        }
    }
}

/// Returns the price of a node from its labels, in USD per hour.
fn price(input: &DisruptionInput, node: usize) -> Option<f64> {
    let labels = &input.problem.nodes[node].labels;
    let has = |key: &str, value: Option<&str>| labels.get(key).map(|label| &**label) == value;
    let pool = &input.problem.pools[input.managed_nodes[node].as_ref()?.pool?];
    let one =
        input.problem.catalogues[pool.catalogue].iter().find(|one| has(labels::INSTANCE_TYPE, Some(&one.name)))?;
    let reservation = labels.get(labels::CAPACITY_RESERVATION_ID);
    let offering = one.offerings.iter().find(|offering| {
        has(labels::ZONE, offering.zone())
            && has(labels::CAPACITY_TYPE, offering.capacity_type())
            && (reservation.is_none()
                || !offering.reserved()
                || has(labels::CAPACITY_RESERVATION_ID, offering.requirements.single(labels::CAPACITY_RESERVATION_ID)))
    })?;
    offering.price
}

/// Returns true if the commands of `decision` together are a valid plan.
pub(crate) fn places_hold(input: &DisruptionInput, options: &Options, decision: &Decision) -> bool {
    let (problem, solution) = as_plan(input, decision);
    validate(&problem, options, &solution).is_empty()
}

/// Returns all commands together as a plan for the pods of all candidates and for the pending pods.
fn as_plan(input: &DisruptionInput, decision: &Decision) -> (Problem, Solution) {
    let mut problem = input.problem.clone();
    problem.pods.clone_from(&decision.pods);
    for &node in decision.commands.iter().flat_map(|command| &command.candidates) {
        problem.nodes[node].deleting = true;
    }
    let replacements = || decision.commands.iter().flat_map(|command| &command.replacements);
    // The replacement in a static pool takes its pods along, which a plan may not do: treat the pool as a dynamic one.
    for node in replacements() {
        problem.pools[node.pool].missing_replicas = None;
    }
    let waiting = &decision.arrivals;
    // Virtual pods of candidates are among the pods of the decision.
    let unseen = virtual_pods(input, waiting).into_iter().filter(|(node, _)| problem.nodes[*node].deleting);
    let elsewhere: BTreeSet<usize> = unseen.flat_map(|(_, pods)| pods).collect();
    let mut numbers: Vec<Option<usize>> = Vec::with_capacity(waiting.pods.len());
    for (pod, about) in waiting.pods.iter().enumerate() {
        let is_here = !elsewhere.contains(&pod);
        numbers.push(is_here.then_some(problem.pods.len()));
        problem.pods.extend(is_here.then(|| about.clone()));
    }
    let number = |pods: &[usize]| -> Vec<usize> { pods.iter().filter_map(|&pod| numbers[pod]).collect() };
    let bought = waiting.solution.new_nodes.iter().map(|node| NewNode { pods: number(&node.pods), ..node.clone() });
    let new_nodes = replacements().cloned().chain(bought).filter(|node| !node.pods.is_empty());
    let mut existing: BTreeMap<usize, Vec<usize>> = BTreeMap::new();
    for (node, pods) in decision.commands.iter().flat_map(|command| &command.existing) {
        existing.entry(*node).or_default().extend(pods);
    }
    for (node, pods) in &waiting.solution.existing {
        let pods = number(pods);
        if !pods.is_empty() {
            existing.entry(*node).or_default().extend(pods);
        }
    }
    let unplaced = decision.commands.iter().flat_map(|command| &command.unplaced).copied();
    let homeless = waiting.solution.unschedulable.iter().filter_map(|one| numbers[one.pod]);
    let unplaced = unplaced.chain(homeless).map(|pod| Unschedulable {
        pod,
        reason: Reason::Resources,
        message: String::new(),
        pools: Vec::new(),
    });
    let solution = Solution {
        new_nodes: new_nodes.collect::<Vec<NewNode>>(),
        existing: existing.into_iter().collect(),
        unschedulable: unplaced.collect(),
    };
    (problem, solution)
}
