//! Groups of pods that a plan cannot distinguish, with the rules they take part in.

use std::cell::OnceCell;
use std::collections::BTreeSet;
use std::rc::Rc;
use std::sync::Arc;

use fixedbitset::FixedBitSet;
use index_vec::IndexVec;
use rustc_hash::{FxHashMap, FxHashSet};
use smallvec::SmallVec;

use crate::compile::{CellId, Class, Compiled, HostRuleId, Part, Rules, SignatureId, Softness, Subject};
use crate::index::index_type;
use crate::labels;
use crate::model::{AffinityTerm, BoundPod, NamespaceScope, PodSpec, SpecId, SpreadConstraint};

index_type! {
    /// Position in [`Grouped::groups`].
    pub(crate) struct GroupId;
}

/// Interchangeable units.
#[derive(Debug, Clone)]
pub(crate) struct Group {
    /// Index in [`Grouped::admits`].
    pub(crate) signature: SignatureId,
    /// Requests of one unit, by column.
    pub(crate) sizes: Rc<[i32]>,
    pub(crate) part: Part,
    /// Pod indices; from [`Grouped::first_bundle`] on, bundles.
    pub(crate) units: Vec<u32>,
}

/// All groups, for one reading of the preferred terms.
pub(crate) struct Grouped {
    pub(crate) rules: Rules,
    pub(crate) groups: IndexVec<GroupId, Group>,
    /// Shapes admitted in each cell, by signature; signatures of bundles follow those of pods.
    pub(crate) admits: IndexVec<SignatureId, Rc<IndexVec<CellId, FixedBitSet>>>,
    /// Signatures of pods that each signature combines.
    pub(crate) signature_parts: IndexVec<SignatureId, Vec<SignatureId>>,
    /// Signatures restricted to a set of existing nodes, by index in the problem.
    pub(crate) confined: FxHashMap<SignatureId, FixedBitSet>,
    /// Pods of each bundle.
    pub(crate) bundles: Vec<Vec<u32>>,
    pub(crate) first_bundle: u32,
    /// Rules that bound pods take part in, by spec; `None` if no pod of the spec is bound.
    pub(crate) bound_parts: Vec<Option<Part>>,
    /// Subjects that select the pods of each class; empty if no pod must share a node.
    pub(crate) selected_by: Vec<FixedBitSet>,
    /// Cell dimensions that domain rules of each spec are about.
    pub(crate) pinned_of_spec: Vec<FixedBitSet>,
    /// Shapes that can be bought for each signature in some cell; computed on first use.
    offered: OnceCell<IndexVec<SignatureId, FixedBitSet>>,
    /// Cells in which units of each group can be placed; computed on first use.
    pub(crate) reaches: OnceCell<Rc<IndexVec<GroupId, FixedBitSet>>>,
}

/// Treatment of preferred terms in a pass.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct PreferenceMode {
    /// True if `ScheduleAnyway` spreads over domains are honoured.
    pub(crate) spreads: bool,
    /// Limit for preferred anti-affinity on hostnames: a node holds at most `⌈replicas / hosts⌉` of a workload. 0
    /// ignores it; [`EACH`] enforces it, and preferred spreads over hosts, as stated.
    pub(crate) hosts: u32,
    /// Limit for workloads spread over domains: a node holds at most `maxSkew` replicas, or `⌈replicas / skews⌉` if
    /// that is more. 0 ignores it. The reason is in [`Options::tells_nodes`].
    ///
    /// [`Options::tells_nodes`]: crate::model::Options::tells_nodes
    pub(crate) skews: u32,
}

impl PreferenceMode {
    /// Ignores all preferred terms.
    pub(crate) const PLAIN: Self = Self { spreads: false, hosts: 0, skews: 0 };
}

