//! `muster run` on a real control plane: the real kube-scheduler binds the pods, the real KWOK brings the nodes to life; in `ec2`, those
//! that an emulated EC2 launches. One program for both clouds: the tests of one wait while those of the other work.
//!
//! Needs of the world: the control plane, KWOK. `muster` must have been built: `cargo test --workspace` does that first.
//! Each test has a control plane of its own: a controller acts on all of a cluster.

#![expect(
    clippy::unwrap_used,
    clippy::panic,
    clippy::print_stdout,
    reason = "a test that cannot go on has failed, and says what it has measured"
)]

mod buffers;
mod crashes;
mod deletion_costs;
mod disruption;
mod ec2;
mod ending;
mod figures;
mod ground;
mod hostile;
mod kwok;
mod life;
mod metrics;
mod moments;
mod nominations;
mod overlays;
mod recorded;
mod repair;
mod replicas;
mod rest;
mod rights;
mod runaway;
mod scheduler;
mod spread;
mod static_pools;
mod takeover;
mod told;
mod traces;
