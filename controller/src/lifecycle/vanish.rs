//! Claims whose instance has ended without being asked to: the list no longer has it, a second look confirms it.
//!
//! Karpenter looks at registered nodes only; an instance that ends while it starts (a disk key that may not be used, a
//! limit of volumes) is missed for 15 minutes. Here it is seen with the next list, with the cloud's own reason.

use std::time::Duration;

use jiff::Timestamp;
use muster_api::conditions::{nodeclaim, reason};
use muster_api::events;
use muster_cloud::{InstanceState, after};

use super::breaker;
use super::conditions::{Draft, Status, is_true, true_since};
use super::initialize::is_ready;
use super::seen::Seen;
use crate::step::{Call, EventType, Step, Write};

/// How long a new instance may be missing from lists.
const LIST_LAG: Duration = Duration::from_secs(60);

pub(super) fn vanish(seen: &Seen<'_>, now: Timestamp) -> Step {
    let (Some(id), Some(launched_at)) = (seen.provider_id(), true_since(seen.claim, nodeclaim::LAUNCHED)) else {
        return Step::rest();
    };
    let is_missing = seen.listing.is_some_and(|list| !list.has_instance && list.at >= after(launched_at, LIST_LAG));
    // A kubelet that reports is better evidence than a list.
    if !is_missing || seen.nodes.iter().any(|node| is_ready(node)) {
        return Step::rest();
    }
    let why = match &seen.answers.instance {
        None => return Step::act([Write::Cloud(Call::Get(id.to_owned()))]),
        Some(Ok(instance)) if instance.state == InstanceState::Terminated => instance.state_reason.as_deref(),
        Some(Err(error)) if error.is_not_found() => None,
        Some(_) => return Step::rest(),
    };
    let message = format!("instance `{id}` has ended: {}", why.unwrap_or("the cloud does not know it any more"));
    let mut writes = Vec::new();
    let is_registered = is_true(seen.claim, nodeclaim::REGISTERED);
    // A node that has served is not its class's fault, whatever became of it.
    if !is_registered {
        writes.extend(breaker::count(seen, reason::INSTANCE_ENDED, &message, now));
        let mut draft = Draft::of(seen, now);
        draft.set(nodeclaim::REGISTERED, Status::False, reason::INSTANCE_ENDED, &message);
        writes.extend(draft.write());
    }
    writes.push(seen.event(EventType::Warning, events::INSTANCE_ENDED, message));
    writes.push(seen.delete("instance_ended"));
    Step::act(writes)
}
