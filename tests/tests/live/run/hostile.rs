//! Pods of one namespace whose rules cost much and that nothing can satisfy, beside ordinary pods of another: these get
//! their nodes as soon as without them, and nobody is flooded with words about the others.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use futures::{StreamExt, TryStreamExt, stream};
use k8s_openapi::api::core::v1::{Event, Namespace, Pod, ServiceAccount};
use kube::Api;
use kube::api::{ListParams, PostParams};
use muster_tests::meter::Meter;
use muster_tests::replica::Replica;
use muster_tests::wait::{self, Selection};
use serde_json::{Value, json};

use super::ground::{Ground, SOON};

/// Namespace of the hostile pods.
const NOISE: &str = "noise";
/// Longest wait for a condition of the large case.
const LONG: Duration = Duration::from_secs(600);
/// Time for which they are there before the ordinary ones come.
const BEFORE: Duration = Duration::from_secs(60);
/// Time in which each may have one event.
const WATCHED: Duration = Duration::from_secs(600);
/// Time by which the ordinary ones may be later than without them, in seconds.
const LATER: f64 = 1.0;
/// Memory of the program, in MiB: 300 MB.
const MEMORY: u64 = 286;
/// Requests that are under way.
const AT_ONCE: usize = 24;
/// Labels of nodes that rules are about: of a node, of an offering, of a type, and one that no node has.
const KEYS: [&str; 8] = [
    "kubernetes.io/hostname",
    "topology.kubernetes.io/zone",
    "node.kubernetes.io/instance-type",
    "karpenter.kwok.sh/instance-family",
    "karpenter.kwok.sh/instance-size",
    "karpenter.kwok.sh/instance-cpu",
    "karpenter.sh/capacity-type",
    "example.com/rack",
];

/// Rules of a hostile pod: many terms of each kind, a selector of its own, and more than any node has.
fn rules(number: usize) -> Value {
    let all = json!({"matchLabels": {"app": "hostile"}});
    let group = json!({"matchLabels": {"group": (number % 7).to_string()}});
    let term = |key: &str| json!({"labelSelector": all, "topologyKey": key});
    match number % 5 {
        0 => json!({"affinity": {"podAntiAffinity": {
            "requiredDuringSchedulingIgnoredDuringExecution": KEYS.map(term),
        }}}),
        1 => json!({"topologySpreadConstraints": KEYS.map(|key| json!({
            "maxSkew": 1, "topologyKey": key, "whenUnsatisfiable": "DoNotSchedule", "labelSelector": all,
        }))}),
        2 => json!({"affinity": {"podAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [
            {"labelSelector": group, "topologyKey": "karpenter.kwok.sh/instance-family"},
            {"labelSelector": {"matchLabels": {"app": "nobody"}}, "topologyKey": "karpenter.kwok.sh/instance-size"},
        ]}}}),
        3 => json!({"nodeSelector": {"example.com/own": number.to_string()}}),
        _ => json!({}),
    }
}

fn hostile(number: usize) -> Pod {
    let cpu = if number % 5 == 4 { "1000" } else { "100m" };
    let mut spec = rules(number);
    spec["containers"] = json!([{"name": "main", "image": "none", "resources": {"requests": {"cpu": cpu}}}]);
    let labels = json!({"app": "hostile", "group": (number % 7).to_string(), "number": number.to_string()});
    let metadata = json!({"name": format!("hostile-{number}"), "labels": labels});
    serde_json::from_value(json!({"metadata": metadata, "spec": spec})).unwrap()
}

/// Creates so many hostile pods.
async fn add_hostile(ground: &Ground, count: usize) {
    let namespaces: Api<Namespace> = Api::all(ground.client());
    let namespace = serde_json::from_value(json!({"metadata": {"name": NOISE}})).unwrap();
    namespaces.create(&PostParams::default(), &namespace).await.unwrap();
    // Before it exists the API server takes no pods.
    let accounts: Api<ServiceAccount> = Api::namespaced(ground.client(), NOISE);
    wait::until(accounts, "default", SOON, "it exists", |_| true).await.unwrap();
    let pods: Api<Pod> = Api::namespaced(ground.client(), NOISE);
    let parameters = PostParams::default();
    let made = stream::iter(0..count).map(async |number| pods.create(&parameters, &hostile(number)).await);
    made.buffer_unordered(AT_ONCE).try_for_each(async |_| Ok(())).await.unwrap();
}

