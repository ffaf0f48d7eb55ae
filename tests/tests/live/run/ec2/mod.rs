//! `muster run --cloud aws` on a real control plane and the test EC2: the real kube-scheduler binds the pods, what EC2
//! launches becomes a Node that KWOK keeps alive.
//!
//! Needs of the world: moto too. `muster` must have been built with the feature `ec2`: `cargo test --workspace` does that first. Each
//! test has a control plane and an EC2 of its own.

mod alerts;
mod away;
mod classes;
mod controller;
mod crashes;
mod dashboards;
mod device_claims;
mod drift;
mod dry_run;
mod figures;
mod ground;
mod heard;
mod interruptions;
mod joining;
mod karpenter;
mod learned;
mod life;
mod machines;
mod partition;
mod queue;
mod reboots;
mod refused;
mod reservations;
mod squatted;
mod status;
mod taken_back;
mod takeover;
mod takeover_page;
mod terminate_first;
mod volumes;
mod zonal_shifts;
