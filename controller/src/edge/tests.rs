//! What is sent for a write, what an answer means, and when nothing is sent.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use http::Request;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::Client;
use kube::client::Body;
use kube::core::Status;
use muster_api::conditions::nodeclaim;
use muster_api::nodeclaim::NodeClaimStatus;
use muster_api::{NodeClaim, NodeClassReference, Quantities, taints};
use muster_stages::lifecycle::{Answers, Class, Eviction, Readiness, condition};
use muster_stages::step::{MetaChange, NodeChange, Step, Subject, Write};
use serde_json::{Value, json};
use tokio::time::Instant;

use super::fate::Fate;
use super::request::{Defect, Written, difference, request};
use super::{Edge, End, Fence, ObservedVersions, Pace, Recorder, evicted};
use crate::kwok::{Kwok, instance_types};

fn claim(status: Value) -> NodeClaim {
    let object = json!({
        "apiVersion": "karpenter.sh/v1", "kind": "NodeClaim",
        "metadata": {"name": "a", "uid": "u-a", "resourceVersion": "7"},
        "spec": {"requirements": [], "nodeClassRef": {"group": "karpenter.kwok.sh", "kind": "KWOKNodeClass", "name": "c"}},
        "status": status,
    });
    serde_json::from_value(object).unwrap()
}

fn node() -> muster_stages::node::Node {
    serde_json::from_value(json!({"metadata": {"name": "n", "resourceVersion": "9"}})).unwrap()
}

fn class() -> Class {
    Class {
        reference: NodeClassReference {
            group: "karpenter.kwok.sh".to_owned(),
            kind: "KWOKNodeClass".to_owned(),
            name: "c".to_owned(),
        },
        meta: ObjectMeta { resource_version: Some("3".to_owned()), ..ObjectMeta::default() },
        conditions: Vec::new(),
        readiness: Readiness::Ready,
        hash: String::new(),
        bootstrap_fault: None,
        hands_over_taints: false,
        tags_instances: false,
        reboots_instances: false,
        block_ends: BTreeMap::new(),
    }
}

fn pod() -> Subject {
    let text = str::to_owned;
    Subject { kind: text("Pod"), namespace: Some(text("default")), name: text("web-0"), uid: text("u-p") }
}

/// The request as a line, and its body.
fn told(request: &Request<Vec<u8>>) -> (String, Value) {
    let content = request.headers()["content-type"].to_str().unwrap();
    let line = format!("{} {} {content}", request.method(), request.uri());
    (line, serde_json::from_slice(request.body()).unwrap())
}

#[test]
fn changes_name_the_version_that_was_seen() {
    let observed = ObservedVersions::default().claim(&claim(Value::Null)).node(&node()).class(&class());
    let mut change = MetaChange::default().annotation("x", "1").without_annotation("y");
    change.finalizers = Some(vec!["f".to_owned()]);
    let (line, body) =
        told(&request(&Write::ClaimMeta { name: "a".to_owned(), change: change.clone() }, &observed).unwrap());
    assert_eq!(line, "PATCH /apis/karpenter.sh/v1/nodeclaims/a?fieldManager=muster application/merge-patch+json");
    assert_eq!(
        body,
        json!({"metadata": {"resourceVersion": "7", "annotations": {"x": "1", "y": null}, "finalizers": ["f"]}})
    );
    let change = NodeChange { meta: MetaChange::default(), taints: Some(vec![taints::disrupted()]) };
    let (line, body) = told(&request(&Write::Node { name: "n".to_owned(), change }, &observed).unwrap());
    assert!(line.starts_with("PATCH /api/v1/nodes/n?"), "{line}");
    let taint = json!({"key": "karpenter.sh/disrupted", "effect": "NoSchedule"});
    assert_eq!(body, json!({"metadata": {"resourceVersion": "9"}, "spec": {"taints": [taint]}}));
    let (line, _) = told(&request(&Write::ClassMeta(MetaChange::default().annotation("x", "1")), &observed).unwrap());
    assert!(line.starts_with("PATCH /apis/karpenter.kwok.sh/v1alpha1/kwoknodeclasses/c?"), "{line}");
}

#[test]
fn what_was_not_seen_is_not_changed() {
    let write = Write::Node { name: "other".to_owned(), change: NodeChange::default() };
    let observed = ObservedVersions::default().node(&node());
    assert_eq!(request(&write, &observed).unwrap_err(), Defect::NotHeld("other".to_owned()));
    assert!(matches!(request(&Write::ClassMeta(MetaChange::default()), &observed), Err(Defect::NotHeld(_))));
}

