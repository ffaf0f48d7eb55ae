//! The whole: EC2, metadata, a cluster, machines. What is launched joins, and is gone when EC2 says so.
//!
//! Needs of the world: root, for namespaces; moto; the programs of `tests/setup`.

#![expect(clippy::unwrap_used, clippy::panic, reason = "a test that cannot go on has failed")]

mod becomes;
mod fleet;
mod launch;

use std::time::Duration;

/// How long anything here may take. Seconds on an idle machine; this is for one that builds on all cores.
const MOST: Duration = Duration::from_secs(60);
