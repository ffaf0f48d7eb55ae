//! Rules between pods, in a form that holds for a finished plan in any order of binding.
//!
//! A *host rule* says: a node that holds an owner holds at most `limit` targets. Anti-affinity on hostnames, hostname
//! spread and host ports have this form. A *domain rule* says the same of a label's values (mostly zones); owners may
//! also require balance (spread) or other pods (affinity) there.

use std::collections::BTreeSet;
use std::hash::BuildHasher;
use std::sync::Arc;

use index_vec::{IndexSlice, IndexVec};
use rustc_hash::{FxBuildHasher, FxHashMap};
use smallvec::SmallVec;

use super::selection::Selection;
use crate::index::index_type;
use crate::labels;
use crate::model::{
    AffinityTerm, HostPort, LabelSelector, Labels, NamespaceScope, Node, PodSpec, Requirements, SpreadConstraint,
    Taint, Toleration,
};

index_type! {
    /// Position in [`Rules::host`].
    pub(crate) struct HostRuleId;
}

index_type! {
    /// Position in [`Rules::domain`].
    pub(crate) struct DomainRuleId;
}

/// Pods to which a rule applies.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) enum Subject {
    /// Pods with these labels in these namespaces.
    Term { selector: LabelSelector, namespaces: NamespaceScope },
    /// Pods that use this port, or one that conflicts with it.
    Port(HostPort),
}

/// A rule about one node.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) struct HostRule {
    pub(crate) subject: u32,
    pub(crate) limit: i32,
    /// True for anti-affinity and ports: an owner excludes later targets. A spread is only checked when its owner is
    /// placed.
    pub(crate) symmetric: bool,
}

/// Constraint of a domain rule.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) enum Demand {
    /// Final counts differ by at most `max_skew` over the domains that count.
    Spread { max_skew: i32, min_domains: i32, filter: Option<Filter>, required: bool },
    /// A domain with an owner holds at most this many targets.
    AtMost(i32),
    /// A domain with an owner holds a target.
    Company,
}

/// Domains that count for the minimum of a spread: those that its owner's selector and affinity allow. The owner's
/// `nodeAffinityPolicy` and `nodeTaintsPolicy` choose the nodes that count in them.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) struct Filter {
    pub(crate) node_selector: Requirements,
    pub(crate) node_terms: Vec<Requirements>,
    /// `nodeAffinityPolicy: Ignore`: pods on all nodes count.
    pub(crate) every_node: bool,
    pub(crate) tolerations: Option<Vec<Toleration>>,
}

impl Filter {
    /// Returns true if the owner tolerates these taints or ignores taints.
    pub(crate) fn tolerates(&self, taints: &[Taint]) -> bool {
        let tolerated = |tolerations: &Vec<Toleration>, taint: &Taint| tolerations.iter().any(|it| it.tolerates(taint));
        let mut repelling = taints.iter().filter(|taint| taint.repels());
        self.tolerations.as_ref().is_none_or(|tolerations| repelling.all(|taint| tolerated(tolerations, taint)))
    }

    /// Returns true if pods on an existing node count.
    pub(crate) fn counts_on(&self, node: &Node) -> bool {
        self.tolerates(&node.taints)
            && (self.every_node || self.suits_labels(|key| node.labels.get(key).map(|value| &**value)))
    }

    /// Returns true if the owner's selector and affinity hold for labels of which `label` returns the values.
    pub(crate) fn suits_labels<'v>(&self, label: impl Fn(&str) -> Option<&'v str>) -> bool {
        let holds = |term: &Requirements| {
            term.iter().all(|(key, wanted)| match label(key) {
                Some(value) => wanted.has(value),
                None => wanted.allows_absence(),
            })
        };
        holds(&self.node_selector) && (self.node_terms.is_empty() || self.node_terms.iter().any(holds))
    }

    /// Returns true if the owner's selector and affinity allow `value` for `key`.
    pub(crate) fn allows(&self, key: &str, value: &str) -> bool {
        let allows = |term: &Requirements| term.get(key).is_none_or(|wanted| wanted.has(value));
        allows(&self.node_selector) && (self.node_terms.is_empty() || self.node_terms.iter().any(allows))
    }
}

/// A rule about the values of one label.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) struct DomainRule {
    pub(crate) subject: u32,
    pub(crate) key: Arc<str>,
    pub(crate) demand: Demand,
}

/// Rules that one pod spec owns or is a target of.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Part {
    pub(crate) owns_host: SmallVec<[HostRuleId; 2]>,
    /// Rule, and the number of targets that one unit counts as.
    pub(crate) targets_host: SmallVec<[(HostRuleId, i32); 2]>,
    pub(crate) owns_domain: SmallVec<[DomainRuleId; 2]>,
    pub(crate) targets_domain: SmallVec<[(DomainRuleId, i32); 2]>,
    /// Subjects of required affinity on hostnames.
    pub(crate) joins: SmallVec<[u32; 1]>,
}

