//! CEL rules: compiled once, evaluated for each value.

use std::collections::BTreeMap;
use std::sync::{Arc, LazyLock, PoisonError, RwLock};

use cel::common::types::CelString;
use cel::objects::{Key, Map, Value as CelValue};
use cel::{Context, Env, Program};
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::ValidationRule;
use regex::Regex;
use serde_json::Value;

/// CEL environment: the standard library, the string extensions and the additions of Kubernetes.
static ENVIRONMENT: LazyLock<Arc<Env>> = LazyLock::new(|| {
    let mut environment = Env::stdlib();
    // Fails only for a function declared twice; the rules that need it then fail to compile, which a test detects.
    let _ = environment.add_extension(cel::extensions::strings);
    let _ = environment.add_extension(
        |environment| cel::add_member_overload!(environment, fn find: (CelString, CelString) -> CelString),
    );
    Arc::new(environment)
});

/// Cache of regular expressions used by rules. They are literals in the rules, so there are few.
static SEARCHED: LazyLock<RwLock<BTreeMap<String, Option<Regex>>>> = LazyLock::new(RwLock::default);

/// A compiled rule.
#[derive(Debug)]
pub(super) struct CompiledRule {
    /// Message for a violation of the rule.
    pub(super) message: String,
    source: String,
    program: Option<Program>,
}

/// Result of evaluating a rule.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Outcome {
    /// The rule holds.
    Holds,
    /// The rule is violated, or its evaluation failed, which an API server treats the same.
    Broken,
    /// The rule compares with a previous version of the object, which does not exist.
    Skipped,
}

// === impl CompiledRule ===

impl CompiledRule {
    pub(super) fn compile(rule: &ValidationRule) -> Self {
        Self {
            message: rule.message.clone().unwrap_or_else(|| format!("breaks the rule `{}`", rule.rule)),
            source: rule.rule.clone(),
            program: ENVIRONMENT.compile(&rule.rule).ok(),
        }
    }

    /// Returns true if the rule compares an object with its previous version.
    pub(super) fn is_transition(&self) -> bool {
        self.source.contains("oldSelf")
    }

    /// Returns true if the text of the rule is valid CEL.
    #[cfg(test)]
    pub(super) const fn is_compiled(&self) -> bool {
        self.program.is_some()
    }

    pub(super) fn evaluate(&self, subject: &CelValue) -> Outcome {
        if self.is_transition() {
            return Outcome::Skipped;
        }
        let Some(program) = &self.program else { return Outcome::Broken };
        let mut context = Context::with_env(Arc::clone(&ENVIRONMENT));
        context.add_variable_from_value("self", subject.clone());
        match program.execute(&context) {
            Ok(CelValue::Bool(true)) => Outcome::Holds,
            _ => Outcome::Broken,
        }
    }
}

/// Returns the first match of a regular expression in a string, or an empty string.
fn find(text: &CelString<'_>, pattern: &CelString<'_>) -> CelString<'static> {
    let (text, pattern): (&str, &str) = (text, pattern);
    if let Some(regex) = SEARCHED.read().unwrap_or_else(PoisonError::into_inner).get(pattern) {
        return first_match(regex.as_ref(), text);
    }
    let regex = Regex::new(pattern).ok();
    let found = first_match(regex.as_ref(), text);
    SEARCHED.write().unwrap_or_else(PoisonError::into_inner).insert(pattern.to_owned(), regex);
    found
}

fn first_match(regex: Option<&Regex>, text: &str) -> CelString<'static> {
    let found = regex.and_then(|regex| regex.find(text)).map_or("", |found| found.as_str());
    found.to_owned().into()
}

/// Converts a JSON value to a CEL value.
pub(super) fn cel_value(value: &Value) -> CelValue {
    match value {
        Value::Null => CelValue::Null,
        Value::Bool(value) => CelValue::Bool(*value),
        Value::Number(number) => match number.as_i64() {
            Some(integer) => CelValue::Int(integer),
            None => CelValue::Float(number.as_f64().unwrap_or(f64::NAN)),
        },
        Value::String(text) => CelValue::String(Arc::new(text.clone())),
        Value::Array(items) => CelValue::List(Arc::new(items.iter().map(cel_value).collect())),
        Value::Object(fields) => CelValue::Map(Map {
            map: Arc::new(fields.iter().map(|(name, value)| (Key::from(name.as_str()), cel_value(value))).collect()),
        }),
    }
}
