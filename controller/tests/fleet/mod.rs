//! `muster nodes`, and what `muster explain node` says of a node's agent.

use serde_json::Value;

use super::{fails, json, succeeds};

const FLEET: &str = include_str!("fleet.yaml");
const NOW: &str = "2026-11-23T06:12:00Z";

fn asked(arguments: &[&str]) -> String {
    succeeds(&[arguments, &["-f", "-", "--now", NOW]].concat(), FLEET)
}

#[test]
fn what_needs_somebody_stands_first_with_cause_and_fix() {
    insta::assert_snapshot!(asked(&["nodes"]));
}

#[test]
fn the_wide_table_has_claim_class_zone_age_and_instance() {
    insta::assert_snapshot!(asked(&["nodes", "--wide", "--node-pool", "general"]));
}

#[test]
fn programs_read_the_same() {
    let document = json(&asked(&["nodes", "-o", "json"]));
    assert_eq!((&document["apiVersion"], &document["kind"]), (&"muster.dev/v1".into(), &"Nodes".into()));
    let of = |name: &str| -> Value {
        let nodes = document["nodes"].as_array().unwrap();
        nodes.iter().find(|node| node["name"] == name).cloned().unwrap()
    };
    insta::assert_snapshot!(serde_json::to_string_pretty(&of("general-7qv2m")).unwrap());
    assert_eq!(of("ip-10-0-0-1.ec2.internal")["phaseSeconds"], 689);
    assert_eq!(of("system-1")["nodeClaim"], Value::Null);
    assert_eq!((document["summary"]["nodes"].clone(), document["summary"]["broken"].clone()), (6.into(), 2.into()));
    assert_eq!(asked(&["nodes", "-o", "json"]), asked(&["nodes", "-o", "json"]));
}

#[test]
fn no_nodes_are_no_error_and_a_pool_that_is_not_there_is() {
    assert_eq!(succeeds(&["nodes", "-f", "-"], super::POOL), "no nodes\n");
    let empty = asked(&["nodes", "--node-pool", "gpu", "-o", "json"]);
    assert_eq!(json(&empty)["summary"]["nodes"], 2);
    insta::assert_snapshot!(fails(2, &["nodes", "-f", "-", "--node-pool", "genral"], FLEET), @r"
    error: there is no NodePool `genral` in the input

    hint: did you mean `general`?
    ");
    let twice = fails(2, &["nodes", "-f", "-", "-f", "-"], FLEET);
    assert!(twice.contains("`-` is given twice"), "{twice}");
    assert!(fails(2, &["nodes"], "").contains("hint:"));
    let moment = fails(2, &["nodes", "-f", "-", "--now", "noon"], FLEET);
    assert!(moment.contains("`noon` is not a moment"), "{moment}");
}

#[test]
fn an_existing_node_is_explained_with_what_its_agent_says() {
    insta::assert_snapshot!(asked(&["explain", "node", "general-7qv2m"]));
    let ready = json(&asked(&["explain", "node", "ip-10-0-0-1.ec2.internal", "-o", "json"]));
    assert_eq!((&ready["phase"], &ready["agent"]["state"]), (&"Ready".into(), &"Ready".into()));
    assert!(ready.get("verdict").is_none(), "{ready:#}");
    let broken = json(&asked(&["explain", "node", "general-9c4tw", "-o", "json"]));
    assert_eq!((&broken["phase"], &broken["verdict"]["code"]), (&"Terminating".into(), &"KA07".into()));
}
