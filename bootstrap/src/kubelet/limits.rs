//! Values that the kubelet accepts, by field.
//!
//! The table is `data/kubelet-limits.tsv`; this module implements its rules. Constraints between fields are in
//! `rules::config`.

use std::sync::LazyLock;

use serde_json::Value;

use super::config::{duration, quantity};
use super::flags::rows;
use super::version::Minor;

/// A row of the table.
#[derive(Debug)]
pub(crate) struct Limit {
    /// Path of the field.
    pub(crate) path: &'static str,
    rule: Rule,
    from: Minor,
    to: Minor,
}

#[derive(Debug)]
enum Rule {
    Number { least: i64, most: Option<i64> },
    Duration { least: Bound, most: Option<Bound>, takes_zero: bool },
    OneOf(Vec<&'static str>),
    Each(Vec<&'static str>),
    Keys(Vec<&'static str>),
    Gate { name: Option<&'static str>, except: Option<&'static str> },
    Amount,
    Cpus,
    Path,
    Share,
    Multiple(i64),
    Sysctls,
}

/// A duration as text and in nanoseconds.
#[derive(Debug, Clone, Copy)]
struct Bound {
    text: &'static str,
    nanoseconds: i128,
}

static TABLE: LazyLock<Vec<Limit>> = LazyLock::new(|| {
    let row = |row: Vec<&'static str>| {
        let [path, rule, about, from, to, _] = row[..] else { return None };
        let version = |text: &str| text.parse().ok().map(Minor);
        Some(Limit { path, rule: Rule::read(rule, about)?, from: version(from)?, to: version(to)? })
    };
    rows(include_str!("../../data/kubelet-limits.tsv")).filter_map(row).collect()
});

/// A value that the kubelet does not accept.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Refusal {
    /// Path of the field.
    pub(crate) path: &'static str,
    /// Value of the field, and the requirement that it violates.
    pub(crate) message: String,
    /// True if every version of the table that may apply refuses the value.
    pub(crate) is_certain: bool,
}

/// Returns a refusal for each field whose value a kubelet of `version` refuses. Without a version, a value is refused
/// if every row of its field refuses it. `value_at` returns the value at a path; `gate` returns true if a gate is
/// enabled, `None` if that is unknown.
pub(crate) fn refusals<'v>(
    version: Option<Minor>,
    value_at: &dyn Fn(&str) -> Option<&'v Value>,
    gate: &dyn Fn(&str) -> Option<bool>,
) -> Vec<Refusal> {
    let version = version.filter(|version| version.is_known());
    let mut refusals: Vec<Refusal> = Vec::new();
    for group in TABLE.chunk_by(|a, b| a.path == b.path && a.rule.kind() == b.rule.kind()) {
        let Some(value) = value_at(group[0].path).filter(|value| !is_unset(value)) else { continue };
        let meant = |limit: &&Limit| version.is_none_or(|version| (limit.from..=limit.to).contains(&version));
        let said: Vec<_> = group.iter().filter(meant).map(|limit| limit.rule.refuses(value, gate)).collect();
        let all: Option<Vec<String>> = said.into_iter().collect();
        if let Some(reason) = all.and_then(|mut all| all.pop()) {
            let is_certain = version.is_some() || group[0].from == Minor::OLDEST;
            let message = format!("`{}` {reason}", group[0].path);
            refusals.push(Refusal { path: group[0].path, message, is_certain });
        }
    }
    refusals
}

/// Returns true for null and for an empty string, which the kubelet replaces by the default.
fn is_unset(value: &Value) -> bool {
    value.is_null() || value.as_str() == Some("")
}

impl Rule {
    fn read(rule: &str, about: &'static str) -> Option<Self> {
        let words = || about.split(' ').collect::<Vec<_>>();
        let ends = || about.split_once("..").map(|(least, most)| (least, Some(most).filter(|most| !most.is_empty())));
        Some(match rule {
            "number" => {
                let (least, most) = ends()?;
                let most = most.map_or(Some(None), |most| most.parse().ok().map(Some))?;
                Self::Number { least: least.parse().ok()?, most }
            }
            "duration" | "duration-or-0" => {
                let (least, most) = ends()?;
                let most = most.map_or(Some(None), |most| Bound::read(most).map(Some))?;
                Self::Duration { least: Bound::read(least)?, most, takes_zero: rule == "duration-or-0" }
            }
            "one-of" => Self::OneOf(words()),
            "each" => Self::Each(words()),
            "keys" => Self::Keys(words()),
            "gate" => {
                let mut words = about.split(' ');
                Self::Gate { name: words.next().filter(|name| *name != "-"), except: words.next() }
            }
            "amount" => Self::Amount,
            "cpus" => Self::Cpus,
            "path" => Self::Path,
            "share" => Self::Share,
            "multiple" => Self::Multiple(about.parse().ok()?),
            "sysctls" => Self::Sysctls,
            _ => return None,
        })
    }

