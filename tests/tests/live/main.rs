//! Tests on real servers: control planes, an emulated EC2, machines that boot.
//!
//! ```text
//!  cluster, ec2 ──► what the rest stands on: the control plane, the emulated EC2
//!  machine, devices, world ──► machines, alone and as instances; survival ──► what a killed world leaves
//!  agent, agents, link ──► muster-agent on machines, by the hundred, and with its controller
//!  aws, controller, run ──► muster: its EC2 calls, its commands, the loop on KWOK and on EC2
//! ```
//!
//! One program, since each would link the whole world: `cargo test --workspace --test live -- agent::` runs one part.

// Futures of a whole controller are nested deeply.
#![recursion_limit = "256"]

mod agent;
mod agents;
mod aws;
mod cluster;
mod controller;
mod devices;
mod ec2;
mod link;
mod machine;
mod run;
mod survival;
mod world;
