//! Lines of fields, found by parsing the source again when there is an error.

use std::collections::BTreeMap;

use serde::de::{Deserialize, Deserializer, MapAccess, SeqAccess, Visitor};
use serde_json::value::RawValue;
use serde_saphyr::Spanned;

use super::tree::Key;

/// Returns the line of the byte at offset `at`, from 1.
pub(crate) fn line_of(source: &str, at: usize) -> usize {
    source.as_bytes().get(..at).map_or(1, |before| 1 + before.iter().filter(|byte| **byte == b'\n').count())
}

/// Step of a path.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Step {
    Key(String),
    Index(usize),
}

/// Parses the paths that `Field` displays and the CRD validation reports (`spec.taints[0].key`, `limits["a.b/c"]`).
fn steps(path: &str) -> Vec<Step> {
    let mut steps = Vec::new();
    let mut rest = path;
    while !rest.is_empty() {
        if let Some(quoted) = rest.strip_prefix("[\"") {
            let Some((key, after)) = quoted.split_once("\"]") else { return steps };
            steps.push(Step::Key(key.to_owned()));
            rest = after;
        } else if let Some(bracket) = rest.strip_prefix('[') {
            let Some((index, after)) = bracket.split_once(']') else { return steps };
            steps.push(index.parse().map_or_else(|_| Step::Key(index.to_owned()), Step::Index));
            rest = after;
        } else {
            let name = rest.strip_prefix('.').unwrap_or(rest);
            let end = name.find(['.', '[']).unwrap_or(name.len());
            steps.push(Step::Key(name[..end].to_owned()));
            rest = &name[end..];
            if end == 0 && !rest.is_empty() && !rest.starts_with('[') {
                return steps;
            }
        }
    }
    steps
}

/// Returns the byte offset in `json` of the field at `path`, or of its nearest existing parent.
pub(crate) fn in_json(json: &str, path: &str) -> usize {
    let mut at = json;
    for step in steps(path) {
        let next = match step {
            Step::Key(key) => {
                serde_json::from_str::<BTreeMap<String, &RawValue>>(at).ok().and_then(|map| map.get(&key).copied())
            }
            Step::Index(index) => {
                serde_json::from_str::<Vec<&RawValue>>(at).ok().and_then(|list| list.get(index).copied())
            }
        };
        let Some(next) = next else { break };
        at = next.get();
    }
    offset_in(json, at)
}

/// Returns the offset of `part`, a slice of `whole`.
pub(crate) fn offset_in(whole: &str, part: &str) -> usize {
    (part.as_ptr() as usize).checked_sub(whole.as_ptr() as usize).filter(|at| *at <= whole.len()).unwrap_or(0)
}

/// Returns the line in `yaml`, from 1, of the field at `path` in item number `item` (if the document is a list), or of
/// its nearest existing parent.
pub(crate) fn in_yaml(yaml: &str, options: serde_saphyr::Options, item: Option<usize>, path: &str) -> Option<usize> {
    let root: Spanned<Node> = serde_saphyr::from_str_with_options(yaml, options).ok()?;
    let mut way = Vec::new();
    if let Some(item) = item {
        way.extend([Step::Key("items".to_owned()), Step::Index(item.saturating_sub(1))]);
    }
    way.extend(steps(path));
    let mut at = &root;
    for step in way {
        let next = match (&at.value, step) {
            (Node::Map(entries), Step::Key(key)) => {
                entries.iter().find(|(other, _)| *other == key).map(|(_, node)| node)
            }
            (Node::List(items), Step::Index(index)) => items.get(index),
            _ => None,
        };
        let Some(next) = next else { break };
        at = next;
    }
    usize::try_from(at.referenced.line()).ok().filter(|line| *line > 0)
}

/// Document of which only positions are kept.
#[derive(Debug)]
enum Node {
    Scalar,
    List(Vec<Spanned<Node>>),
    Map(Vec<(String, Spanned<Node>)>),
}

impl<'de> Deserialize<'de> for Node {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(NodeVisitor)
    }
}

struct NodeVisitor;

impl<'de> Visitor<'de> for NodeVisitor {
    type Value = Node;

    fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("a value")
    }

    fn visit_unit<E>(self) -> Result<Node, E> {
        Ok(Node::Scalar)
    }

    fn visit_none<E>(self) -> Result<Node, E> {
        Ok(Node::Scalar)
    }

    fn visit_bool<E>(self, _: bool) -> Result<Node, E> {
        Ok(Node::Scalar)
    }

    fn visit_i64<E>(self, _: i64) -> Result<Node, E> {
        Ok(Node::Scalar)
    }

    fn visit_u64<E>(self, _: u64) -> Result<Node, E> {
        Ok(Node::Scalar)
    }

    fn visit_f64<E>(self, _: f64) -> Result<Node, E> {
        Ok(Node::Scalar)
    }

    fn visit_str<E>(self, _: &str) -> Result<Node, E> {
        Ok(Node::Scalar)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Node, A::Error> {
        let mut list = Vec::new();
        while let Some(item) = items.next_element()? {
            list.push(item);
        }
        Ok(Node::List(list))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Node, A::Error> {
        let mut entries = Vec::new();
        while let Some(Key(key)) = map.next_key()? {
            entries.push((key.into_owned(), map.next_value()?));
        }
        Ok(Node::Map(entries))
    }
}
