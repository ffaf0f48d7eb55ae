//! Rules between pods, each stored once, and which specs own them or are counted by them.

use rustc_hash::FxHashMap;
use smallvec::SmallVec;

use super::specs::{Specs, intern};
use crate::labels::HOSTNAME;
use crate::model::{AffinityTerm, LabelSelector, Labels, NamespaceScope, PodSpec, SelectorOperator};

/// What a rule demands.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum Demand {
    /// At most `max_skew` above the emptiest domain.
    Spread {
        /// How much fuller than the emptiest domain one may be.
        max_skew: i64,
        /// Below this many domains the minimum counts as zero.
        min_domains: Option<i32>,
        /// The owners' placement, which says which domains they could have; nothing for hostnames.
        placement: Option<u32>,
        /// The owners' tolerations, if taints limit the domains.
        tolerance: Option<u32>,
        /// Whether only nodes that suit the owners' placement count.
        honor_affinity: bool,
        /// Whether it must hold or only asks.
        required: bool,
    },
    /// One of the pods is in the domain.
    Affinity,
    /// None of the pods is in the domain.
    AntiAffinity,
}

/// Whose pods a rule counts.
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
    /// What it demands.
    pub(crate) demand: Demand,
    selector: &'a LabelSelector,
    scope: Scope<'a>,
}

/// A short list of rules.
pub(crate) type List = SmallVec<[u32; 6]>;

/// All rules of the specs that matter.
pub(crate) struct Rules<'a> {
    /// The rules.
    pub(crate) all: Vec<Rule<'a>>,
    /// The labels they count by; the first is the hostname.
    pub(crate) keys: Vec<&'a str>,
    owned: Vec<List>,
    group: Vec<u32>,
    counted: Vec<List>,
}

/// The hostname's place in [`Rules::keys`].
pub(crate) const BY_HOST: usize = 0;

impl<'a> Rules<'a> {
    /// Rules of placed specs, and the anti-affinities of bound ones; `soft` adds spreads that only ask.
    pub(crate) fn new(specs: &Specs<'a>, placed: &[bool], bound: &[bool], soft: bool) -> Self {
        let all_specs = &specs.problem.specs;
        let mut rules = Self {
            all: Vec::new(),
            keys: vec![HOSTNAME],
            owned: vec![List::new(); all_specs.len()],
            group: vec![u32::MAX; all_specs.len()],
            counted: Vec::new(),
        };
        let mut ids = FxHashMap::default();
        let mut group_ids = FxHashMap::default();
        let mut groups: Vec<(&str, &Labels)> = Vec::new();
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
            rules.group[number] = intern(&mut group_ids, &mut groups, (&*spec.namespace, &spec.labels));
        }
        rules.counted = vec![List::new(); groups.len()];
        if !rules.all.is_empty() {
            rules.count(&groups);
        }
        rules
    }

    /// Rules that pods of `spec` bring.
    pub(crate) fn owned(&self, spec: usize) -> &[u32] {
        &self.owned[spec]
    }

    /// Rules that count pods of `spec`, ascending.
    pub(crate) fn counted(&self, spec: usize) -> &[u32] {
        self.counted.get(self.group[spec] as usize).map_or(&[], |list| list)
    }

    fn key(&mut self, key: &'a str) -> usize {
        let key = crate::labels::stable_name(key);
        self.keys.iter().position(|other| *other == key).unwrap_or_else(|| {
            self.keys.push(key);
            self.keys.len() - 1
        })
    }

    fn own(&mut self, spec: usize, rule: Rule<'a>, ids: &mut FxHashMap<Rule<'a>, u32>) {
        let id = intern(ids, &mut self.all, rule);
        if !self.owned[spec].contains(&id) {
            self.owned[spec].push(id);
        }
    }

    fn add_term(&mut self, spec: usize, term: &'a AffinityTerm, demand: Demand, ids: &mut FxHashMap<Rule<'a>, u32>) {
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
        ids: &mut FxHashMap<Rule<'a>, u32>,
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

    /// Finds the groups of labels that each selector matches, by its first `In` where it has one.
    fn count(&mut self, groups: &[(&str, &Labels)]) {
        let rules = &self.all;
        let mut keys: Vec<&str> = rules.iter().filter_map(|rule| anchor(rule.selector)).map(|(key, _)| key).collect();
        keys.sort_unstable();
        keys.dedup();
        let mut by_label: FxHashMap<(&str, &str), Vec<u32>> = FxHashMap::default();
        for (group, (_, labels)) in (0_u32..).zip(groups) {
            for key in &keys {
                if let Some(value) = labels.get(key) {
                    by_label.entry((key, value)).or_default().push(group);
                }
            }
        }
        let mut counted = vec![List::new(); groups.len()];
        for (id, rule) in (0_u32..).zip(rules) {
            let mut test = |group: u32| {
                let (namespace, labels) = groups[group as usize];
                let meant = match rule.scope {
                    Scope::One(name) => name == namespace,
                    Scope::These(names) => names.contains(namespace),
                };
                // Rules come in ascending order, so one that is known is the last.
                let counted = &mut counted[group as usize];
                if meant && counted.last() != Some(&id) && rule.selector.matches(labels) {
                    counted.push(id);
                }
            };
            match anchor(rule.selector) {
                Some((key, values)) => {
                    let found = values.iter().filter_map(|value| by_label.get(&(key, &**value)));
                    found.flatten().for_each(|&group| test(group));
                }
                None => (0_u32..).zip(groups).for_each(|(group, _)| test(group)),
            }
        }
        self.counted = counted;
    }
}

/// A label that whatever is selected must have, and its values.
fn anchor(selector: &LabelSelector) -> Option<(&str, &[std::sync::Arc<str>])> {
    let LabelSelector::Terms(terms) = selector else { return Some(("", &[])) };
    let term = terms.iter().find(|term| term.operator == SelectorOperator::In)?;
    Some((&term.key, &term.values))
}
