//! Spreads, affinities and anti-affinities against the pods that have a place already.

use std::cell::OnceCell;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use super::census::{Census, Location, alternatives, untolerated};
use super::finding::{Finding, Stage};
use super::wording;
use crate::labels;
use crate::model::{AffinityTerm, Operator, PodSpec, PoolState, Requirement, Requirements, SpreadConstraint};
use crate::solution::Reason;

type Counts = BTreeMap<Arc<str>, u32>;

/// Where the pod would go.
#[derive(Debug, Clone, Copy)]
pub(super) enum Place {
    /// A new node of this pool.
    Pool(usize),
    /// This existing node.
    Node(usize),
}

/// Stands for the hostname of a node that does not exist yet.
const NEW_HOST: &str = "a new node";

/// The rules of one pod about others, counted once for all the places it is judged against.
#[derive(Debug)]
pub(super) struct Rules<'s> {
    pub(super) spec: &'s PodSpec,
    /// Selector and each required node affinity term together.
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
    let inverse = rules.inverse.get_or_init(|| scope.inverse_counts());
    inverse.iter().try_for_each(|(key, counts)| scope.avoid(key, counts, "anti-affinity of other pods", requirements))
}

struct Scope<'c, 'a> {
    census: &'c Census<'a>,
    place: Place,
    rules: &'c Rules<'c>,
    spec: &'c PodSpec,
}

