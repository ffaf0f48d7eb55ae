//! Location of the instance type with an unexpected shape: decoders report only the line, so the file is decoded again
//! piece by piece.

use muster_api::likeness::nearest_of;
use serde::Deserialize;
use serde_json::Value;

use super::document::{Amounts, OfferingEntry, RequirementEntry, Text};
use super::error::{CatalogueError, Problem};

/// Returns options without small limits: a catalogue may be large, and the defaults are meant for untrusted input.
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
        // A number that does not fit any type is not a syntax error: the decoder reports where it ends.
        Err(error) if error.is_syntax() && error.to_string().starts_with(OUT_OF_RANGE) => {
            let field = path_at(text, error.line(), error.column());
            CatalogueError::Field { field, problem: OUT_OF_RANGE.to_owned() }
        }
        Err(error) => json_syntax(&error),
    }
}

/// Error message of the JSON decoder for `1e999`.
const OUT_OF_RANGE: &str = "number out of range";

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

/// Formats the error in one line, without the source snippet of the parser.
fn yaml_syntax(error: &serde_saphyr::Error) -> CatalogueError {
    let line = error.location().map_or(1, |location| location.line());
    let text = error.without_snippet().to_string();
    let reason = text.lines().find(|line| !line.trim().is_empty()).unwrap_or("unknown cause");
    let reason = reason.split(" at line ").next().unwrap_or(reason).trim();
    CatalogueError::Syntax(format!("line {line}: {reason}"))
}

fn first_fault(document: &Value) -> Option<CatalogueError> {
    if let Some(fault) = fault_of_document(document) {
        return Some(fault);
    }
    let types = document.get("instanceTypes")?.as_array()?;
    types.iter().enumerate().find_map(|(index, entry)| {
        let name = entry.get("name").and_then(Value::as_str);
        let instance_type = name.map_or_else(|| format!("instanceTypes[{index}]"), str::to_owned);
        let (field, message) = fault_of_type(entry)?;
        Some(CatalogueError::Value { instance_type, field, problem: Problem::Shape(message) })
    })
}

fn fault_of_document(document: &Value) -> Option<CatalogueError> {
    document.as_object()?;
    let list = |types: Option<&Value>| match types {
        None => Some("is missing".to_owned()),
        Some(Value::Array(_)) => None,
        Some(other) => Some(format!("is {}, expected a list", kind_of(other))),
    };
    let texts = ["apiVersion", "kind"].into_iter();
    let text = texts.filter_map(|field| check::<Text<'_>>(document, field, true)).next();
    let types = || Some(("instanceTypes".to_owned(), list(document.get("instanceTypes"))?));
    let strange = || unknown(document, "", &["apiVersion", "kind", "instanceTypes"]);
    let (field, problem) = text.or_else(types).or_else(strange)?;
    Some(CatalogueError::Field { field, problem })
}

fn kind_of(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "a boolean",
        Value::Number(_) => "a number",
        Value::String(_) => "a string",
        Value::Array(_) => "a list",
        Value::Object(_) => "an object",
    }
}

type Fault = Option<(String, String)>;

fn fault_of_type(entry: &Value) -> Fault {
    check::<Text<'_>>(entry, "name", true)
        .or_else(|| unknown(entry, "", &["name", "requirements", "capacity", "overhead", "offerings"]))
        .or_else(|| in_list(entry, "requirements", "", fault_of_requirement))
        .or_else(|| fault_of_amounts(entry, "capacity", true))
        .or_else(|| fault_of_amounts(entry, "overhead", false))
        .or_else(|| in_list(entry, "offerings", "", fault_of_offering))
}

