//! The control plane: that it is a real one, and that the parts of it that Muster relies on do what they do in production.
//!
//! Needs of the world: the control plane, KWOK.

mod identities;
mod planes;
mod rules;
mod workloads;
