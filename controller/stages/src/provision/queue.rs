//! Progress of kube-scheduler in its queue, as far as it can be observed.
//!
//! ```text
//!   joined           a  b  c  d  e  f
//!   observed tried      b     d            a and c have been tried too, and are at the end
//!   tried next                   e  f
//! ```
//!
//! kube-scheduler takes pods by priority, and then in the order in which they joined. A try is visible if the pod is
//! bound, is marked unschedulable, or loses its nomination; a second try may not be visible.

use std::cmp::Reverse;
use std::collections::BTreeMap;

use super::pending_pod::PendingPod;

/// Progress of the default scheduler.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Queue {
    /// [`PendingPod::queued`] of the last pod that was tried, by priority.
    tried: BTreeMap<i32, u64>,
}

/// Position of a pod in the order of tries: a smaller one is tried earlier.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Position {
    /// True if pods that joined later have been tried: the pod has been tried too, and is somewhere at the end.
    pub is_passed: bool,
    /// Its priority.
    pub priority: Reverse<i32>,
    /// [`PendingPod::queued`].
    pub queued: u64,
}

impl Position {
    /// The last position, after all pods.
    pub const LAST: Self = Self { is_passed: true, priority: Reverse(i32::MIN), queued: u64::MAX };
}

impl Queue {
    /// Records that a pod was tried at its position until now.
    pub fn note_tried(&mut self, before: &PendingPod) {
        if before.is_of_default_scheduler {
            let last = self.tried.entry(before.priority).or_default();
            *last = before.queued.max(*last);
        }
    }

    /// Returns the position of a pod.
    #[must_use]
    pub fn position(&self, pending_pod: &PendingPod) -> Position {
        let &PendingPod { priority, queued, is_of_default_scheduler, .. } = pending_pod;
        let last = self.tried.get(&priority).filter(|_| is_of_default_scheduler);
        Position { is_passed: last.is_some_and(|last| queued < *last), priority: Reverse(priority), queued }
    }
}
