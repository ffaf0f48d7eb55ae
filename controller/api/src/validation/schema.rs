//! CRD schemas, compiled once for validation.

use std::collections::BTreeMap;

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::{
    CustomResourceDefinition, JSONSchemaProps, JSONSchemaPropsOrArray, JSONSchemaPropsOrBool,
};
use regex::Regex;
use serde_json::Value;

use super::rule::CompiledRule;

/// Schema of a kind.
#[derive(Debug)]
pub(super) struct KindSchema {
    /// True if objects of the kind are namespaced.
    pub(super) is_namespaced: bool,
    /// Schema of the whole object.
    pub(super) root: Node,
}

/// Schema of a value.
#[derive(Debug, Default)]
pub(super) struct Node {
    pub(super) kind: Option<NodeType>,
    pub(super) properties: BTreeMap<String, Node>,
    pub(super) additional: Option<Box<Node>>,
    /// True if fields that the schema does not know are kept.
    pub(super) is_open: bool,
    pub(super) items: Option<Box<Node>>,
    pub(super) required: Vec<String>,
    pub(super) default: Option<Value>,
    pub(super) choices: Vec<Value>,
    pub(super) pattern: Option<Pattern>,
    pub(super) is_date_time: bool,
    pub(super) minimum: Option<f64>,
    pub(super) maximum: Option<f64>,
    pub(super) length: Bounds,
    pub(super) items_count: Bounds,
    pub(super) properties_count: Bounds,
    pub(super) list_type: ListType,
    pub(super) rules: Vec<CompiledRule>,
}

/// JSON type of a value.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum NodeType {
    Object,
    Array,
    String,
    Boolean,
    Number,
    /// Signed, with 32 or 64 bits.
    Integer {
        is_short: bool,
    },
    IntOrString,
}

/// Inclusive minimum and maximum.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Bounds {
    pub(super) min: Option<i64>,
    pub(super) max: Option<i64>,
}

/// A regular expression, as text and compiled.
#[derive(Debug)]
pub(super) struct Pattern {
    pub(super) text: String,
    /// `None` if it does not compile, which a test excludes.
    pub(super) regex: Option<Regex>,
}

/// Uniqueness constraint on the entries of a list.
#[derive(Debug, Default)]
pub(super) enum ListType {
    #[default]
    Atomic,
    Set,
    Map(Vec<String>),
}

// === impl KindSchema ===

impl KindSchema {
    /// Compiles the schema of the storage version.
    pub(super) fn compile(definition: &CustomResourceDefinition) -> Self {
        let root = definition.spec.versions.iter().find(|version| version.storage);
        let root = root.and_then(|version| version.schema.as_ref()?.open_api_v3_schema.as_ref());
        Self { is_namespaced: definition.spec.scope == "Namespaced", root: root.map(Node::compile).unwrap_or_default() }
    }
}

// === impl Node ===

impl Node {
    fn compile(schema: &JSONSchemaProps) -> Self {
        let items = match &schema.items {
            Some(JSONSchemaPropsOrArray::Schema(items)) => Some(Box::new(Self::compile(items))),
            _ => None,
        };
        let additional = match &schema.additional_properties {
            Some(JSONSchemaPropsOrBool::Schema(values)) => Some(Box::new(Self::compile(values))),
            _ => None,
        };
        let properties = schema.properties.iter().flatten();
        let list_type = match schema.x_kubernetes_list_type.as_deref() {
            Some("set") => ListType::Set,
            Some("map") => ListType::Map(schema.x_kubernetes_list_map_keys.clone().unwrap_or_default()),
            _ => ListType::Atomic,
        };
        Self {
            kind: NodeType::of(schema),
            properties: properties.map(|(name, property)| (name.clone(), Self::compile(property))).collect(),
            additional,
            is_open: schema.x_kubernetes_preserve_unknown_fields == Some(true),
            items,
            required: schema.required.clone().unwrap_or_default(),
            default: schema.default.as_ref().map(|default| default.0.clone()),
            choices: schema.enum_.iter().flatten().map(|choice| choice.0.clone()).collect(),
            pattern: schema.pattern.as_deref().map(Pattern::compile),
            is_date_time: schema.format.as_deref() == Some("date-time"),
            minimum: schema.minimum,
            maximum: schema.maximum,
            length: Bounds { min: schema.min_length, max: schema.max_length },
            items_count: Bounds { min: schema.min_items, max: schema.max_items },
            properties_count: Bounds { min: schema.min_properties, max: schema.max_properties },
            list_type,
            rules: schema.x_kubernetes_validations.iter().flatten().map(CompiledRule::compile).collect(),
        }
    }
}

// === impl NodeType ===

impl NodeType {
    fn of(schema: &JSONSchemaProps) -> Option<Self> {
        if schema.x_kubernetes_int_or_string == Some(true) {
            return Some(Self::IntOrString);
        }
        match schema.type_.as_deref()? {
            "object" => Some(Self::Object),
            "array" => Some(Self::Array),
            "string" => Some(Self::String),
            "boolean" => Some(Self::Boolean),
            "number" => Some(Self::Number),
            "integer" => Some(Self::Integer { is_short: schema.format.as_deref() == Some("int32") }),
            _ => None,
        }
    }

    /// Returns the name of the type, for messages.
    pub(super) const fn name(self) -> &'static str {
        match self {
            Self::Object => "an object",
            Self::Array => "a list",
            Self::String => "a string",
            Self::Boolean => "true or false",
            Self::Number => "a number",
            Self::Integer { .. } => "a whole number",
            Self::IntOrString => "a whole number or a string",
        }
    }
}

// === impl Pattern ===

impl Pattern {
    /// Compiles `text` with ASCII classes `\d` and `\s`, as in RE2, which Kubernetes uses.
    fn compile(text: &str) -> Self {
        let ascii = text.replace(r"\d", "[0-9]").replace(r"\s", r"[\t\n\f\r ]");
        Self { text: text.to_owned(), regex: Regex::new(&ascii).ok() }
    }

    pub(super) fn matches(&self, value: &str) -> bool {
        self.regex.as_ref().is_some_and(|regex| regex.is_match(value))
    }
}
