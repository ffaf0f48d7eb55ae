//! Reboots of nodes, which repair asks for ([`crate::disruption`]), and which Karpenter may have begun. The node is
//! left alone until it is back: its capacity returns, so nothing is bought for it, and nothing takes it away.
//!
//! ```text
//!  Rebooting=True                                           Rebooting=True            Rebooting=False
//!  RebootRequested ─► taint ─► drain ─► boot ID ─► call ─► RebootIssued ─► boot ID ─► RebootSucceeded ─► initialize
//!        │                                           │           │         differs,
//!        │ unreadable request                  5 min │    20 min │         Ready
//!        ▼                                           ▼           ▼
//!  RebootFailed, the node stays                RebootFailed, the claim is deleted
//! ```
//!
//! A call that is repeated after a crash finds the boot ID of before the first one, and is not made if the node has
//! another by then. A cloud without reboots only watches what another controller has begun, for 30 minutes.

use std::time::Duration;

use jiff::Timestamp;
use k8s_openapi::api::core::v1::Taint;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use muster_api::conditions::{nodeclaim, reason};
use muster_api::{Span, annotations, events, labels, taints};
use muster_cloud::after;

use super::conditions::{Draft, Status, condition, true_since};
use super::initialize::{is_ready, readiness};
use super::register::{has_label, name, taints_of};
use super::seen::Seen;
use super::terminate::drain::{self, Bounds, Drain};
use crate::node::Node;
use crate::step::{Call, DeletionCause, EventType, MetaChange, NodeChange, Step, Write};

/// Time for which a node is left alone whose cloud has no reboots: longer than both of the following.
const WINDOW: Duration = Duration::from_secs(30 * 60);
/// Time within which the cloud must accept a reboot, from the first call: Karpenter's value.
const ACCEPTANCE: Duration = Duration::from_secs(5 * 60);
/// Time within which a node must be back, from the call: Karpenter's value.
const RECOVERY: Duration = Duration::from_secs(20 * 60);
/// Minimum time between request and call, so that pods being bound to the node are observed: Karpenter's value.
const SHORTEST: Duration = Duration::from_secs(5);
/// Shortest and longest wait between two calls. In between it equals the time since the first, so that it doubles.
const WAIT: (Duration, Duration) = (Duration::from_secs(1), Duration::from_secs(30));
/// Number of reboots whose times are kept.
const KEPT: usize = 5;
/// Longest drain of a node whose reboot has failed, if neither its policy nor its claim bounds it.
const FAILED_DRAIN: Duration = Duration::from_secs(10 * 60);

/// Reason of a failed reboot; its name is the first word of the condition's message, and a label of a metric.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Failure {
    /// The annotations of the request cannot be read.
    InvalidRequest,
    /// The cloud did not accept the call in time.
    ProviderError,
    /// The node did not come back in time.
    RecoveryTimeout,
}

impl Failure {
    const fn name(self) -> &'static str {
        match self {
            Self::InvalidRequest => "invalid_request",
            Self::ProviderError => "provider_error",
            Self::RecoveryTimeout => "recovery_timeout",
        }
    }
}

/// Result of a reboot after which the node is ready again, in metrics.
pub const SUCCEEDED: &str = "succeeded";

/// Returns the result of a reboot in metrics, by the reason and the message of the condition `Rebooting`.
#[must_use]
pub fn reboot_result(reason: &str, message: &str) -> &'static str {
    if reason == reason::REBOOT_SUCCEEDED {
        return SUCCEEDED;
    }
    let failures = [Failure::InvalidRequest, Failure::ProviderError];
    let told = failures.into_iter().find(|failure| message.starts_with(failure.name()));
    told.unwrap_or(Failure::RecoveryTimeout).name()
}

/// Returns true if the claim's node is being rebooted.
pub(super) fn is_rebooting(seen: &Seen<'_>) -> bool {
    true_since(seen.claim, nodeclaim::REBOOTING).is_some()
}

/// Returns the end of the claim's last reboot, from which the timeout of initialization counts.
pub(super) fn rebooted_at(seen: &Seen<'_>) -> Option<Timestamp> {
    let told = condition(seen.claim, nodeclaim::REBOOTING).filter(|told| told.status != Status::True.name());
    told.map(|told| told.last_transition_time.0)
}

