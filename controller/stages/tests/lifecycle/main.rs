//! The life of NodeClaims from end to end, in memory and in virtual time.
//!
//! ```text
//!   nature (kubelets, drivers, budgets, people) ──► Api ◄── edge ──► decide, judge, collect   (the code under test)
//!        agenda of what happens when                 ▲       │ one write at a time; may be killed before or after each
//!                                                    └───────┴──► Memory (the cloud)
//! ```
//!
//! Nothing here waits: the clock goes to the next moment at which something happens, or at which a step wants to look
//! again. A step that forgets to say so hangs, and the test fails.

#![expect(clippy::unwrap_used, clippy::panic, reason = "a broken stage ends the test wherever it shows")]

mod api;
mod crashes;
mod disruptions;
mod edge;
mod faults;
mod orders;
mod reboots;
mod rehearsal;
mod stories;
mod world;
