//! The program `muster-tests` as it is typed: its words, its exit codes, and what it says on a machine that lacks things.
//!
//! Needs of the world: nothing.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

use std::path::Path;
use std::process::{Command, Output};

fn run(cache: Option<&Path>, arguments: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_muster-tests"));
    if let Some(cache) = cache {
        command.env("MUSTER_WORLD_CACHE", cache).env_remove("KUBEBUILDER_ASSETS");
    }
    command.args(arguments).env("COLUMNS", "100").output().unwrap()
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

#[test]
fn help_of_every_command() {
    let commands: [&[&str]; 5] = [&[], &["up"], &["down"], &["status"], &["doctor"]];
    let help: Vec<String> = commands
        .iter()
        .map(|command| {
            let output = run(None, &[command, &["--help"][..]].concat());
            assert!(output.status.success());
            text(&output.stdout)
        })
        .collect();
    insta::assert_snapshot!(help.join("\n----\n"));
}

#[test]
fn bad_usage_is_exit_code_2() {
    for arguments in
        [&["balance"][..], &[], &["up", "--repeat", "3"], &["up", "--check", "--repeat", "0"], &["status", "-o", "xml"]]
    {
        let output = run(None, arguments);
        assert_eq!(output.status.code(), Some(2), "{arguments:?}");
        assert!(output.stdout.is_empty(), "{arguments:?}");
        assert!(!output.stderr.is_empty(), "{arguments:?}");
    }
}

#[test]
fn without_set_up_it_says_what_to_run_and_leaves_nothing() {
    let cache = tempfile::tempdir().unwrap();
    let output = run(Some(cache.path()), &["up", "--check"]);
    assert_eq!(output.status.code(), Some(3));
    let words = text(&output.stderr).replace(cache.path().to_str().unwrap(), "CACHE");
    let (_progress, error) = words.split_once("error: ").unwrap();
    insta::assert_snapshot!(error);
    assert!(output.stdout.is_empty());
}

#[test]
fn the_doctor_names_what_is_missing_and_the_command_that_brings_it() {
    let cache = tempfile::tempdir().unwrap();
    let output = run(Some(cache.path()), &["doctor", "-o", "json"]);
    assert_eq!(output.status.code(), Some(1));
    let document: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(document["ok"], false);
    let findings = document["findings"].as_array().unwrap();
    let kwok = findings.iter().find(|finding| finding["what"].as_str().unwrap().starts_with("kwok ")).unwrap();
    assert_eq!((&kwok["ok"], &kwok["fix"]), (&false.into(), &"tests/setup kwok".into()));
}

#[test]
fn status_is_a_list_for_programs() {
    let output = run(None, &["status", "-o", "JSON"]);
    assert!(output.status.success());
    let document: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(document["kind"], "WorldList");
    assert!(document["items"].is_array());
}

#[test]
fn a_world_that_is_not_there_cannot_be_ended() {
    let output = run(None, &["down", "w99999"]);
    assert_eq!(output.status.code(), Some(2));
    insta::assert_snapshot!(text(&output.stderr));
}
