//! `up --check`: starts everything, proves each part with one real use, takes it down.

use std::io::Write;
use std::time::{Duration, Instant};

use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::core::v1::Node;
use kube::Api;
use kube::api::PostParams;
use serde_json::json;

use super::arguments::Format;
use super::parts::{Ground, Parts};
use super::{Verdict, cloud, machines, print_json, progress, table};
use crate::cluster::{Cluster, fake_node};
use crate::ec2::Ec2;
use crate::error::{Error, Result};
use crate::instances::Bridge;
use crate::machine::BUSYBOX;
use crate::{programs, wait};

/// How long one use may take, on a machine that builds on all cores.
const USE: Duration = Duration::from_secs(60);

/// One line of the table.
struct Proof {
    part: &'static str,
    what: String,
    /// Of each repetition.
    taken: Vec<Duration>,
    failure: Option<String>,
}

/// Runs the check `times` times. The answer is "no" when anything failed; then it is not repeated any more.
pub(super) async fn run(out: &mut dyn Write, format: Format, times: u32, machines: u32) -> Result<Verdict> {
    let mut proofs = once(machines).await?;
    for _ in 1..times {
        if !is_well(&proofs) {
            break;
        }
        // Every repetition proves the same in the same order.
        for (proof, again) in proofs.iter_mut().zip(once(machines).await?) {
            proof.taken.extend(again.taken);
            proof.failure = again.failure;
        }
    }
    show(out, format, &mut proofs)?;
    Ok(if is_well(&proofs) { Verdict::Yes } else { Verdict::No })
}

fn is_well(proofs: &[Proof]) -> bool {
    proofs.iter().all(|proof| proof.failure.is_none())
}

async fn once(machines: u32) -> Result<Vec<Proof>> {
    let start = Instant::now();
    let parts = Parts::start("up --check", machines > 0).await?;
    let started = |(part, taken): &(&'static str, Duration)| Proof {
        part,
        what: "started".to_owned(),
        taken: vec![*taken],
        failure: None,
    };
    let mut proofs: Vec<Proof> = parts.times.iter().map(started).collect();
    let cluster = parts.cluster.clone();
    proofs.push(prove("API server", kubectl_version(&cluster)).await);
    proofs.push(prove("RBAC", rights(&cluster)).await);
    proofs.push(prove("scheduler, controllers, KWOK", deployment(&cluster)).await);
    proofs.push(prove("EC2, SSM", cloud::prove(&parts.ec2)).await);
    if let Ground::Site(_, bridge) = &parts.ground {
        proofs.push(prove("machines, metadata", machine(&cluster, &parts.ec2, bridge, machines.max(1))).await);
    }
    proofs.push(prove("programs", tools()).await);
    let down = prove("everything", async { parts.end().await.map(|()| "taken down".to_owned()) }).await;
    proofs.push(down);
    proofs.push(Proof { part: "all", what: String::new(), taken: vec![start.elapsed()], failure: None });
    Ok(proofs)
}

async fn prove(part: &'static str, proof: impl Future<Output = Result<String>>) -> Proof {
    let start = Instant::now();
    let outcome = proof.await;
    let taken = start.elapsed();
    progress(&format!("{part}: {:.1} s", taken.as_secs_f64()));
    match outcome {
        Ok(what) => Proof { part, what, taken: vec![taken], failure: None },
        Err(error) => Proof { part, what: "failed".to_owned(), taken: vec![taken], failure: Some(error.to_string()) },
    }
}

fn show(out: &mut dyn Write, format: Format, proofs: &mut [Proof]) -> Result<()> {
    proofs.iter_mut().for_each(|proof| proof.taken.sort());
    if format.is_json() {
        let seconds = |proof: &Proof| proof.taken.iter().map(Duration::as_secs_f64).collect::<Vec<_>>();
        let items: Vec<_> = proofs
            .iter()
            .map(|it| json!({"part": it.part, "what": it.what, "seconds": seconds(it), "failure": it.failure}))
            .collect();
        let document =
            json!({"apiVersion": "muster.dev/v1", "kind": "WorldCheck", "ok": is_well(proofs), "proofs": items});
        return print_json(out, &document);
    }
    let seconds = |taken: Option<&Duration>| taken.map_or_else(String::new, |it| format!("{:.1}", it.as_secs_f64()));
    let rows: Vec<[String; 5]> = proofs
        .iter()
        .map(|it| {
            let verdict = if it.failure.is_none() { "ok" } else { "FAILED" };
            let (median, longest) = (it.taken.get(it.taken.len() / 2), it.taken.last());
            [it.part.to_owned(), it.what.clone(), verdict.to_owned(), seconds(median), seconds(longest)]
        })
        .collect();
    table::print(out, ["PART", "PROOF", "VERDICT", "SECONDS", "LONGEST"], &rows)?;
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

/// A fleet boots and joins; a pod runs on the first machine; what is terminated is gone.
async fn machine(cluster: &Cluster, ec2: &Ec2, bridge: &Bridge, count: u32) -> Result<String> {
    let who = ec2.credentials("check");
    let start = Instant::now();
    let nodes = machines::launch(ec2, &who, cluster, bridge, count).await?;
    let ready = start.elapsed();
    let first = nodes.first().ok_or_else(|| Error::Daemon("a fleet without instances".to_owned()))?;
    let overrides = json!({"spec": {"nodeName": first.served.instance.host_name}}).to_string();
    let run = ["run", "check", "--image", BUSYBOX, "--overrides", &overrides];
    cluster.kubectl(&[&run[..], &["--", "sh", "-c", "echo hello; sleep 3600"]].concat()).await?;
    cluster.kubectl(&["wait", "pod/check", "--for=condition=Ready", "--timeout=60s"]).await?;
    let logs = cluster.kubectl(&["logs", "check"]).await?;
    let said = cluster.kubectl(&["exec", "check", "--", "cat", "/etc/hostname"]).await?;
    if (logs.trim(), said.trim()) != ("hello", "check") {
        return Err(Error::Command { command: "kubectl logs, exec".into(), answer: format!("{logs:?}, {said:?}") });
    }
    let ids: Vec<String> = nodes.iter().map(|node| node.machine.spec().instance_id.clone()).collect();
    for id in &ids {
        cloud::terminate(ec2, &who, id).await?;
        bridge.gone(id, USE).await?;
    }
    let each = if count == 1 { "a fleet joins".to_owned() } else { format!("a fleet of {count} joins") };
    Ok(format!("{each} in {:.1} s; kubectl logs and exec; terminated, gone", ready.as_secs_f64()))
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
