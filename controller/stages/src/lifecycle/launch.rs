//! Launch of the instance of a NodeClaim.
//!
//! ```text
//!   finalizer, attempt 1 ──► first choice of the alternatives ──► launch(token: UID.attempt)
//!           ▲                                                   │
//!           │ attempt + 1   (all refused: without those that    ├─► launched: labels, then status
//!           │                were refused, at once)             ├─► the request failed: later, same token
//!           └────────────── (else: later) ◄─────────────────────┘
//! ```
//! If too many launches are in flight, each is assigned a time and retries then.
//!
//! The attempt is written before the cloud is called, so that after a crash the same token is used and the same
//! instance is returned. The labels are written before the status, which marks the launch as complete.

use std::collections::BTreeMap;
use std::time::Duration;

use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::api::resource::Quantity;
use muster_api::conditions::{nodeclaim, reason};
use muster_api::devices::NETWORK_DRIVER;
use muster_api::{Operator, Quantities, annotations, events, labels};
use muster_cloud::{LaunchError, LaunchRequest, LaunchToken, Launched, Refusal, after, first_choice};

use super::breaker::{self, Breaker};
use super::conditions::{Draft, Status, condition, is_true};
use super::liveness::{is_delay, launch_deadline};
use super::seen::{Readiness, Seen};
use crate::step::{Call, DeletionCause, EventType, MetaChange, Step, Write};

/// Maximum number of attempts: each covers up to sixty instance types, and there are fewer than a thousand.
const MOST_ATTEMPTS: u32 = 20;
/// Shortest and longest wait after a failure. In between it equals the age of the claim, so that it doubles.
const WAIT: (Duration, Duration) = (Duration::from_secs(1), Duration::from_secs(30));

/// Adds the finalizer, launches the instance, and records it.
pub(crate) fn launch(seen: &Seen<'_>, now: Timestamp) -> Step {
    if is_true(seen.claim, nodeclaim::LAUNCHED) {
        return Step::rest();
    }
    let Some(attempt) = attempt(seen).filter(|_| has_finalizer(seen)) else { return begin(seen) };
    if let Some(answer) = &seen.answers.launch {
        return match answer {
            Ok(launched) => launched_as(seen, launched, now),
            Err(error) => failed(seen, error, attempt, now),
        };
    }
    match &seen.class.readiness {
        Readiness::Missing => return give_up(seen, events::NODE_CLASS_NOT_READY, "the NodeClass does not exist"),
        Readiness::Terminating => return give_up(seen, events::NODE_CLASS_NOT_READY, "the NodeClass is being deleted"),
        Readiness::NotReady(why) => return give_up(seen, events::NODE_CLASS_NOT_READY, why),
        Readiness::Unknown | Readiness::Ready => {}
    }
    if let Some((reason, message)) = obstacle(seen, now) {
        return Step::act(not_launched(seen, reason, &message, now).write());
    }
    if launch_deadline(seen).is_some_and(|deadline| deadline <= now) {
        return Step::rest();
    }
    if let Some(moment) = not_before(seen).filter(|moment| now < *moment) {
        return Step::until(moment);
    }
    let keeps_choice = seen.claim.spec.requirements.iter().any(|one| one.min_values.is_some());
    let alternatives = first_choice(seen.alternatives, keeps_choice);
    if alternatives.is_empty() || attempt > MOST_ATTEMPTS {
        let before = condition(seen.claim, nodeclaim::LAUNCHED).map(|one| one.message.as_str());
        let why = before.filter(|_| attempt > 1).unwrap_or("no instance type that fits the claim is available");
        return give_up(seen, events::INSUFFICIENT_CAPACITY_ERROR, why);
    }
    let spec = &seen.claim.spec;
    let request = LaunchRequest {
        token: LaunchToken { claim_uid: seen.uid(), attempt },
        claim: seen.name(),
        pool: pool_name(seen),
        class: spec.node_class_ref.clone(),
        alternatives,
        keeps_choice,
        labels: claim_labels(seen),
        taints: spec.taints.iter().chain(&spec.startup_taints).cloned().collect(),
        requests: spec.resources.requests.iter().map(|(name, amount)| (name.to_owned(), amount.0.clone())).collect(),
        has_network_devices: drivers(seen).any(|driver| driver == NETWORK_DRIVER),
        tags: BTreeMap::from([("karpenter.sh/nodeclaim".to_owned(), seen.name())]),
        overlaid: seen.overlaid.clone(),
    };
    Step::act([Write::Cloud(Call::Launch(Box::new(request)))])
}

