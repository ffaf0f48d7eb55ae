//! Nodes with which nothing is wrong.

use std::sync::Arc;

use jiff::SignedDuration;
use muster_bootstrap::agent_config::{AgentSpec, Expectation};
use muster_tests::instances::user_data::NodeConfig;
use muster_tests::instances::{Node, Site};
use muster_tests::{Ground, on_site, programs};
use serde_json::json;

use super::{MOST, UNREGISTERED, boot, faults, report, says, time, user_data};

/// What a boot took.
#[derive(Debug)]
pub(crate) struct Boot {
    /// The preflight.
    pub(crate) preflight: SignedDuration,
    /// From the agent's start until the node takes pods.
    pub(crate) whole: SignedDuration,
    /// How long the kubelet's unit waited for the agent's answer.
    pub(crate) gate: SignedDuration,
    /// The agent's resident memory in kB.
    pub(crate) resident: u64,
}

/// Boots a node with which nothing is wrong.
pub(crate) async fn boots(site: &Arc<Site>) -> Node {
    let mut instance = site.instance();
    instance.user_data = Some(user_data(site.cluster().unwrap(), &NodeConfig::default(), AgentSpec::default()));
    let node = boot(site, instance, |_| {}).await;
    node.machine.journal().line(": the node takes pods", MOST).await.unwrap();
    node
}

/// Boots a node with which nothing is wrong, and makes sure that the agent finds nothing.
pub(crate) async fn joins(site: &Arc<Site>) -> Boot {
    let node = boots(site).await;
    let machine = &node.machine;
    let found = report(machine).await;
    assert_eq!(faults(&found), Vec::<&serde_json::Value>::new());
    let said = machine.journal().lines();
    // Whatever it said on the way: a fault that passes is one too.
    let verdicts: Vec<_> = said.iter().filter(|line| line.contains("muster-agent[") && line.contains(", ")).collect();
    assert!(!machine.console().lines().iter().any(|line| line.contains("MUSTER-AGENT VERDICT")), "{verdicts:#?}");
    let stage = |name: &str| found["phases"].as_array().unwrap().iter().find(|it| it["name"] == name).unwrap();
    let took = |from: &str, to: &str| time(&stage(to)["ended"]).duration_since(time(&stage(from)["began"]));
    let answered = said.iter().find_map(|line| line.split_once("the kubelet may start, answered after ")).unwrap().1;
    let gate = answered.split(' ').next().unwrap().parse().unwrap();
    let resident = "grep VmRSS /proc/$(systemctl show -P MainPID muster-agent)/status";
    let status = machine.run(["sh", "-c", resident]).await.unwrap();
    let boot = Boot {
        preflight: took("preflight", "preflight"),
        whole: took("preflight", "initialized"),
        gate: SignedDuration::from_millis(gate),
        resident: status.split_whitespace().nth(1).unwrap().parse().unwrap(),
    };
    site.terminate(node).await.unwrap();
    boot
}

