//! Labels, and the selectors, taints and tolerations that match them.

use std::sync::Arc;

/// Labels, sorted by key. A clone shares them until one of the two is changed: a decision copies thousands of nodes.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Default)]
pub struct Labels(Option<Arc<Vec<Label>>>);

/// Labels are sorted by key; an empty set has no list.
type Label = (Arc<str>, Arc<str>);

impl Labels {
    /// Returns the value of `key`.
    pub fn get(&self, key: &str) -> Option<&Arc<str>> {
        let all = self.all();
        all.binary_search_by(|(other, _)| (**other).cmp(key)).ok().map(|at| &all[at].1)
    }

    /// Sets `key` to `value`.
    pub fn set(&mut self, key: impl Into<Arc<str>>, value: impl Into<Arc<str>>) {
        let (key, value) = (key.into(), value.into());
        let all = Arc::make_mut(self.0.get_or_insert_default());
        match all.binary_search_by(|(other, _)| other.cmp(&key)) {
            Ok(at) => all[at].1 = value,
            Err(at) => all.insert(at, (key, value)),
        }
    }

    /// Returns all labels, sorted by key.
    pub fn iter(&self) -> impl Iterator<Item = (&Arc<str>, &Arc<str>)> {
        self.all().iter().map(|(key, value)| (key, value))
    }

    /// Returns true if the list is empty.
    pub fn is_empty(&self) -> bool {
        self.0.is_none()
    }

    fn all(&self) -> &[Label] {
        self.0.as_ref().map_or(&[], |all| all)
    }
}

impl<K: Into<Arc<str>>, V: Into<Arc<str>>> FromIterator<(K, V)> for Labels {
    fn from_iter<I: IntoIterator<Item = (K, V)>>(entries: I) -> Self {
        let mut labels = Self::default();
        for (key, value) in entries {
            labels.set(key, value);
        }
        // Labels are read once and kept for hours.
        if let Some(all) = labels.0.as_mut().and_then(Arc::get_mut) {
            all.shrink_to_fit();
        }
        labels
    }
}

/// A label selector. [`LabelSelector::Nothing`] is an absent selector; empty `terms` match everything.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum LabelSelector {
    /// No selector was given: no pod matches.
    Nothing,
    /// All terms must hold (`matchLabels` are `In` with one value).
    Terms(Vec<SelectorTerm>),
}

/// One expression of a label selector.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct SelectorTerm {
    /// The label.
    pub key: Arc<str>,
    /// Operator that compares the label with `values`.
    pub operator: SelectorOperator,
    /// The values, sorted.
    pub values: Vec<Arc<str>>,
}

/// Number of values up to which a linear search is as fast as a binary one.
const FEW_VALUES: usize = 8;

/// Operators of label selectors.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum SelectorOperator {
    /// The label exists with one of the values.
    In,
    /// The label is absent, or has another value.
    NotIn,
    /// The label exists.
    Exists,
    /// The label is absent.
    DoesNotExist,
}

impl LabelSelector {
    /// Returns true if the selector matches `labels`.
    pub fn matches(&self, labels: &Labels) -> bool {
        match self {
            Self::Nothing => false,
            Self::Terms(terms) => terms.iter().all(|term| term.matches(labels)),
        }
    }
}

impl SelectorTerm {
    fn matches(&self, labels: &Labels) -> bool {
        let value = labels.get(&self.key);
        match self.operator {
            SelectorOperator::In => value.is_some_and(|value| self.lists(value)),
            SelectorOperator::NotIn => value.is_none_or(|value| !self.lists(value)),
            SelectorOperator::Exists => value.is_some(),
            SelectorOperator::DoesNotExist => value.is_none(),
        }
    }

    /// Returns true if `value` is one of the values.
    fn lists(&self, value: &Arc<str>) -> bool {
        if self.values.len() <= FEW_VALUES {
            self.values.contains(value)
        } else {
            self.values.binary_search(value).is_ok()
        }
    }
}

/// Effect of a taint on pods that do not tolerate it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Effect {
    /// They are not scheduled.
    NoSchedule,
    /// They are scheduled elsewhere if possible.
    PreferNoSchedule,
    /// They are not scheduled, and running pods are evicted.
    NoExecute,
}

/// A taint of a node.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Taint {
    /// Its key.
    pub key: Arc<str>,
    /// Its value, often empty.
    pub value: Arc<str>,
    /// Its effect.
    pub effect: Effect,
}

/// A toleration of a pod.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Toleration {
    /// The taint's key; `None` matches every key.
    pub key: Option<Arc<str>>,
    /// The taint's value; `None` matches every value (operator `Exists`).
    pub value: Option<Arc<str>>,
    /// The effect; `None` matches every effect.
    pub effect: Option<Effect>,
}

impl Toleration {
    /// Returns true if it tolerates `taint`.
    pub fn tolerates(&self, taint: &Taint) -> bool {
        self.key.as_ref().is_none_or(|key| *key == taint.key)
            && self.value.as_ref().is_none_or(|value| *value == taint.value)
            && self.effect.is_none_or(|effect| effect == taint.effect)
    }
}

impl Taint {
    /// Returns true if it keeps off pods without a toleration (`PreferNoSchedule` is only a preference).
    pub fn repels(&self) -> bool {
        self.effect != Effect::PreferNoSchedule
    }
}
