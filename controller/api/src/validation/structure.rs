//! Structural validation against a schema: fields, defaults, types and bounds, without CEL.

use std::collections::BTreeSet;

use serde_json::{Map, Value};

use super::path::Path;
use super::rule::{CompiledRule, Outcome, cel_value};
use super::schema::{ListType, Node, NodeType};
use super::{ErrorKind, FieldError, UnknownField, advice, unknown};
use crate::likeness::nearest_of;
use crate::patterns;

/// Largest magnitude below which a floating-point number of JSON represents every integer exactly.
const LARGEST_EXACT: f64 = 9_007_199_254_740_992.0;

/// Prunes fields that the schema does not know, with a warning, and applies its defaults.
pub(super) fn prune_and_default(
    root: &Node,
    node: &Node,
    value: &mut Value,
    path: &mut Path,
    warnings: &mut Vec<UnknownField>,
) {
    match value {
        Value::Object(fields) => {
            if node.additional.is_none() {
                prune(root, node, fields, path, warnings);
            }
            for (name, property) in &node.properties {
                let is_absent = fields.get(name).is_none_or(Value::is_null);
                match &property.default {
                    Some(default) if is_absent => {
                        fields.insert(name.clone(), default.clone());
                    }
                    None if is_absent => {
                        fields.remove(name);
                    }
                    _ => {}
                }
                if let Some(field) = fields.get_mut(name) {
                    path.in_field(name, |path| prune_and_default(root, property, field, path, warnings));
                }
            }
            if let Some(entries) = &node.additional {
                fields.retain(|_, entry| !entry.is_null());
                for (key, entry) in fields {
                    path.in_key(key, |path| prune_and_default(root, entries, entry, path, warnings));
                }
            }
        }
        Value::Array(entries) => {
            if let Some(items) = &node.items {
                for (index, entry) in entries.iter_mut().enumerate() {
                    path.in_index(index, |path| prune_and_default(root, items, entry, path, warnings));
                }
            }
        }
        Value::Number(_) => exact_integer(node, value),
        _ => {}
    }
}

fn prune(root: &Node, node: &Node, fields: &mut Map<String, Value>, path: &mut Path, warnings: &mut Vec<UnknownField>) {
    if node.kind != Some(NodeType::Object) || node.is_open {
        return;
    }
    fields.retain(|name, _| {
        let is_known = node.properties.contains_key(name);
        if !is_known {
            let path = path.in_field(name, |path| path.to_string());
            warnings.push(UnknownField { nearest: unknown::nearest(root, node, name), path });
        }
        is_known
    });
}

/// Converts floats with an integral value, such as `5.0`, to integers, as an API server does.
fn exact_integer(node: &Node, value: &mut Value) {
    if !matches!(node.kind, Some(NodeType::Integer { .. } | NodeType::IntOrString)) || value.is_i64() {
        return;
    }
    if let Some(float) = value.as_f64().filter(|float| float.fract() == 0.0 && float.abs() < LARGEST_EXACT) {
        *value = Value::from(float as i64);
    }
}

/// Checks types, bounds, patterns and allowed values.
pub(super) fn validate(node: &Node, value: &Value, path: &mut Path, errors: &mut Vec<FieldError>) {
    if let Some(kind) = node.kind
        && !has_type(kind, value)
    {
        let quotes = matches!((kind, value), (NodeType::String, Value::Number(_) | Value::Bool(_)));
        let hint = if quotes { "put the value in quotes".to_owned() } else { format!("write {}", kind.name()) };
        let message =
            format!("`{}` must be {}, not {}\n\nhint: {hint}", path.last_field(), kind.name(), type_name(value));
        errors.push(FieldError::new(path, ErrorKind::Type, message));
        return;
    }
    if !node.choices.is_empty() && !node.choices.contains(value) {
        let choices: Vec<String> = node.choices.iter().map(|choice| format!("`{}`", plain(choice))).collect();
        let message = format!(
            "`{}` is `{}`, but must be one of {}{}",
            path.last_field(),
            plain(value),
            choices.join(", "),
            meant(node, value)
        );
        errors.push(FieldError::new(path, ErrorKind::Choice, message));
    }
    match value {
        Value::Object(fields) => validate_object(node, fields, path, errors),
        Value::Array(entries) => validate_list(node, entries, path, errors),
        Value::String(text) => validate_string(node, text, path, errors),
        Value::Number(number) => {
            let number = number.as_f64().unwrap_or(f64::NAN);
            if let Some(minimum) = node.minimum.filter(|minimum| number < *minimum) {
                let hint = range(node);
                let message = format!("`{}` is {value}, but must be at least {minimum}{hint}", path.last_field());
                errors.push(FieldError::new(path, ErrorKind::Range, message));
            }
            if let Some(maximum) = node.maximum.filter(|maximum| number > *maximum) {
                let hint = range(node);
                let message = format!("`{}` is {value}, but must be at most {maximum}{hint}", path.last_field());
                errors.push(FieldError::new(path, ErrorKind::Range, message));
            }
            if node.kind == Some(NodeType::Integer { is_short: true })
                && value.as_i64().is_none_or(|number| i32::try_from(number).is_err())
            {
                let most = i32::MAX;
                let message = format!(
                    "`{}` is {value}, but must fit in 32 bits\n\nhint: write at most {most}",
                    path.last_field()
                );
                errors.push(FieldError::new(path, ErrorKind::Range, message));
            }
        }
        _ => {}
    }
}

