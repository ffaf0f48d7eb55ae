//! `muster` against a real API server.
//!
//! Needs of the world: the control plane, KWOK. `muster` must have been built: `cargo test --workspace` does that first.

#![expect(clippy::unwrap_used, clippy::panic, reason = "a test that cannot go on has failed")]

mod charts;
mod following;
mod getting_started;
mod meddler;
mod monitoring;
mod reading;

use std::path::Path;

use muster_tests::replica::built;

/// What a run of `muster` came to.
#[derive(Debug)]
struct Outcome {
    code: i32,
    stdout: String,
    stderr: String,
}

/// Runs `muster` with a kubeconfig.
async fn muster(kubeconfig: &Path, arguments: &[&str]) -> Outcome {
    let mut command = tokio::process::Command::new(built().unwrap());
    // No credentials, no proxies, no home: what it finds is what it was given.
    command.env_clear().env("KUBECONFIG", kubeconfig).args(arguments).kill_on_drop(true);
    let output = command.output().await.unwrap();
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
    Outcome { code: output.status.code().unwrap(), stdout: text(output.stdout), stderr: text(output.stderr) }
}
