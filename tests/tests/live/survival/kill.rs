//! SIGKILL of a world's owner while it starts, while it runs, and while it ends.

use std::io::{BufRead, BufReader, Write};
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use muster_tests::ledger::{Root, WorldState, alive_in, sweep, worlds};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

/// A start takes about so long on an idle machine: later kills meet a world that runs, with a machine in it.
const START: Duration = Duration::from_secs(12);

/// And an end so long.
const END: Duration = Duration::from_millis(1500);

/// `up` as a person would start it.
fn up() -> Child {
    let mut command = Command::new(env!("CARGO_BIN_EXE_muster-tests"));
    command
        .args(["up", "--machines", "1", "-o", "json"])
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null());
    command.process_group(0).spawn().unwrap()
}

/// The world of this very process, if it has one by now.
fn world_of(owner: &Child) -> Option<WorldState> {
    let pid = owner.id().cast_signed();
    let states = worlds(&Root::of_this_machine().unwrap()).unwrap();
    states.into_iter().find(|state| state.header.as_ref().is_some_and(|header| header.process.pid == pid))
}

fn pid_of(child: &Child) -> Pid {
    Pid::from_raw(child.id().cast_signed())
}

fn folder_of(world: &WorldState) -> PathBuf {
    let user = nix::unistd::geteuid();
    std::env::temp_dir().join(format!("muster-world-{user}-{}", world.number))
}

/// Kills `times` worlds, each a bit later in its life than the one before, and cleans up after each.
fn kill_and_clean(times: u32) {
    let root = Root::of_this_machine().unwrap();
    for round in 0..times {
        // One random moment in each stretch: spread over all phases, but never twice the same.
        let mut random = [0_u8; 1];
        std::io::Read::read_exact(&mut std::fs::File::open("/dev/urandom").unwrap(), &mut random).unwrap();
        let stretch = START / times;
        let moment = stretch * round + stretch * u32::from(random[0]) / 256;
        let start = Instant::now();
        let mut owner = up();
        // The moment of the kill is what is tested here, so this is no wait for a condition.
        std::thread::sleep(moment);
        let world = world_of(&owner);
        owner.kill().unwrap();
        owner.wait().unwrap();
        // Its last words may have come between the look and the kill.
        let world = world_of(&owner).or(world);
        let swept = sweep(&root).unwrap();
        let problems: Vec<&String> = swept.iter().flat_map(|swept| &swept.problems).collect();
        assert!(problems.is_empty(), "killed after {moment:?}: {problems:?}");
        println!("round {round}: killed after {moment:?}, clean {:?} after the start", start.elapsed());
        let Some(world) = world else { continue };
        gone(&world);
    }
}

/// Kills `times` worlds while they take themselves down.
fn kill_while_ending(times: u32) {
    let root = Root::of_this_machine().unwrap();
    for round in 0..times {
        let (mut owner, world) = started(1);
        kill(pid_of(&owner), Signal::SIGTERM).unwrap();
        let moment = END * round / times;
        std::thread::sleep(moment);
        // Gone already, if it was fast.
        let _ = owner.kill();
        owner.wait().unwrap();
        let swept = sweep(&root).unwrap();
        assert!(swept.iter().all(|swept| swept.problems.is_empty()), "killed {moment:?} into its end: {swept:?}");
        println!("round {round}: killed {moment:?} into its end");
        gone(&world);
    }
}

#[test]
fn a_killed_world_is_cleaned_up_by_the_next_start() {
    kill_and_clean(5);
    kill_while_ending(2);
}

#[test]
#[ignore = "scale tier: takes minutes"]
fn many_killed_worlds_are_cleaned_up() {
    kill_and_clean(20);
    kill_while_ending(10);
}

