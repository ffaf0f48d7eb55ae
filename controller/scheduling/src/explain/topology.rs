//! Checks of a pod's affinity and anti-affinity against the pods that have a place.

use std::cell::OnceCell;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use super::census::{Census, Location, alternatives};
use super::finding::{Finding, Stage};
use super::{likeness, wording};
use crate::labels;
use crate::model::{AffinityTerm, Operator, PodSpec, Requirement, Requirements};
use crate::solution::Reason;

pub(super) type Counts = BTreeMap<Arc<str>, u32>;

/// A possible place of the pod.
#[derive(Debug, Clone, Copy)]
pub(super) enum Place {
    /// A new node of this pool.
    Pool(usize),
    /// This existing node.
    Node(usize),
}

/// Placeholder for the hostname of a node that does not exist yet.
const NEW_HOST: &str = "a new node";

/// The rules of one pod about others, with counts that are shared by all the places it is checked against.
#[derive(Debug)]
pub(super) struct Rules<'s> {
    pub(super) spec: &'s PodSpec,
    /// Combinations of the selector with each required node affinity term.
    pub(super) wanted: Vec<Requirements>,
    spreads: Vec<OnceCell<Counts>>,
    affinity: Vec<OnceCell<Counts>>,
    anti_affinity: Vec<OnceCell<Counts>>,
    inverse: OnceCell<BTreeMap<Arc<str>, Counts>>,
}

impl<'s> Rules<'s> {
    pub(super) fn new(spec: &'s PodSpec) -> Self {
        let empty = |count| (0..count).map(|_| OnceCell::new()).collect();
        Self {
            spec,
            wanted: alternatives(spec).collect(),
            spreads: empty(spec.spread.len()),
            affinity: empty(spec.affinity.len()),
            anti_affinity: empty(spec.anti_affinity.len()),
            inverse: OnceCell::new(),
        }
    }
}

/// Narrows `requirements` to the domains in which every rule holds.
pub(super) fn narrow(
    census: &Census<'_>,
    place: Place,
    rules: &Rules<'_>,
    requirements: &mut Requirements,
) -> Result<(), Finding> {
    let scope = Scope { census, place, rules, spec: rules.spec };
    for (spread, counts) in rules.spec.spread.iter().zip(&rules.spreads).filter(|(spread, _)| spread.required) {
        scope.spread(spread, counts.get_or_init(|| scope.spread_counts(spread)), requirements)?;
    }
    for (term, counts) in rules.spec.affinity.iter().zip(&rules.affinity) {
        scope.affinity(term, counts.get_or_init(|| scope.term_counts(term)), requirements)?;
    }
    for (term, counts) in rules.spec.anti_affinity.iter().zip(&rules.anti_affinity) {
        let counts = counts.get_or_init(|| scope.term_counts(term));
        scope.avoid(&term.topology_key, counts, &wording::selector(&term.selector), requirements)?;
    }
    let inverse = rules.inverse.get_or_init(|| scope.inverse_counts()).iter();
    // A node without the label is in no domain that the owners keep to themselves.
    let mut inverse = inverse.filter(|(key, _)| scope.has_domains(labels::stable_name(key)));
    inverse.try_for_each(|(key, counts)| scope.avoid(key, counts, "anti-affinity of other pods", requirements))
}

pub(super) struct Scope<'c, 'a> {
    pub(super) census: &'c Census<'a>,
    pub(super) place: Place,
    pub(super) rules: &'c Rules<'c>,
    pub(super) spec: &'c PodSpec,
}

impl Scope<'_, '_> {
    /// Returns the domains of `key` that the pod can still reach here.
    pub(super) fn reachable(&self, key: &str, requirements: &Requirements) -> BTreeSet<Arc<str>> {
        let allowed = |value: &Arc<str>| requirements.get(key).is_none_or(|wanted| wanted.has(value));
        match self.place {
            Place::Node(node) => self.census.domain(Location::Existing(node), key).into_iter().collect(),
            Place::Pool(_) if key == labels::HOSTNAME => [NEW_HOST.into()].into(),
            Place::Pool(pool) => {
                let domains = self.census.pool_domains(pool, key);
                domains.into_iter().flatten().filter(|value| allowed(value)).cloned().collect()
            }
        }
    }

