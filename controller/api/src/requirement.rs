//! Constraint on one node label, as in NodePools, NodeClaims and NodeOverlays.

use std::fmt;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::patterns;
use crate::rules::{self, cel};
use crate::schema;

/// Operator by which a [`Requirement`] compares the label with its values.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, Deserialize, JsonSchema)]
pub enum Operator {
    /// The label has one of the values.
    #[default]
    In,
    /// The label is absent or has none of the values.
    NotIn,
    /// The label is present.
    Exists,
    /// The label is absent.
    DoesNotExist,
    /// The label is an integer above the value.
    Gt,
    /// The label is an integer below the value.
    Lt,
    /// The label is an integer at or above the value.
    Gte,
    /// The label is an integer at or below the value.
    Lte,
}

/// A constraint on one node label.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Requirement {
    /// Label that is constrained.
    #[schemars(length(max = 316), regex(pattern = patterns::QUALIFIED_NAME))]
    #[schemars(extend("x-kubernetes-validations" = cel(rules::CLAIM_REQUIREMENT_KEY)))]
    pub key: String,
    /// Operator that compares the label with the values.
    pub operator: Operator,
    /// Values to compare with: at least one for In, exactly one whole number for Gt, Lt, Gte and Lte.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(extend("x-kubernetes-list-type" = "atomic"))]
    pub values: Vec<String>,
    /// Fewest different values of this label that the launch options of a node must keep.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = 50))]
    pub min_values: Option<u32>,
}

// === impl Operator ===

impl Operator {
    /// All operators, in the order of the schema.
    pub const ALL: [Self; 8] =
        [Self::In, Self::NotIn, Self::Exists, Self::DoesNotExist, Self::Gt, Self::Lt, Self::Gte, Self::Lte];

    /// Returns the name of the operator in manifests.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::In => "In",
            Self::NotIn => "NotIn",
            Self::Exists => "Exists",
            Self::DoesNotExist => "DoesNotExist",
            Self::Gt => "Gt",
            Self::Lt => "Lt",
            Self::Gte => "Gte",
            Self::Lte => "Lte",
        }
    }

    /// Returns true if the operator compares whole numbers.
    #[must_use]
    pub const fn is_numeric(self) -> bool {
        matches!(self, Self::Gt | Self::Lt | Self::Gte | Self::Lte)
    }
}

impl fmt::Display for Operator {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

// === impl Requirement ===

impl Requirement {
    /// Creates a requirement without `minValues`.
    ///
    /// ```
    /// use muster_api::{Operator, Requirement, labels};
    ///
    /// let requirement = Requirement::new(labels::CAPACITY_TYPE, Operator::In, [labels::SPOT]);
    /// assert_eq!(requirement.values, [labels::SPOT]);
    /// ```
    #[must_use]
    pub fn new(
        key: impl Into<String>,
        operator: Operator,
        values: impl IntoIterator<Item = impl Into<String>>,
    ) -> Self {
        Self { key: key.into(), operator, values: values.into_iter().map(Into::into).collect(), min_values: None }
    }
}

// The three kinds share the type but not every rule: a NodePool may not constrain the NodePool label, and overlays do
// not support `minValues`.

/// Schema of `spec.template.spec.requirements` of a NodePool.
pub(crate) fn pool_requirements(generator: &mut schemars::SchemaGenerator) -> schemars::Schema {
    let mut list = claim_requirements(generator);
    schema::set(&mut list, "/items/properties/key/x-kubernetes-validations", cel(rules::POOL_REQUIREMENT_KEY));
    list
}

/// Schema of `spec.requirements` of a NodeClaim.
pub(crate) fn claim_requirements(generator: &mut schemars::SchemaGenerator) -> schemars::Schema {
    requirements(generator, rules::CLAIM_REQUIREMENTS)
}

/// Schema of `spec.requirements` of a NodeOverlay.
pub(crate) fn overlay_requirements(generator: &mut schemars::SchemaGenerator) -> schemars::Schema {
    let mut list = requirements(generator, rules::OVERLAY_REQUIREMENTS);
    schema::set(&mut list, "/items/properties/key/x-kubernetes-validations", cel(rules::OVERLAY_REQUIREMENT_KEY));
    schema::remove(&mut list, "/items/properties", "minValues");
    list
}

fn requirements(generator: &mut schemars::SchemaGenerator, rules: &[rules::Rule]) -> schemars::Schema {
    let mut list = <Vec<Requirement>>::json_schema(generator);
    list.insert("maxItems".to_owned(), 100.into());
    list.insert("x-kubernetes-list-type".to_owned(), "atomic".into());
    list.insert("x-kubernetes-validations".to_owned(), cel(rules));
    list
}
