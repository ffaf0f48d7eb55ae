//! Single things that happen on a day.

use std::time::Duration;

use super::super::trace::Event;
use muster_manifest::Source;
use serde_json::Value;

use super::super::objects::default_classes;
use super::super::{default_day, read_script};
use super::{CLUSTER, EXPIRING, Policy, day, day_of, objects};

pub(super) fn script(text: &str) -> super::Script {
    let head = "apiVersion: muster.dev/v1\nkind: Simulation\nspec:\n";
    let source = Source { name: "day.yaml".to_owned(), text: format!("{head}{text}"), only_json: false };
    read_script(source).unwrap_or_else(|error| panic!("{error}")).script
}

fn refused(text: &str) -> String {
    let source = Source { name: "day.yaml".to_owned(), text: text.to_owned(), only_json: false };
    read_script(source).map(|_| ()).unwrap_err().to_string()
}

#[test]
fn the_same_seed_gives_the_same_day() {
    let day_of_seed = |seed| {
        let mut script = default_day(&objects(CLUSTER));
        script.length = Duration::from_secs(3 * 3600);
        day(script, seed).trace
    };
    assert_eq!(day_of_seed(1), day_of_seed(1));
    assert_ne!(day_of_seed(1), day_of_seed(2));
}

#[test]
fn a_script_is_read_as_it_is_written() {
    let day = default_day(&objects(CLUSTER));
    let text = serde_saphyr::to_string(&day.document()).unwrap();
    let source = Source { name: "day.yaml".to_owned(), text, only_json: false };
    assert_eq!(read_script(source).unwrap().script.document(), day.document());
}

#[test]
fn what_a_quiet_hour_costs_is_what_its_nodes_cost() {
    let outcome = day(script("  length: 1h\n"), 0);
    assert_eq!(outcome.broken().collect::<Vec<_>>(), Vec::<&str>::new());
    assert!(outcome.glance.waiting == 0 && outcome.glance.placed > 0, "{:?}", outcome.glance);
    assert!(outcome.paid > 0.0 && outcome.bound > 0.0 && outcome.bound <= outcome.paid + 1e-9, "{outcome:?}");
}

#[test]
fn a_machine_that_does_not_join_is_named_with_its_code() {
    let outcome = day(script("  length: 1h\n  events:\n  - {at: 0s, misregister: {launches: 1, code: KA07}}\n"), 0);
    let warned = outcome.trace.iter().find_map(|entry| match &entry.event {
        Event::Warned { reason, message, .. } if reason == "RegistrationTimeout" => Some(message.clone()),
        _ => None,
    });
    assert!(warned.is_some_and(|message| message.contains("code=KA07")), "{:#?}", outcome.trace);
    assert_eq!(outcome.glance.waiting, 0);
}

#[test]
fn a_stopped_controller_comes_back_and_doubles_nothing() {
    for writes in 0..40 {
        let text = format!("  length: 30m\n  events:\n  - {{at: 0s, stop: {{afterWrites: {writes}, for: 10s}}}}\n");
        let outcome = day(script(&text), 0);
        assert_eq!(outcome.broken().collect::<Vec<_>>(), Vec::<&str>::new(), "after {writes} writes");
        assert_eq!(outcome.glance.waiting, 0, "after {writes} writes");
    }
}

#[test]
fn the_rival_pays_for_the_same_day() {
    let rival = day_of(CLUSTER, script("  length: 2h\n"), 0, Policy::KarpenterLike);
    assert_eq!(rival.glance.waiting, 0);
    assert!(rival.paid > 0.0);
}

#[test]
fn what_is_wrong_with_a_script_is_named() {
    let cases = [
        "apiVersion: v1\nkind: Simulation\n",
        "apiVersion: muster.dev/v1\nkind: Simulation\nspec:\n  length: soon\n",
        "apiVersion: muster.dev/v1\nkind: Simulation\nspec:\n  lenght: 1h\n",
        "apiVersion: muster.dev/v1\nkind: Simulation\nspec:\n  events:\n  - at: 1h\n",
        "apiVersion: muster.dev/v1\nkind: Simulation\nspec:\n  events:\n  - at: 1h\n    misregister: {code: XX99}\n",
        "apiVersion: muster.dev/v1\nkind: Simulation\nspec:\n  events:\n  - at: 1h\n    scale: {kind: Pod, name: a, replicas: 1}\n",
        "apiVersion: muster.dev/v1\nkind: Simulation\nspec:\n  events:\n  - at: 1h\n    refuse: {for: 1m}\n    deleteAll: true\n",
    ];
    let all: Vec<String> = cases.iter().map(|text| refused(text)).collect();
    insta::assert_snapshot!(all.join("\n\n---\n"));
}

fn claims(outcome: &super::super::Outcome) -> usize {
    outcome.trace.iter().filter(|entry| matches!(entry.event, Event::ClaimAndNode { .. })).count()
}

