//! Timeouts of a claim, with messages that contain the observed state.
//!
//! | from | to | at most |
//! |---|---|---|
//! | first try, or obstacle | launched | 5 min |
//! | launched | registered | 15 min |
//! | registered | initialized | 15 min, or as annotated on the NodePool |
//!
//! The first two are Karpenter's. Karpenter has no third: a node whose startup taint stays causes cost until an
//! operator notices.

use std::time::Duration;

use jiff::Timestamp;
use muster_api::conditions::{nodeclaim, reason};
use muster_api::{Lifetime, annotations, events};
use muster_bootstrap::secrets;
use muster_cloud::after;

use super::breaker;
use super::conditions::{Draft, Status, condition, is_true, true_since};
use super::register::name;
use super::seen::Seen;
use super::{launch, reboot};
use crate::node::Node;
use crate::step::{Call, DeletionCause, EventType, Step, Write};

/// Timeout of a launch, from the first reconciliation that did not launch the instance: Karpenter's value.
pub const LAUNCH_TIMEOUT: Duration = Duration::from_secs(5 * 60);
/// Timeout from launch to registration of the Node: Karpenter's value.
pub const REGISTRATION_TIMEOUT: Duration = Duration::from_secs(15 * 60);
/// Default timeout from registration to initialization, unless the NodePool sets another.
pub const INITIALIZATION_TIMEOUT: Duration = Duration::from_secs(15 * 60);

/// Number of console lines quoted in a message.
const CONSOLE_LINES: usize = 5;

pub(super) fn liveness(seen: &Seen<'_>, now: Timestamp) -> Step {
    if is_true(seen.claim, nodeclaim::INITIALIZED) {
        return Step::rest();
    }
    let Some(launched_at) = true_since(seen.claim, nodeclaim::LAUNCHED) else {
        return match launch_deadline(seen) {
            None => Step::rest(),
            Some(deadline) if now < deadline => Step::until(deadline),
            Some(_) => end_launch(seen, now),
        };
    };
    let Some(registered_at) = true_since(seen.claim, nodeclaim::REGISTERED) else {
        let deadline = after(launched_at, REGISTRATION_TIMEOUT);
        return if now < deadline { Step::until(deadline) } else { end_registration(seen, now) };
    };
    match initialization_timeout(seen) {
        Lifetime::Never => Step::rest(),
        Lifetime::After(timeout) => {
            // After a reboot a node is initialized once more.
            let since = reboot::rebooted_at(seen).unwrap_or(registered_at).max(registered_at);
            let deadline = after(since, timeout);
            if now < deadline { Step::until(deadline) } else { end_initialization(seen, timeout, now) }
        }
    }
}

/// Returns the deadline of the launch; `None` before the first try: among a thousand claims the last ones wait for
/// their turn, which is not a failure. The same holds for claims delayed by the cloud's rate limits: a new claim would
/// queue behind the others. The first result after such a delay counts as the first try. A blocked launch (pause,
/// breaker) times out like a failing one, so that its pods can use other pools.
pub(super) fn launch_deadline(seen: &Seen<'_>) -> Option<Timestamp> {
    let tried = condition(seen.claim, nodeclaim::LAUNCHED)?;
    (!is_delay(&tried.reason)).then(|| after(tried.last_transition_time.0, LAUNCH_TIMEOUT))
}

/// Returns true if the reason of `Launched` is a delay by the cloud's rate limits.
pub(super) fn is_delay(reason: &str) -> bool {
    [reason::REQUEST_LIMIT_EXCEEDED, reason::REQUEST_QUEUED].contains(&reason)
}

/// Returns the timeout in the annotation of the NodePool, if it is valid. Nodes launched by another program have no
/// timeout by default: after a migration, nodes that have been running for months must not be terminated.
fn initialization_timeout(seen: &Seen<'_>) -> Lifetime {
    let annotations = seen.pool.and_then(|pool| pool.metadata.annotations.as_ref());
    let said = annotations.and_then(|all| all.get(annotations::INITIALIZATION_TIMEOUT));
    let default =
        if launch::attempt(seen).is_some() { Lifetime::After(INITIALIZATION_TIMEOUT) } else { Lifetime::Never };
    said.and_then(|text| text.parse().ok()).unwrap_or(default)
}

fn end_launch(seen: &Seen<'_>, now: Timestamp) -> Step {
    let observed = condition(seen.claim, nodeclaim::LAUNCHED).filter(|one| !one.message.is_empty());
    let observed = observed.map_or_else(String::new, |one| format!("; last: {}: {}", one.reason, one.message));
    let message = format!("not launched within {}{observed}", muster_api::Span(LAUNCH_TIMEOUT));
    end(seen, Timeout::LAUNCH, &message, None, now)
}

