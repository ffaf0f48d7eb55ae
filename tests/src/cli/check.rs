//! `up --check`: starts everything, proves each part with one real use, takes it down.

use std::io::Write;
use std::time::{Duration, Instant};

use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::core::v1::Node;
use kube::Api;
use kube::api::PostParams;
use serde_json::json;

use super::arguments::Format;
use super::parts::Parts;
use super::{Verdict, print_json, progress, table};
use crate::cluster::{Cluster, fake_node};
use crate::error::{Error, Result};
use crate::{programs, wait};

/// How long one use may take, on a machine that builds on all cores.
const USE: Duration = Duration::from_secs(60);

/// One line of the table.
struct Proof {
    part: &'static str,
    what: String,
    taken: Duration,
    failure: Option<String>,
}

/// Runs the check. The answer is "no" when anything failed.
pub(super) async fn run(out: &mut dyn Write, format: Format) -> Result<Verdict> {
    let start = Instant::now();
    let parts = Parts::start("up --check").await?;
    let mut proofs: Vec<Proof> = parts
        .times
        .iter()
        .map(|(part, taken)| Proof { part, what: "started".to_owned(), taken: *taken, failure: None })
        .collect();
    let cluster = parts.cluster.clone();
    proofs.push(prove("API server", kubectl_version(&cluster)).await);
    proofs.push(prove("RBAC", rights(&cluster)).await);
    proofs.push(prove("scheduler, controllers, KWOK", deployment(&cluster)).await);
    proofs.push(prove("programs", tools()).await);
    let down = Instant::now();
    let failure = parts.end().err().map(|error| error.to_string());
    proofs.push(Proof { part: "everything", what: "taken down".to_owned(), taken: down.elapsed(), failure });
    show(out, format, &proofs, start.elapsed())?;
    Ok(if proofs.iter().all(|proof| proof.failure.is_none()) { Verdict::Yes } else { Verdict::No })
}

async fn prove(part: &'static str, proof: impl Future<Output = Result<String>>) -> Proof {
    let start = Instant::now();
    let outcome = proof.await;
    let taken = start.elapsed();
    progress(&format!("{part}: {:.1} s", taken.as_secs_f64()));
    match outcome {
        Ok(what) => Proof { part, what, taken, failure: None },
        Err(error) => Proof { part, what: "failed".to_owned(), taken, failure: Some(error.to_string()) },
    }
}

fn show(out: &mut dyn Write, format: Format, proofs: &[Proof], all: Duration) -> Result<()> {
    if format.is_json() {
        let items: Vec<_> = proofs
            .iter()
            .map(|it| json!({"part": it.part, "what": it.what, "seconds": it.taken.as_secs_f64(), "failure": it.failure}))
            .collect();
        let document = json!({
            "apiVersion": "muster.dev/v1", "kind": "WorldCheck", "seconds": all.as_secs_f64(), "proofs": items,
        });
        return print_json(out, &document);
    }
    let seconds = |taken: Duration| format!("{:.1}", taken.as_secs_f64());
    let mut rows: Vec<[String; 4]> = proofs
        .iter()
        .map(|it| {
            let verdict = if it.failure.is_none() { "ok" } else { "FAILED" };
            [it.part.to_owned(), it.what.clone(), verdict.to_owned(), seconds(it.taken)]
        })
        .collect();
    rows.push(["all".to_owned(), String::new(), String::new(), seconds(all)]);
    table::print(out, ["PART", "PROOF", "VERDICT", "SECONDS"], &rows)?;
    for failure in proofs.iter().filter_map(|proof| Some((proof.part, proof.failure.as_ref()?))) {
        writeln!(out, "\n{}: {}", failure.0, failure.1)?;
    }
    Ok(())
}

async fn kubectl_version(cluster: &Cluster) -> Result<String> {
    let text = cluster.kubectl(&["version", "--output=json"]).await?;
    let versions: serde_json::Value = serde_json::from_str(&text).map_err(std::io::Error::from)?;
    let version = versions["serverVersion"]["gitVersion"].as_str().unwrap_or("unknown");
    Ok(format!("kubectl sees {version}"))
}

/// A service account without rights is refused, and gets them with a binding.
async fn rights(cluster: &Cluster) -> Result<String> {
    let account = cluster.service_account("default", "check").await?;
    let refused = account.kubectl(&["get", "nodes"]).await;
    if !matches!(&refused, Err(Error::Command { answer, .. }) if answer.contains("Forbidden")) {
        return Err(Error::Command { command: "kubectl get nodes".into(), answer: "was not refused".into() });
    }
    let role = ["create", "clusterrole", "muster:check", "--verb=list,get", "--resource=nodes"];
    cluster.kubectl(&role).await?;
    let binding = ["create", "clusterrolebinding", "muster:check", "--clusterrole=muster:check"];
    cluster.kubectl(&[&binding[..], &["--serviceaccount=default:check"]].concat()).await?;
    account.kubectl(&["get", "nodes"]).await?;
    Ok("a service account is refused, then bound, then let in".to_owned())
}

async fn deployment(cluster: &Cluster) -> Result<String> {
    let nodes: Api<Node> = Api::all(cluster.client());
    nodes.create(&PostParams::default(), &fake_node("check", json!({}))?).await?;
    let deployments: Api<Deployment> = Api::default_namespaced(cluster.client());
    let deployment = json!({
        "metadata": {"name": "check"},
        "spec": {
            "replicas": 3,
            "selector": {"matchLabels": {"app": "check"}},
            "template": {
                "metadata": {"labels": {"app": "check"}},
                "spec": {"containers": [{"name": "main", "image": "none"}]},
            },
        },
    });
    let deployment: Deployment = serde_json::from_value(deployment).map_err(std::io::Error::from)?;
    deployments.create(&PostParams::default(), &deployment).await?;
    wait::until(deployments, "check", USE, "three replicas are available", |it| {
        it.status.as_ref().and_then(|status| status.available_replicas) == Some(3)
    })
    .await?;
    Ok("three replicas run on a KWOK node".to_owned())
}

/// Every program of set-up is there.
async fn tools() -> Result<String> {
    let mut count = 0;
    for package in programs::packages() {
        for program in package.programs() {
            programs::path(program)?;
            count += 1;
        }
    }
    Ok(format!("all {count} of set-up are there"))
}
