//! Time from a notice to a replacement, and cost of messages about nobody.

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use futures::{StreamExt, stream};
use jiff::Timestamp;
use kube::core::DynamicObject;
use muster_tests::ec2::Call;
use muster_tests::meter::Meter;
use muster_tests::wait::{self, Selection};
use serde_json::json;

use super::ground::{CLUSTER, CONTROLLER, Ground, SOON, condition, instance_of};
use super::queue::{QUEUE, Queue, health, spot};
use crate::run::ground::number;

/// Nodes that are taken back again and again.
const NODES: usize = 40;
/// Time from one notice to the next.
const APART: Duration = Duration::from_millis(500);
/// Longest wait on a machine that does other things.
const LONG: Duration = Duration::from_secs(1200);

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "scale: ten minutes"]
async fn a_thousand_notices_have_a_replacement_asked_for_soon() {
    let count = number("MUSTER_NOTICES", 1000);
    let ground = Ground::new("run ec2 figures").await;
    let queue = Queue::create(&ground).await;
    let replica = ground.replica_with(CONTROLLER, ground.cluster().kubeconfig(), &["--interruption-queue", QUEUE]);
    ground.deploy(NODES, json!({})).await;
    ground.running(NODES, LONG).await;

    let mut told = BTreeSet::new();
    let mut sent: Vec<Timestamp> = Vec::new();
    let mut turn = tokio::time::interval(APART);
    while sent.len() < count {
        turn.tick().await;
        // The oldest that is initialized, and whose pod moved long ago.
        let mut next = Vec::new();
        let found = wait::until_all(ground.claims(), Selection::all(), SOON, "a node is up", |claims| {
            next = claims.iter().filter(|claim| is_up(claim)).cloned().collect();
            next.iter().any(|claim| !told.contains(&instance_of(claim)))
        });
        found.await.unwrap();
        let mut ids: Vec<_> =
            next.iter().map(|claim| (claim.metadata.creation_timestamp.clone(), instance_of(claim))).collect();
        ids.sort();
        let (_, id) = ids.into_iter().find(|(_, id)| !told.contains(id)).unwrap();
        sent.push(ground.ec2.clock().now());
        queue.send(&health(&id)).await;
        told.insert(id);
    }
    let is_launch = |call: &Call| call.identity == CONTROLLER && call.action == "CreateFleet" && call.at >= sent[0];
    let enough = |calls: &[Call]| calls.iter().filter(|call| is_launch(call)).count() >= count;
    let calls = ground.ec2.wait_for_calls(LONG, |calls| enough(&calls.0)).await.unwrap();
    let asked = calls.0.iter().filter(|call| is_launch(call)).map(|call| call.at);
    // One launch for each notice, in their order.
    let mut took: Vec<f64> =
        sent.iter().zip(asked).map(|(&sent, asked)| asked.duration_since(sent).as_secs_f64()).collect();
    took.sort_by(f64::total_cmp);
    let at = |share: f64| took[((took.len() - 1) as f64 * share) as usize];
    println!(
        "{count} notices: a replacement was asked for after {:.2} s (median), {:.2} s (p99), {:.2} s at most",
        at(0.5),
        at(0.99),
        at(1.0)
    );
    ground.running(NODES, LONG).await;
    queue.empty(&ground).await;
    ground.clear().await;
    drop(replica);
}

fn is_up(claim: &DynamicObject) -> bool {
    claim.metadata.deletion_timestamp.is_none()
        && condition(claim, "Initialized").is_some_and(|it| it["status"] == "True")
        && condition(claim, "Interrupted").is_none()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "scale: its figure is that of an optimised program"]
async fn messages_about_nobody_cost_little() {
    let count = number("MUSTER_MESSAGES", 1_000);
    let ground = Ground::new("run ec2 figures").await;
    let queue = Queue::create(&ground).await;
    let replica = ground.replica_with(CONTROLLER, ground.cluster().kubeconfig(), &["--interruption-queue", QUEUE]);
    let meter = Meter::of(&replica).await.unwrap();
    let begun = Instant::now();
    // Each about another instance of the account, as a busy one has them. The emulated queue takes a second for ten.
    let bodies = (0..count).map(|number| spot(&format!("i-{number:017x}")));
    let sent = stream::iter(bodies.collect::<Vec<_>>().chunks(10).map(<[String]>::to_vec).collect::<Vec<_>>());
    sent.for_each_concurrent(4, |bodies| queue.send_together(bodies)).await;
    println!("{count} messages sent in {:.1} s", begun.elapsed().as_secs_f64());
    queue.empty_within(&ground, LONG).await;
    let taken = meter.read().unwrap();
    let rate = count as f64 / taken.cpu;
    println!(
        "{count} messages about other instances of `{CLUSTER}`'s account: {:.1} s, {:.1} CPU s, {rate:.0} a second on one core, \
         {} MiB at most",
        begun.elapsed().as_secs_f64(),
        taken.cpu,
        taken.peak
    );
    assert!(rate >= 500.0, "{rate:.0} a second on one core");
}
