//! Rules between pods, in their final-state form, read as plainly as possible.

use muster_scheduling::labels::{HOSTNAME, ZONE, stable_name};
use muster_scheduling::model::*;

enum Labelled<'p> {
    Existing(&'p Node),
    New { pool: &'p NodePool, kind: &'p InstanceType, offering: &'p Offering },
}

/// A node with its pods.
pub struct Host<'p> {
    problem: &'p Problem,
    labelled: Labelled<'p>,
    taints: &'p [Taint],
    bound: Vec<SpecId>,
    mask: usize,
    pub deleting: bool,
}

impl<'p> Host<'p> {
    pub fn existing(problem: &'p Problem, node: &'p Node, mask: usize) -> Self {
        let bound = node.bound.iter().filter(|bound| bound.counts).map(|bound| bound.spec).collect();
        Self { problem, labelled: Labelled::Existing(node), taints: &node.taints, bound, mask, deleting: node.deleting }
    }

    pub fn new(problem: &'p Problem, pool: usize, kind: usize, offering: usize, mask: usize) -> Self {
        Self::of(problem, pool, kind, &problem.catalogues[0][kind].offerings[offering], mask)
    }

    pub fn of(problem: &'p Problem, pool: usize, kind: usize, offering: &'p Offering, mask: usize) -> Self {
        let (pool, kind) = (&problem.pools[pool], &problem.catalogues[0][kind]);
        let labelled = Labelled::New { pool, kind, offering };
        Self { problem, labelled, taints: &pool.taints, bound: Vec::new(), mask, deleting: false }
    }

    fn label(&self, key: &str) -> Option<&'p str> {
        let key = stable_name(key);
        match self.labelled {
            Labelled::Existing(node) => node.labels.get(key).map(|value| &**value),
            Labelled::New { .. } if key == HOSTNAME => Some("a new node"),
            Labelled::New { pool, kind, offering } => {
                let from = [&offering.requirements, &pool.requirements, &kind.requirements];
                from.into_iter().find_map(|requirements| requirements.single(key))
            }
        }
    }

    /// Whether the node's labels are what `term` asks for.
    pub fn meets(&self, term: &Requirements) -> bool {
        term.iter().all(|(key, wanted)| match self.label(key) {
            Some(value) => wanted.has(value),
            None => wanted.allows_absence(),
        })
    }

    /// Whether the node suits selector, affinity and, if asked, volumes.
    pub fn suits(&self, spec: &PodSpec, volumes: bool) -> bool {
        let any = |terms: &[Requirements]| terms.is_empty() || terms.iter().any(|term| self.meets(term));
        self.meets(&spec.node_selector) && any(&spec.node_terms) && (!volumes || any(&spec.volume_terms))
    }

    fn placed(&self) -> impl Iterator<Item = usize> {
        let mask = self.mask;
        (0..self.problem.pods.len()).filter(move |pod| mask >> pod & 1 == 1)
    }
}

fn same_domain(a: &Host<'_>, b: &Host<'_>, key: &str) -> bool {
    if key == HOSTNAME {
        return std::ptr::eq(a, b);
    }
    a.label(key).is_some() && a.label(key) == b.label(key)
}

fn meant(term: &AffinityTerm, spec: &PodSpec) -> bool {
    term.namespaces.contains(&spec.namespace) && term.selector.matches(&spec.labels)
}

fn counted(constraint: &SpreadConstraint, owner: &PodSpec, spec: &PodSpec) -> bool {
    owner.namespace == spec.namespace && constraint.selector.matches(&spec.labels)
}

/// Pods on a host: pending ones by index, bound ones without.
fn on<'h>(host: &'h Host<'_>) -> impl Iterator<Item = (Option<usize>, &'h PodSpec)> {
    let bound = host.bound.iter().map(|&spec| (None, &host.problem.specs[spec]));
    bound.chain(host.placed().map(|pod| (Some(pod), host.problem.spec_of(pod))))
}

