//! Labels and the things that match them.

use std::sync::Arc;

/// Labels, sorted by key. A clone shares them until one of the two is changed: thousands of nodes are copied for a decision.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Default)]
pub struct Labels(Option<Arc<Vec<Label>>>);

/// Labels are sorted by key; without any, there is no list.
type Label = (Arc<str>, Arc<str>);

impl Labels {
    /// The value of `key`.
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

    /// All of them, sorted by key.
    pub fn iter(&self) -> impl Iterator<Item = (&Arc<str>, &Arc<str>)> {
        self.all().iter().map(|(key, value)| (key, value))
    }

    /// Whether there are none.
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
        // What is read once stands for hours.
        if let Some(all) = labels.0.as_mut().and_then(Arc::get_mut) {
            all.shrink_to_fit();
        }
        labels
    }
}

/// A label selector. [`LabelSelector::Nothing`] is a selector that is absent, an empty `terms` matches everything.
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
    /// How it is compared.
    pub operator: SelectorOperator,
    /// With what; sorted.
    pub values: Vec<Arc<str>>,
}

/// So many values are compared one by one, which is as fast.
const FEW_VALUES: usize = 8;

/// Operators of label selectors.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum SelectorOperator {
    /// The label is there with one of the values.
    In,
    /// The label is absent, or has another value.
    NotIn,
    /// The label is there.
    Exists,
    /// The label is absent.
    DoesNotExist,
}

impl LabelSelector {
    /// Whether `labels` are selected.
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

    /// Whether `value` is one of the values.
    fn lists(&self, value: &Arc<str>) -> bool {
        if self.values.len() <= FEW_VALUES {
            self.values.contains(value)
        } else {
            self.values.binary_search(value).is_ok()
        }
    }
}

/// What a taint does to pods that do not tolerate it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Effect {
    /// They are not scheduled.
    NoSchedule,
    /// They are scheduled elsewhere if possible.
    PreferNoSchedule,
    /// They are not scheduled, and evicted.
    NoExecute,
}

/// A taint of a node.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Taint {
    /// Its key.
    pub key: Arc<str>,
    /// Its value, often empty.
    pub value: Arc<str>,
    /// What it does.
    pub effect: Effect,
}

/// A toleration of a pod.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Toleration {
    /// The taint's key; `None` is every key.
    pub key: Option<Arc<str>>,
    /// The taint's value; `None` is every value (operator `Exists`).
    pub value: Option<Arc<str>>,
    /// The effect; `None` is every effect.
    pub effect: Option<Effect>,
}

impl Toleration {
    /// Whether it covers `taint`.
    pub fn tolerates(&self, taint: &Taint) -> bool {
        self.key.as_ref().is_none_or(|key| *key == taint.key)
            && self.value.as_ref().is_none_or(|value| *value == taint.value)
            && self.effect.is_none_or(|effect| effect == taint.effect)
    }
}

impl Taint {
    /// Whether a pod without a toleration for it is kept off (`PreferNoSchedule` only asks).
    pub fn repels(&self) -> bool {
        self.effect != Effect::PreferNoSchedule
    }
}
