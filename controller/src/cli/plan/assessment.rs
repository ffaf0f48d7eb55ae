//! One solve with everything that a plan is never shown without: its bound, its validation, its replay, and the times.

use std::time::Instant;

use muster_scheduling::explain::Explainer;
use muster_scheduling::model::{Options, Problem};
use muster_scheduling::{Solution, Unschedulable, Violation, lower_bound, replay, solve, validate};

use super::super::failure::Failure;
use super::super::progress::Progress;

/// Violations that are printed; the first ones tell what is wrong, the rest follows from them.
const SHOWN_VIOLATIONS: usize = 20;

/// A plan that passed validation, and what is known about it.
#[derive(Debug)]
pub(crate) struct Assessment {
    pub(crate) solution: Solution,
    /// USD per hour that no assignment of the same pods can undercut.
    pub(crate) lower_bound: f64,
    /// USD per hour after a replay in which kube-scheduler places the pods.
    pub(crate) expected_price: f64,
    pub(crate) solve_seconds: f64,
    pub(crate) bound_seconds: f64,
    pub(crate) validate_seconds: f64,
}

/// Solves `problem`.
///
/// # Errors
/// [`Failure::InvalidPlan`] if the validator disagrees with the packer.
pub(crate) fn assess(problem: &Problem, options: &Options, progress: &mut Progress) -> Result<Assessment, Failure> {
    progress.stage(&format!("packing {} pods", problem.pods.len()));
    let (mut solution, solve_seconds) = timed(|| solve(problem, options));
    progress.stage("validating the plan");
    let (violations, validate_seconds) = timed(|| validate(problem, options, &solution));
    self::violations(&violations)?;
    progress.stage("proving how cheap it could be");
    let (lower_bound, bound_seconds) = timed(|| lower_bound(problem, options, &solution));
    progress.stage("replaying it with kube-scheduler's scoring");
    let expected_price = replay(problem, options, &solution).expected_price;
    progress.stage("finding reasons");
    give_reasons(problem, options, &mut solution);
    progress.clear();
    Ok(Assessment { solution, lower_bound, expected_price, solve_seconds, bound_seconds, validate_seconds })
}

/// The packer only knows that a pod fits nowhere; why is asked of the explainer, once the plan stands.
fn give_reasons(problem: &Problem, options: &Options, solution: &mut Solution) {
    let mut explainer = Explainer::new(problem, options, solution);
    let explain =
        |pod: &Unschedulable| if pod.message.is_empty() { explainer.unschedulable(pod.pod) } else { pod.clone() };
    let explained: Vec<Unschedulable> = solution.unschedulable.iter().map(explain).collect();
    solution.unschedulable = explained;
}

/// An error if there are any.
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

/// What `work` gives, and the seconds that it took.
pub(crate) fn timed<T>(work: impl FnOnce() -> T) -> (T, f64) {
    #[expect(clippy::disallowed_methods, reason = "what is shown as `Seconds` is measured, and decides nothing")]
    let start = Instant::now();
    let result = work();
    (result, start.elapsed().as_secs_f64())
}