/// Returns the DRA drivers of the devices that the pods of the claim take.
pub(super) fn drivers<'s>(seen: &'s Seen<'_>) -> impl Iterator<Item = &'s str> {
    let drivers = seen.annotation(annotations::REQUESTED_DRA_DRIVERS).unwrap_or_default();
    drivers.split(',').map(str::trim).filter(|driver| !driver.is_empty())
}

/// Returns the number of the current attempt, if one has begun.
pub(super) fn attempt(seen: &Seen<'_>) -> Option<u32> {
    seen.annotation(annotations::LAUNCH_ATTEMPT)?.parse().ok().filter(|attempt| *attempt > 0)
}

pub(super) fn has_finalizer(seen: &Seen<'_>) -> bool {
    let all = seen.claim.metadata.finalizers.as_deref().unwrap_or_default();
    all.iter().any(|one| one == annotations::TERMINATION_FINALIZER)
}

/// Returns the time of the next try after a failure at `now` of something that began at `start`.
pub(super) fn wait_since(start: Timestamp, now: Timestamp) -> Timestamp {
    let age = Duration::try_from(now.duration_since(start)).unwrap_or_default();
    after(now, age.clamp(WAIT.0, WAIT.1))
}

fn begin(seen: &Seen<'_>) -> Step {
    let mut finalizers = seen.claim.metadata.finalizers.clone().unwrap_or_default();
    if !has_finalizer(seen) {
        finalizers.push(annotations::TERMINATION_FINALIZER.to_owned());
    }
    let number = attempt(seen).unwrap_or(1);
    let change = MetaChange { finalizers: Some(finalizers), ..MetaChange::default() }
        .annotation(annotations::LAUNCH_ATTEMPT, number.to_string())
        .against(&seen.claim.metadata);
    Step::act([Write::ClaimMeta { name: seen.name(), change }])
}

/// Returns the reason and the message of the condition if the launch is blocked until the cluster, its class or an
/// operator's setting changes.
fn obstacle(seen: &Seen<'_>, now: Timestamp) -> Option<(&'static str, String)> {
    let class = &seen.class;
    let name = &class.reference.name;
    if seen.paused().launches {
        let message = format!("launches are paused by the annotation {}", annotations::PAUSE);
        return Some((reason::LAUNCHES_PAUSED, message));
    }
    if class.readiness == Readiness::Unknown {
        let message = format!("NodeClass `{name}` has not been validated yet");
        return Some((reason::NODE_CLASS_READINESS_UNKNOWN, message));
    }
    if let Some(fault) = &class.bootstrap_fault {
        return Some((reason::BOOTSTRAP_INVALID, fault.clone()));
    }
    match Breaker::of(class, now) {
        Breaker::Open { reason, message, until } => {
            Some((reason::LAUNCHES_STOPPED, breaker::stopped(name, &reason, &message, until)))
        }
        Breaker::HalfOpen { .. } | Breaker::Closed => None,
    }
}

fn not_before(seen: &Seen<'_>) -> Option<Timestamp> {
    seen.annotation(annotations::LAUNCH_NOT_BEFORE)?.parse().ok()
}

fn pool_name(seen: &Seen<'_>) -> Option<String> {
    seen.claim.metadata.labels.as_ref()?.get(labels::NODEPOOL).cloned()
}

/// Deletes the claim before it was launched; its pods are planned again.
fn give_up(seen: &Seen<'_>, event: &'static str, why: &str) -> Step {
    let is_of_capacity = event == events::INSUFFICIENT_CAPACITY_ERROR;
    let cause = if is_of_capacity { DeletionCause::InsufficientCapacity } else { DeletionCause::NodeClassNotReady };
    let message = format!("NodeClaim `{}` failed: {why}", seen.name());
    Step::act([seen.event(EventType::Warning, event, message), seen.delete(cause)])
}

