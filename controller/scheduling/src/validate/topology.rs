//! Checks of rules between pods, in their final-state form.

use index_vec::{Idx, IndexVec, index_vec};
use rustc_hash::FxHashMap;

use super::rules::{BY_HOST, Demand, RuleId, Rules};
use super::specs::{PlacementId, Specs, ToleranceId, label};
use super::violation::{Findings, Place, Promise};
use crate::model::{InstanceType, Node, NodePool, Problem, Requirements};
use crate::solution::{NewNode, Solution};

/// Counts of one rule in one domain.
#[derive(Debug, Clone, Copy, Default)]
struct Tally {
    /// Bound pods that the rule counts.
    bound: i64,
    /// Placed pods that the rule counts.
    placed: i64,
    /// Bound pods that own the rule.
    bound_owners: i64,
    /// Placed pods that own the rule and are counted by it.
    self_owners: i64,
    /// Placed pods that own the rule and are not counted by it.
    other_owners: i64,
}

/// True if a placement suits nodes of a pool, an instance type and requirements.
type Suits<'a> = FxHashMap<(PlacementId, usize, usize, &'a Requirements), bool>;

/// Counts of one plan.
struct Count<'a> {
    problem: &'a Problem,
    specs: &'a Specs<'a>,
    rules: &'a Rules<'a>,
    /// Domains by value, and the values, by key.
    domains: Vec<(FxHashMap<&'a str, usize>, Vec<&'a str>)>,
    /// Tallies by domain, for rules other than those of hostnames.
    tallies: IndexVec<RuleId, Vec<Tally>>,
    /// Bound pods that the rule counts, and number of domains whose owners have only each other, by rule.
    started: IndexVec<RuleId, (i64, i64)>,
    local: IndexVec<RuleId, Tally>,
    touched: Vec<RuleId>,
    suits: Suits<'a>,
}

/// Checks anti-affinity, affinity and spread.
pub(crate) fn check(specs: &Specs<'_>, solution: &Solution, findings: &mut Findings) {
    let problem = specs.problem;
    let mut placed = vec![false; problem.specs.len()];
    let mut bound = placed.clone();
    let new = solution.new_nodes.iter().flat_map(|node| &node.pods);
    for &pod in new.chain(solution.existing.iter().flat_map(|(_, pods)| pods)) {
        placed[problem.pods[pod].spec] = true;
    }
    let nodes = problem.nodes.iter().filter(|node| !node.deleting);
    for pod in nodes.flat_map(|node| &node.bound).filter(|pod| pod.counts) {
        bound[pod.spec] = true;
    }
    let rules = Rules::new(specs, &placed, &bound, false);
    if rules.all.is_empty() {
        return;
    }
    let mut count = Count {
        problem,
        specs,
        rules: &rules,
        domains: vec![Default::default(); rules.keys.len()],
        tallies: index_vec![Vec::new(); rules.all.len()],
        started: index_vec![(0, 0); rules.all.len()],
        local: index_vec![Tally::default(); rules.all.len()],
        touched: Vec::new(),
        suits: FxHashMap::default(),
    };
    let mut pods_of: Vec<&[usize]> = vec![&[]; problem.nodes.len()];
    for (node, pods) in &solution.existing {
        pods_of[*node] = pods;
    }
    for (number, node) in problem.nodes.iter().enumerate().filter(|(_, node)| !node.deleting) {
        count.existing(number, node, pods_of[number], findings);
    }
    for (number, node) in solution.new_nodes.iter().enumerate() {
        count.new_node(number, node, findings);
    }
    count.judge(findings);
}

impl<'a> Count<'a> {
    fn touch(&mut self, rule: RuleId) -> &mut Tally {
        let tally = &mut self.local[rule];
        if tally.bound + tally.placed + tally.bound_owners + tally.self_owners + tally.other_owners == 0 {
            self.touched.push(rule);
        }
        tally
    }

    fn add_placed(&mut self, pods: &[usize]) {
        let rules = self.rules;
        for &pod in pods {
            let spec = self.problem.pods[pod].spec;
            let counted = rules.counted(spec);
            for &rule in counted {
                self.touch(rule).placed += 1;
            }
            for &rule in rules.owned(spec) {
                let tally = self.touch(rule);
                if counted.binary_search(&rule).is_ok() {
                    tally.self_owners += 1;
                } else {
                    tally.other_owners += 1;
                }
            }
        }
    }

    fn existing(&mut self, number: usize, node: &'a Node, pods: &[usize], findings: &mut Findings) {
        let rules = self.rules;
        for bound in node.bound.iter().filter(|bound| bound.counts) {
            for &rule in rules.counted(bound.spec) {
                self.touch(rule).bound += 1;
            }
            for &rule in rules.owned(bound.spec) {
                if rules.all[rule].demand == Demand::AntiAffinity {
                    self.touch(rule).bound_owners += 1;
                }
            }
        }
        self.add_placed(pods);
        let specs = self.specs;
        self.flush(
            Place::Existing(number),
            findings,
            |_, key| label(node, key),
            |_, placement, tolerance| {
                placement.is_none_or(|placement| specs.placement(placement).without_volumes().suits(node))
                    && tolerance.is_none_or(|tolerance| specs.repelled_by(tolerance, &node.taints).is_none())
            },
        );
    }

