//! Conversion of a launch request to a Node, and of a Node to an instance. Pure.

use std::collections::BTreeMap;

use jiff::Timestamp;
use k8s_openapi::api::core::v1::{Node, NodeSpec, NodeStatus};
use k8s_openapi::apimachinery::pkg::api::resource::Quantity;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use muster_api::{annotations, labels, taints};
use muster_aws::quantity;
use muster_cloud::{Alternative, CapacityType, Instance, InstanceState, LaunchRequest, LaunchToken, Offering};
use muster_scheduling::model::{InstanceType, Requirements};

use super::SCHEME;

/// Label and annotation of Nodes that KWOK manages.
pub(super) const FAKE: (&str, &str) = ("kwok.x-k8s.io/node", "fake");
/// Label that `eks-node-viewer` displays.
const PRICE: &str = "eks-node-viewer/instance-price";
/// Label set as by Karpenter's provider, for clusters with several KWOK controllers.
const PARTITION: (&str, &str) = ("kwok-partition", "a");

/// Returns the name of the Node for a launch: the claim's name, and eight hex digits of a hash of the token.
pub(super) fn name(request: &LaunchRequest) -> String {
    let hash = request
        .token
        .to_string()
        .bytes()
        .fold(0x811c_9dc5_u32, |hash, byte| (hash ^ u32::from(byte)).wrapping_mul(0x0100_0193));
    // Names of claims may be as long as names of Nodes.
    let claim: String = request.claim.chars().take(230).collect();
    format!("kwok-{claim}-{hash:08x}")
}

/// Returns the Node for a launch of `kind` with the offering `chosen`.
pub(super) fn node(request: &LaunchRequest, kind: &InstanceType, chosen: &Alternative) -> Node {
    let name = name(request);
    let mut all = request.labels.clone();
    all.extend(of_kind(kind, &chosen.offering));
    all.insert(PRICE.to_owned(), format!("{:.6}", chosen.price));
    all.insert(PARTITION.0.to_owned(), PARTITION.1.to_owned());
    all.insert(labels::HOSTNAME.to_owned(), request.claim.clone());
    all.insert(FAKE.0.to_owned(), FAKE.1.to_owned());
    let quantities = |all: BTreeMap<String, String>| -> BTreeMap<String, Quantity> {
        all.into_iter().map(|(resource, amount)| (resource, Quantity(amount))).collect()
    };
    // What NodeOverlays say that the nodes have as well.
    let more = request.overlaid.capacity.get(&*kind.name).cloned().unwrap_or_default();
    let mut capacity = request.requests.clone();
    capacity.extend(more);
    let mut allocatable = capacity.clone();
    allocatable
        .extend(kind.allocatable().iter().map(|(name, amount)| (name.to_string(), quantity::format(name, amount))));
    let annotations =
        [(annotations::LAUNCH_TOKEN.to_owned(), request.token.to_string()), (FAKE.0.to_owned(), FAKE.1.to_owned())];
    Node {
        metadata: ObjectMeta {
            name: Some(name.clone()),
            labels: Some(all),
            annotations: Some(annotations.into_iter().collect()),
            ..ObjectMeta::default()
        },
        spec: Some(NodeSpec {
            provider_id: Some(format!("{SCHEME}{name}")),
            taints: Some(vec![taints::unregistered()]),
            ..NodeSpec::default()
        }),
        status: Some(NodeStatus {
            capacity: Some(quantities(capacity)),
            allocatable: Some(quantities(allocatable)),
            phase: Some("Pending".to_owned()),
            ..NodeStatus::default()
        }),
    }
}

/// Returns the labels of an instance type and offering.
fn of_kind(kind: &InstanceType, offering: &Offering) -> BTreeMap<String, String> {
    let mut all = BTreeMap::new();
    let mut take = |requirements: &Requirements| {
        let single = requirements.iter().filter_map(|(key, one)| Some((key.to_string(), one.single()?.to_string())));
        all.extend(single);
    };
    take(&kind.requirements);
    let bought = kind.offerings.iter().find(|one| {
        one.zone() == Some(offering.zone.as_str())
            && one.capacity_type() == Some(offering.capacity_type.name())
            && one.requirements.single(labels::CAPACITY_RESERVATION_ID) == offering.reservation.as_deref()
    });
    if let Some(bought) = bought {
        take(&bought.requirements);
    }
    all
}

