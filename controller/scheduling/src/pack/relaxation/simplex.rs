//! A small linear program: covers demands by shapes at the lowest price.
//!
//! min Σ price·x over columns that are generated on demand, one row per demand, `≥ 1` after scaling. There are at most
//! some hundred rows, so the inverse of the basis is kept dense. Bounds use the result only through a dual that is made
//! valid afterwards (Farley), and plans only as a proposal, so stopping early makes a bound less tight, never wrong.

/// A generated column: the rows that it covers, and its price.
pub(crate) struct Column {
    /// Rows, and the covered fraction of each.
    pub(crate) covers: Vec<(usize, f64)>,
    pub(crate) price: f64,
    /// Index of the shape that the column is of.
    pub(crate) shape: usize,
}

/// Variable in a basis row.
#[derive(Debug, Clone, Copy)]
pub(super) enum Basic {
    /// Artificial variable that covers only this row, at the price of covering it alone.
    Alone(usize),
    /// Surplus variable: coverage above the demand.
    Surplus,
    Shape(usize),
}

/// A linear program that can be solved again once there are more columns.
#[derive(Debug)]
pub(crate) struct Program {
    pub(super) rows: usize,
    basis: Vec<Basic>,
    /// Price of covering each demand without any column, which bounds its dual.
    pub(super) alone: Vec<f64>,
    /// Prices of the basic variables.
    prices: Vec<f64>,
    /// Values of the basic variables.
    level: Vec<f64>,
    pub(super) inverse: Vec<f64>,
    /// Dual price of the whole demand, by row.
    pub(super) duals: Vec<f64>,
    direction: Vec<f64>,
    /// Rows that the basic variables cover.
    covers: Vec<Vec<(usize, f64)>>,
    /// Number of pivots since the inverse was last compared with the basis.
    unchecked: usize,
}

/// Number of pivots after which the inverse is compared with the basis: each adds its rounding errors.
const CHECKED_AFTER: usize = 100;

/// Maximum error of a row's coverage at which the inverse is kept.
const ACCURATE: f64 = 1e-7;

/// Weight below which a variable cannot enter a basis that is computed anew.
const SINGULAR: f64 = 1e-9;

/// Number of rows per pivot for which duals are only updated, which is faster; after that they are computed anew.
const ROWS_A_PIVOT: usize = 40;

impl Program {
    /// Creates a program with as many rows as `alone`, which holds the price of covering each demand without any
    /// column.
    pub(crate) fn new(alone: &[f64]) -> Self {
        let rows = alone.len();
        let mut inverse = vec![0.0; rows * rows];
        (0..rows).for_each(|row| inverse[row * rows + row] = 1.0);
        Self {
            rows,
            basis: (0..rows).map(Basic::Alone).collect(),
            alone: alone.to_vec(),
            prices: alone.to_vec(),
            level: (0..rows).map(demand).collect(),
            inverse,
            duals: alone.to_vec(),
            direction: vec![0.0; rows],
            covers: (0..rows).map(|row| vec![(row, 1.0)]).collect(),
            unchecked: 0,
        }
    }

    /// Changes the prices of covering each demand without any column.
    pub(crate) fn reprice(&mut self, alone: &[f64]) {
        self.alone.copy_from_slice(alone);
        for (price, basic) in self.prices.iter_mut().zip(&self.basis) {
            if let Basic::Alone(row) = basic {
                *price = alone[*row];
            }
        }
    }

    /// Returns the price of what is covered without any column.
    pub(crate) fn price_alone(&self) -> f64 {
        let basic = self.basis.iter().zip(&self.level);
        let alone = basic.map(|(basic, level)| match basic {
            Basic::Alone(row) => self.alone[*row] * level,
            Basic::Surplus | Basic::Shape(_) => 0.0,
        });
        alone.sum()
    }

