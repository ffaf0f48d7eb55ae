use std::collections::BTreeMap;

use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, ObjectMeta};
use muster_api::{NodeClaim, NodeClassReference, annotations, hash};
use serde_json::json;

use super::*;
use crate::lifecycle::Readiness;
use crate::provision::LaunchHold;

fn moment(second: i64) -> Timestamp {
    Timestamp::from_second(second).unwrap()
}

struct Fixture {
    pool: NodePool,
    class: Option<Class>,
    claims: Vec<NodeClaim>,
    nodes: Vec<Node>,
    outcomes: Outcomes,
    rest: Option<Rest>,
    hold: Option<LaunchHold>,
    keeps_replicas: bool,
}

fn condition(kind: &str, status: &str, reason: &str, message: &str) -> Condition {
    let text = json!({"type": kind, "status": status, "reason": reason, "message": message,
        "lastTransitionTime": "1970-01-01T00:00:00Z"});
    serde_json::from_value(text).unwrap()
}

fn claim(name: &str, annotations: serde_json::Value, status: serde_json::Value) -> NodeClaim {
    let claim = json!({"apiVersion": "karpenter.sh/v1", "kind": "NodeClaim",
        "metadata": {"name": name, "annotations": annotations},
        "spec": {"requirements": [], "nodeClassRef": {"group": "karpenter.k8s.aws", "kind": "EC2NodeClass", "name": "d"}},
        "status": status});
    serde_json::from_value(claim).unwrap()
}

fn node(name: &str, capacity: serde_json::Value) -> Node {
    serde_json::from_value(json!({"metadata": {"name": name}, "status": {"capacity": capacity}})).unwrap()
}

impl Fixture {
    /// A pool of generation 1 whose class is ready.
    fn new() -> Self {
        let pool = json!({"apiVersion": "karpenter.sh/v1", "kind": "NodePool",
            "metadata": {"name": "general", "uid": "u", "generation": 1},
            "spec": {"template": {"spec": {"requirements": [],
                "nodeClassRef": {"group": "karpenter.k8s.aws", "kind": "EC2NodeClass", "name": "default"}}}}});
        let reference = NodeClassReference {
            group: "karpenter.k8s.aws".to_owned(),
            kind: "EC2NodeClass".to_owned(),
            name: "default".to_owned(),
        };
        let class = Class {
            reference,
            meta: ObjectMeta { generation: Some(3), ..ObjectMeta::default() },
            conditions: vec![condition("Ready", "True", "Ready", "")],
            readiness: Readiness::Ready,
            hash: "1".to_owned(),
            bootstrap_fault: None,
            hands_over_taints: true,
            tags_instances: true,
            reboots_instances: true,
            block_ends: BTreeMap::new(),
        };
        Self {
            pool: serde_json::from_value(pool).unwrap(),
            class: Some(class),
            claims: Vec::new(),
            nodes: Vec::new(),
            outcomes: Outcomes::default(),
            rest: None,
            hold: None,
            keeps_replicas: true,
        }
    }

    fn decide(&self, second: i64) -> Step {
        let nodes = self.nodes.iter().map(Some).chain(std::iter::repeat(None));
        let claims: Vec<ClaimAndNode<'_>> =
            self.claims.iter().zip(nodes).map(|(claim, node)| ClaimAndNode { claim, node }).collect();
        let unclaimed: Vec<&Node> = self.nodes.iter().skip(self.claims.len()).collect();
        let input = PoolInput {
            pool: &self.pool,
            class: self.class.as_ref(),
            claims: &claims,
            unclaimed: &unclaimed,
            outcomes: &self.outcomes,
            rest: self.rest,
            hold: self.hold.as_ref(),
            keeps_replicas: self.keeps_replicas,
        };
        decide(&input, moment(second))
    }

