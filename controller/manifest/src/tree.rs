//! Document as an untyped tree of values.

use std::borrow::Cow;
use std::fmt;

use muster_bootstrap::is_printable;
use rustc_hash::FxHashSet;
use serde::de::{Deserialize, DeserializeSeed, Deserializer, Error as _, IgnoredAny, MapAccess, SeqAccess, Visitor};
use serde_json::Number;

/// Value of YAML or JSON. Text without escapes is borrowed from the source.
#[derive(Debug, Clone, PartialEq)]
pub enum Tree<'a> {
    /// `null`, or an empty value.
    Null,
    /// `true` or `false`.
    Bool(bool),
    /// A finite number.
    Number(Number),
    /// A text.
    Text(Cow<'a, str>),
    /// A list.
    List(Vec<Tree<'a>>),
    /// Keys and values in the order of the source, without duplicate keys.
    Map(Vec<(Cow<'a, str>, Tree<'a>)>),
}

/// Number of keys up to which pairwise comparison is faster than hashing.
const FEW_KEYS: usize = 16;

/// Prefix of the parsers' messages for duplicate keys, by which the reader distinguishes them from syntax errors.
pub(crate) const DUPLICATE_KEY: &str = "duplicate key";

impl<'a> Tree<'a> {
    /// Returns the value of `key`, if this is a map that has it; `null` counts as absent.
    pub fn get(&self, key: &str) -> Option<&Self> {
        let Self::Map(entries) = self else { return None };
        let (_, value) = entries.iter().find(|(other, _)| other == key)?;
        (*value != Self::Null).then_some(value)
    }

    /// Returns the text, if this is one.
    pub fn text(&self) -> Option<&str> {
        if let Self::Text(text) = self { Some(text) } else { None }
    }

    /// Describes the value for messages.
    pub(crate) fn describe(&self) -> String {
        match self {
            Self::Null => "nothing".to_owned(),
            Self::Bool(value) => format!("the boolean {value}"),
            Self::Number(value) => format!("the number {value}"),
            Self::Text(text) => format!("the text `{}`", shorten(text)),
            Self::List(_) => "a list".to_owned(),
            Self::Map(_) => "a map".to_owned(),
        }
    }

    /// Converts the tree to a `serde_json` value.
    pub fn to_json(&self) -> serde_json::Value {
        use serde_json::Value;
        match self {
            Self::Null => Value::Null,
            Self::Bool(value) => Value::Bool(*value),
            Self::Number(value) => Value::Number(value.clone()),
            Self::Text(text) => Value::String(text.to_string()),
            Self::List(items) => Value::Array(items.iter().map(Self::to_json).collect()),
            Self::Map(entries) => {
                Value::Object(entries.iter().map(|(key, value)| (key.to_string(), value.to_json())).collect())
            }
        }
    }
}

/// Returns the first 80 characters of a text, on one line.
pub fn shorten(text: &str) -> String {
    const LONGEST: usize = 80;
    let mut short: String =
        text.chars().take(LONGEST).map(|letter| if is_printable(letter) { letter } else { ' ' }).collect();
    if text.chars().nth(LONGEST).is_some() {
        short.push('…');
    }
    short
}

fn first_duplicate<'k>(keys: impl Iterator<Item = &'k str> + Clone, count: usize) -> Option<&'k str> {
    if count <= FEW_KEYS {
        let mut rest = keys;
        while let Some(key) = rest.next() {
            if rest.clone().any(|other| other == key) {
                return Some(key);
            }
        }
        return None;
    }
    let mut seen = FxHashSet::default();
    keys.into_iter().find(|key| !seen.insert(*key))
}

impl<'de> Deserialize<'de> for Tree<'de> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Trimmed(&[]).deserialize(deserializer)
    }
}

/// Key that is not read, or that contains such keys. For lists it applies to their items.
#[derive(Debug)]
pub struct Skip {
    key: &'static str,
    /// Keys to leave out below `key`; empty for all of it.
    below: &'static [Skip],
}

