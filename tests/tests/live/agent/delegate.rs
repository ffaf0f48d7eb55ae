//! The agent beside the real nodeadm: the one of awslabs/amazon-eks-ami that the Go module proxy has (of 2024), and the fields
//! that it knows.
//!
//! What it does not come to here is its second half: `init --skip config` pulls the image of pod sandboxes from ECR, and a
//! world has no ECR. So `nodeadm-run` starts containerd and the kubelet by itself.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;

use muster_bootstrap::agent_config::{AgentSpec, Expectation, Mode};
use muster_bootstrap::words::systemd::{environment_file, last, split_value};
use muster_tests::imds::Instance;
use muster_tests::instances::Site;
use muster_tests::instances::user_data::NodeConfig;
use muster_tests::machine::{Image, Machine, Spec};
use muster_tests::{Ground, on_site_for, programs};
use serde_json::{Value, json};

use super::{MOST, UNREGISTERED, bake, report, user_data};

const LONG: std::time::Duration = std::time::Duration::from_secs(240);

/// Everything that nodeadm writes.
const FILES: [&str; 8] = [
    "/etc/containerd/config.toml",
    "/etc/containerd/config.d/00-nodeadm.toml",
    "/etc/eks/image-credential-provider/config.json",
    "/etc/eks/kubelet/environment",
    "/etc/kubernetes/kubelet/config.json",
    "/etc/kubernetes/kubelet/config.json.d/00-nodeadm.conf",
    "/etc/kubernetes/pki/ca.crt",
    "/var/lib/kubelet/kubeconfig",
];
const ENVIRONMENT: &str = "/etc/eks/kubelet/environment";
const OWN_DROP_IN: &str = "/etc/kubernetes/kubelet/config.json.d/40-nodeadm.conf";
const PROVIDER: &str = "/etc/eks/image-credential-provider/ecr-credential-provider";

/// A document that every nodeadm since 2024 knows all fields of.
fn node_config() -> NodeConfig {
    NodeConfig {
        taints: json!([{"key": "karpenter.sh/unregistered", "effect": "NoExecute"}]),
        config: json!({"maxPods": 17, "failCgroupV1": false}),
        ..NodeConfig::default()
    }
}

/// The real nodeadm in the place of the one that stands in for it.
fn real(spec: &mut Spec, run: &tempfile::TempDir) {
    let mut put = |from: PathBuf, at: &str| spec.files.push((from, PathBuf::from(at)));
    put(programs::path("nodeadm").unwrap(), "/usr/bin/nodeadm");
    put(PathBuf::from("/bin/true"), PROVIDER);
    let drop_in = run.path().join("10-no-registry.conf");
    fs_err::write(
        &drop_in,
        "[Service]\nExecStart=\nExecStart=/usr/bin/systemctl start --no-block containerd kubelet\n",
    )
    .unwrap();
    put(drop_in, "/etc/systemd/system/nodeadm-run.service.d/10-no-registry.conf");
    let drop_in = run.path().join("20-source.conf");
    // The nodeadm of 2024 has to be told where its configuration is.
    fs_err::write(
        &drop_in,
        "[Service]\nExecStart=\nExecStart=/usr/bin/nodeadm init --skip run --config-source imds://user-data\n",
    )
    .unwrap();
    put(drop_in, "/etc/systemd/system/nodeadm-config.service.d/20-source.conf");
}

/// Boots an instance, waits until its bootstrap is over, and gives the files that are there.
async fn written(
    site: &Site,
    instance: &Instance,
    change: impl FnOnce(&mut Spec),
) -> (BTreeMap<&'static str, String>, Option<Value>) {
    let node = site.boot(instance.clone(), Image::Al2023, change).await.unwrap();
    let machine = &node.machine;
    machine.booted(MOST).await.unwrap();
    // In native mode the agent is not part of the boot: it starts the kubelet when all is written.
    machine.journal().line("kubelet.service", MOST).await.unwrap();
    let files = files(machine).await;
    let told = machine.run(["test", "-e", "/usr/bin/muster-agent"]).await.is_ok();
    let told = if told { Some(report(machine).await) } else { None };
    assert!(files.contains_key(ENVIRONMENT), "{}", machine.journal().tail(60));
    site.terminate(node).await.unwrap();
    (files, told)
}

async fn files(machine: &Machine) -> BTreeMap<&'static str, String> {
    let mut found = BTreeMap::new();
    for path in FILES.into_iter().chain([OWN_DROP_IN]) {
        if let Ok(text) = machine.run(["cat", path]).await {
            found.insert(path, text);
        }
    }
    found
}

/// nodeadm writes variables and flags in the order of a Go map, which is another one each time: as a set.
fn words(environment: &str) -> BTreeSet<String> {
    environment
        .split(['\n', ' ', '"'])
        .map(|word| word.trim_start_matches("NODEADM_KUBELET_ARGS=").to_owned())
        .collect()
}

