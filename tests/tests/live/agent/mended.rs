//! The fault that this project was started for, on a machine of AL2: named before the kubelet starts, and gone when the fix that
//! is told is applied.

use std::time::Duration;

use k8s_openapi::api::core::v1::Node as KubeNode;
use kube::Api;
use muster_bootstrap::Family;
use muster_bootstrap::agent_config::{AgentConfig, AgentSpec, Expectation};
use muster_tests::instances::user_data;
use muster_tests::machine::Image;
use muster_tests::wait::{self, Selection};
use muster_tests::{Ground, on_site_for};

use super::{MOST, UNREGISTERED, bake, finding, replaced, report};

const LONG: Duration = Duration::from_secs(240);

#[test]
fn the_form_with_an_equals_sign_loses_the_taint_and_a_blank_keeps_it() {
    on_site_for(LONG, "al2", Ground::Cluster, async |case| {
        let site = case.site();
        let cluster = site.cluster().unwrap();
        let expect = Expectation { taints: vec![UNREGISTERED.to_owned()], ..Expectation::default() };
        let script = String::from_utf8(user_data::al2(cluster, "team=a").unwrap()).unwrap();
        let agent = AgentConfig::new(AgentSpec { expect, ..AgentSpec::default() });
        let right = agent.put(Family::Al2, &script).unwrap().into_bytes();
        let wrong = replaced(&right, "--kubelet-extra-args '", "--kubelet-extra-args='");

        let mut instance = site.instance();
        instance.user_data = Some(wrong.clone());
        let name = instance.host_name.clone();
        let node = site.boot(instance, Image::Al2, |spec| bake(spec, false)).await.unwrap();
        let line = node.machine.console().line("MUSTER-AGENT VERDICT code=", MOST).await;
        let line = line.unwrap_or_else(|error| panic!("{error}\n{}", node.machine.journal().tail(80)));
        assert!(line.contains("code=UD17 "), "{line}");
        node.machine.booted(MOST).await.unwrap();
        let nodes: Api<KubeNode> = Api::all(cluster.client());
        let none = |nodes: &[KubeNode]| nodes.is_empty();
        let pause = Duration::from_millis(500);
        wait::stays(nodes.clone(), Selection::named(&name), pause, "no Node", none).await.unwrap();
        let told = report(&node.machine).await;
        assert_eq!(finding(&told, "KA07")["severity"], "error");
        let fix = finding(&told, "UD17")["fix"].as_str().unwrap();
        assert!(fix.starts_with("write the option, a blank, and the whole value in quotes"), "{fix}");
        site.terminate(node).await.unwrap();

        // What the fix says, done to the very document.
        let mended = replaced(&wrong, "--kubelet-extra-args=", "--kubelet-extra-args ");
        let mut instance = site.instance();
        instance.user_data = Some(mended);
        let name = instance.host_name.clone();
        let node = site.boot(instance, Image::Al2, |spec| bake(spec, false)).await.unwrap();
        let found = wait::until(nodes, &name, MOST, "the node is there", |_| true).await;
        let found = found.unwrap_or_else(|error| panic!("{error}\n{}", node.machine.journal().tail(80)));
        let taints = found.spec.unwrap().taints.unwrap_or_default();
        assert!(taints.iter().any(|taint| taint.key == "karpenter.sh/unregistered"), "{taints:?}");
        site.terminate(node).await.unwrap();
    });
}
