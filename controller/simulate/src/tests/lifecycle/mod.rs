//! The life of NodeClaims from end to end, and the same life when the controller is killed, or meets a conflict, at any
//! of its writes.
//!
//! ```text
//!   Story ──► Life: World, Controller ──► WriteLog: diary, conflicts, a copy of the world before each write
//!               │                                                                 │
//!               └─► invariants, before each write, after each event               ▼
//!                                                     Rehearsal: the same story, killed there
//! ```
//!
//! People create the claims, as no NodePool exists: what is decided about pods and nodes has tests of its own.

mod crashes;
mod disruptions;
mod faults;
mod invariants;
mod life;
mod objects;
mod queries;
mod reboots;
mod rehearsal;
mod stories;
mod write_log;

pub(crate) use self::write_log::{WriteLog, log_write};
