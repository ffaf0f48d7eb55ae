//! Validation of manifests without an API server.
//!
//! [`check`] does the same as an API server on creation, in the same order: it prunes fields that the schema does not
//! know, applies defaults, checks types and bounds, and then evaluates the CEL rules. Finally it runs the checks that
//! the controller runs on admitted objects ([`ErrorKind::Runtime`]).
//!
//! Rules that compare an object with its previous version (`oldSelf`) are skipped: a manifest alone does not have one.

mod advice;
mod metadata;
mod names;
mod path;
mod recognize;
mod rule;
mod runtime;
mod schema;
mod structure;
mod unknown;

use std::fmt;

use serde_json::Value;

use self::path::Path;
use self::recognize::Recognized;
use crate::nodeclass::IgnoredTerm;

/// Result of checking a manifest.
#[derive(Debug, Clone, PartialEq)]
pub struct Checked {
    /// Kind of the manifest if it is one of ours in its current version, for instance `NodePool`.
    pub kind: Option<&'static str>,
    /// Reasons why the manifest would be rejected, in the order of the checks.
    pub errors: Vec<FieldError>,
    /// Fields that would be pruned.
    pub warnings: Vec<UnknownField>,
    /// Selector terms that select nothing and are ignored by the controller.
    pub ignored: Vec<IgnoredTerm>,
    /// Object as it would be stored: without unknown fields and with defaults. For a foreign kind, the manifest itself.
    pub defaulted: Value,
}

/// A reason why a manifest would be rejected.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{}{}{message}", path, if path.is_empty() { "" } else { ": " })]
pub struct FieldError {
    /// Path of the field, for instance `spec.template.spec.requirements[0].key`; empty for the whole manifest.
    pub path: String,
    /// Kind of check that failed.
    pub kind: ErrorKind,
    /// Description of the error in one line, optionally followed by a blank line and a `hint:`.
    pub message: String,
}

/// Kinds of checks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum ErrorKind {
    /// The kind or its version is not supported.
    Version,
    /// A required field is missing.
    Required,
    /// A field must not be set.
    Forbidden,
    /// A value has the wrong type.
    Type,
    /// A value is not in the list of allowed values.
    Choice,
    /// A number, or the number of entries or characters, is out of bounds.
    Range,
    /// A string is too long.
    TooLong,
    /// A list or map has too many entries.
    TooMany,
    /// A string does not match its pattern.
    Pattern,
    /// A list has a duplicate entry.
    Duplicate,
    /// A CEL rule is violated.
    Rule,
    /// The API server would accept the object, but it would never become ready.
    Runtime,
}

/// A field that the schema does not know.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UnknownField {
    /// Path of the field.
    pub path: String,
    /// Most similar known name: a sibling field, or the path of a field with the same name elsewhere.
    pub nearest: Option<String>,
}