    /// Returns true if nodes here have a value of `key`.
    fn has_domains(&self, key: &str) -> bool {
        match self.place {
            Place::Node(node) => self.census.domain(Location::Existing(node), key).is_some(),
            Place::Pool(_) if key == labels::HOSTNAME => true,
            Place::Pool(pool) => self.census.pool_domains(pool, key).is_some_and(|domains| !domains.is_empty()),
        }
    }

    pub(super) fn counts(
        &self,
        key: &str,
        matches: impl Fn(&PodSpec) -> bool,
        counted: impl Fn(Location) -> bool,
    ) -> BTreeMap<Arc<str>, u32> {
        let mut counts = Counts::new();
        for (location, pods) in self.census.tenants(matches).filter(|(location, _)| counted(*location)) {
            if let Some(domain) = self.census.domain(location, key) {
                *counts.entry(domain).or_default() += pods;
            }
        }
        counts
    }

    pub(super) fn commit(&self, key: &str, domains: &[Arc<str>], requirements: &mut Requirements) {
        if matches!(self.place, Place::Pool(_)) && key != labels::HOSTNAME {
            requirements.add(key, Requirement::new(Operator::In, domains.iter().cloned()));
        }
    }

    fn term_counts(&self, term: &AffinityTerm) -> Counts {
        self.counts(labels::stable_name(&term.topology_key), |other| meant(term, other), |_| true)
    }

    /// Returns the hint for a pod that can reach no domain of `key`.
    pub(super) fn unreached(&self, key: &str) -> String {
        let there = match self.place {
            Place::Pool(pool) => self.census.pool_domains(pool, key).filter(|domains| !domains.is_empty()),
            Place::Node(_) => None,
        };
        if let Some(domains) = there {
            let domains = wording::list(domains, " ");
            return format!(
                "the pod's other constraints exclude each {key} of the nodepool ({domains}): loosen one of them"
            );
        }
        let mut known = self.census.known_keys();
        known.insert(labels::HOSTNAME.into());
        match likeness::nearest_key(key, &known).filter(|nearest| *nearest != key) {
            Some(nearest) => format!("write {nearest:?} instead of {key:?} as the topologyKey"),
            None => format!("give the nodes the label {key:?}, or use another topologyKey"),
        }
    }

    fn affinity(&self, term: &AffinityTerm, counts: &Counts, requirements: &mut Requirements) -> Result<(), Finding> {
        let key = labels::stable_name(&term.topology_key);
        let reachable = self.reachable(key, requirements);
        let populated: Vec<Arc<str>> =
            reachable.iter().filter(|domain| counts.contains_key(*domain)).cloned().collect();
        // The first pod of a group that selects itself may start in any domain it is allowed in.
        let joins =
            |domain: &Arc<str>| self.rules.wanted.iter().any(|it| it.get(key).is_none_or(|wanted| wanted.has(domain)));
        if meant(term, self.spec) && !reachable.is_empty() && !counts.keys().any(joins) {
            return Ok(());
        }
        if !populated.is_empty() {
            self.commit(key, &populated, requirements);
            return Ok(());
        }
        let selector = wording::selector(&term.selector);
        let mut finding = unsatisfiable(Reason::PodAffinity, "pod affinity", key, counts, &reachable, &selector);
        let problem = self.census.problem;
        let waiting = problem.pods.iter().filter(|pod| meant(term, &problem.specs[pod.spec]));
        let waiting = wording::list(waiting.map(|pod| &pod.name), ", ");
        let stranger = self.stranger(term);
        let most = counts.iter().max_by_key(|(domain, count)| (**count, std::cmp::Reverse(*domain)));
        finding.nearest = Some(match (most, &stranger) {
            (Some((domain, 1)), _) => format!("{domain:?} has 1 such pod and cannot take this one"),
            (Some((domain, count)), _) => format!("{domain:?} has {count} such pods and cannot take this one"),
            (None, _) if !waiting.is_empty() => format!("{waiting} would match, but is not placed either"),
            (None, Some((name, _))) => format!("{name} matches {selector}, in a namespace that the term is not about"),
            (None, None) => format!("no pod with a place matches {selector}"),
        });
        finding.hint = Some(match stranger {
            _ if reachable.is_empty() => self.unreached(key),
            _ if !counts.is_empty() => format!("let the pod reach the nodes of {selector}, or make the term preferred"),
            _ if !waiting.is_empty() => format!("first solve what keeps {waiting} pending"),
            Some((_, namespace)) => format!("add `namespaces: [{namespace}]` to the term"),
            None => "check the labels and the namespaces of the term, or make it preferred".to_owned(),
        });
        Err(finding)
    }