fn document(text: &str) -> Value {
    serde_saphyr::from_str(text).unwrap()
}

#[test]
fn beside_the_agent_nodeadm_writes_what_it_writes_alone_and_native_mode_writes_the_same() {
    on_site_for(LONG, "delegate", Ground::Cluster, async |case| {
        let site = case.site();
        let cluster = site.cluster().unwrap();
        let folder = tempfile::tempdir().unwrap();
        let expect = Expectation { taints: vec![UNREGISTERED.to_owned()], ..Expectation::default() };
        let spec = |mode| AgentSpec { mode: Some(mode), expect: expect.clone(), ..AgentSpec::default() };
        let mut instance = site.instance();
        instance.user_data = Some(user_data(cluster, &node_config(), spec(Mode::Delegate)));
        let (alone, _) = written(site, &instance, |spec| real(spec, &folder)).await;
        let (beside, told) = written(site, &instance, |spec| {
            bake(spec, false);
            real(spec, &folder);
        })
        .await;
        assert_eq!(told.unwrap()["mode"], "delegate");
        assert!(alone.len() >= 6, "{:?}", alone.keys());
        assert_eq!(alone.keys().collect::<Vec<_>>(), beside.keys().collect::<Vec<_>>());
        for (path, text) in &alone {
            if *path == ENVIRONMENT {
                assert_eq!(words(text), words(&beside[path]), "{path}");
            } else {
                assert_eq!(text, &beside[path], "{path}");
            }
        }
        println!("{} files are the same, byte for byte; in {ENVIRONMENT} up to the order of a Go map", alone.len() - 1);
        instance.user_data = Some(user_data(cluster, &node_config(), spec(Mode::Native)));
        let (native, _) = written(site, &instance, |spec| {
            bake(spec, true);
            spec.files.push((PathBuf::from("/bin/true"), PathBuf::from(PROVIDER)));
        })
        .await;
        compare(&alone, &native);
    });
}

/// What native mode writes against what nodeadm of 2024 wrote. Each difference is one that later releases of nodeadm made.
fn compare(nodeadm: &BTreeMap<&'static str, String>, native: &BTreeMap<&'static str, String>) {
    let [authority, kubeconfig, config] =
        ["/etc/kubernetes/pki/ca.crt", "/var/lib/kubelet/kubeconfig", "/etc/kubernetes/kubelet/config.json"];
    assert_eq!(nodeadm[authority], native[authority]);
    assert_eq!(document(&nodeadm[kubeconfig]), document(&native[kubeconfig]), "the same, as YAML and as JSON");
    let (theirs, mut ours) = (document(&nodeadm[config]), document(&native[config]));
    // Since 2024: gates that Kubernetes 1.33 and 1.34 have, and the time for pods to end in.
    for (gate, since) in [("DynamicResourceAllocation", "1.33"), ("MutableCSINodeAllocatableCount", "1.34")] {
        assert_eq!(ours["featureGates"][gate], true, "since {since}");
        ours["featureGates"].as_object_mut().unwrap().remove(gate);
    }
    for field in ["shutdownGracePeriod", "shutdownGracePeriodCriticalPods"] {
        assert!(ours.as_object_mut().unwrap().remove(field).is_some(), "{field}");
    }
    assert_eq!(theirs, ours);
    // Since 1.32 there is a public registry too.
    let provider = "/etc/eks/image-credential-provider/config.json";
    let (theirs, mut ours) = (document(&nodeadm[provider]), document(&native[provider]));
    assert_eq!(ours["providers"][0]["matchImages"].as_array_mut().unwrap().pop(), Some(json!("ecr-public.aws.com")));
    assert_eq!(theirs, ours);
    // The drop-in has another name since 2025.
    let theirs = document(&nodeadm["/etc/kubernetes/kubelet/config.json.d/00-nodeadm.conf"]);
    assert_eq!(theirs, document(&native[OWN_DROP_IN]));
    // The name of the node is given since later in 2024. The quotes that this nodeadm puts around all flags are gone since, too;
    // what reaches the kubelet is the same.
    let (theirs, ours) = (arguments(&nodeadm[ENVIRONMENT]), arguments(&native[ENVIRONMENT]));
    let added: Vec<&String> = ours.difference(&theirs).collect();
    assert!(matches!(added.as_slice(), [name] if name.starts_with("--hostname-override=")), "{added:?}");
    assert_eq!(theirs.difference(&ours).collect::<Vec<_>>(), Vec::<&String>::new());
}

/// The arguments that reach the kubelet, as a set.
fn arguments(environment: &str) -> BTreeSet<String> {
    let variables = environment_file(environment);
    let value = &last(&variables, "NODEADM_KUBELET_ARGS").unwrap().value;
    split_value(value).into_iter().map(|word| word.text).collect()
}
