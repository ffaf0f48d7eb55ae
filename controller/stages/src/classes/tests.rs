use std::collections::BTreeMap;

use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, Time};
use muster_api::{NodeClaim, NodeClaimSpec, NodeClassReference};
use serde_json::json;

use super::*;
use crate::lifecycle::Readiness;

fn moment(second: i64) -> Timestamp {
    Timestamp::from_second(second).unwrap()
}

fn class() -> Class {
    Class {
        reference: NodeClassReference {
            group: "karpenter.k8s.aws".to_owned(),
            kind: "EC2NodeClass".to_owned(),
            name: "default".to_owned(),
        },
        meta: ObjectMeta { name: Some("default".to_owned()), uid: Some("u".to_owned()), ..ObjectMeta::default() },
        conditions: Vec::new(),
        readiness: Readiness::Ready,
        hash: "7".to_owned(),
        bootstrap_fault: None,
        hands_over_taints: true,
        tags_instances: true,
        reboots_instances: true,
        block_ends: BTreeMap::new(),
    }
}

fn claim(name: &str, annotations: &[(&str, &str)]) -> NodeClaim {
    let mut claim = NodeClaim::new(name, NodeClaimSpec::default());
    let own = annotations.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned()));
    claim.metadata.annotations = Some(own.collect::<BTreeMap<_, _>>());
    claim
}

fn drifted(mut claim: NodeClaim) -> NodeClaim {
    let condition = json!({"type": "Drifted", "status": "True", "reason": "AMIDrift", "message": "",
        "lastTransitionTime": "2026-01-01T00:00:00Z"});
    claim.status.get_or_insert_default().conditions = vec![serde_json::from_value(condition).unwrap()];
    claim
}

/// What is done until nothing is left to do, in words.
fn settle(class: &mut Class, kind: Kind, claims: &mut [NodeClaim]) -> Vec<String> {
    let mut words = Vec::new();
    for _ in 0..5 {
        let seen: Vec<NodeClaim> = claims.to_vec();
        let seen: Vec<&NodeClaim> = seen.iter().collect();
        let step = decide(&ClassInput { class, kind, claims: &seen, has_leftovers: false }, moment(0));
        if step.writes.is_empty() {
            return words;
        }
        for write in step.writes {
            match write {
                Write::ClaimMeta { name, change } => {
                    words.push(format!("claim {name} {:?}", change.annotations.values().flatten().collect::<Vec<_>>()));
                    let there = claims.iter_mut().find(|one| one.metadata.name.as_ref() == Some(&name)).unwrap();
                    change.apply(&mut there.metadata);
                }
                Write::ClassMeta(change) => {
                    let all: Vec<&String> = change.annotations.values().flatten().collect();
                    words.push(format!("class {all:?} {:?}", change.finalizers.clone().unwrap_or_default()));
                    change.apply(&mut class.meta);
                }
                Write::ClassCondition(one) => {
                    words.push(format!("{}={}", one.type_, one.status));
                    class.conditions.push(one);
                }
                other => panic!("{other:?}"),
            }
        }
    }
    panic!("it never ends: {words:?}");
}

const HASH: &str = annotations::EC2NODECLASS_HASH;
const VERSION: &str = annotations::EC2NODECLASS_HASH_VERSION;

#[test]
fn a_new_class_gets_its_finalizer_and_hash() {
    let words = settle(&mut class(), Kind::ec2("muster-v1"), &mut []);
    assert_eq!(words, [r#"class ["7", "muster-v1"] ["karpenter.k8s.aws/termination"]"#]);
    let words = settle(&mut class(), Kind::KWOK, &mut []);
    assert_eq!(words, [r#"class [] ["karpenter.sh/termination"]"#, "Ready=True"]);
}

#[test]
fn taking_over_drifts_nothing() {
    for version in ["v5", "v6"] {
        taken_over_from(version);
    }
}

fn taken_over_from(version: &str) {
    let mut claims = [
        claim("old", &[(HASH, "1"), (VERSION, version)]),
        claim("older", &[(HASH, "9"), (VERSION, "v6")]),
        drifted(claim("drifted", &[(HASH, "2"), (VERSION, version)])),
        claim("ours", &[(HASH, "3"), (VERSION, "muster-v1")]),
        claim("bare", &[]),
    ];
    let mut class = class();
    class.meta.annotations = Some([(HASH.to_owned(), "1".to_owned()), (VERSION.to_owned(), version.to_owned())].into());
    class.meta.finalizers = Some(vec!["karpenter.k8s.aws/termination".to_owned()]);
    assert_eq!(
        settle(&mut class, Kind::ec2("muster-v1"), &mut claims),
        [
            r#"claim old ["7", "muster-v1"]"#,
            r#"claim older ["7", "muster-v1"]"#,
            r#"claim drifted ["muster-v1"]"#,
            r#"claim bare ["7", "muster-v1"]"#,
            r#"class ["7", "muster-v1"] []"#,
        ]
    );
    class.hash = "8".to_owned();
    assert_eq!(
        settle(&mut class, Kind::ec2("muster-v1"), &mut claims),
        [r#"class ["8"] []"#],
        "a change of the class drifts them"
    );
}

#[test]
fn a_class_outlives_its_claims() {
    let mut class = class();
    class.meta.finalizers = Some(vec!["example.com/x".to_owned(), "karpenter.k8s.aws/termination".to_owned()]);
    class.meta.deletion_timestamp = Some(Time(moment(0)));
    let many: Vec<NodeClaim> = (0..7).map(|number| claim(&format!("c{number}"), &[])).collect();
    let claims: Vec<&NodeClaim> = many.iter().collect();
    let kind = Kind::ec2("muster-v1");
    let step = decide(&ClassInput { class: &class, kind, claims: &claims, has_leftovers: true }, moment(5));
    let [Write::Event(event)] = &step.writes[..] else { panic!("{step:?}") };
    assert_eq!(event.message, "Waiting on NodeClaim termination for c0, c1, c2, c3, c4 and 2 other(s)");
    assert_eq!(step.again, Some(moment(605)));
    let cloud = decide(&ClassInput { class: &class, kind, claims: &[], has_leftovers: true }, moment(5));
    assert_eq!(cloud, Step::rest());
    let step = decide(&ClassInput { class: &class, kind, claims: &[], has_leftovers: false }, moment(5));
    let [Write::ClassMeta(change)] = &step.writes[..] else { panic!("{step:?}") };
    assert_eq!(change.finalizers.as_deref(), Some(&["example.com/x".to_owned()][..]));
    change.apply(&mut class.meta);
    assert_eq!(decide(&ClassInput { class: &class, kind, claims: &[], has_leftovers: false }, moment(5)), Step::rest());
}
