//! Taint syntax of the kubelet.
//!
//! Source: `pkg/util/taints` of Kubernetes.

use std::collections::BTreeSet;
use std::fmt;
use std::str::FromStr;

use super::labels::{is_label_key, is_label_value};

/// Key of the taint that keeps pods off a node until Karpenter or Muster has registered it.
pub const UNREGISTERED: &str = "karpenter.sh/unregistered";

/// A taint.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Taint {
    /// Its key.
    pub key: String,
    /// Its value; empty if it has none.
    pub value: String,
    /// `NoSchedule`, `PreferNoSchedule` or `NoExecute`.
    pub effect: String,
}

/// Reason why a taint is refused, in the words of the kubelet.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum TaintFault {
    /// The text does not have the form of a taint.
    #[error("invalid taint spec: {0}")]
    Form(String),
    /// The effect does not exist.
    #[error("invalid taint effect: {0}, unsupported taint effect")]
    Effect(String),
    /// The key or value is not valid.
    #[error("invalid taint spec: {0}, its key or value is not that of a label")]
    Name(String),
    /// Two taints have the same key and effect.
    #[error("duplicated taints with the same key and effect: {0}")]
    Twice(String),
}

/// Effects of a taint.
pub const EFFECTS: [&str; 3] = ["NoSchedule", "PreferNoSchedule", "NoExecute"];

impl Taint {
    /// Returns `karpenter.sh/unregistered:NoExecute`.
    #[must_use]
    pub fn unregistered() -> Self {
        Self { key: UNREGISTERED.to_owned(), value: String::new(), effect: "NoExecute".to_owned() }
    }

    /// Checks a taint of the configuration file, where key, value and effect are separate fields.
    ///
    /// # Errors
    /// Returns an error if the kubelet refuses the taint.
    pub fn check(&self) -> Result<(), TaintFault> {
        let names = is_label_key(&self.key) && (self.value.is_empty() || is_label_value(&self.value));
        if !names {
            return Err(TaintFault::Name(self.to_string()));
        }
        if !EFFECTS.contains(&self.effect.as_str()) {
            return Err(TaintFault::Effect(self.effect.clone()));
        }
        Ok(())
    }
}

impl fmt::Display for Taint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.key)?;
        if !self.value.is_empty() {
            write!(f, "={}", self.value)?;
        }
        write!(f, ":{}", self.effect)
    }
}

impl FromStr for Taint {
    type Err = TaintFault;

    /// Parses `key[=value]:effect`.
    fn from_str(text: &str) -> Result<Self, TaintFault> {
        let form = || TaintFault::Form(text.to_owned());
        let mut parts = text.split(':');
        let (Some(name), Some(effect), None) = (parts.next(), parts.next(), parts.next()) else { return Err(form()) };
        if !EFFECTS.contains(&effect) {
            return Err(TaintFault::Effect(effect.to_owned()));
        }
        let mut parts = name.split('=');
        let (key, value) = match (parts.next(), parts.next(), parts.next()) {
            (Some(key), value, None) => (key, value.unwrap_or_default()),
            _ => return Err(form()),
        };
        let taint = Self { key: key.to_owned(), value: value.to_owned(), effect: effect.to_owned() };
        if !is_label_key(key) || !(value.is_empty() || is_label_value(value)) {
            return Err(TaintFault::Name(text.to_owned()));
        }
        Ok(taint)
    }
}

/// Parses the value of `--register-with-taints`. An empty value means no taints; the form that removes a taint
/// (`key-`, `key:effect-`) has no effect, but its parts have to be valid.
///
/// # Errors
/// Returns an error if the kubelet exits at the value.
pub fn flag_value(text: &str) -> Result<Vec<Taint>, TaintFault> {
    let mut taints: Vec<Taint> = Vec::new();
    let mut seen = BTreeSet::new();
    if text.is_empty() {
        return Ok(taints);
    }
    for spec in text.split(',') {
        if let Some(removed) = spec.strip_suffix('-') {
            if removed.contains(':') {
                removed.parse::<Taint>()?;
            } else if !is_label_key(removed) {
                return Err(TaintFault::Name(spec.to_owned()));
            }
            continue;
        }
        let taint: Taint = spec.parse()?;
        if !seen.insert((taint.key.clone(), taint.effect.clone())) {
            return Err(TaintFault::Twice(taint.to_string()));
        }
        taints.push(taint);
    }
    Ok(taints)
}