    /// Pivots until `price_out`, which returns the column with the most negative reduced price for the given duals,
    /// returns `None`, or `most_pivots` is reached.
    pub(crate) fn solve(&mut self, most_pivots: usize, mut price_out: impl FnMut(&[f64]) -> Option<Column>) {
        for step in 0..most_pivots {
            if step % (self.rows / ROWS_A_PIVOT).max(1) == 0 {
                self.find_duals();
            }
            let excess = |row: usize| self.duals[row] - self.alone[row] * (1.0 + 1e-9);
            let least = (0..self.rows).min_by(|&a, &b| self.duals[a].total_cmp(&self.duals[b]));
            let most = (0..self.rows).max_by(|&a, &b| excess(a).total_cmp(&excess(b)));
            let (column, entering) = match (least, most) {
                (Some(row), _) if self.duals[row] < -1e-12 => {
                    (Column { covers: vec![(row, -1.0)], price: 0.0, shape: usize::MAX }, Basic::Surplus)
                }
                (_, Some(row)) if excess(row) > 1e-12 => {
                    let price = self.alone[row];
                    (Column { covers: vec![(row, 1.0)], price, shape: usize::MAX }, Basic::Alone(row))
                }
                _ => match price_out(&self.duals) {
                    Some(column) => {
                        let entering = Basic::Shape(column.shape);
                        (column, entering)
                    }
                    None => break,
                },
            };
            if !self.enter(&column, entering) {
                break;
            }
        }
    }

    pub(super) fn find_duals(&mut self) {
        self.duals.fill(0.0);
        let rows = self.prices.iter().zip(self.inverse.chunks_exact(self.rows.max(1)));
        for (&price, inverse) in rows.filter(|(price, _)| **price != 0.0) {
            self.duals.iter_mut().zip(inverse).for_each(|(dual, &entry)| *dual += price * entry);
        }
    }

    /// Returns true if the column entered the basis.
    fn enter(&mut self, column: &Column, entering: Basic) -> bool {
        let worth: f64 = column.covers.iter().map(|&(row, covered)| self.duals[row] * covered).sum();
        let Some(leaving) = self.replace(&column.covers, column.price, entering) else { return false };
        let inverse = &self.inverse[leaving * self.rows..][..self.rows];
        let reduced = column.price - worth;
        self.duals.iter_mut().zip(inverse).for_each(|(dual, &entry)| *dual += reduced * entry);
        true
    }

    /// Enters a variable into the basis. Returns the row of the one that it replaces; `None` if none can be.
    pub(super) fn replace(&mut self, covers: &[(usize, f64)], price: f64, entering: Basic) -> Option<usize> {
        let rows = self.rows;
        if self.unchecked >= CHECKED_AFTER {
            self.unchecked = 0;
            if self.error() > ACCURATE {
                self.invert();
            }
        }
        self.unchecked += 1;
        self.aim(covers);
        let (level, direction) = (&self.level, &self.direction);
        let leaving = (0..rows)
            .filter(|&row| direction[row] > 1e-9)
            .min_by(|&a, &b| (level[a] / direction[a]).total_cmp(&(level[b] / direction[b])))?;
        pivot(&mut self.inverse, &mut self.level, &self.direction, leaving, rows);
        self.prices[leaving] = price;
        self.basis[leaving] = entering;
        self.covers[leaving].clear();
        self.covers[leaving].extend_from_slice(covers);
        Some(leaving)
    }

    /// Returns the largest difference between the coverage of a row and its demand.
    fn error(&self) -> f64 {
        let mut covered = vec![0.0; self.rows];
        for (covers, level) in self.covers.iter().zip(&self.level) {
            covers.iter().for_each(|&(row, share)| covered[row] += share * level);
        }
        covered.iter().enumerate().map(|(row, covered)| (covered - demand(row)).abs()).fold(0.0, f64::max)
    }

    /// Computes the inverse anew: the basic variables enter one after the other, each on the row on which it weighs
    /// most among those that are free. Does nothing if the basis has become singular.
    fn invert(&mut self) {
        let rows = self.rows;
        let mut fresh = Self::new(&self.alone);
        let mut free = vec![true; rows];
        let mut entering = Vec::new();
        for (at, basic) in self.basis.iter().enumerate() {
            match basic {
                Basic::Alone(row) => free[*row] = false,
                Basic::Surplus | Basic::Shape(_) => entering.push(at),
            }
        }
        entering.sort_by_key(|&at| (self.covers[at].len(), at));
        for at in entering {
            fresh.aim(&self.covers[at]);
            let weight = |row: usize| fresh.direction[row].abs();
            let found = (0..rows).filter(|&row| free[row]).max_by(|&a, &b| weight(a).total_cmp(&weight(b)));
            let Some(row) = found.filter(|&row| weight(row) > SINGULAR) else { return };
            free[row] = false;
            pivot(&mut fresh.inverse, &mut fresh.level, &fresh.direction, row, rows);
            fresh.basis[row] = self.basis[at];
            fresh.prices[row] = self.prices[at];
            fresh.covers[row].clone_from(&self.covers[at]);
        }
        for (level, inverse) in fresh.level.iter_mut().zip(fresh.inverse.chunks_exact(rows.max(1))) {
            *level = inverse.iter().enumerate().map(|(row, entry)| entry * demand(row)).sum::<f64>().max(0.0);
        }
        *self = fresh;
        self.find_duals();
    }

