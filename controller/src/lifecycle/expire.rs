//! Nodes go when they are as old as their claim allows: at once and without a replacement first, as with Karpenter.

use jiff::Timestamp;
use muster_api::{Lifetime, events};
use muster_cloud::after;

use super::seen::Seen;
use crate::step::{EventType, Step};

pub(super) fn expire(seen: &Seen<'_>, now: Timestamp) -> Step {
    let Lifetime::After(age) = seen.claim.spec.expire_after else { return Step::rest() };
    let deadline = after(seen.created_at(), age);
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
