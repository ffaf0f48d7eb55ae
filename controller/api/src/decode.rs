//! Decoding of JSON trees into types, with the path of the field that does not fit.
//!
//! One deserializer for all: the types of Kubernetes are large, and the compiler makes a copy of their code for each
//! deserializer that reads them.

use std::cell::RefCell;
use std::fmt::Write as _;

use serde::Deserialize;
use serde::de::value::BorrowedStrDeserializer;
use serde::de::{self, DeserializeOwned, DeserializeSeed, Deserializer, MapAccess, SeqAccess, Unexpected, Visitor};
use serde::forward_to_deserialize_any;
use serde_json::{Error, Map, Value, map};

/// A tree that is not of the type.
#[derive(Debug, thiserror::Error)]
#[error("{error}")]
pub struct DecodeError {
    /// The field at which decoding failed, such as `spec.taints[0].key`; empty for the tree itself.
    pub path: String,
    /// Why.
    #[source]
    pub error: Error,
}

/// Decodes a tree.
///
/// # Errors
/// Fails at the first field that is not of its type.
///
/// # Examples
/// ```
/// use k8s_openapi::api::core::v1::Taint;
///
/// let error = muster_api::decode::<Taint>(&serde_json::json!({"effect": 1})).unwrap_err();
/// assert_eq!(error.path, "effect");
/// assert_eq!(error.to_string(), "invalid type: integer `1`, expected a string");
/// ```
pub fn decode<T: DeserializeOwned>(tree: &Value) -> Result<T, DecodeError> {
    let fault = RefCell::new(None);
    T::deserialize(Tree { value: tree, at: Step::Root, fault: &fault })
        .map_err(|error| DecodeError { path: fault.take().unwrap_or_default(), error })
}

// === impl DecodeError ===

impl From<DecodeError> for Error {
    fn from(error: DecodeError) -> Self {
        error.error
    }
}

/// Where a tree is in its root.
#[derive(Debug, Clone, Copy)]
enum Step<'a> {
    Root,
    Field(&'a Self, &'a str),
    Item(&'a Self, usize),
}

/// A tree, or a part of one.
#[derive(Debug, Clone, Copy)]
struct Tree<'de, 'a> {
    value: &'de Value,
    at: Step<'a>,
    /// The path of the innermost part that failed.
    fault: &'a RefCell<Option<String>>,
}

/// The items of an array.
struct Items<'de, 'a> {
    items: std::slice::Iter<'de, Value>,
    index: usize,
    within: Tree<'de, 'a>,
}

/// The fields of an object.
struct Fields<'de, 'a> {
    fields: map::Iter<'de>,
    field: Option<(&'de str, &'de Value)>,
    within: Tree<'de, 'a>,
}

/// The name of a field.
struct Name<'de>(&'de str);

// === impl Step ===

impl Step<'_> {
    fn write(&self, path: &mut String) {
        match *self {
            Self::Root => {}
            Self::Field(parent, name) => {
                parent.write(path);
                if !path.is_empty() {
                    path.push('.');
                }
                path.push_str(name);
            }
            Self::Item(parent, index) => {
                parent.write(path);
                let _infallible = write!(path, "[{index}]");
            }
        }
    }
}

// === impl Tree ===

impl<'de> Tree<'de, '_> {
    fn decoded<S: DeserializeSeed<'de>>(self, seed: S) -> Result<S::Value, Error> {
        seed.deserialize(self).inspect_err(|_| self.note())
    }

    fn note(&self) {
        let mut fault = self.fault.borrow_mut();
        if fault.is_none() {
            let mut path = String::new();
            self.at.write(&mut path);
            *fault = Some(path);
        }
    }

    fn array<V: Visitor<'de>>(self, items: &'de [Value], visitor: V) -> Result<V::Value, Error> {
        let mut access = Items { items: items.iter(), index: 0, within: self };
        let decoded = visitor.visit_seq(&mut access)?;
        if access.items.len() > 0 {
            return Err(de::Error::invalid_length(items.len(), &"fewer elements in array"));
        }
        Ok(decoded)
    }

    fn object<V: Visitor<'de>>(self, fields: &'de Map<String, Value>, visitor: V) -> Result<V::Value, Error> {
        let mut access = Fields { fields: fields.iter(), field: None, within: self };
        let decoded = visitor.visit_map(&mut access)?;
        if access.fields.len() > 0 {
            return Err(de::Error::invalid_length(fields.len(), &"fewer elements in map"));
        }
        Ok(decoded)
    }

    fn unfit<V: Visitor<'de>>(self, visitor: &V) -> Error {
        let found = match self.value {
            Value::Null => Unexpected::Unit,
            Value::Bool(flag) => Unexpected::Bool(*flag),
            Value::Number(number) => match (number.as_u64(), number.as_i64(), number.as_f64()) {
                (Some(number), ..) => Unexpected::Unsigned(number),
                (_, Some(number), _) => Unexpected::Signed(number),
                (.., Some(number)) => Unexpected::Float(number),
                _ => Unexpected::Other("number"),
            },
            Value::String(text) => Unexpected::Str(text),
            Value::Array(_) => Unexpected::Seq,
            Value::Object(_) => Unexpected::Map,
        };
        de::Error::invalid_type(found, visitor)
    }
}

