//! Selector terms for existing EC2 objects.

use std::collections::BTreeMap;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Serialize};

use crate::patterns;
use crate::rules::{self, cel};

/// Selects subnets.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
pub struct SubnetSelectorTerm {
    /// Tags that the subnet has; `*` is any value.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    #[schemars(schema_with = "selector_tags")]
    pub tags: BTreeMap<String, String>,
    /// Identifier of the subnet.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(regex(pattern = patterns::SUBNET_ID))]
    pub id: Option<String>,
}

/// Selects security groups.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
pub struct SecurityGroupSelectorTerm {
    /// Tags that the security group has; `*` is any value.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    #[schemars(schema_with = "selector_tags")]
    pub tags: BTreeMap<String, String>,
    /// Identifier of the security group.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(regex(pattern = patterns::SECURITY_GROUP_ID))]
    pub id: Option<String>,
    /// Name of the security group: its field, not its tag.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
}

/// Selects capacity reservations.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct CapacityReservationSelectorTerm {
    /// Tags that the reservation has; `*` is any value.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    #[schemars(schema_with = "selector_tags")]
    pub tags: BTreeMap<String, String>,
    /// Identifier of the reservation.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(regex(pattern = patterns::CAPACITY_RESERVATION_ID))]
    pub id: Option<String>,
    /// Account that owns the reservation.
    #[serde(default, rename = "ownerID", skip_serializing_if = "Option::is_none")]
    #[schemars(regex(pattern = patterns::ACCOUNT_ID))]
    pub owner_id: Option<String>,
    /// Which launches the reservation admits.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub instance_match_criteria: Option<InstanceMatchCriteria>,
}

/// Which launches a capacity reservation admits.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum InstanceMatchCriteria {
    /// Every launch of the same type in the same zone.
    #[default]
    Open,
    /// Only launches that name the reservation.
    Targeted,
}

/// Selects the placement group.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[schemars(extend("x-kubernetes-validations" = cel(rules::PLACEMENT_GROUP)))]
pub struct PlacementGroupSelector {
    /// Name of the placement group.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1))]
    pub name: Option<String>,
    /// Identifier of the placement group.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(regex(pattern = patterns::PLACEMENT_GROUP_ID))]
    pub id: Option<String>,
}

/// Selects machine images.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct AmiSelectorTerm {
    /// A published family and its version, such as `al2023@latest`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 30), extend("x-kubernetes-validations" = cel(rules::AMI_ALIAS)))]
    pub alias: Option<String>,
    /// Tags that the image has; `*` is any value.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    #[schemars(schema_with = "selector_tags")]
    pub tags: BTreeMap<String, String>,
    /// Identifier of the image.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(regex(pattern = patterns::IMAGE_ID))]
    pub id: Option<String>,
    /// Name of the image: its field, not its tag; `*` and `?` are wildcards.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// Account that owns the image, or `self` or `amazon`; not a selector by itself.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub owner: Option<String>,
    /// SSM parameter that holds the identifier of the image.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ssm_parameter: Option<String>,
}

fn selector_tags(_: &mut SchemaGenerator) -> Schema {
    json_schema!({
        "type": "object",
        "maxProperties": 20,
        "additionalProperties": {"type": "string"},
        "x-kubernetes-validations": cel(rules::SELECTOR_TAGS),
    })
}
