//! A cloud in memory: virtual time, capacity that runs out, faults, interruptions, and a record of every call.
//!
//! ```text
//!   now ──► core (synchronous: what exists, what was asked, what is about to fail) ◄── Faults
//!             │                                                                    ◄── capacity, interruptions
//!             └──► Shared: the same behind a lock, with somebody's clock: implements Cloud
//! ```
//!
//! Same calls at the same moments, same answers. Nothing happens between calls: the state of an instance is computed from
//! when it was launched and when it was told to end.

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
