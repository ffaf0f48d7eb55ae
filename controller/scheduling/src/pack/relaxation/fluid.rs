//! Fluid bound: treats pods as divisible and fills fractions of nodes with them.
//!
//! Rows are (group of signatures, resource) and a minimum number of nodes. A node's resource is credited to the
//! highest-priced group that the node admits, so the dual gives every pod a price, `Σ_r u[group][r]·size_r`, and the
//! contents of a node never cost more than the node.

use fixedbitset::FixedBitSet;

use super::simplex::{Column, Program};

/// A shape, as the bound needs it.
pub(crate) struct Source<'a> {
    pub(crate) room: &'a [i32],
    pub(crate) price: f64,
    /// Groups that the shape admits.
    pub(crate) groups: &'a FixedBitSet,
}

/// Total demand that the nodes must cover.
#[derive(Debug, Clone)]
pub(crate) struct Demands {
    /// Sum of sizes, `[group * width + column]`.
    pub(crate) totals: Vec<f64>,
    pub(crate) groups: usize,
    pub(crate) width: usize,
    /// Minimum number of nodes that rules enforce, 0 if none do.
    pub(crate) least_nodes: f64,
}

/// Dual prices of resources, per group.
#[derive(Debug, Clone)]
pub(crate) struct Duals {
    /// USD per unit of a column, `[group * width + column]`.
    pub(crate) unit: Vec<f64>,
    /// USD per node.
    pub(crate) node: f64,
    /// Sources used in the optimum, with the fractional number of nodes of each.
    pub(crate) used: Vec<(usize, f64)>,
}

impl Duals {
    /// Returns the price of a pod, in USD per hour.
    pub(crate) fn value(&self, group: usize, width: usize, sizes: &[i32]) -> f64 {
        self.unit[group * width..][..width].iter().zip(sizes).map(|(unit, &size)| unit * f64::from(size)).sum()
    }

    /// Returns the highest price of any contents of a source.
    pub(crate) fn worth(&self, source: &Source<'_>, width: usize) -> f64 {
        let mut worth = self.node;
        for (column, &room) in source.room.iter().enumerate() {
            if room > 0 {
                let dearest = source.groups.ones().map(|group| self.unit[group * width + column]).fold(0.0, f64::max);
                worth += dearest * f64::from(room);
            }
        }
        worth
    }
}

/// Maximum number of pivots; 6–60 are usual.
const MOST_PIVOTS: usize = 400;

/// Solves the fluid program. Every source must have a price above 0.
pub(crate) fn solve(sources: &[Source<'_>], demands: &Demands) -> Duals {
    let width = demands.width;
    let rows: Vec<usize> = (0..demands.totals.len()).filter(|&row| demands.totals[row] > 0.0).collect();
    let node_row = (demands.least_nodes > 0.0).then_some(rows.len());
    let count = rows.len() + usize::from(node_row.is_some());
    let mut row_of = vec![usize::MAX; demands.totals.len()];
    rows.iter().enumerate().for_each(|(row, &at)| row_of[at] = row);
    let scale: Vec<f64> = rows.iter().map(|&at| 1.0 / demands.totals[at]).collect();
    let prohibitive = 1e3 * sources.iter().map(|source| source.price).fold(0.0, f64::max) * pieces(sources, demands);
    let mut program = Program::new(&vec![prohibitive.max(1.0); count]);
    program.solve(MOST_PIVOTS, |duals| {
        let mut best: Option<(f64, usize)> = None;
        for (index, source) in sources.iter().enumerate() {
            let mut worth = node_row.map_or(0.0, |row| duals[row] / demands.least_nodes);
            for (column, &room) in source.room.iter().enumerate() {
                let mut dearest = 0.0_f64;
                for group in source.groups.ones() {
                    let row = row_of[group * width + column];
                    if row != usize::MAX {
                        dearest = dearest.max(duals[row] * scale[row]);
                    }
                }
                worth += dearest * f64::from(room.max(0));
            }
            let gain = worth / source.price;
            if gain > 1.0 + 1e-9 && best.is_none_or(|(most, _)| gain > most) {
                best = Some((gain, index));
            }
        }
        let (_, index) = best?;
        let source = &sources[index];
        let mut covers = Vec::with_capacity(demands.width + 1);
        covers.extend(node_row.map(|row| (row, 1.0 / demands.least_nodes)));
        for (column, &room) in source.room.iter().enumerate() {
            let mut dearest: Option<(f64, usize)> = None;
            for group in source.groups.ones() {
                let row = row_of[group * width + column];
                if row != usize::MAX && dearest.is_none_or(|(most, _)| duals[row] * scale[row] > most) {
                    dearest = Some((duals[row] * scale[row], row));
                }
            }
            if let Some((_, row)) = dearest {
                covers.push((row, f64::from(room.max(0)) * scale[row]));
            }
        }
        Some(Column { covers, price: source.price, shape: index })
    });
    let mut unit = vec![0.0; demands.totals.len()];
    let mut node = 0.0;
    for (row, dual) in program.duals().enumerate() {
        match rows.get(row) {
            Some(&at) => unit[at] = dual * scale[row],
            None => node = dual / demands.least_nodes,
        }
    }
    Duals { unit, node, used: program.used() }
}

/// Returns an upper bound on the nodes that one demand needs: the largest demand divided by the smallest room for it.
fn pieces(sources: &[Source<'_>], demands: &Demands) -> f64 {
    let mut most = demands.least_nodes.max(1.0);
    for column in 0..demands.width {
        let total: f64 = (0..demands.groups).map(|group| demands.totals[group * demands.width + column]).sum();
        let rooms = sources.iter().map(|source| f64::from(source.room[column])).filter(|&room| room > 0.0);
        let least = rooms.fold(f64::INFINITY, f64::min);
        if least.is_finite() {
            most = most.max(total / least);
        }
    }
    most
}

/// Returns the factor that makes `duals` valid whatever the simplex returned (Farley): scaled by it, no source is worth
/// more than its price. The bound is this factor times the value of the demands under `duals`.
pub(crate) fn valid_scale(duals: &Duals, sources: &[Source<'_>], width: usize) -> f64 {
    sources
        .iter()
        .map(|source| {
            let worth = duals.worth(source, width);
            if worth > 0.0 { source.price / worth } else { f64::INFINITY }
        })
        .fold(f64::INFINITY, f64::min)
}

/// Returns the value of the demands under `duals`, not yet scaled.
pub(crate) fn value(duals: &Duals, demands: &Demands) -> f64 {
    let covered: f64 = duals.unit.iter().zip(&demands.totals).map(|(unit, total)| unit * total).sum();
    covered + duals.node * demands.least_nodes
}
