//! Short commands, run to their end.

use std::ffi::OsStr;
use std::process::{Output, Stdio};

use tokio::io::AsyncWriteExt;
use tokio::process::Command;

use crate::error::{Error, Result};

/// Runs a program that must succeed.
pub(super) async fn run<A: AsRef<OsStr>>(program: &str, arguments: impl IntoIterator<Item = A>) -> Result<()> {
    feed(program, arguments, "").await
}

/// Runs a program that reads `input` and must succeed.
pub(super) async fn feed<A: AsRef<OsStr>>(
    program: &str,
    arguments: impl IntoIterator<Item = A>,
    input: &str,
) -> Result<()> {
    let mut command = Command::new(program);
    command.args(arguments);
    let output = output(&mut command, input).await?;
    if output.status.success() {
        return Ok(());
    }
    Err(failure(&command, input, &output))
}

/// Runs a program to its end, whatever that is.
pub(super) async fn output(command: &mut Command, input: &str) -> Result<Output> {
    let mut child = command
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .kill_on_drop(true)
        .spawn()
        .map_err(|error| explain(command, &error))?;
    if let Some(mut stdin) = child.stdin.take() {
        // A program that does not read its input may be gone already: its exit status says the rest.
        let _unread = stdin.write_all(input.as_bytes()).await;
    }
    Ok(child.wait_with_output().await?)
}

/// What a program that failed said.
pub(super) fn failure(command: &Command, input: &str, output: &Output) -> Error {
    let said = String::from_utf8_lossy(if output.stderr.is_empty() { &output.stdout } else { &output.stderr });
    let asked = if input.is_empty() { String::new() } else { format!(" with\n{input}") };
    Error::Command { command: words(command) + &asked, answer: format!("{}: {}", output.status, said.trim_end()) }
}

fn explain(command: &Command, error: &std::io::Error) -> Error {
    if error.kind() == std::io::ErrorKind::NotFound {
        return Error::Missing {
            what: format!("`{}` is not installed", command.as_std().get_program().to_string_lossy()),
            hint: "run `tests/setup`".to_owned(),
        };
    }
    Error::Command { command: words(command), answer: error.to_string() }
}

fn words(command: &Command) -> String {
    let command = command.as_std();
    let mut words = vec![command.get_program().to_string_lossy()];
    words.extend(command.get_args().map(OsStr::to_string_lossy));
    words.join(" ")
}
