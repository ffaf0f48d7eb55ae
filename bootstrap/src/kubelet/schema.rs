//! Documents held against a table of their fields: what nobody reads, and what has the wrong type.

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

/// A field that is not as the table has it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FieldFault {
    /// The way to it.
    pub path: String,
    /// The line in the document; 0 if unknown.
    pub line: usize,
    /// What is wrong.
    pub kind: FieldFaultKind,
}

/// What can be wrong with a field.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum FieldFaultKind {
    /// Nobody reads it.
    Unknown {
        /// The field beside it that it looks like.
        nearest: Option<String>,
    },
    /// Versions before or after this one read it.
    OtherVersion {
        /// The first version that reads it.
        from: Minor,
        /// The last one.
        to: Minor,
    },
    /// It holds something else.
    Type {
        /// What it should hold.
        wanted: &'static str,
        /// What it holds.
        found: &'static str,
    },
    /// It stands twice; the last one counts.
    Twice,
}

/// The fields of `KubeletConfiguration`.
pub static KUBELET: LazyLock<Schema> = LazyLock::new(|| Schema::new(include_str!("../../data/kubelet-fields.tsv")));
/// The fields of nodeadm's `NodeConfig`.
pub static NODE_CONFIG: LazyLock<Schema> =
    LazyLock::new(|| Schema::new(include_str!("../../data/nodeconfig-fields.tsv")));
/// The fields of the agent's own `AgentConfig`.
pub(crate) static AGENT_CONFIG: LazyLock<Schema> =
    LazyLock::new(|| Schema::new(include_str!("../../data/agentconfig-fields.tsv")));
/// The settings of Bottlerocket under `settings.kubernetes`.
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

    /// Everything in `tree` that differs from the table, in the order of the document.
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
            // In a path these are steps: a key that holds one is the name of no field.
            if key.contains(['.', '[', '{']) {
                faults.push(FieldFault { path: child, line: *line, kind: FieldFaultKind::Unknown { nearest: None } });
                continue;
            }
            self.check_field(value, *line, (&child, &child), version, faults);
        }
    }

    /// `path` is the way in the table, with its marks; `named` is the one in the document.
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
        // Lists and maps of anything are in the table with what they hold.
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

    /// Whether a field, wherever it stands, has this name.
    pub(crate) fn names(&self, name: &str) -> bool {
        self.fields.keys().any(|path| path.split(['.', '[', '{']).any(|step| step == name))
    }

    /// Whether a field at the top has this name.
    pub(crate) fn begins_with(&self, name: &str) -> bool {
        self.fields.keys().any(|path| path.split(['.', '[', '{']).next() == Some(name))
    }

    /// Whether the path, or anything below it, is in the table.
    pub(crate) fn has(&self, path: &str) -> bool {
        self.fields.range(path..).next().is_some_and(|(found, _)| found.starts_with(path))
    }

    /// The names of the fields right below `parent`.
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

/// Keys are compared with this many before them: a map that is longer is no configuration.
const MOST_COMPARED: usize = 1_000;

/// The way to a field without the marks of the table.
fn shown(path: &str) -> String {
    path.replace("[]", "").replace("{}", "")
}

/// What a field of the type should hold, if it holds something else. Numbers and text are told apart as Go's JSON does.
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
        // A number is a duration in nanoseconds to no decoder here: metav1.Duration takes text only.
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
