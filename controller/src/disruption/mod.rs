//! The order of a disruption, as decisions: from a command to the moment at which its nodes are on their way out, or are as
//! they were before.
//!
//! ```text
//!   Estate ─► Deliberation ─► Command + NodeClaims ─► begin: mark ─► taint, condition ─► replacements
//!             (what is wanted      (15 s later,                            │
//!              at this moment)      still wanted)                          ▼
//!                                            ┌──────────── Look: who has the mark, what was launched for them ◄───┐
//!                                            ▼                                                                    │
//!                       advance: wait until every replacement is initialized ─► delete the claims ─► lifecycle    │
//!                                │                                              (which drains, and ends them)     │
//!                                └─ objection, failure, deadline: unused replacements go, untaint, unmark ────────┘
//!
//!                       stale: a taint that no mark explains is taken off
//! ```
//!
//! A command lives between two writes in the API server alone: each of its claims carries a [`Mark`] that says all there is
//! to know of it, written before anything else and removed after everything else. So whoever looks, after whatever crash,
//! either continues the command or takes it back, and both end where they would have ended undisturbed. A command that
//! launches nothing is as many commands as it has nodes: none of them waits for another.
//!
//! A NodePool whose commands do not save what they promised is left at rest for a while (`savings`).
//! Nodes that were launched lately are left alone by consolidation unless their load has fallen (`peak_load`): that is why it ends.
//!
//! # How it is driven
//!
//! Whoever drives it (the live loop, the simulator) keeps one [`Deliberation`]:
//!
//! 1. [`Deliberation::turn`] on a fresh snapshot, when [`Rhythm`] says so, off the threads that must not wait. What the
//!    independent validator says against it is reported, and voluntary commands that it concerns are left out. Each command of
//!    its decision becomes an [`Order`], its launches NodeClaims, and [`begin`] their first steps: [`Openings`].
//! 2. Whenever a claim that [`running`] names changes, or its Node or a pod there: [`advance`] on that command, and what comes
//!    of it carried out to its end before the command is looked at again.
//! 3. [`stale`] for every other claim, now and then.
//!
//! Nodes with a mark are on their way out for whoever decides next: they count against budgets, take no pods, and their pods
//! are among those that want a place ([`crate::snapshot`]), which is how nothing is decided twice.

mod advance;
mod begin;
mod deliberation;
mod home;
mod look;
mod mark;
mod objection;
mod opening;
mod patience;
mod peak_load;
mod rhythm;
mod rollback;
mod savings;
mod stale;

#[cfg(test)]
mod tests;

pub use advance::advance;
pub use begin::{Leaver, Order, begin};
pub use deliberation::{Deliberation, Tempo, Turn};
pub use home::Home;
pub use look::{Candidate, Look, Replacement, running};
pub use mark::{Mark, is_marked, mark_of};
pub use opening::{Launches, Opening, Openings};
pub use rhythm::Rhythm;
pub use savings::{Delivered, Rest};
pub use stale::stale;
