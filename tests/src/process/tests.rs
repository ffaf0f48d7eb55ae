use std::time::Duration;

use super::*;
use crate::ledger::{Root, alive_in};

fn spawner() -> (tempfile::TempDir, Spawner) {
    let folder = tempfile::tempdir().unwrap();
    let (ledger, _) = Ledger::open(&Root::at(folder.path().join("worlds")), "process").unwrap();
    let spawner = Spawner::new(Arc::new(ledger), folder.path().join("logs")).unwrap();
    (folder, spawner)
}

fn shell(script: &str) -> Program {
    Program::new("shell", "sh").args(["-c", script])
}

/// Waits for a file, by asking the shell that writes it to end.
fn output(spawner: &Spawner, script: &str) -> String {
    spawner.run(&shell(script)).unwrap()
}

#[test]
fn a_process_that_obeys_is_asked_one_that_does_not_is_killed() {
    let (_folder, spawner) = spawner();
    let mut obeys = spawner.start(&Program::new("sleep", "sleep").arg("600")).unwrap();
    obeys.check().unwrap();
    assert_eq!(obeys.end(Duration::from_secs(5)), Ending::Asked);
    assert_eq!(obeys.end(Duration::from_secs(5)), Ending::Before);

    let mut deaf =
        spawner.start(&Program::new("deaf", "sh").args(["-c", "trap '' TERM; echo set; exec sleep 600"])).unwrap();
    while !fs::read_to_string(deaf.log()).unwrap().contains("set") {
        deaf.check().unwrap();
        std::thread::yield_now();
    }
    assert_eq!(deaf.end(Duration::from_millis(50)), Ending::Killed);
    assert_eq!(spawner.ledger().entries(), []);
}

#[test]
fn a_server_that_ends_shows_its_last_lines() {
    let (_folder, spawner) = spawner();
    let mut server = spawner.start(&shell("echo listening; echo no room >&2; exit 3")).unwrap();
    assert!(server.id().wait_end(Duration::from_secs(5)));
    let error = server.check().unwrap_err().to_string();
    let error = error.replace(spawner.logs().to_str().unwrap(), "LOGS");
    insta::assert_snapshot!(error);
}

#[test]
fn nothing_of_our_environment_reaches_a_process() {
    let (_folder, spawner) = spawner();
    let text = output(&spawner, "env | cut -d= -f1 | sort | tr '\\n' ' '");
    insta::assert_snapshot!(text);
}

#[test]
fn what_is_dropped_ends_and_with_it_what_it_started() {
    let (_folder, spawner) = spawner();
    let parent = spawner.start(&shell("sleep 600 & sleep 601")).unwrap();
    drop(parent);
    // The child of the shell is not ours to wait for, but it carries the marker.
    spawner.ledger().make(Thing::Process { name: "unknown".into(), process: None }).unwrap();
    let ledger = spawner.ledger();
    ledger.close().unwrap();
    assert_eq!(alive_in(ledger.folder()), []);
}

#[test]
fn a_program_that_is_not_there_is_named() {
    let (_folder, spawner) = spawner();
    let error = spawner.run(&Program::new("etcd", "/no/such/etcd")).unwrap_err();
    assert!(error.is_missing());
    insta::assert_snapshot!(error);
}
