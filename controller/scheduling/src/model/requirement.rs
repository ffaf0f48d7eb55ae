//! One key of the requirement algebra.

use std::collections::BTreeSet;
use std::fmt;
use std::sync::Arc;

use smallvec::SmallVec;

/// Operators of node selector requirements; `Gte` and `Lte` are Karpenter's own.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Operator {
    /// One of the values.
    In,
    /// Absent, or none of the values.
    NotIn,
    /// Any value.
    Exists,
    /// Absent.
    DoesNotExist,
    /// An integer greater than the value.
    Gt,
    /// An integer less than the value.
    Lt,
    /// An integer not less than the value.
    Gte,
    /// An integer not greater than the value.
    Lte,
}

impl Operator {
    /// Returns its name in manifests.
    pub fn name(self) -> &'static str {
        match self {
            Self::In => "In",
            Self::NotIn => "NotIn",
            Self::Exists => "Exists",
            Self::DoesNotExist => "DoesNotExist",
            Self::Gt => "Gt",
            Self::Lt => "Lt",
            Self::Gte => "Gte",
            Self::Lte => "Lte",
        }
    }
}

type Values = SmallVec<[Arc<str>; 1]>;

/// The set of values that one label may have: a finite set, or everything except a finite set, within bounds.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Requirement {
    complement: bool,
    /// Sorted, without duplicates. Most have one value, which needs no allocation of its own.
    values: Values,
    gte: Option<i64>,
    lte: Option<i64>,
    /// True if the bound was written as `Gt` or `Lt`, and is displayed that way.
    above: bool,
    below: bool,
    /// Minimum number of distinct values that a launch must allow, if the pool sets one.
    pub min_values: Option<u32>,
}

impl Requirement {
    /// Creates a requirement. Bounds use the first value; one that is not an integer allows nothing.
    pub fn new<V: Into<Arc<str>>>(operator: Operator, values: impl IntoIterator<Item = V>) -> Self {
        let mut values: Values = values.into_iter().map(Into::into).collect();
        values.sort_unstable();
        values.dedup();
        let bound = |shift: i64| {
            let value = values.first().and_then(|value| value.parse::<i64>().ok());
            value.and_then(|value| value.checked_add(shift))
        };
        match operator {
            Operator::In => Self::finite(values),
            Operator::DoesNotExist => Self::finite(Values::new()),
            Operator::NotIn => Self { values, ..Self::any() },
            Operator::Exists => Self::any(),
            Operator::Gt => {
                bound(1).map_or_else(Self::none, |gte| Self { above: true, ..Self::bounded(Some(gte), None) })
            }
            Operator::Lt => {
                bound(-1).map_or_else(Self::none, |lte| Self { below: true, ..Self::bounded(None, Some(lte)) })
            }
            Operator::Gte => bound(0).map_or_else(Self::none, |gte| Self::bounded(Some(gte), None)),
            Operator::Lte => bound(0).map_or_else(Self::none, |lte| Self::bounded(None, Some(lte))),
        }
    }

    /// Allows any value.
    pub fn any() -> Self {
        Self::bounded(None, None)
    }

    /// Allows no value: the label must be absent.
    pub fn none() -> Self {
        Self::finite(Values::new())
    }

    fn finite(values: Values) -> Self {
        Self { complement: false, values, gte: None, lte: None, above: false, below: false, min_values: None }
    }

    fn bounded(gte: Option<i64>, lte: Option<i64>) -> Self {
        Self { complement: true, values: Values::new(), gte, lte, above: false, below: false, min_values: None }
    }

    /// Returns the requirement with `minValues` replaced.
    #[must_use]
    pub fn with_min_values(mut self, min_values: Option<u32>) -> Self {
        self.min_values = min_values;
        self
    }

    /// Returns the operator that describes it; bounded ones count as `Exists` or `NotIn`.
    pub fn operator(&self) -> Operator {
        match (self.complement, self.values.is_empty()) {
            (true, true) => Operator::Exists,
            (true, false) => Operator::NotIn,
            (false, true) => Operator::DoesNotExist,
            (false, false) => Operator::In,
        }
    }

    /// Returns true if the label may be absent.
    pub fn allows_absence(&self) -> bool {
        matches!(self.operator(), Operator::NotIn | Operator::DoesNotExist)
    }

    /// Returns true if a value that does not occur anywhere yet is allowed, such as the name of a future node.
    pub fn allows_unheard(&self) -> bool {
        self.has("\0")
    }

    /// Returns true if some value other than `values`, which must be finitely many, is allowed.
    pub(crate) fn allows_beyond(&self, values: &[Arc<str>]) -> bool {
        if !self.complement {
            return self.values.iter().any(|value| !values.contains(value));
        }
        let (Some(gte), Some(lte)) = (self.gte, self.lte) else { return true };
        let known = self.values.iter().chain(values).filter_map(|value| value.parse::<i64>().ok());
        let known: BTreeSet<i64> = known.filter(|number| (gte..=lte).contains(number)).collect();
        let span = lte.saturating_sub(gte).saturating_add(1);
        usize::try_from(span).map_or(true, |span| span > known.len())
    }