impl Grouped {
    /// Groups the pending pods. With `bundled`, pods that must share a node become one unit.
    pub(crate) fn new(compiled: &Compiled<'_>, reading: &PreferenceMode, bundled: bool) -> Self {
        let problem = compiled.problem;
        let softness = Softness { spreads: reading.spreads.then_some(&compiled.topology_keys.preferred) };
        let mut rules = Rules::default();
        let mut parts: Vec<Part> =
            compiled.classes.iter().map(|class| rules.learn(&problem.specs[class.spec], true, softness)).collect();
        if reading.hosts > 0 {
            soften_hosts(compiled, reading.hosts, &mut rules, &mut parts);
        }
        if reading.skews > 0 {
            soften_skews(compiled, reading.skews, &mut rules, &mut parts);
        }
        let mut bound_parts: Vec<Option<Part>> = vec![None; problem.specs.len()];
        let bound = || problem.nodes.iter().flat_map(|node| &node.bound);
        let planned: FxHashSet<SpecId> = bound().filter(|bound| bound.planned).map(|bound| bound.spec).collect();
        for bound in bound() {
            let part = &mut bound_parts[bound.spec];
            if part.is_none() {
                let asks = planned.contains(&bound.spec);
                *part = Some(rules.learn(&problem.specs[bound.spec], asks, Softness::default()));
            }
        }
        let by_subject = rules.by_subject();
        for (class, part) in compiled.classes.iter().zip(&mut parts) {
            rules.aim(&problem.specs[class.spec], part, &by_subject);
        }
        for (spec, part) in bound_parts.iter_mut().enumerate() {
            if let Some(part) = part {
                rules.aim(&problem.specs[spec], part, &by_subject);
            }
        }
        let selected_by = if bundled && parts.iter().any(|part| !part.joins.is_empty()) {
            let subjects = |class: &Class| rules.subjects_of(&problem.specs[class.spec]);
            let set = |subjects: SmallVec<[u32; 4]>| subjects.into_iter().map(|subject| subject as usize).collect();
            compiled.classes.iter().map(subjects).map(set).collect()
        } else {
            Vec::new()
        };
        let pinned_of_spec = pinned_dimensions(compiled, &rules, &parts);
        let groups = compiled
            .classes
            .iter()
            .enumerate()
            .zip(parts)
            .filter(|((_, class), _)| problem.specs[class.spec].refusal.is_none())
            .map(|((index, class), part)| Group {
                signature: class.signature,
                sizes: compiled.request(index).into(),
                part,
                units: class.pods.clone(),
            })
            .collect();
        let admits = compiled.admits.clone();
        let signature_parts = compiled.signatures.indices().map(|signature| vec![signature]).collect();
        let first_bundle = problem.pods.len() as u32;
        let mut grouped = Self {
            rules,
            groups,
            admits,
            signature_parts,
            confined: FxHashMap::default(),
            bundles: Vec::new(),
            first_bundle,
            bound_parts,
            selected_by,
            pinned_of_spec,
            offered: OnceCell::new(),
            reaches: OnceCell::new(),
        };
        if bundled {
            super::bundle::bundle_followers(compiled, &mut grouped);
        }
        grouped
    }

    /// Returns the host rules that a bound pod owns, and those it is a target of. A terminating pod only holds its
    /// ports.
    pub(crate) fn bound_on_host(&self, bound: &BoundPod) -> (Vec<HostRuleId>, Vec<(HostRuleId, i32)>) {
        let Some(part) = &self.bound_parts[bound.spec] else { return (Vec::new(), Vec::new()) };
        let holds = |rule: HostRuleId| {
            let subject = self.rules.host[rule].subject;
            bound.counts || matches!(self.rules.subjects[subject as usize], Subject::Port(_))
        };
        // A spread is checked only when its owner is placed, which is still to come for planned pods.
        let lasts = |rule: HostRuleId| bound.planned || self.rules.host[rule].symmetric;
        let owns = part.owns_host.iter().copied().filter(|&rule| holds(rule) && lasts(rule)).collect();
        let targets = part.targets_host.iter().copied().filter(|&(rule, _)| holds(rule)).collect();
        (owns, targets)
    }

    /// Returns the shapes that can be bought for pods of `signature` in some cell.
    pub(crate) fn offered(&self, compiled: &Compiled<'_>, signature: SignatureId) -> &FixedBitSet {
        let all = self.offered.get_or_init(|| {
            let of_signature = |by_cell: &Rc<IndexVec<CellId, FixedBitSet>>| {
                let mut offered = FixedBitSet::with_capacity(compiled.shapes.len());
                for (admitted, bought) in by_cell.iter().zip(compiled.bought()) {
                    let both = admitted.as_slice().iter().zip(bought.as_slice()).map(|(a, b)| a & b);
                    offered.as_mut_slice().iter_mut().zip(both).for_each(|(all, both)| *all |= both);
                }
                offered
            };
            self.admits.iter().map(of_signature).collect()
        });
        &all[signature]
    }

