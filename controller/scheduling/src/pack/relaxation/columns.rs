//! The program over a list of columns: which of them enters is decided by its reduced price over the length of its edge
//! (Devex, Harris 1973). That takes a third of the pivots of the lowest reduced price, and one look at each column per
//! pivot.

use super::simplex::{Basic, Program};

/// Columns with few rows each.
#[derive(Debug, Default)]
pub(crate) struct Columns {
    /// Number of the first entry of each column.
    starts: Vec<u32>,
    /// Row and covered share.
    entries: Vec<(u32, f64)>,
    prices: Vec<f64>,
}

impl Columns {
    pub(crate) fn push(&mut self, covers: impl Iterator<Item = (usize, f64)>, price: f64) {
        self.starts.push(self.entries.len() as u32);
        self.entries.extend(covers.map(|(row, share)| (row as u32, share)));
        self.prices.push(price);
    }

    pub(crate) fn len(&self) -> usize {
        self.prices.len()
    }

    fn covers(&self, column: usize) -> &[(u32, f64)] {
        let from = self.starts[column] as usize;
        let to = self.starts.get(column + 1).map_or(self.entries.len(), |&end| end as usize);
        &self.entries[from..to]
    }

    fn times(&self, column: usize, by_row: &[f64]) -> f64 {
        self.covers(column).iter().map(|&(row, share)| by_row[row as usize] * share).sum()
    }
}

/// Number of pivots after which reduced prices are computed anew.
const REFRESHED_AFTER: usize = 100;

/// Reduced prices and weights of all variables: columns, then surplus by row, then artificial ones by row.
struct Pricing {
    reduced: Vec<f64>,
    weights: Vec<f64>,
    /// Reduced price above which a variable does not enter.
    enough: Vec<f64>,
}

impl Program {
    /// Pivots until no column is worth more than its price by at least the share `worthwhile`, or `most_pivots` is
    /// reached. Returns the number of pivots.
    pub(crate) fn optimise(&mut self, columns: &Columns, worthwhile: f64, most_pivots: usize) -> usize {
        let (count, rows) = (columns.len(), self.rows);
        let enough = columns.prices.iter().map(|price| -worthwhile * price);
        let enough = enough.chain(self.alone.iter().chain(&self.alone).map(|alone| -1e-9 * alone));
        let mut pricing =
            Pricing { reduced: Vec::new(), weights: vec![1.0; count + 2 * rows], enough: enough.collect() };
        let (mut fresh, mut pivots) = (0, 0);
        while pivots < most_pivots {
            if fresh == 0 {
                self.find_duals();
                pricing.refresh(columns, &self.duals, &self.alone);
                fresh = REFRESHED_AFTER;
            }
            let Some(entering) = pricing.best() else {
                if fresh == REFRESHED_AFTER {
                    break;
                }
                fresh = 0;
                continue;
            };
            fresh -= 1;
            let (covers, price, basic) = if entering < count {
                let covers = columns.covers(entering).iter().map(|&(row, share)| (row as usize, share)).collect();
                (covers, columns.prices[entering], Basic::Shape(entering))
            } else if entering < count + rows {
                (vec![(entering - count, -1.0)], 0.0, Basic::Surplus)
            } else {
                let row = entering - count - rows;
                (vec![(row, 1.0)], self.alone[row], Basic::Alone(row))
            };
            let Some(leaving) = self.replace(&covers, price, basic) else { break };
            pivots += 1;
            pricing.update(columns, &self.inverse[leaving * rows..][..rows], entering);
        }
        self.find_duals();
        pivots
    }
}

impl Pricing {
    fn refresh(&mut self, columns: &Columns, duals: &[f64], alone: &[f64]) {
        self.reduced.clear();
        self.reduced.extend((0..columns.len()).map(|column| columns.prices[column] - columns.times(column, duals)));
        self.reduced.extend(duals);
        self.reduced.extend(alone.iter().zip(duals).map(|(alone, dual)| alone - dual));
    }

