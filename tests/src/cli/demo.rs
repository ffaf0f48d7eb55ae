//! `up --demo`: Muster at work on a real control plane, from pending pods to nodes and back to nothing.

use std::collections::BTreeSet;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use k8s_openapi::api::core::v1::{Node, Pod};
use kube::{Api, ResourceExt};
use serde_json::json;

use super::parts::timed;
use super::up::{OWNER, Told};
use super::{Verdict, progress};
use crate::cluster::{Cluster, Kwok, Options};
use crate::error::{Error, Result};
use crate::process::Program;
use crate::wait::{self, Selection};
use crate::world::{World, cluster_in};

/// How long each act may take on a machine that builds on all cores.
const ACT: Duration = Duration::from_secs(300);
const REPOSITORY: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/..");
/// What runs everywhere: the databases of the shop want volumes and its training GPUs, which no object-only node has.
const RUNS: &str = "app in (web,cart,payment,cache)";

/// Plays it, and says whether everything came and went. Ctrl-C takes everything down at any time.
pub(super) async fn run(out: &mut dyn Write) -> Result<Verdict> {
    let mut told = Told::listen()?;
    tokio::select! {
        verdict = play(out) => verdict,
        () = told.come() => Ok(Verdict::No),
    }
}

async fn play(out: &mut dyn Write) -> Result<Verdict> {
    let muster = tokio::task::spawn_blocking(muster).await.map_err(|error| Error::Daemon(error.to_string()))??;
    let mut times = Vec::new();
    let world = timed(&mut times, "clean up and open", async { World::open(OWNER) }).await?;
    let (cluster, plane) = timed(&mut times, "control plane", cluster_in(&world, &Options::named("demo"))).await?;
    let kwok = timed(&mut times, "KWOK", async { Kwok::start(world.spawner(), &cluster) }).await?;
    timed(&mut times, "definitions", define(&cluster)).await?;
    let controller = Program::new("muster", muster)
        .arg("run")
        .flag("cloud", "kwok")
        .flag("metrics-port", "0")
        .flag("health-probe-port", "0")
        .env("KUBECONFIG", cluster.kubeconfig());
    let controller = world.spawner().start(&controller)?;
    progress(&format!("Muster runs; its log is {}", controller.log().display()));
    let held = acts(out, &cluster).await;
    if let Err(error) = &held {
        progress(&format!("{error}"));
    }
    progress("taking everything down");
    drop((controller, kwok, plane));
    world.close()?;
    Ok(if held.is_ok() { Verdict::Yes } else { Verdict::No })
}

/// Pods get their nodes, and nodes go with their pods.
async fn acts(out: &mut dyn Write, cluster: &Cluster) -> Result<()> {
    let begun = Instant::now();
    // The namespace first: kubectl takes the files of a folder by their names.
    for path in ["examples/shop/cluster.yaml", "examples/shop"] {
        cluster.kubectl(&["apply", "-f", &in_repository(path)]).await?;
    }
    writeln!(out, "\nexamples/shop is applied. The real kube-scheduler finds no node for it:\n")?;
    let bound = bound(out, cluster, begun).await?;
    let nodes: BTreeSet<&str> = bound.iter().filter_map(|pod| pod.spec.as_ref()?.node_name.as_deref()).collect();
    writeln!(out, "\n{}", cluster.kubectl(&["get", "nodeclaims"]).await?.trim_end())?;
    writeln!(out, "\n{} pods run on {} nodes that Muster launched. Now the shop closes:\n", bound.len(), nodes.len())?;
    cluster.kubectl(&["delete", "namespace", "shop", "--wait=false"]).await?;
    gone(out, cluster, begun).await?;
    writeln!(out, "\nEvery node is gone.")?;
    Ok(())
}

/// Waits until all pods that can be are bound to nodes of Muster.
async fn bound(out: &mut dyn Write, cluster: &Cluster, begun: Instant) -> Result<Vec<Pod>> {
    let wanted = wanted(cluster).await?;
    let pods: Api<Pod> = Api::namespaced(cluster.client(), "shop");
    let mut last = usize::MAX;
    let what = format!("{wanted} pods are bound");
    wait::until_all(pods, Selection::labelled(RUNS), ACT, &what, |pods| {
        let count = pods.iter().filter(|pod| pod.spec.as_ref().is_some_and(|spec| spec.node_name.is_some())).count();
        if std::mem::replace(&mut last, count) != count {
            let _ = writeln!(out, "{:>6.1} s  {count} of {wanted} pods are bound", begun.elapsed().as_secs_f64());
        }
        pods.len() == wanted && count == wanted
    })
    .await
}

