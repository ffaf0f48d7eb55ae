//! Detection of instances that ended unexpectedly: missing from the listing, and confirmed by a query for the instance.
//!
//! Karpenter checks registered nodes only, so it misses an instance that ends while it starts (a disk key that may not
//! be used, a limit of volumes) for 15 minutes. Here it is detected within seconds, with the cloud's reason: a new
//! instance without a Node is queried 5, 10, 20 and 40 seconds after its launch, and afterwards listings include it.

use std::time::Duration;

use jiff::Timestamp;
use muster_api::conditions::{nodeclaim, reason};
use muster_api::events;
use muster_cloud::{InstanceState, after};

use super::breaker;
use super::conditions::{Draft, Status, is_true, true_since};
use super::initialize::is_ready;
use super::seen::Seen;
use crate::step::{Call, DeletionCause, EventType, Step, Write};

/// Time for which a new instance may be missing from listings.
const LIST_LAG: Duration = Duration::from_secs(60);
/// Delay of the first query for a new instance. An instance that cannot start ends within seconds.
const FIRST_LOOK: Duration = Duration::from_secs(5);

pub(super) fn vanish(seen: &Seen<'_>, now: Timestamp) -> Step {
    let (Some(id), Some(launched_at)) = (seen.provider_id(), true_since(seen.claim, nodeclaim::LAUNCHED)) else {
        return Step::rest();
    };
    // A ready Node is better evidence than a listing.
    if seen.nodes.iter().any(|node| is_ready(node)) {
        return Step::rest();
    }
    let told_by = after(launched_at, LIST_LAG);
    let is_missing = seen.listing.is_some_and(|list| !list.has_instance && list.at >= told_by);
    let next = next_look(seen, launched_at, seen.listing.map_or(launched_at, |list| list.at));
    // A new leader has no listing yet, and requests one at once.
    let next = next.filter(|_| now < told_by);
    if !is_missing && next.is_none_or(|moment| now < moment) {
        return Step::rest().or_sooner(next);
    }
    let why = match &seen.answers.instance {
        None => return Step::act([Write::Cloud(Call::Get(id.to_owned()))]),
        Some(Ok(instance)) if instance.state == InstanceState::Terminated => instance.state_reason.as_deref(),
        Some(Err(error)) if error.is_not_found() && now >= told_by => None,
        Some(_) => return Step::rest().or_sooner(next_look(seen, launched_at, now)),
    };
    let message = format!("instance `{id}` has ended: {}", why.unwrap_or("the cloud does not know it any more"));
    let mut writes = Vec::new();
    let is_registered = is_true(seen.claim, nodeclaim::REGISTERED);
    // If the node has registered, its class is not to blame.
    if !is_registered {
        writes.extend(breaker::count(seen, reason::INSTANCE_ENDED, &message, now));
        let mut draft = Draft::of(seen, now);
        draft.set(nodeclaim::REGISTERED, Status::False, reason::INSTANCE_ENDED, &message);
        writes.extend(draft.write());
    }
    writes.push(seen.event(EventType::Warning, events::INSTANCE_ENDED, message));
    writes.push(seen.delete(DeletionCause::InstanceEnded));
    Step::act(writes)
}

/// Returns the time of the next query for an instance last observed at `last`: at twice its age then, until listings
/// include it or a Node exists.
fn next_look(seen: &Seen<'_>, launched_at: Timestamp, last: Timestamp) -> Option<Timestamp> {
    if is_true(seen.claim, nodeclaim::REGISTERED) || !seen.nodes.is_empty() {
        return None;
    }
    let last = last.max(launched_at);
    let age = Duration::try_from(last.duration_since(launched_at)).unwrap_or_default();
    let next = after(last, age.max(FIRST_LOOK));
    (next < after(launched_at, LIST_LAG)).then_some(next)
}
