//! Check of documents against a table of fields: unknown fields and wrong types.

use std::collections::BTreeMap;
use std::sync::LazyLock;

use super::flags::rows;
use super::version::Minor;
use crate::likeness;
use crate::tree::{Node, Scalar, Tree};

/// A table of fields.
#[derive(Debug)]
pub struct Schema {
    fields: BTreeMap<&'static str, Vec<(Minor, Minor, &'static str)>>,
}

/// A field that does not match the table.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FieldFault {
    /// Path of the field.
    pub path: String,
    /// Line in the document; 0 if unknown.
    pub line: usize,
    /// Kind of the fault.
    pub kind: FieldFaultKind,
}

/// Kind of a field fault.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum FieldFaultKind {
    /// The table does not have the field.
    Unknown {
        /// Sibling field with a similar name.
        nearest: Option<String>,
    },
    /// The field exists in other versions only.
    OtherVersion {
        /// First version with the field.
        from: Minor,
        /// Last version with the field.
        to: Minor,
    },
    /// The value has the wrong type.
    Type {
        /// Expected type.
        wanted: &'static str,
        /// Actual type.
        found: &'static str,
    },
    /// The field occurs twice; the last one takes effect.
    Twice,
}

/// Fields of `KubeletConfiguration`.
pub static KUBELET: LazyLock<Schema> = LazyLock::new(|| Schema::new(include_str!("../../data/kubelet-fields.tsv")));
/// Fields of nodeadm's `NodeConfig`.
pub static NODE_CONFIG: LazyLock<Schema> =
    LazyLock::new(|| Schema::new(include_str!("../../data/nodeconfig-fields.tsv")));
/// Fields of the agent's own `AgentConfig`.
pub(crate) static AGENT_CONFIG: LazyLock<Schema> =
    LazyLock::new(|| Schema::new(include_str!("../../data/agentconfig-fields.tsv")));
/// Bottlerocket settings under `settings.kubernetes`.
pub static BOTTLEROCKET: LazyLock<Schema> =
    LazyLock::new(|| Schema::new(include_str!("../../data/bottlerocket-fields.tsv")));

impl Schema {
    fn new(table: &'static str) -> Self {
        let mut fields: BTreeMap<&'static str, Vec<_>> = BTreeMap::new();
        for row in rows(table) {
            let [path, kind, ref versions @ ..] = row[..] else { continue };
            let bound =
                |index: usize, open: Minor| versions.get(index).and_then(|text| text.parse().ok()).map_or(open, Minor);
            fields.entry(path).or_default().push((bound(0, Minor(0)), bound(1, Minor(u8::MAX)), kind));
        }
        Self { fields }
    }

    /// Returns every difference between `tree` and the table, in document order.
    #[must_use]
    pub(crate) fn check(&self, tree: &Tree, version: Option<Minor>) -> Vec<FieldFault> {
        let mut faults = Vec::new();
        self.check_map(tree, "", version, &mut faults);
        faults
    }

    fn check_map(&self, tree: &Tree, path: &str, version: Option<Minor>, faults: &mut Vec<FieldFault>) {
        for (index, (key, line, value)) in tree.entries().iter().enumerate() {
            let child = if path.is_empty() { key.clone() } else { format!("{path}.{key}") };
            if tree.entries()[..index.min(MOST_COMPARED)].iter().any(|(other, ..)| other == key) {
                faults.push(FieldFault { path: child, line: *line, kind: FieldFaultKind::Twice });
                continue;
            }
            // These characters separate the steps of a path: a key with one of them is not a field name.
            if key.contains(['.', '[', '{']) {
                faults.push(FieldFault { path: child, line: *line, kind: FieldFaultKind::Unknown { nearest: None } });
                continue;
            }
            self.check_field(value, *line, (&child, &child), version, faults);
        }
    }

