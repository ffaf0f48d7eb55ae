//! Validation of object names, label keys and label values, as in Kubernetes.

use std::sync::LazyLock;

use regex::Regex;

/// Maximum length of a DNS subdomain.
const LONGEST_SUBDOMAIN: usize = 253;
/// Maximum length of a label value, and of a label key after the slash.
const LONGEST_LABEL: usize = 63;

static SUBDOMAIN: LazyLock<Option<Regex>> =
    LazyLock::new(|| Regex::new(r"^[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*$").ok());
static NAME_PART: LazyLock<Option<Regex>> =
    LazyLock::new(|| Regex::new(r"^([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]$").ok());

fn matches(pattern: &LazyLock<Option<Regex>>, text: &str) -> bool {
    pattern.as_ref().is_some_and(|regex| regex.is_match(text))
}

/// Returns the error in the name of an object, if any.
pub(super) fn subdomain(name: &str) -> Option<String> {
    if name.len() > LONGEST_SUBDOMAIN {
        return Some(format!("has {} characters, but may have at most {LONGEST_SUBDOMAIN}", name.len()));
    }
    (!matches(&SUBDOMAIN, name)).then(|| {
        format!(
            "is `{name}`, but must be lower-case letters, digits, `-` and `.`, and begin and end with a letter or digit"
        )
    })
}

/// Returns the error in a label or taint key, if any.
pub(super) fn qualified_name(key: &str) -> Option<String> {
    let name = match key.split_once('/') {
        Some((prefix, name)) => {
            if let Some(problem) = subdomain(prefix) {
                return Some(format!("has a prefix that {problem}"));
            }
            name
        }
        None => key,
    };
    if name.len() > LONGEST_LABEL {
        return Some(format!("has a name of {} characters, but may have at most {LONGEST_LABEL}", name.len()));
    }
    (!matches(&NAME_PART, name)).then(|| {
        "must be a name of letters, digits, `-`, `_` and `.`, which begins and ends with a letter or digit, after an optional DNS prefix and `/`"
            .to_owned()
    })
}

/// Returns the error in a label value, if any.
pub(super) fn label_value(value: &str) -> Option<String> {
    if value.len() > LONGEST_LABEL {
        return Some(format!("has a value of {} characters, but may have at most {LONGEST_LABEL}", value.len()));
    }
    (!value.is_empty() && !matches(&NAME_PART, value)).then(|| {
        format!("has the value `{value}`, but it must be letters, digits, `-`, `_` and `.`, and begin and end with a letter or digit")
    })
}