/// Decides the next step of a reboot.
pub(super) fn reboot(seen: &Seen<'_>, now: Timestamp) -> Step {
    let told = condition(seen.claim, nodeclaim::REBOOTING).filter(|told| told.status == Status::True.name());
    match told {
        None => Step::rest(),
        Some(told) if !seen.class.reboots_instances => watch(seen, told, now),
        Some(told) if told.reason == reason::REBOOT_ISSUED => rejoin(seen, told, now),
        Some(told) => request(seen, told, now),
    }
}

/// Tidies up after a reboot: removes its annotations, or the node that it did not mend.
pub(super) fn tidy(seen: &Seen<'_>, now: Timestamp) -> Step {
    let ended = condition(seen.claim, nodeclaim::REBOOTING).filter(|told| told.status == Status::False.name());
    let Some(ended) = ended else { return Step::rest() };
    let of_failures = [Failure::ProviderError, Failure::RecoveryTimeout];
    let is_failed = ended.reason == reason::REBOOT_FAILED
        && of_failures.iter().any(|failure| ended.message.starts_with(failure.name()));
    if is_failed && seen.class.reboots_instances {
        if seen.paused().disruption {
            return Step::rest();
        }
        let own = seen.claim.spec.termination_grace_period.map_or(FAILED_DRAIN, |grace| grace.0);
        let grace = grace(seen).ok().flatten().map_or(own, |grace| grace.min(own));
        let key = annotations::NODECLAIM_TERMINATION_TIMESTAMP;
        let change = MetaChange::default().annotation(key, after(now, grace).to_string());
        let bounded = seen.annotation(key).is_none().then(|| Write::ClaimMeta { name: seen.name(), change });
        return Step::act(bounded.into_iter().chain([seen.delete(DeletionCause::Unhealthy)]));
    }
    // A request may have become unreadable while its node was drained.
    let tainted = node(seen).filter(|_| ended.reason == reason::REBOOT_FAILED);
    if let Some(write) = tainted.and_then(untainted) {
        return Step::act([write]);
    }
    let all = [annotations::REBOOT_PRE_BOOT_ID, annotations::REBOOT_TERMINATION_GRACE_PERIOD];
    let left: Vec<&str> = all.into_iter().filter(|key| seen.annotation(key).is_some()).collect();
    if left.is_empty() {
        return Step::rest();
    }
    let change = left.into_iter().fold(MetaChange::default(), MetaChange::without_annotation);
    Step::act([Write::ClaimMeta { name: seen.name(), change }])
}

/// Drains the node and has its instance rebooted.
fn request(seen: &Seen<'_>, told: &Condition, now: Timestamp) -> Step {
    if seen.paused().disruption {
        return Step::rest();
    }
    let requested_at = told.last_transition_time.0;
    let grace = match grace(seen) {
        Ok(grace) => grace,
        Err(text) => {
            let key = annotations::REBOOT_TERMINATION_GRACE_PERIOD;
            return fail(seen, Failure::InvalidRequest, &format!("`{text}` of {key} is not a duration"), now);
        }
    };
    let (Some(node), Some(id)) = (node(seen), seen.provider_id()) else {
        let deadline = after(requested_at, ACCEPTANCE);
        if now < deadline {
            return Step::until(deadline);
        }
        return fail(seen, Failure::ProviderError, "there is no Node to reboot", now);
    };
    if !taints_of(node).iter().any(|taint| taint.key == taints::REBOOTING) {
        let mut all: Vec<Taint> = taints_of(node).to_vec();
        all.push(taints::rebooting());
        let change = NodeChange { meta: MetaChange::default(), taints: Some(all) };
        return Step::act([Write::Node { name: name(node), change }]);
    }
    if seen.annotation(annotations::REBOOT_PRE_BOOT_ID).is_none() {
        let deadline = grace.map(|grace| after(requested_at, grace.max(SHORTEST)));
        let bounds = Bounds { started: requested_at, deadline };
        let is_over = deadline.is_some_and(|deadline| now >= deadline);
        return match drain::drain(seen, node, bounds, now).filter(|_| !is_over) {
            Some(drain) => await_drain(seen, told, drain, now),
            None => Step::act([note_attempt(seen, node, now)]),
        };
    }
    if has_another_boot(seen, node) {
        return issued(seen, node, told, now);
    }
    match &seen.answers.reboot {
        None => Step::act([Write::Cloud(Call::Reboot(id.to_owned()))]),
        Some(Ok(())) => issued(seen, node, told, now),
        Some(Err(error)) => {
            let first = attempts(seen).last().copied().unwrap_or(requested_at);
            let deadline = after(first, ACCEPTANCE);
            if now >= deadline {
                return fail(seen, Failure::ProviderError, &error.to_string(), now);
            }
            let lasted = Duration::try_from(now.duration_since(first)).unwrap_or_default();
            Step::until(after(now, lasted.clamp(WAIT.0, WAIT.1)).min(deadline))
        }
    }
}