    /// Returns the kind of the rule. Rows of one field and kind apply to different versions.
    fn kind(&self) -> std::mem::Discriminant<Self> {
        std::mem::discriminant(self)
    }

    /// Returns the reason why a value is refused, if it is. A value of another type is reported elsewhere.
    fn refuses(&self, value: &Value, gate: &dyn Fn(&str) -> Option<bool>) -> Option<String> {
        let text = value.as_str();
        match self {
            Self::Number { least, most } => {
                let number = value.as_i64()?;
                let highest = most.unwrap_or(i64::from(i32::MAX));
                if (*least..=highest).contains(&number) {
                    return None;
                }
                let range = match most {
                    None if number > highest => format!("from {least} to {highest}"),
                    None => format!("{least} or more"),
                    Some(most) if *most == i64::MAX => format!("{least} or more"),
                    Some(most) => format!("from {least} to {most}"),
                };
                Some(format!("is {number}; it must be {range}"))
            }
            Self::Duration { least, most, takes_zero } => {
                let nanoseconds = duration(text?)?;
                let is_inside = nanoseconds >= least.nanoseconds && most.is_none_or(|it| nanoseconds <= it.nanoseconds);
                if is_inside || (nanoseconds == 0 && *takes_zero) {
                    return None;
                }
                let range = match most {
                    Some(most) => format!("from {} to {}", least.text, most.text),
                    None if *takes_zero => format!("0s, or {} or more", least.text),
                    None => format!("{} or more", least.text),
                };
                Some(format!("is {}; it must be {range}", text?))
            }
            Self::OneOf(choices) => refused_choice(text?, choices),
            Self::Each(choices) => value.as_array()?.iter().find_map(|item| refused_choice(item.as_str()?, choices)),
            Self::Keys(choices) => value.as_object()?.keys().find_map(|key| refused_choice(key, choices)),
            Self::Gate { name, except } => {
                let is_default = except.is_some_and(|except| is_same(value, except))
                    || value.as_array().is_some_and(Vec::is_empty)
                    || value.as_object().is_some_and(serde_json::Map::is_empty);
                match name {
                    _ if is_default => None,
                    None => Some("may no longer be set".to_owned()),
                    Some(name) => (gate(name) == Some(false)).then(|| format!("needs feature gate `{name}`")),
                }
            }
            Self::Amount => {
                let amount = quantity(text?);
                let is_whole = amount.is_some_and(|amount| amount.fract() == 0.0);
                (!is_whole).then(|| format!("is `{}`; it must be an amount such as `10Mi`", text.unwrap_or_default()))
            }
            Self::Cpus => (!is_cpu_set(text?))
                .then(|| format!("is `{}`; it must be a list of CPUs such as `0-3,8`", text.unwrap_or_default())),
            Self::Path => {
                let text = text?;
                let is_clean = text.split('/').skip(1).all(|step| !matches!(step, "" | "." | "..")) || text == "/";
                let is_path = text.starts_with('/') && text.is_ascii() && is_clean;
                // Windows paths begin with a drive letter.
                let is_windows = text.get(1..3).is_some_and(|it| it == ":\\");
                (!is_path && !is_windows)
                    .then(|| format!("is `{text}`; it must be an absolute path without `.`, `..` or a `/` at its end"))
            }
            Self::Share => {
                let share = value.as_f64()?;
                (share <= 0.0 || share > 1.0).then(|| format!("is {share}; it must be above 0 and not above 1"))
            }
            Self::Multiple(of) => {
                let number = value.as_i64()?;
                let is_inside = (*of..=i64::from(u32::MAX)).contains(&number);
                (!is_inside || number % of != 0)
                    .then(|| format!("is {number}; it must be a multiple of {of}, up to {}", u32::MAX))
            }
            Self::Sysctls => {
                let name = value.as_array()?.iter().filter_map(Value::as_str).find(|name| !is_namespaced(name))?;
                let known: Vec<String> = PREFIXES.iter().map(|prefix| format!("{prefix}*")).collect();
                let known = [NAMES.join(", "), known.join(", ")].join(", ");
                Some(format!("holds `{name}`, which is not a sysctl of a namespace ({known})"))
            }
        }
    }
}

impl Bound {
    fn read(text: &'static str) -> Option<Self> {
        Some(Self { text, nanoseconds: duration(text)? })
    }
}

fn refused_choice(text: &str, choices: &[&str]) -> Option<String> {
    // A list of 30 choices does not help the reader.
    const MOST: usize = 8;
    if choices.contains(&text) {
        return None;
    }
    if choices.len() > MOST {
        let meant = crate::likeness::nearest(text, choices.iter().copied());
        let meant = meant.map(|meant| format!("; did you mean `{meant}`?")).unwrap_or_default();
        return Some(format!("does not know `{text}`{meant}"));
    }
    Some(format!("is `{text}`; it must be one of {}", choices.join(", ")))
}

