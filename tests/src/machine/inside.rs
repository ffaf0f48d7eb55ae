//! Commands inside a running machine.

use std::ffi::OsStr;
use std::process::Output;

use tokio::process::Command;

use super::command;
use crate::error::Result;
use crate::ledger::ProcessId;

/// A short command that sees what the machine sees. A long one would keep the machine from ending: start it with
/// `systemd-run`.
pub(super) fn command_in<A: AsRef<OsStr>>(init: ProcessId, words: impl IntoIterator<Item = A>) -> Command {
    let mut command = Command::new("nsenter");
    command.arg("--all").arg(format!("--target={}", init.pid)).arg("--").args(words);
    command
        .env_clear()
        .env("PATH", "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin")
        .env("HOME", "/root");
    command
}

/// Runs it to its end with `input` and gives what it wrote, however it ended.
pub(super) async fn output<A: AsRef<OsStr>>(
    init: ProcessId,
    words: impl IntoIterator<Item = A>,
    input: &str,
) -> Result<Output> {
    command::output(&mut command_in(init, words), input).await
}

/// Runs it to its end, which must be a good one. Gives what it wrote to stdout.
pub(super) async fn run<A: AsRef<OsStr>>(
    init: ProcessId,
    words: impl IntoIterator<Item = A>,
    input: &str,
) -> Result<String> {
    let mut command = command_in(init, words);
    let output = command::output(&mut command, input).await?;
    if output.status.success() {
        return Ok(String::from_utf8_lossy(&output.stdout).into_owned());
    }
    Err(command::failure(&command, input, &output))
}
