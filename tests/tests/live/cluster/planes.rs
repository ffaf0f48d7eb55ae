//! Control planes as a whole: several at once, in a network of their own, and their end.

use std::net::Ipv4Addr;
use std::time::{Duration, Instant};

use k8s_openapi::api::core::v1::{ConfigMap, Namespace};
use kube::Api;
use kube::api::{ListParams, PostParams};
use muster_tests::cluster::{Network, Options};
use muster_tests::ledger::{Thing, alive_in};
use muster_tests::process::{Program, Signal};
use muster_tests::world::{Part, World, needs_root};
use muster_tests::{case, wait};
use serde_json::json;

fn settings(name: &str) -> ConfigMap {
    serde_json::from_value(json!({"metadata": {"name": name}})).unwrap()
}

#[tokio::test]
async fn two_run_side_by_side_and_leave_nothing() {
    let world = World::open("planes suite").unwrap();
    let start = Instant::now();
    let options = ["one", "two"].map(Options::named);
    let (one, two) = tokio::join!(world.control_plane(&options[0]), world.control_plane(&options[1]));
    let (one, mut two) = (one.unwrap(), two.unwrap());
    println!("two control planes were ready after {:.1} s", start.elapsed().as_secs_f64());

    let of_one: Api<ConfigMap> = Api::default_namespaced(one.cluster().client());
    let of_two: Api<ConfigMap> = Api::default_namespaced(two.cluster().client());
    of_one.create(&PostParams::default(), &settings("only-in-one")).await.unwrap();
    assert!(of_one.get_opt("only-in-one").await.unwrap().is_some());
    assert!(of_two.get_opt("only-in-one").await.unwrap().is_none());

    drop(one);
    two.check().unwrap();
    of_two.list(&ListParams::default()).await.unwrap();
    drop(two);
    let (ledger, folder) = (world.ledger().folder().to_owned(), world.folder().to_owned());
    assert_eq!(alive_in(&ledger), []);
    world.close().unwrap();
    assert!(!ledger.exists() && !folder.exists());
}

#[tokio::test]
async fn a_server_that_dies_is_reported_with_its_log() {
    let world = World::open("planes suite").unwrap();
    let mut plane = world.control_plane(&Options::named("dying")).await.unwrap();
    let etcd = plane.servers().iter().find(|server| server.name() == "dying-etcd").unwrap();
    assert!(etcd.signal(Signal::SIGKILL));
    let died = wait::until_some("the end is seen", Duration::from_secs(10), || {
        let died = plane.check().err();
        async { Ok(died) }
    });
    let died = died.await.unwrap().to_string();
    assert!(died.starts_with("`dying-etcd` ended: signal: 9 (SIGKILL)"), "{died}");
    assert!(died.contains("dying-etcd.log"), "{died}");
}

#[test]
fn requests_are_in_the_audit_log_on_demand() {
    case("audit", &[Part::Cluster], async |case| {
        let maps: Api<ConfigMap> = Api::namespaced(case.cluster().client(), case.namespace());
        maps.create(&PostParams::default(), &settings("watched")).await.unwrap();
        // The line is written when the answer is.
        let log = case.logs().join("shared-audit.log");
        let line = wait::until_some("the request is in the audit log", Duration::from_secs(10), || {
            let text = std::fs::read_to_string(&log).unwrap_or_default();
            let line = text.lines().find(|line| line.contains(case.namespace()) && line.contains("watched"));
            let line = line.map(String::from);
            async { Ok(line) }
        });
        let line: serde_json::Value = serde_json::from_str(&line.await.unwrap()).unwrap();
        assert_eq!(line["verb"], "create");
        assert_eq!(line["user"]["username"], "admin");
        assert_eq!(line["responseStatus"]["code"], 201);
    });
}

/// With machines the servers are in a network namespace: a relay leads in, and nothing of it is on the machine itself.
#[tokio::test]
async fn a_plane_in_a_network_of_its_own_is_reached_from_outside() {
    needs_root().unwrap_or_else(|error| panic!("{error}"));
    let world = World::open("planes suite").unwrap();
    let name = format!("{}-plane", world.number());
    let ip = |arguments: &[&str]| world.spawner().run(&Program::new("ip", "ip").args(arguments)).unwrap();
    world.ledger().make(Thing::NetworkNamespace { name: name.clone() }).unwrap();
    ip(&["netns", "add", &name]);
    ip(&["-n", &name, "link", "set", "lo", "up"]);
    ip(&["-n", &name, "address", "add", "192.0.2.1/32", "dev", "lo"]);
    let network = Network::Namespace { name: name.clone(), address: Ipv4Addr::new(192, 0, 2, 1) };
    let plane = world.control_plane(&Options { network, ..Options::named("inside") }).await.unwrap();

    let namespaces: Api<Namespace> = Api::all(plane.cluster().client());
    assert!(namespaces.get_opt("kube-system").await.unwrap().is_some());
    assert_eq!(plane.cluster().inside().unwrap(), "https://192.0.2.1:6443");
    let seen = plane.cluster().kubectl(&["get", "--raw", "/readyz"]).await.unwrap();
    assert_eq!(seen, "ok");
    drop(plane);
    world.close().unwrap();
    assert!(!std::path::Path::new("/run/netns").join(name).exists());
}