/// Returns true if a value equals a text of the table.
fn is_same(value: &Value, text: &str) -> bool {
    match value {
        Value::String(value) => value == text || duration(value).is_some_and(|it| Some(it) == duration(text)),
        Value::Number(number) => number.as_f64().is_some_and(|number| text.parse() == Ok(number)),
        Value::Bool(value) => text.parse() == Ok(*value),
        _ => false,
    }
}

/// Returns true if a text is a list of CPUs. Source: `k8s.io/utils/cpuset`, `Parse`.
fn is_cpu_set(text: &str) -> bool {
    let number = |text: &str| text.parse::<u32>().ok();
    text.split(',').all(|range| match range.split_once('-') {
        None => number(range).is_some(),
        Some((first, last)) => matches!((number(first), number(last)), (Some(first), Some(last)) if first <= last),
    })
}

/// Namespaced sysctls, and prefixes of others. Source: component-helpers, node/util/sysctl.
const NAMES: [&str; 2] = ["kernel.sem", "kernel.domainname"];
const PREFIXES: [&str; 5] = ["kernel.shm", "kernel.msg", "fs.mqueue.", "net.", "user."];

/// Returns true if a sysctl, or a prefix that ends in `*`, is namespaced.
fn is_namespaced(name: &str) -> bool {
    let name = name.replace('/', ".");
    NAMES.contains(&name.as_str()) || PREFIXES.iter().any(|prefix| name.starts_with(prefix))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kubelet::gates;
    use crate::kubelet::schema::KUBELET;
    use serde_json::json;

    #[test]
    fn every_row_is_read_and_names_a_field_and_a_gate() {
        let text = include_str!("../../data/kubelet-limits.tsv");
        assert_eq!(TABLE.len(), text.lines().filter(|row| !row.starts_with('#')).count());
        for limit in TABLE.iter() {
            assert!(KUBELET.has(limit.path), "{}", limit.path);
            if let Rule::Gate { name: Some(name), .. } = limit.rule {
                assert!(gates::exists(name), "{name}");
            }
        }
    }

    fn refused(path: &str, value: &Value, version: Option<u8>) -> Option<String> {
        let value_at = |at: &str| (at == path).then_some(value);
        let version = version.map(Minor);
        let gate = |name: &str| gates::enabled(name, None, version);
        refusals(version, &value_at, &gate).pop().map(|it| it.message)
    }

    #[test]
    fn values_are_refused_as_by_the_kubelet() {
        for (path, bad, good) in [
            ("containerLogMaxSize", json!("foo"), json!("10Mi")),
            ("containerLogMaxSize", json!("100m"), json!("1.5Gi")),
            ("containerLogMaxFiles", json!(1), json!(2)),
            ("kubeAPIQPS", json!(-1), json!(0)),
            ("maxPods", json!(3_000_000_000_i64), json!(110)),
            ("reservedSystemCPUs", json!("a-b"), json!("0-3,8")),
            ("reservedSystemCPUs", json!("3-0"), json!("0")),
            ("shutdownGracePeriod", json!("100ms"), json!("0s")),
            ("cpuCFSQuotaPeriod", json!("2s"), json!("100ms")),
            ("tlsCipherSuites", json!(["TLS_RSA"]), json!(["TLS_AES_128_GCM_SHA256"])),
            ("tlsMinVersion", json!("1.2"), json!("VersionTLS12")),
            ("topologyManagerScope", json!("Pod"), json!("pod")),
            ("podLogsDir", json!("var/log"), json!("/var/log/pods")),
            ("podLogsDir", json!("/var/log/"), json!(r"C:\var\log")),
            ("memoryThrottlingFactor", json!(0), json!(0.9)),
            ("allowedUnsafeSysctls", json!(["vm.max_map_count"]), json!(["net.core.somaxconn", "kernel.msg*"])),
            ("userNamespaces.idsPerPod", json!(1000), json!(131_072)),
            ("topologyManagerPolicyOptions", json!({"x": "1"}), json!({"max-allowable-numa-nodes": "16"})),
        ] {
            for version in [Some(36), None] {
                assert!(refused(path, &bad, version).is_some(), "{path} {bad}");
                assert_eq!(refused(path, &good, version), None, "{path} {good}");
            }
        }
    }

    #[test]
    fn versions_and_gates_count() {
        let swap = |text: &str, version| refused("memorySwap.swapBehavior", &json!(text), version).is_some();
        assert!(swap("LimitedSwap", Some(29)) && !swap("LimitedSwap", Some(34)) && !swap("LimitedSwap", None));
        assert!(swap("UnlimitedSwap", Some(30)) && !swap("UnlimitedSwap", None) && swap("Swap", None));
        assert!(refused("runOnce", &json!(true), Some(32)).is_some());
        assert_eq!(refused("runOnce", &json!(false), Some(32)), None);
        assert_eq!(refused("runOnce", &json!(true), Some(31)), None);
        assert_eq!(refused("imageMaximumGCAge", &json!("0s"), Some(29)), None);
        assert!(refused("imageMaximumGCAge", &json!("24h"), Some(29)).is_some());
        assert_eq!(refused("hairpinMode", &json!(""), None), None);
    }
}
