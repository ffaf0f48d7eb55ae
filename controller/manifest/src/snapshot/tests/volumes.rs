//! Claims and volumes: zones, attachments, and what can never be attached.

use muster_scheduling::model::Refusal;

use super::*;

const CLASS: &str = "{apiVersion: storage.k8s.io/v1, kind: StorageClass, metadata: {name: fast}, provisioner: ebs.csi.aws.com, volumeBindingMode: WaitForFirstConsumer, \
    allowedTopologies: [{matchLabelExpressions: [{key: topology.ebs.csi.aws.com/zone, values: [a, b]}]}]}\n---\n";

fn claim(name: &str, spec: &str) -> String {
    format!(
        "{{apiVersion: v1, kind: PersistentVolumeClaim, metadata: {{name: {name}, annotations: {{pv.kubernetes.io/bind-completed: 'yes'}}}}, spec: {{{spec}}}}}\n---\n"
    )
}

fn volume(name: &str, zones: &str, rest: &str) -> String {
    format!(
        "{{apiVersion: v1, kind: PersistentVolume, metadata: {{name: {name}}}, spec: {{{rest}, nodeAffinity: {{required: {{nodeSelectorTerms: [{{matchExpressions: [{{key: topology.kubernetes.io/zone, operator: In, values: [{zones}]}}]}}]}}}}}}}}\n---\n"
    )
}

fn uses(claims: &[&str]) -> String {
    let volumes: Vec<String> = claims
        .iter()
        .enumerate()
        .map(|(number, claim)| format!("{{name: v{number}, persistentVolumeClaim: {{claimName: {claim}}}}}"))
        .collect();
    pod("p", &format!("volumes: [{}]", volumes.join(", ")))
}

/// The zones of each alternative, and the attachments.
fn wanted(text: &[String]) -> (Vec<String>, Vec<String>) {
    let snapshot = snapshot(&text.concat());
    let spec = only_spec(&snapshot);
    assert_eq!(spec.refusal, None);
    let zones = |term: &muster_scheduling::model::Requirements| {
        term.iter().map(|(key, requirement)| format!("{key} {requirement}")).collect::<Vec<_>>().join(", ")
    };
    let attachments = spec.attachments.iter().map(|attachment| format!("{} {}", attachment.driver, attachment.claim));
    (spec.volume_terms.iter().map(zones).collect(), attachments.collect())
}