    fn new_node(&mut self, number: usize, node: &'a NewNode, findings: &mut Findings) {
        self.add_placed(&node.pods);
        let pool = &self.problem.pools[node.pool];
        let types = &self.problem.catalogues[pool.catalogue];
        let kind = &types[node.instance_type];
        let offering = &kind.offerings[node.offering].requirements;
        let mut keys: Vec<usize> = self.touched.iter().map(|&rule| self.rules.all[rule].key).collect();
        keys.sort_unstable();
        keys.dedup();
        for key in keys.into_iter().filter(|&key| key != BY_HOST) {
            let key = self.rules.keys[key];
            let same =
                |first: &str| node.alternatives.iter().all(|&at| types[at].requirements.single(key) == Some(first));
            let pinned = node.requirements.single(key).is_some()
                || kind.requirements.single(key).is_some_and(same)
                || value_of(pool, node, kind, offering, key).is_none();
            if !pinned {
                findings.note(Place::New(number), Promise::Pinned, format!("{key} has more than one value"));
            }
        }
        let specs = self.specs;
        self.flush(
            Place::New(number),
            findings,
            |_, key| value_of(pool, node, kind, offering, key),
            |suits, placement, tolerance| {
                let suits = placement.is_none_or(|id| {
                    let placement = specs.placement(id).without_volumes();
                    placement.is_free()
                        || *suits.entry((id, node.pool, node.instance_type, &node.requirements)).or_insert_with(|| {
                            placement.any(|part| {
                                part.iter().all(|(key, wanted)| match value_of(pool, node, kind, offering, key) {
                                    Some(value) => wanted.has(value),
                                    None => wanted.allows_absence(),
                                })
                            })
                        })
                });
                suits && tolerance.is_none_or(|id| specs.repelled_by(id, &pool.taints).is_none())
            },
        );
    }

    /// Checks the hostname rules of the current node, and adds the other counts to the domains.
    fn flush(
        &mut self,
        place: Place,
        findings: &mut Findings,
        value_of: impl Fn(&Self, &'a str) -> Option<&'a str>,
        mut passes: impl FnMut(&mut Suits<'a>, Option<PlacementId>, Option<ToleranceId>) -> bool,
    ) {
        for rule in std::mem::take(&mut self.touched) {
            let tally = std::mem::take(&mut self.local[rule]);
            let about = self.rules.all[rule];
            if about.key == BY_HOST {
                self.judge_domain(rule, tally, 0, place, findings);
                continue;
            }
            let Some(value) = value_of(self, self.rules.keys[about.key]) else {
                let owners = tally.self_owners + tally.other_owners;
                if owners > 0 && about.demand != Demand::AntiAffinity {
                    let key = self.rules.keys[about.key];
                    findings.note(place, promise(about.demand), format!("the node has no label {key}"));
                }
                continue;
            };
            if let Demand::Spread { placement, tolerance, honor_affinity, .. } = about.demand {
                let placement = placement.filter(|_| honor_affinity);
                if !passes(&mut self.suits, placement, tolerance) {
                    continue;
                }
            }
            let domain = self.domain(about.key, value);
            let tallies = &mut self.tallies[rule];
            if tallies.len() <= domain {
                tallies.resize(domain + 1, Tally::default());
            }
            let sum = &mut tallies[domain];
            sum.bound += tally.bound;
            sum.placed += tally.placed;
            sum.bound_owners += tally.bound_owners;
            sum.self_owners += tally.self_owners;
            sum.other_owners += tally.other_owners;
        }
    }

    fn domain(&mut self, key: usize, value: &'a str) -> usize {
        let (ids, values) = &mut self.domains[key];
        *ids.entry(value).or_insert_with(|| {
            values.push(value);
            values.len() - 1
        })
    }

    fn judge(&mut self, findings: &mut Findings) {
        let mut universe = Universe { problem: self.problem, specs: self.specs, of_pool: FxHashMap::default() };
        for rule in self.rules.all.indices() {
            let about = self.rules.all[rule];
            if about.key != BY_HOST {
                let tallies = std::mem::take(&mut self.tallies[rule]);
                let owned = tallies.iter().any(|tally| tally.self_owners + tally.other_owners > 0);
                let mut least = 0;
                if let Demand::Spread { placement: Some(placement), tolerance, honor_affinity, min_domains, .. } =
                    about.demand
                    && owned
                {
                    let key = self.rules.keys[about.key];
                    let domains = universe.domains(key, placement, tolerance, honor_affinity);
                    let ids = &self.domains[about.key].0;
                    let count = |domain: &&str| {
                        let tally = ids.get(*domain).and_then(|&domain| tallies.get(domain));
                        tally.map_or(0, |tally| tally.bound + tally.placed)
                    };
                    let enough = min_domains.is_none_or(|least| domains.len() as i64 >= i64::from(least));
                    least = if enough { domains.iter().map(count).min().unwrap_or(0) } else { 0 };
                }
                for tally in tallies {
                    self.judge_domain(rule, tally, least, Place::Plan, findings);
                }
            }
            let (bound, alone) = self.started[rule];
            if about.demand == Demand::Affinity && alone > i64::from(bound == 0) {
                let text = format!("rule {}: {alone} domains hold pods without the pod that they follow", rule.index());
                findings.note(Place::Plan, Promise::Affinity, text);
            }
        }
    }

    fn judge_domain(&mut self, rule: RuleId, tally: Tally, least: i64, place: Place, findings: &mut Findings) {
        let total = tally.bound + tally.placed;
        let owners = tally.self_owners + tally.other_owners;
        let about = self.rules.all[rule];
        let text = match about.demand {
            Demand::Spread { max_skew, .. } if owners > 0 && total - least > max_skew => {
                format!("rule {}: {total} pods where another domain has {least}, skew {max_skew}", rule.index())
            }
            Demand::AntiAffinity
                if tally.bound_owners > 0 && tally.placed > 0
                    || tally.other_owners > 0 && total > 0
                    || tally.self_owners > 0 && total > 1 =>
            {
                format!("rule {}: {owners} owners of it meet {total} pods", rule.index())
            }
            Demand::Affinity => {
                self.started[rule].0 += tally.bound;
                if tally.self_owners > 0 && total == tally.self_owners {
                    self.started[rule].1 += 1;
                }
                if tally.other_owners == 0 || total > 0 {
                    return;
                }
                format!("rule {}: {owners} pods without the one they follow", rule.index())
            }
            _ => return,
        };
        findings.note(place, promise(about.demand), text);
    }
}

fn promise(demand: Demand) -> Promise {
    match demand {
        Demand::Spread { .. } => Promise::Spread,
        Demand::Affinity => Promise::Affinity,
        Demand::AntiAffinity => Promise::AntiAffinity,
    }
}

/// Returns the value that `key` has once the node is launched as its chosen offering.
fn value_of<'n>(
    pool: &'n NodePool,
    node: &'n NewNode,
    kind: &'n InstanceType,
    offering: &'n Requirements,
    key: &str,
) -> Option<&'n str> {
    let from = [&node.requirements, offering, &kind.requirements];
    let value = from.into_iter().find_map(|requirements| requirements.single(key));
    value.or_else(|| pool.labels.get(key).map(|value| &**value))
}

