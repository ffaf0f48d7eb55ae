//! Consolidation comes to rest: what is planned is what happens, and then nothing happens.
//!
//! Figures are those of an optimised program; the control plane takes most of the time.

use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};

use k8s_openapi::api::core::v1::Node;
use kube::ResourceExt;
use kube::api::ListParams;
use muster_tests::cluster::Delays;
use muster_tests::meter::{Meter, conflicts, counted, writes};
use muster_tests::replica::Replica;
use muster_tests::wait::{self, Selection};
use serde_json::{Value, json};

use super::ground::{Ground, hourly_price, number};

/// Longest wait for a condition on a machine that does other things.
const LONG: Duration = Duration::from_secs(900);
/// `consolidateAfter` of the pool.
const QUIET: Duration = Duration::from_secs(30);
/// A cluster rests if no NodeClaim comes or goes for so long: several passes, and the time between them.
const REST: Duration = Duration::from_secs(120);

/// A Deployment: name, replicas before and after, cpu and memory.
struct Load {
    name: String,
    replicas: (usize, usize),
    requests: (String, String),
    /// Its replicas spread over hosts.
    spreads: bool,
}

impl Load {
    fn new(name: impl Into<String>, replicas: (usize, usize), cpu: &str, memory: &str) -> Self {
        Self { name: name.into(), replicas, requests: (cpu.to_owned(), memory.to_owned()), spreads: false }
    }

    fn object(&self, replicas: usize) -> Value {
        let labels = json!({"app": self.name});
        let requests = json!({"cpu": self.requests.0, "memory": self.requests.1});
        let containers = json!([{"name": "main", "image": "none", "resources": {"requests": requests}}]);
        let mut spec = json!({"containers": containers});
        if self.spreads {
            spec["topologySpreadConstraints"] = json!([{
                "maxSkew": 1, "topologyKey": "kubernetes.io/hostname", "whenUnsatisfiable": "DoNotSchedule",
                "labelSelector": {"matchLabels": labels},
            }]);
        }
        let template = json!({"metadata": {"labels": labels}, "spec": spec});
        json!({
            "apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": self.name, "namespace": "default"},
            "spec": {"replicas": replicas, "selector": {"matchLabels": labels}, "template": template},
        })
    }
}

/// Scales all Deployments down at once, and prints what becomes of their nodes until nothing happens any more.
async fn scaled_down(loads: &[Load], arguments: &[&str]) {
    let ground = Ground::new("run figures").await;
    let replica = ground.replica_as("muster", ground.cluster().kubeconfig(), arguments);
    scaled_down_on(&ground, &replica, loads).await;
}

async fn scaled_down_on(ground: &Ground, replica: &Replica, loads: &[Load]) {
    ground.compared().await;
    let all: Vec<Value> = loads.iter().map(|load| load.object(load.replicas.0)).collect();
    ground.apply(&all).await;
    running(ground, loads.iter().map(|load| load.replicas.0).sum()).await;
    let before = nodes(ground).await;
    rested(ground, REST).await;
    let (meter, evicted) = (Meter::of(replica).await.unwrap(), evictions(replica).await);
    let claimed = claims_created(replica).await;

    let begun = Instant::now();
    let fewer: Vec<Value> = loads.iter().map(|load| load.object(load.replicas.1)).collect();
    ground.apply(&fewer).await;
    let after: usize = loads.iter().map(|load| load.replicas.1).sum();
    // Times that long, to see more of it.
    let times = u32::try_from(number("MUSTER_RESTS", 1)).unwrap();
    let last = rested(ground, REST * times).await;
    running(ground, after).await;
    let left = nodes(ground).await;
    let taken = meter.read().unwrap();
    println!(
        "{after} pods left: {} nodes, {:.3} USD/h, became {} nodes, {:.3} USD/h; at rest {:.0} s after {QUIET:?} of quiet; {} \
         evictions, {} NodeClaims; {:.2} CPU s, {} MiB",
        before.len(),
        hourly_price(&before),
        left.len(),
        hourly_price(&left),
        last.map_or(0.0, |last| (last - begun).as_secs_f64() - QUIET.as_secs_f64()),
        evictions(replica).await - evicted,
        claims_created(replica).await - claimed,
        taken.cpu,
        taken.peak,
    );
    let (all, lost) = conflicts(replica).await.unwrap();
    println!("  {lost} of {all} writes met a conflict: {:?}", writes(replica).await.unwrap());
}

async fn evictions(replica: &Replica) -> u64 {
    writes(replica).await.unwrap().iter().filter(|(name, _)| name.contains("evict")).map(|(_, count)| *count).sum()
}

async fn claims_created(replica: &Replica) -> u64 {
    let created: BTreeMap<String, u64> = counted(replica, "karpenter_nodeclaims_created_total").await.unwrap();
    created.values().sum()
}