/// Ctrl-C, a closed terminal, and `down` from another one.
#[test]
fn a_world_that_is_told_to_end_leaves_nothing() {
    for (signal, machines) in [(Signal::SIGINT, 2), (Signal::SIGHUP, 0)] {
        let (mut owner, world) = started(machines);
        kill(pid_of(&owner), signal).unwrap();
        assert!(owner.wait().unwrap().success(), "{signal:?}");
        gone(&world);
    }
    let (mut owner, world) = started(0);
    let down = Command::new(env!("CARGO_BIN_EXE_muster-tests")).args(["down", &world.number]).output().unwrap();
    assert!(
        String::from_utf8_lossy(&down.stdout).contains(&format!("ended world `{}` of up", world.number)),
        "{down:?}"
    );
    assert!(owner.wait().unwrap().success());
    gone(&world);
}

/// The daemon that suites share knows its users by their connections, which the kernel closes when they are killed.
#[test]
fn the_daemon_ends_with_its_last_user() {
    let root = Root::of_this_machine().unwrap();
    let mut command = Command::new(env!("CARGO_BIN_EXE_muster-tests"));
    command.args(["daemon", "survival suite"]).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    let mut daemon = command.process_group(0).spawn().unwrap();
    let end = Instant::now() + Duration::from_secs(60);
    let (world, mut user) = loop {
        assert!(Instant::now() < end, "the daemon opens no socket");
        assert!(daemon.try_wait().unwrap().is_none(), "the daemon has ended");
        let Some(world) = world_of(&daemon) else { continue };
        let socket = root.path().join(&world.number).join("socket");
        if let Ok(user) = UnixStream::connect(socket) {
            break (world, user);
        }
        std::thread::sleep(Duration::from_millis(10));
    };
    user.write_all(b"{\"parts\":[\"kwok\"]}\n").unwrap();
    let mut answer = String::new();
    BufReader::new(user.try_clone().unwrap()).read_line(&mut answer).unwrap();
    assert!(answer.starts_with("{\"ready\":"), "{answer}");
    assert!(!alive_in(&root.path().join(&world.number)).is_empty());

    drop(user);
    assert!(daemon.wait().unwrap().success());
    gone(&world);
}

/// A world that runs, with so many machines: it has printed how to use it.
fn started(machines: usize) -> (Child, WorldState) {
    let mut command = Command::new(env!("CARGO_BIN_EXE_muster-tests"));
    command
        .args(["up", "-o", "json", "--machines", &machines.to_string()])
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::null());
    let mut owner = command.process_group(0).spawn().unwrap();
    let document: serde_json::Value = {
        use serde::Deserialize;
        let mut reader = serde_json::Deserializer::from_reader(owner.stdout.as_mut().unwrap());
        serde_json::Value::deserialize(&mut reader).unwrap()
    };
    assert!(Path::new(document["kubeconfig"].as_str().unwrap()).is_file());
    let list = document["machines"].as_array().unwrap();
    assert_eq!(list.len(), machines);
    let runs = |machine: &serde_json::Value| Path::new("/proc").join(machine["pid"].to_string()).is_dir();
    assert!(list.iter().all(runs), "{list:?}");
    let world = world_of(&owner).unwrap();
    (owner, world)
}

fn gone(world: &WorldState) {
    let root = Root::of_this_machine().unwrap();
    assert_eq!(alive_in(&root.path().join(&world.number)), []);
    assert!(!folder_of(world).exists());
    let prefix = format!("{}-", world.number);
    let found = |folder: &Path| -> Vec<String> {
        let names = std::fs::read_dir(folder).into_iter().flatten().flatten();
        names.filter_map(|entry| entry.file_name().into_string().ok()).filter(|it| it.starts_with(&prefix)).collect()
    };
    assert_eq!(found("/run/netns".as_ref()), [""; 0], "network namespaces");
    for hierarchy in std::fs::read_dir("/sys/fs/cgroup").unwrap().flatten() {
        assert_eq!(found(&hierarchy.path()), [""; 0], "control groups");
    }
    let mounts = std::fs::read_to_string("/proc/self/mounts").unwrap();
    let folder = folder_of(world);
    assert!(!mounts.contains(&format!("{}/", folder.display())), "{mounts}");
}
