//! Locations for pods, regardless of other pods: cells that they can reach, and existing nodes with their remaining
//! room. Also the values and nodes that count for spreads.

use fixedbitset::FixedBitSet;
use index_vec::{Idx, IndexSlice, IndexVec};
use rustc_hash::FxHashMap;

use super::groups::Grouped;
use crate::compile::{CellId, Compiled, Demand, DomainRuleId, Filter, SignatureId, fits};
use crate::labels;
use crate::model::{Node, Problem, Requirement, Requirements, Resources, Taint};
use crate::second_round;

/// Existing node while it is filled.
#[derive(Debug, Clone)]
pub(crate) struct ExistingNode {
    /// Index of the node in the problem.
    pub(crate) node: usize,
    pub(crate) cell: CellId,
    pub(crate) room: Vec<i32>,
}

/// Returns the existing nodes that are not being deleted, initialized ones first, then by name.
pub(crate) fn standing(compiled: &Compiled<'_>) -> Vec<ExistingNode> {
    let problem = compiled.problem;
    let mut order = second_round::staying(problem);
    order.sort_by_key(|&node| (!problem.nodes[node].initialized, &problem.nodes[node].name));
    order
        .into_iter()
        .map(|node| {
            let one = &problem.nodes[node];
            ExistingNode {
                node,
                cell: compiled.cells.of_node(&one.labels),
                room: compiled.columns.room(&room_left(problem, one), &one.attach_limits, &one.volumes(&problem.specs)),
            }
        })
        .collect()
}

/// Returns the allocatable resources of a node less the requests of bound pods and daemons.
pub(crate) fn room_left(problem: &Problem, node: &Node) -> Resources {
    let mut left = node.allocatable.clone();
    for bound in &node.bound {
        left.subtract(&problem.specs[bound.spec].requests);
    }
    left.subtract(&node.daemon_requests);
    left
}

