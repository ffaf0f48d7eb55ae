//! Faults that come, or show, after the kubelet was started.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use k8s_openapi::api::core::v1::Node as KubeNode;
use muster_bootstrap::agent_config::{AgentSpec, Expectation};
use muster_tests::instances::user_data::NodeConfig;
use muster_tests::instances::{Node, Site};
use muster_tests::machine::{Inventory, Machine};
use muster_tests::{Ground, on_site, on_site_for, wait};
use serde_json::json;

use super::table::Took;
use super::{MOST, boot, finding, replaced, report, says, user_data};

const LONG: Duration = Duration::from_secs(400);

/// Waits until the agent names a code that it has not named before.
async fn names(machine: &Machine, code: &'static str, what: &'static str, since: Instant) -> Took {
    says(machine, &format!(", {code}: ")).await;
    Took { what, code, after: since.elapsed() }
}

/// A node that joins with a startup taint, and everything that happens to it afterwards.
pub(crate) async fn of_a_node(site: &Arc<Site>) -> Vec<Took> {
    let cluster = site.cluster().unwrap();
    let startup = "example.com/agent-not-ready:NoSchedule";
    let expect = Expectation { startup_taints: vec![startup.to_owned()], ..Expectation::default() };
    let config = NodeConfig {
        taints: json!([{"key": "example.com/agent-not-ready", "effect": "NoSchedule"}]),
        ..NodeConfig::default()
    };
    let mut instance = site.instance();
    instance.user_data = Some(user_data(cluster, &config, AgentSpec { expect, ..AgentSpec::default() }));
    let name = instance.host_name.clone();
    let node = boot(site, instance, |_| {}).await;
    let machine = &node.machine;
    let nodes = || kube::Api::<KubeNode>::all(cluster.client());
    let is = |node: &KubeNode, kind: &str| {
        let conditions = node.status.as_ref().and_then(|status| status.conditions.as_ref());
        conditions.into_iter().flatten().any(|it| it.type_ == kind && it.status == "True")
    };
    let mut all = Vec::new();
    wait::until(nodes(), &name, MOST, "Ready is True", |node| is(node, "Ready")).await.unwrap();
    all.push(names(machine, "CN11", "a startup taint that nobody removes", Instant::now()).await);
    assert!(finding(&report(machine).await, "CN11")["message"].as_str().unwrap().contains(startup));
    cluster.kubectl(&["taint", "node", &name, &format!("{startup}-")]).await.unwrap();
    machine.journal().line(": the node takes pods", MOST).await.unwrap();

    let start = Instant::now();
    machine.stop_containerd().await.unwrap();
    all.push(names(machine, "CR02", "containerd stopped", start).await);
    machine.run(["systemctl", "start", "containerd"]).await.unwrap();

    // A notice, before what matters more hides it.
    let start = Instant::now();
    node.served.interrupt("terminate", jiff::Timestamp::now());
    all.push(names(machine, "EX03", "a notice of spot interruption", start).await);

    // Nothing says so: it shows in the silence of an open connection, which is asked after five seconds. The kubelet takes
    // longer. So it has no place in a table of what is visible.
    let start = Instant::now();
    machine.cut_network().await.unwrap();
    let named = machine.journal().line(", NW0", MOST).await.unwrap();
    println!("the network was cut, and {:?} later: {named}", start.elapsed());
    machine.mend_network().await.unwrap();
    wait::until(nodes(), &name, MOST, "Ready is True", |node| is(node, "Ready")).await.unwrap();

    machine.fill_disk().await.unwrap();
    wait::until(nodes(), &name, MOST, "DiskPressure is True", |node| is(node, "DiskPressure")).await.unwrap();
    all.push(names(machine, "CR11", "the disk full, from the Node's condition", Instant::now()).await);
    machine.empty_disk().await.unwrap();
    site.terminate(node).await.unwrap();
    all
}

