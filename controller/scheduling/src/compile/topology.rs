//! Which labels cells must tell apart for the sake of rules between pods.

use std::collections::BTreeSet;
use std::sync::Arc;

use super::shapes::PoolUse;
use crate::labels;
use crate::model::{Problem, Requirement, SpecId};

/// Labels that rules are about, hostnames aside.
#[derive(Debug, Clone, Default)]
pub(crate) struct TopologyKeys {
    /// Some pending pod spreads over it, or a term of any pod is about it, and must hold.
    pub(crate) required: BTreeSet<Arc<str>>,
    /// Some pending pod prefers something of it, and that is looked at.
    pub(crate) preferred: BTreeSet<Arc<str>>,
}

/// A preferred spread over a label of more values is not looked at: each value is a domain of its own, every unit is weighed
/// against all of them, and so even a spread means as many kinds of nodes as there are values. Zones and capacity types are
/// looked at however many there are.
const MOST_PREFERRED_VALUES: usize = 20;

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
                keys.preferred.extend(preferred.term.iter().map(|(key, _)| key).filter(|key| decided(key)).cloned());
            }
        }
        for bound in problem.nodes.iter().flat_map(|node| &node.bound) {
            keys.required
                .extend(problem.specs[bound.spec].anti_affinity.iter().map(|term| &term.topology_key).cloned());
        }
        keys.required.remove(labels::HOSTNAME);
        keys.preferred.remove(labels::HOSTNAME);
        keys.preferred.retain(|key| decided(key) || (1..=MOST_PREFERRED_VALUES).contains(&values(problem, pools, key)));
        keys
    }

    /// All of them.
    pub(crate) fn all(&self) -> BTreeSet<Arc<str>> {
        self.required.union(&self.preferred).cloned().collect()
    }
}

/// Whether it is one of the two labels that every launch decides.
fn decided(key: &Arc<str>) -> bool {
    [labels::ZONE, labels::CAPACITY_TYPE].contains(&&**key)
}

/// How many values of `key` pools and nodes offer.
fn values(problem: &Problem, pools: &[PoolUse], key: &str) -> usize {
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
