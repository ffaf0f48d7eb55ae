//! Whatever a node says, the agent does not panic on it, and what it passes on holds no secret.

use muster_agent::preflight::{command, machine};
use muster_agent::watch::journal::Line;
use muster_agent::watch::node_object::NodeObject;
use muster_agent::watch::{node_rules, signatures, units};
use muster_bootstrap::finding::Finding;
use muster_bootstrap::place::Source;
use proptest::prelude::*;

const TOKEN: &str = "k8s-aws-v1.aHR0cHM6Ly9zdHMuYW1hem9uYXdzLmNvbS8_QWN0aW9uPUdldENhbGxlcklkZW50aXR5";

/// The texts of signatures, and others, with something in between.
fn line() -> impl Strategy<Value = String> {
    let known: Vec<&'static str> = include_str!("../data/journal-lines.tsv").lines().collect();
    (prop::sample::select(known), any::<String>(), 0..200_usize, any::<bool>()).prop_map(
        |(known, noise, at, has_token)| {
            let cut = known.char_indices().nth(at).map_or(known.len(), |(at, _)| at);
            let token = if has_token { format!("Authorization: Bearer {TOKEN}") } else { String::new() };
            format!("{}{noise} {token} {}", &known[..cut], &known[cut..])
        },
    )
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(4_000))]

    #[test]
    fn lines_of_the_journal(text in line(), unit in "kubelet|containerd|nodeadm-config") {
        let entry = serde_json::json!({"_SYSTEMD_UNIT": format!("{unit}.service"), "MESSAGE": text, "_PID": "9"}).to_string();
        let line = Line::read(&entry).unwrap();
        if let Some(signature) = signatures::find(&line) {
            let place = Source::whole("journal").anywhere();
            let finding = Finding::new(signature.verdict, signature.verdict.title, Some((place, &line.text)));
            prop_assert!(!format!("{finding:?}").contains(&TOKEN[..24]), "{finding:?}");
        }
        let half: String = entry.chars().take(entry.chars().count() / 2).collect();
        let _nothing_to_read = Line::read(&half);
    }

    #[test]
    fn texts_of_programs(text in any::<String>(), value in "[-=\\[\\]{}\"'$\\\\%; a-zA-Z/\n]{0,80}") {
        let _units = units::read(&text);
        let _ports = machine::listening(&text);
        let _arguments = command::kubelet(&format!("[Service]\nEnvironment={value}\nExecStart=/k {value}\n"), &|_| Some(value.clone()), &|_| None);
    }

    #[test]
    fn node_objects(name in any::<String>(), key in any::<String>(), value in any::<String>()) {
        let node = serde_json::json!({
            "metadata": {"name": name, "labels": {&key: &value}, "creationTimestamp": &value},
            "spec": {"providerID": &value, "taints": [{"key": &key, "value": 3, "effect": &value}, null, 7]},
            "status": {"conditions": [{"type": &key, "status": &value}, []], "capacity": {&key: &value}, "allocatable": 3},
        });
        if let Some(node) = NodeObject::read(&node) {
            let expect = muster_bootstrap::agent_config::Expectation::default();
            let _faults = node_rules::faults(&node, Some("i-1"));
            let _waits = node_rules::waits(&node, &expect, true);
        }
    }
}
