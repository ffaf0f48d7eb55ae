//! A small linear program: cover demands by shapes at the least price.
//!
//! min Σ price·x over columns that are generated on demand, one row per demand, `≥ 1` after scaling. At most some forty
//! rows, so the inverse of the basis is kept dense. The result is only ever used through a dual that is made valid
//! afterwards (Farley), so an early stop costs sharpness, never correctness.

/// A column that the program asked for: what it covers of each row, and its price.
pub(crate) struct Column {
    pub(crate) covers: Vec<f64>,
    pub(crate) price: f64,
    /// Whose column it is.
    pub(crate) shape: usize,
}

/// The outcome.
#[derive(Debug, Clone)]
pub(crate) struct Solved {
    /// Price of one whole demand, by row.
    pub(crate) duals: Vec<f64>,
    /// Copies of each shape in the fractional optimum; only those in use.
    pub(crate) used: Vec<(usize, f64)>,
}

/// What sits in a basis row.
enum Basic {
    /// Nothing yet: an artificial column of prohibitive price.
    Artificial,
    /// More than was demanded.
    Surplus,
    Shape(usize),
}

/// Pivots at most; 6–60 are usual.
const MOST_PIVOTS: usize = 400;

/// Solves over `rows` demands. `price_out` returns the column with the most negative reduced price for the duals given,
/// or `None` if there is none. `prohibitive` must exceed the price of covering any one demand wholly.
pub(crate) fn solve(rows: usize, prohibitive: f64, mut price_out: impl FnMut(&[f64]) -> Option<Column>) -> Solved {
    // Rows are perturbed against cycling, by amounts that differ per row.
    let mut level: Vec<f64> = (0..rows).map(|row| 1.0 + 1e-9 * (row + 1) as f64).collect();
    let mut inverse = vec![0.0; rows * rows];
    (0..rows).for_each(|row| inverse[row * rows + row] = 1.0);
    let mut basis: Vec<Basic> = (0..rows).map(|_| Basic::Artificial).collect();
    let mut prices = vec![prohibitive; rows];
    let mut duals = prices.clone();
    let mut direction = vec![0.0; rows];
    for _ in 0..MOST_PIVOTS {
        duals.iter_mut().enumerate().for_each(|(column, dual)| {
            *dual = (0..rows).map(|row| prices[row] * inverse[row * rows + column]).sum();
        });
        let overpriced = duals.iter().enumerate().min_by(|a, b| a.1.total_cmp(b.1));
        let (covers, price, entering) = match overpriced {
            Some((row, &dual)) if dual < -1e-12 => {
                let mut covers = vec![0.0; rows];
                covers[row] = -1.0;
                (covers, 0.0, Basic::Surplus)
            }
            _ => match price_out(&duals) {
                Some(column) => (column.covers, column.price, Basic::Shape(column.shape)),
                None => break,
            },
        };
        for (row, step) in direction.iter_mut().enumerate() {
            *step = inverse[row * rows..][..rows].iter().zip(&covers).map(|(a, b)| a * b).sum();
        }
        let leaving = (0..rows)
            .filter(|&row| direction[row] > 1e-11)
            .min_by(|&a, &b| (level[a] / direction[a]).total_cmp(&(level[b] / direction[b])));
        let Some(leaving) = leaving else { break };
        pivot(&mut inverse, &mut level, &direction, leaving, rows);
        prices[leaving] = price;
        basis[leaving] = entering;
    }
    let used = basis
        .iter()
        .zip(&level)
        .filter_map(|(basic, &copies)| match basic {
            Basic::Shape(shape) if copies > 1e-9 => Some((*shape, copies)),
            _ => None,
        })
        .collect();
    duals.iter_mut().for_each(|dual| *dual = dual.max(0.0));
    Solved { duals, used }
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