impl Part {
    /// Returns true if a node with so many owners and targets of each rule has no room for one more unit.
    pub(crate) fn is_blocked(&self, rules: &Rules, owners: &ByHostRule, targets: &ByHostRule) -> bool {
        let limit = |rule: HostRuleId| rules.host[rule].limit;
        let own =
            |rule: HostRuleId| self.targets_host.iter().find(|&&(one, _)| one == rule).map_or(0, |&(_, count)| count);
        self.owns_host.iter().any(|&rule| targets[rule] + own(rule) > limit(rule))
            || self.targets_host.iter().any(|&(rule, count)| owners[rule] > 0 && targets[rule] + count > limit(rule))
    }
}

/// Number of units by host rule.
type ByHostRule = IndexSlice<HostRuleId, [i32]>;

/// All rules of a problem.
#[derive(Debug, Default)]
pub(crate) struct Rules {
    pub(crate) subjects: Vec<Subject>,
    pub(crate) host: IndexVec<HostRuleId, HostRule>,
    pub(crate) domain: IndexVec<DomainRuleId, DomainRule>,
    /// Subjects by their hash, so that none is stored twice.
    subject_ids: FxHashMap<u64, SmallVec<[u32; 1]>>,
    selection: Selection,
    /// Subjects that are ports.
    ports: Vec<u32>,
    host_ids: FxHashMap<HostRule, HostRuleId>,
    domain_ids: FxHashMap<DomainRule, DomainRuleId>,
    /// Subjects that select a set of labels in a namespace, by namespace and labels.
    selected: FxHashMap<(Arc<str>, Labels), SmallVec<[u32; 4]>>,
}

/// Preferred terms that a pass treats as required.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Softness<'a> {
    /// `ScheduleAnyway` spreads over these labels count as required.
    pub(crate) spreads: Option<&'a BTreeSet<Arc<str>>>,
}

impl Rules {
    /// Adds the rules that `spec` owns: all of them for pending pods, only those that restrict other pods for bound
    /// ones.
    pub(crate) fn learn(&mut self, spec: &PodSpec, pending: bool, softness: Softness<'_>) -> Part {
        let mut part = Part::default();
        for term in &spec.anti_affinity {
            let subject = self.subject_of(term);
            let limit = i32::from(self.selects(subject, spec));
            if &*term.topology_key == labels::HOSTNAME {
                part.owns_host.push(self.host_rule(HostRule { subject, limit, symmetric: true }));
            } else {
                let key = Arc::clone(&term.topology_key);
                part.owns_domain.push(self.domain_rule(DomainRule { subject, key, demand: Demand::AtMost(limit) }));
            }
        }
        if pending {
            self.learn_pending(spec, softness, &mut part);
        }
        for port in &spec.host_ports {
            let subject = self.port(*port);
            part.owns_host.push(self.host_rule(HostRule { subject, limit: 1, symmetric: true }));
        }
        part.owns_host.sort_unstable();
        part.owns_host.dedup();
        part.owns_domain.sort_unstable();
        part.owns_domain.dedup();
        part
    }

    fn learn_pending(&mut self, spec: &PodSpec, softness: Softness<'_>, part: &mut Part) {
        for term in &spec.affinity {
            let subject = self.subject_of(term);
            if &*term.topology_key == labels::HOSTNAME {
                part.joins.push(subject);
            } else {
                let key = Arc::clone(&term.topology_key);
                part.owns_domain.push(self.domain_rule(DomainRule { subject, key, demand: Demand::Company }));
            }
        }
        for spread in &spec.spread {
            let own = NamespaceScope::Only(BTreeSet::from([Arc::clone(&spec.namespace)]));
            let subject = self.term(&spread.selector, &own);
            if &*spread.topology_key == labels::HOSTNAME {
                if spread.required {
                    let limit = spread.max_skew.max(1);
                    part.owns_host.push(self.host_rule(HostRule { subject, limit, symmetric: false }));
                }
            } else if spread.required || softness.spreads.is_some_and(|keys| keys.contains(&spread.topology_key)) {
                let key = Arc::clone(&spread.topology_key);
                let demand = spread_demand(spec, spread);
                part.owns_domain.push(self.domain_rule(DomainRule { subject, key, demand }));
            }
        }
    }

    /// Adds a host rule with `limit` over the subject of `term`, for preferred anti-affinity that a pass honours.
    pub(crate) fn soften(&mut self, term: &AffinityTerm, limit: i32) -> HostRuleId {
        let subject = self.subject_of(term);
        self.host_rule(HostRule { subject, limit, symmetric: false })
    }

    /// Adds to `part` the rules of which `spec` is a target. All rules must be known.
    pub(crate) fn aim(&mut self, spec: &PodSpec, part: &mut Part, by_subject: &RulesBySubject) {
        let subjects = self.subjects_of(spec);
        for subject in subjects {
            part.targets_host.extend(by_subject.host[subject as usize].iter().map(|&rule| (rule, 1)));
            part.targets_domain.extend(by_subject.domain[subject as usize].iter().map(|&rule| (rule, 1)));
        }
        part.targets_host.sort_unstable();
        part.targets_domain.sort_unstable();
    }

