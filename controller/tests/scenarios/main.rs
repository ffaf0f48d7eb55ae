//! Scenarios: what an operator has, as manifests, and what comes out, as people read it.
//!
//! Each file `<name>.yaml` beside this one opens with a comment that says what the operator has, what must come out, and
//! why; its first line describes the snapshot. A line `# options: …` adds options to the command; `# explain: …` names
//! pods whose warnings are shown as well. All of them are planned with the types of `catalogue.yaml`.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

#[path = "../process/mod.rs"]
mod process;

use std::collections::BTreeSet;
use std::fmt::Write;
use std::path::PathBuf;

use serde_json::Value;

const CATALOGUE: &str = "catalogue.yaml";

/// A test for every name, and the list of them.
macro_rules! scenarios {
    ($($name:ident)*) => {
        $(
            #[test]
            fn $name() {
                check(&stringify!($name).replace('_', "-"));
            }
        )*

        const NAMES: &[&str] = &[$(stringify!($name)),*];
    };
}

scenarios! {
    anti_affinity
    anti_affinity_preferred
    attach_limit
    bounded_label
    capacity_buffer
    capacity_type_preferred
    daemonset_overhead
    deleting_node
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
    min_values_unmet
    namespace_selector
    node_overlay
    pool_not_ready
    priority_of_buffers
    reserved_and_priority
    reserved_capacity
    runtime_class
    self_affinity_host
    self_affinity_zone
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
    let files = std::fs::read_dir(folder()).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap());
    let written: BTreeSet<String> =
        files.filter(|file| file != CATALOGUE).filter_map(|file| Some(file.strip_suffix(".yaml")?.into())).collect();
    let tested: BTreeSet<String> = NAMES.iter().map(|name| name.replace('_', "-")).collect();
    assert_eq!(written, tested);
}

/// Plans scenario `name` and holds what is printed, and which pods are where, against the snapshot.
#[track_caller]
fn check(name: &str) {
    let text = std::fs::read_to_string(folder().join(format!("{name}.yaml"))).unwrap();
    let mut header = text.lines().map_while(|line| line.strip_prefix('#')).map(str::trim);
    let description = header.next().unwrap();
    let words = |title: &str| -> Vec<&str> {
        header.clone().filter_map(|line| line.strip_prefix(title)).flat_map(str::split_whitespace).collect()
    };
    let (options, explained) = (words("options: "), words("explain: "));
    let plan: Value = serde_json::from_str(&muster(&["plan"], name, &options, "json")).unwrap();
    let mut shown = format!("{}\nWhere\n{}", timeless(&muster(&["plan"], name, &options, "table")), places(&plan));
    for pod in explained {
        let why: Value = serde_json::from_str(&muster(&["explain", "pod", pod], name, &options, "json")).unwrap();
        writeln!(shown, "\nExplain {pod}").unwrap();
        shown.push_str(&warnings(&why));
    }
    let mut settings = insta::Settings::clone_current();
    settings.set_description(description);
    settings.set_omit_expression(true);
    settings.set_prepend_module_to_snapshot(false);
    settings.bind(|| insta::assert_snapshot!(name, shown));
}

/// What `muster` prints for scenario `name`, messages for the operator first.
#[track_caller]
fn muster(command: &[&str], name: &str, options: &[&str], format: &str) -> String {
    let file = format!("{name}.yaml");
    let arguments = [command, &["--catalog", CATALOGUE, "-f", &file, "-o", format], options].concat();
    let output = process::muster(&arguments, &folder(), b"");
    let messages = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(0), "{messages}");
    let printed = String::from_utf8(output.stdout).unwrap();
    if format == "table" { messages + &printed } else { printed }
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
