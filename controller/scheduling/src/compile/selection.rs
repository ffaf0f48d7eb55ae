//! Index of subjects by the labels that they select: a pod's labels are looked up instead of compared with every
//! subject.
//!
//! A subject is listed under one expression that each selected pod must satisfy: the values of its shortest `In`,
//! otherwise the label of an `Exists`. If that is its only expression and its namespaces are one or all, the lookup
//! decides; otherwise the subject is compared.

use std::sync::Arc;

use rustc_hash::FxHashMap;
use smallvec::SmallVec;

use crate::model::{LabelSelector, Labels, NamespaceScope, SelectorOperator, SelectorTerm};

/// Subjects under one expression.
type Bucket = Vec<Entry>;

#[derive(Debug, Clone, Copy)]
struct Entry {
    subject: u32,
    /// True if the lookup decides, without a comparison.
    decided: bool,
}

/// Subjects of one namespace, or of several.
#[derive(Debug, Default)]
struct Listed {
    by_label: FxHashMap<Arc<str>, ByValue>,
    /// Subjects without an expression to look up.
    others: Bucket,
}

/// Subjects that require one label.
#[derive(Debug, Default)]
struct ByValue {
    values: FxHashMap<Arc<str>, Bucket>,
    any: Bucket,
}

/// An index of subjects, which the caller numbers.
#[derive(Debug, Default)]
pub(crate) struct Selection {
    /// Subjects of a single namespace, by namespace.
    one: FxHashMap<Arc<str>, Listed>,
    /// Subjects of several namespaces, or of all.
    several: Listed,
}

impl Selection {
    /// Adds a subject; numbers must ascend.
    pub(crate) fn add(&mut self, subject: u32, selector: &LabelSelector, namespaces: &NamespaceScope) {
        let LabelSelector::Terms(terms) = selector else { return };
        let single = match namespaces {
            NamespaceScope::Only(names) if names.len() == 1 => names.first(),
            NamespaceScope::Only(names) if names.is_empty() => return,
            NamespaceScope::Only(_) | NamespaceScope::All => None,
        };
        let listed = match single {
            Some(name) if !self.one.contains_key(name) => self.one.entry(Arc::clone(name)).or_default(),
            Some(name) => match self.one.get_mut(name) {
                Some(listed) => listed,
                None => return,
            },
            None => &mut self.several,
        };
        let scoped = single.is_some() || *namespaces == NamespaceScope::All;
        let entry = Entry { subject, decided: scoped && terms.len() <= 1 };
        let of = |operator: SelectorOperator| terms.iter().filter(move |term| term.operator == operator);
        let shortest = of(SelectorOperator::In).min_by_key(|term| term.values.len());
        match (shortest, of(SelectorOperator::Exists).next()) {
            (Some(SelectorTerm { key, values, .. }), _) => {
                let by_value = by_label(listed, key);
                for value in values {
                    let bucket = match by_value.values.get_mut(value) {
                        Some(bucket) => bucket,
                        None => by_value.values.entry(Arc::clone(value)).or_default(),
                    };
                    // A selector may list a value twice.
                    if bucket.last().is_none_or(|last| last.subject != subject) {
                        bucket.push(entry);
                    }
                }
            }
            (None, Some(SelectorTerm { key, .. })) => by_label(listed, key).any.push(entry),
            (None, None) => listed.others.push(Entry { decided: scoped && terms.is_empty(), ..entry }),
        }
    }

    /// Returns the subjects that select a pod with `labels` in `namespace`, ascending; `selects` compares those that
    /// the lookup does not decide.
    pub(crate) fn of(&self, namespace: &str, labels: &Labels, selects: impl Fn(u32) -> bool) -> SmallVec<[u32; 4]> {
        let mut found = SmallVec::new();
        for listed in self.one.get(namespace).into_iter().chain([&self.several]) {
            let mut take = |bucket: &Bucket| {
                let selected = bucket.iter().filter(|entry| entry.decided || selects(entry.subject));
                found.extend(selected.map(|entry| entry.subject));
            };
            take(&listed.others);
            if listed.by_label.is_empty() {
                continue;
            }
            for (key, value) in labels.iter() {
                let Some(by_value) = listed.by_label.get(key) else { continue };
                take(&by_value.any);
                by_value.values.get(value).into_iter().for_each(&mut take);
            }
        }
        found.sort_unstable();
        found
    }
}

fn by_label<'l>(listed: &'l mut Listed, key: &Arc<str>) -> &'l mut ByValue {
    listed.by_label.entry(Arc::clone(key)).or_default()
}
