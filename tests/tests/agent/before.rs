//! Faults that are there before the kubelet starts: named, told on the console, and the kubelet is held back.

use std::sync::Arc;
use std::time::{Duration, Instant};

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use jiff::SignedDuration;
use k8s_openapi::api::core::v1::Node as KubeNode;
use kube::Api;
use muster_bootstrap::agent_config::{AgentSpec, Expectation};
use muster_tests::cluster::Cluster;
use muster_tests::imds::Instance;
use muster_tests::instances::Site;
use muster_tests::instances::user_data::NodeConfig;
use muster_tests::machine::Spec;
use muster_tests::wait::{self, Selection};
use muster_tests::{Ground, on_site_for};
use serde_json::json;

use super::{MOST, UNREGISTERED, boot, finding, replaced, report, user_data};

/// All faults on one site, one machine after the other.
const LONG: Duration = Duration::from_secs(600);

fn good(cluster: &Cluster) -> Vec<u8> {
    let taints = json!([{"key": "karpenter.sh/unregistered", "effect": "NoExecute"}]);
    let expect = Expectation { taints: vec![UNREGISTERED.to_owned()], ..Expectation::default() };
    user_data(cluster, &NodeConfig { taints, ..NodeConfig::default() }, AgentSpec { expect, ..AgentSpec::default() })
}

/// A certificate authority that has signed nothing.
fn stranger() -> String {
    let key = rcgen::KeyPair::generate().unwrap();
    let mut parameters = rcgen::CertificateParams::new(Vec::new()).unwrap();
    parameters.is_ca = rcgen::IsCa::Ca(rcgen::BasicConstraints::Unconstrained);
    STANDARD.encode(parameters.self_signed(&key).unwrap().pem())
}

/// Boots a machine, waits for the verdict on its console, checks that no Node came, and says how long the agent took from
/// its start.
async fn refused(site: &Arc<Site>, code: &str, instance: Instance, change: impl FnOnce(&mut Spec)) -> SignedDuration {
    let name = instance.host_name.clone();
    let id = instance.instance_id.clone();
    let node = boot(site, instance, change).await;
    if matches!(code, "AU01") {
        site.authenticator().refuse(&id);
    }
    let line = node.machine.console().line(&format!("MUSTER-AGENT VERDICT code={code} "), MOST).await;
    let line = match line {
        Ok(line) => line,
        Err(error) => panic!("{code}: {error}\n--- journal\n{}", node.machine.journal().tail(80)),
    };
    assert!(line.contains(" message=") && line.contains(" fix="), "{line}");
    // nodeadm waits a minute for metadata that is turned off, and nothing after it starts meanwhile.
    if code != "ID02" {
        node.machine.booted(MOST).await.unwrap();
    }
    if site.cluster().is_ok() {
        let nodes: Api<KubeNode> = Api::all(site.cluster().unwrap().client());
        let none = |nodes: &[KubeNode]| {
            nodes.iter().all(|node| {
                !node.spec.as_ref().is_some_and(|it| it.provider_id.as_deref().is_some_and(|it| it.ends_with(&id)))
            })
        };
        wait::stays(nodes, Selection::named(&name), Duration::from_millis(500), "no Node", none).await.unwrap();
    }
    let found = report(&node.machine).await;
    let said = finding(&found, code);
    assert!(!said["fix"].as_str().unwrap().is_empty());
    let began = super::time(&found["phases"][0]["began"]);
    let took = super::time(&said["since"]).duration_since(began);
    println!("| {code} | {:.2} s | {}", took.as_secs_f64(), said["message"].as_str().unwrap());
    site.terminate(node).await.unwrap();
    took
}

