//! Nodes whose claims have not been launched.

use muster_scheduling::labels::INSTANCE_TYPE;
use muster_scheduling::model::{InstanceType, Operator, Requirement};

use super::*;

const POOL: &str = "{apiVersion: karpenter.sh/v1, kind: NodePool, metadata: {name: general}, spec: {template: {spec: {nodeClassRef: {group: karpenter.k8s.aws, kind: EC2NodeClass, name: default}, requirements: []}}}}\n---\n";
const USER: &str = "{apiVersion: v1, kind: Pod, metadata: {name: a}, spec: {containers: [{name: c}], volumes: [{name: v, awsElasticBlockStore: {volumeID: v}}]}}\n---\n";

/// A type with its cores, memory in GiB, further resources, and limit of volumes.
type Row = (&'static str, i64, i64, &'static [(&'static str, i64)]);

const TYPES: [Row; 3] = [
    ("small", 2, 8, &[("attachable-volumes-csi-ebs.csi.aws.com", 12)]),
    ("wide", 8, 4, &[("attachable-volumes-csi-ebs.csi.aws.com", 20), ("nvidia.com/gpu", 1)]),
    ("tiny", 1, 1, &[]),
];

fn types() -> Catalogue {
    let one = |(name, cores, memory, more): Row| {
        let more = more.iter().map(|(name, amount)| (Resource::new(name), *amount));
        let usual = [(Resource::Cpu, cores * 1000), (Resource::Memory, memory << 30)];
        InstanceType {
            name: name.into(),
            requirements: [(INSTANCE_TYPE.to_owned(), Requirement::new(Operator::In, [name]))].into_iter().collect(),
            capacity: usual.into_iter().chain(more).collect(),
            overhead: Resources::from_iter([(Resource::Cpu, 100)]),
            offerings: Vec::new(),
        }
    };
    Catalogue::new(TYPES.map(one).to_vec())
}

/// The snapshot of a claim that may be launched as one of these types.
fn claim(names: &str, requests: &str) -> Snapshot {
    beside(names, requests, "")
}

/// The same beside other objects.
fn beside(names: &str, requests: &str, others: &str) -> Snapshot {
    let claim = format!(
        "{{apiVersion: karpenter.sh/v1, kind: NodeClaim, metadata: {{name: k, labels: {{karpenter.sh/nodepool: general}}}}, spec: {{nodeClassRef: {{group: karpenter.k8s.aws, kind: EC2NodeClass, name: default}}, requirements: [{{key: {INSTANCE_TYPE}, operator: In, values: [{names}]}}], resources: {{requests: {{{requests}}}}}}}}}\n"
    );
    let manifests = read_text("input", &[POOL, USER, others, &claim].concat()).unwrap();
    assemble(&manifests, &Settings::default(), &|_| types()).unwrap()
}

fn room(names: &str, requests: &str) -> (String, Vec<u32>) {
    let snapshot = claim(names, requests);
    let node = &snapshot.problem.nodes[0];
    (amounts(&node.allocatable), node.attach_limits.iter().map(|(_, limit)| *limit).collect())
}

#[test]
fn it_has_what_all_types_have_of_which_one_is_launched() {
    assert_eq!(room("small", "cpu: 1"), (format!("cpu=1900 memory={}", 8_i64 << 30), vec![12]));
    assert_eq!(room("small, wide", "cpu: 1"), (format!("cpu=1900 memory={}", 4_i64 << 30), vec![12]));
    assert_eq!(room("tiny, wide", "cpu: 100m"), (format!("cpu=900 memory={}", 1_i64 << 30), vec![20]));
}

#[test]
fn it_has_what_it_is_launched_for() {
    let gpu = room("small, wide", "cpu: 1, nvidia.com/gpu: 1").0;
    assert_eq!(gpu, format!("cpu=1900 memory={} nvidia.com/gpu=1", 4_i64 << 30));
    assert_eq!(room("gone", "cpu: 3"), ("cpu=3000".to_owned(), vec![]), "no type is known");
}

#[test]
fn only_a_claim_of_which_nothing_is_known_is_warned_of() {
    assert_eq!(claim("small", "").warnings.iter().filter(|one| one.contains("`k`")).count(), 0);
    assert_eq!(claim("gone", "").warnings.iter().filter(|one| one.contains("`k` does not say yet")).count(), 1);
}

#[test]
fn it_has_no_device_that_it_is_not_launched_for() {
    assert_eq!(room("wide", "cpu: 1").0, format!("cpu=7900 memory={}", 4_i64 << 30));
}

/// The pods of this object look at the label, and the claim may get one of two types.
fn beside_terms(kind: &str, term: &str) -> String {
    let affinity = format!(
        "{{nodeAffinity: {{requiredDuringSchedulingIgnoredDuringExecution: {{nodeSelectorTerms: [{{matchExpressions: [{term}]}}]}}}}}}"
    );
    let pods = format!("spec: {{affinity: {affinity}, containers: [{{name: c}}]}}");
    let object = if kind == "Pod" {
        format!("{{apiVersion: v1, kind: Pod, metadata: {{name: b}}, {pods}}}\n---\n")
    } else {
        format!(
            "{{apiVersion: apps/v1, kind: DaemonSet, metadata: {{name: b}}, spec: {{selector: {{matchLabels: {{a: b}}}}, template: {{metadata: {{labels: {{a: b}}}}, {pods}}}}}}}\n---\n"
        )
    };
    amounts(&beside("small, wide", "cpu: 1", &object).problem.nodes[0].allocatable)
}

#[test]
fn labels_that_are_open_leave_it_with_what_it_is_launched_for() {
    let (known, open) = (format!("cpu=1900 memory={}", 4_i64 << 30), "cpu=1000".to_owned());
    let of = |operator: &str, key: &str| format!("{{key: {key}, operator: {operator}, values: [x]}}");
    assert_eq!(beside_terms("Pod", &of("NotIn", INSTANCE_TYPE)), open);
    assert_eq!(beside_terms("Pod", &of("In", INSTANCE_TYPE)), known, "a label that is not known is none of these");
    assert_eq!(beside_terms("Pod", &of("NotIn", "team")), known, "no node of the pool has this label");
    assert_eq!(beside_terms("DaemonSet", &of("In", INSTANCE_TYPE)), open);
    assert_eq!(beside_terms("DaemonSet", &of("NotIn", "team")), known);
}

#[test]
fn claim_of_another_class_than_its_pool_keeps_what_it_is_launched_for() {
    let text = POOL.replace("name: default", "name: other");
    let pool = format!("{}{text}", POOL.replace("name: general", "name: unused"));
    let claim = format!(
        "{{apiVersion: karpenter.sh/v1, kind: NodeClaim, metadata: {{name: k, labels: {{karpenter.sh/nodepool: general}}}}, spec: {{nodeClassRef: {{group: karpenter.k8s.aws, kind: EC2NodeClass, name: default}}, requirements: [{{key: {INSTANCE_TYPE}, operator: In, values: [small]}}], resources: {{requests: {{cpu: 1}}}}}}}}\n"
    );
    let manifests = read_text("input", &[pool, claim].concat()).unwrap();
    let snapshot = assemble(&manifests, &Settings::default(), &|_| types()).unwrap();
    assert_eq!(amounts(&snapshot.problem.nodes[0].allocatable), "cpu=1000");
}