fn validate_object(node: &Node, fields: &Map<String, Value>, path: &mut Path, errors: &mut Vec<FieldError>) {
    for name in node.required.iter().filter(|name| !fields.contains_key(*name)) {
        path.in_field(name, |path| {
            errors.push(FieldError::new(
                path,
                ErrorKind::Required,
                format!("`{name}` must be set\n\nhint: add `{name}`"),
            ));
        });
    }
    if let Some(most) = node.properties_count.max.filter(|most| exceeds(fields.len(), *most)) {
        let (name, count) = (path.last_field(), fields.len());
        let message = format!("`{name}` has {count} entries, but may have at most {most}\n\nhint: remove entries");
        errors.push(FieldError::new(path, ErrorKind::TooMany, message));
    }
    for (name, field) in fields {
        if let Some(property) = node.properties.get(name) {
            path.in_field(name, |path| validate(property, field, path, errors));
        } else if let Some(entries) = &node.additional {
            path.in_key(name, |path| validate(entries, field, path, errors));
        }
    }
}

fn validate_list(node: &Node, entries: &[Value], path: &mut Path, errors: &mut Vec<FieldError>) {
    if let Some(most) = node.items_count.max.filter(|most| exceeds(entries.len(), *most)) {
        let (name, count) = (path.last_field(), entries.len());
        let message = format!("`{name}` has {count} entries, but may have at most {most}\n\nhint: remove entries");
        errors.push(FieldError::new(path, ErrorKind::TooMany, message));
    }
    if let Some(fewest) = node.items_count.min.filter(|fewest| falls_short(entries.len(), *fewest)) {
        let (name, count) = (path.last_field(), entries.len());
        let message = format!("`{name}` has {count} entries, but needs at least {fewest}\n\nhint: add an entry");
        errors.push(FieldError::new(path, ErrorKind::Range, message));
    }
    if let Some(items) = &node.items {
        for (index, entry) in entries.iter().enumerate() {
            path.in_index(index, |path| validate(items, entry, path, errors));
        }
    }
    let identity = |entry: &Value| -> Option<String> {
        match &node.list_type {
            ListType::Atomic => None,
            ListType::Set => Some(entry.to_string()),
            ListType::Map(keys) => {
                Some(keys.iter().map(|key| entry.get(key).unwrap_or(&Value::Null).to_string()).collect())
            }
        }
    };
    let mut seen = BTreeSet::new();
    for (index, entry) in entries.iter().enumerate() {
        let Some(id) = identity(entry) else { break };
        if !seen.insert(id) {
            path.in_index(index, |path| {
                let name = path.last_field();
                let message = format!("`{name}` has an entry more than once: {entry}\n\nhint: remove one of the two");
                errors.push(FieldError::new(path, ErrorKind::Duplicate, message));
            });
        }
    }
}

fn validate_string(node: &Node, text: &str, path: &mut Path, errors: &mut Vec<FieldError>) {
    let characters = text.chars().count();
    if let Some(most) = node.length.max.filter(|most| exceeds(characters, *most)) {
        let name = path.last_field();
        let message = format!("`{name}` has {characters} characters, but may have at most {most}\n\nhint: shorten it");
        errors.push(FieldError::new(path, ErrorKind::TooLong, message));
    }
    if let Some(fewest) = node.length.min.filter(|fewest| falls_short(characters, *fewest)) {
        let name = path.last_field();
        let message =
            format!("`{name}` has {characters} characters, but needs at least {fewest}\n\nhint: write a longer one");
        errors.push(FieldError::new(path, ErrorKind::Range, message));
    }
    if let Some(pattern) = node.pattern.as_ref().filter(|pattern| !pattern.matches(text)) {
        let hint =
            patterns::example(&pattern.text).map_or_else(String::new, |example| format!("\n\nhint: write {example}"));
        // Not the expression itself: those of the schemas are longer than a line.
        let message = format!("`{}` is `{text}`, which is malformed{hint}", path.last_field());
        errors.push(FieldError::new(path, ErrorKind::Pattern, message));
    }
    if node.is_date_time && !is_date_time(text) {
        let message = format!("`{}` is `{text}`, but must be a time such as 2006-01-02T15:04:05Z", path.last_field());
        errors.push(FieldError::new(path, ErrorKind::Pattern, message));
    }
}

