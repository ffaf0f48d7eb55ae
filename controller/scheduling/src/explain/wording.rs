//! Formatting of amounts, requirements, taints and lists for messages.

use std::fmt::Display;
use std::sync::Arc;

use crate::model::{
    Effect, HostPort, LabelSelector, Protocol, Requirement, Resource, SelectorOperator, Taint, Toleration,
};

/// Maximum number of list entries shown: messages are read by people, and a pool may allow a thousand types.
const SHOWN: usize = 6;

/// Formats `amount` of `resource` as in a manifest; bytes that are not a multiple of a unit are cut to one decimal.
pub(super) fn amount(resource: &Resource, amount: i64) -> String {
    match resource {
        Resource::Cpu if amount % 1000 == 0 => (amount / 1000).to_string(),
        Resource::Cpu => format!("{amount}m"),
        Resource::Memory | Resource::EphemeralStorage => bytes(amount),
        Resource::Other(name) if name.starts_with("hugepages-") => bytes(amount),
        Resource::Pods | Resource::Other(_) => amount.to_string(),
    }
}

fn bytes(amount: i64) -> String {
    const UNITS: [(&str, i64); 4] = [("Ti", 1 << 40), ("Gi", 1 << 30), ("Mi", 1 << 20), ("Ki", 1 << 10)];
    let size = amount.unsigned_abs();
    let exact = UNITS.iter().find(|(_, unit)| amount != 0 && amount % unit == 0 && size / unit.unsigned_abs() < 10_000);
    if let Some((suffix, unit)) = exact {
        return format!("{}{suffix}", amount / unit);
    }
    match UNITS.iter().find(|(_, unit)| size >= unit.unsigned_abs()) {
        Some((suffix, unit)) => {
            let tenths = i128::from(amount) * 10 / i128::from(*unit);
            format!("{}.{}{suffix}", tenths / 10, (tenths % 10).abs())
        }
        None => amount.to_string(),
    }
}

/// Formats the first entries, and the number of the others.
pub(crate) fn list<T: Display>(entries: impl IntoIterator<Item = T>, gap: &str) -> String {
    let mut entries = entries.into_iter();
    let mut text = entries.by_ref().take(SHOWN).map(|entry| entry.to_string()).collect::<Vec<_>>().join(gap);
    let more = entries.count();
    if more > 0 {
        text.push_str(&format!("{gap}and {}", others(more, "")));
    }
    text
}

/// Formats `1 other pod`, `2 other pods`; without a noun `1 other`, `2 others`.
pub(super) fn others(count: usize, noun: &str) -> String {
    let gap = if noun.is_empty() { "" } else { " " };
    match (count, noun) {
        (1, _) => format!("1 other{gap}{noun}"),
        (_, "") => format!("{count} others"),
        _ => format!("{count} other {noun}s"),
    }
}

/// Formats a requirement like Karpenter (`In [a b]`); long lists are cut, and numbers sorted by value.
pub(crate) fn requirement(requirement: &Requirement) -> String {
    let entry = |(operator, mut values): (crate::model::Operator, Vec<Arc<str>>)| {
        if values.iter().all(|value| value.parse::<i64>().is_ok()) {
            values.sort_by_key(|value| value.parse::<i64>().ok());
        }
        match values.is_empty() {
            true => operator.name().to_owned(),
            false => format!("{} [{}]", operator.name(), list(values, " ")),
        }
    };
    requirement.entries().into_iter().map(entry).collect::<Vec<_>>().join(", ")
}

pub(super) fn effect(effect: Effect) -> &'static str {
    match effect {
        Effect::NoSchedule => "NoSchedule",
        Effect::PreferNoSchedule => "PreferNoSchedule",
        Effect::NoExecute => "NoExecute",
    }
}

/// Formats a text for YAML: quoted if it would be parsed as a number, a boolean or null.
pub(super) fn yaml(text: &str) -> String {
    let word = text.to_ascii_lowercase();
    let other = ["true", "false", "yes", "no", "on", "off", "y", "n", "null", "~"].contains(&&*word);
    if other || text.parse::<f64>().is_ok() { format!("{text:?}") } else { text.to_owned() }
}

/// Formats a taint as `key=value:Effect`, without `=` if the value is empty.
pub(crate) fn taint(taint: &Taint) -> String {
    let gap = if taint.value.is_empty() { "" } else { "=" };
    format!("{}{gap}{}:{}", taint.key, taint.value, effect(taint.effect))
}

/// Formats a toleration like the taint it matches; `*` matches any.
pub(super) fn toleration(toleration: &Toleration) -> String {
    let any = || "*".into();
    let key: Arc<str> = toleration.key.clone().unwrap_or_else(any);
    let value: Arc<str> = toleration.value.clone().unwrap_or_else(any);
    format!("{key}={value}:{}", toleration.effect.map_or("*", effect))
}

pub(crate) fn selector(selector: &LabelSelector) -> String {
    let LabelSelector::Terms(terms) = selector else { return "no selector".to_owned() };
    if terms.is_empty() {
        return "every pod".to_owned();
    }
    let term = |term: &crate::model::SelectorTerm| match (term.operator, term.values.as_slice()) {
        (SelectorOperator::In, [value]) => format!("{}={value}", term.key),
        (SelectorOperator::In, values) => format!("{} in [{}]", term.key, list(values, " ")),
        (SelectorOperator::NotIn, values) => format!("{} not in [{}]", term.key, list(values, " ")),
        (SelectorOperator::Exists, _) => term.key.to_string(),
        (SelectorOperator::DoesNotExist, _) => format!("!{}", term.key),
    };
    terms.iter().map(term).collect::<Vec<_>>().join(",")
}

pub(super) fn port(port: &HostPort) -> String {
    let protocol = match port.protocol {
        Protocol::Tcp => "TCP",
        Protocol::Udp => "UDP",
        Protocol::Sctp => "SCTP",
    };
    if port.ip.is_unspecified() {
        format!("{}/{protocol}", port.port)
    } else {
        format!("{}:{}/{protocol}", port.ip, port.port)
    }
}
