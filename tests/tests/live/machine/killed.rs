//! SIGKILL of whoever owns machines, at any moment.

use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use muster_tests::instances::Site;
use muster_tests::ledger::{Root, alive_in, sweep, worlds};
use muster_tests::machine::Image;

/// A start takes about so long on a busy machine: later kills meet machines that run.
const START: Duration = Duration::from_secs(3);

/// Everything of a dead world is gone within this time, whoever cleans it up.
const CLEAN: Duration = Duration::from_secs(20);

/// Set for the process that is killed.
const OWNER: &str = "MUSTER_TEST_OWNER";

/// Not a test of its own: the process that the others kill.
#[tokio::test(flavor = "multi_thread")]
#[ignore = "the owner that is killed, started by the tests of this file"]
async fn owner() {
    if std::env::var_os(OWNER).is_none() {
        return;
    }
    let site = Site::open("killed").await.unwrap();
    let boot = || site.boot(site.instance(), Image::Bare, |_| {});
    let _machines = tokio::try_join!(boot(), boot()).unwrap();
    std::future::pending::<()>().await;
}

/// Names in `folder` that begin with `prefix`.
fn found(folder: &Path, prefix: &str) -> Vec<String> {
    let entries = std::fs::read_dir(folder).into_iter().flatten().flatten();
    entries.filter_map(|entry| entry.file_name().into_string().ok()).filter(|name| name.starts_with(prefix)).collect()
}

fn kill_and_clean(times: u32) {
    let root = Root::of_this_machine().unwrap();
    for round in 0..times {
        // One random moment in each stretch: spread over all phases, but never twice the same.
        let mut random = [0_u8; 1];
        std::io::Read::read_exact(&mut std::fs::File::open("/dev/urandom").unwrap(), &mut random).unwrap();
        let moment = START / times * round + START / times * u32::from(random[0]) / 256;
        let mut command = Command::new(std::env::current_exe().unwrap());
        command
            .args(["killed::owner", "--exact", "--ignored"])
            .env(OWNER, "1")
            .stdin(Stdio::null())
            .stdout(Stdio::null());
        let mut owner = command.stderr(Stdio::null()).spawn().unwrap();
        // The moment of the kill is what is tested here, so this is no wait for a condition.
        std::thread::sleep(moment);
        let pid = owner.id().cast_signed();
        owner.kill().unwrap();
        owner.wait().unwrap();
        let states = worlds(&root).unwrap();
        let world =
            states.into_iter().find(|state| state.header.as_ref().is_some_and(|header| header.process.pid == pid));
        let start = Instant::now();
        let swept = sweep(&root).unwrap();
        let problems: Vec<&String> = swept.iter().flat_map(|swept| &swept.problems).collect();
        assert!(problems.is_empty(), "killed after {moment:?}: {problems:?}");
        // A world that another test opens at this moment may have taken the dead one first, and be about to clean it up.
        let is_left =
            || worlds(&root).unwrap().iter().any(|it| it.header.as_ref().is_some_and(|it| it.process.pid == pid));
        while is_left() {
            assert!(start.elapsed() < CLEAN, "killed after {moment:?}: nobody cleans up");
            std::thread::sleep(Duration::from_millis(10));
        }
        println!("killed after {moment:?}, clean {:?} later", start.elapsed());
        let Some(world) = world else { continue };
        let prefix = format!("{}-", world.number);
        assert_eq!(alive_in(&root.path().join(&world.number)), [], "killed after {moment:?}");
        assert_eq!(found("/run/netns".as_ref(), &prefix), [""; 0], "killed after {moment:?}");
        for hierarchy in std::fs::read_dir("/sys/fs/cgroup").unwrap() {
            assert_eq!(found(&hierarchy.unwrap().path(), &prefix), [""; 0], "killed after {moment:?}");
        }
        let mounts = std::fs::read_to_string("/proc/self/mounts").unwrap();
        assert!(!mounts.contains(&format!("muster-world-0-{}/", world.number)), "{mounts}");
    }
}

#[test]
fn machines_of_a_killed_owner_are_cleaned_up() {
    kill_and_clean(6);
}

#[test]
#[ignore = "scale"]
fn machines_of_twenty_killed_owners_are_cleaned_up() {
    kill_and_clean(20);
}
