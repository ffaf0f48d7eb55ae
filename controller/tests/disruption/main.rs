//! Scenarios of disruption: what an operator has, as manifests, and which nodes go, as people read it. One rule each.
//!
//! Each file `<name>.yaml` beside this one opens with a comment that says what the operator has, what must come out, and
//! why; its first line describes the snapshot. A line `# options: …` adds options to the command, `# now: …` sets the moment
//! (default: noon of the 21st of November 2026), `# catalogue: …` names another catalogue than that of the scenarios of
//! plans, and `# removed: …` a node whose explanation is shown, with what would happen if it were gone.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

#[macro_use]
#[path = "../scenario/mod.rs"]
mod scenario;

use std::fmt::Write;
use std::path::PathBuf;

use serde_json::Value;

use scenario::{Header, hold, muster};

const NOW: &str = "2026-11-21T12:00:00Z";
const CATALOGUE: &str = "../scenarios/catalogue.yaml";
const OTHER_CATALOGUES: [&str; 4] = ["dear-spot.yaml", "near-prices.yaml", "refused.yaml", "spot-types.yaml"];

scenarios! {
    balanced
    balanced_worth_it
    bare_pod
    budget_after_window
    budget_counts_the_unready
    budget_default
    budget_in_window
    budget_percent
    budget_reasons
    budget_uncountable
    budget_unreadable
    budget_zero
    cheap_to_move_first
    coming_up_takes_nothing
    consolidate_after
    consolidate_never
    delete_onto_others
    deleting
    do_not_disrupt_for_a_while
    do_not_disrupt_node
    do_not_disrupt_pod
    do_not_disrupt_unreadable
    drift
    drift_by_computed_hash
    drift_by_hash
    drift_by_image
    drift_by_requirements
    drift_keeps_replicas_together
    drift_order
    drift_stuck
    drift_with_buffer
    drift_with_grace_period
    empty
    empty_held_for_buffer
    empty_of_cheap_pods
    exempt_pods
    expired
    expired_beside_pending
    expired_by_default
    expired_counts
    expired_one_after_the_other
    expired_without_place
    expired_without_place_for_long
    first
    grace_period_is_for_drift
    if_removed
    interrupted
    interrupted_without_place
    limits
    lively_nodes_take_nothing
    many_into_one
    mark_unreadable
    min_values
    missing_label
    move_price
    no_cheaper
    nominated
    never_initialized
    not_initialized
    not_worth_the_move
    pdb
    pdb_of_unready
    pdb_shared
    pending_pod
    pinned_to_spot
    pool_missing
    rebooting
    reboots
    refused_by_option
    refused_capacity
    repair
    repair_by_reason
    repair_of_too_many
    repair_without_gate
    replace_by_cheaper
    same_type
    several_commands
    spot_delete
    spot_that_is_dearer
    spot_to_spot
    spot_to_spot_few_types
    spot_to_spot_off
    spread_is_kept
    stateful_pod_that_leaves
    static_drift
    static_drift_at_limit
    static_drift_without_places
    static_pool
    terminate_first
    two_pdbs
    under_way
    unknown_type
    unmanaged_takes_pods
    when_empty
    would_not_fit
}

fn folder() -> PathBuf {
    [env!("CARGO_MANIFEST_DIR"), "tests", "disruption"].iter().collect()
}

#[test]
fn every_file_is_a_test() {
    scenario::every_file_is_a_test(&folder(), NAMES, &OTHER_CATALOGUES);
}

/// With `--first`, too, each decision passes validation: what it leaves for the next pass leaves no trace.
#[test]
fn the_first_command_alone_is_a_valid_decision() {
    let folder = folder();
    for name in NAMES.iter().map(|name| name.replace('_', "-")) {
        let header = Header::read(&folder, &name);
        let now = header.words("now").first().copied().unwrap_or(NOW);
        let catalogue = header.words("catalogue").first().copied().unwrap_or(CATALOGUE);
        let mut options = [header.words("options"), vec!["--now", now, "--catalog", catalogue]].concat();
        if !options.contains(&"--first") {
            options.push("--first");
        }
        let decision: Value = serde_json::from_str(&muster(&folder, &["disrupt"], &name, &options, "json")).unwrap();
        let forceful = ["Interrupted", "Expired", "Unhealthy"];
        let commands = decision["commands"].as_array().unwrap();
        let voluntary = commands.iter().filter(|one| !forceful.contains(&one["reason"].as_str().unwrap_or_default()));
        assert!(voluntary.count() <= 1, "{name}: {decision}");
    }
}

/// Decides about scenario `name` and holds what is printed, and which pods are where, against the snapshot.
#[track_caller]
fn check(name: &str) {
    let folder = folder();
    let header = Header::read(&folder, name);
    let now = header.words("now").first().copied().unwrap_or(NOW);
    let catalogue = header.words("catalogue").first().copied().unwrap_or(CATALOGUE);
    let options = [header.words("options"), vec!["--now", now, "--catalog", catalogue]].concat();
    let muster = |command: &[&str], options: &[&str], format: &str| muster(&folder, command, name, options, format);
    let decision: Value = serde_json::from_str(&muster(&["disrupt"], &options, "json")).unwrap();
    let mut shown = format!("{}\nWhere\n{}", muster(&["disrupt"], &options, "table"), places(&decision));
    for node in header.words("removed") {
        let command = ["explain", "node", node, "--if-removed"];
        write!(shown, "\nExplain {node}\n{}", muster(&command, &options, "table")).unwrap();
        let document: Value = serde_json::from_str(&muster(&command, &options, "json")).unwrap();
        let removal = &document["ifRemoved"];
        let [reason, pods] = [&document["reason"], &removal["pods"]];
        writeln!(shown, "\nIn JSON: {reason}, {pods}, unplaced {}", removal["unplaced"][0]["reason"]).unwrap();
    }
    hold(&folder, name, &header, &shown);
}

/// Command by command: how many types each launch may be, and the pods of each place.
fn places(decision: &Value) -> String {
    let mut text = String::new();
    let list = |value: &Value| -> Vec<String> {
        value.as_array().into_iter().flatten().map(|it| it.as_str().unwrap().to_owned()).collect()
    };
    for command in decision["commands"].as_array().unwrap() {
        let verb = if command["decision"] == "replace" { "replace" } else { "delete" };
        writeln!(text, "  {verb} {}", list(&command["candidates"]).join(", ")).unwrap();
        for node in command["existingNodes"].as_array().unwrap() {
            writeln!(text, "    to {}: {}", node["name"].as_str().unwrap(), list(&node["pods"]).join(", ")).unwrap();
        }
        for node in command["replacements"].as_array().unwrap() {
            let types = list(&node["instanceTypes"]);
            let [name, zone, capacity] =
                ["name", "zone", "capacityType"].map(|key| node[key].as_str().unwrap().to_owned());
            let pods = list(&node["pods"]).join(", ");
            writeln!(text, "    to {name} ({} in {zone}, {capacity}): {pods}", types.join(" or ")).unwrap();
        }
        for pod in list(&command["unplaced"]) {
            writeln!(text, "    nowhere: {pod}").unwrap();
        }
    }
    text
}