async fn nodes(ground: &Ground) -> Vec<Node> {
    ground.nodes().list(&ListParams::default()).await.unwrap().items
}

async fn running(ground: &Ground, count: usize) {
    let runs = |pod: &k8s_openapi::api::core::v1::Pod| {
        pod.status.as_ref().and_then(|status| status.phase.as_deref()) == Some("Running")
    };
    let what = format!("{count} pods run");
    let all = wait::until_all(ground.pods(), Selection::all(), LONG, &what, |pods| {
        pods.len() == count && pods.iter().all(runs)
    });
    all.await.unwrap();
}

/// Waits until no NodeClaim has come or gone for so long. Returns when the last one did.
async fn rested(ground: &Ground, calm: Duration) -> Option<Instant> {
    let mut last = None;
    let mut known: Option<BTreeSet<String>> = None;
    let end = Instant::now() + LONG;
    loop {
        assert!(Instant::now() < end, "NodeClaims come and go for {LONG:?}");
        let there: BTreeSet<String> = ground
            .claims()
            .list(&ListParams::default())
            .await
            .unwrap()
            .items
            .iter()
            .map(ResourceExt::name_any)
            .collect();
        if known.as_ref().is_some_and(|known| *known != there) {
            last = Some(Instant::now());
        }
        let same = |claims: &[kube::core::DynamicObject]| {
            claims.iter().map(ResourceExt::name_any).collect::<BTreeSet<String>>() == there
        };
        let what = "no NodeClaim comes or goes";
        if wait::stays(ground.claims(), Selection::all(), calm, what, same).await.is_ok() {
            return last;
        }
        last = Some(Instant::now());
        known = Some(there);
    }
}

#[tokio::test]
#[ignore = "scale: minutes, and its figures are those of an optimised program"]
async fn thousand_equal_pods_become_seven_hundred() {
    scaled_down(&[Load::new("web", (1000, 700), "900m", "3100Mi")], &[]).await;
}

#[tokio::test]
#[ignore = "scale: minutes, and its figures are those of an optimised program"]
async fn thousand_pods_of_two_deployments_become_seven_hundred() {
    let loads = [Load::new("small", (500, 350), "900m", "3100Mi"), Load::new("large", (500, 350), "3500m", "14Gi")];
    scaled_down(&loads, &[]).await;
}

#[tokio::test]
#[ignore = "scale: minutes, and its figures are those of an optimised program"]
async fn two_deployments_that_are_not_told_of_their_nodes_rest_too() {
    let loads = [Load::new("small", (500, 350), "900m", "3100Mi"), Load::new("large", (500, 350), "3500m", "14Gi")];
    scaled_down(&loads, &["--disable-nominations"]).await;
}

#[tokio::test]
#[ignore = "scale: a quarter of an hour, and its figures are those of an optimised program"]
async fn two_deployments_rest_with_a_slow_api_server() {
    let loads = [Load::new("small", (500, 350), "900m", "3100Mi"), Load::new("large", (500, 350), "3500m", "14Gi")];
    let ground = Ground::new("run figures").await;
    let delays = Delays { call: Duration::from_millis(500), watch: Duration::from_secs(5) };
    let admin = ground.cluster().user("muster", Some("system:masters")).await.unwrap();
    let (_server, kubeconfig) = admin.slowed(delays).await.unwrap();
    let replica = ground.replica_as("muster", &kubeconfig, &[]);
    scaled_down_on(&ground, &replica, &loads).await;
}

#[tokio::test]
#[ignore = "scale: a quarter of an hour, and its figures are those of an optimised program"]
async fn five_thousand_pods_become_fifteen_hundred() {
    scaled_down(&[Load::new("web", (5000, 1500), "900m", "3100Mi")], &[]).await;
}

#[tokio::test]
#[ignore = "scale: minutes, and its figures are those of an optimised program"]
async fn spread_replicas_become_fewer() {
    let spread = Load { spreads: true, ..Load::new("spread", (1000, 700), "900m", "3100Mi") };
    scaled_down(&[spread], &[]).await;
}

#[tokio::test]
#[ignore = "scale: minutes, and its figures are those of an optimised program"]
async fn thirty_deployments_become_fewer() {
    let sizes = [("400m", "700Mi"), ("900m", "3100Mi"), ("1700m", "2Gi"), ("3500m", "14Gi"), ("250m", "5Gi")];
    let load = |number: usize| {
        let (cpu, memory) = sizes[number % sizes.len()];
        let replicas = 10 + 47 * number % 50;
        Load::new(format!("load-{number}"), (replicas, replicas * 7 / 10), cpu, memory)
    };
    scaled_down(&(0..30).map(load).collect::<Vec<_>>(), &[]).await;
}
