//! Value of a document with its path, for error messages.

use std::borrow::Cow;
use std::cell::RefCell;
use std::fmt;
use std::sync::Arc;

use muster_api::likeness::nearest_of;
use muster_aws::quantity::{self, QuantityError};
use muster_scheduling::model::{Labels, Resource, Resources};

use super::tree::{Tree, shorten};

/// Error in a field of an object.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Fault {
    /// Path of the field (`spec.containers[0].name`).
    pub path: String,
    /// Problem.
    pub problem: String,
    /// Hint.
    pub hint: String,
}

/// Result of decoding. Faults are rare and large, so they are boxed.
pub type Decoded<T> = Result<T, Box<Fault>>;

/// Unknown fields, found while decoding one object.
#[derive(Debug, Default)]
pub struct Unknown {
    fields: RefCell<Vec<UnknownField>>,
    is_unasked: bool,
}

/// Unknown field.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UnknownField {
    /// Path of the field.
    pub path: String,
    /// Most similar known name.
    pub nearest: Option<Cow<'static, str>>,
}

impl Unknown {
    /// Does not collect unknown fields: an API server has accepted them, and looking for them takes much of the time.
    pub fn unasked() -> Self {
        Self { is_unasked: true, ..Self::default() }
    }

    /// Returns all unknown fields.
    pub(crate) fn into_fields(self) -> Vec<UnknownField> {
        self.fields.into_inner()
    }
}

/// Value and its path. It lives on the decoder's stack, next to its parents.
#[derive(Clone, Copy)]
pub struct Field<'p> {
    tree: &'p Tree<'p>,
    step: Step<'p>,
    parent: Option<&'p Field<'p>>,
    unknown: &'p Unknown,
}

#[derive(Clone, Copy)]
enum Step<'p> {
    Root,
    Key(&'p str),
    Index(usize),
}

impl<'p> Field<'p> {
    /// Returns the field of the object itself.
    pub fn root(tree: &'p Tree<'p>, unknown: &'p Unknown) -> Self {
        Self { tree, step: Step::Root, parent: None, unknown }
    }

    /// Returns the raw value.
    pub(crate) fn tree(&self) -> &'p Tree<'p> {
        self.tree
    }

    /// Returns a fault of this field.
    pub fn fault(&self, problem: impl Into<String>, hint: impl Into<String>) -> Box<Fault> {
        Box::new(Fault { path: self.to_string(), problem: problem.into(), hint: hint.into() })
    }

    /// Returns a fault of the child `key`, which may be absent.
    pub fn fault_at(&self, key: &str, problem: impl Into<String>, hint: impl Into<String>) -> Box<Fault> {
        let child = Field { tree: &Tree::Null, step: Step::Key(key), parent: Some(self), unknown: self.unknown };
        child.fault(problem, hint)
    }

    fn wrong_type(&self, wanted: &str) -> Box<Fault> {
        let quote = match self.tree {
            Tree::Number(_) | Tree::Bool(_) if wanted == "text" => "put the value in quotes".to_owned(),
            _ => format!("write {wanted} here"),
        };
        self.fault(format!("must be {wanted}, not {}", self.tree.describe()), quote)
    }

    /// Returns the child `key`; `null` counts as absent.
    ///
    /// # Errors
    /// This is not a map.
    pub fn get<'s>(&'s self, key: &'s str) -> Decoded<Option<Field<'s>>> {
        if !matches!(self.tree, Tree::Map(_)) {
            return Err(self.wrong_type("a map"));
        }
        Ok(self.tree.get(key).map(|tree| Field {
            tree,
            step: Step::Key(key),
            parent: Some(self),
            unknown: self.unknown,
        }))
    }

    /// Returns the child `key`, which is required.
    pub fn require<'s>(&'s self, key: &'s str) -> Decoded<Field<'s>> {
        self.get(key)?.ok_or_else(|| self.fault_at(key, "is missing", format!("add `{key}`")))
    }

