//! Conditions of a pool.

use jiff::Timestamp;
use muster_api::conditions::{READY, nodepool, reason};
use muster_api::nodepool::NodePoolStatus;
use muster_api::{events, validation};
use muster_scheduling::disrupt::Schedule;

use super::outcomes::{Edition, Health};
use super::{PoolInput, count};
use crate::disruption::Rest;
use crate::lifecycle::conditions::{Status, at, set};
use crate::provision::LaunchHold;
use crate::step::{Event, EventType, Subject, Write};

/// Conditions that must be true for a pool to be ready.
const DEPENDENTS: [&str; 2] = [nodepool::VALIDATION_SUCCEEDED, nodepool::NODE_CLASS_READY];

/// Maximum number of budgets that a message names.
const NAMED: usize = 3;

/// Returns the desired status.
pub(crate) fn judge(input: &PoolInput<'_>, now: Timestamp) -> NodePoolStatus {
    let mut status = input.pool.status.clone().unwrap_or_default();
    let (resources, nodes) = count::count(input);
    status.resources = resources;
    status.nodes = Some(nodes);
    let generation = input.pool.metadata.generation;
    let mut write = |kind: &str, (is, why, message): (Status, &str, &str)| {
        set(&mut status.conditions, at(kind, is, why, message, generation, now));
    };
    let invalid = invalid(input);
    let valid = match &invalid {
        Some(problem) => (Status::False, reason::NODE_POOL_VALIDATION_FAILED, problem.as_str()),
        None => (Status::True, nodepool::VALIDATION_SUCCEEDED, ""),
    };
    write(nodepool::VALIDATION_SUCCEEDED, valid);
    let class = class_ready(input);
    write(nodepool::NODE_CLASS_READY, (class.0, &class.1, &class.2));
    let registering = registering(input);
    write(nodepool::NODE_REGISTRATION_HEALTHY, registering);
    if let Some((is, why, message)) = delivering(input, now) {
        write(nodepool::CONSOLIDATION_DELIVERS, (is, why, &message));
    }
    if let Some((is, why, message)) = launching(input, now) {
        write(nodepool::LAUNCHES_DELIVER, (is, why, &message));
    }
    if let Some((is, why, message)) = keeping(input) {
        write(nodepool::REPLICAS_KEPT, (is, why, &message));
    }
    if let Some((is, why, message)) = budgets(input) {
        write(nodepool::BUDGETS_READABLE, (is, why, &message));
    }
    let open: Vec<String> = status
        .conditions
        .iter()
        .filter(|one| DEPENDENTS.contains(&one.type_.as_str()) && one.status != Status::True.name())
        .map(|one| format!("{}={}", one.type_, one.status))
        .collect();
    let ready = match open.is_empty() {
        true => at(READY, Status::True, READY, "", generation, now),
        // Neither of the two is ever Unknown.
        false => at(READY, Status::False, reason::UNHEALTHY_DEPENDENTS, &open.join(", "), generation, now),
    };
    set(&mut status.conditions, ready);
    status.node_class_observed_generation = input.class.and_then(|class| class.meta.generation);
    status
}

/// Returns the first validation error that the API server does not detect.
fn invalid(input: &PoolInput<'_>) -> Option<String> {
    let mut object = serde_json::to_value(input.pool).ok()?;
    // Another version may have written a status with unknown fields; the status is not validated.
    object.as_object_mut()?.remove("status");
    validation::check(&object).errors.into_iter().next().map(|error| error.to_string())
}

fn class_ready(input: &PoolInput<'_>) -> (Status, String, String) {
    let is_false = |why: &str, message: &str| (Status::False, why.to_owned(), message.to_owned());
    let Some(class) = input.class else {
        return is_false(reason::NODE_CLASS_NOT_FOUND, "NodeClass not found on cluster");
    };
    if class.meta.deletion_timestamp.is_some() {
        return is_false(reason::NODE_CLASS_TERMINATING, "NodeClass is Terminating");
    }
    match class.conditions.iter().find(|one| one.type_ == READY) {
        Some(ready) if ready.status == Status::True.name() => {
            (Status::True, nodepool::NODE_CLASS_READY.to_owned(), String::new())
        }
        Some(ready) if ready.status == Status::False.name() => is_false(&ready.reason, &ready.message),
        _ => is_false(reason::NODE_CLASS_READINESS_UNKNOWN, "Node Class Readiness Unknown"),
    }
}