/// Records the reason for which the drain waits in the condition's message.
fn await_drain(seen: &Seen<'_>, told: &Condition, drain: Drain, now: Timestamp) -> Step {
    let Drain { mut step, message } = drain;
    let Some(message) = message else { return step };
    let (first, _) = told.message.split_once("; ").unwrap_or((&told.message, ""));
    let is_blocked = message != drain::UNDER_WAY;
    let wanted = if is_blocked { format!("{first}; {message}") } else { first.to_owned() };
    if wanted != told.message {
        if is_blocked {
            step.writes.push(seen.event(EventType::Warning, events::FAILED_DRAINING, message));
        }
        let mut draft = Draft::of(seen, now);
        draft.set(nodeclaim::REBOOTING, Status::True, reason::REBOOT_REQUESTED, &wanted);
        step.writes.extend(draft.write());
    }
    step
}

/// Records the boot ID and the time before the first call.
fn note_attempt(seen: &Seen<'_>, node: &Node, now: Timestamp) -> Write {
    let mut times = attempts(seen);
    times.push(super::whole_seconds(now));
    let kept: Vec<String> = times.iter().skip(times.len().saturating_sub(KEPT)).map(ToString::to_string).collect();
    let change = MetaChange::default()
        .annotation(annotations::REBOOT_PRE_BOOT_ID, boot_id(node))
        .annotation(annotations::REBOOTS, kept.join(","));
    Write::ClaimMeta { name: seen.name(), change }
}

/// Records that the cloud has accepted the reboot: the node is initialized once more.
fn issued(seen: &Seen<'_>, node: &Node, told: &Condition, now: Timestamp) -> Step {
    let (first, _) = told.message.split_once("; ").unwrap_or((&told.message, ""));
    let mut draft = Draft::of(seen, now);
    draft.set(nodeclaim::REBOOTING, Status::True, reason::REBOOT_ISSUED, first);
    draft.set(nodeclaim::INITIALIZED, Status::Unknown, reason::REBOOTING, "the node is rebooting");
    Step::act(draft.write().into_iter().chain(uninitialized(node)))
}

/// Waits until the node is back with another boot ID.
fn rejoin(seen: &Seen<'_>, told: &Condition, now: Timestamp) -> Step {
    let initialized = condition(seen.claim, nodeclaim::INITIALIZED).filter(|one| one.status == Status::Unknown.name());
    let issued_at = initialized.map_or(told.last_transition_time.0, |one| one.last_transition_time.0);
    if let Some(node) = node(seen) {
        if let Some(write) = uninitialized(node) {
            return Step::act([write]);
        }
        let knows_boot = seen.annotation(annotations::REBOOT_PRE_BOOT_ID).is_some_and(|boot| !boot.is_empty());
        let has_rebooted = if knows_boot { has_another_boot(seen, node) } else { is_ready_since(node, issued_at) };
        if has_rebooted {
            if let Some(write) = untainted(node) {
                let message = format!("Node `{}` has booted anew", name(node));
                return Step::act([seen.event(EventType::Normal, events::REBOOT_OBSERVED, message), write]);
            }
            if is_ready(node) {
                return end(seen, reason::REBOOT_SUCCEEDED, "the node is ready again", now);
            }
        }
    }
    let deadline = after(issued_at, RECOVERY);
    if now < deadline {
        return Step::until(deadline);
    }
    fail(seen, Failure::RecoveryTimeout, &format!("the node was not back within {}", Span(RECOVERY)), now)
}

