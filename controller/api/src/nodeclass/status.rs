//! Status of an EC2NodeClass: the objects that its selectors matched.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, Time};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::selectors::InstanceMatchCriteria;
use crate::requirement::Operator;
use crate::{patterns, schema};

/// Observed state of an EC2NodeClass.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Ec2NodeClassStatus {
    /// Subnets, those with the most free addresses first.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub subnets: Vec<Subnet>,
    /// Security groups.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub security_groups: Vec<SecurityGroup>,
    /// Capacity reservations.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub capacity_reservations: Vec<CapacityReservation>,
    /// Machine images, newest first. A node gets the first one that suits it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub amis: Vec<Ami>,
    /// Instance profile of the instances.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub instance_profile: Option<String>,
    /// Judgements on the class.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(schema_with = "schema::unkeyed_conditions")]
    pub conditions: Vec<Condition>,
}

/// A subnet that instances may be launched in.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
pub struct Subnet {
    /// Identifier of the subnet.
    pub id: String,
    /// Name of its zone, which differs between accounts.
    pub zone: String,
    /// Identifier of its zone, which does not.
    #[serde(default, rename = "zoneID", skip_serializing_if = "Option::is_none")]
    pub zone_id: Option<String>,
}

/// A security group of the instances.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
pub struct SecurityGroup {
    /// Identifier of the security group.
    pub id: String,
    /// Name of the security group.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
}

/// A machine image and the nodes that it suits.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
pub struct Ami {
    /// Identifier of the image.
    pub id: String,
    /// Name of the image.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// Set if its owner has deprecated it.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub deprecated: bool,
    /// Constraints on the labels of the nodes that it suits.
    pub requirements: Vec<AmiRequirement>,
}

/// A constraint on one label of the nodes that an image suits.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
pub struct AmiRequirement {
    /// Label that is constrained.
    pub key: String,
    /// Operator that compares the label with the values.
    #[schemars(with = "String")]
    pub operator: Operator,
    /// Values to compare with.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(extend("x-kubernetes-list-type" = "atomic"))]
    pub values: Vec<String>,
}

/// A capacity reservation that instances may be launched into.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct CapacityReservation {
    /// Identifier of the reservation.
    #[schemars(regex(pattern = patterns::CAPACITY_RESERVATION_ID))]
    pub id: String,
    /// Zone of the reservation.
    pub availability_zone: String,
    /// When the reservation ends, if it does.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<schema::DateTime>")]
    pub end_time: Option<Time>,
    /// Which launches the reservation admits.
    pub instance_match_criteria: InstanceMatchCriteria,
    /// Instance type of the reservation.
    pub instance_type: String,
    /// Account that owns the reservation.
    #[serde(rename = "ownerID")]
    #[schemars(regex(pattern = patterns::ACCOUNT_ID))]
    pub owner_id: String,
    /// Type of the reservation.
    #[serde(default)]
    pub reservation_type: ReservationType,
    /// True if the owner may reclaim the instances.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub interruptible: bool,
    /// State of the reservation: only an active one can be launched into.
    #[serde(default)]
    pub state: ReservationState,
}

/// Kinds of capacity reservations.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum ReservationType {
    /// Open-ended or until a date.
    #[default]
    Default,
    /// A block of accelerated instances for a fixed time.
    CapacityBlock,
}

/// State of a capacity reservation.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum ReservationState {
    /// They may.
    #[default]
    Active,
    /// It is about to end.
    Expiring,
}