#[test]
fn a_status_is_replaced_and_what_we_do_not_know_is_kept() {
    let before = json!({"nodeName": "n", "capacity": {"cpu": "1", "memory": "1Gi"}, "conditions": []});
    let mut observed = ObservedVersions::default().claim(&claim(before));
    let status = NodeClaimStatus {
        provider_id: Some("kwok://n".to_owned()),
        capacity: Quantities::from([("cpu".to_owned(), serde_json::from_value(json!("2")).unwrap())]),
        ..NodeClaimStatus::default()
    };
    let write = Write::ClaimStatus { name: "a".to_owned(), status: Box::new(status) };
    let (line, body) = told(&request(&write, &observed).unwrap());
    assert!(line.starts_with("PATCH /apis/karpenter.sh/v1/nodeclaims/a/status?"), "{line}");
    let wanted = json!({"nodeName": null, "providerID": "kwok://n", "capacity": {"cpu": "2", "memory": null}});
    assert_eq!(body, json!({"metadata": {"resourceVersion": "7"}, "status": wanted}));

    observed.note(&write, serde_json::from_value::<Written>(json!({"metadata": {"resourceVersion": "8"}})).unwrap());
    let (_, body) = told(&request(&write, &observed).unwrap());
    assert_eq!(body, json!({"metadata": {"resourceVersion": "8"}, "status": {}}), "the next write is on top of it");
}

#[test]
fn a_condition_of_a_class_stands_beside_the_others() {
    let mut seen = class();
    seen.conditions = claim(json!({"conditions": [
        {"type": "Ready", "status": "True", "reason": "Ready", "message": "", "lastTransitionTime": "2026-01-01T00:00:00Z"},
    ]}))
    .status
    .unwrap()
    .conditions;
    let observed = ObservedVersions::default().class(&seen);
    let other = k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition {
        type_: "LaunchesSucceed".to_owned(),
        ..condition(&claim(json!({"conditions": [
            {"type": nodeclaim::LAUNCHED, "status": "False", "reason": "x", "message": "", "lastTransitionTime": "2026-01-01T00:00:00Z"},
        ]})), nodeclaim::LAUNCHED).unwrap().clone()
    };
    let (line, body) = told(&request(&Write::ClassCondition(other), &observed).unwrap());
    assert!(line.starts_with("PATCH /apis/karpenter.kwok.sh/v1alpha1/kwoknodeclasses/c/status?"), "{line}");
    let types: Vec<&Value> = body["status"]["conditions"].as_array().unwrap().iter().map(|it| &it["type"]).collect();
    assert_eq!(types, ["LaunchesSucceed", "Ready"]);
}

#[test]
fn what_ends_something_names_its_uid() {
    let observed = ObservedVersions::default();
    let evict = told(&request(&Write::Evict(pod()), &observed).unwrap());
    assert_eq!(evict.0, "POST /api/v1/namespaces/default/pods/web-0/eviction application/json");
    assert_eq!(evict.1["deleteOptions"], json!({"preconditions": {"uid": "u-p"}}));
    let delete = Write::DeletePod { pod: pod(), grace: Duration::from_secs(3) };
    let (line, body) = told(&request(&delete, &observed).unwrap());
    assert_eq!(line, "DELETE /api/v1/namespaces/default/pods/web-0 application/json");
    assert_eq!((&body["gracePeriodSeconds"], &body["preconditions"]), (&json!(3), &json!({"uid": "u-p"})));
    let nominate = Write::Nominate { pod: pod(), node: None };
    let (line, body) = told(&request(&nominate, &observed).unwrap());
    assert!(line.starts_with("PATCH /api/v1/namespaces/default/pods/web-0/status?"), "{line}");
    assert_eq!(body, json!({"metadata": {"uid": "u-p"}, "status": {"nominatedNodeName": null}}));
    let (line, body) = told(&request(&Write::PodDeletionCost { pod: pod(), cost: Some(-3) }, &observed).unwrap());
    assert!(line.starts_with("PATCH /api/v1/namespaces/default/pods/web-0?"), "{line}");
    let annotations = json!({"controller.kubernetes.io/pod-deletion-cost": "-3"});
    assert_eq!(body, json!({"metadata": {"uid": "u-p", "annotations": annotations}}));
}

#[test]
fn a_claim_is_created_without_a_status() {
    let created = Write::CreateClaim(Box::new(claim(json!({"nodeName": "n"}))));
    let (line, body) = told(&request(&created, &ObservedVersions::default()).unwrap());
    assert_eq!(line, "POST /apis/karpenter.sh/v1/nodeclaims?fieldManager=muster application/json");
    assert_eq!((&body["kind"], body.get("status")), (&json!("NodeClaim"), None));
}

#[test]
fn a_difference_is_a_merge_patch() {
    let before = json!({"a": 1, "b": {"c": 1, "d": 2}, "e": [1, 2]});
    let after = json!({"b": {"c": 1, "d": 3}, "e": [1], "f": {}});
    assert_eq!(difference(&before, &after), json!({"a": null, "b": {"d": 3}, "e": [1], "f": {}}));
    assert_eq!(difference(&after, &after), json!({}));
    assert_eq!(difference(&Value::Null, &after), after);
}

fn refused(code: u16, reason: &str, details: &Value) -> kube::Error {
    let status = json!({"code": code, "reason": reason, "message": "words", "details": details});
    kube::Error::Api(serde_json::from_value::<Status>(status).unwrap().boxed())
}

