//! Entry point: wires process, environment, terminal, arguments and commands.

use std::io::{self, BufWriter, IsTerminal, Write};
use std::process::ExitCode;

use clap::Parser;
use clap::error::ErrorKind;

use super::arguments::{Arguments, Command, OutputFormat, ValidateArguments};
use super::document;
use super::failure::Failure;
use super::inputs;
use super::palette::Palette;
use super::service;
use super::text;

/// Exit code of bad usage.
const USAGE: u8 = 2;

/// Runs `muster-agent`.
pub fn main() -> ExitCode {
    let Arguments { command } = match Arguments::try_parse() {
        Ok(arguments) => arguments,
        Err(error) => {
            // clap reports `--help` and `--version` as errors too; their exit code is 0.
            let _ = error.print();
            let is_help = matches!(error.kind(), ErrorKind::DisplayHelp | ErrorKind::DisplayVersion);
            return if is_help { ExitCode::SUCCESS } else { ExitCode::from(USAGE) };
        }
    };
    let is_set = |name: &str| std::env::var_os(name).is_some_and(|value| !value.is_empty());
    let is_dumb = std::env::var_os("TERM").is_some_and(|term| term == "dumb");
    let colour = !is_set("NO_COLOR") && !is_dumb;
    let palette = Palette::new(io::stdout().is_terminal() && colour);
    let mut stdout = BufWriter::new(io::stdout().lock());
    let result = match command {
        Command::Validate(arguments) => validate(arguments, palette, &mut stdout),
        Command::Run(arguments) => service::run(arguments).map(Ok),
        Command::Service(arguments) => service::set_up(arguments).map(Ok),
        Command::Status(arguments) => service::status(arguments, palette, &mut stdout),
        Command::Gate(arguments) => return service::gate(arguments),
    };
    let result = result.and_then(|outcome| {
        stdout.flush()?;
        outcome
    });
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) if failure.is_closed_pipe() => ExitCode::SUCCESS,
        Err(failure) => {
            // The output already explains the "no".
            if !matches!(failure, Failure::No) {
                let _ = writeln!(io::stderr().lock(), "error: {failure}");
            }
            ExitCode::from(failure.exit_code())
        }
    }
}

/// Runs `validate`. The outer error means that nothing was printed; the inner one that the report has an error.
fn validate(
    arguments: ValidateArguments,
    palette: Palette,
    out: &mut dyn Write,
) -> Result<Result<(), Failure>, Failure> {
    let output = arguments.output;
    let mut notes = Vec::new();
    let report = inputs::read(arguments, &mut io::stdin().lock(), &mut notes)?;
    for note in notes {
        let _ = writeln!(io::stderr().lock(), "note: {note}");
    }
    match output {
        OutputFormat::Json => document::write(out, &report)?,
        OutputFormat::Table => out.write_all(text::report(&report, palette).as_bytes())?,
    }
    Ok(if report.is_ok() { Ok(()) } else { Err(Failure::No) })
}
