//! The control plane: that it is a real one, and that the parts of it that Muster relies on do what they do in production.
//!
//! Needs of the world: the control plane, KWOK.

#![expect(clippy::unwrap_used, clippy::panic, reason = "a test that cannot go on has failed")]

mod identities;
mod planes;
mod rules;
mod scale;
mod workloads;