fn fault_of_amounts(entry: &Value, name: &str, is_required: bool) -> Fault {
    let amounts = entry.get(name).and_then(Value::as_object).into_iter().flatten();
    let one = |(resource, amount): (&String, &Value)| match amount {
        Value::String(_) | Value::Number(_) => None,
        other => Some((format!("{name}.{resource}"), format!("is {}, expected a quantity", kind_of(other)))),
    };
    amounts.filter_map(one).next().or_else(|| check::<Amounts<'_>>(entry, name, is_required))
}

fn fault_of_requirement(entry: &Value, path: &str) -> Fault {
    object(entry, path)
        .or_else(|| unknown(entry, path, &["key", "operator", "values"]))
        .or_else(|| inside(path, check::<Text<'_>>(entry, "key", true)))
        .or_else(|| inside(path, check::<Text<'_>>(entry, "operator", true)))
        .or_else(|| in_list(entry, "values", path, whole::<Text<'_>>))
        .or_else(|| whole::<RequirementEntry<'_>>(entry, path))
}

fn fault_of_offering(entry: &Value, path: &str) -> Fault {
    object(entry, path)
        .or_else(|| unknown(entry, path, &["requirements", "price", "available", "reservationCapacity"]))
        .or_else(|| in_list(entry, "requirements", path, fault_of_requirement))
        .or_else(|| inside(path, check::<Option<f64>>(entry, "price", false)))
        .or_else(|| inside(path, check::<bool>(entry, "available", false)))
        .or_else(|| inside(path, check::<u32>(entry, "reservationCapacity", false)))
        .or_else(|| whole::<OfferingEntry<'_>>(entry, path))
}

/// Returns an error for the first field of `entry` that is not in `known`.
fn unknown(entry: &Value, path: &str, known: &[&str]) -> Fault {
    let name = entry.as_object()?.keys().find(|name| !known.contains(&name.as_str()))?;
    let field = if path.is_empty() { name.clone() } else { format!("{path}.{name}") };
    let mut message = "is not a field of a catalogue".to_owned();
    if let Some(nearest) = nearest_of(known.iter().copied(), name) {
        message = format!("{message}, did you mean `{nearest}`?");
    }
    Some((field, message))
}

fn inside(path: &str, fault: Fault) -> Fault {
    fault.map(|(field, message)| (format!("{path}.{field}"), message))
}

fn object(entry: &Value, path: &str) -> Fault {
    (!entry.is_object()).then(|| (path.to_owned(), format!("is {}, expected an object", kind_of(entry))))
}

/// Checks the field `name` of `entry`.
fn check<'a, T: Deserialize<'a>>(entry: &'a Value, name: &str, is_required: bool) -> Fault {
    match entry.get(name) {
        Some(value) => whole::<T>(value, name),
        None if is_required => Some((name.to_owned(), "is missing".to_owned())),
        None => None,
    }
}

fn whole<'a, T: Deserialize<'a>>(value: &'a Value, path: &str) -> Fault {
    T::deserialize(value).err().map(|error| (path.to_owned(), in_words(&error.to_string())))
}

/// Replaces the names of Rust types in the decoder's messages.
fn in_words(message: &str) -> String {
    message
        .replace("expected f64", "expected a number")
        .replace("expected u32", "expected a whole number from 0 to 4294967295")
        .replace("floating point `", "`")
}

/// Returns the path of the JSON field that ends at the given line and column, both from 1:
/// `instanceTypes[3].offerings[0].price`.
fn path_at(text: &str, line: usize, column: usize) -> String {
    let before: usize = text.split_inclusive('\n').take(line.saturating_sub(1)).map(str::len).sum();
    let bytes = text.as_bytes();
    let end = (before + column).min(bytes.len());
    // The index for each open list, the last key for each open object.
    let mut open: Vec<String> = Vec::new();
    let mut lists: Vec<Option<usize>> = Vec::new();
    let (mut at, mut word) = (0, String::new());
    while at < end {
        match bytes[at] {
            b'"' => {
                let start = at + 1;
                at = start;
                while at < end && bytes[at] != b'"' {
                    at += if bytes[at] == b'\\' { 2 } else { 1 };
                }
                word = String::from_utf8_lossy(&bytes[start.min(end)..at.min(end)]).into_owned();
            }
            b'{' => {
                open.push(String::new());
                lists.push(None);
            }
            b'[' => {
                open.push("[0]".to_owned());
                lists.push(Some(0));
            }
            b'}' | b']' => {
                open.pop();
                lists.pop();
            }
            b':' => {
                if let Some(last) = open.last_mut() {
                    last.clone_from(&word);
                }
            }
            b',' => {
                if let (Some(Some(index)), Some(last)) = (lists.last_mut(), open.last_mut()) {
                    *index += 1;
                    *last = format!("[{index}]");
                }
            }
            _ => {}
        }
        at += 1;
    }
    let mut path = String::new();
    for step in open {
        if !path.is_empty() && !step.starts_with('[') {
            path.push('.');
        }
        path.push_str(&step);
    }
    path
}

fn in_list<'a>(entry: &'a Value, name: &str, parent: &str, fault: impl Fn(&'a Value, &str) -> Fault) -> Fault {
    let path = if parent.is_empty() { name.to_owned() } else { format!("{parent}.{name}") };
    match entry.get(name)? {
        Value::Array(items) => {
            items.iter().enumerate().find_map(|(index, item)| fault(item, &format!("{path}[{index}]")))
        }
        other => Some((path, format!("is {}, expected a list", kind_of(other)))),
    }
}
