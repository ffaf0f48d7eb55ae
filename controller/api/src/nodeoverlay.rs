//! NodeOverlay: adjustments to the price and capacity of instance types for planning.

use std::collections::BTreeMap;

use k8s_openapi::apimachinery::pkg::api::resource::Quantity;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use kube::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::requirement::{Requirement, overlay_requirements};
use crate::rules::{self, cel};
use crate::{patterns, schema};

/// Which instance types an overlay corrects, and how.
#[derive(CustomResource, Debug, Clone, PartialEq, Default, Serialize, Deserialize, JsonSchema)]
#[kube(
    group = "karpenter.sh",
    version = "v1alpha1",
    kind = "NodeOverlay",
    plural = "nodeoverlays",
    doc = "Corrections to the price and the capacity that instance types are planned with.",
    category = "karpenter",
    shortname = "overlays",
    status = "NodeOverlayStatus",
    derive = "PartialEq",
    derive = "Default",
    printcolumn = r#"{"name": "Ready", "type": "string", "jsonPath": ".status.conditions[?(@.type==\"Ready\")].status"}"#,
    printcolumn = r#"{"name": "Age", "type": "date", "jsonPath": ".metadata.creationTimestamp"}"#,
    printcolumn = r#"{"name": "Weight", "type": "integer", "jsonPath": ".spec.weight", "priority": 1}"#
)]
#[serde(rename_all = "camelCase")]
#[schemars(extend("x-kubernetes-validations" = cel(rules::OVERLAY)))]
pub struct NodeOverlaySpec {
    /// Offerings that the overlay acts on. It has no `minValues`.
    #[schemars(schema_with = "overlay_requirements")]
    pub requirements: Vec<Requirement>,
    /// Price per hour instead of the known one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(regex(pattern = patterns::PRICE))]
    pub price: Option<String>,
    /// Change of the known price: signed, in dollars per hour or as a percentage.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(regex(pattern = patterns::PRICE_ADJUSTMENT))]
    pub price_adjustment: Option<String>,
    /// Extended resources that the nodes have besides the known ones.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    #[schemars(schema_with = "overlay_capacity")]
    pub capacity: BTreeMap<String, Quantity>,
    /// Overlays with a higher weight win; absent is 0.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = 10000))]
    pub weight: Option<i32>,
}

/// Observed state of a NodeOverlay.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize, JsonSchema)]
pub struct NodeOverlayStatus {
    /// Judgements on the overlay.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(schema_with = "schema::conditions")]
    pub conditions: Vec<Condition>,
}

fn overlay_capacity(generator: &mut schemars::SchemaGenerator) -> schemars::Schema {
    let mut capacity = schema::quantities(generator);
    capacity.insert("x-kubernetes-validations".to_owned(), cel(rules::OVERLAY_CAPACITY));
    capacity
}
