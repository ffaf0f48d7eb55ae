//! The world that Muster's tests run in: a real control plane and a real EC2 on one machine, and what tests
//! of them need.
//!
//! ```text
//!  tests/setup ──► programs ──┐   built once per user, pinned
//!                             ▼
//!  `up` ───────────► world ──► process ─┬► cluster: etcd, API server, scheduler, controllers, KWOK
//!                    ▲  │         │     └► ec2: moto, behind a proxy for each test
//!                    │  │         │                    ▲
//!  daemon, shared ───┘  ▼         ▼                    │ wait, leaks, snapshot
//!    ▲                ledger: what is about to be     case: one test, with its namespace, deadline and logs
//!    │                made, written down first; the    │
//!    │                next start removes what a        │
//!    │                dead owner left                  │
//!    └────────────────── join ─────────────────────────┘
//!
//!  instances: Site ──► machine: namespaces, systemd, containerd, kubelet, faults, devices
//!               └────► imds: 169.254.169.254, identity documents, role credentials, notices
//!  agents: nodes that are only their agents, ten thousand in one process; meter: what a controller takes;
//!  prometheus: what its metrics say to alerts and dashboards
//! ```
//!
//! Everything that a world makes outside of memory goes through [`ledger::Ledger`], so that a SIGKILL at any point is
//! survivable. All traffic stays on loopback or in network namespaces that the world made.

pub mod agents;
pub mod case;
pub mod cli;
pub mod cluster;
pub mod ec2;
mod error;
pub mod imds;
pub mod instances;
mod item;
pub mod leaks;
pub mod ledger;
mod lock;
pub mod machine;
pub mod meter;
pub mod process;
pub mod programs;
pub mod prometheus;
mod random;
pub mod replica;
pub mod snapshot;
pub mod wait;
pub mod world;

pub use case::{Case, Ground, OnSite, case, on_crowded_site_for, on_site, on_site_for};
pub use error::{Error, Result};
