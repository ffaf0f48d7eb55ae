//! Nodes and claims: what is there, what is coming, what is leaving, and which daemons run on them.

use super::*;

const CLAIM: &str = "{apiVersion: karpenter.sh/v1, kind: NodeClaim, metadata: {name: k, labels: {karpenter.sh/nodepool: g, zone: a}}, \
    spec: {requirements: [{key: arch, operator: In, values: [arm64]}, {key: size, operator: In, values: [l, xl]}], taints: [{key: own, effect: NoSchedule}], \
    startupTaints: [{key: starts, effect: NoExecute}], nodeClassRef: {group: karpenter.k8s.aws, kind: EC2NodeClass, name: d}}, \
    status: {providerID: 'aws:///a/i-1', capacity: {cpu: 4, nvidia.com/gpu: 1}, allocatable: {cpu: 3, nvidia.com/gpu: 1}}}\n---\n";

fn node(labels: &str, taints: &str) -> String {
    format!(
        "{{apiVersion: v1, kind: Node, metadata: {{name: n, labels: {{{labels}}}}}, spec: {{providerID: 'aws:///a/i-1', taints: [{taints}]}}, \
             status: {{capacity: {{cpu: 4, nvidia.com/gpu: 0}}, allocatable: {{cpu: 2, nvidia.com/gpu: 0}}}}}}\n---\n"
    )
}

fn taints(node: &muster_scheduling::model::Node) -> Vec<&str> {
    node.taints.iter().map(|taint| &*taint.key).collect()
}

#[test]
fn a_node_without_a_claim_is_taken_as_it_is() {
    let snapshot = snapshot(&node("", "{key: node.kubernetes.io/not-ready, effect: NoSchedule}"));
    let node = &snapshot.problem.nodes[0];
    assert!(node.initialized && !node.deleting);
    assert_eq!(taints(node), ["node.kubernetes.io/not-ready"]);
    assert_eq!(node.labels.get("kubernetes.io/hostname").map(|name| &**name), Some("n"));
    assert_eq!(amounts(&node.allocatable), "cpu=2000 nvidia.com/gpu=0");
}

#[test]
fn a_node_that_is_not_registered_is_what_its_claim_says() {
    let text = [CLAIM, &node("", "{key: karpenter.sh/unregistered, effect: NoExecute}")].concat();
    let snapshot = snapshot(&text);
    assert_eq!(snapshot.problem.nodes.len(), 1);
    let node = &snapshot.problem.nodes[0];
    assert!(!node.initialized);
    assert_eq!(taints(node), ["own"]);
    assert_eq!(node.labels.get("zone").map(|zone| &**zone), Some("a"));
    assert_eq!(node.labels.get("arch").map(|arch| &**arch), Some("arm64"));
    assert_eq!(node.labels.get("size"), None);
    assert_eq!(amounts(&node.allocatable), "cpu=2000 nvidia.com/gpu=1");
}

#[test]
fn taints_that_pass_do_not_repel_until_the_node_is_initialized() {
    let all = "{key: starts, effect: NoExecute}, {key: readiness.k8s.io/x, effect: NoSchedule}, {key: stays, effect: NoSchedule}";
    let registered = snapshot(&[CLAIM, &node("karpenter.sh/registered: 'true'", all)].concat());
    assert_eq!(taints(&registered.problem.nodes[0]), ["stays"]);
    let both = "karpenter.sh/registered: 'true', karpenter.sh/initialized: 'true'";
    let initialized = snapshot(&[CLAIM, &node(both, all)].concat());
    assert_eq!(taints(&initialized.problem.nodes[0]).len(), 3);
    assert!(initialized.problem.nodes[0].initialized);
    assert_eq!(amounts(&initialized.problem.nodes[0].allocatable), "cpu=2000 nvidia.com/gpu=0");
}

