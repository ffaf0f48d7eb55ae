use muster_manifest::snapshot::ResolvedBuffer;
use serde_json::{Value, json};

use super::*;
use crate::state::Kind;

fn second(second: i64) -> Timestamp {
    Timestamp::from_second(second).unwrap()
}

fn cluster(spec: &Value) -> Cluster {
    let mut cluster = Cluster::default();
    let template = json!({"apiVersion": "v1", "kind": "PodTemplate",
        "metadata": {"name": "chunk", "namespace": "shop", "generation": 4},
        "template": {"spec": {"containers": [{"name": "main"}]}}});
    cluster.apply_object(Kind::PodTemplate, &template);
    let buffer = json!({"apiVersion": "autoscaling.x-k8s.io/v1beta1", "kind": "CapacityBuffer",
        "metadata": {"name": "spare", "namespace": "shop", "generation": 2, "resourceVersion": "7"}, "spec": spec});
    cluster.apply_object(Kind::CapacityBuffer, &buffer);
    cluster
}

fn outcome(pods: Result<u32, Unresolved>, existing: u32, coming: u32, failed: u32) -> BufferOutcome {
    let buffer = ResolvedBuffer { path: "shop/spare".into(), generation: Some(2), pods };
    BufferOutcome { buffer, places: BufferPlaces { existing, coming, failed, why: None } }
}

fn status_of(step: &Step) -> CapacityBufferStatus {
    match step.writes.as_slice() {
        [Write::BufferStatus { path, status }] if path == "shop/spare" => (**status).clone(),
        other => panic!("{other:?}"),
    }
}

fn spoken(status: &CapacityBufferStatus) -> Vec<String> {
    status
        .conditions
        .iter()
        .map(|one| format!("{}={} {}: {}", one.type_, one.status, one.reason, one.message))
        .collect()
}

const READY: &str = "ReadyForProvisioning=True Resolved: Pod template resolved successfully";

#[test]
fn a_buffer_says_what_it_keeps_once() {
    let mut cluster = cluster(&json!({"podTemplateRef": {"name": "chunk"}, "replicas": 5}));
    let coming = outcome(Ok(5), 2, 3, 0);
    let status = status_of(&decide(&cluster, &[coming], second(5)));
    assert_eq!((status.replicas, status.pod_template_generation), (Some(5), Some(4)));
    assert_eq!(status.pod_template_ref.as_ref().unwrap().name, "chunk");
    assert_eq!(status.provisioning_strategy.as_deref(), Some("buffer.x-k8s.io/active-capacity"));
    let new = "Provisioning=False RequiresNewCapacity: 3/5 virtual pods required new capacity, 0 failed";
    assert_eq!(spoken(&status), [new, READY]);

    let held = [outcome(Ok(5), 5, 0, 0)];
    let status = status_of(&decide(&cluster, &held, second(5)));
    let fits = "Provisioning=True FitsExistingCapacity: All 5 virtual pods fit on existing capacity";
    assert_eq!(spoken(&status), [fits, READY]);
    let (_, live) = cluster.buffers().next().unwrap();
    let mut typed = live.typed.clone();
    typed.status = Some(status);
    cluster.apply_object(Kind::CapacityBuffer, &typed);
    assert_eq!(decide(&cluster, &held, second(9)), Step::rest());
    assert_eq!(decide(&cluster, &[], second(9)), Step::rest(), "no round has seen it");
    let mut old = held[0].clone();
    old.buffer.generation = Some(1);
    old.buffer.pods = Ok(1);
    assert_eq!(decide(&cluster, &[old], second(9)), Step::rest(), "the round has seen another spec");
}

#[test]
fn what_can_never_have_room_is_infeasible() {
    let cluster = cluster(&json!({"podTemplateRef": {"name": "chunk"}, "replicas": 5}));
    for (why, reason) in [(Reason::Limits, "RequiresNewCapacity"), (Reason::Resources, "Infeasible")] {
        let mut refused = outcome(Ok(5), 2, 0, 3);
        refused.places.why = Some((why.name(), "no".to_owned()));
        let status = status_of(&decide(&cluster, &[refused], second(5)));
        let said = format!("Provisioning=False {reason}: 0/5 virtual pods required new capacity, 3 failed: no");
        assert_eq!(spoken(&status), [said.as_str(), READY]);
    }
}

#[test]
fn a_buffer_without_template_or_pods_says_so() {
    let cluster = cluster(&json!({"podTemplateRef": {"name": "other"}, "replicas": 5}));
    let lost = outcome(Err(Unresolved::NoTemplate("shop/other".into())), 0, 0, 0);
    let status = status_of(&decide(&cluster, &[lost], second(5)));
    assert_eq!((status.replicas, &status.pod_template_ref), (None, &None));
    assert_eq!(
        spoken(&status),
        [
            "Provisioning=False NotReadyForProvisioning: Buffer is not ReadyForProvisioning",
            "ReadyForProvisioning=False PodTemplateNotFound: PodTemplate `shop/other` does not exist",
        ]
    );
    let status = status_of(&decide(&cluster, &[outcome(Ok(0), 0, 0, 0)], second(5)));
    assert_eq!(spoken(&status), ["Provisioning=False BufferEmpty: Buffer has zero desired replicas", READY]);
}

#[test]
fn namespaces_take_turns() {
    let mut cluster = Cluster::default();
    let mut outcomes = Vec::new();
    for number in 0..150 {
        let namespace = if number == 149 { "z" } else { "a" };
        let spec = json!({"podTemplateRef": {"name": "chunk"}, "replicas": 1});
        let meta = json!({"name": format!("b{number}"), "namespace": namespace, "generation": 2});
        let kind = json!({"apiVersion": "autoscaling.x-k8s.io/v1beta1", "kind": "CapacityBuffer"});
        let mut buffer = kind;
        buffer["metadata"] = meta;
        buffer["spec"] = spec;
        cluster.apply_object(Kind::CapacityBuffer, &buffer);
        let path = format!("{namespace}/b{number}").into();
        let buffer = ResolvedBuffer { path, ..outcome(Ok(1), 1, 0, 0).buffer };
        outcomes.push(BufferOutcome { buffer, places: BufferPlaces::default() });
    }
    let step = decide(&cluster, &outcomes, second(5));
    assert_eq!((step.writes.len(), step.again), (AT_ONCE, Some(second(5))));
    let is_of_z = |write: &Write| matches!(write, Write::BufferStatus { path, .. } if path == "z/b149");
    assert_eq!(step.writes.iter().position(is_of_z), Some(1));
}