impl Skip {
    /// Leaves out `key`.
    pub const fn all(key: &'static str) -> Self {
        Self { key, below: &[] }
    }

    /// Leaves out the keys `below` those of `key`.
    pub const fn below(key: &'static str, below: &'static [Self]) -> Self {
        Self { key, below }
    }
}

/// Reads a tree without unused keys, which are most of a pod from an API server. They are only parsed, and use no
/// memory.
#[derive(Clone, Copy)]
pub struct Trimmed(pub &'static [Skip]);

impl<'de> DeserializeSeed<'de> for Trimmed {
    type Value = Tree<'de>;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Tree<'de>, D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Trimmed {
    type Value = Tree<'de>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a value")
    }

    fn visit_unit<E>(self) -> Result<Self::Value, E> {
        Ok(Tree::Null)
    }

    fn visit_none<E>(self) -> Result<Self::Value, E> {
        Ok(Tree::Null)
    }

    fn visit_some<D: Deserializer<'de>>(self, deserializer: D) -> Result<Self::Value, D::Error> {
        self.deserialize(deserializer)
    }

    fn visit_bool<E>(self, value: bool) -> Result<Self::Value, E> {
        Ok(Tree::Bool(value))
    }

    fn visit_i64<E>(self, value: i64) -> Result<Self::Value, E> {
        Ok(Tree::Number(value.into()))
    }

    fn visit_u64<E>(self, value: u64) -> Result<Self::Value, E> {
        Ok(Tree::Number(value.into()))
    }

    fn visit_f64<E: serde::de::Error>(self, value: f64) -> Result<Self::Value, E> {
        Number::from_f64(value).map(Tree::Number).ok_or_else(|| E::custom("a number is infinite or not a number"))
    }

    fn visit_borrowed_str<E>(self, value: &'de str) -> Result<Self::Value, E> {
        Ok(Tree::Text(Cow::Borrowed(value)))
    }

    fn visit_str<E>(self, value: &str) -> Result<Self::Value, E> {
        Ok(Tree::Text(Cow::Owned(value.to_owned())))
    }

    fn visit_string<E>(self, value: String) -> Result<Self::Value, E> {
        Ok(Tree::Text(Cow::Owned(value)))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Self::Value, A::Error> {
        let mut list = Vec::new();
        while let Some(item) = items.next_element_seed(self)? {
            list.push(item);
        }
        Ok(Tree::List(list))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
        // Few maps have more entries, and growing a vector in steps takes much of the time of reading one.
        let mut entries: Vec<(Cow<'de, str>, Tree<'de>)> = Vec::with_capacity(8);
        while let Some(Key(key)) = map.next_key()? {
            let skip = self.0.iter().find(|skip| skip.key == key);
            if skip.is_some_and(|skip| skip.below.is_empty()) {
                map.next_value::<IgnoredAny>()?;
                continue;
            }
            entries.push((key, map.next_value_seed(Self(skip.map_or(&[], |skip| skip.below)))?));
        }
        match first_duplicate(entries.iter().map(|(key, _)| &**key), entries.len()) {
            Some(key) => Err(A::Error::custom(format!("{DUPLICATE_KEY} `{}`", shorten(key)))),
            None => Ok(Tree::Map(entries)),
        }
    }
}

/// Key of a map: borrowed if the source has it verbatim (serde's own `Cow` never borrows).
pub(crate) struct Key<'a>(pub(crate) Cow<'a, str>);

impl<'de> Deserialize<'de> for Key<'de> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_str(KeyVisitor)
    }
}

struct KeyVisitor;

impl<'de> Visitor<'de> for KeyVisitor {
    type Value = Key<'de>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a key")
    }

    fn visit_borrowed_str<E>(self, value: &'de str) -> Result<Self::Value, E> {
        Ok(Key(Cow::Borrowed(value)))
    }

    fn visit_str<E>(self, value: &str) -> Result<Self::Value, E> {
        Ok(Key(Cow::Owned(value.to_owned())))
    }

    fn visit_string<E>(self, value: String) -> Result<Self::Value, E> {
        Ok(Key(Cow::Owned(value)))
    }
}
