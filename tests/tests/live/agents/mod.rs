//! Many agents and one controller: `muster run --agent-port` as people run it, a real API server, an emulated EC2, and nodes that
//! are only their agents.
//!
//! Needs of the world: moto; the programs of `tests/setup`; `muster`, which `cargo test --workspace` builds.

#![expect(
    clippy::panic,
    clippy::print_stdout,
    clippy::unwrap_used,
    reason = "a test that cannot go on has failed; figures are printed"
)]

mod client;
mod fifty;
mod ground;
mod liar;
mod scale;
mod strangers;

/// A fault that a node may have at any time: swap that its kubelet refuses.
const FAULT: &str = "KA17";
