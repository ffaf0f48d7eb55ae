//! Check of the rules between pods for a complete placement.

use index_vec::IndexVec;

use super::{Piece, Search, Seat};
use crate::compile::{CellId, Demand, DomainRuleId, Filter};
use crate::pack::{existing_nodes, zones};

impl Search<'_> {
    /// Returns true if all rules between pods hold for the placement.
    pub(super) fn holds(&self) -> bool {
        let rules = &self.input.grouped.rules;
        let cells = &self.input.compiled.cells;
        let value_in = |rule: DomainRuleId, cell: CellId| {
            self.input.dimension_of[rule].and_then(|dimension| cells.value_index(cell, dimension))
        };
        let mut counts = self.input.bound.clone();
        // Values to which some pod was added; violations among bound pods only are ignored.
        let mut touched: IndexVec<DomainRuleId, Vec<bool>> =
            counts.targets.iter().map(|values| vec![false; values.len()]).collect();
        for seat in self.seats.iter().filter(|seat| !seat.pieces.is_empty()) {
            let counts_for = |rule: DomainRuleId| match &rules.domain[rule].demand {
                Demand::Spread { filter: Some(filter), .. } => self.passes(filter, seat),
                _ => true,
            };
            for part in seat.pieces.iter().map(|&piece| self.pieces[piece as usize].part) {
                for &rule in &part.owns_domain {
                    let Some(value) = value_in(rule, seat.cell) else { return false };
                    counts.owners[rule][value] += 1;
                    touched[rule][value] = true;
                }
                for &(rule, count) in part.targets_domain.iter().filter(|&&(rule, _)| counts_for(rule)) {
                    if let Some(value) = value_in(rule, seat.cell) {
                        counts.targets[rule][value] += count;
                        touched[rule][value] = true;
                    }
                }
            }
        }
        let domains = rules.domain.iter_enumerated().all(|(at, rule)| match &rule.demand {
            Demand::Spread { required: false, .. } => true,
            Demand::Spread { max_skew, min_domains, .. } => {
                let fewest = zones::fewest(&counts.targets[at], &self.input.counting[at], *min_domains);
                // Owners planned before count in values to which a pod was added.
                let owned = |value: &usize| touched[at][*value] && counts.owners[at][*value] > 0;
                (0..touched[at].len()).filter(owned).all(|value| counts.targets[at][value] - fewest <= *max_skew)
            }
            Demand::AtMost(limit) => {
                let mut values = counts.owners[at].iter().zip(&counts.targets[at]).zip(&touched[at]);
                values.all(|((&owners, &targets), &touched)| !touched || owners == 0 || targets <= *limit)
            }
            // Checked below, for some order of binding.
            Demand::Company => true,
        });
        domains && self.company_comes_first()
    }

    /// Returns true if pods on a seat count for a spread.
    fn passes(&self, filter: &Filter, seat: &Seat) -> bool {
        let compiled = self.input.compiled;
        if let Some(position) = seat.standing {
            return filter.counts_on(&compiled.problem.nodes[self.input.standing[position].node]);
        }
        let pods = seat.pieces.iter().map(|&piece| self.pieces[piece as usize].unit);
        existing_nodes::counts_on_new(compiled, self.input.grouped, filter, (seat.shape, seat.cell), pods)
    }

    /// Returns true if a pod has required affinity to other pods.
    pub(super) fn follows(&self, piece: &Piece<'_>) -> bool {
        let rules = &self.input.grouped.rules.domain;
        let company = |rule: &DomainRuleId| rules[*rule].demand == Demand::Company;
        !piece.part.joins.is_empty() || piece.part.owns_domain.iter().any(company)
    }

    /// Returns true if the pods can be bound in some order in which each finds the pods it has affinity to. Searches
    /// over sets of bound pods.
    pub(super) fn company_comes_first(&self) -> bool {
        if !self.pieces.iter().any(|piece| self.follows(piece)) {
            return true;
        }
        let mut seat_of = vec![usize::MAX; self.pieces.len()];
        for (number, seat) in self.seats.iter().enumerate() {
            seat.pieces.iter().for_each(|&piece| seat_of[piece as usize] = number);
        }
        let placed =
            (0..seat_of.len()).filter(|&piece| seat_of[piece] != usize::MAX).fold(0, |set, piece| set | 1 << piece);
        let mut reached = vec![false; placed + 1];
        reached[0] = true;
        for bound in 0..placed {
            if !reached[bound] {
                continue;
            }
            for piece in (0..seat_of.len()).filter(|&piece| placed >> piece & 1 == 1 && bound >> piece & 1 == 0) {
                let next = bound | 1 << piece;
                if !reached[next] {
                    reached[next] = self.finds_company(piece, bound, &seat_of);
                }
            }
        }
        reached[placed]
    }

    /// Returns true if the affinity of `piece` is satisfied once the pieces of the set `bound` are bound.
    fn finds_company(&self, piece: usize, bound: usize, seat_of: &[usize]) -> bool {
        let input = self.input;
        let (problem, rules, cells) = (input.compiled.problem, &input.grouped.rules, &input.compiled.cells);
        let one = &self.pieces[piece];
        let others = || (0..self.pieces.len()).filter(move |&other| bound >> other & 1 == 1);
        let selected =
            |subject: u32, piece: usize| rules.selects(subject, problem.spec_of(self.pieces[piece].unit as usize));
        let on_hosts = one.part.joins.iter().all(|&subject| {
            let bound_on = |position: usize| {
                let pods = &problem.nodes[input.standing[position].node].bound;
                pods.iter().any(|pod| pod.counts && rules.selects(subject, &problem.specs[pod.spec]))
            };
            let here = self.seats[seat_of[piece]].standing.is_some_and(bound_on)
                || others().any(|other| seat_of[other] == seat_of[piece] && selected(subject, other));
            let nobody = || !(0..input.standing.len()).any(bound_on) && !others().any(|other| selected(subject, other));
            here || selected(subject, piece) && nobody()
        });
        let counted = |piece: usize, rule: DomainRuleId| {
            self.pieces[piece].part.targets_domain.iter().any(|&(target, _)| target == rule)
        };
        let mut owned = one.part.owns_domain.iter().copied();
        on_hosts
            && owned.all(|rule| {
                let of = &rules.domain[rule];
                let Some(dimension) = input.dimension_of[rule].filter(|_| of.demand == Demand::Company) else {
                    return of.demand != Demand::Company;
                };
                let value_of = |piece: usize| cells.value_index(self.seats[seat_of[piece]].cell, dimension);
                let Some(value) = value_of(piece) else { return false };
                let mut leaders = others().filter(|&other| counted(other, rule));
                let here = input.bound.targets[rule][value] > 0
                    || leaders.clone().any(|leader| value_of(leader) == Some(value));
                here || counted(piece, rule) && input.bound.total[rule] == 0 && leaders.next().is_none()
            })
    }
}
