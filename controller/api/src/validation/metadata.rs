//! Validation of `metadata`, which all kinds share and CRDs do not describe.

use serde_json::{Map, Value};

use super::path::Path;
use super::structure::type_name;
use super::{ErrorKind, FieldError, UnknownField, names};
use crate::likeness::nearest_of;

/// Fields of `metadata` and their types.
const FIELDS: [(&str, FieldType); 15] = [
    ("annotations", FieldType::Strings),
    ("creationTimestamp", FieldType::Any),
    ("deletionGracePeriodSeconds", FieldType::Any),
    ("deletionTimestamp", FieldType::Any),
    ("finalizers", FieldType::Any),
    ("generateName", FieldType::String),
    ("generation", FieldType::Any),
    ("labels", FieldType::Strings),
    ("managedFields", FieldType::Any),
    ("name", FieldType::String),
    ("namespace", FieldType::String),
    ("ownerReferences", FieldType::Any),
    ("resourceVersion", FieldType::String),
    ("selfLink", FieldType::String),
    ("uid", FieldType::String),
];

#[derive(Clone, Copy, PartialEq, Eq)]
enum FieldType {
    String,
    Strings,
    /// Set by the API server; a wrong type is found when the object is decoded.
    Any,
}

/// Checks `metadata` and removes unknown fields.
pub(super) fn check(
    object: &mut Map<String, Value>,
    is_namespaced: bool,
    errors: &mut Vec<FieldError>,
    warnings: &mut Vec<UnknownField>,
) {
    let mut path = Path::of("metadata");
    let Some(metadata) = object.get_mut("metadata") else {
        errors.push(FieldError::new(&path, ErrorKind::Required, "`metadata` must be set".to_owned()));
        return;
    };
    let Value::Object(metadata) = metadata else {
        let message = format!("`metadata` must be an object, not {}", type_name(metadata));
        errors.push(FieldError::new(&path, ErrorKind::Type, message));
        return;
    };
    metadata.retain(|name, value| {
        let known = FIELDS.iter().find(|(field, _)| field == name);
        if known.is_none() {
            let nearest = nearest_of(FIELDS.iter().map(|(field, _)| *field), name).map(str::to_owned);
            warnings.push(UnknownField { path: format!("metadata.{name}"), nearest });
        }
        known.is_some() && !value.is_null()
    });
    for (name, field_type) in FIELDS {
        let Some(value) = metadata.get(name) else { continue };
        path.in_field(name, |path| match (field_type, value) {
            (FieldType::String, Value::String(_)) | (FieldType::Any, _) => {}
            (FieldType::String, other) => {
                let message = format!("`{name}` must be a string, not {}", type_name(other));
                errors.push(FieldError::new(path, ErrorKind::Type, message));
            }
            (FieldType::Strings, Value::Object(entries)) => check_entries(name, entries, path, errors),
            (FieldType::Strings, other) => {
                let message = format!("`{name}` must be an object, not {}", type_name(other));
                errors.push(FieldError::new(path, ErrorKind::Type, message));
            }
        });
    }
    check_name(metadata, is_namespaced, &mut path, errors);
}

fn check_entries(name: &str, entries: &Map<String, Value>, path: &mut Path, errors: &mut Vec<FieldError>) {
    for (key, value) in entries {
        path.in_key(key, |path| {
            // Kubernetes compares annotation keys case-insensitively.
            let lower = key.to_lowercase();
            if let Some(problem) = names::qualified_name(if name == "annotations" { &lower } else { key }) {
                errors.push(FieldError::new(path, ErrorKind::Pattern, format!("`{key}` {problem}")));
            }
            match value {
                Value::String(value) => {
                    if let Some(problem) = names::label_value(value).filter(|_| name == "labels") {
                        errors.push(FieldError::new(path, ErrorKind::Pattern, format!("`{key}` {problem}")));
                    }
                }
                other => {
                    let message = format!("`{key}` must be a string, not {}", type_name(other));
                    errors.push(FieldError::new(path, ErrorKind::Type, message));
                }
            }
        });
    }
}

fn check_name(metadata: &Map<String, Value>, is_namespaced: bool, path: &mut Path, errors: &mut Vec<FieldError>) {
    let text = |field: &str| metadata.get(field).and_then(Value::as_str).unwrap_or_default();
    if text("name").is_empty() && text("generateName").is_empty() && metadata.get("name").is_none_or(Value::is_string) {
        path.in_field("name", |path| {
            errors.push(FieldError::new(path, ErrorKind::Required, "`name` must be set".to_owned()));
        });
    }
    if !text("name").is_empty()
        && let Some(problem) = names::subdomain(text("name"))
    {
        path.in_field("name", |path| {
            errors.push(FieldError::new(path, ErrorKind::Pattern, format!("`name` {problem}")));
        });
    }
    if !is_namespaced && !text("namespace").is_empty() {
        path.in_field("namespace", |path| {
            let message = "`namespace` may not be set: the kind belongs to the whole cluster".to_owned();
            errors.push(FieldError::new(path, ErrorKind::Forbidden, message));
        });
    }
}
