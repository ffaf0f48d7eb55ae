//! The page "Switching from Karpenter, and back", followed block by block. The programs are those that people run; what
//! the chart has installed runs beside the cluster, with the environment of its Deployment.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use jiff::Timestamp;
use k8s_openapi::api::coordination::v1::Lease;
use kube::api::{ListParams, Patch, PatchParams, PostParams};
use kube::{Api, ResourceExt};
use muster_tests::cluster::fake_node;
use muster_tests::programs;
use muster_tests::replica::{Replica, built};
use muster_tests::wait;
use serde_json::{Value, json};

use super::controller::LEASE;
use super::ground::{CLUSTER, Ground, SOON, reads};
use super::karpenter::{Group, Installation, Release, differences};

const PAGE: &str = include_str!("../../../../../docs/tasks/switching.md");
/// First line of a block that needs a cluster of AWS.
const MARK: &str = "# needs an AWS account\n";
/// Blocks that are not followed: KWOK's pods have no logs.
const READS_LOGS: &str = "kubectl logs ";
/// The namespace of Karpenter, as the page has it.
const NAMESPACE: &str = "kube-system";
const MUSTER: &str = "muster";
/// Three nodes, one of which is empty.
const GROUP: Group =
    Group { pool: "general", paid: "on-demand", instance_type: "m5.large", nodes: [2, 1], pods: 2, is_static: false };

/// A block of commands, under the last heading before it.
struct Block {
    heading: String,
    text: String,
}

fn blocks() -> Vec<Block> {
    let (mut blocks, mut heading, mut open) = (Vec::new(), String::new(), None::<String>);
    for line in PAGE.lines() {
        match (&mut open, line) {
            (None, "```sh") => open = Some(String::new()),
            (None, line) if line.starts_with('#') => line.trim_start_matches(['#', ' ']).clone_into(&mut heading),
            (None, _) => {}
            (Some(_), "```") => {
                let text = open.take().unwrap();
                let text = text.strip_prefix(MARK).unwrap_or(&text).to_owned();
                blocks.push(Block { heading: heading.clone(), text });
            }
            (Some(text), line) => *text += &format!("{line}\n"),
        }
    }
    blocks
}

/// A shell of somebody who follows the page, in the root of the repository.
struct Reader {
    folder: tempfile::TempDir,
    kubeconfig: PathBuf,
    exports: String,
}

impl Reader {
    fn new(kubeconfig: &Path) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let all = [built().unwrap(), programs::path("kubectl").unwrap(), programs::path("helm").unwrap()];
        for program in all {
            std::os::unix::fs::symlink(&program, folder.path().join(program.file_name().unwrap())).unwrap();
        }
        Self { folder, kubeconfig: kubeconfig.to_owned(), exports: String::new() }
    }

    /// Runs a block; what it has written.
    async fn run(&self, text: &str) -> String {
        let script = format!("set -euo pipefail\n{}{text}", self.exports);
        let path = format!("{}:{}", self.folder.path().display(), std::env::var("PATH").unwrap());
        let mut bash = tokio::process::Command::new("bash");
        bash.args(["-c", &script]).current_dir(concat!(env!("CARGO_MANIFEST_DIR"), "/.."));
        bash.env_clear().env("PATH", path).env("HOME", self.folder.path()).env("KUBECONFIG", &self.kubeconfig);
        let output = bash.kill_on_drop(true).output().await.unwrap();
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        assert!(output.status.success(), "{script}\n{}{}", text(&output.stdout), text(&output.stderr));
        text(&output.stdout)
    }
}

/// Nodes that no autoscaler has launched, and Karpenter on them, which holds the Lease.
async fn karpenter_runs(ground: &Ground) {
    for name in ["system-1", "system-2"] {
        ground.nodes().create(&PostParams::default(), &fake_node(name, json!({})).unwrap()).await.unwrap();
    }
    let labels = json!({"app.kubernetes.io/name": "karpenter"});
    let affinity = json!({"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [
        {"matchExpressions": [{"key": "karpenter.sh/nodepool", "operator": "DoesNotExist"}]},
    ]}}});
    let deployment = json!({
        "apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "karpenter", "namespace": NAMESPACE},
        "spec": {"replicas": 2, "selector": {"matchLabels": labels}, "template": {
            "metadata": {"labels": labels},
            "spec": {"affinity": affinity, "containers": [{"name": "controller", "image": "none"}]},
        }},
    });
    ground.apply(&[deployment]).await;
    let now = Timestamp::now().strftime("%Y-%m-%dT%H:%M:%S.000000Z").to_string();
    hold(ground, json!({"holderIdentity": "karpenter-0", "leaseDurationSeconds": 3600, "renewTime": now})).await;
}

/// Writes into the Lease, as Karpenter does.
async fn hold(ground: &Ground, spec: Value) {
    let leases: Api<Lease> = Api::namespaced(ground.kube(), NAMESPACE);
    let patch = Patch::Merge(json!({ "spec": spec }));
    leases.patch(LEASE, &PatchParams::default(), &patch).await.unwrap();
}

