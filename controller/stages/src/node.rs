//! The subset of a Node that decisions use.

use k8s_openapi::api::core::v1::{self, NodeCondition, Taint};
use k8s_openapi::apimachinery::pkg::api::resource::Quantity;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use muster_api::Quantities;
use muster_aws::quantity::parse;
use muster_scheduling::model::{Resource, Resources};
use serde::{Deserialize, Serialize};

/// A Node, reduced to the fields in use: the API's own type takes two kilobytes even when empty, and there may be ten
/// thousand Nodes. The fields have the names of the API.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[expect(missing_docs, reason = "each is named as Kubernetes names it")]
pub struct Node {
    #[serde(default)]
    pub metadata: ObjectMeta,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub spec: Option<NodeSpec>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub status: Option<NodeStatus>,
}

/// Desired state of a Node.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[expect(missing_docs, reason = "each is named as Kubernetes names it")]
pub struct NodeSpec {
    #[serde(rename = "providerID", skip_serializing_if = "Option::is_none")]
    pub provider_id: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub taints: Option<Vec<Taint>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub unschedulable: Option<bool>,
}

/// Status as reported by the kubelet.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[expect(missing_docs, reason = "each is named as Kubernetes names it")]
pub struct NodeStatus {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub allocatable: Option<Quantities>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub capacity: Option<Quantities>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub conditions: Option<Vec<NodeCondition>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub node_info: Option<NodeInfo>,
}

/// Description of the machine by its kubelet.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct NodeInfo {
    /// Identifier of the machine's boot.
    #[serde(rename = "bootID", default)]
    pub boot_id: String,
}

impl From<v1::Node> for Node {
    fn from(node: v1::Node) -> Self {
        let v1::Node { metadata, spec, status } = node;
        let spec = spec.map(|v1::NodeSpec { provider_id, taints, unschedulable, .. }| NodeSpec {
            provider_id,
            taints,
            unschedulable,
        });
        let status = status.map(|v1::NodeStatus { allocatable, capacity, conditions, node_info, .. }| NodeStatus {
            allocatable: allocatable.map(Quantities::from),
            capacity: capacity.map(Quantities::from),
            conditions,
            node_info: node_info.map(|info| NodeInfo { boot_id: info.boot_id }),
        });
        Self { metadata, spec, status }
    }
}

/// Parses quantities. Those that cannot be parsed are ignored.
pub(crate) fn amounts(all: &Quantities) -> Resources {
    let one = |(name, amount): (&str, &Quantity)| {
        let resource = Resource::new(name);
        let amount = parse(&resource, &amount.0).ok()?;
        Some((resource, amount))
    };
    all.iter().filter_map(one).collect()
}
