//! Rules between pods, each stored once, with the specs that own them or are counted by them.

use index_vec::{IndexSlice, IndexVec, index_vec};
use rustc_hash::FxHashMap;
use smallvec::SmallVec;

use super::specs::{PlacementId, Specs, ToleranceId, intern};
use crate::index::index_type;
use crate::labels::HOSTNAME;
use crate::model::{AffinityTerm, LabelSelector, Labels, NamespaceScope, PodSpec, SelectorOperator};

/// Constraint of a rule.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum Demand {
    /// At most `max_skew` pods above the emptiest domain.
    Spread {
        /// Maximum number of pods by which a domain may exceed the emptiest one.
        max_skew: i64,
        /// Number of domains below which the minimum counts as zero.
        min_domains: Option<i32>,
        /// Id of the owners' placement, which determines the eligible domains; `None` for hostnames.
        placement: Option<PlacementId>,
        /// Id of the owners' tolerations, if taints limit the domains.
        tolerance: Option<ToleranceId>,
        /// True if only nodes that match the owners' placement count.
        honor_affinity: bool,
        /// True if it must hold, false if it is a preference.
        required: bool,
    },
    /// One of the pods is in the domain.
    Affinity,
    /// None of the pods is in the domain.
    AntiAffinity,
}

/// Namespaces of the pods that a rule counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum Scope<'a> {
    One(&'a str),
    These(&'a NamespaceScope),
}

/// A rule.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct Rule<'a> {
    /// Index in [`Rules::keys`].
    pub(crate) key: usize,
    /// Its constraint.
    pub(crate) demand: Demand,
    selector: &'a LabelSelector,
    scope: Scope<'a>,
}

index_type! {
    /// Position in [`Rules::all`].
    pub(crate) struct RuleId;
}

index_type! {
    /// Position among the distinct namespaces and labels of pods.
    struct LabelsId;
}

/// A short list of rules.
type List = SmallVec<[RuleId; 6]>;

/// All rules of the relevant specs.
pub(crate) struct Rules<'a> {
    /// The rules.
    pub(crate) all: IndexVec<RuleId, Rule<'a>>,
    /// Topology keys; the first is the hostname.
    pub(crate) keys: Vec<&'a str>,
    owned: Vec<List>,
    /// Namespace and labels, by spec; `None` for specs that are not relevant.
    labels: Vec<Option<LabelsId>>,
    counted: IndexVec<LabelsId, List>,
}

/// Index of the hostname in [`Rules::keys`].
pub(crate) const BY_HOST: usize = 0;

impl<'a> Rules<'a> {
    /// Creates the rules of placed specs, and the anti-affinities of bound ones; `soft` adds preferred spreads.
    pub(crate) fn new(specs: &Specs<'a>, placed: &[bool], bound: &[bool], soft: bool) -> Self {
        let all_specs = &specs.problem.specs;
        let mut rules = Self {
            all: IndexVec::new(),
            keys: vec![HOSTNAME],
            owned: vec![List::new(); all_specs.len()],
            labels: vec![None; all_specs.len()],
            counted: IndexVec::new(),
        };
        let mut ids = FxHashMap::default();
        let mut labels_ids = FxHashMap::default();
        let mut labels: IndexVec<LabelsId, (&str, &Labels)> = IndexVec::new();
        for (number, spec) in all_specs.iter().enumerate().filter(|(at, _)| placed[*at] || bound[*at]) {
            if placed[number] {
                rules.add_spreads(specs, number, spec, soft, &mut ids);
                for term in &spec.affinity {
                    rules.add_term(number, term, Demand::Affinity, &mut ids);
                }
            }
            for term in &spec.anti_affinity {
                rules.add_term(number, term, Demand::AntiAffinity, &mut ids);
            }
            rules.labels[number] = Some(intern(&mut labels_ids, &mut labels, (&*spec.namespace, &spec.labels)));
        }
        rules.count(&labels);
        rules
    }

    /// Returns the rules that pods of `spec` own.
    pub(crate) fn owned(&self, spec: usize) -> &[RuleId] {
        &self.owned[spec]
    }

