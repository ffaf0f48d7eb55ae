//! Every kind of thing that a world makes, abandoned and found again.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Barrier;

use muster_tests::ledger::{Ledger, MARKER, Root, Thing, sweep};
use muster_tests::world::needs_root;

fn run(command: &[&str]) {
    let status = Command::new(command[0]).args(&command[1..]).status().unwrap();
    assert!(status.success(), "{command:?}");
}

fn root(folder: &Path) -> Root {
    Root::at(folder.join("worlds"))
}

/// A folder of the machine's control groups that processes can be put into.
fn group(name: &str) -> PathBuf {
    let version_1 = Path::new("/sys/fs/cgroup/pids");
    let parent = if version_1.is_dir() { version_1 } else { Path::new("/sys/fs/cgroup") };
    parent.join(name)
}

#[test]
fn every_kind_of_thing_is_removed() {
    needs_root().unwrap_or_else(|error| panic!("{error}"));
    let folder = tempfile::tempdir().unwrap();
    let root = root(folder.path());
    let (ledger, _) = Ledger::open(&root, "all kinds").unwrap();
    // Names of the machine are shared with worlds that live: add what nobody else has.
    let own = std::process::id();
    let (network, link) = (format!("muster-things-{own}"), format!("mt{own}"));
    let (mount, below) = (folder.path().join("things/mount"), folder.path().join("things/folder/mount"));
    let cgroup = group(&format!("muster-things-{own}"));

    let make = |thing: Thing| ledger.make(thing).unwrap();
    make(Thing::NetworkNamespace { name: network.clone() });
    run(&["ip", "netns", "add", &network]);
    make(Thing::Link { name: link.clone() });
    run(&["ip", "link", "add", &link, "type", "veth", "peer", "name", "eth0", "netns", &network]);
    make(Thing::Folder { path: folder.path().join("things") });
    for at in [&mount, &below] {
        std::fs::create_dir_all(at).unwrap();
        run(&["mount", "-t", "tmpfs", "tmpfs", at.to_str().unwrap()]);
        std::fs::write(at.join("inside"), "").unwrap();
    }
    make(Thing::Mount { at: mount.clone() });
    make(Thing::Cgroup { path: cgroup.clone() });
    std::fs::create_dir_all(cgroup.join("deep/deeper")).unwrap();
    make(Thing::Process { name: "unknown".to_owned(), process: None });
    let mut sleeper = Command::new("sleep");
    sleeper.arg("600").env(MARKER, ledger.folder()).stdin(Stdio::null());
    let mut marked = sleeper.spawn().unwrap();
    // In the group, without the marker: a pod of a machine, say.
    let mut member = Command::new("sleep").arg("600").env_clear().stdin(Stdio::null()).spawn().unwrap();
    std::fs::write(cgroup.join("deep/deeper/cgroup.procs"), member.id().to_string()).unwrap();
    drop(ledger);

    let swept = sweep(&root).unwrap();
    assert_eq!(swept.len(), 1);
    assert_eq!(swept[0].problems, [""; 0]);
    assert!(!marked.wait().unwrap().success());
    assert!(!member.wait().unwrap().success());
    assert!(!Path::new("/run/netns").join(&network).exists());
    assert!(!Path::new("/sys/class/net").join(&link).exists());
    assert!(!cgroup.exists());
    assert!(!folder.path().join("things").exists());
}

/// Two test programs that start together clean up after the same dead worlds.
#[test]
fn two_that_clean_up_at_once_do_not_meet() {
    let folder = tempfile::tempdir().unwrap();
    let root = root(folder.path());
    let abandoned: Vec<Ledger> = (0..12)
        .map(|number| {
            let (ledger, _) = Ledger::open(&root, "dead").unwrap();
            let path = folder.path().join(format!("left/{number}"));
            ledger.make(Thing::Folder { path: path.clone() }).unwrap();
            std::fs::create_dir_all(path.join("deep")).unwrap();
            ledger
        })
        .collect();
    drop(abandoned);
    let together = Barrier::new(2);
    let swept: Vec<_> = std::thread::scope(|scope| {
        let sweepers: Vec<_> = (0..2)
            .map(|_| {
                scope.spawn(|| {
                    together.wait();
                    sweep(&root).unwrap()
                })
            })
            .collect();
        sweepers.into_iter().flat_map(|sweeper| sweeper.join().unwrap()).collect()
    });
    assert_eq!(swept.len(), 12, "each by one of them");
    assert!(swept.iter().all(|swept| swept.problems.is_empty()), "{swept:?}");
    assert_eq!(std::fs::read_dir(folder.path().join("left")).unwrap().count(), 0);
}
