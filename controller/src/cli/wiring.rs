//! Entry point: the only file that knows process, environment, terminal, arguments and commands.

use std::io::{self, BufWriter, IsTerminal, Write};
use std::process::ExitCode;

use jiff::Timestamp;

use super::arguments::{Arguments, Command, ConversionFormat, ConvertArguments};
use super::disrupt;
use super::explain;
use super::failure::Failure;
use super::inputs;
use super::output::DataFormat;
use super::palette::Palette;
use super::plan;
use super::printable::plain;
use super::progress::Progress;
use super::settings::{
    DisruptSettings, ExplainSettings, IamPolicySettings, NodesSettings, PlanSettings, SimulateSettings, TypesSettings,
    VerdictsSettings, completions_shell, crds_format,
};
use super::usage::{self, Unparsed};
use super::{convert, crds, iam_policy, nodes, simulate, types, verdicts};

/// Exit code of invalid usage.
const USAGE: u8 = 2;

/// Terminal properties of the process.
#[derive(Debug, Clone, Copy)]
struct Surroundings {
    stdout_is_terminal: bool,
    stdout: Palette,
    stderr: Palette,
    /// True if a progress line may be shown.
    shows_progress: bool,
}

/// Runs `muster`.
pub fn main() -> ExitCode {
    let surroundings = Surroundings::look();
    let Arguments { command } = match usage::parse(std::env::args_os().collect()) {
        Ok(arguments) => arguments,
        Err(Unparsed::Answer(error)) => {
            let _ = error.print();
            return ExitCode::from(u8::try_from(error.exit_code()).unwrap_or(USAGE));
        }
        Err(Unparsed::Wrong(failure)) => return surroundings.fail(&failure),
    };
    // Not locked: other threads write the controller's log.
    let mut stdout = BufWriter::new(io::stdout());
    let result = carry_out(command, surroundings, &mut stdout).and_then(|outcome| {
        stdout.flush()?;
        outcome
    });
    // Output that a failed command wrote before is not part of a result.
    let Err(failure) = result else { return ExitCode::SUCCESS };
    if failure.is_closed_pipe() {
        return ExitCode::SUCCESS;
    }
    surroundings.fail(&failure)
}

impl Surroundings {
    /// Prints why the command failed.
    fn fail(self, failure: &Failure) -> ExitCode {
        // It quotes what others wrote.
        let message = plain(&failure.to_string());
        let _ = writeln!(io::stderr().lock(), "{}: {message}", self.stderr.bad("error"));
        ExitCode::from(failure.exit_code())
    }

    fn look() -> Self {
        let is_set = |name: &str| std::env::var_os(name).is_some_and(|value| !value.is_empty());
        let is_dumb = std::env::var_os("TERM").is_some_and(|term| term == "dumb");
        let colour = !is_set("NO_COLOR") && !is_dumb;
        let (stdout, stderr) = (io::stdout().is_terminal(), io::stderr().is_terminal());
        Self {
            stdout_is_terminal: stdout,
            stdout: Palette::new(stdout && colour),
            stderr: Palette::new(stderr && colour),
            shows_progress: stderr && !is_dumb,
        }
    }
}

/// Runs one command. The outer error means that nothing was printed, the inner one is the verdict on what was.
fn carry_out(
    command: Command,
    surroundings: Surroundings,
    out: &mut dyn Write,
) -> Result<Result<(), Failure>, Failure> {
    let Surroundings { stdout_is_terminal, stdout, stderr, shows_progress } = surroundings;
    let mut progress = Progress::new(shows_progress);
    match command {
        Command::Plan(arguments) => {
            let settings = PlanSettings::new(arguments)?;
            let inputs = inputs::read(&settings.sources, &settings.packing, now(), &mut progress, stderr)?;
            return plan::print(out, &settings, &inputs, &mut progress, stdout);
        }
        Command::Disrupt(arguments) => {
            let settings = DisruptSettings::new(arguments, now())?;
            let inputs = inputs::read(&settings.sources, &settings.packing, settings.now, &mut progress, stderr)?;
            disrupt::print(out, &settings, &inputs, &mut progress, stdout)?;
        }
        Command::Explain(arguments) => {
            let settings = ExplainSettings::new(arguments, now())?;
            let inputs = inputs::read(&settings.sources, &settings.packing, settings.now, &mut progress, stderr)?;
            explain::print(out, &settings, &inputs, &mut progress, stdout)?;
        }
        Command::Nodes(arguments) => {
            let settings = NodesSettings::new(arguments, now())?;
            nodes::print(out, &settings, &mut progress, stdout, stderr)?;
        }
        Command::Verdicts(arguments) => {
            let settings = VerdictsSettings::new(arguments, now())?;
            verdicts::print(out, &settings, &mut progress, stdout, stderr)?;
        }
        Command::Simulate(arguments) => {
            return simulate::print(out, &SimulateSettings::new(arguments)?, now(), &mut progress, stdout, stderr);
        }
        Command::Types(arguments) => {
            types::print(out, &TypesSettings::new(arguments)?, now(), &mut progress, (stdout, stderr))?;
        }
        Command::Convert(ConvertArguments { files, output }) => {
            let format = match output {
                ConversionFormat::Yaml => DataFormat::Yaml,
                ConversionFormat::Json => DataFormat::Json,
            };
            return convert::print(out, &files, format, stderr);
        }
        #[cfg(feature = "cluster")]
        Command::Run(arguments) => super::run::run(*arguments)?,
        #[cfg(not(feature = "cluster"))]
        Command::Run(_) => return Err(Failure::left_out("`muster run`", "ec2")),
        Command::Crds(arguments) => crds::print(out, crds_format(arguments, stdout_is_terminal), stdout)?,
        Command::IamPolicy(arguments) => {
            iam_policy::print(out, &IamPolicySettings::try_from((arguments, stdout_is_terminal))?, stdout)?;
        }
        Command::Completions(arguments) => {
            let shell = completions_shell(arguments);
            // The generator panics if a write fails, so it writes to memory.
            let mut script = Vec::new();
            clap_complete::generate(shell, &mut usage::command(), "muster", &mut script);
            out.write_all(&script)?;
        }
    }
    Ok(Ok(()))
}

/// Returns the current time, the default time of a question.
#[expect(clippy::disallowed_methods, reason = "the one place where a command learns the time; decisions are given it")]
fn now() -> Timestamp {
    Timestamp::now()
}
