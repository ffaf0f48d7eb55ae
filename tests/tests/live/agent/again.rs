//! Nodes that begin again: the agent alone, and the whole machine.

use std::collections::BTreeMap;
use std::time::Duration;

use k8s_openapi::api::core::v1::Node as KubeNode;
use kube::Api;
use kube::api::ListParams;
use muster_bootstrap::agent_config::{AgentSpec, Mode};
use muster_tests::instances::user_data::NodeConfig;
use muster_tests::machine::{Image, Machine};
use muster_tests::{Ground, on_site_for};
use serde_json::{Value, json};

use super::{MOST, bake, boot, faults, report, says, time, user_data};

const LONG: Duration = Duration::from_secs(240);
const ENVIRONMENT: &str = "/etc/eks/kubelet/environment";
/// What the bootstrap writes and a kubelet cannot start without.
const FILES: [&str; 4] =
    ["/etc/kubernetes/pki/ca.crt", "/var/lib/kubelet/kubeconfig", "/etc/kubernetes/kubelet/config.json", ENVIRONMENT];

#[test]
fn an_agent_that_starts_again_says_nothing_of_what_is_mended() {
    on_site_for(LONG, "again", Ground::Cluster, async |case| {
        let site = case.site();
        let mut instance = site.instance();
        let spec = AgentSpec { report_only: true, ..AgentSpec::default() };
        instance.user_data = Some(user_data(site.cluster().unwrap(), &NodeConfig::default(), spec));
        let node = boot(site, instance, |_| {}).await;
        let machine = &node.machine;
        machine.journal().line(": the node takes pods", MOST).await.unwrap();
        let fault = format!("sed -i.good 's/$/ --container-runtime=remote/' {ENVIRONMENT}; systemctl restart kubelet");
        machine.run(["sh", "-c", &fault]).await.unwrap();
        says(machine, ", KA01: ").await;
        // Still true: another agent says it too.
        machine.journal().turn_page();
        machine.run(["systemctl", "restart", "muster-agent"]).await.unwrap();
        says(machine, ", KA01: ").await;
        // Mended while no agent looks, and the kubelet is still on its way when the next one begins.
        machine.run(["systemctl", "stop", "muster-agent"]).await.unwrap();
        machine.journal().turn_page();
        machine.console().turn_page();
        let mend = format!(
            "mv {ENVIRONMENT}.good {ENVIRONMENT}; systemctl reset-failed kubelet || true; systemctl restart kubelet; \
             systemctl start muster-agent"
        );
        machine.run(["sh", "-c", &mend]).await.unwrap();
        machine.journal().line(": the node takes pods", MOST).await.unwrap();
        let said = machine.journal().lines();
        let said: Vec<_> = said.iter().filter(|line| line.contains("muster-agent[") && line.contains("KA")).collect();
        assert_eq!(said, Vec::<&String>::new());
        assert!(!machine.console().lines().iter().any(|line| line.contains("MUSTER-AGENT VERDICT")));
        assert_eq!(faults(&report(machine).await), Vec::<&Value>::new());
        site.terminate(node).await.unwrap();
    });
}

/// The files of the bootstrap: when each was written, its inode and what is in it.
async fn files(machine: &Machine) -> BTreeMap<&'static str, (String, String)> {
    let mut found = BTreeMap::new();
    for path in FILES {
        let about = machine.run(["stat", "-c", "%Y %i", path]).await.unwrap();
        found.insert(path, (about, machine.run(["cat", path]).await.unwrap()));
    }
    found
}

/// Resets a node that takes pods, and sees that it is the same node afterwards.
fn comes_back(mode: Mode) {
    let owner = if mode == Mode::Native { "reset-n" } else { "reset-d" };
    on_site_for(LONG, owner, Ground::Cluster, async |case| {
        let site = case.site();
        let cluster = site.cluster().unwrap();
        let config = NodeConfig {
            config: json!({"failCgroupV1": false, "serverTLSBootstrap": false, "systemReservedCgroup": "", "kubeReservedCgroup": ""}),
            ..NodeConfig::default()
        };
        let mut instance = site.instance();
        instance.user_data = Some(user_data(cluster, &config, AgentSpec { mode: Some(mode), ..AgentSpec::default() }));
        let id = instance.instance_id.clone();
        let node = site.boot(instance, Image::Al2023, |spec| bake(spec, mode == Mode::Native)).await.unwrap();
        let machine = &node.machine;
        machine.journal().line(": the node takes pods", MOST).await.unwrap();
        let own = async || {
            let nodes: Api<KubeNode> = Api::all(cluster.client());
            let all = nodes.list(&ListParams::default()).await.unwrap().items;
            let is_own = |node: &KubeNode| node.spec.as_ref().unwrap().provider_id.as_ref().unwrap().ends_with(&id);
            let own: Vec<_> = all.into_iter().filter(is_own).collect();
            let [node] = own.as_slice() else { panic!("{} Nodes of {id}", own.len()) };
            node.metadata.uid.clone().unwrap()
        };
        let (before, uid, told) = (files(machine).await, own().await, report(machine).await);

        machine.reset().await.unwrap();
        machine
            .journal()
            .line(": the node takes pods", MOST)
            .await
            .unwrap_or_else(|error| panic!("{error}\n{}\n{}", machine.console().tail(30), machine.journal().tail(80)));
        let (after, again) = (files(machine).await, report(machine).await);
        assert_eq!(own().await, uid, "the same Node");
        assert_eq!(faults(&again), Vec::<&Value>::new());
        assert_ne!(again["bootId"], told["bootId"]);
        assert_eq!(again["mode"], told["mode"]);
        let ended = told["phases"].as_array().unwrap().iter().map(|it| time(&it["ended"])).max().unwrap();
        for stage in again["phases"].as_array().unwrap() {
            assert!(time(&stage["began"]) > ended, "{stage} is of the boot before");
        }
        for (path, (about, text)) in &before {
            let (about_now, text_now) = &after[path];
            if mode == Mode::Native {
                assert_eq!((about, text), (about_now, text_now), "{path} is there already");
            } else if *path != ENVIRONMENT {
                // Its flags are in the order of a map.
                assert_eq!(text, text_now, "{path}");
            }
        }
        site.terminate(node).await.unwrap();
    });
}

#[test]
fn a_native_node_is_the_same_after_a_reset() {
    comes_back(Mode::Native);
}

#[test]
fn a_delegating_node_is_the_same_after_a_reset() {
    comes_back(Mode::Delegate);
}
