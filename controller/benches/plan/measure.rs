//! The optimised program in fresh processes: no warm allocator, no cache of an earlier run.

use std::error::Error;
use std::process::{Command, Stdio};

use serde::Deserialize;

use super::workload::Input;

/// What is kept of one workload.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Measured {
    /// Median of `summary.solveSeconds`.
    pub(crate) seconds: f64,
    pub(crate) fastest: f64,
    pub(crate) slowest: f64,
    pub(crate) nodes: usize,
    /// USD per hour.
    pub(crate) price: f64,
    /// USD per hour that no plan for the same pods can undercut.
    pub(crate) bound: f64,
    pub(crate) unschedulable: usize,
}

#[derive(Debug, Deserialize)]
struct Plan {
    summary: Summary,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Summary {
    unschedulable: usize,
    new_nodes: usize,
    hourly_price: f64,
    lower_bound_hourly_price: f64,
    solve_seconds: f64,
}

/// Plans `input` in `runs` processes, one after the other.
pub(crate) fn measure(input: &Input, runs: u32, mut progress: impl FnMut(u32)) -> Result<Measured, Box<dyn Error>> {
    let mut seconds = Vec::new();
    let mut last = None;
    for run in 1..=runs {
        progress(run);
        let summary = plan(input)?;
        seconds.push(summary.solve_seconds);
        last = Some(summary);
    }
    seconds.sort_by(f64::total_cmp);
    let (Some(last), Some(&fastest), Some(&slowest)) = (last, seconds.first(), seconds.last()) else {
        return Err("no run was asked for".into());
    };
    Ok(Measured {
        seconds: seconds[seconds.len() / 2],
        fastest,
        slowest,
        nodes: last.new_nodes,
        price: last.hourly_price,
        bound: last.lower_bound_hourly_price,
        unschedulable: last.unschedulable,
    })
}

fn plan(input: &Input) -> Result<Summary, Box<dyn Error>> {
    let mut command = Command::new(env!("CARGO_BIN_EXE_muster"));
    command.args(["plan", "-o", "json", "-f"]).arg(&input.manifests).stdin(Stdio::null());
    if let Some(catalogue) = &input.catalogue {
        command.arg("--catalog").arg(catalogue);
    }
    let output = command.output()?;
    if !output.status.success() {
        return Err(format!("{}: {}", output.status, String::from_utf8_lossy(&output.stderr)).into());
    }
    Ok(serde_json::from_slice::<Plan>(&output.stdout)?.summary)
}
