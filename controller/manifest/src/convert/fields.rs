//! Fields of an object in conversion: converters take them one by one, and the rest is noted.

use serde_json::{Map, Value};

use super::Note;

/// Fields of a map that are not taken yet, and its path.
pub(crate) struct Fields<'n> {
    object: String,
    path: String,
    rest: Map<String, Value>,
    notes: &'n mut Vec<Note>,
}

impl<'n> Fields<'n> {
    /// Returns the fields of a whole object.
    pub(crate) fn of(object: Value, notes: &'n mut Vec<Note>) -> Self {
        let text = |way: &str| object.pointer(way).and_then(Value::as_str).unwrap_or_default().to_owned();
        let name = format!("{} `{}`", text("/kind"), text("/metadata/name"));
        let rest = map(object);
        Self { object: name, path: String::new(), rest, notes }
    }

    /// Takes `apiVersion` and `kind`, and returns the version.
    pub(crate) fn version(&mut self) -> String {
        drop(self.take("kind"));
        self.text("apiVersion").unwrap_or_default()
    }

    /// Takes a field; `null` counts as absent.
    pub(crate) fn take(&mut self, key: &str) -> Option<Value> {
        self.rest.remove(key).filter(|value| !value.is_null())
    }

    /// Takes a text field. A field of another type stays, and is noted.
    pub(crate) fn text(&mut self, key: &str) -> Option<String> {
        let text = self.rest.get(key)?.as_str()?.to_owned();
        self.rest.remove(key);
        Some(text)
    }

    /// Takes a map field and returns its fields.
    pub(crate) fn inner(&mut self, key: &str) -> Fields<'_> {
        let is_map = self.rest.get(key).is_some_and(Value::is_object);
        let rest = if is_map { self.rest.remove(key).map(map).unwrap_or_default() } else { Map::new() };
        Fields { object: self.object.clone(), path: self.way(key), rest, notes: self.notes }
    }

    /// Inserts a field as if it had been in the input.
    pub(crate) fn put(&mut self, key: &str, value: Value) {
        self.rest.insert(key.to_owned(), value);
    }

    /// Takes all remaining fields.
    pub(crate) fn take_all(&mut self) -> Map<String, Value> {
        std::mem::take(&mut self.rest)
    }

    /// Adds a note on a field.
    pub(crate) fn note(&mut self, key: &str, message: impl Into<String>) {
        let field = if key.is_empty() { self.path.clone() } else { self.way(key) };
        self.notes.push(Note { object: self.object.clone(), field, message: message.into() });
    }

    /// Notes all fields that were not taken.
    pub(crate) fn finish(mut self) {
        for (key, value) in self.take_all() {
            if !value.is_null() {
                self.note(&key, "has no equivalent in v1, and is left out");
            }
        }
    }

    fn way(&self, key: &str) -> String {
        if self.path.is_empty() { key.to_owned() } else { format!("{}.{key}", self.path) }
    }
}

fn map(value: Value) -> Map<String, Value> {
    match value {
        Value::Object(map) => map,
        _ => Map::new(),
    }
}