/// Returns the condition NodeRegistrationHealthy. It is informational: it does not block launches.
fn registering(input: &PoolInput<'_>) -> (Status, &'static str, &'static str) {
    match input.outcomes.health(Edition::of(input.pool, input.class)) {
        Health::Healthy => (Status::True, nodepool::NODE_REGISTRATION_HEALTHY, ""),
        Health::Unhealthy => (Status::False, reason::REGISTRATION_FAILED, "Failed to register node"),
        Health::Unknown => (Status::Unknown, reason::AWAITING_RECONCILIATION, "object is awaiting reconciliation"),
    }
}

/// Status, reason and message of `ConsolidationDelivers`; none for a pool that has never rested.
fn delivering(input: &PoolInput<'_>, now: Timestamp) -> Option<(Status, &'static str, String)> {
    let resting = input.rest.filter(|rest| now < rest.until);
    if let Some(Rest { until, promised, delivered }) = resting {
        let message = format!(
            "the last commands promised to save {promised:.4} USD/h and saved {delivered:.4} USD/h: only empty nodes are consolidated until {until}"
        );
        return Some((Status::False, reason::SAVINGS_NOT_DELIVERED, message));
    }
    was_judged(input, nodepool::CONSOLIDATION_DELIVERS)
}

/// Status, reason and message of `LaunchesDeliver`; none for a pool whose launches were never held.
fn launching(input: &PoolInput<'_>, now: Timestamp) -> Option<(Status, &'static str, String)> {
    let Some(LaunchHold { until, sets, why }) = input.hold.filter(|hold| now < hold.until) else {
        return was_judged(input, nodepool::LAUNCHES_DELIVER);
    };
    let others = match sets - 1 {
        0 => String::new(),
        1 => " (and 1 other set of pods)".to_owned(),
        count => format!(" (and {count} other sets of pods)"),
    };
    let message = format!("{why}{others}; launches for it are held until {until}");
    Some((Status::False, reason::LAUNCHES_HELD, message))
}

/// Status, reason and message of `ReplicasKept`; none for a pool whose `replicas` were never ignored.
fn keeping(input: &PoolInput<'_>) -> Option<(Status, &'static str, String)> {
    let Some(replicas) = input.pool.spec.replicas.filter(|_| !input.keeps_replicas) else {
        return was_judged(input, nodepool::REPLICAS_KEPT);
    };
    let message = format!("`replicas: {replicas}` has no effect: the feature gate StaticCapacity is off");
    Some((Status::False, reason::FEATURE_GATE_OFF, message))
}

/// Status, reason and message of `BudgetsReadable`; none for a pool whose budgets could always be read.
fn budgets(input: &PoolInput<'_>) -> Option<(Status, &'static str, String)> {
    let schedules = input.pool.spec.disruption.budgets.iter().filter_map(|budget| budget.schedule.as_deref());
    let faults: Vec<String> = schedules
        .filter_map(|text| Some((text, Schedule::parse(text).err()?)))
        .map(|(text, error)| {
            format!("schedule `{text}` of a budget cannot be read ({error}), so the budget allows no disruption")
        })
        .take(NAMED)
        .collect();
    if faults.is_empty() {
        return was_judged(input, nodepool::BUDGETS_READABLE);
    }
    Some((Status::False, events::SCHEDULE_UNREADABLE, faults.join("; ")))
}

/// Returns the condition as true if the pool has it.
fn was_judged(input: &PoolInput<'_>, kind: &'static str) -> Option<(Status, &'static str, String)> {
    let mut conditions = input.pool.status.iter().flat_map(|status| &status.conditions);
    conditions.any(|one| one.type_ == kind).then(|| (Status::True, kind, String::new()))
}

/// The events about conditions that have become false, or are false for another cause.
pub(super) fn told(input: &PoolInput<'_>, status: &NodePoolStatus) -> Vec<Write> {
    let message_in = |status: &NodePoolStatus, kind: &str| {
        let mut found = status.conditions.iter().filter(|one| one.type_ == kind);
        found.find(|one| one.status == Status::False.name()).map(|one| one.message.clone())
    };
    let mut writes = Vec::new();
    for (kind, reason) in [
        (nodepool::CONSOLIDATION_DELIVERS, events::CONSOLIDATION_RESTS),
        (nodepool::BUDGETS_READABLE, events::SCHEDULE_UNREADABLE),
        (nodepool::REPLICAS_KEPT, events::REPLICAS_IGNORED),
    ] {
        let Some(message) = message_in(status, kind) else { continue };
        if input.pool.status.as_ref().and_then(|before| message_in(before, kind)).as_ref() == Some(&message) {
            continue;
        }
        let uid = input.pool.metadata.uid.clone().unwrap_or_default();
        let about = Subject { kind: "NodePool".to_owned(), namespace: None, name: input.name(), uid };
        writes.push(Write::Event(Event { about, kind: EventType::Warning, reason, message }));
    }
    writes
}
