//! Preferences that a plan does not keep, and what keeping them would cost.

use fixedbitset::FixedBitSet;

use super::required::Selection;
use super::{Kind, Preference, Weighing, kept, of_pending, soft_taints};
use crate::explain::wording;
use crate::model::{Options, Packing, PreferencePolicy, Problem};
use crate::solution::Solution;

/// Maximum number of preferences whose cost is computed, the heaviest first: each takes as long as a plan.
const MOST_PRICED: usize = 8;

/// A preference that some placed pods have, and that does not hold for them.
#[derive(Debug, Clone, PartialEq)]
pub struct Forgone {
    /// The preference, in words.
    pub preference: String,
    /// Its weight, 1–100.
    pub weight: i32,
    /// These pods, ascending.
    pub pods: Vec<usize>,
    /// Increase of the price of the plan if it were kept, in USD per hour; `None` if pods would stay pending for it, or
    /// if it was not computed.
    pub price: Option<f64>,
}

/// Returns the preferences that `solution`, a plan for `problem`, does not keep for all pods, the heaviest first.
/// `plan` plans a problem without preferences.
pub(crate) fn unkept(
    problem: &Problem,
    options: &Options,
    solution: &Solution,
    plan: impl Fn(&Problem) -> Solution,
) -> Vec<Forgone> {
    if options.preferences == PreferencePolicy::Ignore || options.packing == Packing::FirstFit {
        return Vec::new();
    }
    let preferences = of_pending(problem);
    let kept = kept::count(problem, &preferences, solution);
    let unplaced: FixedBitSet = solution.unschedulable.iter().map(|one| one.pod).collect();
    let complete: FixedBitSet = (0..preferences.len()).filter(|&at| kept[at].missing.is_empty()).collect();
    let weighing = Weighing { problem, options, preferences: &preferences, unplaced, plan: &plan };
    // Nodes of static pools have no pods, and are not planned with them.
    let planned = solution.new_nodes.iter().filter(|node| !node.pods.is_empty());
    let now: f64 = planned.map(|node| node.price).sum();
    let mut left = MOST_PRICED;
    let missing = preferences.iter().zip(kept).enumerate().filter(|(_, (_, kept))| !kept.missing.is_empty());
    missing
        .map(|(number, (preference, kept))| {
            let priced = left > 0;
            left = left.saturating_sub(1);
            let price = priced.then(|| {
                let mut selection = Selection::none(problem, preferences.len());
                selection.preferences.extend(complete.ones().chain([number]));
                weighing.attempt(&mut selection).filter(|_| selection.dropped.is_clear())
            });
            let price = price.flatten().map(|found| (found.price() - now).max(0.0));
            let mut pods = kept.missing;
            pods.sort_unstable();
            Forgone { preference: words(problem, preference), weight: preference.weight, pods, price }
        })
        .collect()
}

/// Returns a preference in words.
fn words(problem: &Problem, preference: &Preference) -> String {
    match &preference.kind {
        Kind::CleanNodes => {
            let taints = soft_taints(problem).into_iter().map(wording::taint);
            format!("nodes without the taint {}", wording::list(taints, ", "))
        }
        Kind::Nodes(term) => {
            let requirements = term.iter().map(|(key, wanted)| format!("{key} {}", wording::requirement(wanted)));
            format!("nodes with {}", wording::list(requirements, ", "))
        }
        Kind::Together(term) => {
            format!("the {} of pods with {}", term.topology_key, wording::selector(&term.selector))
        }
        Kind::Apart(term) => {
            format!("another {} than pods with {}", term.topology_key, wording::selector(&term.selector))
        }
    }
}