#[test]
fn a_claim_without_a_node_is_a_node_to_come() {
    let coming = snapshot(CLAIM);
    let node = &coming.problem.nodes[0];
    assert_eq!((&*node.name, node.initialized), ("k", false));
    assert_eq!(taints(node), ["own"]);
    assert_eq!(amounts(&node.allocatable), "cpu=3000 nvidia.com/gpu=1");
    assert_eq!(node.labels.get("kubernetes.io/hostname").map(|name| &**name), Some("k"));
    let (head, _) = CLAIM.split_once(", status").unwrap();
    let empty = snapshot(&format!("{head}}}"));
    assert!(
        empty.warnings[0].starts_with("NodeClaim `k` does not say yet what its node will hold"),
        "{:?}",
        empty.warnings
    );
    let asked = CLAIM.replace("spec: {", "spec: {resources: {requests: {cpu: 2}}, ");
    let (head, _) = asked.split_once(", status").unwrap();
    let asked = snapshot(&format!("{head}}}"));
    assert_eq!(amounts(&asked.problem.nodes[0].allocatable), "cpu=2000", "it holds what it is launched for");
}

#[test]
fn a_cordoned_node_repels() {
    let text = node("", "").replace("spec: {", "spec: {unschedulable: true, ");
    assert_eq!(taints(&snapshot(&text).problem.nodes[0]), ["node.kubernetes.io/unschedulable"]);
}

#[test]
fn a_claim_that_ends_takes_its_node_along() {
    let by_claim = CLAIM.replace("name: k,", "name: k, deletionTimestamp: '2026-01-01T00:00:00Z',");
    assert!(snapshot(&[by_claim, node("", "")].concat()).problem.nodes[0].deleting);
    let condition =
        "conditions: [{type: InstanceTerminating, status: 'True', lastTransitionTime: '2026-01-01T00:00:00Z'}]";
    let by_condition = CLAIM.replace("status: {", &format!("status: {{{condition}, "));
    assert!(snapshot(&[by_condition, node("", "")].concat()).problem.nodes[0].deleting);
}

#[test]
fn pods_that_are_evicted_hold_no_room_on_a_node_that_is_rebooted() {
    let pod = "{apiVersion: v1, kind: Pod, metadata: {name: p, deletionTimestamp: '2026-11-26T21:00:00Z'}, \
        spec: {nodeName: n, containers: [{name: m, resources: {requests: {cpu: 2}}}]}}";
    let of = |condition: &str| {
        let claim = CLAIM.replace("status: {", &format!("status: {{conditions: [{condition}], "));
        let here = "{key: karpenter.sh/rebooting, effect: NoSchedule}";
        let snapshot = snapshot(&[&claim, &node("karpenter.sh/registered: 'true'", here), pod].concat());
        (snapshot.problem.nodes[0].bound.len(), taints(&snapshot.problem.nodes[0]).len(), snapshot.problem.pods.len())
    };
    assert_eq!(of("{type: Rebooting, status: 'True', lastTransitionTime: '2026-11-26T20:59:00Z'}"), (0, 0, 0));
    assert_eq!(of("{type: Rebooting, status: 'False', lastTransitionTime: '2026-11-26T20:59:00Z'}"), (1, 1, 0));
}

#[test]
fn a_claim_and_its_node_are_one_by_the_instance_whatever_the_claim_says_of_the_name() {
    let claim = CLAIM
        .replace("name: k,", "name: k, deletionTimestamp: '2026-01-01T00:00:00Z',")
        .replace("status: {", "status: {nodeName: other, ");
    let other = node("", "").replace("name: n,", "name: other,").replace("i-1", "i-2");
    let snapshot = snapshot(&[claim, node("", ""), other].concat());
    let deleting = snapshot.problem.nodes.iter().map(|node| (&*node.name, node.deleting));
    assert_eq!(deleting.collect::<Vec<_>>(), [("n", true), ("other", false)]);
}