/// Returns the labels of the claim, and of its requirements with a single value.
fn claim_labels(seen: &Seen<'_>) -> BTreeMap<String, String> {
    let spec = &seen.claim.spec;
    let single = spec.requirements.iter().filter(|one| one.operator == Operator::In && one.values.len() == 1);
    let mut all: BTreeMap<String, String> =
        single.filter_map(|one| Some((one.key.clone(), one.values.first()?.clone()))).collect();
    all.remove(labels::CAPACITY_RESERVATION_ID);
    all.remove(labels::CAPACITY_RESERVATION_TYPE);
    all.extend(seen.claim.metadata.labels.clone().unwrap_or_default());
    all
}

fn launched_as(seen: &Seen<'_>, launched: &Launched, now: Timestamp) -> Step {
    let instance = &launched.instance;
    let mut labels = claim_labels(seen);
    labels.extend(instance.labels.clone());
    let some = |(key, value): (String, String)| (key, Some(value));
    let change = MetaChange {
        labels: labels.into_iter().map(some).collect(),
        annotations: instance.annotations.clone().into_iter().map(some).collect(),
        ..MetaChange::default()
    }
    .without_annotation(annotations::LAUNCH_NOT_BEFORE)
    .against(&seen.claim.metadata);
    let mut draft = Draft::of(seen, now);
    // The cloud does not know the resources of NodeOverlays, which appear on the Node once its device plugin runs.
    let more = seen.overlaid.capacity.get(&instance.offering.instance_type);
    let quantities = |all: &BTreeMap<String, String>| -> Quantities {
        let all = all.iter().chain(more.into_iter().flatten());
        all.map(|(resource, amount)| (resource.clone(), Quantity(amount.clone()))).collect()
    };
    let status = draft.fields();
    status.provider_id = Some(instance.provider_id.clone());
    status.image_id.clone_from(&instance.image_id);
    status.capacity = quantities(&instance.capacity);
    status.allocatable = quantities(&instance.allocatable);
    draft.set_true(nodeclaim::LAUNCHED);
    let meta = (!change.is_empty()).then(|| Write::ClaimMeta { name: seen.name(), change });
    Step::act(meta.into_iter().chain(draft.write()))
}

fn failed(seen: &Seen<'_>, failed: &LaunchError, attempt: u32, now: Timestamp) -> Step {
    let error = &failed.error;
    if let Some(turn) = error.turn() {
        let draft = not_launched(seen, error.reason(), &error.to_string(), now);
        return Step::act(draft.write()).or_sooner(Some(after(now, turn)));
    }
    let reaction = error.reaction();
    let mut writes = Vec::new();
    if reaction.blames_class {
        writes.extend(breaker::count(seen, error.reason(), &error.to_string(), now));
    }
    let next = if failed.is_outcome { attempt.saturating_add(1) } else { attempt };
    let mut change = MetaChange::default().annotation(annotations::LAUNCH_ATTEMPT, next.to_string());
    change = if reaction.waits {
        change.annotation(annotations::LAUNCH_NOT_BEFORE, wait_since(seen.created_at(), now).to_string())
    } else {
        change.without_annotation(annotations::LAUNCH_NOT_BEFORE)
    };
    let change = change.against(&seen.claim.metadata);
    let draft = not_launched(seen, error.reason(), &error.to_string(), now);
    if draft.turns(nodeclaim::LAUNCHED) {
        writes.push(seen.event(EventType::Warning, events::LAUNCH_FAILED, error.to_string()));
        if error.refused().iter().any(|one| one.refusal == Refusal::SpotRole) {
            let message = "the service-linked role of spot is missing, and the controller may not create it";
            writes.push(seen.event(EventType::Warning, events::SPOT_SERVICE_LINKED_ROLE_CREATION_FAILURE, message));
        }
    }
    if !change.is_empty() {
        writes.push(Write::ClaimMeta { name: seen.name(), change });
    }
    writes.extend(draft.write());
    Step::act(writes)
}

/// Returns a draft with the reason why the claim has no instance yet.
fn not_launched<'a>(seen: &'a Seen<'a>, reason: &str, message: &str, now: Timestamp) -> Draft<'a> {
    let mut draft = Draft::of(seen, now);
    // The launch timeout begins at the last transition. A delay by rate limits does not count, so its end is one.
    if condition(seen.claim, nodeclaim::LAUNCHED).is_some_and(|before| is_delay(&before.reason)) && !is_delay(reason) {
        draft.fields().conditions.retain(|one| one.type_ != nodeclaim::LAUNCHED);
    }
    draft.set(nodeclaim::LAUNCHED, Status::Unknown, reason, message);
    draft
}
