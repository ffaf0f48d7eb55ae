//! Labels that cells must distinguish for rules between pods.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use fixedbitset::FixedBitSet;

use super::selection::Selection;
use super::shapes::PoolUse;
use crate::labels;
use crate::model::{AffinityTerm, PodSpec, Problem, Requirement, SpecId};

/// Topology keys of rules, without hostnames.
#[derive(Debug, Clone, Default)]
pub(crate) struct TopologyKeys {
    /// Keys of required spreads and terms of pending pods, and of required anti-affinity of bound pods.
    pub(crate) required: BTreeSet<Arc<str>>,
    /// Keys of preferred constraints of pending pods that are considered.
    pub(crate) preferred: BTreeSet<Arc<str>>,
}

/// Maximum number of values of a label whose preferred spread is considered. With more, each value is a domain of its
/// own, every unit is compared with all of them, and an even spread means as many kinds of nodes as values. Zones and
/// capacity types are considered with any number of values.
const MOST_PREFERRED_VALUES: usize = 20;

/// Maximum number of values of a narrow label. A label with more makes kinds of nodes by the hundred: EC2 has eight
/// generations and seventeen categories.
const MOST_NARROW_VALUES: usize = 8;

/// Returns true if each of the `values` values of `key` is a domain of its own that costs pods without rules about
/// `key` more than it is worth.
pub(crate) fn is_wide(key: &Arc<str>, values: usize) -> bool {
    &**key != labels::HOSTNAME && !is_decided(key) && values > MOST_NARROW_VALUES
}

impl TopologyKeys {
    pub(crate) fn new(problem: &Problem, pools: &[PoolUse], pending: &[SpecId]) -> Self {
        let mut keys = Self::default();
        for &spec in pending {
            let spec = &problem.specs[spec];
            let (required, preferred): (Vec<_>, Vec<_>) = spec.spread.iter().partition(|spread| spread.required);
            keys.required.extend(required.into_iter().map(|spread| &spread.topology_key).cloned());
            keys.preferred.extend(preferred.into_iter().map(|spread| &spread.topology_key).cloned());
            let terms = spec.affinity.iter().chain(&spec.anti_affinity);
            keys.required.extend(terms.map(|term| &term.topology_key).cloned());
            for preferred in &spec.preferred_node_terms {
                keys.preferred.extend(preferred.term.iter().map(|(key, _)| key).filter(|key| is_decided(key)).cloned());
            }
        }
        keys.add_bound(problem, pools, pending);
        keys.required.remove(labels::HOSTNAME);
        keys.preferred.remove(labels::HOSTNAME);
        keys.preferred.retain(|key| {
            is_decided(key) || (1..=MOST_PREFERRED_VALUES).contains(&topology_values(problem, pools, key))
        });
        keys
    }

    /// Adds the labels of anti-affinity of bound pods; of wide labels only those whose terms exclude some pending pod.
    fn add_bound(&mut self, problem: &Problem, pools: &[PoolUse], pending: &[SpecId]) {
        let mut is_bound = FixedBitSet::with_capacity(problem.specs.len());
        problem.nodes.iter().flat_map(|node| &node.bound).for_each(|bound| is_bound.insert(bound.spec));
        let mut wide: BTreeMap<&Arc<str>, Selection> = BTreeMap::new();
        let mut terms: Vec<&AffinityTerm> = Vec::new();
        for term in is_bound.ones().flat_map(|spec| &problem.specs[spec].anti_affinity) {
            let key = &term.topology_key;
            if self.required.contains(key) || &**key == labels::HOSTNAME {
                continue;
            }
            if !wide.contains_key(key) && !is_wide(key, topology_values(problem, pools, key)) {
                self.required.insert(Arc::clone(key));
                continue;
            }
            wide.entry(key).or_default().add(terms.len() as u32, &term.selector, &term.namespaces);
            terms.push(term);
        }
        for (key, selection) in wide {
            let mut specs = pending.iter().map(|&spec| &problem.specs[spec]);
            let holds_off = |spec: &PodSpec| {
                let selects = |term: u32| {
                    let AffinityTerm { selector, namespaces, .. } = terms[term as usize];
                    namespaces.contains(&spec.namespace) && selector.matches(&spec.labels)
                };
                !selection.of(&spec.namespace, &spec.labels, selects).is_empty()
            };
            if specs.any(holds_off) {
                self.required.insert(Arc::clone(key));
            }
        }
    }

    /// Removes wide labels, for callers that ignore rules about them.
    pub(crate) fn narrow(mut self, problem: &Problem, pools: &[PoolUse]) -> Self {
        self.required.retain(|key| !is_wide(key, topology_values(problem, pools, key)));
        self
    }

    /// Returns all keys.
    pub(crate) fn all(&self) -> BTreeSet<Arc<str>> {
        self.required.union(&self.preferred).cloned().collect()
    }
}

/// Returns true if every launch decides the label: zone and capacity type.
pub(crate) fn is_decided(key: &Arc<str>) -> bool {
    [labels::ZONE, labels::CAPACITY_TYPE].contains(&&**key)
}

/// Returns the number of values of `key` that pools and nodes offer.
pub(crate) fn topology_values(problem: &Problem, pools: &[PoolUse], key: &str) -> usize {
    let mut values: BTreeSet<&Arc<str>> = problem.nodes.iter().filter_map(|node| node.labels.get(key)).collect();
    for (pool, used) in problem.pools.iter().zip(pools).filter(|(_, used)| used.open) {
        let of_pool = used.requirements.get(key);
        let types = &problem.catalogues[pool.catalogue];
        let Some(column) = types.column(key) else {
            values.extend(of_pool.filter(|listed| listed.is_finite()).into_iter().flat_map(Requirement::values));
            continue;
        };
        let mut seen = vec![false; column.distinct.len()];
        for number in types.suiting(&used.requirements).ones() {
            let id = column.of_type[number] as usize;
            if !std::mem::replace(&mut seen[id], true) {
                let listed = column.distinct[id].as_ref().or(of_pool).filter(|listed| listed.is_finite());
                let listed = listed.into_iter().flat_map(Requirement::values);
                values.extend(listed.filter(|value| of_pool.is_none_or(|pool| pool.has(value))));
            }
        }
    }
    values.len()
}