/// Starts what the chart has installed.
async fn start(ground: &Ground) -> Replica {
    let found = ground.cluster().kubectl(&["get", "deployment", MUSTER, "-n", NAMESPACE, "-o", "json"]).await.unwrap();
    let found: Value = serde_json::from_str(&found).unwrap();
    let container = &found["spec"]["template"]["spec"]["containers"][0];
    assert_eq!(container["args"], json!(["run", "--cloud", "aws"]));
    let of_chart = container["env"].as_array().unwrap().iter();
    let mut variables: BTreeMap<String, String> = of_chart
        .filter_map(|one| Some((one["name"].as_str()?.to_owned(), one["value"].as_str()?.to_owned())))
        // Ports of the world.
        .filter(|(name, _)| !name.ends_with("_PORT"))
        .collect();
    variables.insert("SYSTEM_NAMESPACE".to_owned(), NAMESPACE.to_owned());
    variables.insert("AWS_ENDPOINT_URL".to_owned(), ground.ec2.endpoint());
    variables
        .extend(ground.ec2.credentials(MUSTER).environment().into_iter().map(|(name, value)| (name.to_owned(), value)));
    assert_eq!(variables["CLUSTER_NAME"], CLUSTER);
    let program = Replica::program(MUSTER, ground.cluster().kubeconfig()).unwrap().args(["--cloud", "aws"]);
    let program = variables.into_iter().fold(program, |program, (name, value)| program.env(&name, value));
    let replica = Replica::start(ground.world.spawner(), &program).unwrap();
    let stands_by = wait::until_some("Muster has checked its permissions", SOON, || async {
        Ok(replica.said().contains("permissions checked").then_some(()))
    });
    stands_by.await.unwrap();
    replica
}

/// Waits until a replica of Muster holds the Lease, or nobody.
async fn held(ground: &Ground, by_somebody: bool) {
    let leases: Api<Lease> = Api::namespaced(ground.kube(), NAMESPACE);
    let what = if by_somebody { "Muster leads" } else { "the Lease is free" };
    let is = |lease: &Lease| {
        let holder = lease.spec.as_ref().and_then(|spec| spec.holder_identity.clone()).unwrap_or_default();
        holder != "karpenter-0" && holder.is_empty() != by_somebody
    };
    wait::until(leases, LEASE, SOON, what, is).await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_page_leads_from_karpenter_to_muster_and_back() {
    let ground = Ground::bare("run ec2 suite").await;
    Installation::leave(&ground, Release::V1_15, &[GROUP]).await;
    karpenter_runs(&ground).await;
    let before = Installation::objects(&ground).await;
    let mut shell = Reader::new(ground.cluster().kubeconfig());
    let (mut muster, mut skipped) = (None::<Replica>, 0);
    for Block { heading, text } in blocks() {
        if text.starts_with("export ") {
            shell.exports += &text;
        } else if text.starts_with("aws ") || text.starts_with(READS_LOGS) {
            skipped += 1;
        } else if text.starts_with("muster run --dry-run") {
            let kubeconfig = ground.cluster().kubeconfig();
            let observer = ground.replica_with("observer", kubeconfig, &["--dry-run", "-o", "json"]);
            let is_told = wait::until_some("the empty node is told", SOON, || async {
                Ok(observer.said().contains("\"Empty\"").then_some(()))
            });
            is_told.await.unwrap();
        } else {
            shell.run(&text).await;
        }
        // What the programs do that are not on a machine of this cluster.
        match heading.as_str() {
            "3 Install as a standby" if muster.is_none() => muster = Some(start(&ground).await),
            "4 Hand over" if text.contains("--replicas=0") => {
                hold(&ground, json!({"holderIdentity": "", "leaseDurationSeconds": 1, "renewTime": null})).await;
                held(&ground, true).await;
            }
            "5 Let it act" if text.contains("pause-") => {
                let fewer = wait::until_some("the empty node is gone", SOON, || async {
                    let claims = ground.claims().list(&ListParams::default()).await?.items;
                    Ok((claims.len() == 2).then_some(()))
                });
                fewer.await.unwrap();
            }
            // Until then nothing has changed in AWS.
            "5 Let it act" => {
                let changed = ground.ec2.calls().by(MUSTER).only(|call| !reads(&call.action));
                assert!(changed.is_empty(), "{}", changed.lines());
                assert_eq!(ground.ec2.running().len(), 3);
            }
            "6 Go back" => {
                muster.take().unwrap().end(SOON);
                held(&ground, false).await;
            }
            _ => {}
        }
    }
    assert_eq!(skipped, 2);
    let after = Installation::objects(&ground).await;
    let left = |name: &str| after.keys().any(|(_, there)| there == name);
    let before = before.into_iter().filter(|((_, name), _)| left(name)).collect();
    assert_eq!(differences(Release::V1_15, &before, &after), [""; 0]);
    ground.running(2, SOON).await;
    assert!(
        ground
            .claims()
            .list(&ListParams::default())
            .await
            .unwrap()
            .items
            .iter()
            .all(|claim| claim.annotations().contains_key("karpenter.sh/nodepool-hash"))
    );
}