impl Scope<'_, '_> {
    /// Domains of `key` that the pod may still reach here.
    fn reachable(&self, key: &str, requirements: &Requirements) -> BTreeSet<Arc<str>> {
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

    fn counts(
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

    fn commit(&self, key: &str, domains: &[Arc<str>], requirements: &mut Requirements) {
        if matches!(self.place, Place::Pool(_)) && key != labels::HOSTNAME {
            requirements.add(key, Requirement::new(Operator::In, domains.iter().cloned()));
        }
    }

    fn term_counts(&self, term: &AffinityTerm) -> Counts {
        self.counts(labels::stable_name(&term.topology_key), |other| meant(term, other), |_| true)
    }

    fn spread_counts(&self, spread: &SpreadConstraint) -> Counts {
        let key = labels::stable_name(&spread.topology_key);
        let same = |other: &PodSpec| other.namespace == self.spec.namespace && spread.selector.matches(&other.labels);
        let mut counts = self.counts(key, same, |location| self.counted(spread, location));
        for domain in self.spread_domains(spread, key) {
            counts.entry(domain).or_default();
        }
        counts
    }

    fn spread(
        &self,
        spread: &SpreadConstraint,
        counts: &Counts,
        requirements: &mut Requirements,
    ) -> Result<(), Finding> {
        let key = labels::stable_name(&spread.topology_key);
        let own = u32::from(spread.selector.matches(&self.spec.labels));
        let supported = |domain: &&Arc<str>| {
            self.rules.wanted.iter().any(|wanted| wanted.get(key).is_none_or(|wanted| wanted.has(domain)))
        };
        let supported: Vec<&Arc<str>> = counts.keys().filter(supported).collect();
        let few = spread.min_domains.is_some_and(|least| usize::try_from(least).is_ok_and(|n| supported.len() < n));
        let least = supported.iter().filter_map(|domain| counts.get(*domain)).min().copied().unwrap_or(0);
        let least = if few || key == labels::HOSTNAME { 0 } else { least };
        let skew = |domain: &Arc<str>| i64::from(counts.get(domain).copied().unwrap_or(0) + own) - i64::from(least);
        let reachable = self.reachable(key, requirements);
        let valid: Vec<Arc<str>> =
            reachable.iter().filter(|domain| skew(domain) <= i64::from(spread.max_skew)).cloned().collect();
        if !valid.is_empty() {
            self.commit(key, &valid, requirements);
            return Ok(());
        }
        let detail = format!("maxSkew {}", spread.max_skew);
        let mut finding = unsatisfiable(Reason::TopologySpread, "topology spread", key, counts, &reachable, &detail);
        let emptiest = counts.iter().find(|(domain, count)| **count == least && !reachable.contains(*domain));
        finding.nearest = reachable.iter().min_by_key(|domain| skew(domain)).map(|domain| {
            format!(
                "{domain:?} would have a skew of {}, {} too many",
                skew(domain),
                skew(domain) - i64::from(spread.max_skew)
            )
        });
        finding.hint = Some(match emptiest {
            _ if reachable.is_empty() => format!("give the nodes the label {key:?}, or spread over another key"),
            Some((domain, _)) => {
                format!("let the pod reach {domain:?}, raise maxSkew, or set whenUnsatisfiable: ScheduleAnyway")
            }
            None => "raise maxSkew, lower minDomains, or set whenUnsatisfiable: ScheduleAnyway".to_owned(),
        });
        Err(finding)
    }

    /// Whether the pods at `location` count for the spread.
    fn counted(&self, spread: &SpreadConstraint, location: Location) -> bool {
        match location {
            Location::Existing(index) => self.census.problem.nodes.get(index).is_some_and(|node| {
                let meets = |(key, wanted): (&Arc<str>, &Requirement)| {
                    node.labels.get(key).map_or_else(|| wanted.allows_absence(), |value| wanted.has(value))
                };
                let selected = || self.rules.wanted.iter().any(|wanted| wanted.iter().all(meets));
                (!spread.honor_taints || untolerated(&node.taints, self.spec).is_none())
                    && (!spread.honor_affinity || selected())
            }),
            Location::New(index) => self.census.solution.new_nodes.get(index).is_some_and(|node| {
                self.census.problem.pools.get(node.pool).is_some_and(|pool| {
                    let selected = || self.rules.wanted.iter().any(|wanted| node.requirements.intersects(wanted));
                    (!spread.honor_taints || untolerated(&pool.taints, self.spec).is_none())
                        && (!spread.honor_affinity || selected())
                })
            }),
        }
    }

    /// Domains that exist for the spread, be they empty: of nodes, and of pools that may launch.
    fn spread_domains(&self, spread: &SpreadConstraint, key: &str) -> BTreeSet<Arc<str>> {
        let problem = self.census.problem;
        let nodes = (0..problem.nodes.len()).filter(|node| !problem.nodes[*node].deleting).map(Location::Existing);
        let nodes = nodes.filter(|location| self.counted(spread, *location));
        let mut domains: BTreeSet<Arc<str>> = nodes.filter_map(|location| self.census.domain(location, key)).collect();
        if key == labels::HOSTNAME {
            return domains;
        }
        for (index, pool) in problem.pools.iter().enumerate() {
            let launches = pool.state == PoolState::Ready && pool.missing_replicas.is_none();
            if launches && (!spread.honor_taints || untolerated(&pool.taints, self.spec).is_none()) {
                domains.extend(self.census.pool_domains(index, key).into_iter().flatten().cloned());
            }
        }
        domains
    }

    fn affinity(&self, term: &AffinityTerm, counts: &Counts, requirements: &mut Requirements) -> Result<(), Finding> {
        let key = labels::stable_name(&term.topology_key);
        let reachable = self.reachable(key, requirements);
        let populated: Vec<Arc<str>> =
            reachable.iter().filter(|domain| counts.contains_key(*domain)).cloned().collect();
        // The first pod of a self-selecting group may start anywhere it is allowed to be.
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
        let waiting = self.census.solution.unschedulable.iter().filter_map(|it| self.census.problem.pods.get(it.pod));
        let waiting: Vec<_> = waiting.filter(|pod| meant(term, &self.census.problem.specs[pod.spec])).collect();
        finding.nearest = match counts.iter().max_by_key(|(domain, count)| (**count, std::cmp::Reverse(*domain))) {
            Some((domain, count)) => Some(format!("{domain:?} has {count} such pods and cannot take this one")),
            None if waiting.is_empty() => Some(format!("no pod with a place matches {selector}")),
            None => Some(format!(
                "{} would match, unschedulable too",
                wording::list(waiting.iter().map(|it| &it.name), ", ")
            )),
        };
        finding.hint = Some(if counts.is_empty() {
            "check the labels and the namespaces of the term, or make it preferred".to_owned()
        } else {
            format!("let the pod reach the nodes of {selector}, or make the term preferred")
        });
        Err(finding)
    }

    /// Required anti-affinity of others against this pod.
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
        if counts.is_empty() || !empty.is_empty() {
            if !counts.is_empty() {
                self.commit(key, &empty, requirements);
            }
            return Ok(());
        }
        let mut finding = unsatisfiable(Reason::PodAntiAffinity, "pod anti-affinity", key, counts, &reachable, whom);
        let least = reachable.iter().filter_map(|domain| Some((counts.get(domain)?, domain))).min();
        finding.nearest = least.map(|(count, domain)| format!("{domain:?} has the fewest such pods, {count}"));
        finding.hint = Some(format!("allow more values of {key}, use fewer replicas, or make the term preferred"));
        Err(finding)
    }
}

/// Whether the term is about pods like `other`.
pub(super) fn meant(term: &AffinityTerm, other: &PodSpec) -> bool {
    term.namespaces.contains(&other.namespace) && term.selector.matches(&other.labels)
}

fn unsatisfiable(
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
