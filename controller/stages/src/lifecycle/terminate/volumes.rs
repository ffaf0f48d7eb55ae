//! Detachment of volumes before the instance is terminated, so that a pod elsewhere need not wait for the cloud.

use jiff::Timestamp;
use muster_api::conditions::{nodeclaim, reason};

use super::deadline;
use super::drain::must_leave;
use crate::lifecycle::conditions::{Draft, Status, is_true};
use crate::lifecycle::register::name;
use crate::lifecycle::seen::Seen;
use crate::node::Node;
use crate::step::Step;

/// Waits while volumes are attached. Returns `None` when they are detached, or when the deadline has passed.
pub(super) fn detach(seen: &Seen<'_>, node: &Node, draft: &mut Draft<'_>, now: Timestamp) -> Option<Step> {
    if is_true(seen.claim, nodeclaim::VOLUMES_DETACHED) {
        return None;
    }
    let node_name = name(node);
    // Volumes of pods that stay are detached when the instance is gone.
    let stays = |volume: &str| {
        let mut residents = seen.residents.iter().filter(|one| one.node == node_name && !must_leave(one, now));
        residents.any(|one| !one.is_terminal && one.volumes.iter().any(|own| own == volume))
    };
    let here = seen.attachments.iter().filter(|one| one.node == node_name && !stays(&one.volume));
    let left: Vec<String> = here.map(|one| format!("`{}`", one.volume)).collect();
    if left.is_empty() {
        draft.set_true(nodeclaim::VOLUMES_DETACHED);
        return None;
    }
    let names = left.join(", ");
    let end = deadline(seen);
    if end.is_some_and(|end| now >= end) {
        let message = format!("left attached: {names}");
        draft.set(nodeclaim::VOLUMES_DETACHED, Status::False, reason::TERMINATION_GRACE_PERIOD_ELAPSED, &message);
        return None;
    }
    let message = format!("AwaitingVolumeDetachment: {names}");
    draft.set(nodeclaim::VOLUMES_DETACHED, Status::Unknown, reason::AWAITING_VOLUME_DETACHMENT, &message);
    Some(end.map_or_else(Step::rest, Step::until))
}
