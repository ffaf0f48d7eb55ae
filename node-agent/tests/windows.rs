//! The agent as a service of Windows, under a service control manager: installed, asked, kept from harm, taken away.
//!
//! It changes the Windows that it runs in: `images/check-windows` makes one for it.

#![cfg(windows)]
#![expect(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

#[path = "windows/world.rs"]
mod world;

use std::ffi::OsStr;
use std::time::{Duration, Instant};

use serde_json::Value;
use windows_service::service::{Service, ServiceAccess, ServiceStartType, ServiceState};

use self::world::World;

/// Wine on a busy machine takes its time; a condition is met much sooner.
const DEADLINE: Duration = Duration::from_secs(60);

fn wait<T>(what: &str, mut met: impl FnMut() -> Option<T>) -> T {
    let start = Instant::now();
    loop {
        if let Some(it) = met() {
            return it;
        }
        assert!(start.elapsed() < DEADLINE, "not within {DEADLINE:?}: {what}");
        std::thread::sleep(Duration::from_millis(20));
    }
}

fn wait_for(what: &str, mut met: impl FnMut() -> bool) {
    wait(what, || met().then_some(()));
}

fn has_code(status: &Value, code: &str) -> bool {
    status["verdict"]["code"] == code
}

/// The service. Installed twice is installed once, with the start of a service that the machine needs.
fn installed(world: &World) -> Service {
    for _ in 0..2 {
        world.agent(&["service", "install"]).success();
    }
    let service = world.service("muster-agent", ServiceAccess::all()).unwrap();
    let config = service.query_config().unwrap();
    assert_eq!(config.start_type, ServiceStartType::AutoStart);
    assert!(config.executable_path.to_string_lossy().contains("--metadata-endpoint http://127.0.0.1:"));
    let key = windows_registry::LOCAL_MACHINE.open(r"SYSTEM\CurrentControlSet\Services\muster-agent").unwrap();
    assert_eq!(key.get_string("Group").unwrap(), "NetworkProvider", "before services without a group");
    assert_eq!(key.get_multi_string("DependOnService").unwrap(), ["Dnscache", "EventLog"]);
    service
}

#[test]
fn the_service_holds_a_kubelet_back_lets_it_go_and_leaves_a_healthy_one_alone() {
    let mut world = World::new();

    // What a run before this one has left.
    world.agent(&["service", "uninstall"]).success();
    if let Some(left) = world.service("kubelet", ServiceAccess::STOP | ServiceAccess::DELETE) {
        let _runs_or_not = left.stop();
        left.delete().unwrap();
    }

    let service = installed(&world);

    // There is no API server: that is told, and nothing is held that nobody wants to start.
    service.start::<&OsStr>(&[]).unwrap();
    wait_for("the agent runs", || world.state("muster-agent") == Some(ServiceState::Running));
    let status = wait("the API server is missed", || world.status().filter(|it| has_code(it, "NW03")));
    assert_eq!((&status["held"], &status["instanceId"]), (&Value::Bool(false), &Value::from("i-0123456789abcdef0")));
    assert!(status["notOnThisPlatform"].as_array().unwrap().contains(&Value::from("systemd")));

    // The image's bootstrap makes and starts the kubelet's service; it is stopped.
    let kubelet = world.make_kubelet();
    kubelet.start::<&OsStr>(&[]).unwrap();
    let started = Instant::now();
    wait_for("the kubelet is stopped", || world.state("kubelet") == Some(ServiceState::Stopped));
    let held_after = started.elapsed();
    let status = wait("it is told that it is held", || world.status().filter(|it| it["held"] == true));
    assert!(has_code(&status, "NW03"), "{status}");
    assert_eq!(world.agent(&["gate"]).code(), 100);
    assert_eq!(world.agent(&["status"]).code(), 1);

    // An agent that dies while it holds the kubelet back remembers that.
    service.stop().unwrap();
    wait_for("the agent stops", || world.state("muster-agent") == Some(ServiceState::Stopped));
    service.start::<&OsStr>(&[]).unwrap();
    wait("the agent is back", || world.status().filter(|it| has_code(it, "NW03")));

    // The fault is mended: the kubelet is started, and the node goes through all stages.
    let mended = Instant::now();
    world.start_api_server();
    wait_for("the kubelet runs", || world.state("kubelet") == Some(ServiceState::Running));
    let released_after = mended.elapsed();
    let status = wait("the node takes pods", || {
        world.status().filter(|it| it["phase"] == "initialized" && it["waitingFor"].is_null())
    });
    // The disk is that of the machine which runs the tests.
    let found = status["findings"].as_array().unwrap().iter().filter(|it| it["code"] != "CR11");
    assert_eq!(found.count(), 0, "{status}");
    assert!(status["phases"].as_array().unwrap().iter().all(|phase| phase["state"] == "done"), "{status}");
    assert_eq!(status["node"], world::NAME);
    assert_eq!(world.agent(&["gate"]).code(), 0);
    let told = world.agent(&["status"]).success();
    assert!(told.contains("It takes pods") && told.contains("Not on this platform: control groups"), "{told}");
    assert!(!told.contains("The service does not run"), "{told}");

    // The end of the agent, and a fault that comes later, do not touch a kubelet that runs.
    service.stop().unwrap();
    wait_for("the agent stops", || world.state("muster-agent") == Some(ServiceState::Stopped));
    assert_eq!(world.agent(&["gate"]).code(), 0, "nobody is asked");
    assert!(world.agent(&["status"]).success().contains("The service does not run"));
    world.stop_api_server();
    service.start::<&OsStr>(&[]).unwrap();
    wait("the API server is missed again", || world.status().filter(|it| has_code(it, "NW03")));
    assert_eq!(world.state("kubelet"), Some(ServiceState::Running));

    // Taken away while it runs.
    drop(service);
    world.agent(&["service", "uninstall"]).success();
    wait_for("the service is gone", || world.service("muster-agent", ServiceAccess::QUERY_STATUS).is_none());
    world.agent(&["service", "uninstall"]).success();
    assert_eq!(world.state("kubelet"), Some(ServiceState::Running));
    kubelet.stop().unwrap();
    kubelet.delete().unwrap();
    println!("held after {held_after:.2?}, released after {released_after:.2?}");
}
