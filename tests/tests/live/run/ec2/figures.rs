//! How many calls of AWS a thousand nodes cost.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use kube::api::ListParams;
use serde_json::json;

use super::ground::{CONTROLLER, Ground, paired};
use crate::run::ground::number;

/// How long it may take on a machine that does other things.
const LONG: Duration = Duration::from_secs(1800);

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "scale: a quarter of an hour, optimised"]
async fn a_thousand_launches() {
    let count = number("MUSTER_LAUNCHES", 1000);
    let ground = Ground::new("run ec2 figures").await;
    ground.ec2.faults().token_buckets();
    let _controller = ground.controller().await;
    ground.of_class("Ready", "True", "Ready").await;
    let before = ground.ec2.calls().0.len();
    let begun = Instant::now();
    ground.deploy(count, json!({})).await;
    ground.running(count, LONG).await;
    let took = begun.elapsed();
    let claims = ground.claims().list(&ListParams::default()).await.unwrap().items;
    paired(&claims, &ground.ec2);
    let mut by_action: BTreeMap<(String, bool), usize> = BTreeMap::new();
    for call in ground.ec2.calls().0.iter().skip(before).filter(|call| call.identity == CONTROLLER) {
        let is_good = call.status.is_some_and(|status| status < 400);
        *by_action.entry((call.action.clone(), is_good)).or_default() += 1;
    }
    println!("{} nodes for {count} pods after {:.0} s", claims.len(), took.as_secs_f64());
    for ((action, is_good), count) in by_action {
        println!("{count:6} {action}{}", if is_good { "" } else { " (refused)" });
    }
}
