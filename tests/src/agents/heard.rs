//! What an agent has heard of its controller.

use muster_agent::link::News;
use tokio::time::Instant;

/// What an agent has heard of its controller, and when.
#[derive(Debug, Clone, Default)]
pub struct Heard {
    /// When its key was certified last.
    pub enrolled: Option<Instant>,
    /// When a stream of it was taken last.
    pub followed: Option<Instant>,
    /// When something that it said was kept last.
    pub kept: Option<Instant>,
    /// What went wrong last.
    pub fault: Option<String>,
    /// How often something went wrong for another reason than before.
    pub faults: usize,
}

impl Heard {
    pub(super) fn note(&mut self, news: &News<'_>) {
        let now = Some(Instant::now());
        match news {
            News::Enrolled => self.enrolled = now,
            News::Followed => self.followed = now,
            News::Kept(_) => self.kept = now,
            News::Failed(fault) => {
                self.fault = Some(fault.to_string());
                self.faults += 1;
            }
        }
    }

    /// Whether its stream was taken after this moment.
    pub fn has_followed_since(&self, moment: Instant) -> bool {
        self.followed.is_some_and(|at| at >= moment)
    }
}
