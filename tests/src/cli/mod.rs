//! The command line of `muster-tests`.
//!
//! ```text
//!  arguments ──► up ──────► parts ──► picture, kubeconfig ──► waits for Ctrl-C ──► close
//!            ├─► up --demo ──► Muster on examples/shop: pods, nodes, nothing
//!            ├─► up --check ► parts ──► one real use of each ──► table of times
//!            ├─► status, down ──► ledgers of this machine
//!            └─► doctor ──► what the machine lacks, and the command that mends it
//! ```
//!
//! Results go to stdout, progress to stderr. Exit codes as of `muster`: 0, 1 for "no", 2 for usage, 3 when the outside
//! world failed.

mod arguments;
mod check;
mod cloud;
mod demo;
mod doctor;
mod machines;
mod parts;
mod table;
mod up;
mod worlds;

use std::io::{self, Write};
use std::process::ExitCode;

use clap::Parser;

use self::arguments::{Arguments, Command, Format};
use crate::error::Error;
use crate::world;

/// The answer of a command.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Verdict {
    Yes,
    No,
}

/// Exit code of bad usage.
const USAGE: u8 = 2;

/// Runs `muster-tests`.
pub fn main() -> ExitCode {
    let command = match Arguments::try_parse() {
        Ok(Arguments { command }) => command,
        Err(error) => {
            // Help and version come this way too, with exit code 0.
            let _ = error.print();
            return ExitCode::from(u8::try_from(error.exit_code()).unwrap_or(USAGE));
        }
    };
    match run(command) {
        Ok(Verdict::Yes) => ExitCode::SUCCESS,
        Ok(Verdict::No) => ExitCode::from(1),
        Err(error) => {
            let _ = writeln!(io::stderr().lock(), "error: {error}");
            ExitCode::from(if error.is_usage() { USAGE } else { 3 })
        }
    }
}

fn run(command: Command) -> Result<Verdict, Error> {
    let mut out = io::stdout().lock();
    match command {
        Command::Up(arguments) => {
            let runtime = runtime()?;
            let format = arguments.output.resolve();
            if arguments.demo {
                runtime.block_on(demo::run(&mut out))
            } else if arguments.check {
                runtime.block_on(check::run(&mut out, format, arguments.repeat, arguments.machines))
            } else {
                runtime.block_on(up::run(&mut out, format, arguments.machines)).map(|()| Verdict::Yes)
            }
        }
        Command::Down(arguments) => worlds::down(&mut out, &arguments.worlds),
        Command::Status(arguments) => {
            let format = arguments.output.resolve();
            worlds::status(&mut out, format).map(|()| Verdict::Yes)
        }
        Command::Doctor(arguments) => doctor::run(&mut out, arguments.output.resolve()),
        Command::Daemon { owner } => runtime()?.block_on(world::serve(&owner)).map(|()| Verdict::Yes),
    }
}

fn runtime() -> Result<tokio::runtime::Runtime, Error> {
    Ok(tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build()?)
}

/// A line of progress for whoever waits.
fn progress(text: &str) {
    let _ = writeln!(io::stderr().lock(), "{text}");
}

/// Prints a value for programs.
fn print_json(out: &mut dyn Write, value: &serde_json::Value) -> Result<(), Error> {
    Ok(writeln!(out, "{value:#}")?)
}

impl Format {
    fn is_json(self) -> bool {
        self == Self::Json
    }
}
