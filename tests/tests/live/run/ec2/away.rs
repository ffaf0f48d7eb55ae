//! EC2 that is slow to take calls, or not there; and an API server that is not there.

use std::time::Duration;

use kube::api::ListParams;
use muster_tests::cluster::Options;
use muster_tests::ec2::{Calls, Record};
use muster_tests::world::PlaneLease;
use serde_json::json;

use super::ground::{CONTROLLER, Ground, SOON, paired, writes};
use crate::run::ground::define;

/// How long the API server is away.
const AWAY: Duration = Duration::from_secs(60);

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn throttling_delays_and_doubles_nothing() {
    let ground = Ground::new("run ec2 suite").await;
    let controller = ground.controller().await;
    ground.of_class("Ready", "True", "Ready").await;
    ground.ec2.faults().throttled(Calls::of("CreateFleet").by(CONTROLLER).times(8));
    ground.deploy(2, json!({})).await;
    ground.running(2, SOON * 2).await;
    let refused = [("operation", "ec2:CreateFleet"), ("result", "RequestLimitExceeded")];
    controller.counted("muster_aws_calls_total", &refused, 8.0).await;
    paired(&ground.claims().list(&ListParams::default()).await.unwrap().items, &ground.ec2);
    ground.clear().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn ec2_that_is_away_for_a_minute_costs_a_minute() {
    let ground = Ground::new("run ec2 suite").await;
    let controller = ground.controller().await;
    ground.of_class("Ready", "True", "Ready").await;
    // The first launch is done, and nobody hears of it; then there is nothing.
    let fleets = Calls::of("CreateFleet").by(CONTROLLER);
    ground.ec2.faults().cut_after(fleets.clone().times(1));
    let none = ground.ec2.faults().cut_before(fleets.after(1));
    ground.deploy(2, json!({})).await;
    let launched = ground.ec2.wait_for_calls(SOON, |calls| !calls.clone().by(CONTROLLER).of("CreateFleet").is_empty());
    launched.await.unwrap();
    let from = ground.ec2.clock().now();
    let nothing = ground.ec2.faults().cut_before(Calls::any().by(CONTROLLER));
    let message = ground.of_claim("Launched", "Unknown", "InternalError").await;
    assert!(message.contains("no answer"), "{message}");
    ground.event("NodeClaim", "LaunchFailed", "no answer").await;
    controller.counted("muster_aws_calls_total", &[("result", "no_answer")], 3.0).await;
    let minute = ground.ec2.wait_for_calls(SOON * 2, |calls| {
        let last = calls.0.last().map(|call| call.at);
        last.is_some_and(|last| last.duration_since(from) >= Duration::from_secs(60).try_into().unwrap())
    });
    minute.await.unwrap();
    ground.ec2.faults().lift(none);
    ground.ec2.faults().lift(nothing);
    ground.running(2, SOON * 2).await;
    let claims = ground.claims().list(&ListParams::default()).await.unwrap().items;
    assert_eq!(claims.len(), 2, "the same claims");
    paired(&claims, &ground.ec2);
    ground.clear().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_api_server_that_is_away_for_a_minute_costs_a_minute() {
    let lease = PlaneLease::alone(Options::default(), define).await.unwrap();
    let mut ground = Ground::on("run ec2 suite", lease).await;
    ground.furnish().await;
    let controller = ground.candidate().await;
    ground.of_class("Ready", "True", "Ready").await;
    // Two instances are launched, and there is nobody to be told of them.
    let begun = ground.ec2.clock().now();
    ground.ec2.faults().late_answer(Calls::of("CreateFleet").by(CONTROLLER).times(2), Duration::from_secs(3));
    ground.deploy(2, json!({})).await;
    let fleets = |calls: &Record| calls.clone().by(CONTROLLER).of("CreateFleet").since(begun).len();
    ground.ec2.wait_for_calls(SOON, |calls| fleets(calls) == 2).await.unwrap();
    ground.lease.plane().kill_api_server();
    let from = ground.ec2.clock().now();
    controller.counted("muster_writes_total", &[("fate", "unavailable")], 1.0).await;
    // The lease cannot be renewed: for the rest of the minute there is no leader, and nothing is done.
    controller.leads(false).await;
    let lost = ground.ec2.clock().now();
    let rest = AWAY.saturating_sub(lost.duration_since(from).unsigned_abs());
    let done = ground.ec2.wait_for_calls(rest, |calls| !writes(calls.clone().by(CONTROLLER).since(lost)).is_empty());
    assert!(done.await.is_err(), "{}", ground.ec2.calls().by(CONTROLLER).since(lost).lines());

    ground.lease.plane().revive_api_server().await.unwrap();
    controller.leads(true).await;
    ground.running(2, SOON * 2).await;
    let claims = ground.claims().list(&ListParams::default()).await.unwrap().items;
    assert_eq!(claims.len(), 2, "the same claims");
    paired(&claims, &ground.ec2);
    let ended = ground.ec2.calls().by(CONTROLLER).of("TerminateInstances");
    assert!(ended.is_empty(), "{}", ended.lines());
    ground.deploy(3, json!({})).await;
    ground.running(3, SOON).await;
    ground.clear().await;
}
