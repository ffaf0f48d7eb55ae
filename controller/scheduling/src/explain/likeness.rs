//! Suggestions for misspelt labels and values.

use std::collections::BTreeSet;
use std::sync::Arc;

use crate::labels;
use crate::model::{Requirement, Requirements};

/// Labels of other tools and of earlier versions, with their equivalent here.
const OTHER_KEYS: [(&str, &str); 7] = [
    ("karpenter.sh/provisioner-name", labels::NODE_POOL),
    ("eks.amazonaws.com/nodegroup", labels::NODE_POOL),
    ("alpha.eksctl.io/nodegroup-name", labels::NODE_POOL),
    ("eks.amazonaws.com/capacityType", labels::CAPACITY_TYPE),
    ("node.kubernetes.io/lifecycle", labels::CAPACITY_TYPE),
    ("node.kubernetes.io/os", labels::OS),
    ("node.kubernetes.io/arch", labels::ARCH),
];

/// Aliases of values.
const OTHER_VALUES: [(&str, &str); 8] = [
    ("x86_64", "amd64"),
    ("x86-64", "amd64"),
    ("x64", "amd64"),
    ("aarch64", "arm64"),
    ("arm", "arm64"),
    ("ondemand", "on-demand"),
    ("on_demand", "on-demand"),
    ("win", "windows"),
];

/// Minimum length of a name for suggestions: shorter ones are part of too many others.
const TELLING: usize = 3;

/// Returns the known key that `key` was probably meant to be: an equivalent one, one with the same name after the
/// slash, one that differs by few letters, or one that contains it.
pub(super) fn nearest_key<'k>(key: &str, known: &'k BTreeSet<Arc<str>>) -> Option<&'k str> {
    let name = name_of(key);
    let renamed = OTHER_KEYS.iter().find(|(other, _)| *other == key).and_then(|(_, here)| known.get(*here));
    let same_name = || known.iter().find(|other| name_of(other).eq_ignore_ascii_case(name));
    let alike = || nearest(key, known).or_else(|| nearest_name(name, known));
    let part = || {
        let long = name.len() >= TELLING;
        known.iter().filter(|other| long && name_of(other).contains(name)).min_by_key(|other| (other.len(), *other))
    };
    renamed.or_else(same_name).map(|found| &**found).or_else(alike).or_else(|| part().map(|found| &**found))
}

fn name_of(key: &str) -> &str {
    key.rsplit_once('/').map_or(key, |(_, name)| name)
}

fn nearest_name<'k>(name: &str, known: &'k BTreeSet<Arc<str>>) -> Option<&'k str> {
    let measured = known.iter().filter_map(|other| Some((distance(name, name_of(other))?, other)));
    measured.min().map(|(_, other)| &**other)
}

/// Returns the text among `known` that `text` was probably meant to be.
pub(super) fn nearest<'k>(text: &str, known: impl IntoIterator<Item = &'k Arc<str>>) -> Option<&'k str> {
    let lower = text.to_ascii_lowercase();
    let alias = OTHER_VALUES.iter().find(|(other, _)| *other == lower).map(|(_, here)| *here);
    let measured = known.into_iter().filter_map(|other| {
        let known_alias = alias.is_some_and(|alias| alias == &**other);
        let letters = if known_alias { Some(0) } else { distance(&lower, &other.to_ascii_lowercase()) };
        Some((letters?, other))
    });
    measured.min().map(|(_, other)| &**other)
}

/// Returns the number of mistyped letters if it is at most a quarter of the text, or one.
fn distance(text: &str, other: &str) -> Option<usize> {
    let length = text.chars().count();
    let allowed = if length < TELLING { 0 } else { (length / 4).max(1) };
    Some(strsim::osa_distance(text, other)).filter(|letters| *letters <= allowed)
}

/// Returns the known number closest to those in `wanted`, if it is about numbers.
pub(super) fn nearest_number<'k>(wanted: &Requirement, known: impl IntoIterator<Item = &'k Arc<str>>) -> Option<i64> {
    let asked: Vec<i64> = match (wanted.is_finite(), wanted.bounds()) {
        (true, _) => wanted.values().map(|value| value.parse()).collect::<Result<_, _>>().ok()?,
        (false, (gte, lte)) => gte.into_iter().chain(lte).collect(),
    };
    let known = known.into_iter().filter_map(|value| value.parse::<i64>().ok());
    let apart = |number: i64| asked.iter().map(|asked| asked.abs_diff(number)).min();
    known.filter_map(|number| Some((apart(number)?, number))).min().map(|(_, number)| number)
}