/// Evaluates the rules of a value and of all its children.
pub(super) fn evaluate_rules(node: &Node, value: &Value, path: &mut Path, errors: &mut Vec<FieldError>) {
    if !node.rules.is_empty() {
        let subject = cel_value(value);
        for rule in node.rules.iter().filter(|rule| rule.evaluate(&subject) == Outcome::Broken) {
            let (culprit, hint) = (culprit(node, rule, value), advice::on_rule(&rule.message, value));
            let hint = hint.map_or_else(String::new, |hint| format!("\n\nhint: {hint}"));
            errors.push(FieldError::new(path, ErrorKind::Rule, format!("{}{culprit}{hint}", rule.message)));
        }
    }
    match value {
        Value::Object(fields) => {
            for (name, field) in fields {
                if let Some(property) = node.properties.get(name) {
                    path.in_field(name, |path| evaluate_rules(property, field, path, errors));
                } else if let Some(entries) = &node.additional {
                    path.in_key(name, |path| evaluate_rules(entries, field, path, errors));
                }
            }
        }
        Value::Array(entries) => {
            if let Some(items) = &node.items {
                for (index, entry) in entries.iter().enumerate() {
                    path.in_index(index, |path| evaluate_rules(items, entry, path, errors));
                }
            }
        }
        _ => {}
    }
}

/// Returns the entry or value that breaks `rule` by itself, for the end of its message; empty if no single one does.
fn culprit(node: &Node, rule: &CompiledRule, value: &Value) -> String {
    let is_broken = |part: Value| rule.evaluate(&cel_value(&part)) == Outcome::Broken;
    match value {
        Value::Array(entries) => {
            let found = entries.iter().enumerate().find(|(_, entry)| is_broken(Value::Array(vec![(*entry).clone()])));
            match found.map(|(index, entry)| (index + 1, entry.get("key").and_then(Value::as_str))) {
                Some((number, Some(key))) => format!(" (entry {number}, key `{key}`)"),
                Some((number, None)) => format!(" (entry {number})"),
                None => String::new(),
            }
        }
        Value::Object(fields) if node.additional.is_some() => {
            let alone =
                |name: &String, field: &Value| Value::Object([(name.clone(), field.clone())].into_iter().collect());
            let found = fields.iter().find(|(name, field)| is_broken(alone(name, field)));
            found.map_or_else(String::new, |(name, field)| format!(" (`{name}` is `{}`)", plain(field)))
        }
        Value::String(text) if !text.is_empty() && !rule.message.contains(text.as_str()) => format!(" (`{text}`)"),
        _ => String::new(),
    }
}

/// Returns the hint on the numbers that `node` allows.
fn range(node: &Node) -> String {
    match (node.minimum, node.maximum) {
        (Some(least), Some(most)) => format!("\n\nhint: write a number from {least} to {most}"),
        (Some(least), None) => format!("\n\nhint: write a number of at least {least}"),
        (None, Some(most)) => format!("\n\nhint: write a number of at most {most}"),
        (None, None) => String::new(),
    }
}

fn is_date_time(text: &str) -> bool {
    serde_json::from_value::<k8s_openapi::apimachinery::pkg::apis::meta::v1::Time>(Value::from(text)).is_ok()
}

fn has_type(kind: NodeType, value: &Value) -> bool {
    match kind {
        NodeType::Object => value.is_object(),
        NodeType::Array => value.is_array(),
        NodeType::String => value.is_string(),
        NodeType::Boolean => value.is_boolean(),
        NodeType::Number => value.is_number(),
        NodeType::Integer { .. } => value.is_i64(),
        NodeType::IntOrString => value.is_i64() || value.is_string(),
    }
}

/// Returns the name of the type of a value, for messages.
pub(super) fn type_name(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "true or false",
        Value::Number(number) if number.is_f64() => "a fraction",
        Value::Number(_) => "a number",
        Value::String(_) => "a string",
        Value::Array(_) => "a list",
        Value::Object(_) => "an object",
    }
}

/// Returns a hint with the allowed value most similar to `value`, if any is.
fn meant(node: &Node, value: &Value) -> String {
    let choices = node.choices.iter().filter_map(Value::as_str);
    let nearest = value.as_str().and_then(|text| nearest_of(choices, text));
    nearest.map_or_else(
        || "\n\nhint: write one of these values".to_owned(),
        |choice| format!("\n\nhint: did you mean `{choice}`?"),
    )
}

fn plain(value: &Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), str::to_owned)
}

fn exceeds(count: usize, most: i64) -> bool {
    usize::try_from(most).is_ok_and(|most| count > most)
}

fn falls_short(count: usize, fewest: i64) -> bool {
    usize::try_from(fewest).is_ok_and(|fewest| count < fewest)
}
