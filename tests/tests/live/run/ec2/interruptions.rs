//! The interruption queue: each kind of message has its reaction, once, whatever becomes of queue and controller.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use jiff::Timestamp;
use k8s_openapi::api::coordination::v1::{Lease, LeaseSpec};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::MicroTime;
use kube::api::{ListParams, Patch, PatchParams, PostParams};
use kube::core::DynamicObject;
use kube::{Api, ResourceExt};
use muster_aws::live::{CallObserver, Ended, Pause};
use muster_controller::run::{Observers, run_in};
use muster_tests::ec2::{Calls, Record};
use muster_tests::programs;
use muster_tests::wait::{self, Selection};
use serde_json::json;
use tokio::sync::Notify;
use tokio::task::JoinSet;

use super::controller::{Controller, LEASE, listening, run_options};
use super::ground::{CLUSTER, CONTROLLER, Ground, SOON, condition, instance_of, launches, paired, pool, requirements};
use super::queue::{QUEUE, Queue, event, health, rebalance, reservation, spot, state, template};

/// A cluster whose pool takes spot in two zones, with a queue.
async fn listening_ground() -> Ground {
    let ground = Ground::bare("run ec2 suite").await;
    let fields =
        json!({"requirements": requirements(&["m5.large", "m5a.large"], &["us-east-1a", "us-east-1b"], &["spot"])});
    ground.apply(&[ground.class(json!({})), pool(&fields)]).await;
    ground
}

/// The only claim, once its node is initialized.
async fn only_claim(ground: &Ground) -> DynamicObject {
    let is_ready = |one: &DynamicObject| {
        condition(one, "Initialized").is_some_and(|it| it["status"] == "True")
            && one.metadata.deletion_timestamp.is_none()
    };
    let found =
        wait::until_all(ground.claims(), Selection::all(), SOON, "one claim is there, and initialized", |all| {
            all.len() == 1 && all.iter().all(is_ready)
        });
    let found = found.await.unwrap_or_else(|error| panic!("{error}\n{}", ground.ec2.calls().by(CONTROLLER).lines()));
    found.into_iter().next().unwrap()
}

/// Waits until the claim has gone and its pod runs elsewhere; the claim there.
async fn replaced(ground: &Ground, claim: &DynamicObject) -> DynamicObject {
    let gone = wait::until_gone(ground.claims(), &claim.name_any(), SOON).await;
    gone.unwrap_or_else(|error| panic!("{error}\n{}", ground.ec2.calls().by(CONTROLLER).lines()));
    ground.running(1, SOON).await;
    let next = only_claim(ground).await;
    assert_ne!(next.uid(), claim.uid());
    next
}

/// What a claim was launched as.
fn launched_as(claim: &DynamicObject) -> (String, String) {
    let label = |key: &str| claim.labels()[key].clone();
    (label("node.kubernetes.io/instance-type"), label("topology.kubernetes.io/zone"))
}

#[tokio::test]
async fn the_template_in_the_documentation_is_valid() {
    let file = tempfile::Builder::new().suffix(".yaml").tempfile().unwrap();
    std::fs::write(file.path(), template()).unwrap();
    let lint =
        tokio::process::Command::new(programs::path("cfn-lint").unwrap()).arg(file.path()).output().await.unwrap();
    let found = [lint.stdout, lint.stderr].concat();
    assert!(lint.status.success(), "{}", String::from_utf8_lossy(&found));
}