#[test]
fn faults_of_the_boot_are_named_in_seconds_and_hold_the_kubelet_back() {
    on_site_for(LONG, "before", Ground::Cluster, async |case| {
        let site = case.site();
        let cluster = site.cluster().unwrap();
        let data = good(cluster);
        let endpoint = cluster.inside().unwrap();
        let authority = STANDARD.encode(cluster.authority().unwrap());
        let flag = |flag: &str| replaced(&data, "\"flags\": [", &format!("\"flags\": [\"{flag}\","));
        let with = |data: Vec<u8>| {
            let mut instance = site.instance();
            instance.user_data = Some(data);
            instance
        };
        let mut took = Vec::new();
        let same = |_: &mut Spec| {};
        took.push(("KA01", refused(site, "KA01", with(flag("--container-runtime=remote")), same).await));
        took.push(("KA08", refused(site, "KA08", with(flag("--register-with-taints=a=b:NoSchedule")), same).await));
        let other = replaced(&data, &authority, &stranger());
        took.push(("NW04", refused(site, "NW04", with(other), same).await));
        let elsewhere = replaced(&data, endpoint, "https://192.0.2.1:1");
        took.push(("NW03", refused(site, "NW03", with(elsewhere), same).await));
        let nameless = replaced(&data, endpoint, "https://nobody.example");
        took.push(("NW01", refused(site, "NW01", with(nameless), same).await));
        let mut roleless = with(data.clone());
        roleless.role = None;
        took.push(("ID04", refused(site, "ID04", roleless, same).await));
        took.push(("AU01", refused(site, "AU01", with(data.clone()), same).await));
        let swap = |spec: &mut Spec| spec.shape.swap_mib = 512;
        took.push(("KA17", refused(site, "KA17", with(data.clone()), swap).await));
        let kernel =
            |spec: &mut Spec| drop(spec.shape.kernel.insert("vm/overcommit_memory".to_owned(), "0".to_owned()));
        took.push(("KA19", refused(site, "KA19", with(data.clone()), kernel).await));
        took.push(("UD03", refused(site, "UD03", site.instance(), same).await));
        let mut hidden = with(data.clone());
        hidden.options.enabled = false;
        took.push(("ID02", refused(site, "ID02", hidden, same).await));
        let stale = with(data.clone());
        let object = json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": stale.host_name},
                            "spec": {"providerID": "aws:///us-west-2a/i-00000000000000000"}});
        let name = stale.host_name.clone();
        let nodes: Api<KubeNode> = Api::all(cluster.client());
        nodes.create(&kube::api::PostParams::default(), &serde_json::from_value(object).unwrap()).await.unwrap();
        took.push(("AU13", refused(site, "AU13", stale, same).await));
        let _gone_with_its_instance = nodes.delete(&name, &kube::api::DeleteParams::default()).await;
        let mut times: Vec<_> = took.iter().map(|(_, took)| *took).collect();
        times.sort();
        println!("median {:#}, worst {:#}", times[times.len() / 2], times[times.len() - 1]);
        assert!(times[times.len() - 1] < SignedDuration::from_secs(20), "{took:?}");
    });
}

#[test]
fn a_clock_that_is_wrong_is_named() {
    on_site_for(LONG, "clock", Ground::ClusterAhead(SignedDuration::from_mins(20)), async |case| {
        let site = case.site();
        let mut instance = site.instance();
        instance.user_data = Some(good(site.cluster().unwrap()));
        refused(site, "ID12", instance, |_| {}).await;
    });
}

#[test]
fn what_is_mended_lets_the_kubelet_start() {
    on_site_for(LONG, "mended", Ground::Cluster, async |case| {
        let site = case.site();
        let mut instance = site.instance();
        instance.user_data = Some(good(site.cluster().unwrap()));
        let id = instance.instance_id.clone();
        let whole = instance.clone();
        let node = boot(site, instance, |_| {}).await;
        site.authenticator().refuse(&id);
        node.machine.console().line("MUSTER-AGENT VERDICT code=AU01 ", MOST).await.unwrap();
        node.machine.journal().line("muster-agent keeps the kubelet from starting: AU01", MOST).await.unwrap();
        // The access entry is made, and nothing is done on the node.
        let start = Instant::now();
        site.authenticator().admit(&whole);
        node.machine.journal().line("Successfully registered node", MOST).await.unwrap();
        println!("registered {:?} after the access entry was made", start.elapsed());
        site.terminate(node).await.unwrap();
    });
}
