//! Checks of manifests without an API server.
//!
//! [`check`] does what an API server does with an object that is created, in the same order: it drops the fields that
//! the schema does not know, puts in the defaults, checks types and bounds, and then evaluates the CEL rules. Last it
//! does what the controller does with an object that the API server has let through ([`ErrorKind::Runtime`]).
//!
//! Rules that compare an object with its predecessor (`oldSelf`) are skipped: a manifest alone has none.

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

/// What came of checking a manifest.
#[derive(Debug, Clone, PartialEq)]
pub struct Checked {
    /// Kind of the manifest if it is one of ours in its current version, for instance `NodePool`.
    pub kind: Option<&'static str>,
    /// Why the manifest would be refused, in the order of the checks.
    pub errors: Vec<FieldError>,
    /// Fields that would be dropped.
    pub warnings: Vec<UnknownField>,
    /// The object as it would be stored: without unknown fields and with defaults. Of a kind that is not ours, the
    /// manifest itself.
    pub defaulted: Value,
}

/// One reason why a manifest would be refused.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{}{}{message}", path, if path.is_empty() { "" } else { ": " })]
pub struct FieldError {
    /// Where, for instance `spec.template.spec.requirements[0].key`; empty for the manifest as a whole.
    pub path: String,
    /// What sort of check failed.
    pub kind: ErrorKind,
    /// What is wrong, in one line; after a blank line a `hint:` may follow.
    pub message: String,
}

/// Sorts of checks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum ErrorKind {
    /// The kind or its version is not read.
    Version,
    /// A field is missing.
    Required,
    /// A field may not be set.
    Forbidden,
    /// A value is of another type.
    Type,
    /// A value is none of the few that it can be.
    Choice,
    /// A number, or the number of entries or characters, is out of bounds.
    Range,
    /// A string is too long.
    TooLong,
    /// A list or map has too many entries.
    TooMany,
    /// A string does not have the form that it must have.
    Pattern,
    /// A list has an entry twice.
    Duplicate,
    /// A CEL rule is broken.
    Rule,
    /// An API server would take the object, but it would never become ready.
    Runtime,
}

/// A field that the schema does not know.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UnknownField {
    /// Where it stands.
    pub path: String,
    /// The known name that is nearest: of a field beside it, or the path of one with that name elsewhere.
    pub nearest: Option<String>,
}

/// Checks a manifest of any kind. Kinds that are not ours give neither errors nor warnings.
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
        // A rule over a value of another shape than it expects says nothing useful, so an API server stops here too.
        if !errors.iter().any(FieldError::hides_rules) {
            structure::evaluate_rules(root, &object, &mut path, &mut errors);
        }
        if let (Value::Object(fields), Some(metadata)) = (&mut object, metadata) {
            fields.insert("metadata".to_owned(), metadata);
        }
    }
    if errors.is_empty() {
        runtime::check(kind, &object, &mut errors);
    }
    Checked { kind: Some(kind), errors, warnings, defaulted: object }
}

// === impl Checked ===

impl Checked {
    fn untouched(manifest: &Value, errors: Vec<FieldError>) -> Self {
        Self { kind: None, errors, warnings: Vec::new(), defaulted: manifest.clone() }
    }

    /// Whether nothing is wrong. Unknown fields are not wrong.
    #[must_use]
    pub fn is_ok(&self) -> bool {
        self.errors.is_empty()
    }

    /// Whether an API server would take the object: what is wrong, if anything, only the controller notices.
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

    /// Whether only the controller notices.
    #[must_use]
    pub const fn is_runtime(&self) -> bool {
        matches!(self.kind, ErrorKind::Runtime)
    }

    /// Whether the manifest is of a kind or version that is not read.
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
        assert_eq!((rules, transitions), (94, 4), "each rule of the references is there once per place");
        assert!(patterns > 40, "{patterns}");
    }
}