/// Checks a manifest of any kind. Foreign kinds give neither errors nor warnings.
///
/// ```
/// use muster_api::validation::check;
/// use serde_json::json;
///
/// let checked = check(&json!({
///     "apiVersion": "karpenter.sh/v1",
///     "kind": "NodePool",
///     "metadata": {"name": "general"},
///     "spec": {"weight": 500, "template": {"spec": {
///         "nodeClassRef": {"group": "karpenter.k8s.aws", "kind": "EC2NodeClass", "name": "default"},
///         "requirements": [],
///     }}},
/// }));
/// assert_eq!(checked.kind, Some("NodePool"));
/// assert_eq!(checked.errors.len(), 1);
/// assert_eq!(checked.errors[0].path, "spec.weight");
/// ```
#[must_use]
pub fn check(manifest: &Value) -> Checked {
    let (kind, kind_schema) = match recognize::recognize(manifest) {
        Recognized::Ours(kind, schema) => (kind, schema),
        Recognized::Foreign => return Checked::untouched(manifest, Vec::new()),
        Recognized::Refused(message) => {
            let error = FieldError { path: String::new(), kind: ErrorKind::Version, message };
            return Checked::untouched(manifest, vec![error]);
        }
    };
    let mut errors = Vec::new();
    let mut warnings = Vec::new();
    let mut object = manifest.clone();
    let mut path = Path::default();
    let root = &kind_schema.root;

    if let Value::Object(fields) = &mut object {
        metadata::check(fields, kind_schema.is_namespaced, &mut errors, &mut warnings);
        let metadata = fields.remove("metadata");
        structure::prune_and_default(root, root, &mut object, &mut path, &mut warnings);
        structure::validate(root, &object, &mut path, &mut errors);
        // Rules fail misleadingly on values of the wrong shape, so an API server stops here too.
        if !errors.iter().any(FieldError::hides_rules) {
            structure::evaluate_rules(root, &object, &mut path, &mut errors);
        }
        if let (Value::Object(fields), Some(metadata)) = (&mut object, metadata) {
            fields.insert("metadata".to_owned(), metadata);
        }
    }
    let mut ignored = Vec::new();
    if errors.is_empty() {
        runtime::check(kind, &object, &mut errors, &mut ignored);
    }
    Checked { kind: Some(kind), errors, warnings, ignored, defaulted: object }
}

// === impl Checked ===

impl Checked {
    fn untouched(manifest: &Value, errors: Vec<FieldError>) -> Self {
        Self { kind: None, errors, warnings: Vec::new(), ignored: Vec::new(), defaulted: manifest.clone() }
    }

    /// Returns true if `errors` is empty. Unknown fields are only warnings.
    #[must_use]
    pub fn is_ok(&self) -> bool {
        self.errors.is_empty()
    }

    /// Returns true if an API server would accept the object: all errors, if any, are found only by the controller.
    #[must_use]
    pub fn is_admitted(&self) -> bool {
        self.errors.iter().all(FieldError::is_runtime)
    }
}

// === impl FieldError ===

impl FieldError {
    fn new(path: &Path, kind: ErrorKind, message: String) -> Self {
        Self { path: path.to_string(), kind, message }
    }

    /// Returns true if only the controller finds the error.
    #[must_use]
    pub const fn is_runtime(&self) -> bool {
        matches!(self.kind, ErrorKind::Runtime)
    }

    /// Returns true if the kind or version of the manifest is not supported.
    #[must_use]
    pub const fn is_version(&self) -> bool {
        matches!(self.kind, ErrorKind::Version)
    }

    const fn hides_rules(&self) -> bool {
        matches!(
            self.kind,
            ErrorKind::Required | ErrorKind::Type | ErrorKind::Choice | ErrorKind::TooLong | ErrorKind::TooMany
        )
    }
}

// === impl UnknownField ===

impl fmt::Display for UnknownField {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: unknown field", self.path)?;
        match &self.nearest {
            Some(nearest) => write!(f, ", did you mean `{nearest}`?"),
            None => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::schema::Node;
    use super::*;

    fn each_node(node: &Node, visit: &mut impl FnMut(&Node)) {
        visit(node);
        let children = node.properties.values().chain(node.items.as_deref()).chain(node.additional.as_deref());
        children.for_each(|child| each_node(child, visit));
    }

    #[test]
    fn every_rule_and_pattern_compiles() {
        let (mut rules, mut transitions, mut patterns) = (0, 0, 0);
        for (kind, schema) in recognize::schemas() {
            each_node(&schema.root, &mut |node| {
                for rule in &node.rules {
                    assert!(rule.is_compiled(), "{kind}: {rule:?}");
                    assert!(!rule.message.contains('\n'), "{kind}: {rule:?}");
                    rules += 1;
                    transitions += usize::from(rule.is_transition());
                }
                if let Some(pattern) = &node.pattern {
                    assert!(pattern.regex.is_some(), "{kind}: {pattern:?}");
                    patterns += 1;
                }
            });
        }
        assert_eq!((rules, transitions), (84, 4), "each rule of the references is there once per place");
        assert!(patterns > 40, "{patterns}");
    }
}