    /// Returns the allowed values if they are finitely many, otherwise the excluded ones.
    pub fn values(&self) -> impl Iterator<Item = &Arc<str>> {
        self.values.iter()
    }

    /// Returns true if [`Self::values`] lists the allowed values, false if it lists the excluded ones.
    pub fn is_finite(&self) -> bool {
        !self.complement
    }

    /// Returns the inclusive lower and upper bound.
    pub fn bounds(&self) -> (Option<i64>, Option<i64>) {
        (self.gte, self.lte)
    }

    /// Returns true if `value` is allowed.
    pub fn has(&self, value: &str) -> bool {
        self.lists(value) != self.complement && self.within_bounds(value)
    }

    fn lists(&self, value: &str) -> bool {
        match &*self.values {
            [one] => **one == *value,
            several => several.binary_search_by(|other| (**other).cmp(value)).is_ok(),
        }
    }

    fn within_bounds(&self, value: &str) -> bool {
        if self.gte.is_none() && self.lte.is_none() {
            return true;
        }
        value
            .parse::<i64>()
            .is_ok_and(|number| self.gte.is_none_or(|gte| number >= gte) && self.lte.is_none_or(|lte| number <= lte))
    }

    /// Returns the requirement that allows only values which both allow; `minValues` is the larger one.
    #[must_use]
    pub fn intersection(&self, other: &Self) -> Self {
        let min_values = self.min_values.max(other.min_values);
        let gte = self.gte.max(other.gte);
        let lte = match (self.lte, other.lte) {
            (Some(a), Some(b)) => Some(a.min(b)),
            (a, b) => a.or(b),
        };
        if gte.zip(lte).is_some_and(|(gte, lte)| gte > lte) {
            return Self::none().with_min_values(min_values);
        }
        // Of two equal bounds, one that was written as `Gte` or `Lte` decides how the result is displayed.
        let above = [self, other].iter().all(|it| it.gte != gte || it.above) && gte.is_some();
        let below = [self, other].iter().all(|it| it.lte != lte || it.below) && lte.is_some();
        let bounds = Self { above, below, ..Self::bounded(gte, lte) };
        if self.complement && other.complement {
            let all = self.values.iter().chain(&other.values);
            let mut values: Values = all.filter(|value| bounds.has(value)).cloned().collect();
            values.sort_unstable();
            values.dedup();
            return Self { values, min_values, ..bounds };
        }
        let (finite, filter) = if self.complement { (other, self) } else { (self, other) };
        let values = finite.values.iter().filter(|value| filter.has(value) && bounds.has(value)).cloned().collect();
        Self::finite(values).with_min_values(min_values)
    }

    /// Returns true if both allow some value. Unlike Karpenter's, exact for bounded ranges whose values are all
    /// excluded.
    pub fn overlaps(&self, other: &Self) -> bool {
        match (self.complement, other.complement) {
            (false, _) => self.values.iter().any(|value| other.has(value)),
            (true, false) => other.values.iter().any(|value| self.has(value)),
            (true, true) => {
                let both = self.intersection(other);
                let (Some(gte), Some(lte)) = (both.gte, both.lte) else { return both.complement };
                // Finitely many integers are left: compare their number with that of the excluded ones.
                let span = lte.saturating_sub(gte).saturating_add(1);
                both.complement && usize::try_from(span).map_or(true, |span| span > both.excluded_integers())
            }
        }
    }

    /// Returns true if one label can satisfy both: by a value that both allow, or by absence if both allow that.
    pub(crate) fn meets(&self, other: &Self) -> bool {
        other.overlaps(self) || (other.allows_absence() && self.allows_absence())
    }

    fn excluded_integers(&self) -> usize {
        self.values.iter().filter_map(|value| value.parse::<i64>().ok()).collect::<BTreeSet<_>>().len()
    }

    /// Returns the allowed value if there is exactly one.
    pub fn single(&self) -> Option<&Arc<str>> {
        if self.complement || self.values.len() != 1 { None } else { self.values.first() }
    }

    /// Returns operators and values as in a manifest, with several entries where bounds and exclusions are combined
    /// (Karpenter loses the exclusions there).
    pub fn entries(&self) -> Vec<(Operator, Vec<Arc<str>>)> {
        let mut entries = Vec::new();
        let mut bound = |operator, value: Option<i64>| {
            entries.extend(value.map(|value| (operator, vec![value.to_string().into()])));
        };
        match self.above {
            true => bound(Operator::Gt, self.gte.and_then(|gte| gte.checked_sub(1))),
            false => bound(Operator::Gte, self.gte),
        }
        match self.below {
            true => bound(Operator::Lt, self.lte.and_then(|lte| lte.checked_add(1))),
            false => bound(Operator::Lte, self.lte),
        }
        if entries.is_empty() || !self.values.is_empty() {
            entries.push((self.operator(), self.values.iter().cloned().collect()));
        }
        entries
    }
}

impl fmt::Display for Requirement {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (number, (operator, values)) in self.entries().iter().enumerate() {
            let gap = if number > 0 { ", " } else { "" };
            write!(f, "{gap}{}", operator.name())?;
            if !values.is_empty() {
                write!(f, " [{}]", values.join(" "))?;
            }
        }
        Ok(())
    }
}
