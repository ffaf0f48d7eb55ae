//! How far a scheduler has come in its queue, as far as it shows.
//!
//! ```text
//!   joined        a  b  c  d  e  f
//!   seen tried       b     d            a and c have been tried too, and are behind
//!   tried next                e  f
//! ```
//!
//! kube-scheduler takes pods in the order in which they joined, the most important ones first. That one was tried shows if it gets
//! a node, a mark, or loses what it was told; tried a second time it may show nothing.

use std::cmp::Reverse;
use std::collections::BTreeMap;

use super::applicant::Applicant;

/// How far the default scheduler has come.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Queue {
    /// By priority, [`Applicant::queued`] of the last pod that was tried.
    tried: BTreeMap<i32, u64>,
}

/// When a pod is tried, compared with others: what is less is tried sooner.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Position {
    /// Whether others that joined after it have been tried: it has been, too, and is somewhere behind.
    pub is_passed: bool,
    /// Its priority.
    pub priority: Reverse<i32>,
    /// [`Applicant::queued`].
    pub queued: u64,
}

impl Position {
    /// That of nobody: behind all.
    pub const LAST: Self = Self { is_passed: true, priority: Reverse(i32::MIN), queued: u64::MAX };
}

impl Queue {
    /// Takes note that a pod was tried where it stood until now.
    pub fn note_tried(&mut self, before: &Applicant) {
        if before.is_of_default_scheduler {
            let last = self.tried.entry(before.priority).or_default();
            *last = before.queued.max(*last);
        }
    }

    /// Where a pod stands.
    #[must_use]
    pub fn position(&self, applicant: &Applicant) -> Position {
        let &Applicant { priority, queued, is_of_default_scheduler, .. } = applicant;
        let last = self.tried.get(&priority).filter(|_| is_of_default_scheduler);
        Position { is_passed: last.is_some_and(|last| queued < *last), priority: Reverse(priority), queued }
    }
}
