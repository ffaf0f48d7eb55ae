//! The controller is killed before and after each of its writes, to the API server and to AWS; the end is the same.
//!
//! ```text
//!   life 1: up to a write that nobody was killed at yet ──► killed ──► life 2: … ──► until no such write is left
//! ```
//!
//! The points are those that writes pass, so a write that is added is covered by itself.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};

use kube::api::ListParams;
use muster_aws::live::{self, Ended};
use muster_controller::ec2;
use muster_controller::edge::{self, Fate};
use muster_controller::run::{Observers, run_in};
use muster_stages::step::Write;
use serde_json::json;
use tokio::sync::Notify;
use tokio::task::JoinHandle;

use super::controller::run_options;
use super::ground::{CLUSTER, Ground, SOON, paired, reads};

/// Where a controller is killed: at each point once, in whichever life.
#[derive(Default)]
struct Points(Mutex<BTreeSet<String>>);

/// One life. What goes on after its end, such as a call that a task of its own makes, waits forever.
struct Life {
    points: Arc<Points>,
    is_over: AtomicBool,
    over: Notify,
}

/// A moment to wait for, boxed.
type Pause<'a> = edge::Pause<'a>;

impl Life {
    fn pass(&self, point: String) -> Pause<'_> {
        if !self.is_over.load(Ordering::SeqCst) && self.points.0.lock().unwrap().insert(point) {
            self.is_over.store(true, Ordering::SeqCst);
            self.over.notify_one();
        }
        if self.is_over.load(Ordering::SeqCst) {
            Box::pin(std::future::pending())
        } else {
            Box::pin(std::future::ready(()))
        }
    }
}

impl edge::WriteObserver for Life {
    fn before<'a>(&'a self, write: &'a Write) -> Pause<'a> {
        self.pass(format!("before {}", told(write)))
    }

    fn after<'a>(&'a self, write: &'a Write, _: &'a Fate) -> Pause<'a> {
        self.pass(format!("after {}", told(write)))
    }
}

impl live::CallObserver for Life {
    fn before<'a>(&'a self, operation: &'static str) -> live::Pause<'a> {
        if only_reads(operation) { Box::pin(std::future::ready(())) } else { self.pass(format!("before {operation}")) }
    }

    fn after<'a>(&'a self, operation: &'static str, _: Ended<'a>) -> live::Pause<'a> {
        if only_reads(operation) { Box::pin(std::future::ready(())) } else { self.pass(format!("after {operation}")) }
    }
}

/// Whether a call of AWS, as `ec2:DescribeInstances`, changes nothing.
fn only_reads(operation: &str) -> bool {
    reads(operation.split_once(':').unwrap().1)
}

/// A write without what differs from life to life: times, and names that are drawn.
fn told(write: &Write) -> String {
    let detail = match write {
        Write::ClaimMeta { change, .. } | Write::ClassMeta(change) => {
            let keys: Vec<&String> = change.annotations.keys().chain(change.labels.keys()).collect();
            format!("{keys:?} {:?}", change.finalizers)
        }
        Write::ClaimStatus { status, .. } => {
            status.conditions.iter().map(|one| format!("{}={} ", one.type_, one.status)).collect()
        }
        Write::ClassStatus(status) => {
            let conditions = status["conditions"].as_array();
            conditions.into_iter().flatten().map(|one| format!("{}={} ", one["type"], one["status"])).collect()
        }
        _ => String::new(),
    };
    format!("{} {detail}", write.name())
}

/// A controller that is started again as often as it is killed.
struct Lives {
    task: JoinHandle<()>,
    points: Arc<Points>,
}

impl Lives {
    fn begin(ground: &Arc<Ground>) -> Self {
        let points = Arc::new(Points::default());
        let (ground, own) = (Arc::clone(ground), Arc::clone(&points));
        let task = tokio::spawn(async move {
            loop {
                let life =
                    Arc::new(Life { points: Arc::clone(&own), is_over: AtomicBool::new(false), over: Notify::new() });
                let of_calls: Arc<dyn live::CallObserver> = Arc::clone(&life) as Arc<dyn live::CallObserver>;
                let writes: Arc<dyn edge::WriteObserver> = Arc::clone(&life) as Arc<dyn edge::WriteObserver>;
                let observers = Observers { writes: Some(writes), recorder: None };
                let provider = ground.provider(ec2::Options::of(CLUSTER), Some(of_calls)).await;
                let run = run_in(ground.kube(), provider, run_options(0), observers, std::future::pending());
                tokio::select! {
                    ended = run => ended.unwrap(),
                    () = life.over.notified() => {}
                }
            }
        });
        Self { task, points }
    }

    /// Of these calls, the sides of which nobody was killed at yet.
    fn missing(&self, operations: &[&str]) -> Vec<String> {
        let points = self.points.0.lock().unwrap();
        let sides = operations.iter().flat_map(|one| [format!("before {one}"), format!("after {one}")]);
        sides.filter(|side| !points.contains(side)).collect()
    }

    fn end(self) {
        self.task.abort();
    }
}

/// What a claim's way needs of AWS, there and back.
const CALLS: [&str; 10] = [
    "iam:CreateInstanceProfile",
    "iam:AddRoleToInstanceProfile",
    "ec2:CreateLaunchTemplate",
    "ec2:CreateFleet",
    "ec2:RunInstances",
    "ec2:CreateTags",
    "ec2:TerminateInstances",
    "ec2:DeleteLaunchTemplate",
    "iam:RemoveRoleFromInstanceProfile",
    "iam:DeleteInstanceProfile",
];

/// A call that is under way when the controller dies at another one is carried out all the same, and its own end is not
/// passed: what is made once is then made by nobody until everything is gone, and begun again.
const ROUNDS: usize = 8;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nothing_is_leaked_or_doubled_wherever_the_controller_is_killed() {
    let ground = Arc::new(Ground::bare("run ec2 suite").await);
    let lives = Lives::begin(&ground);
    for round in 1..=ROUNDS {
        ground.furnish().await;
        ground.deploy(3, json!({})).await;
        ground.running(3, SOON * 4).await;
        let claims = ground.claims().list(&ListParams::default()).await.unwrap().items;
        assert_eq!(claims.len(), 3, "nothing was bought twice");
        paired(&claims, &ground.ec2);
        ground.clear().await;
        let missing = lives.missing(&CALLS);
        println!("round {round}: killed at {} points; not at {missing:?}", lives.points.0.lock().unwrap().len());
        if missing.is_empty() {
            return lives.end();
        }
    }
    panic!("never killed at {:?}; killed at {:#?}", lives.missing(&CALLS), lives.points.0.lock().unwrap());
}