/// Returns the instance of a Node; none if the Node belongs to another cloud.
pub(super) fn instance(node: &Node) -> Option<Instance> {
    let provider_id = node.spec.as_ref()?.provider_id.clone().filter(|id| id.starts_with(SCHEME))?;
    let meta = &node.metadata;
    let all = meta.labels.clone().unwrap_or_default();
    let label = |key: &str| all.get(key).cloned().unwrap_or_default();
    let offering = Offering {
        instance_type: label(labels::INSTANCE_TYPE),
        zone: label(labels::ZONE),
        capacity_type: label(labels::CAPACITY_TYPE).parse().unwrap_or(CapacityType::OnDemand),
        reservation: all.get(labels::CAPACITY_RESERVATION_ID).cloned(),
    };
    let is_ending = meta.deletion_timestamp.is_some();
    let quantities = |all: Option<&BTreeMap<String, Quantity>>| -> BTreeMap<String, String> {
        all.into_iter().flatten().map(|(resource, amount)| (resource.clone(), amount.0.clone())).collect()
    };
    let status = node.status.as_ref();
    let token = meta.annotations.as_ref().and_then(|all| all.get(annotations::LAUNCH_TOKEN));
    Some(Instance {
        provider_id,
        offering,
        state: if is_ending { InstanceState::ShuttingDown } else { InstanceState::Running },
        state_reason: None,
        launched_at: meta.creation_timestamp.as_ref().map_or(Timestamp::UNIX_EPOCH, |time| time.0),
        token: token.and_then(|text| LaunchToken::parse(text)),
        image_id: None,
        subnet: None,
        security_groups: Vec::new(),
        placement_group: None,
        labels: all.into_iter().filter(|(key, _)| is_of_kind(key)).collect(),
        annotations: BTreeMap::new(),
        capacity: quantities(status.and_then(|status| status.capacity.as_ref())),
        allocatable: quantities(status.and_then(|status| status.allocatable.as_ref())),
        tags: BTreeMap::new(),
        host_name: None,
    })
}

/// Returns true if a Node's label describes the instance, and so belongs to its claim as well.
fn is_of_kind(key: &str) -> bool {
    let is_price = key == PRICE;
    let is_kwoks = key == PARTITION.0 || key == FAKE.0 || key == labels::HOSTNAME;
    let is_state = key == labels::REGISTERED || key == labels::INITIALIZED;
    !is_kwoks && !is_state && (is_price || !key.starts_with("beta.kubernetes.io/"))
}

#[cfg(test)]
pub(super) mod tests {
    use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
    use muster_api::NodeClassReference;

    use muster_cloud::Overlaid;

    use super::*;
    use crate::kwok::instance_types;

    pub(crate) fn request(uid: &str) -> LaunchRequest {
        let offering = Offering {
            instance_type: "s-16x-amd64-linux".to_owned(),
            zone: "test-zone-b".to_owned(),
            capacity_type: CapacityType::Spot,
            reservation: None,
        };
        LaunchRequest {
            token: LaunchToken { claim_uid: uid.to_owned(), attempt: 1 },
            claim: "general-1a2b".to_owned(),
            pool: Some("general".to_owned()),
            class: NodeClassReference::default(),
            alternatives: vec![Alternative { offering, price: 0.328_105 }],
            keeps_choice: false,
            labels: BTreeMap::from([("karpenter.sh/nodepool".to_owned(), "general".to_owned())]),
            taints: Vec::new(),
            requests: BTreeMap::from([("cpu".to_owned(), "15300m".to_owned()), ("pods".to_owned(), "17".to_owned())]),
            has_network_devices: false,
            tags: BTreeMap::new(),
            overlaid: Overlaid::default(),
        }
    }

    #[test]
    fn the_node_is_the_one_that_karpenters_provider_makes() {
        let types = instance_types();
        let kind = types.iter().find(|one| &*one.name == "s-16x-amd64-linux").unwrap();
        let request = request("u-1");
        let node = node(&request, kind, &request.alternatives[0]);
        insta::assert_yaml_snapshot!(node);
        let instance = instance(&node).unwrap();
        assert_eq!(instance.offering, request.alternatives[0].offering);
        assert_eq!(instance.token, Some(request.token));
        assert_eq!(instance.allocatable["cpu"], "15900m");
        assert!(!instance.labels.contains_key("kubernetes.io/hostname"), "{:?}", instance.labels);
    }

    #[test]
    fn a_node_has_what_overlays_say() {
        let types = instance_types();
        let kind = types.iter().find(|one| &*one.name == "s-16x-amd64-linux").unwrap();
        let mut request = request("u-1");
        let gpus = BTreeMap::from([("example.com/gpu".to_owned(), "8".to_owned())]);
        request.overlaid.capacity.insert("s-16x-amd64-linux".to_owned(), gpus);
        let instance = instance(&node(&request, kind, &request.alternatives[0])).unwrap();
        assert_eq!((&*instance.capacity["example.com/gpu"], &*instance.allocatable["example.com/gpu"]), ("8", "8"));
    }

    #[test]
    fn another_attempt_is_another_node() {
        let one = request("u-1");
        let mut next = one.clone();
        next.token.attempt = 2;
        assert_eq!(name(&one), name(&one.clone()));
        assert_ne!(name(&one), name(&next));
    }

    #[test]
    fn a_node_that_is_being_deleted_is_an_instance_that_shuts_down() {
        let types = instance_types();
        let request = request("u-1");
        let mut node = node(&request, &types[0], &request.alternatives[0]);
        assert_eq!(instance(&node).unwrap().state, InstanceState::Running);
        node.metadata.deletion_timestamp = Some(Time(Timestamp::UNIX_EPOCH));
        assert_eq!(instance(&node).unwrap().state, InstanceState::ShuttingDown);
    }

    #[test]
    fn other_nodes_are_no_instances() {
        assert_eq!(instance(&Node::default()), None);
    }
}
