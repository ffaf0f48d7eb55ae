//! Checks of spread constraints against the pods that have a place: the allowed domains, or the setting that excludes
//! all.

use std::collections::BTreeSet;
use std::sync::Arc;

use super::census::{Location, untolerated};
use super::finding::Finding;
use super::topology::{Counts, Scope, unsatisfiable};
use super::wording;
use crate::labels;
use crate::model::{PodSpec, PoolState, Requirement, Requirements, SpreadConstraint};
use crate::solution::Reason;

/// Result of a spread for the domains that the pod can reach.
struct SpreadResult {
    /// Domains that the spread allows.
    valid: Vec<Arc<str>>,
    /// The minimum number of pods in a domain that counts.
    least: u32,
    /// Number of domains that count for `minDomains`, if there are too few.
    few: Option<usize>,
}

/// A setting of a spread that alone excludes the pod.
struct Culprit {
    /// Its effect, for the message.
    detail: String,
    /// The edit that would help.
    hint: String,
}

impl Scope<'_, '_> {
    pub(super) fn spread_counts(&self, spread: &SpreadConstraint) -> Counts {
        let key = labels::stable_name(&spread.topology_key);
        let same = |other: &PodSpec| other.namespace == self.spec.namespace && spread.selector.matches(&other.labels);
        let mut counts = self.counts(key, same, |location| self.counted(spread, location));
        for domain in self.spread_domains(spread, key) {
            counts.entry(domain).or_default();
        }
        counts
    }

    pub(super) fn spread(
        &self,
        spread: &SpreadConstraint,
        counts: &Counts,
        requirements: &mut Requirements,
    ) -> Result<(), Finding> {
        let key = labels::stable_name(&spread.topology_key);
        let reachable = self.reachable(key, requirements);
        let SpreadResult { valid, least, few } = self.read(spread, counts, &reachable);
        if !valid.is_empty() {
            self.commit(key, &valid, requirements);
            return Ok(());
        }
        let culprit = self.culprit(spread, counts, &reachable, few);
        let mut detail = format!("maxSkew {}", spread.max_skew);
        if let Some(culprit) = &culprit {
            detail = format!("{detail}, {}", culprit.detail);
        }
        let mut finding = unsatisfiable(Reason::TopologySpread, "topology spread", key, counts, &reachable, &detail);
        let skew = |domain: &&Arc<str>| self.skew(spread, counts, domain, least);
        let emptiest = counts.iter().find(|(domain, count)| **count == least && !reachable.contains(*domain));
        finding.nearest = reachable.iter().min_by_key(skew).map(|domain| {
            let (skew, most) = (skew(&domain), i64::from(spread.max_skew));
            format!("{domain:?} would have a skew of {skew}, {} too many", skew - most)
        });
        finding.hint = Some(match (culprit, emptiest) {
            _ if reachable.is_empty() => self.unreached(key),
            (Some(culprit), _) => culprit.hint,
            (None, Some((domain, _))) => {
                format!("let the pod reach {domain:?}, raise maxSkew, or set whenUnsatisfiable: ScheduleAnyway")
            }
            (None, None) => "raise maxSkew, or set whenUnsatisfiable: ScheduleAnyway".to_owned(),
        });
        Err(finding)
    }

    fn read(&self, spread: &SpreadConstraint, counts: &Counts, reachable: &BTreeSet<Arc<str>>) -> SpreadResult {
        let key = labels::stable_name(&spread.topology_key);
        let supported = |domain: &&Arc<str>| {
            self.rules.wanted.iter().any(|wanted| wanted.get(key).is_none_or(|wanted| wanted.has(domain)))
        };
        let supported: Vec<&Arc<str>> = counts.keys().filter(supported).collect();
        let few = spread.min_domains.is_some_and(|least| usize::try_from(least).is_ok_and(|n| supported.len() < n));
        let least = supported.iter().filter_map(|domain| counts.get(*domain)).min().copied().unwrap_or(0);
        let least = if few || key == labels::HOSTNAME { 0 } else { least };
        let fits = |domain: &&Arc<str>| self.skew(spread, counts, domain, least) <= i64::from(spread.max_skew);
        let valid = reachable.iter().filter(fits).cloned().collect();
        SpreadResult { valid, least, few: few.then_some(supported.len()) }
    }

    fn skew(&self, spread: &SpreadConstraint, counts: &Counts, domain: &Arc<str>, least: u32) -> i64 {
        let own = u32::from(spread.selector.matches(&self.spec.labels));
        i64::from(counts.get(domain).copied().unwrap_or(0) + own) - i64::from(least)
    }

    /// Finds the setting that excludes the pod: each is changed alone, and the first change that allows a domain
    /// decides.
    fn culprit(
        &self,
        spread: &SpreadConstraint,
        counts: &Counts,
        reachable: &BTreeSet<Arc<str>>,
        few: Option<usize>,
    ) -> Option<Culprit> {
        let key = labels::stable_name(&spread.topology_key);
        if let (Some(there), Some(least)) = (few, spread.min_domains) {
            let without = SpreadConstraint { min_domains: None, ..spread.clone() };
            if !self.read(&without, counts, reachable).valid.is_empty() {
                let detail = format!("minDomains {least} of which there are {there}, so the emptiest counts as 0");
                let hint = format!("lower minDomains to {there}, or let a nodepool have more values of {key}");
                return Some(Culprit { detail, hint });
            }
        }
        let helps = |changed: &SpreadConstraint| {
            let other = self.spread_counts(changed);
            let helped = !self.read(changed, &other, reachable).valid.is_empty();
            helped.then(|| {
                wording::list(counts.iter().filter(|(it, count)| other.get(*it) != Some(count)).map(|(it, _)| it), " ")
            })
        };
        let word = |honor| if honor { "Honor" } else { "Ignore" };
        let taints = SpreadConstraint { honor_taints: !spread.honor_taints, ..spread.clone() };
        if let Some(domains) = helps(&taints) {
            let (is, not) = (word(spread.honor_taints), word(taints.honor_taints));
            let detail = match spread.honor_taints {
                false => {
                    format!("nodeTaintsPolicy {is} counts nodes of {domains} whose taints the pod does not tolerate")
                }
                true => format!("nodeTaintsPolicy {is} leaves out nodes whose taints the pod does not tolerate"),
            };
            let hint = format!("set nodeTaintsPolicy: {not} in the spread, or tolerate the taints of the nodes there");
            return Some(Culprit { detail, hint });
        }
        let affinity = SpreadConstraint { honor_affinity: !spread.honor_affinity, ..spread.clone() };
        let domains = helps(&affinity)?;
        let (is, not) = (word(spread.honor_affinity), word(affinity.honor_affinity));
        let detail = match spread.honor_affinity {
            false => format!("nodeAffinityPolicy {is} counts nodes of {domains} that the pod does not select"),
            true => format!("nodeAffinityPolicy {is} leaves out nodes that the pod does not select"),
        };
        let hint = format!("set nodeAffinityPolicy: {not} in the spread, or let the pod select the nodes there");
        Some(Culprit { detail, hint })
    }

    /// Returns true if the pods at `location` count for the spread.
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

    /// Returns the domains of the spread, empty ones included: those of nodes, and of pools that may launch.
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
}
