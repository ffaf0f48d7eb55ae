//! Conversion of objects of Karpenter's earlier APIs to v1.
//!
//! ```text
//!  Provisioner      (v1alpha5) ─┐
//!  NodePool         (v1beta1)  ─┴► pool ──► NodePool      ┐
//!                                    └ kubelet ─┐         │
//!  AWSNodeTemplate  (v1alpha1) ─┐               ▼         ├─► Conversion: objects in their order, notes
//!  EC2NodeClass     (v1beta1)  ─┴► class ──► EC2NodeClass │
//!  Machine, NodeClaim          ──► claim ──► NodeClaim    ┘
//!  all others, and v1          ──► unchanged
//! ```
//!
//! Pure: it works on values only. What v1 cannot express becomes a [`Note`] and is never dropped silently: every
//! converter takes the fields that it knows from `Fields`, which notes the rest at its end.
//!
//! Sources: karpenter.sh, "v1beta1 Migration" and "v1 Migration"; the CRDs of Karpenter 0.31, 0.37 and 1.14.

mod claim;
mod class;
mod fields;
mod kubelet;
mod meta;
mod pool;
mod selectors;
#[cfg(test)]
mod tests;

use serde_json::{Map, Value};

pub(crate) use fields::Fields;

/// Note that a user has to read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Note {
    /// Object, such as "Provisioner `default`".
    pub object: String,
    /// Path of the field, such as `spec.provider.launchTemplate`; empty for the whole object.
    pub field: String,
    /// Effect of the conversion, and the action to take.
    pub message: String,
}

/// Result of a conversion.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Conversion {
    /// All objects in their order; copies of a class follow it.
    pub objects: Vec<Value>,
    /// Differences that v1 cannot express, or expresses differently.
    pub notes: Vec<Note>,
    /// Number of converted objects.
    pub converted: usize,
}

/// Converter of an object.
enum Kind {
    Pool,
    Class,
    Claim,
}

/// Returns true if objects of this kind are converted.
#[must_use]
pub fn converts(api_version: &str, kind: &str) -> bool {
    kind_of(api_version, kind).is_some()
}

fn kind_of(api_version: &str, kind: &str) -> Option<Kind> {
    Some(match (api_version, kind) {
        ("karpenter.sh/v1alpha5", "Provisioner") | ("karpenter.sh/v1beta1", "NodePool") => Kind::Pool,
        ("karpenter.k8s.aws/v1alpha1", "AWSNodeTemplate") | ("karpenter.k8s.aws/v1beta1", "EC2NodeClass") => {
            Kind::Class
        }
        ("karpenter.sh/v1alpha5", "Machine") | ("karpenter.sh/v1beta1", "NodeClaim") => Kind::Claim,
        _ => return None,
    })
}

/// Converts `objects`.
#[must_use]
pub fn convert(objects: Vec<Value>) -> Conversion {
    let mut conversion = Conversion::default();
    let mut settings = Vec::new();
    for object in objects {
        let text = |key: &str| object.get(key).and_then(Value::as_str).unwrap_or_default();
        let Some(kind) = kind_of(text("apiVersion"), text("kind")) else {
            conversion.objects.push(object);
            continue;
        };
        conversion.converted += 1;
        let mut fields = Fields::of(object, &mut conversion.notes);
        let done = match kind {
            Kind::Pool => {
                let (pool, setting) = pool::convert(&mut fields);
                settings.extend(setting);
                pool
            }
            Kind::Class => class::convert(&mut fields),
            Kind::Claim => claim::convert(&mut fields),
        };
        fields.finish();
        conversion.objects.push(done);
    }
    kubelet::settle(settings, &mut conversion);
    conversion
}

/// Returns a map of the entries that have a value.
pub(crate) fn object<const N: usize>(entries: [(&str, Option<Value>); N]) -> Map<String, Value> {
    entries.into_iter().filter_map(|(key, value)| Some((key.to_owned(), value?))).collect()
}
