//! Label syntax of the kubelet, and the labels that it may not set on its own Node.
//!
//! Source: `apimachinery/pkg/util/validation` and `pkg/kubelet/apis/well_known_labels.go` of Kubernetes.

/// Labels of the `kubernetes.io` namespace that a kubelet may set.
pub const ALLOWED: [&str; 10] = [
    "kubernetes.io/hostname",
    "kubernetes.io/arch",
    "kubernetes.io/os",
    "beta.kubernetes.io/arch",
    "beta.kubernetes.io/os",
    "beta.kubernetes.io/instance-type",
    "node.kubernetes.io/instance-type",
    "topology.kubernetes.io/region",
    "topology.kubernetes.io/zone",
    "failure-domain.beta.kubernetes.io/region",
];
const ALSO_ALLOWED: &str = "failure-domain.beta.kubernetes.io/zone";
/// Namespaces, with their subdomains, in which a kubelet may set any label.
pub const ALLOWED_NAMESPACES: [&str; 2] = ["kubelet.kubernetes.io", "node.kubernetes.io"];

const LONGEST_NAME: usize = 63;
const LONGEST_PREFIX: usize = 253;

fn is_in(namespace: &str, domain: &str) -> bool {
    namespace == domain || namespace.strip_suffix(domain).is_some_and(|rest| rest.ends_with('.'))
}

/// Returns true if the kubelet refuses to start with this label.
#[must_use]
pub fn is_restricted(key: &str) -> bool {
    let Some((namespace, _)) = key.split_once('/') else { return false };
    (is_in(namespace, "kubernetes.io") || is_in(namespace, "k8s.io"))
        && !ALLOWED.contains(&key)
        && key != ALSO_ALLOWED
        && !ALLOWED_NAMESPACES.iter().any(|allowed| is_in(namespace, allowed))
}

fn is_name(text: &str, also: &[char]) -> bool {
    let inner = |char: char| char.is_ascii_alphanumeric() || also.contains(&char);
    text.starts_with(|first: char| first.is_ascii_alphanumeric())
        && text.ends_with(|last: char| last.is_ascii_alphanumeric())
        && text.chars().all(inner)
}

/// Returns true if a text is a valid label value: at most 63 letters, digits, `-`, `_`, `.`; it may be empty.
#[must_use]
pub fn is_label_value(text: &str) -> bool {
    text.is_empty() || (text.len() <= LONGEST_NAME && is_name(text, &['-', '_', '.']))
}

/// Returns true if a text is a valid label key: a name, with an optional DNS prefix and slash before it.
#[must_use]
pub fn is_label_key(text: &str) -> bool {
    let (prefix, name) = match text.split_once('/') {
        Some((prefix, name)) => (Some(prefix), name),
        None => (None, text),
    };
    let is_named = !name.is_empty() && name.len() <= LONGEST_NAME && is_name(name, &['-', '_', '.']);
    is_named && prefix.is_none_or(is_dns_name)
}

/// Describes the part of a label that is too long, with its length, which a reader does not see.
pub(crate) fn length_fault(label: &str) -> Option<String> {
    let (key, value) = label.split_once('=').unwrap_or((label, ""));
    let (prefix, name) = key.trim().split_once('/').unwrap_or(("", key.trim()));
    let too_long = |what: &str, text: &str, longest: usize| {
        (text.len() > longest).then(|| format!("its {what} has {} characters, of at most {longest}", text.len()))
    };
    too_long("name", name, LONGEST_NAME)
        .or_else(|| too_long("prefix", prefix, LONGEST_PREFIX))
        .or_else(|| too_long("value", value.trim(), LONGEST_NAME))
}

/// Returns true if a text is an RFC 1123 subdomain, as the name of a Node must be.
#[must_use]
pub fn is_dns_name(text: &str) -> bool {
    let is_part = |part: &str| is_name(part, &['-']) && !part.bytes().any(|byte| byte.is_ascii_uppercase());
    text.len() <= LONGEST_PREFIX && text.split('.').all(is_part)
}
