//! Which instance type does not have the expected shape: decoders tell only the line, so the file is read once more, piece
//! by piece.

use serde::Deserialize;
use serde_json::Value;

use super::document::{Amounts, OfferingEntry, RequirementEntry, Text};
use super::error::{CatalogueError, Problem};

/// A catalogue may be large; the decoder's default limits are meant for small files from strangers.
pub(super) fn yaml_options() -> serde_saphyr::Options {
    serde_saphyr::options! { budget: serde_saphyr::budget! {
        max_reader_input_bytes: None,
        max_events: 100_000_000,
        max_nodes: 100_000_000,
        max_total_scalar_bytes: 1 << 30,
    } }
}

pub(super) fn in_json(text: &str, error: &serde_json::Error) -> CatalogueError {
    match serde_json::from_str::<Value>(text) {
        Ok(document) => first_fault(&document).unwrap_or_else(|| json_syntax(error)),
        Err(error) => json_syntax(&error),
    }
}

pub(super) fn in_yaml(text: &str, error: &serde_saphyr::Error) -> CatalogueError {
    match serde_saphyr::from_str_with_options::<Value>(text, yaml_options()) {
        Ok(document) => first_fault(&document).unwrap_or_else(|| yaml_syntax(error)),
        Err(error) => yaml_syntax(&error),
    }
}

fn json_syntax(error: &serde_json::Error) -> CatalogueError {
    let text = error.to_string();
    let reason = text.rsplit_once(" at line ").map_or(&*text, |(reason, _)| reason);
    CatalogueError::Syntax(format!("line {}: {reason}", error.line()))
}

/// One line, without the piece of the source that the parser shows.
fn yaml_syntax(error: &serde_saphyr::Error) -> CatalogueError {
    let line = error.location().map_or(1, |location| location.line());
    let text = error.without_snippet().to_string();
    let reason = text.lines().find(|line| !line.trim().is_empty()).unwrap_or("unknown cause");
    let reason = reason.split(" at line ").next().unwrap_or(reason).trim();
    CatalogueError::Syntax(format!("line {line}: {reason}"))
}

fn first_fault(document: &Value) -> Option<CatalogueError> {
    let types = document.get("instanceTypes")?.as_array()?;
    types.iter().enumerate().find_map(|(index, entry)| {
        let name = entry.get("name").and_then(Value::as_str);
        let instance_type = name.map_or_else(|| format!("instanceTypes[{index}]"), str::to_owned);
        let (field, message) = fault_of_type(entry)?;
        Some(CatalogueError::Value { instance_type, field, problem: Problem::Shape(message) })
    })
}

fn fault_of_type(entry: &Value) -> Option<(String, String)> {
    check::<Text<'_>>(entry, "name", true)
        .or_else(|| in_list(entry, "requirements", "", whole::<RequirementEntry<'_>>))
        .or_else(|| check::<Amounts<'_>>(entry, "capacity", true))
        .or_else(|| check::<Amounts<'_>>(entry, "overhead", false))
        .or_else(|| in_list(entry, "offerings", "", fault_of_offering))
}

fn fault_of_offering(entry: &Value, path: &str) -> Option<(String, String)> {
    let inner = |(field, message)| (format!("{path}.{field}"), message);
    in_list(entry, "requirements", path, whole::<RequirementEntry<'_>>)
        .or_else(|| check::<Option<f64>>(entry, "price", false).map(inner))
        .or_else(|| check::<bool>(entry, "available", false).map(inner))
        .or_else(|| check::<u32>(entry, "reservationCapacity", false).map(inner))
        .or_else(|| whole::<OfferingEntry<'_>>(entry, path))
}

/// What is wrong with the field `name` of `entry`.
fn check<'a, T: Deserialize<'a>>(entry: &'a Value, name: &str, is_required: bool) -> Option<(String, String)> {
    match entry.get(name) {
        Some(value) => whole::<T>(value, name),
        None if is_required => Some((name.to_owned(), "is missing".to_owned())),
        None => None,
    }
}

fn whole<'a, T: Deserialize<'a>>(value: &'a Value, path: &str) -> Option<(String, String)> {
    T::deserialize(value).err().map(|error| (path.to_owned(), error.to_string()))
}

fn in_list<'a>(
    entry: &'a Value,
    name: &str,
    parent: &str,
    fault: impl Fn(&'a Value, &str) -> Option<(String, String)>,
) -> Option<(String, String)> {
    let path = if parent.is_empty() { name.to_owned() } else { format!("{parent}.{name}") };
    match entry.get(name)? {
        Value::Array(items) => {
            items.iter().enumerate().find_map(|(index, item)| fault(item, &format!("{path}[{index}]")))
        }
        _ => Some((path, "must be a list".to_owned())),
    }
}