    /// Reads the child `key`, if present.
    pub fn read<T>(&self, key: &str, read: impl FnOnce(Field<'_>) -> Decoded<T>) -> Decoded<Option<T>> {
        self.get(key)?.map(read).transpose()
    }

    /// Reads the child `key`, or returns the default.
    pub(crate) fn read_or_default<T: Default>(
        &self,
        key: &str,
        read: impl FnOnce(Field<'_>) -> Decoded<T>,
    ) -> Decoded<T> {
        Ok(self.read(key, read)?.unwrap_or_default())
    }

    /// Reads every item of a list.
    pub(crate) fn items<T>(&self, mut read: impl FnMut(Field<'_>) -> Decoded<T>) -> Decoded<Vec<T>> {
        let Tree::List(items) = self.tree else { return Err(self.wrong_type("a list")) };
        let mut all = Vec::with_capacity(items.len());
        for (index, tree) in items.iter().enumerate() {
            all.push(read(Field { tree, step: Step::Index(index), parent: Some(self), unknown: self.unknown })?);
        }
        Ok(all)
    }

    /// Reads every item of the list `key`; an absent list is empty.
    pub fn list<T>(&self, key: &str, read: impl FnMut(Field<'_>) -> Decoded<T>) -> Decoded<Vec<T>> {
        self.read_or_default(key, |list| list.items(read))
    }

    /// Returns every key of a map with its field.
    pub fn entries<'s>(&'s self) -> Decoded<Vec<(&'s str, Field<'s>)>> {
        let Tree::Map(entries) = self.tree else { return Err(self.wrong_type("a map")) };
        let child =
            |key: &'s str, tree| Field { tree, step: Step::Key(key), parent: Some(self), unknown: self.unknown };
        Ok(entries.iter().map(|(key, tree)| (&**key, child(key, tree))).collect())
    }

    /// Returns the value as JSON.
    pub fn json(&self) -> serde_json::Value {
        self.tree.to_json()
    }

    /// Reads a text.
    pub fn text(&self) -> Decoded<&'p str> {
        self.tree.text().ok_or_else(|| self.wrong_type("text"))
    }

    /// Reads a text as `Arc<str>`.
    pub(crate) fn shared(&self) -> Decoded<Arc<str>> {
        self.text().map(Arc::from)
    }

    /// Reads the text of `key` as `Arc<str>`; absent or empty is `None`.
    pub(crate) fn shared_at(&self, key: &str) -> Decoded<Option<Arc<str>>> {
        Ok(self.read(key, |field| field.shared())?.filter(|text| !text.is_empty()))
    }

    /// Reads a boolean.
    pub fn boolean(&self) -> Decoded<bool> {
        if let Tree::Bool(value) = self.tree { Ok(*value) } else { Err(self.wrong_type("true or false")) }
    }

    /// Reads a whole number from `least` to `most`.
    pub(crate) fn integer(&self, least: i64, most: i64) -> Decoded<i64> {
        let Tree::Number(number) = self.tree else { return Err(self.wrong_type("a whole number")) };
        let value = number.as_i64().filter(|value| (least..=most).contains(value));
        value.ok_or_else(|| {
            let range = format!("write a whole number from {least} to {most}");
            self.fault(format!("`{number}` is out of range"), range)
        })
    }

    /// Reads a whole number that fits an `i32`.
    pub(crate) fn int32(&self) -> Decoded<i32> {
        let value = self.integer(i32::MIN.into(), i32::MAX.into())?;
        Ok(i32::try_from(value).unwrap_or_default())
    }

    /// Reads a whole number of at least zero that fits an `i32`.
    pub fn count(&self) -> Decoded<u32> {
        let value = self.integer(0, i32::MAX.into())?;
        Ok(u32::try_from(value).unwrap_or_default())
    }

    /// Reads a number of pods or nodes. Each is held in memory, and the limit is above any cluster.
    pub fn crowd(&self) -> Decoded<u32> {
        const MOST: i64 = 200_000;
        Ok(u32::try_from(self.integer(0, MOST)?).unwrap_or_default())
    }

    /// Reads an amount of `resource`.
    pub(crate) fn quantity(&self, resource: &Resource) -> Decoded<i64> {
        let number;
        let text = match self.tree {
            Tree::Text(text) => &**text,
            Tree::Number(value) => {
                number = value.to_string();
                &number
            }
            _ => return Err(self.wrong_type("a quantity")),
        };
        let amount = quantity::parse(resource, text).map_err(|error| match error {
            QuantityError::Negative => {
                self.fault(format!("quantity `{}` is negative", shorten(text)), "write an amount of zero or more")
            }
            QuantityError::Malformed => self.fault(
                format!("`{}` is not a quantity", shorten(text)),
                "write a number with an optional suffix, such as `500m`, `2`, `1.5Gi` or `10M`",
            ),
        })?;
        // The API server accepts huge quantities. Those of live objects and of statuses are accepted too, as the
        // largest amount that can be counted.
        if amount == i64::MAX && !self.unknown.is_unasked && !self.to_string().starts_with("status.") {
            let most = if *resource == Resource::Cpu { "9e15" } else { "9e18" };
            let hint = format!(
                "write what is meant, at most `{most}`; where a limit is meant that limits nothing, leave it out"
            );
            return Err(self.fault(format!("quantity `{}` is more than can be counted", shorten(text)), hint));
        }
        Ok(amount)
    }

    /// Reads amounts by resource.
    pub(crate) fn quantities(&self) -> Decoded<Resources> {
        let mut amounts = Resources::new();
        for (name, field) in self.entries()? {
            let resource = Resource::new(name);
            let amount = field.quantity(&resource)?;
            amounts.set(resource, amount);
        }
        Ok(amounts)
    }

    /// Reads labels or annotations.
    pub(crate) fn labels(&self) -> Decoded<Labels> {
        let mut labels = Labels::default();
        for (key, field) in self.entries()? {
            if *field.tree == Tree::Null {
                labels.set(key, "");
            } else {
                labels.set(key, field.text()?);
            }
        }
        Ok(labels)
    }

    /// Records the keys that are not in `known`.
    pub(crate) fn only(&self, known: &'static [&'static str]) {
        let Tree::Map(entries) = self.tree else { return };
        if self.unknown.is_unasked {
            return;
        }
        for (key, tree) in entries.iter().filter(|(key, _)| !known.contains(&&**key)) {
            let child = Field { tree, step: Step::Key(key), parent: Some(self), unknown: self.unknown };
            let found = UnknownField {
                path: child.to_string(),
                nearest: nearest_of(known.iter().copied(), key).map(Cow::Borrowed),
            };
            self.unknown.fields.borrow_mut().push(found);
        }
    }
}

impl fmt::Display for Field<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(parent) = self.parent {
            parent.fmt(f)?;
        }
        match self.step {
            Step::Root => Ok(()),
            Step::Index(index) => write!(f, "[{index}]"),
            Step::Key(key) => {
                // Keys that are names of resources or labels contain dots, which would look like path separators.
                let plain = !key.is_empty() && key.bytes().all(|byte| byte.is_ascii_alphanumeric());
                let nested = self.parent.is_some_and(|parent| !matches!(parent.step, Step::Root));
                match (plain, nested) {
                    (true, true) => write!(f, ".{key}"),
                    (true, false) => f.write_str(key),
                    (false, _) => write!(f, "[\"{}\"]", shorten(key)),
                }
            }
        }
    }
}