/// Waits until a claim was disrupted for this reason.
async fn disrupted(controller: &Controller, reason: &str, count: f64) {
    controller.counted("karpenter_nodeclaims_disrupted_total", &[("reason", reason)], count).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn each_kind_of_message_has_its_reaction_once() {
    let ground = listening_ground().await;
    let queue = Queue::deploy(&ground).await;
    let controller = ground.listening_controller(CLUSTER).await;
    ground.deploy(1, json!({})).await;
    ground.running(1, SOON).await;
    let mut claim = only_claim(&ground).await;

    // Through EventBridge, and once more.
    let instance = instance_of(&claim);
    ground.ec2.warn_of_interruption(&instance).await.unwrap();
    queue.send(&spot(&instance)).await;
    ground.event("NodeClaim", "SpotInterrupted", "").await;
    ground.event("Node", "SpotInterrupted", "").await;
    let next = replaced(&ground, &claim).await;
    ground.event("NodeClaim", "TerminatingOnInterruption", "").await;
    assert_ne!(launched_as(&next), launched_as(&claim), "what was taken back is avoided");
    disrupted(&controller, "spot_interrupted", 1.0).await;
    claim = next;

    for (body, reason, about) in [
        (health as fn(&str) -> String, "scheduled_change", "InstanceUnhealthy"),
        (|id| state(id, "stopping"), "instance_stopped", "InstanceStopping"),
        (|id| state(id, "shutting-down"), "instance_terminated", "InstanceTerminating"),
        (reservation, "capacity_reservation_interrupted", "CapacityReservationInstanceInterrupted"),
    ] {
        let instance = instance_of(&claim);
        queue.send(&body(&instance)).await;
        queue.send(&body(&instance)).await;
        claim = replaced(&ground, &claim).await;
        ground.event("NodeClaim", about, "").await;
        disrupted(&controller, reason, 1.0).await;
        let received = [("message_type", reason)];
        controller.counted("karpenter_interruption_received_messages_total", &received, 2.0).await;
    }

    // Only said.
    ground.ec2.recommend_rebalance(&instance_of(&claim)).await.unwrap();
    ground.event("NodeClaim", "SpotRebalanceRecommendation", "").await;
    queue.empty(&ground).await;
    let left = only_claim(&ground).await;
    assert_eq!(left.uid(), claim.uid());
    assert!(condition(&left, "Interrupted").is_none(), "{left:?}");
    controller.counted("karpenter_interruption_message_queue_duration_seconds_count", &[], 11.0).await;
    // Six claims: the first, and one for each message that ended one. Nothing was bought twice, although EventBridge
    // has told of each instance that the controller itself has terminated.
    assert_eq!(launches(&ground), 6);
    paired(&[left], &ground.ec2);
    ground.clear().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_concerns_nobody_is_deleted_and_changes_nothing() {
    let ground = listening_ground().await;
    let queue = Queue::create(&ground).await;
    let controller = ground.listening_controller(QUEUE).await;
    ground.deploy(1, json!({})).await;
    ground.running(1, SOON).await;
    let claim = only_claim(&ground).await;
    let instance = instance_of(&claim);

    let one = json!({"instance-id": instance});
    let deep = format!("{{\"detail\": {}", "[".repeat(10_000));
    let bodies = [
        // Of other instances, as those that nobody here launched.
        spot("i-0123456789abcdef0"),
        state("i-0123456789abcdef0", "terminated"),
        // Of other kinds, services and states.
        event("aws.s3", "EC2 Spot Instance Interruption Warning", &one),
        event("aws.ec2", "EC2 Fleet Error", &one),
        event("aws.health", "AWS Health Event", &json!({"service": "RDS", "eventTypeCategory": "scheduledChange"})),
        state(&instance, "running"),
        // Malformed.
        "not an event".to_owned(),
        "[]".to_owned(),
        deep,
        event("aws.ec2", "EC2 Spot Instance Interruption Warning", &json!({})),
        spot(&instance).replace(&instance, "i-1' or '1'='1"),
    ];
    for body in &bodies {
        queue.send(body).await;
    }
    controller.counted("karpenter_interruption_deleted_messages_total", &[], bodies.len() as f64).await;
    controller.counted("karpenter_interruption_received_messages_total", &[("message_type", "no_op")], 4.0).await;
    queue.empty(&ground).await;
    let left = only_claim(&ground).await;
    assert_eq!(left.uid(), claim.uid());
    assert!(condition(&left, "Interrupted").is_none(), "{left:?}");
    // It still listens.
    queue.send(&rebalance(&instance)).await;
    ground.event("NodeClaim", "SpotRebalanceRecommendation", "").await;
    ground.clear().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_queue_that_comes_late_and_goes_for_a_while_loses_nothing() {
    let ground = listening_ground().await;
    let controller = ground.listening_controller(QUEUE).await;
    ground.deploy(1, json!({})).await;
    ground.running(1, SOON).await;
    let claim = only_claim(&ground).await;
    let queue = Queue::create(&ground).await;
    queue.send(&spot(&instance_of(&claim))).await;
    let claim = replaced(&ground, &claim).await;
    queue.empty(&ground).await;

    // It is asked again and again, at growing intervals, and meanwhile a message comes.
    let away = ground.ec2.faults().cut_before(Calls::any().service("sqs").by(CONTROLLER));
    let before = received(&ground.ec2.calls());
    // The call that was on its way has ended.
    ground.ec2.wait_for_calls(SOON, |calls| received(calls) > before).await.unwrap();
    queue.send(&spot(&instance_of(&claim))).await;
    ground.ec2.wait_for_calls(SOON, |calls| received(calls) >= before + 12).await.unwrap();
    assert_eq!(only_claim(&ground).await.uid(), claim.uid());
    ground.ec2.faults().lift(away);
    replaced(&ground, &claim).await;
    queue.empty(&ground).await;
    disrupted(&controller, "spot_interrupted", 2.0).await;
    ground.clear().await;
}

/// How often the controller has asked for messages.
fn received(calls: &Record) -> usize {
    calls.clone().by(CONTROLLER).of("ReceiveMessage").len()
}

/// Stops a controller at its next call of an operation, before or after it: as if it were killed there.
struct Killer {
    operation: &'static str,
    is_before: bool,
    is_armed: AtomicBool,
    reached: Notify,
}

impl Killer {
    fn pass(&self, operation: &str, is_before: bool) -> Pause<'_> {
        let is_here = operation == self.operation && is_before == self.is_before;
        if is_here && self.is_armed.load(Ordering::SeqCst) {
            self.reached.notify_one();
            return Box::pin(std::future::pending());
        }
        Box::pin(std::future::ready(()))
    }
}

impl CallObserver for Killer {
    fn before<'a>(&'a self, operation: &'static str) -> Pause<'a> {
        self.pass(operation, true)
    }

    fn after<'a>(&'a self, operation: &'static str, _: Ended<'a>) -> Pause<'a> {
        self.pass(operation, false)
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_controller_killed_between_receive_and_delete_loses_and_doubles_nothing() {
    let ground = listening_ground().await;
    let queue = Queue::create(&ground).await;
    ground.deploy(1, json!({})).await;
    let mut expected = 1;
    for (operation, is_before) in
        [("sqs:ReceiveMessage", false), ("sqs:DeleteMessage", true), ("sqs:DeleteMessage", false)]
    {
        let (is_armed, reached) = (AtomicBool::new(false), Notify::new());
        let killer = Arc::new(Killer { operation, is_before, is_armed, reached });
        let of_calls: Arc<dyn CallObserver> = Arc::clone(&killer) as Arc<dyn CallObserver>;
        let provider = ground.provider(listening(QUEUE), Some(of_calls)).await;
        let mut task = JoinSet::new();
        let client = ground.kube();
        task.spawn(async move {
            run_in(client, provider, run_options(0), Observers::default(), std::future::pending()).await.unwrap();
        });
        ground.running(1, SOON).await;
        let claim = only_claim(&ground).await;
        killer.is_armed.store(true, Ordering::SeqCst);
        queue.send(&spot(&instance_of(&claim))).await;
        tokio::time::timeout(SOON, killer.reached.notified()).await.unwrap();
        drop(task);

        let _next = ground.listening_controller(QUEUE).await;
        replaced(&ground, &claim).await;
        queue.empty(&ground).await;
        expected += 1;
        let claims = ground.claims().list(&ListParams::default()).await.unwrap().items;
        paired(&claims, &ground.ec2);
        let lines = ground.ec2.calls().by(CONTROLLER).lines();
        assert_eq!(launches(&ground), expected, "killed at {operation}: {lines}");
    }
    let _last = ground.listening_controller(QUEUE).await;
    ground.clear().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_replica_that_does_not_lead_receives_and_the_leader_acts() {
    let ground = listening_ground().await;
    let queue = Queue::create(&ground).await;
    // Deaf: without a queue.
    let leader = ground.candidate().await;
    leader.leads(true).await;
    let follower = ground.controller_with(listening(QUEUE), Some(LEASE)).await;
    ground.deploy(1, json!({})).await;
    ground.running(1, SOON).await;
    let claim = only_claim(&ground).await;
    queue.send(&spot(&instance_of(&claim))).await;
    replaced(&ground, &claim).await;
    let received = [("message_type", "spot_interrupted")];
    follower.counted("karpenter_interruption_received_messages_total", &received, 1.0).await;
    follower.leads(false).await;
    disrupted(&leader, "spot_interrupted", 1.0).await;
    queue.empty(&ground).await;
    ground.clear().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn notices_are_left_to_karpenter_while_it_holds_the_lease() {
    let ground = listening_ground().await;
    let queue = Queue::create(&ground).await;
    let leases: Api<Lease> = Api::namespaced(ground.kube(), "kube-system");
    let mut held = Lease::default();
    held.metadata.name = Some(LEASE.to_owned());
    held.spec = Some(LeaseSpec {
        holder_identity: Some("karpenter-7d9_1".to_owned()),
        lease_duration_seconds: Some(3600),
        renew_time: Some(MicroTime(Timestamp::now())),
        ..LeaseSpec::default()
    });
    leases.create(&PostParams::default(), &held).await.unwrap();
    queue.send(&event("aws.ec2", "EC2 Fleet Error", &json!({}))).await;
    let controller = ground.controller_with(listening(QUEUE), Some(LEASE)).await;
    // It has looked at the Lease, and at the cluster.
    controller.counted("karpenter_cluster_state_synced", &[], 1.0).await;
    controller.leads(false).await;

    // Karpenter leaves. Nobody has taken its message.
    assert!(ground.ec2.calls().by(CONTROLLER).of("ReceiveMessage").is_empty());
    let release = Patch::Merge(json!({"spec": {"holderIdentity": "", "leaseDurationSeconds": 1}}));
    leases.patch(LEASE, &PatchParams::default(), &release).await.unwrap();
    controller.leads(true).await;
    queue.empty(&ground).await;
    controller.counted("karpenter_interruption_received_messages_total", &[("message_type", "no_op")], 1.0).await;
}
