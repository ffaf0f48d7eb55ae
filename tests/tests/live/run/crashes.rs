//! The controller is killed before and after each of its writes, on a real API server; the end is the same.
//!
//! ```text
//!   life 1: up to a write that nobody was killed at yet ──► killed ──► life 2: … ──► until no such write is left
//! ```
//!
//! The points are those that writes pass, so a write that is added is covered by itself.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use k8s_openapi::api::core::v1::Node;
use kube::ResourceExt;
use kube::api::ListParams;
use kube::core::DynamicObject;
use muster_controller::edge::{Fate, Pause, WriteObserver};
use muster_controller::run::{CloudOptions, Observers, Options, RunError, run_with};
use muster_stages::disruption::Timing;
use muster_stages::provision::Lengths;
use muster_stages::step::Write;
use muster_tests::wait::{self, Selection};
use serde_json::json;
use tokio::sync::Notify;
use tokio::task::JoinHandle;

use super::ground::{Ground, SOON, condition, hourly_price};

/// Where the controller is killed: at each point once, from the moment at which it is armed.
#[derive(Default)]
struct Fuse {
    is_armed: AtomicBool,
    /// Points that it was killed at.
    blown: Mutex<BTreeSet<String>>,
    /// Whether it is dead in this life: then nothing passes.
    is_dead: Mutex<bool>,
    died: Notify,
}

impl Fuse {
    fn pass(&self, point: String) -> Pause<'_> {
        let is_over = {
            let mut is_dead = self.is_dead.lock().unwrap();
            let is_armed = self.is_armed.load(Ordering::SeqCst);
            if is_armed && !*is_dead && self.blown.lock().unwrap().insert(point) {
                *is_dead = true;
                self.died.notify_one();
            }
            *is_dead
        };
        // Who is dead never goes on; the task is dropped.
        if is_over { Box::pin(std::future::pending()) } else { Box::pin(std::future::ready(())) }
    }
}

impl WriteObserver for Fuse {
    fn before<'a>(&'a self, write: &'a Write) -> Pause<'a> {
        self.pass(format!("before {}", told(write)))
    }

    fn after<'a>(&'a self, write: &'a Write, _: &'a Fate) -> Pause<'a> {
        self.pass(format!("after {}", told(write)))
    }
}

/// A write without what differs from life to life: times, and names that are drawn.
fn told(write: &Write) -> String {
    let detail = match write {
        Write::ClaimMeta { change, .. } | Write::PoolMeta { change, .. } | Write::ClassMeta(change) => {
            let keys: Vec<&String> = change.annotations.keys().chain(change.labels.keys()).collect();
            format!("{keys:?} {:?}", change.finalizers)
        }
        Write::ClaimStatus { status, .. } => {
            status.conditions.iter().map(|one| format!("{}={}/{} ", one.type_, one.status, one.reason)).collect()
        }
        Write::Node { change, .. } => {
            let keys: Vec<&String> = change.meta.annotations.keys().chain(change.meta.labels.keys()).collect();
            format!("{keys:?} {:?} {:?}", change.meta.finalizers, change.taints.as_ref().map(Vec::len))
        }
        Write::ClassCondition(condition) => condition.type_.clone(),
        Write::PoolStatus { status, .. } => {
            status.conditions.iter().map(|one| format!("{}={} ", one.type_, one.status)).collect()
        }
        Write::Event(event) => event.reason.to_owned(),
        _ => String::new(),
    };
    format!("{} {detail}", write.name())
}

fn options() -> Options {
    // Without a lease: the dead would hold it for fifteen seconds each.
    Options {
        window: Lengths { idle: Duration::from_millis(100), max: Duration::from_secs(1) },
        // Every life asks anew.
        timing: Timing {
            every: Duration::from_secs(1),
            validation: Duration::from_secs(1),
            settled: Duration::from_secs(3),
        },
        ..Options::of(CloudOptions::Kwok { types: None })
    }
}

/// A controller that is started again as often as it is killed.
struct Lives {
    task: JoinHandle<()>,
    fuse: Arc<Fuse>,
}