/// The pods of the shop's Deployments.
async fn wanted(cluster: &Cluster) -> Result<usize> {
    let path = "jsonpath={.items[*].spec.replicas}";
    let replicas = cluster.kubectl(&["get", "deployments", "-n", "shop", "-o", path]).await?;
    Ok(replicas.split_whitespace().filter_map(|count| count.parse::<usize>().ok()).sum())
}

async fn gone(out: &mut dyn Write, cluster: &Cluster, begun: Instant) -> Result<()> {
    let nodes: Api<Node> = Api::all(cluster.client());
    let mut last = usize::MAX;
    let gone = wait::until_all(nodes, Selection::all(), ACT, "no node is left", |nodes| {
        if std::mem::replace(&mut last, nodes.len()) != nodes.len() {
            let names: Vec<String> = nodes.iter().map(ResourceExt::name_any).collect();
            let names = names.iter().map(|name| name.split('-').take(3).collect::<Vec<_>>().join("-"));
            let names = names.collect::<Vec<_>>().join(" ");
            let _ = writeln!(out, "{:>6.1} s  {} nodes  {names}", begun.elapsed().as_secs_f64(), nodes.len());
        }
        nodes.is_empty()
    });
    gone.await.map(drop)
}

/// The definitions of Karpenter's kinds, and a pool whose nodes are objects only.
async fn define(cluster: &Cluster) -> Result<()> {
    cluster.kubectl(&["apply", "--server-side", "-f", &in_repository("controller/api/crds")]).await?;
    cluster.kubectl(&["wait", "--for=condition=Established", "crd", "--all", "--timeout=60s"]).await?;
    let class = json!({
        "apiVersion": "karpenter.kwok.sh/v1alpha1", "kind": "KWOKNodeClass", "metadata": {"name": "default"},
    });
    let small = json!([{"key": "karpenter.kwok.sh/instance-cpu", "operator": "Lt", "values": ["32"]}]);
    let reference = json!({"group": "karpenter.kwok.sh", "kind": "KWOKNodeClass", "name": "default"});
    let pool = json!({
        "apiVersion": "karpenter.sh/v1", "kind": "NodePool", "metadata": {"name": "demo"},
        "spec": {
            "template": {"spec": {"nodeClassRef": reference, "requirements": small}},
            "disruption": {"consolidateAfter": "5s", "budgets": [{"nodes": "100%"}]},
        },
    });
    let list = json!({"apiVersion": "v1", "kind": "List", "items": [class, pool]});
    let file = tempfile::Builder::new().suffix(".json").tempfile()?;
    fs_err::write(file.path(), list.to_string())?;
    cluster.kubectl(&["apply", "-f", &file.path().display().to_string()]).await.map(drop)
}

/// `muster`, built as this program was.
fn muster() -> Result<PathBuf> {
    let own = std::env::current_exe()?;
    let beside = own.with_file_name("muster");
    let Some(cargo) = std::env::var_os("CARGO") else {
        return if beside.is_file() { Ok(beside) } else { Err(no_muster()) };
    };
    progress("building muster");
    let mut build = Command::new(cargo);
    build
        .args(["build", "--quiet", "--package", "muster-controller", "--bin", "muster", "--features", "cluster"])
        .current_dir(REPOSITORY);
    if own.parent().and_then(Path::file_name).is_some_and(|profile| profile == "release") {
        build.arg("--release");
    }
    let built = build.status()?.success() && beside.is_file();
    if built { Ok(beside) } else { Err(no_muster()) }
}

fn no_muster() -> Error {
    Error::Command {
        command: "cargo build --package muster-controller --bin muster --features cluster".into(),
        answer: "failed".into(),
    }
}

fn in_repository(path: &str) -> String {
    format!("{REPOSITORY}/{path}")
}
