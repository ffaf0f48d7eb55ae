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
    assert!(moment.contains("`noon` is not a time"), "{moment}");
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
    asked_of(arguments, RECORDS)
}

/// The same of a fleet of which this is kept.
fn asked_of(arguments: &[&str], records: &str) -> String {
    succeeds(&[arguments, &["-f", "-", "--now", NOW]].concat(), &format!("{FLEET}---\n{records}"))
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
fn a_name_that_comes_again_has_no_logs_of_an_instance_of_before() {
    let of_before = RECORDS
        .replace("5b0c92d4-general-9c4tw", "0a11d2e6-general-9c4tw")
        .replace("2026-11-23T06:10:17Z\", \"bundleBytes", "2026-11-23T05:10:17Z\", \"bundleBytes");
    let document = json(&asked_of(&["verdicts", "-o", "json"], &of_before));
    let of_name: Vec<(Value, Value)> = document["verdicts"]
        .as_array()
        .unwrap()
        .iter()
        .filter(|verdict| verdict["nodeClaim"] == "general-9c4tw")
        .map(|verdict| (verdict["phase"].clone(), verdict["bundleBytes"].clone()))
        .collect();
    let expected: [(Value, Value); 2] = [("Terminating".into(), 0.into()), (Value::Null, 2100.into())];
    assert_eq!(of_name, expected);
    let text = asked_of(&["verdicts", "general-9c4tw"], &of_before);
    assert!(text.contains("No logs of it are kept") && !text.contains("journal of kubelet"), "{text}");
    assert!(text.contains("\n  the latest of 2 verdicts on that name\n"), "{text}");
    let one = json(&asked_of(&["verdicts", "general-9c4tw", "-o", "json"], &of_before));
    assert_eq!((&one["namesakes"], &one["bundle"], &one["imageID"]), (&1.into(), &Value::Null, &Value::Null));

    // Of two that are gone the later one is shown, with its own logs.
    let again = of_before.replace("general-9c4tw\", \"uid\": \"0a11d2e6", "gpu-w5n8c\", \"uid\": \"0a11d2e6");
    let one = json(&asked_of(&["verdicts", "gpu-w5n8c", "-o", "json"], &again));
    assert_eq!((&one["code"], &one["namesakes"], &one["bundle"]), (&"ZZ99".into(), &1.into(), &Value::Null));
    let later = again.replace("2026-11-23T05:10:17Z", "2026-11-23T05:20:17Z");
    let one = json(&asked_of(&["verdicts", "gpu-w5n8c", "-o", "json"], &later));
    assert_eq!((&one["code"], &one["namesakes"]), (&"KA07".into(), &1.into()));
    assert!(one["bundle"].as_str().unwrap().contains("=== journal of kubelet"));
}

#[test]
fn a_record_of_a_node_claim_that_is_there_is_not_of_one_that_is_gone() {
    // Its agent has said something else since.
    let other = RECORDS.replace("\"code\": \"KA07\"", "\"code\": \"UD12\"");
    let document = json(&asked_of(&["verdicts", "-o", "json"], &other));
    let verdicts = document["verdicts"].as_array().unwrap();
    let earlier = verdicts.iter().find(|verdict| verdict["code"] == "UD12").unwrap();
    assert_eq!((&earlier["nodeClaim"], &earlier["phase"]), (&"general-9c4tw".into(), &"Terminating".into()));
    assert_eq!((&document["summary"]["verdicts"], &document["summary"]["standing"]), (&4.into(), &3.into()));
}

#[test]
fn what_anybody_can_write_is_not_believed_and_commands_no_terminal() {
    // The label alone is not enough.
    let named_otherwise = RECORDS.replace("muster-verdict-01", "muster-verdict-21");
    assert!(!asked_of(&["verdicts"], &named_otherwise).contains("ZZ99"));
    // Nor are slots in two namespaces.
    let elsewhere =
        RECORDS.replace("muster-verdict-01\n  namespace: muster\n", "muster-verdict-01\n  namespace: tenant\n");
    assert_ne!(elsewhere, RECORDS);
    let message = fails(2, &["verdicts", "-f", "-"], &elsewhere);
    let expected =
        "error: verdicts are kept in more than one namespace: `muster`, `tenant`\n\nhint: leave out the ConfigMaps";
    assert!(message.contains(expected), "{message}");
    let commands = RECORDS
        .replace("something that only", r"some\u001b[2Jthing\u009b that\nonly")
        .replace("ask it", r"ask\u001b]0;it")
        .replace("\"gpu\", \"class\"", r#""g\u001bp\nu", "class""#);
    let text = asked_of(&["verdicts", "gpu-w5n8c"], &commands);
    assert!(text.contains("some\u{fffd}[2Jthing\u{fffd} that\n    only a newer agent knows"), "{text}");
    assert!(text.contains("ask\u{fffd}]0;it") && text.contains("nodepool g\u{fffd}p\u{fffd}u"), "{text}");
    let all = [asked_of(&["verdicts"], &commands), asked_of(&["verdicts", "-o", "json"], &commands)];
    for shown in all {
        assert!(!shown.contains(|letter: char| letter.is_control() && letter != '\n'), "{shown:?}");
    }
    let logs = RECORDS.replace("bundle.txt: |\n", "bundle.txt: \"lines\\x1b[2J\\tof\\na log\"\n  other.txt: |\n");
    let text = asked_of(&["verdicts", "general-9c4tw"], &logs);
    assert!(text.ends_with("\nlines\u{fffd}[2J\tof\na log\n"), "{text:?}");
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
