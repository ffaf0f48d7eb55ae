//! Termination of the instance, including its confirmation.

use std::time::Duration;

use jiff::Timestamp;
use muster_api::conditions::nodeclaim;
use muster_cloud::{CloudError, InstanceState, after};

use crate::lifecycle::conditions::{Draft, Status, condition};
use crate::lifecycle::launch;
use crate::lifecycle::seen::Seen;
use crate::step::{Call, Step, Write};

/// Interval between checks of a terminating instance: Karpenter's value.
pub(super) const LOOK: Duration = Duration::from_secs(5);

/// Existence of the instance.
pub(super) enum Existence {
    /// Unknown; this call queries it.
    Ask(Write),
    /// It does not exist or is terminated.
    Gone,
    /// It exists, or its state is unknown.
    There,
}

/// Returns the state of the claim's instance.
pub(super) fn is_gone(seen: &Seen<'_>) -> Existence {
    match &seen.answers.instance {
        Some(Ok(instance)) if instance.state == InstanceState::Terminated => return Existence::Gone,
        Some(Err(error)) if error.is_not_found() => return Existence::Gone,
        Some(_) => return Existence::There,
        None => {}
    }
    // A claim without a provider ID may still have an instance, if the controller stopped between the launch and the
    // status update.
    match (seen.provider_id(), launch::attempt(seen)) {
        (Some(id), _) => Existence::Ask(Write::Cloud(Call::Get(id.to_owned()))),
        (None, Some(_)) => Existence::Ask(Write::Cloud(Call::Find(seen.uid()))),
        (None, None) => Existence::Gone,
    }
}

/// Terminates the instance; returns `afterwards` when it is gone.
pub(super) fn end(seen: &Seen<'_>, now: Timestamp, afterwards: Vec<Write>) -> Step {
    match is_gone(seen) {
        Existence::Ask(question) => return Step::act([question]),
        Existence::Gone => return Step::act(afterwards),
        Existence::There => {}
    }
    let again = after(now, LOOK);
    let instance = match &seen.answers.instance {
        Some(Ok(instance)) => instance,
        Some(Err(error)) => return refused(seen, error, now, again),
        None => return Step::until(again),
    };
    if instance.state != InstanceState::ShuttingDown {
        match &seen.answers.terminate {
            None => return Step::act([Write::Cloud(Call::Terminate(instance.provider_id.clone()))]),
            Some(Err(error)) if error.is_not_found() => return Step::act(afterwards),
            Some(Err(error)) => return refused(seen, error, now, again),
            Some(Ok(())) => {}
        }
    }
    let mut draft = Draft::of(seen, now);
    draft.set_true(nodeclaim::INSTANCE_TERMINATING);
    Step { writes: draft.write().into_iter().collect(), again: Some(again) }
}

/// Records a failed query or termination in the condition, and retries.
fn refused(seen: &Seen<'_>, error: &CloudError, now: Timestamp, again: Timestamp) -> Step {
    let mut draft = Draft::of(seen, now);
    let kind = nodeclaim::INSTANCE_TERMINATING;
    // A failed query does not change the condition of an instance that is known to be terminating.
    if condition(seen.claim, kind).is_none_or(|one| one.status != Status::True.name()) {
        draft.set(kind, Status::Unknown, error.reason(), &error.to_string());
    }
    Step { writes: draft.write().into_iter().collect(), again: Some(again) }
}