/// Possible domains.
struct Universe<'a> {
    problem: &'a Problem,
    specs: &'a Specs<'a>,
    of_pool: FxHashMap<(usize, &'a str), Vec<&'a str>>,
}

impl<'a> Universe<'a> {
    /// Returns the domains that owners of a spread could use: of pools and nodes, with tolerated taints if these count.
    fn domains(
        &mut self,
        key: &'a str,
        placement: PlacementId,
        tolerance: Option<ToleranceId>,
        honor_affinity: bool,
    ) -> std::collections::BTreeSet<&'a str> {
        let (problem, specs) = (self.problem, self.specs);
        let mut domains = std::collections::BTreeSet::new();
        let tolerated = |taints| tolerance.is_none_or(|tolerance| specs.repelled_by(tolerance, taints).is_none());
        for (number, pool) in problem.pools.iter().enumerate() {
            if super::catalogue::opens_for_pods(pool) && tolerated(&pool.taints) {
                let of_pool = self.of_pool.entry((number, key));
                domains.extend(of_pool.or_insert_with(|| pool_domains(problem, pool, key)).iter());
            }
        }
        for node in problem.nodes.iter().filter(|node| !node.deleting && tolerated(&node.taints)) {
            if !honor_affinity || specs.placement(placement).without_volumes().suits(node) {
                domains.extend(label(node, key));
            }
        }
        domains.retain(|domain| specs.placement(placement).allows(key, domain));
        domains
    }
}

/// Returns the values of `key` that nodes of `pool` can have: those that the pool and one of its types allow together.
fn pool_domains<'a>(problem: &'a Problem, pool: &'a NodePool, key: &str) -> Vec<&'a str> {
    let of_pool = pool.requirements.get(key);
    let mut domains: Vec<&str> = Vec::new();
    for kind in
        problem.catalogues[pool.catalogue].iter().filter(|kind| kind.requirements.intersects(&pool.requirements))
    {
        let of_type = kind.requirements.get(key);
        let Some(listed) = of_type.or(of_pool).filter(|it| it.is_finite()) else { continue };
        domains.extend(listed.values().filter(|value| of_pool.is_none_or(|it| it.has(value))).map(|value| &**value));
        domains.sort_unstable();
        domains.dedup();
    }
    domains
}
