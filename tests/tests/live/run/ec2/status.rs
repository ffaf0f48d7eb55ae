//! What EC2 says of an instance's status: failed checks end it at once, scheduled events once its replacement is there.

use jiff::{SignedDuration, Timestamp};
use kube::ResourceExt;
use kube::core::DynamicObject;
use muster_tests::ec2::{Calls, InstanceFault};
use muster_tests::wait::{self, Selection};
use serde_json::json;

use super::ground::{CONTROLLER, Ground, SOON, condition, instance_of};

/// Waits until this many claims are initialized and none goes.
async fn claims(ground: &Ground, count: usize) -> Vec<DynamicObject> {
    let is_ready = |one: &DynamicObject| {
        condition(one, "Initialized").is_some_and(|it| it["status"] == "True")
            && one.metadata.deletion_timestamp.is_none()
    };
    let what = format!("{count} claims are initialized");
    let found = wait::until_all(ground.claims(), Selection::all(), SOON * 2, &what, |all| {
        all.len() == count && all.iter().all(is_ready)
    });
    found.await.unwrap_or_else(|error| panic!("{error}\n{}", ground.ec2.calls().by(CONTROLLER).lines()))
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn instances_that_fail_their_checks_or_have_events_are_replaced() {
    let ground = Ground::new("run ec2 suite").await;
    ground.deploy(4, json!({})).await;
    let first = ground.controller().await;
    ground.running(4, SOON).await;
    let all = claims(&ground, 4).await;
    drop(first);

    let ago = |seconds| Timestamp::now() - SignedDuration::from_secs(seconds);
    let [own, system, event, over] = [0, 1, 2, 3].map(|number| instance_of(&all[number]));
    ground.ec2.report(&own, Some(InstanceFault::Instance(ago(130))));
    ground.ec2.report(&system, Some(InstanceFault::System(ago(130))));
    let retirement = |description: &str| {
        Some(InstanceFault::Event { code: "instance-retirement".to_owned(), description: description.to_owned() })
    };
    ground.ec2.report(&event, retirement("The instance is running on degraded hardware"));
    ground.ec2.report(&over, retirement("[Completed] The instance is running on degraded hardware"));

    // The next leader asks at once.
    let controller = ground.controller().await;
    for (reason, category) in
        [("instance_status", "InstanceStatus"), ("system_status", "SystemStatus"), ("event_status", "EventStatus")]
    {
        controller.counted("karpenter_nodeclaims_disrupted_total", &[("reason", reason)], 1.0).await;
        let metric = "karpenter_interruption_instance_status_unhealthy_total";
        controller.counted(metric, &[("category", category)], 1.0).await;
    }
    for claim in &all[..3] {
        let gone = wait::until_gone(ground.claims(), &claim.name_any(), SOON).await;
        gone.unwrap_or_else(|error| panic!("{error}\n{}", ground.ec2.calls().by(CONTROLLER).lines()));
    }
    ground.event("NodeClaim", "InstanceUnhealthy", "status check").await;
    ground.event("NodeClaim", "InstanceUnhealthy", "scheduled event").await;
    ground.running(4, SOON).await;
    let left = claims(&ground, 4).await;
    assert!(left.iter().any(|one| one.uid() == all[3].uid()), "what is over is not acted upon");
    ground.clear().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn without_the_permission_everything_else_works() {
    let ground = Ground::new("run ec2 suite").await;
    ground.ec2.faults().unauthorized(Calls::of("DescribeInstanceStatus").by(CONTROLLER));
    let controller = ground.controller().await;
    let labels = [("operation", "ec2:DescribeInstanceStatus"), ("result", "UnauthorizedOperation")];
    controller.counted("muster_aws_calls_total", &labels, 1.0).await;
    ground.deploy(1, json!({})).await;
    ground.running(1, SOON).await;
    ground.clear().await;
}
