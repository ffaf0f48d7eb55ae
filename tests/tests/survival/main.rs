//! That nothing of a world outlives it: not after SIGKILL at any moment, not of any kind of thing, not when two clean up
//! at once.
//!
//! Needs of the world: the control plane; root, for the things that only root can make.

mod kill;
mod things;