/// Watches a reboot that this cloud cannot make, and tells its end.
fn watch(seen: &Seen<'_>, told: &Condition, now: Timestamp) -> Step {
    let deadline = after(told.last_transition_time.0, WINDOW);
    let issued_at = condition(seen.claim, nodeclaim::INITIALIZED)
        .filter(|one| one.status == Status::Unknown.name() && told.reason == reason::REBOOT_ISSUED)
        .map(|one| one.last_transition_time.0);
    let is_back = node(seen).zip(issued_at).is_some_and(|(node, issued)| is_ready_since(node, issued));
    let (reason, message) = if is_back {
        (reason::REBOOT_SUCCEEDED, "the node is ready again".to_owned())
    } else if now < deadline {
        return Step::until(deadline);
    } else {
        (reason::REBOOT_FAILED, format!("the node was not ready again within {}", Span(WINDOW)))
    };
    let untainted = node(seen).and_then(untainted);
    let ended = end(seen, reason, &message, now);
    Step::act(untainted.into_iter().chain(ended.writes))
}

fn fail(seen: &Seen<'_>, failure: Failure, message: &str, now: Timestamp) -> Step {
    let message = format!("{}: {message}", failure.name());
    let event = seen.event(EventType::Warning, events::REBOOT_FAILED, message.clone());
    Step::act([event].into_iter().chain(end(seen, reason::REBOOT_FAILED, &message, now).writes))
}

fn end(seen: &Seen<'_>, reason: &str, message: &str, now: Timestamp) -> Step {
    let mut draft = Draft::of(seen, now);
    draft.set(nodeclaim::REBOOTING, Status::False, reason, message);
    Step::act(draft.write())
}

/// Returns the claim's Node, if there is exactly one.
fn node<'n>(seen: &Seen<'n>) -> Option<&'n Node> {
    match seen.nodes.as_slice() {
        [node] => Some(*node),
        _ => None,
    }
}

/// Returns the longest drain before the reboot; an error is the text that cannot be read.
fn grace<'s>(seen: &'s Seen<'_>) -> Result<Option<Duration>, &'s str> {
    let Some(text) = seen.annotation(annotations::REBOOT_TERMINATION_GRACE_PERIOD) else { return Ok(None) };
    text.parse::<Span>().map(|grace| Some(grace.0)).map_err(|_| text)
}

/// Returns the times of the first calls of the last reboots.
fn attempts(seen: &Seen<'_>) -> Vec<Timestamp> {
    let told = seen.annotation(annotations::REBOOTS).unwrap_or_default();
    told.split(',').filter_map(|time| time.trim().parse().ok()).collect()
}

fn boot_id(node: &Node) -> &str {
    let info = node.status.as_ref().and_then(|status| status.node_info.as_ref());
    info.map_or("", |info| info.boot_id.as_str())
}

/// Returns true if the Node reports another boot than before the reboot.
fn has_another_boot(seen: &Seen<'_>, node: &Node) -> bool {
    let before = seen.annotation(annotations::REBOOT_PRE_BOOT_ID).filter(|before| !before.is_empty());
    before.is_some_and(|before| !boot_id(node).is_empty() && boot_id(node) != before)
}

/// Returns true if the Node has become ready after `moment`.
fn is_ready_since(node: &Node, moment: Timestamp) -> bool {
    let ready = readiness(node).filter(|one| one.status == "True");
    ready.and_then(|one| one.last_transition_time.as_ref()).is_some_and(|since| since.0 > moment)
}

/// Removes the label of initialized nodes, if the Node has it.
fn uninitialized(node: &Node) -> Option<Write> {
    has_label(node, labels::INITIALIZED).then(|| {
        let mut meta = MetaChange::default();
        meta.labels.insert(labels::INITIALIZED.to_owned(), None);
        Write::Node { name: name(node), change: NodeChange { meta, taints: None } }
    })
}

/// Removes the taint of nodes that are being rebooted, if the Node has it.
fn untainted(node: &Node) -> Option<Write> {
    let mut kept = taints_of(node).to_vec();
    kept.retain(|taint| taint.key != taints::REBOOTING);
    let is_tainted = kept.len() < taints_of(node).len();
    is_tainted.then(|| {
        let change = NodeChange { meta: MetaChange::default(), taints: Some(kept) };
        Write::Node { name: name(node), change }
    })
}
