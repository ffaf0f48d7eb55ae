//! Scenarios: what an operator has, as manifests, and what comes out, as people read it.
//!
//! Each file `<name>.yaml` beside this one opens with a comment that says what the operator has, what must come out, and
//! why; its first line describes the snapshot. A line `# options: …` adds options to the command; `# explain: …` names
//! pods whose warnings are shown as well. All of them are planned with the types of `catalogue.yaml`.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

#[macro_use]
#[path = "../scenario/mod.rs"]
mod scenario;

use std::fmt::Write;
use std::path::PathBuf;

use serde_json::Value;

use scenario::{Header, hold, muster};

const CATALOGUE: &str = "catalogue.yaml";

scenarios! {
    anti_affinity
    anti_affinity_preferred
    attach_limit
    attach_limit_learned
    attach_limit_of_another_type
    attach_limit_of_types
    bounded_label
    capacity_buffer
    capacity_type_preferred
    daemonset_overhead
    default_spread
    deleting_node
    device_claims
    dynamic_resources
    either_term
    equal_pools
    existing_and_in_flight
    follower
    follower_of_bound
    free_type
    gpu
    host_ports
    hostname
    inverse_anti_affinity
    limit_and_waiting_spread
    limit_in_use
    limit_of_nodes
    limit_range_and_sidecars
    limits_and_priority
    limits_and_spread
    match_label_keys
    min_domains
    min_values
    min_values_best_effort
    min_values_or_lighter_pool
    min_values_unmet
    min_values_within_limits
    namespace_selector
    node_affinity_preferred
    node_affinity_worth_its_price
    node_overlay
    pod_affinity_preferred
    pool_not_ready
    prefer_no_schedule
    priority_of_buffers
    reserved_and_priority
    reserved_capacity
    resized_pod
    runtime_class
    self_affinity_host
    self_affinity_pinned
    self_affinity_zone
    shared_claim
    soft_anti_affinity_of_two
    spot_and_on_demand
    spread_of_few_nodes
    startup_taints
    static_pool
    taints_policy_honor
    taints_policy_ignore
    unknown_label
    volume_zone
    weight_and_limit
    weights
    why_image
    why_label
    why_nothing
    why_rules
    why_size
    why_supply
    why_taint
    why_volume
    zone_and_host
    zone_anti_affinity
    zone_anti_affinity_preferred
    zone_preferred
    zone_spread
    zone_spread_preferred
    zone_spread_preferred_dear
}

fn folder() -> PathBuf {
    [env!("CARGO_MANIFEST_DIR"), "tests", "scenarios"].iter().collect()
}

#[test]
fn every_file_is_a_test() {
    scenario::every_file_is_a_test(&folder(), NAMES, &[CATALOGUE]);
}

/// Plans scenario `name` and holds what is printed, and which pods are where, against the snapshot.
#[track_caller]
fn check(name: &str) {
    let folder = folder();
    let header = Header::read(&folder, name);
    let options = [header.words("options"), vec!["--catalog", CATALOGUE]].concat();
    let muster = |command: &[&str], format: &str| muster(&folder, command, name, &options, format);
    let plan: Value = serde_json::from_str(&muster(&["plan"], "json")).unwrap();
    let mut shown = format!("{}\nWhere\n{}", timeless(&muster(&["plan"], "table")), places(&plan));
    for pod in header.words("explain") {
        let why: Value = serde_json::from_str(&muster(&["explain", "pod", pod], "json")).unwrap();
        writeln!(shown, "\nExplain {pod}").unwrap();
        shown.push_str(&warnings(&why));
    }
    hold(&folder, name, &header, &shown);
}

/// A plan without its times.
fn timeless(text: &str) -> String {
    let line = |line: &str| line.split_once(" Packed in ").map_or(line, |(before, _)| before).to_owned() + "\n";
    text.lines().map(line).collect()
}

/// Node by node: zone, how many types it may be launched as, pods.
fn places(plan: &Value) -> String {
    let mut text = String::new();
    let text_of = |value: &Value| value.as_str().unwrap().to_owned();
    let pods_of = |node: &Value| match node["pods"].as_array().unwrap().as_slice() {
        [] => "no pod".to_owned(),
        pods => pods.iter().map(text_of).collect::<Vec<_>>().join(", "),
    };
    for node in plan["existingNodes"].as_array().unwrap() {
        writeln!(text, "  {}: {}", text_of(&node["name"]), pods_of(node)).unwrap();
    }
    for node in plan["newNodes"].as_array().unwrap() {
        let types = node["instanceTypes"].as_array().unwrap().len();
        let or = match types {
            1 => String::new(),
            2 => " or 1 other".to_owned(),
            _ => format!(" or {} others", types - 1),
        };
        let (name, kind, zone) = (text_of(&node["name"]), text_of(&node["instanceType"]), text_of(&node["zone"]));
        writeln!(text, "  {name}, {kind}{or} in {zone}: {}", pods_of(node)).unwrap();
    }
    text
}

/// State and warnings of an explained pod.
fn warnings(pod: &Value) -> String {
    let mut text = format!("  {}\n", pod["state"].as_str().unwrap());
    for warning in pod["warnings"].as_array().unwrap() {
        let of = |key: &str| warning[key].as_str().unwrap();
        writeln!(text, "  {}: {}\n    hint: {}", of("reason"), of("message"), of("hint")).unwrap();
    }
    text
}
