//! Where pods may go, apart from other pods: shapes worth looking at, and existing nodes with what is left of them.

use fixedbitset::FixedBitSet;

use super::groups::Grouped;
use crate::compile::{Compiled, Demand, Signature, fits};
use crate::model::{Requirements, Toleration};

/// An existing node while it is filled.
#[derive(Debug, Clone)]
pub(crate) struct Standing {
    /// Index in the problem.
    pub(crate) node: usize,
    pub(crate) cell: usize,
    pub(crate) room: Vec<i32>,
}

/// The existing nodes that take pods, initialized ones first, then by name.
pub(crate) fn standing(compiled: &Compiled<'_>) -> Vec<Standing> {
    let problem = compiled.problem;
    let mut order: Vec<usize> = (0..problem.nodes.len()).filter(|&node| !problem.nodes[node].deleting).collect();
    order.sort_by_key(|&node| (!problem.nodes[node].initialized, &problem.nodes[node].name));
    order
        .into_iter()
        .map(|node| {
            let one = &problem.nodes[node];
            let mut left = one.allocatable.clone();
            for bound in &one.bound {
                left.subtract(&problem.specs[bound.spec].requests);
            }
            left.subtract(&one.daemon_requests);
            Standing {
                node,
                cell: compiled.cells.of_node(&one.labels),
                room: compiled.columns.room(&left, &one.attach_limits),
            }
        })
        .collect()
}

/// For every signature of pods, the standing nodes (by position) whose labels and taints it accepts.
pub(crate) fn standing_admits(compiled: &Compiled<'_>, standing: &[Standing]) -> Vec<FixedBitSet> {
    compiled
        .signatures
        .iter()
        .map(|signature| {
            let mut set = FixedBitSet::with_capacity(standing.len());
            for (position, one) in standing.iter().enumerate() {
                let node = &compiled.problem.nodes[one.node];
                if signature.tolerates(&node.taints) && signature.admits_labels(&node.labels) {
                    set.insert(position);
                }
            }
            set
        })
        .collect()
}

/// Per domain rule: which values of its label count for the minimum of a spread.
pub(crate) fn counting_values(compiled: &Compiled<'_>, grouped: &Grouped, standing: &[Standing]) -> Vec<FixedBitSet> {
    let everything = |tolerations: Option<&Vec<Toleration>>| {
        tolerations.cloned().unwrap_or_else(|| vec![Toleration { key: None, value: None, effect: None }])
    };
    grouped
        .rules
        .domain
        .iter()
        .map(|rule| {
            let Some(dimension) = compiled.cells.dimension(&rule.key) else { return FixedBitSet::new() };
            let values = compiled.cells.dimensions[dimension].values.len();
            let mut counting = FixedBitSet::with_capacity(values);
            let filter = match &rule.demand {
                Demand::Spread { filter, .. } => filter.as_ref(),
                _ => None,
            };
            let signature = filter.map(|filter| {
                let terms =
                    if filter.node_terms.is_empty() { vec![Requirements::new()] } else { filter.node_terms.clone() };
                Signature {
                    alternatives: terms
                        .into_iter()
                        .map(|mut term| {
                            term.add_all(&filter.node_selector);
                            term
                        })
                        .collect(),
                    tolerations: everything(filter.tolerations.as_ref()),
                    host_ports: Vec::new(),
                    names_host: false,
                }
            });
            let admitted = signature.as_ref().map(|signature| compiled.admit_one(signature));
            for cell in 0..compiled.cells.len() {
                let Some(value) = compiled.cells.value_index(cell, dimension) else { continue };
                let launchable = compiled.shapes.iter().enumerate().any(|(shape, one)| {
                    one.offered(cell) && admitted.as_ref().is_none_or(|admitted| admitted[cell].contains(shape))
                });
                if launchable {
                    counting.insert(value);
                }
            }
            for one in standing {
                let node = &compiled.problem.nodes[one.node];
                let passes = signature
                    .as_ref()
                    .is_none_or(|signature| signature.tolerates(&node.taints) && signature.admits_labels(&node.labels));
                if let (true, Some(value)) = (passes, compiled.cells.value_index(one.cell, dimension)) {
                    counting.insert(value);
                }
            }
            counting
        })
        .collect()
}

/// Cells in which a unit of this signature and size can be put somewhere.
pub(crate) fn reach(
    compiled: &Compiled<'_>,
    grouped: &Grouped,
    signature: u32,
    sizes: &[i32],
    standing: &[Standing],
    standing_admits: &[FixedBitSet],
) -> FixedBitSet {
    let mut cells = FixedBitSet::with_capacity(compiled.cells.len());
    for (cell, admitted) in grouped.admits[signature as usize].iter().enumerate() {
        let fitting = admitted.ones().any(|shape| {
            let shape = &compiled.shapes[shape];
            shape.offered(cell) && fits(sizes, &shape.room)
        });
        if fitting {
            cells.insert(cell);
        }
    }
    let parts = &grouped.signature_parts[signature as usize];
    for (position, one) in standing.iter().enumerate() {
        let admitted = parts.iter().all(|&part| standing_admits[part as usize].contains(position));
        if !cells.contains(one.cell) && admitted && fits(sizes, &one.room) {
            cells.insert(one.cell);
        }
    }
    cells
}
