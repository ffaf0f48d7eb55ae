//! Hints on rules of the schemas: the edits that satisfy each.

use serde_json::Value;

use crate::labels;
use crate::likeness::nearest_of;

/// Hints by a part of the rule's message; the first that applies counts.
const HINTS: &[(&str, &str)] = &[
    ("label `kubernetes.io/hostname` is reserved", "remove it, or use a label of the NodePool"),
    ("label `karpenter.sh/nodepool` is reserved", "remove it: every node of the pool has this label"),
    ("labels in the domain", "use a well-known label, or a domain of your own such as `example.com`"),
    ("may not be empty with operator", "add a value, or use the operator `Exists` or `DoesNotExist`"),
    ("must be one whole number", "write one number in quotes, such as `values: [\"4\"]`"),
    ("at least `minValues` entries", "add values, or lower `minValues`"),
    ("exactly one of `role` and `instanceProfile`", "set one of the two, and remove the other"),
    ("may not both be set", "remove one of the two"),
    ("may not be set together", "remove one of the two"),
    ("may not be combined", "use separate terms, or remove the other fields"),
    ("must be the only one", "remove the other terms, or the term with the `alias`"),
    ("must be set together", "add the missing one, or remove both"),
    ("may only have `nodes`", "remove the other limits, or `replicas`"),
    ("must be set when", "add it"),
    ("or absent, with an alias", "remove `amiFamily`: the alias names the family"),
    ("must have the form family@version", "write an alias such as `al2023@latest` or `bottlerocket@v1.30.0`"),
    ("must have the version latest", "write `latest` after the `@`"),
    ("may only have the keys", "remove or correct the key"),
    ("may only have extended resources", "remove it: the instance type defines it"),
    ("may not be negative", "write an amount of zero or more"),
    ("may have neither an empty key", "write a value, or `*` for any"),
    ("may not have an empty key", "remove the entry"),
    ("may not be empty", "write a value, or remove the field"),
    ("at most one of `blockDeviceMappings`", "set `rootVolume: true` for one device"),
    ("must be above", "raise the first, or lower the second"),
    ("each signal of", "add the signal to the other map, or remove it here"),
    ("is reserved", "remove it: the controller sets it"),
    ("are reserved", "remove it: the controller sets it"),
    ("needs a primary one", "add the interface with card 0 and device 0"),
    ("each pair of card and device once", "give every interface a card and device of its own"),
    ("needs", "add one of them"),
];

/// Returns the hint on a broken rule with this message, about `value`.
pub(super) fn on_rule(message: &str, value: &Value) -> Option<String> {
    if let Some(text) = value.as_str() {
        let families = ["al2", "al2023", "bottlerocket", "windows2019", "windows2022", "windows2025"];
        let nearest = if message.starts_with("labels in the domain") {
            nearest_of(labels::WELL_KNOWN.into_iter(), text).map(str::to_owned)
        } else if message.contains("must be of the family") {
            let (family, version) = text.split_once('@').unwrap_or((text, "latest"));
            nearest_of(families.into_iter(), family).map(|family| format!("{family}@{version}"))
        } else {
            None
        };
        if let Some(nearest) = nearest {
            return Some(format!("did you mean `{nearest}`?"));
        }
    }
    HINTS.iter().find(|(part, _)| message.contains(part)).map(|(_, hint)| (*hint).to_owned())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn misspelled_names_are_corrected() {
        let domain = "labels in the domain `karpenter.sh` are reserved, except `karpenter.sh/capacity-type`";
        let hint = |message: &str, value: &str| on_rule(message, &json!(value)).unwrap();
        assert_eq!(hint(domain, "karpenter.sh/capcity-type"), "did you mean `karpenter.sh/capacity-type`?");
        assert_eq!(
            hint(domain, "karpenter.sh/x"),
            "use a well-known label, or a domain of your own such as `example.com`"
        );
        let family = "`alias` must be of the family al2, al2023, bottlerocket, windows2019, windows2022 or windows2025";
        assert_eq!(hint(family, "al2032@latest"), "did you mean `al2023@latest`?");
    }
}
