//! Expiration of claims. A registered one is first left to [`crate::disruption`], which removes it once there is room
//! for its pods; an hour after its expiry it is deleted in any case, as Karpenter does.

use std::time::Duration;

use jiff::Timestamp;
use muster_api::conditions::nodeclaim;
use muster_api::{Lifetime, events};
use muster_cloud::after;

use super::conditions::is_true;
use super::seen::Seen;
use crate::step::{DeletionCause, EventType, Step};

/// Time for which an expired Node may wait for room for its pods, limited because audits rely on `expireAfter`.
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
    Step::act([
        seen.event(EventType::Normal, events::DISRUPTION_TERMINATING, message),
        seen.delete(DeletionCause::Expired),
    ])
}
