use std::process::{Command, Stdio};

use super::*;

fn root() -> (tempfile::TempDir, Root) {
    let folder = tempfile::tempdir().unwrap();
    let root = Root::at(folder.path().join("worlds"));
    (folder, root)
}

/// A world whose owner died: its ledger is there, and nobody locks it.
fn abandon(ledger: Ledger) -> PathBuf {
    let folder = ledger.folder().to_owned();
    drop(ledger);
    folder
}

#[test]
fn worlds_get_numbers_and_give_them_back() {
    let (_folder, root) = root();
    let (first, _) = Ledger::open(&root, "first").unwrap();
    let (second, _) = Ledger::open(&root, "second").unwrap();
    assert_eq!((first.number(), second.number()), ("w1", "w2"));
    first.close().unwrap();
    let (third, swept) = Ledger::open(&root, "third").unwrap();
    assert_eq!(third.number(), "w1");
    assert_eq!(swept, []);
}

#[test]
fn what_lives_is_not_swept() {
    let (folder, root) = root();
    let (ledger, _) = Ledger::open(&root, "alive").unwrap();
    let kept = folder.path().join("kept/within");
    ledger.make(Thing::Folder { path: kept.clone() }).unwrap();
    fs::create_dir_all(&kept).unwrap();
    assert_eq!(sweep(&root).unwrap(), []);
    assert!(kept.is_dir());
    let states = worlds(&root).unwrap();
    assert!(states[0].is_alive);
    assert_eq!(states[0].header.as_ref().unwrap().owner, "alive");
    assert_eq!(states[0].entries.len(), 1);
}

#[test]
fn what_a_dead_world_left_is_removed_by_the_next_one() {
    let (folder, root) = root();
    let (ledger, _) = Ledger::open(&root, "dead").unwrap();
    let left = folder.path().join("left/within");
    let never_made = folder.path().join("left/never");
    ledger.make(Thing::Folder { path: left.clone() }).unwrap();
    ledger.make(Thing::Folder { path: never_made }).unwrap();
    fs::create_dir_all(left.join("deep")).unwrap();
    let abandoned = abandon(ledger);

    let (_next, swept) = Ledger::open(&root, "next").unwrap();
    let expected = Swept { number: "w1".into(), owner: Some("dead".into()), things: 2, problems: Vec::new() };
    assert_eq!(swept, [expected]);
    assert!(!left.exists());
    assert_eq!(fs::read_dir(root.path()).unwrap().count(), 2, "the lock and the next world, in the same place");
    assert!(abandoned.exists(), "w1 is in use again");
}

#[test]
fn a_process_is_found_by_its_number_or_by_its_marker() {
    let (_folder, root) = root();
    let (ledger, _) = Ledger::open(&root, "dead").unwrap();
    let sleeper = |ledger: &Ledger| {
        let mut command = Command::new("sleep");
        command.arg("600").env(MARKER, ledger.folder()).stdin(Stdio::null());
        command.spawn().unwrap()
    };
    // One whose number was written down, and one whose owner died in the moment between the two lines.
    let number = ledger.make(Thing::Process { name: "known".into(), process: None }).unwrap();
    let mut known = sleeper(&ledger);
    ledger.started(number, ProcessId::of(known.id().cast_signed()).unwrap()).unwrap();
    ledger.make(Thing::Process { name: "just started".into(), process: None }).unwrap();
    let mut unknown = sleeper(&ledger);
    let abandoned = abandon(ledger);

    let swept = sweep(&root).unwrap();
    assert_eq!(swept[0].problems, [""; 0]);
    assert_eq!(alive_in(&abandoned), []);
    assert!(!known.wait().unwrap().success());
    assert!(!unknown.wait().unwrap().success());
}

#[test]
fn a_number_that_was_used_again_is_another_process() {
    let own = ProcessId::own();
    assert!(own.is_alive());
    let other = ProcessId { start: own.start + 1, ..own };
    assert!(!other.is_alive());
    assert!(!other.signal(nix::sys::signal::Signal::SIGKILL), "or this test would be dead");
}

#[test]
fn a_ledger_that_was_cut_off_is_read_up_to_there() {
    let (folder, root) = root();
    let (ledger, _) = Ledger::open(&root, "dead").unwrap();
    let left = folder.path().join("left/within");
    ledger.make(Thing::Folder { path: left.clone() }).unwrap();
    fs::create_dir_all(&left).unwrap();
    let abandoned = abandon(ledger);
    let path = abandoned.join("ledger");
    let mut text = fs::read_to_string(&path).unwrap();
    text.push_str(r#"{"make":{"number":2,"thing":{"fol"#);
    fs::write(&path, text).unwrap();
    assert_eq!(sweep(&root).unwrap()[0].problems, [""; 0]);
    assert!(!left.exists());
}

#[test]
fn an_owner_that_died_at_once_leaves_an_empty_folder() {
    let (_folder, root) = root();
    root.lock().unwrap();
    fs::create_dir_all(root.path().join("w1")).unwrap();
    assert_eq!(sweep(&root).unwrap().len(), 1);
    assert!(!root.path().join("w1").exists());
}

#[test]
fn a_ledger_of_another_build_is_left_alone_and_named() {
    let (_folder, root) = root();
    root.lock().unwrap();
    let folder = root.path().join("w1");
    fs::create_dir_all(&folder).unwrap();
    fs::write(folder.join("ledger"), "{\"make\":{\"number\":1,\"thing\":{\"balloon\":{}}}}\n").unwrap();
    let swept = sweep(&root).unwrap();
    let problem = swept[0].problems.join("\n").replace(root.path().to_str().unwrap(), "ROOT");
    insta::assert_snapshot!(problem);
    assert!(folder.exists());
    let (next, _) = Ledger::open(&root, "next").unwrap();
    assert_eq!(next.number(), "w2");
}

#[test]
fn a_closed_world_leaves_nothing() {
    let (folder, root) = root();
    let (ledger, _) = Ledger::open(&root, "closed").unwrap();
    let inside = folder.path().join("made/within");
    let number = ledger.make(Thing::Folder { path: inside.clone() }).unwrap();
    fs::create_dir_all(&inside).unwrap();
    ledger.remove(number).unwrap();
    assert!(!inside.exists());
    assert_eq!(ledger.entries(), []);
    let again = ledger.make(Thing::Folder { path: inside.clone() }).unwrap();
    assert_eq!(again, 2, "numbers are not used twice");
    fs::create_dir_all(&inside).unwrap();
    ledger.close().unwrap();
    assert!(!inside.exists());
    assert_eq!(worlds(&root).unwrap(), []);
}