/// A value that does not exist, and the one that it was probably meant to be.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Misspelling {
    pub(super) wrong: Arc<str>,
    pub(super) right: Arc<str>,
}

/// Returns a misspelt value of `wanted`: one that is not among `known`. Suggestions are taken from `there` first.
pub(super) fn misspelling(
    wanted: &Requirement,
    there: &Requirement,
    known: &BTreeSet<Arc<str>>,
) -> Option<Misspelling> {
    let unknown = wanted.values().filter(|value| wanted.is_finite() && !known.contains(*value));
    let close = |wrong: &Arc<str>| {
        let here = there.values().filter(|_| there.is_finite());
        let right = nearest(wrong, here).or_else(|| nearest(wrong, known))?;
        Some(Misspelling { wrong: Arc::clone(wrong), right: right.into() })
    };
    unknown.filter(|value| value.parse::<i64>().is_err()).find_map(close)
}

/// Returns every value that `sources` list for `key`.
pub(super) fn values_of<'r>(key: &str, sources: impl Iterator<Item = &'r Requirements>) -> BTreeSet<Arc<str>> {
    let listed = sources.filter_map(|source| source.get(key)).filter(|it| it.is_finite());
    listed.flat_map(Requirement::values).cloned().collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn set(texts: &[&str]) -> BTreeSet<Arc<str>> {
        texts.iter().map(|text| Arc::from(*text)).collect()
    }

    #[test]
    fn values_are_recognized() {
        let arch = set(&["amd64", "arm64"]);
        for (text, meant) in [
            ("amd46", Some("amd64")),
            ("AMD64", Some("amd64")),
            ("x86_64", Some("amd64")),
            ("aarch64", Some("arm64")),
            ("rm64", Some("arm64")),
            ("riscv64", None),
        ] {
            assert_eq!(nearest(text, &arch), meant, "{text}");
        }
        assert_eq!(nearest("us-esat-1a", &set(&["us-east-1a", "us-east-1b"])), Some("us-east-1a"));
        assert_eq!(nearest("m9", &set(&["m5", "m6"])), None, "too short to tell");
    }

    #[test]
    fn keys_are_recognized() {
        let known = set(&[
            "example.com/team",
            "karpenter.k8s.aws/instance-family",
            "karpenter.sh/capacity-type",
            "karpenter.sh/nodepool",
            "kubernetes.io/arch",
            "node.kubernetes.io/instance-type",
            "topology.kubernetes.io/zone",
        ]);
        for (key, meant) in [
            ("zone", Some("topology.kubernetes.io/zone")),
            ("team", Some("example.com/team")),
            ("exmaple.com/team", Some("example.com/team")),
            ("karpenter.sh/capcity-type", Some("karpenter.sh/capacity-type")),
            ("eks.amazonaws.com/capacityType", Some("karpenter.sh/capacity-type")),
            ("karpenter.sh/provisioner-name", Some("karpenter.sh/nodepool")),
            ("eks.amazonaws.com/instance-family", Some("karpenter.k8s.aws/instance-family")),
            ("instance-famly", Some("karpenter.k8s.aws/instance-family")),
            ("family", Some("karpenter.k8s.aws/instance-family")),
            ("a", None),
            ("disk", None),
        ] {
            assert_eq!(nearest_key(key, &known), meant, "{key}");
        }
    }

    #[test]
    fn numbers_are_near_by_size() {
        let known = set(&["2", "4", "16"]);
        let asks = |operator, value: &str| Requirement::new(operator, [value]);
        assert_eq!(nearest_number(&asks(crate::model::Operator::In, "5"), &known), Some(4));
        assert_eq!(nearest_number(&asks(crate::model::Operator::Gt, "31"), &known), Some(16));
        assert_eq!(nearest_number(&asks(crate::model::Operator::In, "large"), &known), None);
    }
}
