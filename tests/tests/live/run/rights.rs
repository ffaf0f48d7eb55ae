//! What `muster run` does with rights that are not enough: with those of a reader it tells what it would do, and without
//! `--dry-run` names each that is missing.

use std::time::Duration;

use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::api::core::v1::Event;
use kube::Api;
use kube::api::ListParams;
use muster_tests::cluster::Cluster;
use muster_tests::replica::Replica;
use muster_tests::wait::{self, Selection};
use serde_json::Value;

use super::ground::{Ground, SOON, condition};

/// A service account that may read everything, and nothing else.
pub(crate) async fn reader(cluster: &Cluster) -> std::path::PathBuf {
    let account = cluster.service_account("default", "reader").await.unwrap();
    let role = ["create", "clusterrole", "muster:reader", "--verb=get,list,watch", "--resource=*.*"];
    cluster.kubectl(&role).await.unwrap();
    let binding = ["create", "clusterrolebinding", "muster:reader", "--clusterrole=muster:reader"];
    cluster.kubectl(&[&binding[..], &["--serviceaccount=default:reader"]].concat()).await.unwrap();
    account.kubeconfig
}

/// The lines of a log that are JSON.
pub(crate) fn lines(replica: &Replica) -> Vec<Value> {
    let text = std::fs::read_to_string(replica.log()).unwrap_or_default();
    text.lines().filter_map(|line| serde_json::from_str(line).ok()).collect()
}

/// Waits for a line of a log that is it.
pub(crate) async fn line(replica: &Replica, what: &str, is_it: impl Fn(&Value) -> bool) -> Value {
    let found = wait::until_some(what, SOON, || {
        let found = lines(replica).into_iter().find(&is_it);
        async move { Ok(found) }
    });
    found.await.unwrap()
}

#[tokio::test]
async fn a_dry_run_tells_what_it_would_do_and_writes_nothing() {
    let ground = Ground::new("run suite").await;
    let kubeconfig = reader(ground.cluster()).await;
    let observer = ground.replica_as("observer", &kubeconfig, &["--dry-run", "-o", "json"]);
    ground.deploy_pairs(4).await;
    // They come one by one, and the first reports may be about the first of them.
    let pods = |line: &Value| -> usize {
        let launches = line["launches"].as_array().into_iter().flatten();
        launches.map(|one| one["pods"].as_array().map_or(0, Vec::len)).sum()
    };
    let told = line(&observer, "launches for all four pods are told", |line| {
        line["kind"] == "DryRunReport" && pods(line) == 4
    })
    .await;
    assert!(told["hourlyPrice"].as_f64().unwrap() > 0.0, "{told:#}");

    // Another one does it, and leaves a node that is worth nothing.
    let policy = serde_json::json!({"consolidateAfter": "1s", "consolidationPolicy": "WhenEmpty"});
    ground.small_nodes(&serde_json::json!({}), &policy).await;
    ground.cluster().kubectl(&["annotate", "nodepool", "general", "muster.dev/pause=disruption"]).await.unwrap();
    let actor = ground.replica("actor");
    ground.running(4, SOON).await;
    // Pods run on a node before its claim says that it is initialized, and only such a node can go.
    let initialized = wait::until_all(ground.claims(), Selection::all(), SOON, "all are initialized", |claims| {
        !claims.is_empty() && claims.iter().all(|claim| condition(claim, "Initialized") == "True")
    });
    initialized.await.unwrap();
    drop(actor);
    ground.scale(0).await;
    ground.running(0, SOON).await;
    ground.cluster().kubectl(&["annotate", "nodepool", "general", "muster.dev/pause-"]).await.unwrap();
    let is_disruption = |line: &Value| line["disruptions"].as_array().is_some_and(|all| !all.is_empty());
    let told = line(&observer, "a disruption is told", is_disruption).await;
    assert_eq!(told["disruptions"][0]["cause"], "Empty", "{told:#}");
    assert!(told["hourlySavings"].as_f64().unwrap() > 0.0, "{told:#}");

    // The API server says so too: nobody has written since.
    let claims = ground.claims().list(&ListParams::default()).await.unwrap().items;
    assert!(claims.iter().all(|claim| claim.metadata.deletion_timestamp.is_none()), "{claims:#?}");
    let refused = std::fs::read_to_string(observer.log()).unwrap();
    assert!(!refused.contains("forbidden"), "nothing was tried that a reader may not: {refused}");
}

#[tokio::test]
async fn permissions_that_are_missing_are_named_once() {
    let ground = Ground::new("run suite").await;
    let kubeconfig = reader(ground.cluster()).await;
    let replica = ground.replica_as("reader", &kubeconfig, &[]);
    let looked = line(&replica, "permissions are looked at", |line| line["message"] == "permissions checked").await;
    let missing: Vec<(String, String)> = lines(&replica)
        .iter()
        .filter(|line| line["message"] == "a permission is missing")
        .map(|line| (line["verb"].as_str().unwrap().to_owned(), line["resource"].as_str().unwrap().to_owned()))
        .collect();
    assert_eq!(looked["missing"], missing.len(), "{missing:?}");
    let named = |verb: &str, resource: &str| {
        missing.iter().filter(|(v, r)| (v.as_str(), r.as_str()) == (verb, resource)).count()
    };
    for (verb, resource) in
        [("create", "nodeclaims"), ("patch", "nodes"), ("create", "pods/eviction"), ("update", "leases")]
    {
        assert_eq!(named(verb, resource), 1, "{verb} {resource}: {missing:?}");
    }
    assert!(!missing.iter().any(|(verb, _)| verb == "list" || verb == "watch"), "{missing:?}");
    // It goes on, in case they come: nobody leads, nothing is written.
    let leases: Api<Lease> = Api::namespaced(ground.client(), "kube-system");
    let free = |leases: &[Lease]| leases.is_empty();
    let name = Selection::named("karpenter-leader-election");
    wait::stays(leases, name, Duration::from_secs(5), "nobody holds the lease", free).await.unwrap();
    let events: Api<Event> = Api::all(ground.client());
    let events = events.list(&ListParams::default()).await.unwrap().items;
    assert!(!events.iter().any(|event| event.reporting_component.as_deref() == Some("muster")), "{events:#?}");
}