/// Creates so many ordinary pods, and returns the time until all of them are bound, in seconds.
async fn ordinary(ground: &Ground, count: usize) -> f64 {
    let begun = Instant::now();
    ground.deploy(count).await;
    let is_bound = |pod: &Pod| pod.spec.as_ref().is_some_and(|spec| spec.node_name.is_some());
    let what = format!("{count} pods are bound");
    let all = wait::until_all(ground.pods(), Selection::labelled("app=web"), LONG, &what, |pods| {
        pods.len() == count && pods.iter().all(is_bound)
    });
    all.await.unwrap();
    begun.elapsed().as_secs_f64()
}

/// Removes the ordinary pods and their nodes.
async fn clear(ground: &Ground) {
    ground.scale(0).await;
    ground.clear(LONG).await;
}

/// Returns how often `muster` published each reason about each hostile pod, repetitions of an event included. Remarks on
/// the manifest are apart from the reason why a pod waits: five a minute for a namespace, and each once an hour.
async fn told(ground: &Ground) -> BTreeMap<(String, String), i32> {
    let events: Api<Event> = Api::namespaced(ground.client(), NOISE);
    let mut told = BTreeMap::new();
    for event in events.list(&ListParams::default()).await.unwrap().items {
        if event.reporting_component.as_deref() == Some("muster") && event.type_.as_deref() == Some("Warning") {
            let name = event.involved_object.name.unwrap_or_default();
            let reason = event.reason.unwrap_or_default();
            *told.entry((name, reason)).or_default() += event.count.unwrap_or(1).max(1);
        }
    }
    told
}

/// Checks that no warning about a hostile pod is repeated, and returns how many pods have one why they wait.
async fn told_once(ground: &Ground) -> usize {
    let told = told(ground).await;
    let often: BTreeMap<_, _> = told.iter().filter(|(_, count)| **count > 1).collect();
    assert!(often.is_empty(), "{} warnings are repeated: {often:?}", often.len());
    told.keys().filter(|(_, reason)| reason == "FailedScheduling").count()
}

fn left_out(replica: &Replica) -> usize {
    replica.said().lines().filter(|line| line.contains("TooComplex")).count()
}

#[tokio::test]
async fn ordinary_pods_get_nodes_beside_hostile_ones() {
    let ground = Ground::new("run suite").await;
    add_hostile(&ground, 60).await;
    let _replica = ground.replica("muster");
    ordinary(&ground, 20).await;
    // The next decision is about the hostile ones again.
    ground.scale(40).await;
    ground.running(40, SOON).await;
    assert!(told_once(&ground).await <= 60);
}

#[tokio::test]
#[ignore = "scale: a quarter of an hour, and its figures are those of an optimised program"]
async fn thousand_hostile_pods_delay_nobody() {
    let ground = Ground::new("run figures").await;
    let replica = ground.replica("muster");
    let meter = Meter::of(&replica).await.unwrap();
    let mut alone = Vec::new();
    for _ in 0..3 {
        alone.push(ordinary(&ground, 200).await);
        clear(&ground).await;
    }
    println!("200 pods alone: bound after {alone:.2?} s; {} MiB at most", meter.read().unwrap().peak);
    let begun = Instant::now();
    add_hostile(&ground, 1000).await;
    println!("1,000 hostile pods are created after {:.1} s", begun.elapsed().as_secs_f64());
    tokio::time::sleep(BEFORE.saturating_sub(begun.elapsed())).await;
    let beside = ordinary(&ground, 200).await;
    println!("200 pods beside them: bound after {beside:.2} s; {} MiB at most", meter.read().unwrap().peak);
    tokio::time::sleep(WATCHED.saturating_sub(begun.elapsed())).await;
    let taken = meter.read().unwrap();
    println!(
        "ten minutes: {} of them were told of, {} lines of the log say TooComplex; {:.1} CPU s ({:.2} cores), \
         {} MiB at most",
        told(&ground).await.len(),
        left_out(&replica),
        taken.cpu,
        taken.cores(),
        taken.peak,
    );
    told_once(&ground).await;
    assert!(taken.peak <= MEMORY, "{} MiB", taken.peak);
    let slowest = alone.iter().copied().fold(0.0, f64::max);
    assert!(beside <= slowest + LATER, "{beside:.2} s beside them, {alone:.2?} s alone");
}