/// Returns for every signature of pods the existing nodes (by position) whose labels and taints it accepts.
pub(crate) fn standing_admits(
    compiled: &Compiled<'_>,
    standing: &[ExistingNode],
) -> IndexVec<SignatureId, FixedBitSet> {
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

/// Returns by domain rule the values of its label that count for the minimum of a spread. As with Karpenter, a value
/// counts if some open pool and one of its types allow it, whether currently on offer or not, or if an existing node
/// has it; and if the owner's node selector and affinity allow it.
pub(crate) fn counting_values(
    compiled: &Compiled<'_>,
    grouped: &Grouped,
    standing: &[ExistingNode],
) -> IndexVec<DomainRuleId, FixedBitSet> {
    let rules = &grouped.rules.domain;
    // Many rules share the dimension and filter and differ only in the pods they count.
    let mut known: FxHashMap<(usize, Option<&Filter>), FixedBitSet> = FxHashMap::default();
    rules
        .iter()
        .map(|rule| {
            let Some(dimension) = compiled.cells.dimension(&rule.key) else { return FixedBitSet::new() };
            let Demand::Spread { filter, .. } = &rule.demand else { return FixedBitSet::new() };
            let filter = filter.as_ref();
            known.entry((dimension, filter)).or_insert_with(|| counting(compiled, dimension, filter, standing)).clone()
        })
        .collect()
}

fn counting(
    compiled: &Compiled<'_>,
    dimension: usize,
    filter: Option<&Filter>,
    standing: &[ExistingNode],
) -> FixedBitSet {
    let of = &compiled.cells.dimensions[dimension];
    let mut counting = FixedBitSet::with_capacity(of.values.len());
    let tolerated = |taints: &[Taint]| filter.is_none_or(|filter| filter.tolerates(taints));
    for (pool, used) in compiled.problem.pools.iter().zip(&compiled.pools) {
        if used.open && tolerated(&pool.taints) {
            counting.union_with(&of.values_of(used, &compiled.problem.catalogues[pool.catalogue]));
        }
    }
    for one in standing {
        let node = &compiled.problem.nodes[one.node];
        let counts = filter.is_none_or(|filter| filter.counts_on(node));
        if let (true, Some(value)) = (counts, compiled.cells.value_index(one.cell, dimension)) {
            counting.insert(value);
        }
    }
    let allowed = |value: usize| filter.is_none_or(|filter| filter.allows(&of.key, &of.values[value]));
    (0..of.values.len()).filter(|&value| counting.contains(value) && allowed(value)).collect()
}

/// Returns by domain rule the values of its label in which no node counts for a spread, whatever is launched there,
/// because the owner's node selector and affinity exclude them. Labels outside the cells may exclude nodes in other
/// values too.
pub(crate) fn deaf_values(
    compiled: &Compiled<'_>,
    grouped: &Grouped,
    standing: &[ExistingNode],
) -> IndexVec<DomainRuleId, FixedBitSet> {
    let rules = grouped.rules.domain.iter();
    let mut known: FxHashMap<(usize, &Filter), FixedBitSet> = FxHashMap::default();
    rules
        .map(|rule| {
            let (Some(dimension), Some(filter)) = (compiled.cells.dimension(&rule.key), narrow_filter(&rule.demand))
            else {
                return FixedBitSet::new();
            };
            known.entry((dimension, filter)).or_insert_with(|| deaf(compiled, dimension, filter, standing)).clone()
        })
        .collect()
}

fn deaf(compiled: &Compiled<'_>, dimension: usize, filter: &Filter, standing: &[ExistingNode]) -> FixedBitSet {
    let mut deaf = FixedBitSet::with_capacity(compiled.cells.dimensions[dimension].values.len());
    deaf.insert_range(..);
    let heard = compiled.cells.indices().filter(|&cell| hears(compiled, filter, cell));
    heard.filter_map(|cell| compiled.cells.value_index(cell, dimension)).for_each(|value| deaf.remove(value));
    for one in standing.iter().filter(|one| filter.counts_on(&compiled.problem.nodes[one.node])) {
        compiled.cells.value_index(one.cell, dimension).into_iter().for_each(|value| deaf.remove(value));
    }
    deaf
}

/// Returns the filter of a spread; `None` if its node selector and affinity exclude no node.
fn narrow_filter(demand: &Demand) -> Option<&Filter> {
    match demand {
        Demand::Spread { filter: Some(filter), .. } if !filter.every_node => Some(filter),
        _ => None,
    }
}

/// Returns true if some spread has a node filter.
pub(crate) fn counts_some_nodes(grouped: &Grouped) -> bool {
    grouped.rules.domain.iter().any(|rule| match &rule.demand {
        Demand::Spread { filter, .. } => filter.is_some(),
        Demand::AtMost(_) | Demand::Company => false,
    })
}

/// Returns true if a new node in `cell` may count for a spread, as far as the cell determines its labels.
fn hears(compiled: &Compiled<'_>, filter: &Filter, cell: CellId) -> bool {
    let possible = |key: &str, wanted: &Requirement| match compiled.cells.dimension(key) {
        Some(dimension) => match compiled.cells.value(cell, dimension) {
            Some(value) => wanted.has(value),
            None => true,
        },
        None => {
            wanted.allows_absence()
                || compiled.problem.pools.iter().zip(&compiled.pools).any(|(pool, used)| {
                    let column = compiled.problem.catalogues[pool.catalogue].column(key);
                    let of_types = column.map_or(&[][..], |column| &column.distinct);
                    used.open
                        && (used.requirements.get(key).is_some_and(|own| own.meets(wanted))
                            || of_types.iter().flatten().any(|own| own.meets(wanted)))
                })
        }
    };
    let holds = |term: &Requirements| term.iter().all(|(key, wanted)| possible(key, wanted));
    holds(&filter.node_selector) && (filter.node_terms.is_empty() || filter.node_terms.iter().any(holds))
}

/// Returns true if pods on a new node with `pods` count for a spread.
pub(crate) fn counts_on_new(
    compiled: &Compiled<'_>,
    grouped: &Grouped,
    filter: &Filter,
    (shape, cell): (usize, CellId),
    pods: impl Iterator<Item = u32> + Clone,
) -> bool {
    let Some(shape) = compiled.shapes.get(shape) else { return true };
    let pool = &compiled.problem.pools[shape.pool];
    let own = &compiled.problem.catalogues[pool.catalogue][shape.instance_type].requirements;
    let fixed = |key: &str| own.single(key).or_else(|| compiled.pools[shape.pool].requirements.single(key));
    // A label that neither offering, type nor pool decides is on the node only if a pod requires it.
    let asked = |key: &str, dimension: usize| {
        pods.clone().any(|pod| {
            let id = compiled.problem.pods[pod as usize].spec;
            let spec = &compiled.problem.specs[id];
            let mut terms = std::iter::once(&spec.node_selector).chain(&spec.node_terms).chain(&spec.volume_terms);
            grouped.pinned_of_spec[id].contains(dimension) || terms.any(|term| term.get(key).is_some())
        })
    };
    let label = |key: &str| match compiled.cells.dimension(key) {
        Some(dimension) => {
            let offered = compiled.cells.offering_keys().iter().any(|known| &**known == key);
            let decided = offered || fixed(key).is_some() || asked(key, dimension);
            compiled.cells.value(cell, dimension).filter(|_| decided)
        }
        None => fixed(key),
    };
    filter.tolerates(&pool.taints) && (filter.every_node || filter.suits_labels(label))
}

/// Returns true if the price of some shape differs between zones by more than 0.1 %.
pub(crate) fn prices_differ_by_zone(compiled: &Compiled<'_>) -> bool {
    let Some(zone) = compiled.cells.dimension(labels::ZONE) else { return false };
    let zones = compiled.cells.dimensions[zone].values.len();
    compiled.shapes.iter().any(|shape| {
        let cheapest_in = |zone_value: usize| {
            let prices = shape.price.iter_enumerated();
            let here = prices.filter(|&(cell, _)| compiled.cells.value_index(cell, zone) == Some(zone_value));
            here.map(|(_, &price)| price).fold(f64::INFINITY, f64::min)
        };
        let offered = (0..zones).map(cheapest_in).filter(|price| price.is_finite());
        let (least, most) =
            offered.fold((f64::INFINITY, 0.0_f64), |(least, most), price| (least.min(price), most.max(price)));
        most > least * 1.001
    })
}

/// Returns the cells in which a unit of this signature and size can be placed.
pub(crate) fn reach(
    compiled: &Compiled<'_>,
    grouped: &Grouped,
    signature: SignatureId,
    sizes: &[i32],
    standing: &[ExistingNode],
    standing_admits: &IndexSlice<SignatureId, [FixedBitSet]>,
) -> FixedBitSet {
    let mut cells = FixedBitSet::with_capacity(compiled.cells.len());
    let mut known: Vec<Option<bool>> = vec![None; compiled.shapes.len()];
    let mut holds = |shape: usize| *known[shape].get_or_insert_with(|| fits(sizes, &compiled.shapes[shape].room));
    if (0..compiled.shapes.len()).any(&mut holds) {
        let by_cell = grouped.admits[signature].iter_enumerated().zip(compiled.offered());
        let reached = by_cell.filter(|((_, admitted), offered)| admitted.intersection(offered).any(&mut holds));
        cells.extend(reached.map(|((cell, _), _)| cell.index()));
    }
    let parts = &grouped.signature_parts[signature];
    for (position, one) in standing.iter().enumerate() {
        let admitted = parts.iter().all(|&part| standing_admits[part].contains(position));
        let confined = grouped.confines(signature, one.node);
        if !cells.contains(one.cell.index()) && admitted && confined && fits(sizes, &one.room) {
            cells.insert(one.cell.index());
        }
    }
    cells
}