    /// What is done until nothing is left to do.
    fn settle(&mut self, second: i64) -> Vec<Write> {
        let mut all = Vec::new();
        for _ in 0..3 {
            let step = self.decide(second);
            if step.writes.is_empty() {
                return all;
            }
            for write in step.writes {
                match &write {
                    Write::PoolMeta { change, .. } => change.apply(&mut self.pool.metadata),
                    Write::PoolStatus { status, .. } => self.pool.status = Some((**status).clone()),
                    Write::ClaimMeta { name, change } => {
                        let there =
                            self.claims.iter_mut().find(|one| one.metadata.name.as_ref() == Some(name)).unwrap();
                        change.apply(&mut there.metadata);
                    }
                    Write::Event(_) => {}
                    other => panic!("{other:?}"),
                }
                all.push(write);
            }
        }
        panic!("it never ends: {all:?}");
    }

    fn conditions(&self) -> Vec<String> {
        let all = &self.pool.status.as_ref().unwrap().conditions;
        all.iter().map(|one| format!("{}={} {}: {}", one.type_, one.status, one.reason, one.message)).collect()
    }
}

#[test]
fn a_pool_is_ready_when_it_is_valid_and_its_class_is_ready() {
    let mut it = Fixture::new();
    it.settle(0);
    let unknown = "NodeRegistrationHealthy=Unknown AwaitingReconciliation: object is awaiting reconciliation";
    let valid = "ValidationSucceeded=True ValidationSucceeded: ";
    assert_eq!(it.conditions(), ["NodeClassReady=True NodeClassReady: ", unknown, "Ready=True Ready: ", valid]);
    assert_eq!(it.pool.status.as_ref().unwrap().node_class_observed_generation, Some(3));
    let open = "Ready=False UnhealthyDependents: NodeClassReady=False";
    for (class, expected) in [
        (None, "NodeClassReady=False NodeClassNotFound: NodeClass not found on cluster"),
        (Some(vec![]), "NodeClassReady=False NodeClassReadinessUnknown: Node Class Readiness Unknown"),
        (
            Some(vec![condition("Ready", "False", "SubnetsNotFound", "SubnetsReady=False")]),
            "NodeClassReady=False SubnetsNotFound: SubnetsReady=False",
        ),
    ] {
        it.class = class.map(|conditions| Class { conditions, ..Fixture::new().class.unwrap() });
        it.settle(10);
        assert_eq!(it.conditions(), [expected, unknown, open, valid]);
    }
    let since = |it: &Fixture| it.pool.status.as_ref().unwrap().conditions[2].last_transition_time.0;
    assert_eq!(since(&it), moment(10));
    it.class = Fixture::new().class;
    it.settle(20);
    assert_eq!(since(&it), moment(20));
    assert_eq!(it.settle(30), []);
}

#[test]
fn what_the_api_server_cannot_see_is_said() {
    let mut it = Fixture::new();
    let taint = serde_json::from_value(json!({"key": "a", "effect": "NoSchedule"})).unwrap();
    it.pool.spec.template.spec.taints = vec![taint];
    it.pool.spec.template.spec.startup_taints = it.pool.spec.template.spec.taints.clone();
    it.settle(0);
    assert_eq!(
        it.conditions()[3],
        "ValidationSucceeded=False NodePoolValidationFailed: spec.template.spec.startupTaints[0]: taint `a:NoSchedule` \
         occurs more than once in `taints` and `startupTaints`"
    );
    assert_eq!(it.conditions()[2], "Ready=False UnhealthyDependents: ValidationSucceeded=False");
}