    /// Returns a pod that the term would select if it included the pod's namespace, and that namespace.
    fn stranger(&self, term: &AffinityTerm) -> Option<(&Arc<str>, &Arc<str>)> {
        let problem = self.census.problem;
        let pending = problem.pods.iter().map(|pod| (&pod.name, pod.spec));
        let bound = problem.nodes.iter().flat_map(|node| &node.bound).map(|pod| (&pod.name, pod.spec));
        let mut all = pending.chain(bound).filter_map(|(name, spec)| Some((name, problem.specs.get(spec)?)));
        let (name, spec) =
            all.find(|(_, spec)| !term.namespaces.contains(&spec.namespace) && term.selector.matches(&spec.labels))?;
        Some((name, &spec.namespace))
    }

    /// Counts the pods whose required anti-affinity excludes this pod, by topology key and domain.
    fn inverse_counts(&self) -> BTreeMap<Arc<str>, Counts> {
        let mut blocked: BTreeMap<Arc<str>, Counts> = BTreeMap::new();
        for (owner, places) in self.census.settled() {
            for term in owner.anti_affinity.iter().filter(|term| meant(term, self.spec)) {
                let counts = blocked.entry(Arc::clone(&term.topology_key)).or_default();
                for (location, pods) in places {
                    if let Some(domain) = self.census.domain(*location, labels::stable_name(&term.topology_key)) {
                        *counts.entry(domain).or_default() += pods;
                    }
                }
            }
        }
        blocked
    }

    fn avoid(&self, key: &str, counts: &Counts, whom: &str, requirements: &mut Requirements) -> Result<(), Finding> {
        let key = labels::stable_name(key);
        let reachable = self.reachable(key, requirements);
        let empty: Vec<Arc<str>> = reachable.iter().filter(|domain| !counts.contains_key(*domain)).cloned().collect();
        // Karpenter only places such a pod where it knows the domain, be there others to avoid or not.
        let is_known = !reachable.is_empty() || key == labels::HOSTNAME;
        if is_known && (counts.is_empty() || !empty.is_empty()) {
            if !counts.is_empty() {
                self.commit(key, &empty, requirements);
            }
            return Ok(());
        }
        let mut finding = unsatisfiable(Reason::PodAntiAffinity, "pod anti-affinity", key, counts, &reachable, whom);
        let least = reachable.iter().filter_map(|domain| Some((counts.get(domain)?, domain))).min();
        finding.nearest = least.map(|(count, domain)| format!("{domain:?} has the fewest such pods, {count}"));
        finding.hint = Some(if is_known {
            format!("allow more values of {key}, use fewer replicas, or make the term preferred")
        } else {
            self.unreached(key)
        });
        Err(finding)
    }
}

/// Returns true if the term selects pods like `other`.
pub(super) fn meant(term: &AffinityTerm, other: &PodSpec) -> bool {
    term.namespaces.contains(&other.namespace) && term.selector.matches(&other.labels)
}

pub(super) fn unsatisfiable(
    reason: Reason,
    kind: &str,
    key: &str,
    counts: &Counts,
    reachable: &BTreeSet<Arc<str>>,
    detail: &str,
) -> Finding {
    let counted = wording::list(counts.iter().map(|(domain, count)| format!("{domain}: {count}")), ", ");
    let counted = if counted.is_empty() { "none".to_owned() } else { counted };
    let allowed = if reachable.is_empty() { "none".to_owned() } else { wording::list(reachable, " ") };
    let message = format!(
        "unsatisfiable topology constraint for {kind}, key={key} (counts = {counted}; domains = {allowed}; {detail})"
    );
    Finding { stage: Stage::Topology, reason, message, nearest: None, hint: None }
}
