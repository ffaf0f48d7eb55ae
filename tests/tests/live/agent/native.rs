//! The agent as the one who runs the bootstrap.

use k8s_openapi::api::core::v1::Node as KubeNode;
use kube::Api;
use muster_bootstrap::agent_config::{AgentSpec, Expectation, Mode};
use muster_tests::instances::user_data::NodeConfig;
use muster_tests::machine::Image;
use muster_tests::{Ground, on_site, wait};
use serde_json::json;

use super::{MOST, UNREGISTERED, bake, report, says, user_data};

#[test]
fn it_joins_with_the_taints_and_labels_that_were_asked_for() {
    on_site("native", Ground::Cluster, async |case| {
        let site = case.site();
        let cluster = site.cluster().unwrap();
        let config = NodeConfig {
            taints: json!([{"key": "karpenter.sh/unregistered", "effect": "NoExecute"}]),
            // What the machines of this world need: control groups of version 1, and nobody approves serving certificates.
            config: json!({"failCgroupV1": false, "serverTLSBootstrap": false, "systemReservedCgroup": "", "kubeReservedCgroup": ""}),
            ..NodeConfig::default()
        };
        let expect = Expectation { taints: vec![UNREGISTERED.to_owned()], ..Expectation::default() };
        let mut instance = site.instance();
        instance.user_data =
            Some(user_data(cluster, &config, AgentSpec { mode: Some(Mode::Native), expect, ..AgentSpec::default() }));
        let name = instance.host_name.clone();
        let id = instance.instance_id.clone();
        let node = site.boot(instance, Image::Al2023, |spec| bake(spec, true)).await.unwrap();
        says(&node.machine, "initialized, CN11: ").await;
        let nodes: Api<KubeNode> = Api::all(cluster.client());
        let found = wait::until(nodes, &name, MOST, "the node is there", |_| true).await.unwrap();
        let spec = found.spec.unwrap();
        assert_eq!(spec.provider_id.unwrap(), format!("aws:///us-west-2a/{id}"));
        let taints = spec.taints.unwrap_or_default();
        assert!(taints.iter().any(|taint| taint.key == "karpenter.sh/unregistered"), "{taints:?}");
        assert_eq!(found.metadata.labels.unwrap()["karpenter.sh/nodepool"], "default");
        let told = report(&node.machine).await;
        assert_eq!(told["mode"], "native");
        assert!(
            !node.machine.journal().lines().iter().any(|line| line.contains("Starting nodeadm")),
            "nodeadm stays out of it"
        );
        let before = node.machine.run(["stat", "-c", "%Y %i", "/etc/kubernetes/kubelet/config.json"]).await.unwrap();
        node.machine.run(["systemctl", "restart", "muster-agent"]).await.unwrap();
        says(&node.machine, "initialized, CN11: ").await;
        let after = node.machine.run(["stat", "-c", "%Y %i", "/etc/kubernetes/kubelet/config.json"]).await.unwrap();
        assert_eq!(before, after, "what is there already is not written again");
        site.terminate(node).await.unwrap();
    });
}
