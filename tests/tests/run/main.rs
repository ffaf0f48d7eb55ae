//! `muster run --cloud kwok` on a real control plane: the real kube-scheduler binds the pods, the real KWOK brings the
//! nodes to life.
//!
//! Needs of the world: the control plane, KWOK. `muster` must have been built: `cargo test --workspace` does that first.
//! Each test has a control plane of its own: a controller acts on all of a cluster.

#![expect(
    clippy::unwrap_used,
    clippy::print_stdout,
    reason = "a test that cannot go on has failed, and says what it has measured"
)]

mod crashes;
mod disruption;
mod figures;
mod ground;
mod kwok;
mod life;
mod nominations;
mod replicas;
mod rights;
mod takeover;