/// A node whose driver and devices come late, fail, and go.
pub(crate) async fn of_devices(site: &Arc<Site>) -> Vec<Took> {
    let cluster = site.cluster().unwrap();
    let expect =
        Expectation { resources: BTreeMap::from([("nvidia.com/gpu".to_owned(), 2)]), ..Expectation::default() };
    let mut instance = site.instance();
    instance.user_data = Some(user_data(cluster, &NodeConfig::default(), AgentSpec { expect, ..AgentSpec::default() }));
    let t4 = || ("10de".to_owned(), "1eb8".to_owned(), "030200".to_owned());
    let node: Node = boot(site, instance, |spec| spec.shape.pci = vec![t4(), t4()]).await;
    let machine = &node.machine;
    let mut all = vec![names(machine, "GP01", "a driver that comes after the kubelet", Instant::now()).await];
    // The kubelet is not held back for it.
    machine.journal().line("Successfully registered node", MOST).await.unwrap();
    let driver = "mknod -m 666 /dev/nvidia0 c 1 3; mknod -m 666 /dev/nvidia1 c 1 3";
    machine.run(["sh", "-c", driver]).await.unwrap();
    all.push(names(machine, "GP16", "a device plugin that never registers", Instant::now()).await);
    let gpus = Inventory::nvidia(2);
    machine.plug_in(&gpus).await.unwrap();
    machine.journal().line(": the node takes pods", MOST).await.unwrap();
    let found = report(machine).await;
    assert_eq!(found["devices"][0]["allocatable"], 2, "{found:#}");
    let start = Instant::now();
    machine.change_devices(&gpus.clone().with_unhealthy("GPU-1")).await.unwrap();
    all.push(names(machine, "GP06", "a device unhealthy", start).await);
    let start = Instant::now();
    machine.unplug(&gpus).await.unwrap();
    all.push(names(machine, "GP12", "a plugin that loses its devices", start).await);
    site.terminate(node).await.unwrap();
    all
}

/// A kubelet that meets a fault itself, for nothing holds it back: what it says last is the cause.
pub(crate) async fn of_a_kubelet(site: &Arc<Site>) -> Vec<Took> {
    let cluster = site.cluster().unwrap();
    let data = user_data(cluster, &NodeConfig::default(), AgentSpec { report_only: true, ..AgentSpec::default() });
    let mut instance = site.instance();
    instance.user_data = Some(replaced(&data, "\"flags\": [", "\"flags\": [\"--container-runtime=remote\","));
    let node = boot(site, instance, |_| {}).await;
    let machine = &node.machine;
    machine.journal().line("unknown flag: --container-runtime", MOST).await.unwrap();
    let took = names(machine, "KA01", "a crash-looping kubelet, nothing held back", Instant::now()).await;
    let found = report(machine).await;
    assert_eq!((&found["verdict"]["code"], &found["held"]), (&json!("KA01"), &json!(false)), "{found:#}");
    machine.journal().line("kubelet.service: Main process exited", MOST).await.unwrap();
    site.terminate(node).await.unwrap();

    // One that cannot live for a reason that no preflight knows: its own unit ends it.
    let mut instance = site.instance();
    instance.user_data = Some(user_data(cluster, &NodeConfig::default(), AgentSpec::default()));
    let node = boot(site, instance, |_| {}).await;
    let machine = &node.machine;
    machine.journal().line(": the node takes pods", MOST).await.unwrap();
    let start = Instant::now();
    let script = "mkdir -p /run/systemd/system/kubelet.service.d
        printf '[Service]\\nExecStartPost=/bin/false\\n' >/run/systemd/system/kubelet.service.d/99-own.conf
        systemctl daemon-reload; systemctl restart kubelet || true";
    machine.run(["sh", "-c", script]).await.unwrap();
    let unexplained = names(machine, "KA37", "a kubelet that ends again and again", start).await;
    site.terminate(node).await.unwrap();
    vec![took, unexplained]
}

fn print(all: &[Took]) {
    all.iter().for_each(|took| println!("{took}"));
}

#[test]
fn a_kubelet_that_ends_again_and_again_is_explained() {
    on_site_for(LONG, "crash", Ground::Cluster, async |case| print(&of_a_kubelet(case.site()).await));
}

#[test]
fn faults_of_a_node_that_had_joined_are_named() {
    on_site_for(LONG, "after", Ground::Cluster, async |case| print(&of_a_node(case.site()).await));
}

#[test]
fn devices_are_followed_from_their_plugin_to_the_node() {
    on_site("devices", Ground::Cluster, async |case| print(&of_devices(case.site()).await));
}
