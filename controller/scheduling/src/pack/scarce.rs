//! Alternative plans if pods stay unplaced; the best one is used.
//!
//! ```text
//! plan with unplaced pods ─► leftovers ─┬─► domains by load instead of price ──────────┐
//!                                       ├─► nodes by use of limits instead of price ───┼─► best plan ─► by priority
//!                                       └─► the same, owners of domain rules last ─────┘
//! ```

use std::rc::Rc;

use rustc_hash::FxHashSet;

use super::groups::{Grouped, PreferenceMode};
use super::headroom::Headroom;
use super::zones::ZonePolicy;
use super::{Draft, decide, draft, finish, leftovers, settled};
use crate::compile::Compiled;
use crate::solution::Solution;
use crate::validate::validate;

/// Maximum number of pairs of cell and shape for which alternatives are tried: each takes as long as the first plan,
/// and that grows with this number. All EC2 types in three zones and both capacity types are 8,000 for one pool.
const MOST_OPENINGS: usize = 200_000;

/// Unplaced pods of a plan by priority, highest first, and the price of its new nodes.
type Left = (Vec<(i32, usize)>, f64);

fn left(compiled: &Compiled<'_>, solution: &Solution) -> Left {
    (leftovers::left_by_priority(compiled, solution), solution.new_nodes.iter().map(|node| node.price).sum())
}

/// Returns the plan that leaves the fewest of the most important pods unplaced. `solution` is the one written from
/// `draft`.
pub(crate) fn place(compiled: &Compiled<'_>, grouped: Grouped, mut draft: Draft, solution: Solution) -> Solution {
    let by_price = leftovers::place(compiled, &grouped, &mut draft, solution, i32::MIN);
    let (mut best, mut best_grouped) = (by_price, Rc::new(grouped));
    if leftovers::could_be_held(compiled, &best).is_empty() {
        return best;
    }
    let few = compiled.cells.len() * compiled.shapes.len() <= MOST_OPENINGS;
    let mut found: Vec<(Rc<Grouped>, Solution)> = Vec::new();
    if few && draft.tasted {
        let (grouped, draft) = decide(compiled, ZonePolicy::Emptiest, true);
        found.push(written(compiled, Rc::new(grouped), draft));
    }
    if few && Headroom::new(compiled).binds() {
        let thrifty = compiled.priced_by_limits();
        let grouped = Rc::new(Grouped::new(compiled, &PreferenceMode::PLAIN, true));
        let ruled: FxHashSet<u32> = owners(&grouped);
        if !ruled.is_empty() {
            let mut draft = self::draft(&thrifty, &grouped, &ruled, ZonePolicy::Cheapest);
            draft.settle(compiled, &grouped);
            found.push(written(compiled, Rc::clone(&grouped), draft.repriced(compiled)));
        }
        let draft = settled(&thrifty, &grouped, ZonePolicy::Cheapest).repriced(compiled);
        found.push(written(compiled, grouped, draft));
    }
    // Limits together with rules may make these plans invalid; invalid ones are discarded.
    let holds = |solution: &Solution| validate(compiled.problem, compiled.options, solution).is_empty();
    let mut stands = found.is_empty() || holds(&best);
    for (grouped, solution) in found {
        if (!stands || left(compiled, &solution) < left(compiled, &best)) && holds(&solution) {
            (best_grouped, best, stands) = (grouped, solution, true);
        }
    }
    leftovers::by_priority(compiled, &best_grouped, &best).unwrap_or(best)
}

fn written(compiled: &Compiled<'_>, grouped: Rc<Grouped>, mut draft: Draft) -> (Rc<Grouped>, Solution) {
    let solution = finish::write(compiled, &grouped, &mut draft);
    let solution = leftovers::place(compiled, &grouped, &mut draft, solution, i32::MIN);
    (grouped, solution)
}

/// Returns the units that own domain rules.
fn owners(grouped: &Grouped) -> FxHashSet<u32> {
    let owning = grouped.groups.iter().filter(|group| !group.part.owns_domain.is_empty());
    owning.flat_map(|group| group.units.iter().copied()).collect()
}
