//! An undisturbed life, from any write of which disturbed ones go on: everything before that write is played once.
//!
//! A controller that is killed loses its memory. So a copy of the world at the write is enough to start the life in
//! which it is killed there. A conflict is met by a controller that goes on: such a life is played from the start.

use std::time::Duration;

use super::life::Life;

/// Single disturbance of a life.
#[derive(Debug, Clone, Copy)]
pub(super) enum Disturbance {
    /// The controller is killed, and back after a time.
    Kill { downtime: Duration },
    /// Another client changes every object just before a write.
    Conflict,
}

/// See the module.
pub(super) struct Rehearsal {
    start: Life,
    /// The undisturbed life at its end.
    pub(super) end: Life,
    /// Lives in which the controller has just been killed: before each write, and after the last one of each moment.
    /// After another write is before the next one of the same moment: nothing outside tells one from the other.
    killed: Vec<Life>,
    until: u64,
}

// === impl Rehearsal ===

impl Rehearsal {
    /// Plays until that second, with a controller that starts now.
    pub(super) fn of(life: &Life, until: u64) -> Self {
        let start = again(life, Duration::ZERO);
        let mut life = again(life, Duration::ZERO);
        let mut killed = Vec::new();
        loop {
            let before = life.world.writes;
            life.log_mut().copies = Some(Vec::new());
            life.settle();
            let copies = life.log_mut().copies.take().unwrap_or_default();
            killed.extend(copies.into_iter().map(|copy| life.killed_in(copy, Duration::ZERO)));
            if life.world.writes > before {
                killed.push(again(&life, Duration::ZERO));
            }
            if !life.proceed(until) {
                return Self { start, end: life, killed, until };
            }
        }
    }

    /// Returns the ends of the lives that are disturbed once, each at another write, with descriptions.
    pub(super) fn disturbed(&self, disturbance: Disturbance) -> Box<dyn Iterator<Item = (String, Life)> + '_> {
        match disturbance {
            Disturbance::Kill { downtime } => Box::new(self.killed.iter().map(move |life| {
                let mut life = again(life, downtime);
                let what = format!("killed after {} writes, and back after {downtime:?}", life.world.writes);
                life.run(self.until);
                (what, life)
            })),
            Disturbance::Conflict => Box::new((self.start.world.writes..self.end.world.writes).map(|number| {
                let mut life = again(&self.start, Duration::ZERO);
                life.log_mut().conflicts.insert(number);
                life.run(self.until);
                assert!(life.log_mut().conflicts.is_empty(), "write {number} is not reached");
                (format!("a conflict at write {number}"), life)
            })),
        }
    }
}

/// Returns the life that goes on from this one with a controller that was killed now.
fn again(life: &Life, downtime: Duration) -> Life {
    life.killed_in(life.world.clone(), downtime)
}
