//! In-memory cloud: virtual time, limited capacity, faults, interruptions, and a record of every call.
//!
//! ```text
//!   now ──► core (synchronous: instances, recorded calls, queued faults) ◄── Faults
//!             │                                                          ◄── capacity, interruptions
//!             └──► Shared: the same behind a mutex, with the clock of its creator: implements Cloud
//! ```
//!
//! The same calls at the same times return the same results. Nothing happens between calls: the state of an instance is
//! computed from its launch time and the time of its termination.

mod core;
mod faults;
mod record;
mod shared;
#[cfg(test)]
mod tests;

pub use self::core::{Latencies, Memory};
pub use self::faults::{Fault, Faults};
pub use self::record::{Call, CallRecord, Operation};
pub use self::shared::Shared;