#[test]
fn counts_are_of_nodes_claims_and_what_they_promise() {
    let mut it = Fixture::new();
    it.claims = vec![
        claim("joined", json!({}), json!({"capacity": {"cpu": "4", "nvidia.com/gpu": "1"}})),
        claim("coming", json!({}), json!({"capacity": {"cpu": "2", "memory": "8Gi"}})),
        claim("wished", json!({}), json!({})),
    ];
    it.nodes = vec![node("a", json!({"cpu": "4", "memory": "15Gi", "nvidia.com/gpu": "0", "pods": "58"}))];
    it.settle(0);
    let status = it.pool.status.clone().unwrap();
    let all: Vec<String> = status.resources.iter().map(|(name, amount)| format!("{name}={}", amount.0)).collect();
    assert_eq!(all, ["cpu=6", "ephemeral-storage=0", "memory=23Gi", "nodes=3", "nvidia.com/gpu=1", "pods=58"]);
    assert_eq!(status.nodes, Some(3));
    it.claims.clear();
    it.settle(5);
    let status = it.pool.status.unwrap();
    assert_eq!((status.nodes, status.resources["cpu"].0.as_str()), (Some(1), "4"), "a Node without a claim counts");
}

#[test]
fn launches_that_fail_are_seen_until_something_changes() {
    let mut it = Fixture::new();
    it.settle(0);
    let edition = |it: &Fixture| Edition::of(&it.pool, it.class.as_ref());
    it.outcomes.note(edition(&it), false);
    it.outcomes.note(edition(&it), false);
    it.settle(1);
    assert_eq!(it.conditions()[1], "NodeRegistrationHealthy=False RegistrationFailed: Failed to register node");
    assert_eq!(it.conditions()[2], "Ready=True Ready: ", "it is for people");
    it.outcomes = Outcomes::of(&it.pool, it.class.as_ref());
    assert_eq!(it.settle(2), [], "a restart changes nothing");
    it.class.as_mut().unwrap().meta.generation = Some(4);
    it.settle(3);
    assert!(it.conditions()[1].starts_with("NodeRegistrationHealthy=Unknown"));
    it.outcomes.note(edition(&it), true);
    it.settle(4);
    assert!(it.conditions()[1].starts_with("NodeRegistrationHealthy=True"));
}

#[test]
fn a_cluster_of_karpenter_is_taken_over_without_a_drift() {
    let mut it = Fixture::new();
    it.settle(0);
    let hash_now = hash::node_pool(&it.pool);
    let own = it.pool.metadata.annotations.clone().unwrap();
    assert_eq!((&own[annotations::NODEPOOL_HASH], own[annotations::NODEPOOL_HASH_VERSION].as_str()), (&hash_now, "v3"));
    // An older Karpenter hashed in another way.
    let stamped =
        |version: &str| json!({"karpenter.sh/nodepool-hash": "1", "karpenter.sh/nodepool-hash-version": version});
    let drifted = json!({"conditions": [condition("Drifted", "True", "NodePoolDrifted", "")]});
    it.pool.metadata.annotations = serde_json::from_value(stamped("v2")).unwrap();
    it.claims = vec![
        claim("old", stamped("v2"), json!({})),
        claim("drifted", stamped("v2"), drifted),
        claim("ours", stamped("v3"), json!({})),
    ];
    it.settle(1);
    let hashes: Vec<&str> = it
        .claims
        .iter()
        .map(|claim| claim.metadata.annotations.as_ref().unwrap()[annotations::NODEPOOL_HASH].as_str())
        .collect();
    assert_eq!(hashes, [&*hash_now, "1", "1"], "only what was never compared is taken to be as it should");
    // The template changes: the claims stay what they were made from.
    it.pool.spec.template.metadata.labels.insert("a".to_owned(), "b".to_owned());
    let writes = it.settle(2);
    assert!(matches!(&writes[..], [Write::PoolMeta { .. }]), "{writes:?}");
}

