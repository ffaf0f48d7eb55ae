//! Attach limits of nodes that do not exist yet.

use muster_api::labels::INSTANCE_FAMILY;
use muster_scheduling::labels::INSTANCE_TYPE;
use muster_scheduling::model::{InstanceType, Operator, Requirement};

use super::*;

const EBS: &str = "ebs.csi.aws.com";

/// The catalogue of one type of EC2.
fn types(name: &str) -> Catalogue {
    let label = |key: &str, value: &str| (key.to_owned(), Requirement::new(Operator::In, [value]));
    let family = name.split_once('.').map_or(name, |(family, _)| family);
    Catalogue::new(vec![InstanceType {
        name: name.into(),
        requirements: [label(INSTANCE_TYPE, name), label(INSTANCE_FAMILY, family)].into_iter().collect(),
        capacity: Resources::new(),
        overhead: Resources::new(),
        offerings: Vec::new(),
    }])
}

const POOL: &str = "{apiVersion: karpenter.sh/v1, kind: NodePool, metadata: {name: general}, spec: {template: {spec: {nodeClassRef: {group: karpenter.k8s.aws, kind: EC2NodeClass, name: default}, requirements: []}}}}\n---\n";
const USER: &str = "{apiVersion: v1, kind: Pod, metadata: {name: a}, spec: {containers: [{name: c}], volumes: [{name: v, awsElasticBlockStore: {volumeID: v}}]}}\n---\n";

fn node(name: &str, kind: &str) -> String {
    format!(
        "{{apiVersion: v1, kind: Node, metadata: {{name: {name}, labels: {{karpenter.sh/nodepool: general, node.kubernetes.io/instance-type: {kind}}}}}}}\n---\n"
    )
}

fn csi_node(name: &str, count: u32) -> String {
    format!(
        "{{apiVersion: storage.k8s.io/v1, kind: CSINode, metadata: {{name: {name}}}, spec: {{drivers: [{{name: {EBS}, allocatable: {{count: {count}}}}}]}}}}\n---\n"
    )
}

fn assembled(text: &[&str], kind: &str) -> Snapshot {
    let manifests = read_text("input", &text.concat()).unwrap();
    assemble(&manifests, &Settings::default(), &|_| types(kind)).unwrap()
}

/// The volumes that a new node of the type attaches.
fn limit(text: &[&str], kind: &str) -> Option<i64> {
    let snapshot = assembled(text, kind);
    let capacity = &snapshot.problem.catalogues[0][0].capacity;
    let resource = Resource::attachable(EBS);
    capacity.contains(&resource).then(|| capacity.get(&resource))
}

#[test]
fn a_type_has_the_limit_of_the_table_if_volumes_are_in_use() {
    assert_eq!(limit(&[POOL, USER], "m5.large"), Some(25));
    assert_eq!(limit(&[POOL, USER], "m7i.large"), Some(31));
    assert_eq!(limit(&[POOL], "m5.large"), None);
    let class = |fields: &str| {
        format!(
            "{{apiVersion: karpenter.k8s.aws/v1, kind: EC2NodeClass, metadata: {{name: default}}, spec: {{role: r, subnetSelectorTerms: [{{id: subnet-1}}], securityGroupSelectorTerms: [{{id: sg-1}}], {fields}}}}}\n---\n"
        )
    };
    let disks = class(
        "amiSelectorTerms: [{alias: al2023@latest}], blockDeviceMappings: [{deviceName: /dev/xvda, ebs: {volumeSize: 20Gi}}, {deviceName: /dev/xvdb, ebs: {volumeSize: 20Gi}}]",
    );
    assert_eq!(limit(&[POOL, USER, &disks], "m5.large"), Some(24));
    let bottlerocket = class("amiSelectorTerms: [{alias: bottlerocket@latest}]");
    assert_eq!(limit(&[POOL, USER, &bottlerocket], "m5.large"), Some(24));
}

#[test]
fn nodes_of_the_type_know_better_than_the_table() {
    let nodes = [node("n", "m5.large"), node("o", "m5.large"), node("other", "m5.xlarge")].concat();
    let said = |counts: &[(&str, u32)]| {
        let said: String = counts.iter().map(|(name, count)| csi_node(name, *count)).collect();
        limit(&[POOL, USER, &nodes, &said], "m5.large")
    };
    assert_eq!(said(&[("n", 20)]), Some(20));
    assert_eq!(said(&[("n", 26), ("o", 20)]), Some(20));
    assert_eq!(said(&[("other", 20)]), Some(25));
    // One that says that it holds next to nothing is not believed.
    assert_eq!(said(&[("n", 1)]), Some(12));
}

#[test]
fn a_node_that_starts_has_the_limit_of_its_type() {
    let claim = "{apiVersion: karpenter.sh/v1, kind: NodeClaim, metadata: {name: c, labels: {karpenter.sh/nodepool: general, node.kubernetes.io/instance-type: m5.large}}, spec: {nodeClassRef: {group: karpenter.k8s.aws, kind: EC2NodeClass, name: default}, requirements: []}, status: {allocatable: {cpu: 1}}}\n---\n";
    let snapshot = assembled(&[POOL, USER, claim], "m5.large");
    assert_eq!(snapshot.problem.nodes[0].attach_limits, [(EBS.into(), 25)]);
}
