//! A document as a tree of values with line numbers, independent of its language.

use serde::de::{Deserialize, Deserializer, Error as _, MapAccess, SeqAccess, Visitor};
use serde_json::{Map, Number, Value};
use serde_saphyr::Spanned;
use toml::de::{DeTable, DeValue};

use crate::place::{Lines, line_of};

/// A value and the line, from 1, at which it begins; 0 if unknown.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Tree {
    pub(crate) line: usize,
    pub(crate) node: Node,
}

/// Content of a value.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Node {
    /// A scalar.
    Scalar(Scalar),
    /// A list.
    List(Vec<Tree>),
    /// Keys with their lines and values, in document order. A duplicate key has two entries.
    Map(Vec<(String, usize, Tree)>),
}

/// A scalar value.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Scalar {
    Null,
    Bool(bool),
    Number(Number),
    Text(String),
}

/// Reason why a text cannot be parsed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct SyntaxFault {
    /// Line, from 1, if the parser reports it.
    pub(crate) line: Option<usize>,
    /// Message of the parser, on one line.
    pub(crate) reason: String,
}

impl Tree {
    /// Returns the value of `key`. For a duplicate key the last one is used, as in every decoder that accepts it. Null
    /// counts as absent.
    pub(crate) fn get(&self, key: &str) -> Option<&Self> {
        self.entry(key).map(|(_, value)| value)
    }

    /// Returns the line and the value of `key`.
    pub(crate) fn entry(&self, key: &str) -> Option<(usize, &Self)> {
        let (_, line, value) = self.entries().iter().rfind(|(other, ..)| other == key)?;
        (value.node != Node::Scalar(Scalar::Null)).then_some((*line, value))
    }

    /// Returns the value at the end of a path of keys.
    pub(crate) fn at(&self, way: &[&str]) -> Option<&Self> {
        way.iter().try_fold(self, |tree, key| tree.get(key))
    }

    /// Returns the entries of a map; empty for other values.
    pub(crate) fn entries(&self) -> &[(String, usize, Self)] {
        if let Node::Map(entries) = &self.node { entries } else { &[] }
    }

    /// Returns the items of a list; empty for other values.
    pub(crate) fn items(&self) -> &[Self] {
        if let Node::List(items) = &self.node { items } else { &[] }
    }

    /// Returns the string, if this is a string.
    pub(crate) fn text(&self) -> Option<&str> {
        if let Node::Scalar(Scalar::Text(text)) = &self.node { Some(text) } else { None }
    }

    /// Returns the boolean, if this is a boolean.
    pub(crate) fn boolean(&self) -> Option<bool> {
        if let Node::Scalar(Scalar::Bool(value)) = self.node { Some(value) } else { None }
    }

    /// Returns the integer, if this is an integer.
    pub(crate) fn integer(&self) -> Option<i64> {
        if let Node::Scalar(Scalar::Number(number)) = &self.node { number.as_i64() } else { None }
    }

    /// Returns true if this is a map.
    pub(crate) fn is_map(&self) -> bool {
        matches!(self.node, Node::Map(_))
    }

    /// Returns true if this is null or absent.
    pub(crate) fn is_null(&self) -> bool {
        self.node == Node::Scalar(Scalar::Null)
    }

    /// Describes the type, for messages.
    pub(crate) fn describe(&self) -> &'static str {
        match &self.node {
            Node::Scalar(Scalar::Null) => "nothing",
            Node::Scalar(Scalar::Bool(_)) => "a boolean",
            Node::Scalar(Scalar::Number(_)) => "a number",
            Node::Scalar(Scalar::Text(_)) => "text",
            Node::List(_) => "a list",
            Node::Map(_) => "a map",
        }
    }

    /// Converts the tree to JSON.
    pub(crate) fn to_json(&self) -> Value {
        match &self.node {
            Node::Scalar(Scalar::Null) => Value::Null,
            Node::Scalar(Scalar::Bool(value)) => Value::Bool(*value),
            Node::Scalar(Scalar::Number(number)) => Value::Number(number.clone()),
            Node::Scalar(Scalar::Text(text)) => Value::String(text.clone()),
            Node::List(items) => Value::Array(items.iter().map(Self::to_json).collect()),
            Node::Map(entries) => {
                Value::Object(entries.iter().map(|(key, _, value)| (key.clone(), value.to_json())).collect())
            }
        }
    }
}

