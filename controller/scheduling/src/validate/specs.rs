//! Pod constraints as dense rows: constraints that specs share are compared once.

use std::hash::Hash;

use index_vec::{Idx, IndexVec};
use rustc_hash::FxHashMap;

use crate::index::index_type;
use crate::labels::HOSTNAME;
use crate::model::{Node, Problem, Requirement, Requirements, Resource, Resources, Taint, Toleration};

/// Node constraints of a spec on labels: selector, one of the node terms, one of the volume terms.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct Placement<'a> {
    /// `nodeSelector`.
    pub(crate) selector: &'a Requirements,
    /// Alternatives of the required node affinity.
    pub(crate) node_terms: &'a [Requirements],
    /// Alternatives of the volumes.
    pub(crate) volume_terms: &'a [Requirements],
}

impl<'a> Placement<'a> {
    /// Returns true if it has no constraints.
    pub(crate) fn is_free(&self) -> bool {
        self.selector.is_empty() && self.node_terms.is_empty() && self.volume_terms.is_empty()
    }

    /// Returns true if `holds` returns true for the selector and for one term of each list.
    pub(crate) fn any(&self, holds: impl Fn(&'a Requirements) -> bool) -> bool {
        holds(self.selector)
            && (self.node_terms.is_empty() || self.node_terms.iter().any(&holds))
            && (self.volume_terms.is_empty() || self.volume_terms.iter().any(&holds))
    }

    /// Returns the placement without volumes, which do not decide which pods count for a spread.
    pub(crate) fn without_volumes(self) -> Self {
        Self { volume_terms: &[], ..self }
    }

    /// Returns true if the labels of an existing node match.
    pub(crate) fn suits(&self, node: &Node) -> bool {
        self.is_free()
            || self.any(|part| {
                part.iter().all(|(key, wanted)| match label(node, key) {
                    Some(value) => wanted.has(value),
                    None => wanted.allows_absence(),
                })
            })
    }

    /// Returns true if node selector and affinity allow `value` for `key`; volumes do not limit domains.
    pub(crate) fn allows(&self, key: &str, value: &str) -> bool {
        let allows = |term: &Requirements| term.get(key).is_none_or(|wanted| wanted.has(value));
        allows(self.selector) && (self.node_terms.is_empty() || self.node_terms.iter().any(allows))
    }

    /// Returns every combination of terms; contradictory combinations are left out.
    pub(crate) fn choices(&self) -> Vec<Requirements> {
        let free = [Requirements::new()];
        let nodes = if self.node_terms.is_empty() { &free[..] } else { self.node_terms };
        let volumes = if self.volume_terms.is_empty() { &free[..] } else { self.volume_terms };
        let mut choices = Vec::new();
        for node in nodes {
            for volume in volumes {
                let parts = [self.selector, node, volume];
                choices.extend(joined(&parts));
            }
        }
        choices
    }
}

/// Returns the intersection of all `parts`, unless two of them exclude each other.
pub(crate) fn joined(parts: &[&Requirements]) -> Option<Requirements> {
    let mut all = Requirements::new();
    for part in parts {
        if !all.intersects(part) {
            return None;
        }
        all.add_all(part);
    }
    Some(all)
}

index_type! {
    /// Position in [`Specs::placements`].
    pub(crate) struct PlacementId;
}

index_type! {
    /// Position in [`Specs::tolerances`].
    pub(crate) struct ToleranceId;
}

/// Specs, with requests as rows over the resources that any of them requests.
pub(crate) struct Specs<'a> {
    /// The problem.
    pub(crate) problem: &'a Problem,
    /// Columns of all rows.
    pub(crate) resources: Vec<&'a Resource>,
    requests: Vec<i64>,
    placement: Vec<PlacementId>,
    placements: IndexVec<PlacementId, Placement<'a>>,
    tolerance: Vec<ToleranceId>,
    tolerances: IndexVec<ToleranceId, &'a [Toleration]>,
}

