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

mod asked;
mod ground;
mod grpcurl;
mod kept;
mod life;
mod machines;
mod ordered;
mod rotation;
mod stolen;

use std::path::Path;
use std::time::Duration;

use muster_tests::replica::built;

/// How long anything here may take. Seconds on an idle machine; this is for one that builds on all cores.
const MOST: Duration = Duration::from_secs(240);

/// What the program says, which must succeed, with this kubeconfig and nothing else that it could find.
async fn muster(kubeconfig: &Path, arguments: &[&str]) -> String {
    let mut command = tokio::process::Command::new(built().unwrap());
    command.env_clear().env("KUBECONFIG", kubeconfig).args(arguments).kill_on_drop(true);
    let output = command.output().await.unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}