/// What was refused is not planned with again before its time: one NodeClaim for each that is needed, and one for each time
/// that something is tried anew.
#[test]
fn where_capacity_is_short_nobody_claims_it_each_second() {
    let all_but_one = "  length: 1h\n  events:\n  - {at: 0s, runOut: {instanceType: 'a.*', for: 1h}}\n  \
                       - {at: 0s, runOut: {instanceType: b.xlarge, for: 1h}}\n  \
                       - {at: 0s, runOut: {instanceType: b.2xlarge, for: 1h}}\n  \
                       - {at: 0s, runOut: {instanceType: b.large, zone: z1, for: 1h}}\n  \
                       - {at: 0s, runOut: {instanceType: b.large, zone: z2, capacityType: spot, for: 1h}}\n";
    let outcome = day(script(all_but_one), 0);
    assert_eq!(outcome.broken().collect::<Vec<_>>(), Vec::<&str>::new());
    assert!(claims(&outcome) <= 80, "{} claims", claims(&outcome));
    let nothing = "  length: 2h\n  events:\n  - {at: 0s, runOut: {for: 2h}}\n";
    let outcome = day(script(nothing), 0);
    assert_eq!(outcome.nodes, []);
    // Three minutes, six, twelve, twenty-four and forty-eight later it is tried again.
    assert!(claims(&outcome) <= 80, "{} claims", claims(&outcome));
}

#[test]
fn a_class_whose_machines_do_not_join_is_tried_again_later() {
    let text = "  length: 4h\n  events:\n  - {at: 0s, misregister: {launches: 5, code: KA07}}\n";
    let outcome = day(script(text), 0);
    assert_eq!(outcome.broken().collect::<Vec<_>>(), Vec::<&str>::new());
    assert_eq!((outcome.glance.waiting, outcome.glance.placed > 0), (0, true), "{:?}", outcome.glance);
}

#[test]
fn who_has_no_room_by_his_own_limits_waits_without_a_broken_rule() {
    let limits = "  length: 3h\n  events:\n  - {at: 0s, patch: {kind: NodePool, name: general, set: {spec: {limits: {cpu: '1'}}}}}\n";
    let outcome = day(script(limits), 0);
    assert_eq!(outcome.broken().collect::<Vec<_>>(), Vec::<&str>::new());
    assert!(outcome.glance.waiting > 0, "{:?}", outcome.glance);
    let gone = "  length: 3h\n  events:\n  - {at: 1h, delete: {kind: NodePool, name: general}}\n";
    let outcome = day(script(gone), 0);
    assert_eq!(outcome.broken().collect::<Vec<_>>(), Vec::<&str>::new());
    assert!(outcome.bound <= outcome.paid, "{} and {}", outcome.bound, outcome.paid);
}

#[test]
fn what_is_deleted_at_the_end_of_the_day_may_be_left() {
    let outcome = day(script("  length: 1h\n  events:\n  - {at: 59m, deleteAll: true}\n"), 0);
    assert_eq!(outcome.broken().collect::<Vec<_>>(), Vec::<&str>::new());
}

/// Nodes of before are cheaper than what the pool allows now.
#[test]
fn the_least_is_of_what_could_be_bought_at_some_time() {
    let requirement = "{key: karpenter.sh/capacity-type, operator: In, values: [on-demand]}";
    let text = format!(
        "  length: 2h\n  events:\n  - {{at: 30m, patch: {{kind: NodePool, name: general, set: {{metadata: {{annotations: \
         {{muster.dev/pause: disruption}}}}, spec: {{template: {{spec: {{requirements: [{requirement}]}}}}}}}}}}}}\n"
    );
    let outcome = day(script(&text), 0);
    assert_eq!(outcome.broken().collect::<Vec<_>>(), Vec::<&str>::new());
    assert!(outcome.bound > 0.0 && outcome.bound <= outcome.paid, "{} and {}", outcome.bound, outcome.paid);
}

/// Five nodes expire at once, and the controller dies when it has marked the first of them. The pods of that one wait for a
/// place when the others are decided about, and count in the spread that all of them share.
#[test]
fn nodes_that_expire_have_replacements_also_when_marking_them_was_cut_short() {
    let text = "  length: 75m\n  events:\n  - {at: 50m, stop: {afterWrites: 1, for: 20s}}\n";
    let outcome = day_of(EXPIRING, script(text), 9, Policy::Muster);
    assert_eq!(outcome.broken().collect::<Vec<_>>(), Vec::<&str>::new());
    let expired = outcome.trace.iter().filter_map(|entry| match &entry.event {
        Event::Disrupting { reason, claims, replacements, .. } if reason == "Expired" => {
            Some((claims.len(), replacements.len()))
        }
        _ => None,
    });
    let expired: Vec<(usize, usize)> = expired.collect();
    assert!(expired.len() > 1, "nothing was cut short: {expired:?}");
    assert!(expired.iter().all(|(nodes, replacements)| nodes == replacements), "{expired:?}");
}

#[test]
fn a_class_that_nobody_brings_is_the_default_one() {
    let without: Vec<Value> = objects(EXPIRING).into_iter().filter(|object| object["kind"] != "EC2NodeClass").collect();
    let names = |objects: &[Value], script: &super::Script| -> Vec<String> {
        let classes = default_classes(objects, script);
        classes.iter().map(|class| class["metadata"]["name"].as_str().unwrap().to_owned()).collect()
    };
    let quiet = script("  length: 1h\n");
    assert_eq!(names(&objects(EXPIRING), &quiet), [""; 0]);
    assert_eq!(names(&without, &quiet), ["default"]);
    let class = objects(EXPIRING).into_iter().find(|object| object["kind"] == "EC2NodeClass").unwrap();
    let brings = script(&format!("  length: 1h\n  events:\n  - {{at: 5m, apply: {class}}}\n"));
    assert_eq!(names(&without, &brings), [""; 0]);
}