    /// Checks a field. `path` is the path in the table, with its marks; `named` is the path in the document.
    fn check_field(
        &self,
        value: &Tree,
        line: usize,
        (path, named): (&str, &str),
        version: Option<Minor>,
        faults: &mut Vec<FieldFault>,
    ) {
        let mut fault = |kind| faults.push(FieldFault { path: shown(named), line, kind });
        let wrong = |wanted| FieldFaultKind::Type { wanted, found: value.describe() };
        if let Some(rows) = self.fields.get(path) {
            let row = match version {
                Some(version) if version.is_known() => {
                    rows.iter().find(|(from, to, _)| (*from..=*to).contains(&version))
                }
                _ => rows.last(),
            };
            let Some((_, _, kind)) = row else {
                let (from, to) = (rows[0].0, rows[rows.len() - 1].1);
                return fault(FieldFaultKind::OtherVersion { from, to });
            };
            if value.is_null() {
                return;
            }
            if let Some(wanted) = mismatch(kind, value) {
                return fault(wrong(wanted));
            }
            if *kind == "object" {
                self.check_map(value, path, version, faults);
            }
            return;
        }
        // Lists and maps of any type are in the table with their element type.
        let (items, values) = (format!("{path}[]"), format!("{path}{{}}"));
        if self.has(&items) {
            match &value.node {
                Node::List(list) => {
                    list.iter().for_each(|item| self.check_field(item, item.line, (&items, named), version, faults))
                }
                _ if value.is_null() => {}
                _ => fault(wrong("a list")),
            }
        } else if self.has(&values) {
            match &value.node {
                Node::Map(entries) => {
                    for (index, (key, line, value)) in entries.iter().enumerate() {
                        if entries[..index.min(MOST_COMPARED)].iter().any(|(other, ..)| other == key) {
                            faults.push(FieldFault {
                                path: shown(&format!("{named}.{key}")),
                                line: *line,
                                kind: FieldFaultKind::Twice,
                            });
                        }
                        let named = format!("{named}.{key}");
                        self.check_field(value, *line, (&values, &named), version, faults);
                    }
                }
                _ if value.is_null() => {}
                _ => fault(wrong("a map")),
            }
        } else {
            let (parent, name) = path.rsplit_once('.').map_or(("", path), |(parent, name)| (parent, name));
            let nearest = likeness::nearest(name, self.beside(parent)).map(ToOwned::to_owned);
            fault(FieldFaultKind::Unknown { nearest });
        }
    }

    /// Returns true if a field at any level has this name.
    pub(crate) fn names(&self, name: &str) -> bool {
        self.fields.keys().any(|path| path.split(['.', '[', '{']).any(|step| step == name))
    }

    /// Returns true if a top-level field has this name.
    pub(crate) fn begins_with(&self, name: &str) -> bool {
        self.fields.keys().any(|path| path.split(['.', '[', '{']).next() == Some(name))
    }

    /// Returns true if the path, or a path below it, is in the table.
    pub(crate) fn has(&self, path: &str) -> bool {
        self.fields.range(path..).next().is_some_and(|(found, _)| found.starts_with(path))
    }

    /// Returns the names of the fields directly below `parent`.
    fn beside(&self, parent: &str) -> Vec<&'static str> {
        let inner = |path: &&'static str| {
            let rest = if parent.is_empty() { path } else { path.strip_prefix(parent)?.strip_prefix('.')? };
            let end = rest.find(['.', '[', '{']).unwrap_or(rest.len());
            Some(&rest[..end])
        };
        let mut names: Vec<_> = self.fields.keys().filter_map(inner).collect();
        names.dedup();
        names
    }
}

/// Number of preceding keys that a key is compared with. A longer map is not a configuration.
const MOST_COMPARED: usize = 1_000;

/// Returns a path without the marks of the table.
fn shown(path: &str) -> String {
    path.replace("[]", "").replace("{}", "")
}

/// Returns the expected type if the value has another one. Numbers and strings are distinguished like in Go's JSON
/// decoder.
fn mismatch(kind: &str, value: &Tree) -> Option<&'static str> {
    let is = match (kind, &value.node) {
        ("any", _) => true,
        ("object" | "quantities", Node::Map(_)) => true,
        ("taint", Node::Map(entries)) => entries.iter().all(|(key, _, value)| {
            let is_known = matches!(key.as_str(), "key" | "value" | "effect" | "timeAdded");
            !is_known || value.text().is_some() || value.is_null()
        }),
        ("bool", Node::Scalar(Scalar::Bool(_))) => true,
        ("int", Node::Scalar(Scalar::Number(number))) => number.is_i64() || number.is_u64(),
        ("number", Node::Scalar(Scalar::Number(_))) => true,
        ("string", Node::Scalar(Scalar::Text(_))) => true,
        // A number is not a duration in nanoseconds: metav1.Duration accepts only a string.
        ("duration", Node::Scalar(Scalar::Text(text))) => super::config::duration(text).is_some(),
        ("quantity", Node::Scalar(Scalar::Text(_) | Scalar::Number(_))) => true,
        ("intOrString", Node::Scalar(Scalar::Text(_) | Scalar::Number(_))) => true,
        _ => false,
    };
    let wanted = match kind {
        "object" | "quantities" => "a map",
        "taint" => "a map of the texts `key`, `value` and `effect`",
        "bool" => "true or false",
        "int" => "a whole number",
        "number" => "a number",
        "duration" => "a duration such as `1m30s`",
        "quantity" => "a quantity",
        "intOrString" => "a number or text",
        _ => "text",
    };
    (!is).then_some(wanted)
}
