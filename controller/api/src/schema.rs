//! Schemas of embedded Kubernetes types, and post-processing of the schemas that `schemars` derives.

use std::borrow::Cow;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde_json::{Value, json};

use crate::patterns;

/// Number formats that the API server knows; it ignores the others that `schemars` writes.
const KNOWN_FORMATS: [&str; 3] = ["int32", "int64", "date-time"];

/// Stands for `Time` of Kubernetes in schemas.
pub(crate) struct DateTime;

impl JsonSchema for DateTime {
    fn schema_name() -> Cow<'static, str> {
        "DateTime".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({"type": "string", "format": "date-time"})
    }
}

/// Schema of a map from resource name to quantity.
pub(crate) fn quantities(_: &mut SchemaGenerator) -> Schema {
    json_schema!({
        "type": "object",
        "additionalProperties": {
            "anyOf": [{"type": "integer"}, {"type": "string"}],
            "pattern": patterns::QUANTITY,
            "x-kubernetes-int-or-string": true,
        },
    })
}

/// Schema of a list of node taints.
pub(crate) fn taints(_: &mut SchemaGenerator) -> Schema {
    json_schema!({
        "type": "array",
        "x-kubernetes-list-type": "atomic",
        "items": {
            "type": "object",
            "required": ["effect", "key"],
            "properties": {
                "key": {
                    "description": "Key of the taint.",
                    "type": "string",
                    "minLength": 1,
                    "pattern": patterns::QUALIFIED_NAME,
                },
                "value": {
                    "description": "Value of the taint, if it has one.",
                    "type": "string",
                    "pattern": patterns::QUALIFIED_NAME,
                },
                "effect": {
                    "description": "What happens to pods that do not tolerate the taint.",
                    "type": "string",
                    "enum": ["NoSchedule", "PreferNoSchedule", "NoExecute"],
                },
                "timeAdded": {
                    "description": "When the taint was added.",
                    "type": "string",
                    "format": "date-time",
                },
            },
        },
    })
}

/// Schema of a list of conditions with one entry per type.
pub(crate) fn conditions(generator: &mut SchemaGenerator) -> Schema {
    let mut list = unkeyed_conditions(generator);
    list.insert("x-kubernetes-list-type".to_owned(), "map".into());
    list.insert("x-kubernetes-list-map-keys".to_owned(), json!(["type"]));
    list
}

/// Schema of the conditions of an EC2NodeClass, whose CRD has never declared a list map key.
pub(crate) fn unkeyed_conditions(_: &mut SchemaGenerator) -> Schema {
    json_schema!({
        "type": "array",
        "items": {
            "type": "object",
            "required": ["lastTransitionTime", "message", "reason", "status", "type"],
            "properties": {
                "type": {
                    "description": "What is judged, in CamelCase.",
                    "type": "string",
                    "maxLength": 316,
                    "pattern": patterns::CONDITION_TYPE,
                },
                "status": {
                    "description": "The judgement.",
                    "type": "string",
                    "enum": ["True", "False", "Unknown"],
                },
                "reason": {
                    "description": "Why, in one CamelCase word.",
                    "type": "string",
                    "minLength": 1,
                    "maxLength": 1024,
                    "pattern": patterns::CONDITION_REASON,
                },
                "message": {
                    "description": "Why, for people.",
                    "type": "string",
                    "maxLength": 32768,
                },
                "lastTransitionTime": {
                    "description": "When the status last changed.",
                    "type": "string",
                    "format": "date-time",
                },
                "observedGeneration": {
                    "description": "Generation of the object that was judged.",
                    "type": "integer",
                    "format": "int64",
                    "minimum": 0,
                },
            },
        },
    })
}

/// Schema of the conditions of a NodeClaim, in which reason and message are optional.
pub(crate) fn claim_conditions(generator: &mut SchemaGenerator) -> Schema {
    let mut list = conditions(generator);
    set(&mut list, "/items/required", json!(["lastTransitionTime", "status", "type"]));
    set(&mut list, "/items/properties/reason/pattern", json!(patterns::OPTIONAL_CONDITION_REASON));
    remove(&mut list, "/items/properties/reason", "minLength");
    list
}

/// Replaces the value at `pointer`, if it exists.
pub(crate) fn set(schema: &mut Schema, pointer: &str, value: Value) {
    if let Some(place) = schema.pointer_mut(pointer) {
        *place = value;
    }
}

/// Removes `key` from the object at `pointer`.
pub(crate) fn remove(schema: &mut Schema, pointer: &str, key: &str) {
    if let Some(Value::Object(object)) = schema.pointer_mut(pointer) {
        object.remove(key);
    }
}

/// Converts a derived schema to Kubernetes conventions: an optional field is absent, never null.
pub(crate) fn tidy(schema: &mut Value) {
    let Value::Object(node) = schema else { return };
    node.remove("nullable");
    node.remove("title");
    if node.get("format").and_then(Value::as_str).is_some_and(|format| !KNOWN_FORMATS.contains(&format)) {
        node.remove("format");
    }
    if let Some(Value::Array(values)) = node.get_mut("enum") {
        values.retain(|value| !value.is_null());
    }
    // The derive omits what the extension implies, but tools that do not know the extension need it.
    if node.contains_key("x-kubernetes-int-or-string") {
        node.insert("anyOf".to_owned(), json!([{"type": "integer"}, {"type": "string"}]));
    }
    for key in ["properties", "patternProperties"] {
        if let Some(Value::Object(children)) = node.get_mut(key) {
            children.values_mut().for_each(tidy);
        }
    }
    for key in ["items", "additionalProperties"] {
        if let Some(child) = node.get_mut(key) {
            tidy(child);
        }
    }
}
