//! Solution with everything that is shown with each plan: its bound, its validation, its replay, and the times.

use std::time::Instant;

use muster_scheduling::explain::Explainer;
use muster_scheduling::model::{Options, Problem};
use muster_scheduling::{Forgone, Solution, Unschedulable, Violation, forgone, lower_bound, replay, solve, validate};

use super::super::failure::Failure;
use super::super::progress::Progress;

/// Maximum number of violations that are printed; later ones usually follow from the first.
const SHOWN_VIOLATIONS: usize = 20;

/// Plan that passed validation, with its assessment.
#[derive(Debug)]
pub(crate) struct Assessment {
    pub(crate) solution: Solution,
    /// Preferences that it does not keep.
    pub(crate) forgone: Vec<Forgone>,
    /// Lower bound in USD per hour on the price of any assignment of the same pods.
    pub(crate) lower_bound: f64,
    /// Price in USD per hour after a replay in which kube-scheduler places the pods.
    pub(crate) expected_price: f64,
    pub(crate) solve_seconds: f64,
    pub(crate) bound_seconds: f64,
    pub(crate) validate_seconds: f64,
}

/// Solves, validates and bounds `problem`.
///
/// # Errors
/// [`Failure::InvalidPlan`] if the validator disagrees with the packer.
pub(crate) fn assess(problem: &Problem, options: &Options, progress: &mut Progress) -> Result<Assessment, Failure> {
    progress.stage(&format!("packing {} pods", problem.pods.len()));
    let (mut solution, solve_seconds) = timed(|| solve(problem, options));
    progress.stage("validating the plan");
    let (violations, validate_seconds) = timed(|| validate(problem, options, &solution));
    self::violations(&violations)?;
    progress.stage("computing the lower bound");
    let (lower_bound, bound_seconds) = timed(|| lower_bound(problem, options, &solution));
    progress.stage("replaying it with kube-scheduler's scoring");
    let expected_price = replay(problem, options, &solution).expected_price;
    progress.stage("pricing preferences that are not kept");
    let forgone = forgone(problem, options, &solution);
    progress.stage("finding reasons");
    give_reasons(problem, options, &mut solution);
    progress.clear();
    Ok(Assessment { solution, forgone, lower_bound, expected_price, solve_seconds, bound_seconds, validate_seconds })
}

/// Adds reasons to unschedulable pods. The packer only knows that a pod does not fit; the explainer finds the reason
/// after the plan is made.
fn give_reasons(problem: &Problem, options: &Options, solution: &mut Solution) {
    let mut explainer = Explainer::new(problem, options, solution);
    let explain =
        |pod: &Unschedulable| if pod.message.is_empty() { explainer.unschedulable(pod.pod) } else { pod.clone() };
    let explained: Vec<Unschedulable> = solution.unschedulable.iter().map(explain).collect();
    solution.unschedulable = explained;
}

/// Returns an error if there are violations.
pub(crate) fn violations(violations: &[Violation]) -> Result<(), Failure> {
    if violations.is_empty() {
        return Ok(());
    }
    let mut lines: Vec<String> = violations.iter().take(SHOWN_VIOLATIONS).map(ToString::to_string).collect();
    if violations.len() > SHOWN_VIOLATIONS {
        lines.push(format!("and {} more", violations.len() - SHOWN_VIOLATIONS));
    }
    Err(Failure::InvalidPlan(lines))
}

/// Returns the result of `work`, and its duration in seconds.
pub(crate) fn timed<T>(work: impl FnOnce() -> T) -> (T, f64) {
    #[expect(clippy::disallowed_methods, reason = "what is shown as `Seconds` is measured, and decides nothing")]
    let start = Instant::now();
    let result = work();
    (result, start.elapsed().as_secs_f64())
}