#[test]
fn of_two_nodes_with_one_provider_id_the_claim_has_the_one_that_it_names() {
    let claim = CLAIM
        .replace("name: k,", "name: k, deletionTimestamp: '2026-01-01T00:00:00Z',")
        .replace("status: {", "status: {nodeName: n, ");
    let other = node("", "").replace("name: n,", "name: z,");
    let snapshot = snapshot(&[claim, node("", ""), other].concat());
    let deleting = snapshot.problem.nodes.iter().map(|node| (&*node.name, node.deleting));
    assert_eq!(deleting.collect::<Vec<_>>(), [("n", true), ("z", false)]);
}

fn daemon_set(name: &str, spec: &str) -> String {
    format!(
        "{{apiVersion: apps/v1, kind: DaemonSet, metadata: {{name: {name}}}, spec: {{template: {{spec: {{containers: [{{name: c, resources: {{limits: {{cpu: 100m}}}}}}], {spec}}}}}}}}}\n---\n"
    )
}

#[test]
fn daemons_that_are_still_to_come_hold_their_room() {
    let required = |terms: &str| {
        format!(
            "affinity: {{nodeAffinity: {{requiredDuringSchedulingIgnoredDuringExecution: {{nodeSelectorTerms: [{terms}]}}}}}}"
        )
    };
    for (spec, expected) in [
        (String::new(), "cpu=100 pods=1"),
        ("nodeSelector: {zone: a}".to_owned(), "cpu=100 pods=1"),
        ("nodeSelector: {zone: b}".to_owned(), ""),
        ("nodeSelector: {karpenter.sh/initialized: 'true'}".to_owned(), "cpu=100 pods=1"),
        (
            required(
                "{matchExpressions: [{key: zone, operator: In, values: [b]}]}, {matchExpressions: [{key: zone, operator: In, values: [a]}]}",
            ),
            "cpu=100 pods=1",
        ),
        (
            required("{matchExpressions: [{key: kubernetes.io/hostname, operator: In, values: [other]}]}"),
            "cpu=100 pods=1",
        ),
        (required("{matchExpressions: [{key: absent, operator: Exists}]}"), ""),
    ] {
        let snapshot =
            snapshot(&[daemon_set("d", &spec), node("zone: a", "{key: soft, effect: PreferNoSchedule}")].concat());
        assert_eq!(amounts(&snapshot.problem.nodes[0].daemon_requests), expected, "{spec}");
        assert_eq!(snapshot.problem.daemons.len(), 1);
    }
    let tainted = node("", "{key: hard, effect: NoSchedule}");
    assert_eq!(
        amounts(&snapshot(&[daemon_set("d", ""), tainted.clone()].concat()).problem.nodes[0].daemon_requests),
        ""
    );
    let tolerant = daemon_set("d", "tolerations: [{operator: Exists}]");
    assert_eq!(amounts(&snapshot(&[tolerant, tainted].concat()).problem.nodes[0].daemon_requests), "cpu=100 pods=1");
}

#[test]
fn daemons_that_are_there_are_not_expected_again() {
    let there = pod("d-x", "nodeName: n").replacen(
        "metadata: {",
        "metadata: {ownerReferences: [{kind: DaemonSet, name: d, controller: true}], ",
        1,
    );
    let snapshot = snapshot(&[daemon_set("d", ""), daemon_set("e", ""), node("", ""), there].concat());
    let node = &snapshot.problem.nodes[0];
    assert_eq!(amounts(&node.daemon_requests), "cpu=100 pods=1");
    assert_eq!(node.bound.len(), 1);
}