fn refusal(text: &[String]) -> String {
    match &only_spec(&snapshot(&text.concat())).refusal {
        Some(Refusal::Volume { why, fix }) => format!("{why}; {fix}"),
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_bound_claim_is_where_its_volume_is() {
    let text = [uses(&["c"]), claim("c", "volumeName: v"), volume("v", "a", "csi: {driver: ebs.csi.aws.com}")];
    let zone = vec!["topology.kubernetes.io/zone In [a]".to_owned()];
    assert_eq!(wanted(&text), (zone.clone(), vec!["ebs.csi.aws.com default/c".to_owned()]));
    let text = [uses(&["c"]), claim("c", "volumeName: v"), volume("v", "a", "awsElasticBlockStore: {volumeID: x}")];
    assert_eq!(wanted(&text), (zone, vec!["ebs.csi.aws.com default/c".to_owned()]));
}

#[test]
fn a_claim_to_be_bound_is_where_its_class_allows() {
    let zone = vec!["topology.kubernetes.io/zone In [a b]".to_owned()];
    let attachment = vec!["ebs.csi.aws.com default/c".to_owned()];
    assert_eq!(
        wanted(&[uses(&["c"]), claim("c", "storageClassName: fast"), CLASS.to_owned()]),
        (zone.clone(), attachment.clone())
    );
    let annotated = claim("c", "storageClassName: none")
        .replace("annotations: {", "annotations: {volume.beta.kubernetes.io/storage-class: fast, ");
    let by_annotation = wanted(&[uses(&["c"]), annotated, CLASS.to_owned()]);
    assert_eq!(by_annotation, (zone.clone(), attachment.clone()), "Kubernetes prefers it");
    let default =
        CLASS.replace("name: fast", "name: fast, annotations: {storageclass.kubernetes.io/is-default-class: 'true'}");
    let older =
        default.replace("name: fast", "name: old, creationTimestamp: '2020-01-01T00:00:00Z'").replace("[a, b]", "[z]");
    let newer = default.replace("name: fast", "name: fast, creationTimestamp: '2021-01-01T00:00:00Z'");
    assert_eq!(wanted(&[uses(&["c"]), claim("c", ""), older, newer]), (zone, attachment));
}

#[test]
fn alternatives_of_several_claims_are_combined_and_contradictions_pruned() {
    let terms = "{matchExpressions: [{key: topology.kubernetes.io/zone, operator: In, values: [a]}]}, {matchExpressions: [{key: topology.kubernetes.io/zone, operator: In, values: [c]}]}";
    let either = format!(
        "{{apiVersion: v1, kind: PersistentVolume, metadata: {{name: w}}, spec: {{csi: {{driver: d}}, nodeAffinity: {{required: {{nodeSelectorTerms: [{terms}]}}}}}}}}\n---\n"
    );
    let both = [
        uses(&["c", "e"]),
        claim("c", "volumeName: v"),
        claim("e", "volumeName: w"),
        volume("v", "a, b", "csi: {driver: d}"),
        either.clone(),
    ];
    assert_eq!(wanted(&both).0, ["topology.kubernetes.io/zone In [a]"]);
    let apart = [
        uses(&["c", "e"]),
        claim("c", "volumeName: v"),
        claim("e", "volumeName: w"),
        volume("v", "b", "csi: {driver: d}"),
        either,
    ];
    assert_eq!(
        refusal(&apart),
        "persistent volume claim `default/e` cannot be attached where the pod's other volumes can: it is in a, c, they are in \
         b; a node has one zone: restore a snapshot of one of the volumes in the zone of the others"
    );
}

#[test]
fn a_volume_of_one_node_does_not_name_the_node() {
    let local = "{apiVersion: v1, kind: PersistentVolume, metadata: {name: v}, spec: {local: {path: /d}, nodeAffinity: {required: {nodeSelectorTerms: [{matchExpressions: [{key: kubernetes.io/hostname, operator: In, values: [n]}, {key: disk, operator: Exists}]}]}}}}\n---\n".to_owned();
    assert_eq!(
        wanted(&[uses(&["c"]), claim("c", "volumeName: v"), local.clone()]),
        (vec!["disk Exists".to_owned()], vec![])
    );
    let only = local.replace(", {key: disk, operator: Exists}", "");
    assert_eq!(wanted(&[uses(&["c"]), claim("c", "volumeName: v"), only]), (vec![], vec![]));
}

#[test]
fn claims_of_templates_need_not_exist() {
    let set = "{apiVersion: apps/v1, kind: StatefulSet, metadata: {name: s}, spec: {volumeClaimTemplates: [{metadata: {name: data}, spec: {storageClassName: fast}}], template: {spec: {containers: [{name: c}], volumes: [{name: tmp, ephemeral: {volumeClaimTemplate: {spec: {storageClassName: fast}}}}]}}}}\n---\n".to_owned();
    let (terms, attachments) = wanted(&[set.clone(), CLASS.to_owned()]);
    assert_eq!(terms, ["topology.kubernetes.io/zone In [a b]"]);
    assert_eq!(attachments, ["ebs.csi.aws.com default/data-s-0", "ebs.csi.aws.com default/s-0-tmp"]);
    let bound =
        [set, CLASS.to_owned(), claim("data-s-0", "volumeName: v"), volume("v", "b", "csi: {driver: ebs.csi.aws.com}")];
    assert_eq!(wanted(&bound).0, ["topology.kubernetes.io/zone In [b]"]);
}

#[test]
fn what_can_never_be_attached_is_a_refusal_that_says_why() {
    let class = |change: (&str, &str)| CLASS.replace(change.0, change.1);
    let unbound = claim("c", "storageClassName: fast");
    let bound = claim("c", "volumeName: v");
    let v = volume("v", "a", "csi: {driver: d}");
    for (objects, expected) in [
        (vec![], "persistent volume claim `default/c` is not in the input"),
        (
            vec![bound.replace("name: c,", "name: c, deletionTimestamp: '2026-01-01T00:00:00Z',")],
            "claim `default/c` is being deleted",
        ),
        (vec![bound.replacen("spec:", "status: {phase: Lost}, spec:", 1)], "claim `default/c` has lost its volume"),
        (
            vec![bound.clone()],
            "persistent volume claim `default/c` is bound to volume `v`, which is not in the input; if the volume is gone",
        ),
        (
            vec![bound.clone(), v.replace("name: v}", "name: v, deletionTimestamp: '2026-01-01T00:00:00Z'}")],
            "persistent volume `v` of claim `default/c` is being deleted",
        ),
        (
            vec![bound.replace("bind-completed", "other"), v.clone()],
            "annotation `pv.kubernetes.io/bind-completed` is missing); wait for the binding",
        ),
        (
            vec![
                bound.replace("bind-completed", "other"),
                v.replace("csi:", "claimRef: {namespace: a, name: b}, csi:"),
            ],
            "names volume `v`, which belongs to claim `a/b`",
        ),
        (
            vec![bound.clone(), v.replace("driver: d}", "driver: disk.csi.azure.com}")],
            "is a disk of `disk.csi.azure.com`, which no EC2 instance can attach",
        ),
        (vec![unbound.clone()], "storage class `fast` of persistent volume claim `default/c` is not in the input"),
        (vec![claim("c", "storageClassName: ''")], "is not bound and has no storage class"),
        (vec![claim("c", "")], "no storage class in the input is the default"),
        (vec![unbound.clone(), class(("WaitForFirstConsumer", "Immediate"))], "storage class `fast` binds immediately"),
        (
            vec![unbound.clone(), class(("ebs.csi.aws.com,", "ebs.csi.eks.amazonaws.com,"))],
            "serves EKS Auto Mode nodes only",
        ),
        (
            vec![unbound.clone(), class(("topology.ebs.csi.aws.com/zone", "eks.amazonaws.com/compute-type"))],
            "which are those of EKS Auto Mode",
        ),
        (
            vec![unbound.clone(), class(("ebs.csi.aws.com,", "kubernetes.io/azure-disk,"))],
            "makes disks of another cloud (`kubernetes.io/azure-disk`)",
        ),
        (
            vec![unbound.clone(), class(("name: fast", "name: fsat"))],
            "storage class `fast` of persistent volume claim `default/c` is not in the input; did you mean `fsat`?",
        ),
        (
            vec![unbound.replace("name: c,", "name: c, namespace: other,")],
            "a claim of this name is `other/c`: a pod can only use claims of its own namespace",
        ),
        (
            vec![unbound, class(("ebs.csi.aws.com,", "kubernetes.io/glusterfs,"))],
            "in-tree plugin `kubernetes.io/glusterfs`, which no longer exists",
        ),
    ] {
        let reason = refusal(&[vec![uses(&["c"])], objects].concat());
        assert!(reason.contains(expected), "{reason}");
    }
}

#[test]
fn disks_of_other_clouds_are_refused_by_their_plugin() {
    for (source, plugin) in [
        ("azureDisk: {diskName: d, diskURI: u}", "azureDisk"),
        ("gcePersistentDisk: {pdName: d}", "gcePersistentDisk"),
        ("glusterfs: {endpoints: e, path: p}", "glusterfs"),
    ] {
        let why = refusal(&[pod("p", &format!("volumes: [{{name: data, {source}}}]"))]);
        let expected = format!(
            "volume `data` uses the in-tree plugin `{plugin}`, which no EC2 instance can serve; replace `{plugin}`"
        );
        assert!(why.starts_with(&expected), "{why}");
    }
    let ebs = [pod("p", "volumes: [{name: data, awsElasticBlockStore: {volumeID: vol-1}}]")];
    assert_eq!(wanted(&ebs).1, ["ebs.csi.aws.com vol-1"]);
}
