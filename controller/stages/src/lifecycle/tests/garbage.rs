//! Garbage collection, and the breaker of a class.

use std::collections::BTreeMap;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use muster_api::{annotations, labels};
use muster_cloud::{Instance, InstanceState};

use super::fixture::{Fixture, at, in_words, instance};
use crate::lifecycle::breaker;
use crate::lifecycle::garbage::{GarbageInput, collect};

fn collected(fixture: &Fixture, instances: &[Instance], second: i64) -> Vec<String> {
    let input = GarbageInput {
        listed_at: at(second),
        instances,
        claims: vec![&fixture.claim],
        nodes: fixture.nodes.iter().collect(),
    };
    let step = collect(&input, at(second));
    assert_eq!(step.again, Some(at(second + 120)));
    in_words(&crate::lifecycle::Step { again: None, ..step })
}

#[test]
fn instances_without_a_claim_end() {
    let mut fixture = Fixture::new();
    let ours = instance(InstanceState::Running);
    let nothing: [&str; 0] = [];
    assert_eq!(collected(&fixture, std::slice::from_ref(&ours), 500), nothing, "its claim is being launched");
    let mut foreign = ours.clone();
    foreign.token = None;
    let ends = [r#"Terminate("aws:///eu-west-1a/i-1")"#];
    assert_eq!(collected(&fixture, std::slice::from_ref(&foreign), 29), nothing, "its claim may not be known yet");
    assert_eq!(collected(&fixture, std::slice::from_ref(&foreign), 30), ends);
    let mut ending = foreign.clone();
    ending.state = InstanceState::ShuttingDown;
    assert_eq!(collected(&fixture, &[ending], 30), nothing, "it is ending already");
    fixture.launched();
    assert_eq!(collected(&fixture, &[foreign], 30), nothing, "Karpenter launched it, and a claim has it");
    fixture.claim.status.as_mut().unwrap().provider_id = Some("aws:///eu-west-1a/i-2".to_owned());
    assert_eq!(collected(&fixture, &[ours], 30), ends, "its claim has another one");
}

#[test]
fn nodes_without_claim_and_instance_go() {
    let mut fixture = Fixture::new();
    fixture.registered().ready("Unknown", "NodeStatusUnknown");
    fixture.nodes[0].metadata.creation_timestamp = Some(Time(at(0)));
    let pool = (labels::NODEPOOL.to_owned(), "default".to_owned());
    fixture.nodes[0].metadata.labels.get_or_insert_default().extend([pool]);
    let nothing: [&str; 0] = [];
    assert_eq!(collected(&fixture, &[], 500), nothing, "it has a claim");
    fixture.claim.status = None;
    assert_eq!(collected(&fixture, &[instance(InstanceState::Running)], 500), nothing, "it has an instance");
    assert_eq!(collected(&fixture, &[], 500), ["delete node node-1", "node node-1: finalizers []"]);
    fixture.ready("True", "KubeletReady");
    assert_eq!(collected(&fixture, &[], 500), nothing, "somebody reports from there");
    fixture.ready("Unknown", "NodeStatusUnknown");
    fixture.nodes[0].metadata.labels = Some(BTreeMap::new());
    assert_eq!(collected(&fixture, &[], 500), nothing, "it is not ours");
}

#[test]
fn the_condition_of_a_class_follows_its_failures() {
    let mut fixture = Fixture::new();
    let judged = |fixture: &Fixture| in_words(&breaker::judge(&fixture.class, at(0)));
    let nothing: [&str; 0] = [];
    let failures = |hash: &str, claims: &str| {
        let at = "1970-01-01T00:00:00Z";
        format!(r#"{{"hash":"{hash}","reason":"R","message":"m","claims":[{claims}],"at":"{at}"}}"#)
    };
    assert_eq!(judged(&fixture), nothing, "nothing ever failed");
    fixture.annotate_class(annotations::LAUNCH_FAILURES, &failures("1", r#""1","2""#));
    assert_eq!(judged(&fixture), nothing, "two are no rule");
    fixture.annotate_class(annotations::LAUNCH_FAILURES, &failures("1", r#""1","2","3""#));
    let step = judged(&fixture);
    assert!(step[0].starts_with("event LaunchesStopped about default: nothing is launched with NodeClass `default`"));
    assert_eq!(step[1..], ["class condition: LaunchesSucceed=False R"]);
    fixture.annotate_class(annotations::RESET_BREAKER, "true");
    assert_eq!(
        judged(&fixture),
        [
            "event LaunchesResumed about default: launches are resumed: a reset was requested",
            "class: -muster.dev/launch-failures -muster.dev/reset-breaker"
        ]
    );
    fixture.class.meta.annotations = None;
    fixture.annotate_class(annotations::LAUNCH_FAILURES, &failures("0", r#""1","2","3""#));
    assert_eq!(judged(&fixture), ["class: -muster.dev/launch-failures"], "the class has changed");
    fixture.annotate_class(annotations::LAUNCH_FAILURES, "what somebody wrote");
    assert_eq!(judged(&fixture), ["class: -muster.dev/launch-failures"], "nobody can read it");
}
