//! `muster nodes` and `muster verdicts`, and what `muster explain node` says of a node's agent.

use serde_json::Value;

use super::{fails, json, succeeds};

const FLEET: &str = include_str!("fleet.yaml");
const RECORDS: &str = include_str!("records.yaml");
const NOW: &str = "2026-11-23T06:12:00Z";

fn asked(arguments: &[&str]) -> String {
    succeeds(&[arguments, &["-f", "-", "--now", NOW]].concat(), FLEET)
}

#[test]
fn what_needs_somebody_stands_first_with_cause_and_fix() {
    let text = asked(&["nodes"]);
    insta::assert_snapshot!(text);
    // The first pages show the table.
    let table = text.split("\n\n").next().unwrap();
    assert!(include_str!("../../../README.md").contains(table), "{table}");
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

/// The same of a fleet of which something is kept.
fn kept(arguments: &[&str]) -> String {
    succeeds(&[arguments, &["-f", "-", "--now", NOW]].concat(), &format!("{FLEET}---\n{RECORDS}"))
}

#[test]
fn verdicts_are_of_nodes_that_are_there_and_of_those_that_are_gone() {
    insta::assert_snapshot!(kept(&["verdicts"]));
    let document = json(&kept(&["verdicts", "-o", "json"]));
    assert_eq!((&document["apiVersion"], &document["kind"]), (&"muster.dev/v1".into(), &"Verdicts".into()));
    insta::assert_snapshot!(serde_json::to_string_pretty(&document["verdicts"][0]).unwrap());
    let summary = &document["summary"];
    let counts = ["verdicts", "standing", "bundles", "stopped"].map(|count| summary[count].as_u64().unwrap());
    assert_eq!(counts, [3, 2, 1, 1]);
}

#[test]
fn one_verdict_is_printed_with_the_logs_that_are_kept_of_it() {
    insta::assert_snapshot!(kept(&["verdicts", "general-9c4tw"]));
    let gone = kept(&["verdicts", "ip-10-0-0-7.ec2.internal"]);
    assert!(gone.contains("ZZ99") && gone.contains("ask it") && gone.contains("No logs of it are kept"), "{gone}");
    let document = json(&kept(&["verdicts", "general-9c4tw", "-o", "json"]));
    assert_eq!((&document["kind"], &document["code"]), (&"Verdict".into(), &"KA07".into()));
    assert!(document["bundle"].as_str().unwrap().contains("=== journal of kubelet"));
    assert_eq!(json(&kept(&["verdicts", "gpu-w5n8c", "-o", "json"]))["bundle"], Value::Null);
}

#[test]
fn no_verdicts_are_no_error_and_one_that_is_not_there_is() {
    assert_eq!(succeeds(&["verdicts", "-f", "-"], super::POOL), "no verdicts\n");
    insta::assert_snapshot!(fails(2, &["verdicts", "general-9c4tv", "-f", "-"], FLEET), @r"
    error: there is no verdict on a NodeClaim or node `general-9c4tv` in the input

    hint: did you mean `general-9c4tw`?
    ");
    let message = fails(2, &["verdicts", "-f", "-", "-n", "muster"], FLEET);
    assert!(message.contains("--cluster"), "{message}");
    let message = fails(2, &["verdicts", "-f", "-", "--cluster"], FLEET);
    assert!(message.contains("`-f` and `--cluster` are both given"), "{message}");
    let message = fails(2, &["verdicts", "-f", "no/such.yaml"], "");
    assert!(message.contains("no/such.yaml"), "{message}");
}