fn end_registration(seen: &Seen<'_>, now: Timestamp) -> Step {
    let Some(id) = seen.provider_id() else {
        return end(seen, Timeout::REGISTRATION, "no instance is known", None, now);
    };
    let answers = &seen.answers;
    if answers.instance.is_none() {
        return Step::act([Write::Cloud(Call::Get(id.to_owned()))]);
    }
    if answers.console.is_none() {
        return Step::act([Write::Cloud(Call::Console(id.to_owned()))]);
    }
    let mut message = format!("no Node registered within {} of the launch", muster_api::Span(REGISTRATION_TIMEOUT));
    message += &match &answers.instance {
        Some(Ok(instance)) => {
            let why = instance.state_reason.as_ref().map_or_else(String::new, |why| format!(" ({why})"));
            format!("; instance `{id}` is {}{why}", instance.state)
        }
        Some(Err(error)) if error.is_not_found() => format!("; instance `{id}` does not exist"),
        Some(Err(error)) => format!("; instance `{id}` could not be queried: {error}"),
        None => String::new(),
    };
    if let [_, _, ..] = seen.nodes.as_slice() {
        let names: Vec<String> = seen.nodes.iter().map(|node| format!("`{}`", name(node))).collect();
        message += &format!("; several Nodes have its provider ID: {}", names.join(", "));
    }
    for node in &seen.namesakes {
        message += &format!("; {}", other_identity(node));
    }
    if let Some(hold) = seen.registration_hold {
        message += &format!("; held back: {hold}");
    }
    if let Some(Ok(Some(console))) = &answers.console {
        let lines: Vec<&str> = console.lines().map(str::trim).filter(|line| !line.is_empty()).collect();
        let last: Vec<String> =
            lines.iter().skip(lines.len().saturating_sub(CONSOLE_LINES)).map(|line| secrets::clean(line)).collect();
        if !last.is_empty() {
            message += &format!("; its console ends with: {}", last.join(" / "));
        }
    }
    end(seen, Timeout::REGISTRATION, &message, Some(reason::REGISTRATION_TIMEOUT), now)
}

fn other_identity(node: &Node) -> String {
    let id = node.spec.as_ref().and_then(|spec| spec.provider_id.as_deref()).filter(|id| !id.is_empty());
    id.map_or_else(
        || format!("Node `{}` has its name but no provider ID", name(node)),
        |id| format!("Node `{}` has its name but provider ID `{id}`", name(node)),
    )
}

fn end_initialization(seen: &Seen<'_>, timeout: Duration, now: Timestamp) -> Step {
    let pending = condition(seen.claim, nodeclaim::INITIALIZED);
    let observed = pending.map_or("nothing", |one| one.message.as_str());
    let message = format!("not initialized within {} of its registration: {observed}", muster_api::Span(timeout));
    let blame = pending.map_or(reason::INITIALIZATION_TIMEOUT, |one| one.reason.as_str());
    end(seen, Timeout::INITIALIZATION, &message, Some(blame), now)
}

/// A timeout, with its names.
struct Timeout {
    condition: &'static str,
    reason: &'static str,
    event: &'static str,
    cause: DeletionCause,
}

impl Timeout {
    const LAUNCH: Self = Self {
        condition: nodeclaim::LAUNCHED,
        reason: reason::LAUNCH_TIMEOUT,
        event: events::LAUNCH_TIMEOUT,
        cause: DeletionCause::LaunchTimeout,
    };
    const REGISTRATION: Self = Self {
        condition: nodeclaim::REGISTERED,
        reason: reason::REGISTRATION_TIMEOUT,
        event: events::REGISTRATION_TIMEOUT,
        cause: DeletionCause::RegistrationTimeout,
    };
    const INITIALIZATION: Self = Self {
        condition: nodeclaim::INITIALIZED,
        reason: reason::INITIALIZATION_TIMEOUT,
        event: events::INITIALIZATION_TIMEOUT,
        cause: DeletionCause::InitializationTimeout,
    };
}

/// Counts the failure against the class, publishes it, and deletes the claim.
fn end(seen: &Seen<'_>, timeout: Timeout, message: &str, blame: Option<&str>, now: Timestamp) -> Step {
    let mut writes: Vec<Write> =
        blame.and_then(|blame| breaker::count(seen, blame, message, now)).into_iter().collect();
    let mut draft = Draft::of(seen, now);
    draft.set(timeout.condition, Status::False, timeout.reason, message);
    writes.push(seen.event(EventType::Warning, timeout.event, message));
    writes.extend(draft.write());
    writes.push(seen.delete(timeout.cause));
    Step::act(writes)
}