    /// Returns the pods of a unit.
    pub(crate) fn pods<'b>(&'b self, unit: &'b u32) -> &'b [u32] {
        match unit.checked_sub(self.first_bundle) {
            Some(bundle) => &self.bundles[bundle as usize],
            None => std::slice::from_ref(unit),
        }
    }

    /// Returns the units that own or are targets of domain rules.
    pub(crate) fn ruled_by_domains(&self) -> FxHashSet<u32> {
        let ruled = |group: &&Group| !(group.part.owns_domain.is_empty() && group.part.targets_domain.is_empty());
        self.groups.iter().filter(ruled).flat_map(|group| group.units.iter().copied()).collect()
    }

    /// Returns a signature like `of` that is restricted to these existing nodes.
    pub(crate) fn confined_signature(&mut self, of: SignatureId, nodes: FixedBitSet) -> SignatureId {
        let mut nowhere = (*self.admits[of]).clone();
        nowhere.iter_mut().for_each(FixedBitSet::clear);
        let id = self.admits.push(Rc::new(nowhere));
        self.signature_parts.push(self.signature_parts[of].clone());
        self.confined.insert(id, nodes);
        id
    }

    /// Returns true if units of `signature` may be on existing node `node`, regardless of labels and taints.
    pub(crate) fn confines(&self, signature: SignatureId, node: usize) -> bool {
        self.confined.get(&signature).is_none_or(|nodes| nodes.contains(node))
    }

    /// Returns the signature that admits only what all of `of` admit.
    pub(crate) fn joint_signature(&mut self, of: &[SignatureId]) -> SignatureId {
        let mut confined: Option<FixedBitSet> = None;
        for nodes in of.iter().filter_map(|signature| self.confined.get(signature)) {
            match &mut confined {
                Some(both) => both.intersect_with(nodes),
                None => confined = Some(nodes.clone()),
            }
        }
        let parts = of.iter().flat_map(|&signature| self.signature_parts[signature].iter().copied());
        let joint = self.joint_of_parts(parts.collect());
        match confined {
            Some(nodes) => self.confined_signature(joint, nodes),
            None => joint,
        }
    }

    fn joint_of_parts(&mut self, mut parts: Vec<SignatureId>) -> SignatureId {
        parts.sort_unstable();
        parts.dedup();
        if let Some(known) = self
            .signature_parts
            .indices()
            .find(|signature| self.signature_parts[*signature] == parts && !self.confined.contains_key(signature))
        {
            return known;
        }
        let mut joint: IndexVec<CellId, FixedBitSet> = (*self.admits[parts[0]]).clone();
        for &part in &parts[1..] {
            joint.iter_mut().zip(&*self.admits[part]).for_each(|(set, other)| set.intersect_with(other));
        }
        self.signature_parts.push(parts);
        self.admits.push(Rc::new(joint))
    }
}

/// Value of [`PreferenceMode::hosts`] that treats preferences about hosts as required.
pub(crate) const EACH: u32 = u32::MAX;

/// Returns true if some pending pod prefers to run on other hosts than the rest of its workload.
pub(crate) fn prefers_hosts(compiled: &Compiled<'_>) -> bool {
    compiled.classes.iter().any(|class| own_host_preferences(&compiled.problem.specs[class.spec]).next().is_some())
}

/// Returns true if some pending pod has a preferred spread over a label that is considered.
pub(crate) fn prefers_spread(compiled: &Compiled<'_>) -> bool {
    let specs = compiled.classes.iter().map(|class| &compiled.problem.specs[class.spec]);
    let keys = &compiled.topology_keys.preferred;
    specs.flat_map(|spec| &spec.spread).any(|spread| !spread.required && keys.contains(&spread.topology_key))
}

/// Returns the preferences of a pod about hosts and its own workload: preferred anti-affinity and preferred spreads
/// over hosts. Each comes with the number of pods of the workload that it allows on one host.
fn own_host_preferences(spec: &PodSpec) -> impl Iterator<Item = (AffinityTerm, i32)> {
    let apart = spec.preferred_anti_affinity.iter().map(|one| &one.term);
    let apart = apart.filter(|term| &*term.topology_key == labels::HOSTNAME).map(|term| (term.clone(), 1));
    let asking = spec.spread.iter().filter(|spread| !spread.required && &*spread.topology_key == labels::HOSTNAME);
    let spread = asking.map(|spread| of_host(spec, spread));
    apart.chain(spread).filter(|(term, _)| is_own(spec, term))
}