#[test]
fn resting_pool_says_so_once_and_when_it_is_over() {
    let mut fixture = Fixture::new();
    fixture.settle(0);
    assert!(!fixture.pool.status.as_ref().unwrap().conditions.iter().any(|one| one.type_ == "ConsolidationDelivers"));
    fixture.rest = Some(Rest { until: moment(600), promised: 3.2, delivered: 0.4 });
    let step = fixture.decide(60);
    assert_eq!(step.again, Some(moment(600)));
    let [Write::Event(event), Write::PoolStatus { .. }] = &step.writes[..] else { panic!("{step:?}") };
    insta::assert_snapshot!(
        event.message,
        @"the last commands promised to save 3.2000 USD/h and saved 0.4000 USD/h: only empty nodes are consolidated until 1970-01-01T00:10:00Z"
    );
    fixture.settle(60);
    assert_eq!(fixture.decide(61).writes, [], "it is said once");
    fixture.settle(600);
    let conditions = &fixture.pool.status.as_ref().unwrap().conditions;
    let found = conditions.iter().find(|one| one.type_ == "ConsolidationDelivers").unwrap();
    assert_eq!((&*found.status, &*found.message), ("True", ""));
}

#[test]
fn pool_whose_launches_are_held_says_why_and_until_when() {
    let mut fixture = Fixture::new();
    fixture.settle(0);
    assert!(!fixture.pool.status.as_ref().unwrap().conditions.iter().any(|one| one.type_ == "LaunchesDeliver"));
    let why = "3 nodes were launched for `shop/ReplicaSet/web`, and none of its pods was bound there".to_owned();
    fixture.hold = Some(LaunchHold { until: moment(600), sets: 2, why });
    assert_eq!(fixture.decide(60).again, Some(moment(600)));
    fixture.settle(60);
    let found = |fixture: &Fixture| {
        let conditions = &fixture.pool.status.as_ref().unwrap().conditions;
        let found = conditions.iter().find(|one| one.type_ == "LaunchesDeliver").unwrap();
        (found.status.clone(), found.reason.clone(), found.message.clone())
    };
    let (status, reason, message) = found(&fixture);
    assert_eq!((&*status, &*reason), ("False", "LaunchesHeld"));
    insta::assert_snapshot!(
        message,
        @"3 nodes were launched for `shop/ReplicaSet/web`, and none of its pods was bound there (and 1 other set of pods); launches for it are held until 1970-01-01T00:10:00Z"
    );
    assert!(
        fixture.pool.status.as_ref().unwrap().conditions.iter().any(|one| one.type_ == "Ready" && one.status == "True")
    );
    fixture.settle(600);
    assert_eq!(found(&fixture), ("True".to_owned(), "LaunchesDeliver".to_owned(), String::new()));
}

#[test]
fn an_unreadable_schedule_is_told_once_and_lifted() {
    let mut fixture = Fixture::new();
    let budget = |schedule: &str| json!([{"nodes": "1", "schedule": schedule, "duration": "1h"}]);
    fixture.pool.spec.disruption.budgets = serde_json::from_value(budget("0 9 * * 99")).unwrap();
    let step = fixture.decide(0);
    let events: Vec<&Write> = step.writes.iter().filter(|write| matches!(write, Write::Event(_))).collect();
    let [Write::Event(event)] = events[..] else { panic!("{step:?}") };
    assert_eq!((event.reason, &*event.about.kind, &*event.about.uid), ("ScheduleUnreadable", "NodePool", "u"));
    assert!(event.message.starts_with("schedule `0 9 * * 99` of a budget cannot be read ("), "{}", event.message);
    fixture.settle(0);
    assert_eq!(fixture.decide(1).writes, [], "it is said once");
    let found =
        |fixture: &Fixture| fixture.conditions().into_iter().find(|one| one.starts_with("BudgetsReadable=")).unwrap();
    assert!(found(&fixture).starts_with("BudgetsReadable=False ScheduleUnreadable: schedule"), "{}", found(&fixture));
    fixture.pool.spec.disruption.budgets = serde_json::from_value(budget("0 9 * * 5")).unwrap();
    fixture.settle(2);
    assert_eq!(found(&fixture), "BudgetsReadable=True BudgetsReadable: ");
}
