//! `cargo bench`: how fast `muster plan` packs, and how cheap the plans are, beside what was recorded of Karpenter.
//!
//! ```text
//!  options ──► workload ──► synthetic, ec2 ──► manifests ──► measure ──► report
//!  what to     which,        the pods of        as files     fresh       table or JSON,
//!  measure     how large     each kind                       processes   with the recorded figures
//! ```
//!
//! Every workload is drawn here, from a seed: same seed, same manifests. The draws are of the same kinds and proportions as
//! those that Karpenter was measured on, not the same pods, so prices are compared per pod and against a lower bound.
//! Each figure is the median of fresh processes of the optimised program, which time themselves (`summary.solveSeconds`).

mod dice;
mod ec2;
mod few_types;
mod manifests;
mod measure;
mod options;
mod recorded;
mod report;
mod synthetic;
mod workload;

use std::error::Error;
use std::io::{self, IsTerminal, Write};
use std::process::ExitCode;

use clap::Parser;

use options::Options;
use report::Report;

/// How much longer five times as many pods may take.
const GROWTH_LIMIT: f64 = 6.0;

fn main() -> ExitCode {
    let options = Options::parse();
    // `cargo test --benches` starts this program too, and there is nothing to test.
    if options.is_test() {
        return ExitCode::SUCCESS;
    }
    match run(&options) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            let _ = writeln!(io::stderr().lock(), "error: {error}");
            ExitCode::from(2)
        }
    }
}

/// Measures and prints; whether the program grows with its input as promised.
fn run(options: &Options) -> Result<bool, Box<dyn Error>> {
    let workloads = options.workloads()?;
    let shows_progress = io::stderr().is_terminal();
    let folder = tempfile::tempdir()?;
    let mut rows = Vec::new();
    for (number, workload) in workloads.iter().enumerate() {
        let progress = |what: &str| {
            if shows_progress {
                let mut stderr = io::stderr().lock();
                let _ = write!(stderr, "\r\x1b[K{}/{} {workload}: {what}…", number + 1, workloads.len());
                let _ = stderr.flush();
            }
        };
        progress("drawing");
        let input = workload.write(folder.path(), options.seed)?;
        let measured = measure::measure(&input, options.runs, |run| progress(&format!("process {run}")))?;
        input.remove()?;
        rows.push((*workload, measured));
    }
    if shows_progress {
        let _ = write!(io::stderr().lock(), "\r\x1b[K");
    }
    let report = Report::new(rows, options);
    let mut stdout = io::stdout().lock();
    if options.as_json() {
        report.write_json(&mut stdout)?
    } else {
        report.write_table(&mut stdout)?
    }
    Ok(report.growth().is_none_or(|growth| growth <= GROWTH_LIMIT))
}