#[test]
fn what_an_answer_means() {
    let none = json!({});
    let create = Write::CreateClaim(Box::new(claim(Value::Null)));
    let delete = Write::DeleteClaim {
        name: "a".to_owned(),
        uid: "u".to_owned(),
        cause: muster_stages::step::DeletionCause::Expired,
    };
    let meta = Write::ClaimMeta { name: "a".to_owned(), change: MetaChange::default() };
    let evict = Write::Evict(pod());
    let words = || "words".to_owned();
    assert_eq!(Fate::of(&create, &refused(409, "AlreadyExists", &none)), Fate::Done, "the same decision");
    assert_eq!(Fate::of(&delete, &refused(409, "Conflict", &none)), Fate::Gone, "another one of that name");
    assert_eq!(Fate::of(&meta, &refused(409, "Conflict", &none)), Fate::Conflict);
    assert_eq!(Fate::of(&meta, &refused(404, "NotFound", &none)), Fate::Gone);
    assert_eq!(Fate::of(&meta, &refused(422, "Invalid", &none)), Fate::Refused(words()));
    assert_eq!(Fate::of(&meta, &refused(403, "Forbidden", &none)), Fate::Refused(words()));
    assert_eq!(Fate::of(&meta, &refused(429, "TooManyRequests", &none)), Fate::Unavailable(words()));
    assert_eq!(Fate::of(&meta, &refused(503, "ServiceUnavailable", &none)), Fate::Unavailable(words()));

    let budget = json!({"causes": [{"reason": "DisruptionBudget", "message": "The disruption budget web needs 3 healthy pods and has 3 currently"}]});
    let eviction = |code, details: &Value| evicted(&Fate::of(&evict, &refused(code, "", details)));
    let needed = "the disruption budget web needs 3 healthy pods and has 3 currently".to_owned();
    assert_eq!(eviction(429, &budget), Eviction::Blocked(needed));
    assert_eq!(eviction(429, &none), Eviction::Failed(words()), "a busy server is no budget");
    assert_eq!(eviction(404, &none), Eviction::Done);
    assert_eq!(eviction(409, &none), Eviction::Done);
    assert_eq!(eviction(500, &none), Eviction::Failed(words()));
    assert_eq!(evicted(&Fate::Done), Eviction::Done);
    let two = "This pod has more than one PodDisruptionBudget, which the eviction subresource does not support.";
    assert_eq!(evicted(&Fate::Refused(two.to_owned())), Eviction::Ambiguous(two.to_owned()));
}

#[tokio::test]
async fn a_pod_whose_deletion_is_denied_does_not_keep_the_others() {
    let asked = Arc::new(Mutex::new(Vec::new()));
    let seen = Arc::clone(&asked);
    let service = tower::service_fn(move |request: Request<Body>| {
        let path = request.uri().path().to_owned();
        let code = if path.contains("/locked/") { 403_u16 } else { 200 };
        seen.lock().unwrap().push(path);
        let status = json!({"kind": "Status", "status": "Failure", "message": "denied", "code": code});
        let body = Body::from(status.to_string().into_bytes());
        std::future::ready(http::Response::builder().status(code).body(body))
    });
    let client = Client::new(service, "default");
    let (gate, fence) = Fence::closed();
    gate.open();
    let cloud = Kwok::new(client.clone(), instance_types().into());
    let recorder = Recorder::new(client.clone(), Pace::new(10, 10), "we");
    let edge = Edge::new(client, cloud, fence, Pace::new(10, 10), recorder);
    let delete = |namespace: &str| {
        let pod = Subject { namespace: Some(namespace.to_owned()), ..pod() };
        Write::DeletePod { pod, grace: Duration::from_secs(1) }
    };
    let step = Step::act([delete("locked"), delete("shop")]);
    let end = edge.carry_out(&step, &mut ObservedVersions::default(), &mut Answers::default()).await;
    assert_eq!(end, End::Done);
    let paths = ["/api/v1/namespaces/locked/pods/web-0", "/api/v1/namespaces/shop/pods/web-0"];
    assert_eq!(*asked.lock().unwrap(), paths);
}

#[tokio::test(start_paused = true)]
async fn nothing_is_written_without_the_lease() {
    let (gate, mut fence) = Fence::closed();
    assert_eq!(fence.keep(async { 1 }).await, None);
    gate.open_until(Instant::now() + Duration::from_secs(10));
    assert_eq!(fence.keep(async { 1 }).await, Some(1));
    // What outlasts the lease goes on if that is renewed meanwhile.
    let (done, ()) = tokio::join!(fence.keep(tokio::time::sleep(Duration::from_secs(15))), async {
        tokio::time::sleep(Duration::from_secs(5)).await;
        gate.open_until(Instant::now() + Duration::from_secs(11));
    });
    assert_eq!(done, Some(()));
    gate.open_until(Instant::now() + Duration::from_secs(10));
    // What is on its way when the lease runs out is given up.
    let start = Instant::now();
    assert_eq!(fence.keep(tokio::time::sleep(Duration::from_secs(60))).await, None);
    assert_eq!(start.elapsed(), Duration::from_secs(10));
    assert!(!fence.is_open(), "nobody has prolonged it");
    fence.closes().await;

    gate.open();
    assert!(fence.opened().await && fence.is_open());
    drop(gate);
    assert!(!fence.is_open(), "nobody can close it any more");
}