    /// Returns the subjects that select `spec`.
    pub(crate) fn subjects_of(&mut self, spec: &PodSpec) -> SmallVec<[u32; 4]> {
        // Without rules, labels are read for nothing: thousands of them for each trial of consolidation.
        if self.subjects.is_empty() {
            return SmallVec::new();
        }
        let key = (Arc::clone(&spec.namespace), spec.labels.clone());
        let mut found = match self.selected.get(&key) {
            Some(found) => found.clone(),
            None => {
                let selects = |subject: u32| self.selects(subject, spec);
                let found = self.selection.of(&spec.namespace, &spec.labels, selects);
                self.selected.insert(key, found.clone());
                found
            }
        };
        if !spec.host_ports.is_empty() {
            found.extend(self.ports.iter().copied().filter(|&subject| self.selects(subject, spec)));
        }
        found
    }

    /// Returns true if `subject` selects pods like `spec`.
    pub(crate) fn selects(&self, subject: u32, spec: &PodSpec) -> bool {
        match &self.subjects[subject as usize] {
            Subject::Term { selector, namespaces } => {
                namespaces.contains(&spec.namespace) && selector.matches(&spec.labels)
            }
            Subject::Port(port) => spec.host_ports.iter().any(|own| own.conflicts(port)),
        }
    }

    /// Returns the rules by subject. All rules must be known.
    pub(crate) fn by_subject(&self) -> RulesBySubject {
        let mut host = vec![SmallVec::new(); self.subjects.len()];
        for (rule, one) in self.host.iter_enumerated() {
            host[one.subject as usize].push(rule);
        }
        let mut domain = vec![SmallVec::new(); self.subjects.len()];
        for (rule, one) in self.domain.iter_enumerated() {
            domain[one.subject as usize].push(rule);
        }
        RulesBySubject { host, domain }
    }

    fn subject_of(&mut self, term: &AffinityTerm) -> u32 {
        self.term(&term.selector, &term.namespaces)
    }

    /// Returns the subject of these pods; the selector and namespaces are cloned only the first time.
    fn term(&mut self, selector: &LabelSelector, namespaces: &NamespaceScope) -> u32 {
        let is_it = |subject: &Subject| match subject {
            Subject::Term { selector: other, namespaces: others } => selector == other && namespaces == others,
            Subject::Port(_) => false,
        };
        let hash = FxBuildHasher.hash_one((selector, namespaces));
        let (id, is_new) =
            self.intern(hash, is_it, || Subject::Term { selector: selector.clone(), namespaces: namespaces.clone() });
        if is_new {
            self.selection.add(id, selector, namespaces);
        }
        id
    }

    fn port(&mut self, port: HostPort) -> u32 {
        let is_it = |subject: &Subject| *subject == Subject::Port(port);
        let (id, is_new) = self.intern(FxBuildHasher.hash_one(port), is_it, || Subject::Port(port));
        if is_new {
            self.ports.push(id);
        }
        id
    }

    /// Returns the id of a subject, and true if it is new.
    fn intern(&mut self, hash: u64, is_it: impl Fn(&Subject) -> bool, make: impl FnOnce() -> Subject) -> (u32, bool) {
        let alike = self.subject_ids.entry(hash).or_default();
        if let Some(&id) = alike.iter().find(|&&id| is_it(&self.subjects[id as usize])) {
            return (id, false);
        }
        let id = self.subjects.len() as u32;
        alike.push(id);
        self.subjects.push(make());
        (id, true)
    }

    fn host_rule(&mut self, rule: HostRule) -> HostRuleId {
        if let Some(&id) = self.host_ids.get(&rule) {
            return id;
        }
        let id = self.host.push(rule.clone());
        self.host_ids.insert(rule, id);
        id
    }

    fn domain_rule(&mut self, rule: DomainRule) -> DomainRuleId {
        if let Some(&id) = self.domain_ids.get(&rule) {
            return id;
        }
        let id = self.domain.push(rule.clone());
        self.domain_ids.insert(rule, id);
        id
    }
}

/// Rules by their subject.
#[derive(Debug)]
pub(crate) struct RulesBySubject {
    pub(crate) host: Vec<SmallVec<[HostRuleId; 2]>>,
    pub(crate) domain: Vec<SmallVec<[DomainRuleId; 2]>>,
}

fn spread_demand(spec: &PodSpec, spread: &SpreadConstraint) -> Demand {
    let narrowed = !(spec.node_selector.is_empty() && spec.node_terms.is_empty());
    let filter = (narrowed || spread.honor_taints).then(|| Filter {
        node_selector: spec.node_selector.clone(),
        node_terms: spec.node_terms.clone(),
        every_node: !spread.honor_affinity,
        tolerations: spread.honor_taints.then(|| spec.tolerations.clone()),
    });
    Demand::Spread {
        max_skew: spread.max_skew.max(1),
        min_domains: spread.min_domains.unwrap_or(1),
        filter,
        required: spread.required,
    }
}