#[test]
fn attached_volumes_count_against_the_limit_once() {
    let claim = |name: &str| {
        format!(
            "{{apiVersion: v1, kind: PersistentVolumeClaim, metadata: {{name: {name}, annotations: {{pv.kubernetes.io/bind-completed: 'yes'}}}}, spec: {{volumeName: pv-{name}}}}}\n---\n{{apiVersion: v1, kind: PersistentVolume, metadata: {{name: pv-{name}}}, spec: {{awsElasticBlockStore: {{volumeID: v}}, claimRef: {{namespace: default, name: {name}}}}}}}\n---\n"
        )
    };
    let uses = |pod_name: &str, name: &str| {
        pod(pod_name, &format!("nodeName: n, volumes: [{{name: v, persistentVolumeClaim: {{claimName: {name}}}}}]"))
    };
    let attached = |name: &str, volume: &str| {
        format!(
            "{{apiVersion: storage.k8s.io/v1, kind: VolumeAttachment, metadata: {{name: {name}}}, spec: {{nodeName: n, attacher: ebs.csi.aws.com, source: {{persistentVolumeName: {volume}}}}}}}\n---\n"
        )
    };
    let csi = "{apiVersion: storage.k8s.io/v1, kind: CSINode, metadata: {name: n}, spec: {drivers: [{name: ebs.csi.aws.com, allocatable: {count: 10}}, {name: efs.csi.aws.com}]}}\n---\n";
    let text = [
        csi.to_owned(),
        node("", ""),
        claim("a"),
        claim("b"),
        uses("p", "a"),
        uses("q", "a"),
        uses("r", "b"),
        attached("x", "pv-a"),
        attached("y", "pv-gone"),
    ]
    .concat();
    let snapshot = snapshot(&text);
    let node = &snapshot.problem.nodes[0];
    assert_eq!(node.attach_limits, [("ebs.csi.aws.com".into(), 10)]);
    let attached: Vec<&str> = node.attached.iter().map(|volume| &*volume.claim).collect();
    assert_eq!(attached, ["default/a", "pv-gone"]);
}

#[test]
fn a_deletion_cost_that_is_not_a_number_is_ignored() {
    let cost = |cost: &str| {
        let pod = format!(
            "{{apiVersion: v1, kind: Pod, metadata: {{name: a, annotations: {{controller.kubernetes.io/pod-deletion-cost: '{cost}'}}}}, \
             spec: {{nodeName: n, containers: [{{name: c}}]}}}}\n---\n"
        );
        let snapshot = snapshot(&[CLAIM, &node("", ""), &pod].concat());
        snapshot.managed_nodes.nodes[0].as_ref().unwrap().node_pods[0].eviction_cost
    };
    assert_eq!(cost("NaN").to_bits(), 1.0_f64.to_bits());
    assert_eq!(cost("134217728").to_bits(), 2.0_f64.to_bits());
}

#[test]
fn a_node_with_a_pod_that_cannot_be_read_takes_no_other_and_stays() {
    let initialized = node("karpenter.sh/registered: 'true', karpenter.sh/initialized: 'true'", "");
    let on_node = |owner: &str| {
        format!(
            "{{apiVersion: v1, kind: Pod, metadata: {{name: a, ownerReferences: [{owner}]}}, spec: {{nodeName: n, containers: [{{name: c}}]}}}}\n---\n"
        )
    };
    let of_daemon = "{apiVersion: apps/v1, kind: DaemonSet, name: d, uid: d, controller: true}";
    for (owner, is_unreadable, expected) in [("", true, true), ("", false, false), (of_daemon, true, false)] {
        let mut manifests = read_text("input", &[CLAIM, &initialized, &on_node(owner)].concat()).unwrap();
        manifests.pods[0].is_unreadable = is_unreadable;
        let snapshot = assemble(&manifests, &Settings::default(), &|_| Catalogue::default()).unwrap();
        let node = &snapshot.problem.nodes[0];
        assert_eq!((node.bound.len(), taints(node).contains(&"muster.dev/unreadable-pod")), (1, expected), "{owner}");
        let managed = snapshot.managed_nodes.nodes[0].as_ref().unwrap();
        assert_eq!(managed.node_pods[0].hold.is_some(), expected, "{owner}");
    }
    // What is not on a node is not planned: nobody knows where it can go.
    let mut manifests = read_text("input", &pod("a", "")).unwrap();
    manifests.pods[0].is_unreadable = true;
    let snapshot = assemble(&manifests, &Settings::default(), &|_| Catalogue::default()).unwrap();
    assert_eq!(pending(&snapshot), [""; 0]);
}
