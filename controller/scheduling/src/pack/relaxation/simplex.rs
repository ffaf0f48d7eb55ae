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
#[derive(Debug)]
enum Basic {
    /// Artificial variable that covers only this row.
    Alone,
    /// Surplus variable: coverage above the demand.
    Surplus,
    Shape(usize),
}

/// A linear program that can be solved again once there are more columns.
#[derive(Debug)]
pub(crate) struct Program {
    rows: usize,
    basis: Vec<Basic>,
    /// Prices of the basic variables.
    prices: Vec<f64>,
    /// Values of the basic variables.
    level: Vec<f64>,
    inverse: Vec<f64>,
    /// Dual price of the whole demand, by row.
    duals: Vec<f64>,
    direction: Vec<f64>,
}

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
            basis: (0..rows).map(|_| Basic::Alone).collect(),
            prices: alone.to_vec(),
            // Rows are perturbed against cycling, by amounts that differ per row.
            level: (0..rows).map(|row| 1.0 + 1e-9 * (row + 1) as f64).collect(),
            inverse,
            duals: alone.to_vec(),
            direction: vec![0.0; rows],
        }
    }

    /// Pivots until `price_out`, which returns the column with the most negative reduced price for the given duals,
    /// returns `None`, or `most_pivots` is reached.
    pub(crate) fn solve(&mut self, most_pivots: usize, mut price_out: impl FnMut(&[f64]) -> Option<Column>) {
        for step in 0..most_pivots {
            if step % (self.rows / ROWS_A_PIVOT).max(1) == 0 {
                self.find_duals();
            }
            let overpriced = self.duals.iter().enumerate().min_by(|a, b| a.1.total_cmp(b.1));
            let (column, entering) = match overpriced {
                Some((row, &dual)) if dual < -1e-12 => {
                    (Column { covers: vec![(row, -1.0)], price: 0.0, shape: usize::MAX }, Basic::Surplus)
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

    fn find_duals(&mut self) {
        self.duals.fill(0.0);
        let rows = self.prices.iter().zip(self.inverse.chunks_exact(self.rows.max(1)));
        for (&price, inverse) in rows.filter(|(price, _)| **price != 0.0) {
            self.duals.iter_mut().zip(inverse).for_each(|(dual, &entry)| *dual += price * entry);
        }
    }

    /// Returns true if the column entered the basis.
    fn enter(&mut self, column: &Column, entering: Basic) -> bool {
        let rows = self.rows;
        for (step, inverse) in self.direction.iter_mut().zip(self.inverse.chunks_exact(rows)) {
            *step = column.covers.iter().map(|&(row, covered)| inverse[row] * covered).sum();
        }
        let (level, direction) = (&self.level, &self.direction);
        let leaving = (0..rows)
            .filter(|&row| direction[row] > 1e-11)
            .min_by(|&a, &b| (level[a] / direction[a]).total_cmp(&(level[b] / direction[b])));
        let Some(leaving) = leaving else { return false };
        let worth: f64 = column.covers.iter().map(|&(row, covered)| self.duals[row] * covered).sum();
        pivot(&mut self.inverse, &mut self.level, &self.direction, leaving, rows);
        let inverse = &self.inverse[leaving * rows..][..rows];
        let reduced = column.price - worth;
        self.duals.iter_mut().zip(inverse).for_each(|(dual, &entry)| *dual += reduced * entry);
        self.prices[leaving] = column.price;
        self.basis[leaving] = entering;
        true
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
