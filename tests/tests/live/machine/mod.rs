//! Machines boot, become the nodes that they stand for, suffer what a test does to them, and leave nothing behind.
//!
//! Needs of the world: root, for namespaces; the programs of `tests/setup`.

#![expect(
    clippy::unwrap_used,
    clippy::panic,
    clippy::print_stdout,
    reason = "a test that cannot go on has failed, and says how long it took"
)]

mod bare;
mod custom;
mod killed;
mod many;
mod metadata;
mod node;
mod wrong;

use std::time::Duration;

/// How long anything here may take. Seconds on an idle machine; this is for one that builds on all cores.
const MOST: Duration = Duration::from_secs(60);
