//! That nothing of a world outlives it: not after SIGKILL at any moment, not of any kind of thing, not when two clean up
//! at once.
//!
//! Needs of the world: the control plane; root, for the things that only root can make.

#![expect(
    clippy::unwrap_used,
    clippy::print_stdout,
    reason = "a test that cannot go on has failed, and says how long it took"
)]

mod kill;
mod things;