// === YAML and JSON ===

/// Maximum nesting depth. No NodeConfig is nested deeper than this, and the parser is recursive: without optimization a
/// level uses 40 KB of stack, and threads have 2 MiB.
const DEEPEST: usize = 24;

/// Parses the first document of a YAML or JSON text.
pub(crate) fn yaml(text: &str) -> Result<Tree, SyntaxFault> {
    // Sufficient for any text of this size; only repeated aliases expand beyond it.
    let most = text.len().saturating_add(100_000);
    let options = serde_saphyr::options! {
        budget: serde_saphyr::budget! {
            max_events: most,
            max_nodes: most,
            max_total_scalar_bytes: most.saturating_mul(2),
            max_depth: DEEPEST,
            flow_nesting_limit: DEEPEST,
        },
        duplicate_keys: serde_saphyr::options::DuplicateKeyPolicy::PassThrough,
        // The readers on a node follow YAML 1.1: `yes` and `on` are booleans.
        strict_booleans: false,
    };
    let document = match second_document(text) {
        Some((at, _)) => &text[..at],
        None => text,
    };
    match serde_saphyr::from_str_with_options::<Spanned<Tree>>(document, options) {
        Ok(spanned) => Ok(spanned.value),
        Err(error) => {
            let line = error.location().and_then(|at| usize::try_from(at.line()).ok()).filter(|line| *line > 0);
            let text = error.without_snippet().to_string();
            let reason = text.lines().find(|line| !line.trim().is_empty()).unwrap_or("unreadable").trim();
            let reason = match reason.split(" at line ").next().unwrap_or(reason) {
                reason if reason.contains("Depth {") || reason.contains("recursion limit") => too_deep(),
                reason => reason.to_owned(),
            };
            Err(SyntaxFault { line, reason })
        }
    }
}

fn too_deep() -> String {
    format!("it is nested deeper than {DEEPEST} levels")
}

/// Returns the byte offset and the line, from 1, of a second document. The readers on a node use only the first one.
fn second_document(text: &str) -> Option<(usize, usize)> {
    let mut at = 0;
    let mut has_content = false;
    for (index, line) in text.split_inclusive('\n').enumerate() {
        let opens =
            line.strip_prefix("---").is_some_and(|rest| rest.is_empty() || rest.starts_with(char::is_whitespace));
        if opens && has_content {
            return Some((at, index + 1));
        }
        let trimmed = line.trim();
        has_content |= !opens && !trimmed.is_empty() && !trimmed.starts_with('#');
        at += line.len();
    }
    None
}

/// Returns the line, from 1, of a second document that has content.
pub(crate) fn ignored_document(text: &str) -> Option<usize> {
    let (at, line) = second_document(text)?;
    let lines = text.get(at..)?.lines().skip(1);
    lines.map(str::trim).any(|line| !line.is_empty() && !line.starts_with(['#', '-'])).then_some(line)
}

impl<'de> Deserialize<'de> for Tree {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Ok(Self { line: 0, node: deserializer.deserialize_any(NodeVisitor)? })
    }
}

struct NodeVisitor;

fn scalar<E>(scalar: Scalar) -> Result<Node, E> {
    Ok(Node::Scalar(scalar))
}

fn line(location: &serde_saphyr::Location) -> usize {
    usize::try_from(location.line()).unwrap_or_default()
}

impl<'de> Visitor<'de> for NodeVisitor {
    type Value = Node;

    fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("a value")
    }

    fn visit_unit<E>(self) -> Result<Node, E> {
        scalar(Scalar::Null)
    }

    fn visit_none<E>(self) -> Result<Node, E> {
        scalar(Scalar::Null)
    }

    fn visit_some<D: Deserializer<'de>>(self, deserializer: D) -> Result<Node, D::Error> {
        deserializer.deserialize_any(Self)
    }

    fn visit_bool<E>(self, value: bool) -> Result<Node, E> {
        scalar(Scalar::Bool(value))
    }

    fn visit_i64<E>(self, value: i64) -> Result<Node, E> {
        scalar(Scalar::Number(value.into()))
    }

    fn visit_u64<E>(self, value: u64) -> Result<Node, E> {
        scalar(Scalar::Number(value.into()))
    }

    fn visit_f64<E: serde::de::Error>(self, value: f64) -> Result<Node, E> {
        let number = Number::from_f64(value).ok_or_else(|| E::custom("a number is infinite or not a number"))?;
        scalar(Scalar::Number(number))
    }

    fn visit_str<E>(self, value: &str) -> Result<Node, E> {
        scalar(Scalar::Text(value.to_owned()))
    }

    fn visit_string<E>(self, value: String) -> Result<Node, E> {
        scalar(Scalar::Text(value))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Node, A::Error> {
        let mut list = Vec::new();
        while let Some(Spanned { mut value, referenced, .. }) = items.next_element::<Spanned<Tree>>()? {
            value.line = line(&referenced);
            list.push(value);
        }
        Ok(Node::List(list))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Node, A::Error> {
        let mut entries = Vec::new();
        while let Some(key) = map.next_key::<Spanned<Tree>>()? {
            let name = match key.value.node {
                Node::Scalar(Scalar::Text(text)) => text,
                Node::Scalar(Scalar::Null) => "null".to_owned(),
                Node::Scalar(Scalar::Bool(value)) => value.to_string(),
                Node::Scalar(Scalar::Number(number)) => number.to_string(),
                Node::List(_) | Node::Map(_) => return Err(A::Error::custom("a key is not text")),
            };
            let Spanned { mut value, referenced, .. } = map.next_value::<Spanned<Tree>>()?;
            value.line = line(&referenced);
            entries.push((name, line(&key.referenced), value));
        }
        Ok(Node::Map(entries))
    }
}

// === TOML ===

/// Parses a TOML document.
pub(crate) fn toml(text: &str) -> Result<Tree, SyntaxFault> {
    match DeTable::parse(text) {
        Ok(table) => Ok(Tree { line: 1, node: toml_table(&Lines::new(text), table.get_ref()) }),
        Err(error) => {
            let line = error.span().map(|span| line_of(text, span.start));
            let reason = match error.message().lines().next().unwrap_or("unreadable") {
                reason if reason.contains("recursion") => "it is nested too deep".to_owned(),
                reason => reason.to_owned(),
            };
            Err(SyntaxFault { line, reason })
        }
    }
}

fn toml_table(lines: &Lines, table: &DeTable<'_>) -> Node {
    let mut entries: Vec<_> = table
        .iter()
        .map(|(key, value)| {
            let line = lines.of(key.span().start);
            let tree = Tree { line: lines.of(value.span().start), node: toml_value(lines, value.get_ref()) };
            (key.get_ref().to_string(), line, tree)
        })
        .collect();
    entries.sort_by(|a, b| (a.1, &a.0).cmp(&(b.1, &b.0)));
    Node::Map(entries)
}

fn toml_value(lines: &Lines, value: &DeValue<'_>) -> Node {
    match value {
        DeValue::String(value) => Node::Scalar(Scalar::Text(value.to_string())),
        DeValue::Integer(value) => {
            let number = i64::from_str_radix(value.as_str(), value.radix()).ok().map(Number::from);
            number.map_or_else(|| Node::Scalar(Scalar::Text(value.to_string())), |it| Node::Scalar(Scalar::Number(it)))
        }
        DeValue::Float(value) => {
            let number = value.as_str().parse().ok().and_then(Number::from_f64);
            number.map_or_else(|| Node::Scalar(Scalar::Text(value.to_string())), |it| Node::Scalar(Scalar::Number(it)))
        }
        DeValue::Boolean(value) => Node::Scalar(Scalar::Bool(*value)),
        DeValue::Datetime(value) => Node::Scalar(Scalar::Text(value.to_string())),
        DeValue::Array(items) => Node::List(
            items
                .iter()
                .map(|item| Tree { line: lines.of(item.span().start), node: toml_value(lines, item.get_ref()) })
                .collect(),
        ),
        DeValue::Table(table) => toml_table(lines, table),
    }
}

/// Merges recursively, like every merge on a node: maps are merged, other values are replaced.
pub(crate) fn merge(base: &mut Value, over: Value) {
    match (base, over) {
        (Value::Object(base), Value::Object(over)) => {
            for (key, value) in over {
                merge(base.entry(key).or_insert(Value::Null), value);
            }
        }
        (base, over) => *base = over,
    }
}

/// Returns the fields of a JSON object; empty for other values.
pub(crate) fn object(value: Value) -> Map<String, Value> {
    if let Value::Object(fields) = value { fields } else { Map::new() }
}