/// Values without parts are read as `serde_json` reads them.
macro_rules! as_json {
    ($($method:ident)*) => {$(
        fn $method<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
            self.value.$method(visitor)
        }
    )*};
}

impl<'de> Deserializer<'de> for Tree<'de, '_> {
    type Error = Error;

    fn deserialize_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        match self.value {
            Value::Null => visitor.visit_unit(),
            Value::Bool(flag) => visitor.visit_bool(*flag),
            Value::Number(number) => number.deserialize_any(visitor),
            Value::String(text) => visitor.visit_borrowed_str(text),
            Value::Array(items) => self.array(items, visitor),
            Value::Object(fields) => self.object(fields, visitor),
        }
    }

    as_json! {
        deserialize_bool deserialize_i8 deserialize_i16 deserialize_i32 deserialize_i64 deserialize_i128 deserialize_u8
        deserialize_u16 deserialize_u32 deserialize_u64 deserialize_u128 deserialize_f32 deserialize_f64 deserialize_char
        deserialize_str deserialize_string deserialize_bytes deserialize_byte_buf deserialize_unit deserialize_identifier
        deserialize_ignored_any
    }

    fn deserialize_option<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        match self.value {
            Value::Null => visitor.visit_none(),
            _ => visitor.visit_some(self),
        }
    }

    fn deserialize_unit_struct<V: Visitor<'de>>(self, name: &'static str, visitor: V) -> Result<V::Value, Error> {
        self.value.deserialize_unit_struct(name, visitor)
    }

    fn deserialize_newtype_struct<V: Visitor<'de>>(self, _: &'static str, visitor: V) -> Result<V::Value, Error> {
        visitor.visit_newtype_struct(self)
    }

    fn deserialize_seq<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        match self.value {
            Value::Array(items) => self.array(items, visitor),
            _ => Err(self.unfit(&visitor)),
        }
    }

    fn deserialize_tuple<V: Visitor<'de>>(self, _: usize, visitor: V) -> Result<V::Value, Error> {
        self.deserialize_seq(visitor)
    }

    fn deserialize_tuple_struct<V: Visitor<'de>>(
        self,
        _: &'static str,
        _: usize,
        visitor: V,
    ) -> Result<V::Value, Error> {
        self.deserialize_seq(visitor)
    }

    fn deserialize_map<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        match self.value {
            Value::Object(fields) => self.object(fields, visitor),
            _ => Err(self.unfit(&visitor)),
        }
    }

    fn deserialize_struct<V: Visitor<'de>>(
        self,
        _: &'static str,
        _: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, Error> {
        match self.value {
            Value::Array(items) => self.array(items, visitor),
            Value::Object(fields) => self.object(fields, visitor),
            _ => Err(self.unfit(&visitor)),
        }
    }

    fn deserialize_enum<V: Visitor<'de>>(
        self,
        name: &'static str,
        variants: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, Error> {
        self.value.deserialize_enum(name, variants, visitor)
    }
}

// === impl Items ===

impl<'de> SeqAccess<'de> for &mut Items<'de, '_> {
    type Error = Error;

    fn next_element_seed<S: DeserializeSeed<'de>>(&mut self, seed: S) -> Result<Option<S::Value>, Error> {
        let Some(value) = self.items.next() else { return Ok(None) };
        let at = Step::Item(&self.within.at, self.index);
        self.index += 1;
        Tree { value, at, fault: self.within.fault }.decoded(seed).map(Some)
    }

    fn size_hint(&self) -> Option<usize> {
        Some(self.items.len())
    }
}