impl<'a> Specs<'a> {
    /// Reads every spec once.
    pub(crate) fn new(problem: &'a Problem) -> Self {
        let mut resources: Vec<&Resource> = Vec::new();
        let lists = problem.specs.iter().map(|spec| &spec.requests);
        for (resource, _) in lists.flat_map(Resources::iter) {
            if let Err(at) = resources.binary_search(&resource) {
                resources.insert(at, resource);
            }
        }
        let mut specs = Self {
            problem,
            requests: Vec::with_capacity(problem.specs.len() * resources.len()),
            resources,
            placement: Vec::with_capacity(problem.specs.len()),
            placements: IndexVec::new(),
            tolerance: Vec::with_capacity(problem.specs.len()),
            tolerances: IndexVec::new(),
        };
        let mut placements = FxHashMap::default();
        let mut tolerances = FxHashMap::default();
        for spec in &problem.specs {
            let row = specs.row(&spec.requests);
            specs.requests.extend(row);
            let placement = Placement {
                selector: &spec.node_selector,
                node_terms: &spec.node_terms,
                volume_terms: &spec.volume_terms,
            };
            specs.placement.push(intern(&mut placements, &mut specs.placements, placement));
            specs.tolerance.push(intern(&mut tolerances, &mut specs.tolerances, &spec.tolerations[..]));
        }
        specs
    }

    /// Returns `amounts` as a row.
    pub(crate) fn row(&self, amounts: &Resources) -> Vec<i64> {
        let mut row = vec![0; self.resources.len()];
        for (resource, amount) in amounts.iter() {
            if let Ok(at) = self.resources.binary_search(&resource) {
                row[at] = amount;
            }
        }
        row
    }

    /// Returns the requests of a pod of `spec`.
    pub(crate) fn request(&self, spec: usize) -> &[i64] {
        let width = self.resources.len();
        &self.requests[spec * width..(spec + 1) * width]
    }

    /// Returns the id of the placement of `spec`.
    pub(crate) fn placement_id(&self, spec: usize) -> PlacementId {
        self.placement[spec]
    }

    /// Returns the placement with id `id`.
    pub(crate) fn placement(&self, id: PlacementId) -> &Placement<'a> {
        &self.placements[id]
    }

    /// Returns the id of the tolerations of `spec`.
    pub(crate) fn tolerance_id(&self, spec: usize) -> ToleranceId {
        self.tolerance[spec]
    }

    /// Returns the first taint that keeps pods with these tolerations off.
    pub(crate) fn repelled_by<'t>(&self, tolerance: ToleranceId, taints: &'t [Taint]) -> Option<&'t Taint> {
        let tolerations = self.tolerances[tolerance];
        taints.iter().filter(|taint| taint.repels()).find(|taint| !tolerations.iter().any(|it| it.tolerates(taint)))
    }

    /// Returns true if the labels of an existing node match the placement.
    pub(crate) fn suits(&self, placement: PlacementId, node: &Node) -> bool {
        self.placement(placement).suits(node)
    }
}

/// Returns the id of `item`, which is stored once.
pub(crate) fn intern<I: Idx, T: Copy + Eq + Hash>(ids: &mut FxHashMap<T, I>, items: &mut IndexVec<I, T>, item: T) -> I {
    *ids.entry(item).or_insert_with(|| items.push(item))
}

/// Adds `more` to `row`.
pub(crate) fn add_row(row: &mut [i64], more: &[i64]) {
    for (amount, more) in row.iter_mut().zip(more) {
        *amount = amount.saturating_add(*more);
    }
}

/// Returns true if `request` fits into `room`; a resource that is not requested may be overcommitted.
pub(crate) fn fits(request: &[i64], room: &[i64]) -> bool {
    request.iter().zip(room).all(|(&request, &room)| request <= room || request <= 0)
}

/// Returns the value of `key` on a node; beta labels count as the stable ones.
pub(crate) fn label<'n>(node: &'n Node, key: &str) -> Option<&'n str> {
    let renamed = || node.labels.iter().find(|(other, _)| crate::labels::stable_name(other) == key);
    if let Some(value) = node.labels.get(key) {
        return Some(value);
    }
    if let Some((_, value)) = renamed() {
        return Some(value);
    }
    (key == HOSTNAME).then_some(&*node.name)
}

/// Returns true if every value that `have` allows is allowed by `wanted`.
pub(crate) fn implies(have: &Requirement, wanted: &Requirement) -> bool {
    if have.is_finite() {
        let mut values = have.values().peekable();
        return if values.peek().is_none() { wanted.allows_absence() } else { values.all(|value| wanted.has(value)) };
    }
    let both = have.intersection(wanted);
    !both.is_finite() && both.bounds() == have.bounds() && both.values().eq(have.values())
}
