//! Faults that come, or show, after the kubelet was started.

use std::time::{Duration, Instant};

use muster_bootstrap::agent_config::{AgentSpec, Expectation};
use muster_tests::instances::user_data::NodeConfig;
use muster_tests::{Ground, on_site_for};
use serde_json::json;

use super::{MOST, boot, finding, replaced, report, says, user_data};

const LONG: Duration = Duration::from_secs(400);

#[test]
fn a_kubelet_that_ends_again_and_again_is_explained() {
    on_site_for(LONG, "crash", Ground::Cluster, async |case| {
        let site = case.site();
        let cluster = site.cluster().unwrap();
        // Nothing is held back, so that the kubelet meets the fault itself.
        let data = user_data(cluster, &NodeConfig::default(), AgentSpec { report_only: true, ..AgentSpec::default() });
        let mut instance = site.instance();
        instance.user_data = Some(replaced(&data, "\"flags\": [", "\"flags\": [\"--container-runtime=remote\","));
        let node = boot(site, instance, |_| {}).await;
        node.machine.journal().line("unknown flag: --container-runtime", MOST).await.unwrap();
        let found = report(&node.machine).await;
        assert_eq!((&found["verdict"]["code"], &found["held"]), (&json!("KA01"), &json!(false)), "{found:#}");
        node.machine.journal().line("kubelet.service: Main process exited", MOST).await.unwrap();
        site.terminate(node).await.unwrap();
    });
}

#[test]
fn faults_of_a_node_that_had_joined_are_named_in_seconds() {
    on_site_for(LONG, "after", Ground::Cluster, async |case| {
        let site = case.site();
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
        says(machine, "initialized, CN11: ").await;
        assert!(finding(&report(machine).await, "CN11")["message"].as_str().unwrap().contains(startup));
        cluster.kubectl(&["taint", "node", &name, &format!("{startup}-")]).await.unwrap();
        machine.journal().line(": the node takes pods", MOST).await.unwrap();

        let start = Instant::now();
        machine.stop_containerd().await.unwrap();
        says(machine, ", CR02: ").await;
        println!("| CR02 | {:?}", start.elapsed());
        machine.run(["systemctl", "start", "containerd"]).await.unwrap();

        // A notice, before what matters more hides it.
        let start = Instant::now();
        node.served.interrupt("terminate", jiff::Timestamp::now());
        says(machine, ", EX03: ").await;
        println!("| EX03 | {:?}", start.elapsed());

        machine.fill_disk().await.unwrap();
        muster_tests::wait::until(
            kube::Api::<k8s_openapi::api::core::v1::Node>::all(cluster.client()),
            &name,
            MOST,
            "DiskPressure is True",
            |node| {
                let conditions = node.status.as_ref().and_then(|status| status.conditions.as_ref());
                conditions.into_iter().flatten().any(|it| it.type_ == "DiskPressure" && it.status == "True")
            },
        )
        .await
        .unwrap();
        let start = Instant::now();
        says(machine, ", CR11: ").await;
        println!("| CR11 | {:?} after the Node said it", start.elapsed());
        machine.empty_disk().await.unwrap();

        site.terminate(node).await.unwrap();
    });
}