// === impl Fields ===

impl<'de> MapAccess<'de> for &mut Fields<'de, '_> {
    type Error = Error;

    fn next_key_seed<S: DeserializeSeed<'de>>(&mut self, seed: S) -> Result<Option<S::Value>, Error> {
        let Some((name, value)) = self.fields.next() else { return Ok(None) };
        self.field = Some((name, value));
        let at = Step::Field(&self.within.at, name);
        let name = seed.deserialize(Name(name)).inspect_err(|_| Tree { value, at, ..self.within }.note())?;
        Ok(Some(name))
    }

    fn next_value_seed<S: DeserializeSeed<'de>>(&mut self, seed: S) -> Result<S::Value, Error> {
        let Some((name, value)) = self.field.take() else { return Err(de::Error::custom("value is missing")) };
        let at = Step::Field(&self.within.at, name);
        Tree { value, at, fault: self.within.fault }.decoded(seed)
    }

    fn size_hint(&self) -> Option<usize> {
        Some(self.fields.len())
    }
}

// === impl Name ===

impl<'de> Deserializer<'de> for Name<'de> {
    type Error = Error;

    fn deserialize_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        visitor.visit_borrowed_str(self.0)
    }

    fn deserialize_newtype_struct<V: Visitor<'de>>(self, _: &'static str, visitor: V) -> Result<V::Value, Error> {
        visitor.visit_newtype_struct(self)
    }

    fn deserialize_enum<V: Visitor<'de>>(
        self,
        _: &'static str,
        _: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, Error> {
        visitor.visit_enum(BorrowedStrDeserializer::new(self.0))
    }

    forward_to_deserialize_any! {
        bool i8 i16 i32 i64 i128 u8 u16 u32 u64 u128 f32 f64 char str string bytes byte_buf option unit unit_struct seq
        tuple tuple_struct map struct identifier ignored_any
    }
}

#[cfg(test)]
mod tests {
    use k8s_openapi::api::core::v1::Pod;
    use serde_json::json;

    use super::*;
    use crate::NodePool;

    #[test]
    fn fails_as_serde_json_does() {
        let cases = [
            (json!([]), ""),
            (json!({"spec": {"containers": {}}}), "spec.containers"),
            (json!({"spec": {"containers": [{"name": "a"}, 1]}}), "spec.containers[1]"),
            (
                json!({"spec": {"containers": [{"name": "a", "ports": [{"containerPort": "x"}]}]}}),
                "spec.containers[0].ports[0].containerPort",
            ),
            (json!({"spec": {"nodeSelector": {"a/b": 1.5}}}), "spec.nodeSelector.a/b"),
            (json!({"spec": {"priority": -3_000_000_000_i64}}), "spec.priority"),
            (json!({"spec": {"hostNetwork": "no"}}), "spec.hostNetwork"),
            (json!({"metadata": {"creationTimestamp": "yesterday"}}), "metadata.creationTimestamp"),
        ];
        for (tree, path) in cases {
            let error = decode::<Pod>(&tree).unwrap_err();
            assert_eq!(error.path, path);
            assert_eq!(error.to_string(), serde_json::from_value::<Pod>(tree).unwrap_err().to_string());
        }
    }

    #[test]
    fn names_the_field_with_an_unknown_word() {
        let spec = json!({"template": {"spec": {
            "nodeClassRef": {"group": "g", "kind": "k", "name": "n"},
            "requirements": [{"key": "a", "operator": "Near"}],
        }}});
        let error = decode::<NodePool>(&json!({"metadata": {}, "spec": spec})).unwrap_err();
        assert_eq!(error.path, "spec.template.spec.requirements[0].operator");
    }

    #[test]
    fn decodes_what_serde_json_decodes() {
        let tree = json!({
            "metadata": {"name": "a", "labels": {"b": "c"}, "creationTimestamp": "2026-01-02T03:04:05Z"},
            "spec": {
                "containers": [{"name": "a", "resources": {"requests": {"cpu": 1, "memory": "1Gi"}}}],
                "tolerations": [{"operator": "Exists", "tolerationSeconds": 3}],
                "hostNetwork": null,
            },
        });
        assert_eq!(decode::<Pod>(&tree).unwrap(), serde_json::from_value(tree).unwrap());
    }
}