impl Lives {
    fn begin(ground: &Ground) -> Self {
        let fuse = Arc::new(Fuse::default());
        let (client, own) = (ground.client(), Arc::clone(&fuse));
        let task = tokio::spawn(async move {
            loop {
                *own.is_dead.lock().unwrap() = false;
                let writes: Arc<dyn WriteObserver> = Arc::clone(&own) as Arc<dyn WriteObserver>;
                let observers = Observers { writes: Some(writes), recorder: None };
                let life = run_with(client.clone(), options(), observers, std::future::pending());
                let ended: Result<(), RunError> = tokio::select! {
                    ended = life => ended,
                    () = own.died.notified() => continue,
                };
                ended.unwrap();
            }
        });
        Self { task, fuse }
    }

    /// From here on it is killed.
    fn arm(&self) {
        self.fuse.is_armed.store(true, Ordering::SeqCst);
    }

    /// The points that it was killed at.
    fn end(self) -> BTreeSet<String> {
        self.task.abort();
        self.fuse.blown.lock().unwrap().clone()
    }
}

/// Every Node has its claim, and every claim its one Node.
fn paired(claims: &[DynamicObject], nodes: &[Node]) {
    assert_eq!(claims.len(), nodes.len());
    for claim in claims {
        let id = claim.data["status"]["providerID"].as_str();
        let own = nodes.iter().filter(|node| node.spec.as_ref().and_then(|spec| spec.provider_id.as_deref()) == id);
        assert_eq!(own.count(), 1, "{}", claim.name_any());
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nothing_is_leaked_or_doubled_wherever_the_controller_is_killed() {
    let ground = Ground::new("run suite").await;
    let lives = Lives::begin(&ground);
    lives.arm();
    ground.deploy(30).await;
    ground.running(30, SOON * 2).await;
    let claims = ground.claims().list(&ListParams::default()).await.unwrap().items;
    let nodes = ground.nodes().list(&ListParams::default()).await.unwrap().items;
    let price = hourly_price(&nodes);
    assert!(price < 0.9, "{price}: thirty pods cost about 0.85 USD an hour, and nothing was bought twice");
    paired(&claims, &nodes);
    // Its pods drain before it goes, and find another node.
    ground.scale(0).await;
    ground.clear(SOON * 2).await;
    let points = lives.end();
    println!("killed at {} points", points.len());
    assert!(points.len() >= 30, "{points:#?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_node_is_replaced_once_wherever_the_controller_is_killed() {
    let ground = Ground::new("run suite").await;
    let policy = json!({"consolidateAfter": "Never", "budgets": [{"nodes": "1"}]});
    ground.small_nodes(&json!({"team": "a"}), &policy).await;
    let lives = Lives::begin(&ground);
    ground.deploy_pairs(1).await;
    ground.running(1, SOON).await;
    let ready = wait::until_all(ground.claims(), Selection::all(), SOON, "the claim is ready", |claims| {
        claims.len() == 1 && condition(&claims[0], "Ready") == "True"
    });
    let old = ready.await.unwrap().remove(0).name_any();

    lives.arm();
    ground.small_nodes(&json!({"team": "b"}), &policy).await;
    let replaced = wait::until_all(ground.claims(), Selection::all(), SOON * 4, "another claim is left", |claims| {
        assert!(claims.len() <= 2, "a node is bought twice: {claims:#?}");
        claims.len() == 1 && claims[0].name_any() != old && condition(&claims[0], "Ready") == "True"
    });
    let claims = replaced.await.unwrap();
    let gone = wait::until_all(ground.nodes(), Selection::all(), SOON, "one Node is left", |nodes| nodes.len() == 1);
    let nodes = gone.await.unwrap();
    paired(&claims, &nodes);
    assert_eq!(nodes[0].labels().get("team").map(String::as_str), Some("b"));
    assert!(nodes[0].spec.as_ref().unwrap().taints.is_none(), "{:?}", nodes[0].spec);
    ground.running(1, SOON).await;
    let points = lives.end();
    println!("killed at {} points", points.len());
    // What is on its way when another write is the end of a life may be done without passing its second point.
    for write in ["claim_meta [\"muster.dev/disruption\"]", "create_claim", "delete_claim"] {
        let point = format!("before {write}");
        assert!(points.iter().any(|one| one.starts_with(&point)), "not killed {point}: {points:#?}");
    }
    assert!(points.len() >= 40, "{points:#?}");
}
