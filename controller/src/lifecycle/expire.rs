//! Claims go when they are as old as they may get. Where they have a Node, [`crate::disruption`] takes it away once there is
//! a place for its pods; what it has not taken an hour later goes at once, as with Karpenter.

use std::time::Duration;

use jiff::Timestamp;
use muster_api::conditions::nodeclaim;
use muster_api::{Lifetime, events};
use muster_cloud::after;

use super::conditions::is_true;
use super::seen::Seen;
use crate::step::{EventType, Step};

/// How long after its time a Node may wait for a place for its pods: an `expireAfter` is a promise to somebody who audits.
const OVERDUE: Duration = Duration::from_secs(60 * 60);

pub(super) fn expire(seen: &Seen<'_>, now: Timestamp) -> Step {
    let Lifetime::After(age) = seen.claim.spec.expire_after else { return Step::rest() };
    let patience = if is_true(seen.claim, nodeclaim::REGISTERED) { OVERDUE } else { Duration::ZERO };
    let deadline = after(after(seen.created_at(), age), patience);
    if now < deadline {
        return Step::until(deadline);
    }
    if seen.paused().disruption {
        return Step::rest();
    }
    let message =
        format!("NodeClaim `{}` is older than its expireAfter of {}", seen.name(), seen.claim.spec.expire_after);
    Step::act([seen.event(EventType::Normal, events::DISRUPTION_TERMINATING, message), seen.delete("expired")])
}
