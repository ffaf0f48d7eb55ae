//! The link, whole: `muster run` serves agents, EC2 launches machines that boot, their agents prove who they are and say how they
//! are, and the controller does what follows.
//!
//! Needs of the world: root, for namespaces; moto; the programs of `tests/setup`; `muster-agent`, which `cargo test --workspace`
//! builds.

#![expect(
    clippy::panic,
    clippy::print_stdout,
    clippy::unwrap_used,
    reason = "a test that cannot go on has failed, and says what it saw"
)]

mod ground;
mod life;
mod machines;
mod rotation;
mod stolen;

use std::time::Duration;

/// How long anything here may take. Seconds on an idle machine; this is for one that builds on all cores.
const MOST: Duration = Duration::from_secs(240);
