//! Disruption, as pure decisions: from a command to the deletion of its claims, or to its rollback.
//!
//! ```text
//!   DisruptionInput ─► DisruptionPlanner ─► Command + NodeClaims ─► start: marks ─► replacements ─► taints
//!                      (chosen now, and 15 s later)                                    │
//!                                                                                      ▼
//!                                            ┌─ ObservedCommand: claims with the mark, and their replacements ◄─┐
//!                                            ▼                                                                   │
//!                       progress: wait until every replacement is initialized ─► delete the claims ─► lifecycle │
//!                                │                                              (drains and terminates)          │
//!                                └─ objection, failure, deadline: delete unused replacements, untaint, unmark ───┘
//!
//!                       cleanup: removes a taint without a mark
//!
//!   DisruptionInput ─► DisruptionPlanner ─► reboots: condition Rebooting ─► lifecycle (drains, reboots, and waits)
//! ```
//!
//! Between two writes a command exists in the API server only: each of its claims carries a [`Mark`] with the whole
//! state of the command, written before anything else and removed after everything else. So after any crash the next
//! leader either continues the command or rolls it back, with the same result as without the crash. A command without
//! launches is split into one command for each node, so that they do not wait for each other.
//!
//! Recently launched nodes are excluded from consolidation unless their load has fallen (`peak_load`), which makes
//! consolidation terminate.
//!
//! # Usage
//!
//! The caller (the event loop or the simulator) keeps one [`DisruptionPlanner`]:
//!
//! 1. Call [`DisruptionPlanner::turn`] with a fresh snapshot when [`PassSchedule`] is due, on a blocking thread.
//!    Violations found by the independent validator are reported, and the voluntary commands concerned are left out.
//!    Each command of the decision becomes an [`Order`], its launches NodeClaims, and [`start`] returns their first
//!    steps: [`CommandStarts`].
//! 2. Call [`progress`] for a command whenever a claim that [`running`] lists for it changes, or its Node or a pod
//!    there, and execute the whole step before the next call for this command.
//! 3. Call [`cleanup`] for every other claim from time to time.
//!
//! Later decisions treat marked nodes as being removed: they count against budgets, accept no pods, and their pods need
//! a place ([`muster_manifest::snapshot`]). So nothing is decided twice.

mod cleanup;
mod command_node;
mod command_start;
mod deadlines;
mod deletion_cost;
mod delivered_savings;
mod mark;
mod objection;
mod observed_command;
mod observed_instances;
mod pass_schedule;
mod peak_load;
mod planner;
mod progress;
mod reboots;
mod repair_events;
mod rollback;
mod start;
mod taint;

#[cfg(test)]
mod tests;

pub use cleanup::cleanup;
pub use command_node::CommandNode;
pub use command_start::{CommandStart, CommandStarts, Launches};
pub use deletion_cost::deletion_costs;
pub use delivered_savings::{Delivered, Rest};
pub use mark::{is_marked, mark_of};
pub use muster_manifest::snapshot::Mark;
pub(crate) use objection::paused;
pub use observed_command::{Candidate, ObservedCommand, Replacement, running};
pub use observed_instances::observed_instances;
pub use pass_schedule::PassSchedule;
pub use planner::{DisruptionPlanner, Timing, Turn};
pub use progress::progress;
pub use repair_events::repair_blocked;
pub use start::{FirstSteps, Leaver, Order, start};