/// Returns the per-host limits of a pod with required spreads over domains, for plans whose nodes are told to
/// kube-scheduler. Each comes with the number of pods of the workload that it allows on one host.
fn own_skews(spec: &PodSpec) -> impl Iterator<Item = (AffinityTerm, i32)> {
    let asking = spec.spread.iter().filter(|spread| spread.required && &*spread.topology_key != labels::HOSTNAME);
    asking.map(|spread| of_host(spec, spread)).filter(|(term, _)| is_own(spec, term))
}

/// Returns a spread as a term over hosts, with `maxSkew` as the limit per host (the minimum count taken as 0).
fn of_host(spec: &PodSpec, spread: &SpreadConstraint) -> (AffinityTerm, i32) {
    let namespaces = NamespaceScope::Only(BTreeSet::from([Arc::clone(&spec.namespace)]));
    let term = AffinityTerm { topology_key: labels::HOSTNAME.into(), selector: spread.selector.clone(), namespaces };
    (term, spread.max_skew.max(1))
}

/// Returns true if `term` of a pod of `spec` selects the pod itself.
pub(super) fn is_own(spec: &PodSpec, term: &AffinityTerm) -> bool {
    term.namespaces.contains(&spec.namespace) && term.selector.matches(&spec.labels)
}

/// Returns true if some workload of several pending pods is spread over domains.
pub(crate) fn has_skews(compiled: &Compiled<'_>) -> bool {
    let several = compiled.classes.iter().filter(|class| class.pods.len() > 1);
    several.map(|class| &compiled.problem.specs[class.spec]).any(|spec| own_skews(spec).next().is_some())
}

/// Limits every workload that is spread over domains to `maxSkew` pods per node, or to more if that would need more
/// than `hosts` nodes.
fn soften_skews(compiled: &Compiled<'_>, hosts: u32, rules: &mut Rules, parts: &mut [Part]) {
    let mut replicas: FxHashMap<AffinityTerm, u32> = FxHashMap::default();
    for class in &compiled.classes {
        for (term, _) in own_skews(&compiled.problem.specs[class.spec]) {
            *replicas.entry(term).or_default() += class.pods.len() as u32;
        }
    }
    for (class, part) in compiled.classes.iter().zip(parts) {
        for (term, most) in own_skews(&compiled.problem.specs[class.spec]) {
            let count = replicas.get(&term).copied().unwrap_or(1);
            let limit = most.max(count.div_ceil(hosts) as i32);
            own_host_rule(part, rules.soften(&term, limit));
        }
    }
}

fn own_host_rule(part: &mut Part, rule: HostRuleId) {
    if !part.owns_host.contains(&rule) {
        part.owns_host.push(rule);
    }
}

/// Limits every workload that prefers separate hosts per node, such that it needs at least `hosts` nodes.
fn soften_hosts(compiled: &Compiled<'_>, hosts: u32, rules: &mut Rules, parts: &mut [Part]) {
    let mut replicas: FxHashMap<AffinityTerm, u32> = FxHashMap::default();
    let owners: Vec<(usize, SpecId)> = compiled.classes.iter().map(|class| class.spec).enumerate().collect();
    for &(class, spec) in &owners {
        for (term, _) in own_host_preferences(&compiled.problem.specs[spec]) {
            *replicas.entry(term).or_default() += compiled.classes[class].pods.len() as u32;
        }
    }
    for &(class, spec) in &owners {
        for (term, most) in own_host_preferences(&compiled.problem.specs[spec]) {
            let count = replicas.get(&term).copied().unwrap_or(1);
            let limit = if hosts == EACH { most } else { count.div_ceil(hosts).max(1) as i32 };
            own_host_rule(&mut parts[class], rules.soften(&term, limit));
        }
    }
}

fn pinned_dimensions(compiled: &Compiled<'_>, rules: &Rules, parts: &[Part]) -> Vec<FixedBitSet> {
    let dimensions = compiled.cells.dimensions.len();
    let mut pinned = vec![FixedBitSet::with_capacity(dimensions); compiled.problem.specs.len()];
    for (class, part) in compiled.classes.iter().zip(parts) {
        let touched = part.owns_domain.iter().copied().chain(part.targets_domain.iter().map(|&(rule, _)| rule));
        for rule in touched {
            if let Some(dimension) = compiled.cells.dimension(&rules.domain[rule].key) {
                pinned[class.spec].insert(dimension);
            }
        }
    }
    pinned
}