    /// Computes the direction in which a variable that covers these rows enters.
    fn aim(&mut self, covers: &[(usize, f64)]) {
        for (step, inverse) in self.direction.iter_mut().zip(self.inverse.chunks_exact(self.rows)) {
            *step = covers.iter().map(|&(row, covered)| inverse[row] * covered).sum();
        }
    }

    /// Returns the dual price of the whole demand, by row.
    pub(crate) fn duals(&self) -> impl Iterator<Item = f64> {
        self.duals.iter().map(|dual| dual.max(0.0))
    }

    /// Returns the shapes with a positive value in the fractional optimum, with these values.
    pub(crate) fn used(&self) -> Vec<(usize, f64)> {
        let copies = self.basis.iter().zip(&self.level);
        let used = copies.filter_map(|(basic, &copies)| match basic {
            Basic::Shape(shape) if copies > 1e-9 => Some((*shape, copies)),
            _ => None,
        });
        used.collect()
    }
}

/// Returns the demand of a row: 1, perturbed against cycling by amounts that differ per row.
fn demand(row: usize) -> f64 {
    1.0 + 1e-9 * (row + 1) as f64
}

fn pivot(inverse: &mut [f64], level: &mut [f64], direction: &[f64], leaving: usize, rows: usize) {
    let scale = 1.0 / direction[leaving];
    level[leaving] *= scale;
    inverse[leaving * rows..][..rows].iter_mut().for_each(|entry| *entry *= scale);
    let pivot_row: Vec<f64> = inverse[leaving * rows..][..rows].to_vec();
    for row in (0..rows).filter(|&row| row != leaving) {
        let factor = direction[row];
        if factor == 0.0 {
            continue;
        }
        level[row] = (level[row] - factor * level[leaving]).max(0.0);
        let entries = &mut inverse[row * rows..][..rows];
        entries.iter_mut().zip(&pivot_row).for_each(|(entry, &above)| *entry -= factor * above);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Rolls of length 10 for 4 pieces of 6, 6 of 4 and 10 of 3; a roll holds 1, 2 or 3 of one length.
    const PIECES: [f64; 3] = [4.0, 6.0, 10.0];
    const ALONE: [f64; 3] = [4.0, 3.0, 10.0 / 3.0];

    /// Solves with the best of `patterns`, each at a price of 1.
    fn solve(program: &mut Program, patterns: &[[f64; 3]]) -> f64 {
        program.solve(100, |duals| {
            let parts = |pattern: &[f64; 3]| (0..3).map(|row| (row, pattern[row] / PIECES[row])).collect::<Vec<_>>();
            let worth = |at: usize| parts(&patterns[at]).iter().map(|&(row, part)| duals[row] * part).sum::<f64>();
            let best = (0..patterns.len()).max_by(|&a, &b| worth(a).total_cmp(&worth(b)))?;
            (worth(best) > 1.0 + 1e-9).then(|| Column { covers: parts(&patterns[best]), price: 1.0, shape: best })
        });
        program.duals().sum()
    }

    #[test]
    fn more_columns_lower_the_price() {
        let mut program = Program::new(&ALONE);
        assert!((solve(&mut program, &[]) - 31.0 / 3.0).abs() < 1e-9);
        // 6 + 4: four rolls with both leave two of 4.
        assert!((solve(&mut program, &[[1.0, 1.0, 0.0]]) - (4.0 + 1.0 + 10.0 / 3.0)).abs() < 1e-6);
        // 6 + 3 and 4 + 3 + 3: the rest of a roll with large pieces holds small ones.
        let price = solve(&mut program, &[[1.0, 1.0, 0.0], [1.0, 0.0, 1.0], [0.0, 1.0, 2.0]]);
        assert!((price - 8.0).abs() < 1e-6, "{price}");
        let copies: f64 = program.used().iter().map(|&(_, copies)| copies).sum();
        assert!(copies > 0.0 && copies <= price + 1e-6);
    }
}