    /// Returns the rules that count pods of `spec`, ascending.
    pub(crate) fn counted(&self, spec: usize) -> &[RuleId] {
        self.labels[spec].map_or(&[], |labels| &self.counted[labels])
    }

    fn key(&mut self, key: &'a str) -> usize {
        let key = crate::labels::stable_name(key);
        self.keys.iter().position(|other| *other == key).unwrap_or_else(|| {
            self.keys.push(key);
            self.keys.len() - 1
        })
    }

    fn own(&mut self, spec: usize, rule: Rule<'a>, ids: &mut FxHashMap<Rule<'a>, RuleId>) {
        let id = intern(ids, &mut self.all, rule);
        if !self.owned[spec].contains(&id) {
            self.owned[spec].push(id);
        }
    }

    fn add_term(&mut self, spec: usize, term: &'a AffinityTerm, demand: Demand, ids: &mut FxHashMap<Rule<'a>, RuleId>) {
        let key = self.key(&term.topology_key);
        let rule = Rule { key, demand, selector: &term.selector, scope: Scope::These(&term.namespaces) };
        self.own(spec, rule, ids);
    }

    fn add_spreads(
        &mut self,
        specs: &Specs<'a>,
        number: usize,
        spec: &'a PodSpec,
        soft: bool,
        ids: &mut FxHashMap<Rule<'a>, RuleId>,
    ) {
        for constraint in spec.spread.iter().filter(|constraint| soft || constraint.required) {
            let key = self.key(&constraint.topology_key);
            let placement = (key != BY_HOST).then(|| specs.placement_id(number));
            let tolerance = (key != BY_HOST && constraint.honor_taints).then(|| specs.tolerance_id(number));
            let demand = Demand::Spread {
                max_skew: i64::from(constraint.max_skew),
                min_domains: constraint.min_domains,
                placement,
                tolerance,
                honor_affinity: constraint.honor_affinity,
                required: constraint.required,
            };
            let scope = Scope::One(&spec.namespace);
            self.own(number, Rule { key, demand, selector: &constraint.selector, scope }, ids);
        }
    }

    /// Finds the labels that each selector matches, by its first `In` if it has one.
    fn count(&mut self, all: &IndexSlice<LabelsId, [(&str, &Labels)]>) {
        let rules = &self.all;
        let mut keys: Vec<&str> = rules.iter().filter_map(|rule| anchor(rule.selector)).map(|(key, _)| key).collect();
        keys.sort_unstable();
        keys.dedup();
        let mut by_label: FxHashMap<(&str, &str), Vec<LabelsId>> = FxHashMap::default();
        for (id, (_, labels)) in all.iter_enumerated() {
            for key in &keys {
                if let Some(value) = labels.get(key) {
                    by_label.entry((key, value)).or_default().push(id);
                }
            }
        }
        let mut counted = index_vec![List::new(); all.len()];
        for (id, rule) in rules.iter_enumerated() {
            let test = |which: LabelsId| {
                let (namespace, labels) = all[which];
                let meant = match rule.scope {
                    Scope::One(name) => name == namespace,
                    Scope::These(names) => names.contains(namespace),
                };
                // Rules are visited in ascending order, so a rule that is already listed is the last one.
                let counted: &mut List = &mut counted[which];
                if meant && counted.last() != Some(&id) && rule.selector.matches(labels) {
                    counted.push(id);
                }
            };
            match anchor(rule.selector) {
                Some((key, values)) => {
                    let found = values.iter().filter_map(|value| by_label.get(&(key, &**value)));
                    found.flatten().copied().for_each(test);
                }
                None => all.indices().for_each(test),
            }
        }
        self.counted = counted;
    }
}

/// Returns a label that every selected pod has, and its values.
fn anchor(selector: &LabelSelector) -> Option<(&str, &[std::sync::Arc<str>])> {
    let LabelSelector::Terms(terms) = selector else { return Some(("", &[])) };
    let term = terms.iter().find(|term| term.operator == SelectorOperator::In)?;
    Some((&term.key, &term.values))
}