/// Rules that more pods can only break further: anti-affinity and hostname spread.
pub fn still_possible(problem: &Problem, hosts: &[Host<'_>]) -> bool {
    let repels = |owner: &PodSpec, host: &Host<'_>, key: &str, target: &PodSpec, other: &Host<'_>| {
        let terms = owner.anti_affinity.iter().filter(|term| &*term.topology_key == key);
        terms.into_iter().any(|term| meant(term, target)) && same_domain(host, other, key)
    };
    for host in hosts {
        for pod in host.placed() {
            let spec = problem.spec_of(pod);
            for constraint in spec.spread.iter().filter(|it| &*it.topology_key == HOSTNAME) {
                let count = on(host).filter(|(_, other)| counted(constraint, spec, other)).count();
                if count as i64 > i64::from(constraint.max_skew) {
                    return false;
                }
            }
            for other in hosts {
                for (number, target) in on(other) {
                    if number == Some(pod) {
                        continue;
                    }
                    for key in [HOSTNAME, ZONE] {
                        if repels(spec, host, key, target, other) || repels(target, other, key, spec, host) {
                            return false;
                        }
                    }
                }
            }
        }
    }
    true
}

/// All rules; every pod has its place.
pub fn rules_hold(problem: &Problem, hosts: &[Host<'_>]) -> bool {
    still_possible(problem, hosts) && zone_spreads_hold(problem, hosts) && affinities_hold(problem, hosts)
}

fn zone_spreads_hold(problem: &Problem, hosts: &[Host<'_>]) -> bool {
    hosts.iter().all(|host| {
        host.placed().all(|pod| {
            let spec = problem.spec_of(pod);
            let zonal = spec.spread.iter().filter(|it| &*it.topology_key == ZONE);
            zonal.into_iter().all(|constraint| {
                let Some(mine) = host.label(ZONE) else { return false };
                let count = |zone: &str| {
                    let here =
                        hosts.iter().filter(|host| host.label(ZONE) == Some(zone) && counts(host, constraint, spec));
                    here.flat_map(on).filter(|(_, other)| counted(constraint, spec, other)).count() as i64
                };
                let domains = domains(problem, hosts, constraint, spec);
                let enough = constraint.min_domains.is_none_or(|least| domains.len() as i64 >= i64::from(least));
                let least = if enough { domains.iter().map(|zone| count(zone)).min().unwrap_or(0) } else { 0 };
                count(mine) - least <= i64::from(constraint.max_skew)
            })
        })
    })
}

fn tolerated(spec: &PodSpec, taints: &[Taint]) -> bool {
    taints.iter().filter(|taint| taint.repels()).all(|taint| spec.tolerations.iter().any(|it| it.tolerates(taint)))
}

/// Whether a node's pods count for an owner's spread.
fn counts(host: &Host<'_>, constraint: &SpreadConstraint, owner: &PodSpec) -> bool {
    (!constraint.honor_affinity || host.suits(owner, false))
        && (!constraint.honor_taints || tolerated(owner, host.taints))
}

fn domains<'p>(
    problem: &'p Problem,
    hosts: &[Host<'p>],
    constraint: &SpreadConstraint,
    owner: &PodSpec,
) -> Vec<&'p str> {
    let mut domains: Vec<&str> = Vec::new();
    for pool in &problem.pools {
        if pool.state != PoolState::Ready || constraint.honor_taints && !tolerated(owner, &pool.taints) {
            continue;
        }
        let types = problem.catalogues[0].iter().filter(|kind| kind.requirements.intersects(&pool.requirements));
        let of_types = types.filter_map(|kind| kind.requirements.get(ZONE));
        let of_pool = pool.requirements.get(ZONE);
        let values = of_types.flat_map(|zones| zones.values()).filter(|zone| of_pool.is_none_or(|it| it.has(zone)));
        domains.extend(values.map(|zone| &**zone));
    }
    let existing = hosts.iter().filter(|host| matches!(host.labelled, Labelled::Existing(_)));
    domains.extend(existing.filter(|host| counts(host, constraint, owner)).filter_map(|host| host.label(ZONE)));
    let allows = |term: &Requirements, zone: &str| term.get(ZONE).is_none_or(|wanted| wanted.has(zone));
    domains.retain(|zone| {
        allows(&owner.node_selector, zone)
            && (owner.node_terms.is_empty() || owner.node_terms.iter().any(|term| allows(term, zone)))
    });
    domains.sort_unstable();
    domains.dedup();
    domains
}

/// Whether the pods can be bound in some order, each finding the pods it follows: searched over sets of bound pods.
fn affinities_hold(problem: &Problem, hosts: &[Host<'_>]) -> bool {
    if problem.pods.iter().all(|pod| problem.specs[pod.spec].affinity.is_empty()) {
        return true;
    }
    let pods = problem.pods.len();
    let host_of = |pod: usize| hosts.iter().find(|host| host.mask >> pod & 1 == 1);
    let mut reached = vec![false; 1 << pods];
    reached[0] = true;
    for bound in 0..reached.len() {
        if !reached[bound] {
            continue;
        }
        for pod in (0..pods).filter(|pod| bound >> pod & 1 == 0) {
            let Some(host) = host_of(pod) else { continue };
            let spec = problem.spec_of(pod);
            let follows = spec.affinity.iter().all(|term| {
                let matching = |other: &&Host<'_>| {
                    on(other)
                        .any(|(number, target)| number.is_none_or(|at| bound >> at & 1 == 1) && meant(term, target))
                };
                let mut leaders =
                    hosts.iter().filter(|other| other.label(&term.topology_key).is_some()).filter(matching).peekable();
                let first = leaders.peek().is_none() && meant(term, spec);
                host.label(&term.topology_key).is_some()
                    && (first || leaders.any(|leader| same_domain(host, leader, &term.topology_key)))
            });
            reached[bound | 1 << pod] |= follows;
        }
    }
    reached[reached.len() - 1]
}