#[test]
fn the_agent_runs_before_the_kubelet_and_has_nothing_to_say() {
    on_site("agent", Ground::Cluster, async |case| {
        let site = case.site();
        let cluster = site.cluster().unwrap();
        let config = NodeConfig {
            taints: json!([{"key": "karpenter.sh/unregistered", "effect": "NoExecute"}]),
            ..NodeConfig::default()
        };
        let expect = Expectation { taints: vec![UNREGISTERED.to_owned()], ..Expectation::default() };
        let mut instance = site.instance();
        instance.user_data = Some(user_data(cluster, &config, AgentSpec { expect, ..AgentSpec::default() }));
        let name = instance.host_name.clone();
        let grpcurl = programs::path("grpcurl").unwrap();
        let node = boot(site, instance, |spec| spec.files.push((grpcurl, "/usr/bin/grpcurl".into()))).await;
        // Nobody is there to take the taint off, so that is what it waits for.
        says(&node.machine, "initialized, CN11: ").await;
        cluster.kubectl(&["taint", "node", &name, &format!("{UNREGISTERED}-")]).await.unwrap();
        let stages = node.machine.journal();
        stages.line(": the node takes pods", MOST).await.unwrap();

        let order = |what: &str| {
            let lines = node.machine.journal().lines();
            lines.iter().position(|line| line.contains(what)).unwrap_or_else(|| panic!("no `{what}` in the journal"))
        };
        assert!(order("Started muster-agent.service") < order("Started kubelet.service"), "{}", stages.tail(80));

        let found = report(&node.machine).await;
        println!("{found:#}");
        assert_eq!(faults(&found), Vec::<&serde_json::Value>::new());
        assert_eq!((&found["node"], &found["held"]), (&json!(name), &json!(false)));
        let stage = |name: &str| found["phases"].as_array().unwrap().iter().find(|it| it["name"] == name).unwrap();
        let preflight = time(&stage("preflight")["ended"]).duration_since(time(&stage("preflight")["began"]));
        println!("the preflight took {preflight:#}");
        // Two seconds on a machine of its own; here others build on the same cores.
        assert!(preflight < SignedDuration::from_secs(6), "{preflight:#}");
        assert!(!node.machine.console().lines().iter().any(|line| line.contains("MUSTER-AGENT VERDICT")));

        let ask = |words: &'static [&'static str]| {
            let words = ["grpcurl", "-plaintext", "-unix"].iter().chain(words).copied().collect::<Vec<_>>();
            let machine = node.machine.clone();
            async move { machine.run(words).await.unwrap() }
        };
        const SOCKET: &str = "/run/muster/agent.sock";
        assert_eq!(
            ask(&[SOCKET, "list"]).await,
            "grpc.health.v1.Health\ngrpc.reflection.v1.ServerReflection\nmuster.v1.Admission\n"
        );
        assert!(ask(&[SOCKET, "describe", "grpc.health.v1.Health"]).await.contains("rpc List"));
        let all: serde_json::Value = serde_json::from_str(&ask(&[SOCKET, "grpc.health.v1.Health/List"]).await).unwrap();
        for (name, status) in all["statuses"].as_object().unwrap() {
            assert_eq!(status["status"], "SERVING", "{name}");
        }
        let one = ask(&["-d", r#"{"service":"agent.Initialized"}"#, SOCKET, "grpc.health.v1.Health/Check"]).await;
        assert!(one.contains("SERVING"), "{one}");
        let script = r#"timeout 1 grpcurl -plaintext -unix -d '{"service":"agent.Kubelet"}' /run/muster/agent.sock grpc.health.v1.Health/Watch || true"#;
        assert!(node.machine.run(["sh", "-c", script]).await.unwrap().contains("SERVING"));
        let table = node.machine.run(["muster-agent", "status"]).await.unwrap();
        assert!(table.contains("It takes pods."), "{table}");
        let size = node
            .machine
            .run(["sh", "-c", "grep VmRSS /proc/$(systemctl show -P MainPID muster-agent)/status"])
            .await
            .unwrap();
        println!("{}", size.trim());

        // An agent that dies holds nothing back: the kubelet starts again without it.
        node.machine.run(["systemctl", "kill", "--signal=KILL", "muster-agent"]).await.unwrap();
        node.machine
            .run(["sh", "-c", "systemctl stop muster-agent; systemctl restart kubelet; systemctl is-active kubelet"])
            .await
            .unwrap();
        site.terminate(node).await.unwrap();
    });
}

#[test]
fn a_node_joins_without_its_agent() {
    on_site("agentless", Ground::Cluster, async |case| {
        let site = case.site();
        let mut instance = site.instance();
        instance.user_data = Some(user_data(site.cluster().unwrap(), &NodeConfig::default(), AgentSpec::default()));
        // Whatever is wrong with it: it ends as soon as it starts, and the gate cannot even be run.
        let node = boot(site, instance, |spec| {
            let program = spec.files.iter_mut().find(|(_, at)| at.ends_with("muster-agent")).unwrap();
            program.0 = "/bin/false".into();
        })
        .await;
        node.machine.journal().line("muster-agent.service: Main process exited", MOST).await.unwrap();
        node.machine.journal().line("Successfully registered node", MOST).await.unwrap();
        site.terminate(node).await.unwrap();
    });
}
