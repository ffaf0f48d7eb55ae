//! The program, started as its users start it.

use std::io::Write;
use std::path::Path;
use std::process::{Command, Output, Stdio};

/// `muster` with these arguments, without colour, its streams to be read.
pub(crate) fn command(arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_muster"));
    command.args(arguments).env("NO_COLOR", "1").stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    command
}

/// What `muster` says in `folder` when it is given `stdin`.
#[track_caller]
pub(crate) fn muster(arguments: &[&str], folder: &Path, stdin: &[u8]) -> Output {
    let mut child = command(arguments).current_dir(folder).stdin(Stdio::piped()).spawn().unwrap();
    // A command that does not read stdin closes it early.
    let _ = child.stdin.take().unwrap().write_all(stdin);
    child.wait_with_output().unwrap()
}