    /// Returns the variable with the steepest edge among those that lower the price.
    fn best(&self) -> Option<usize> {
        let mut best = None;
        let mut most = 0.0;
        let variables = self.reduced.iter().zip(&self.weights).zip(&self.enough);
        for (at, ((&reduced, &weight), &enough)) in variables.enumerate() {
            if reduced < enough && reduced * reduced > most * weight {
                most = reduced * reduced / weight;
                best = Some(at);
            }
        }
        best
    }

    /// Changes reduced prices and weights after a pivot: `row` is the row of the inverse of the variable that entered.
    fn update(&mut self, columns: &Columns, row: &[f64], entering: usize) {
        let (reduced, weight) = (self.reduced[entering], self.weights[entering]);
        let count = columns.len();
        let variables = self.reduced.iter_mut().zip(&mut self.weights).enumerate();
        for (at, (price, own)) in variables {
            let step = if at < count {
                columns.times(at, row)
            } else if at < count + row.len() {
                -row[at - count]
            } else {
                row[at - count - row.len()]
            };
            if step != 0.0 {
                *price -= reduced * step;
                *own = own.max(step * step * weight);
            }
        }
        self.reduced[entering] = 0.0;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_columns_are_as_good_as_those_on_demand() {
        // Rolls of length 10 for 4 pieces of 6, 6 of 4 and 10 of 3, as in the tests of the program.
        let mut program = Program::new(&[12.0, 9.0, 10.0]);
        let mut columns = Columns::default();
        for pattern in [[1.0, 1.0, 0.0], [1.0, 0.0, 1.0], [0.0, 1.0, 2.0], [0.0, 2.0, 0.0], [0.0, 0.0, 3.0]] {
            let covers = (0..3).filter(|&row| pattern[row] > 0.0);
            columns.push(covers.map(|row| (row, pattern[row] / [4.0, 6.0, 10.0][row])), 1.0);
        }
        program.optimise(&columns, 1e-9, 100);
        let price: f64 = program.duals().sum();
        assert!((price - 8.0).abs() < 1e-6, "{price}");
        assert!(program.price_alone() < 1e-6);
        let copies: f64 = program.used().iter().map(|&(_, copies)| copies).sum();
        assert!((copies - 8.0).abs() < 1e-5, "{copies}");
    }

    /// Deterministic pseudo-random numbers.
    fn draw(state: &mut u64, below: u64) -> u64 {
        *state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (*state >> 33) % below
    }

    #[test]
    fn many_pivots_do_not_drift() {
        let state = &mut 5;
        let rows = 60;
        let mut program = Program::new(&vec![3.0; rows]);
        let mut columns = Columns::default();
        for _ in 0..20 {
            for _ in 0..100 {
                let first = draw(state, rows as u64 - 7) as usize;
                let covers: Vec<(usize, f64)> =
                    (first..first + 6).map(|row| (row, 0.05 + draw(state, 40) as f64 / 100.0)).collect();
                let price = covers.iter().map(|(_, share)| share).sum::<f64>() * (1.0 + draw(state, 50) as f64 / 100.0);
                columns.push(covers.into_iter(), price);
            }
            program.optimise(&columns, 1e-9, 2_000);
            // What the duals promise is what the columns in use cost, and no column is worth more than its price.
            let promised: f64 = program.duals().sum();
            let used: f64 = program.used().iter().map(|&(column, copies)| columns.prices[column] * copies).sum();
            let spent = used + program.price_alone();
            assert!((promised - spent).abs() < 1e-4 * spent, "{promised} for {spent}");
            let duals: Vec<f64> = program.duals().collect();
            for column in 0..columns.len() {
                assert!(columns.times(column, &duals) <= columns.prices[column] * (1.0 + 1e-6), "column {column}");
            }
        }
    }
}
