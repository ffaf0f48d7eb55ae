//! Zonal shifts: nothing is launched in a zone that traffic is shifted away from, whatever becomes of ARC. Nodes there
//! stay, or leave within their budget if their NodePool asks for it.

use std::time::Duration;

use jiff::Timestamp;
use k8s_openapi::api::core::v1::Node;
use kube::ResourceExt;
use muster_aws::live::Connection;
use muster_controller::ec2::{self, Ec2 as Provider, StartError};
use muster_stages::disruption::Timing;
use muster_tests::ec2::{Calls, Record};
use muster_tests::wait::{self, Selection};
use serde_json::{Value, json};

use super::super::disruption::{is_leaving, is_up};
use super::controller::Controller;
use super::drift::{no_pod_was_unplaced, pool_with, rolled};
use super::ground::{CLUSTER, CONTROLLER, Ground, SOON};

const A: &str = "us-east-1a";
const B: &str = "us-east-1b";
const HOUR: Duration = Duration::from_secs(3600);
const SECOND: Duration = Duration::from_secs(1);

/// Options of a controller that heeds zonal shifts, and asks for them every second.
fn heeding() -> ec2::Options {
    ec2::Options { zonal_shifts_every: Some(SECOND), look_up_every: SECOND, ..ec2::Options::of(CLUSTER) }
}

impl Ground {
    /// Its cluster is registered with ARC.
    async fn registered() -> Self {
        let ground = Self::bare("run ec2 suite").await;
        ground.ec2.zonal_shifts().register(CLUSTER);
        ground
    }

    async fn heeding_controller(&self) -> Controller {
        let timing = Timing { every: SECOND, validation: SECOND * 2, ..Timing::default() };
        self.controller_as(heeding(), |options| muster_controller::run::Options { timing, ..options }).await
    }

    /// The ID of a zone.
    async fn id_of(&self, zone: &str) -> String {
        let found = self.client.describe_subnets().subnet_ids(&self.subnets[zone]).send().await.unwrap();
        found.subnets()[0].availability_zone_id().unwrap().to_owned()
    }

    fn zones(&self) -> Vec<String> {
        let mut zones: Vec<String> = self.ec2.running().iter().map(|one| one.zone.clone()).collect();
        zones.sort();
        zones
    }
}

/// Only in this zone.
fn only_in(zone: &str) -> Value {
    json!({"nodeSelector": {"topology.kubernetes.io/zone": zone}})
}

async fn is_shifted(controller: &Controller, zone: &str) {
    controller.counted("muster_zone_shifted_away", &[("zone_id", zone)], 1.0).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn pods_go_to_other_zones_until_the_shift_is_cancelled() {
    let ground = Ground::registered().await;
    ground.furnish().await;
    let zone = ground.id_of(A).await;
    ground.ec2.zonal_shifts().start(&zone, HOUR);
    let controller = ground.heeding_controller().await;
    is_shifted(&controller, &zone).await;
    let active = ground.event("NodePool", "ZonalShiftActive", &zone).await;
    assert!(active.starts_with(&format!("zone `{A}` ({zone}) is shifted away until ")), "{active}");
    ground.deploy(3, json!({})).await;
    ground.running(3, SOON).await;
    assert_eq!(ground.zones(), [B; 3]);

    // A pod that may run nowhere else waits, and says why.
    ground.deploy(1, only_in(A)).await;
    let waits = ground.event("Pod", "FailedScheduling", "is shifted away until").await;
    assert!(waits.contains(&format!("zone `{A}` ({zone}) is shifted away until ")), "{waits}");
    let fleets = ground.ec2.calls().by(CONTROLLER).of("CreateFleet");
    assert!(!asks_for(&fleets, &ground.subnets[A]), "{}", fleets.json_lines());

    ground.ec2.zonal_shifts().cancel(&zone);
    ground.running(1, SOON).await;
    assert!(ground.zones().contains(&A.to_owned()), "{:?}", ground.zones());
    ground.event("NodePool", "ZonalShiftCleared", &zone).await;
    controller.counted("muster_aws_calls_total", &[("operation", "arc-zonal-shift:GetManagedResource")], 2.0).await;
    ground.clear().await;
}

/// Returns true if one of the fleets that were really asked for may be in this subnet.
fn asks_for(fleets: &Record, subnet: &str) -> bool {
    fleets.clone().only(|call| call.parameter("DryRun") != Some("true")).json_lines().contains(subnet)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_shift_is_over_at_its_end_though_arc_does_not_answer() {
    let ground = Ground::registered().await;
    ground.furnish().await;
    let zone = ground.id_of(A).await;
    let controller = ground.heeding_controller().await;
    ground.pool_is_ready().await;
    // Long enough for what comes before its end, also on a busy machine.
    let lasts = Duration::from_secs(45);
    let end = Timestamp::now() + lasts;
    ground.ec2.zonal_shifts().start(&zone, lasts);
    is_shifted(&controller, &zone).await;
    // From now on nothing can be heard of it, neither that it ends.
    let asked = Calls::of("GetManagedResource").by(CONTROLLER);
    ground.ec2.faults().error(asked, 500, "InternalServerException", "no answer today");
    ground.deploy(1, only_in(A)).await;
    ground.event("Pod", "FailedScheduling", "is shifted away until").await;
    let failed = [("operation", "arc-zonal-shift:GetManagedResource"), ("result", "InternalServerException")];
    controller.counted("muster_aws_calls_total", &failed, 1.0).await;

    ground.running(1, SOON).await;
    assert_eq!(ground.zones(), [A]);
    let fleets = ground.ec2.calls().by(CONTROLLER).of("CreateFleet");
    let early = fleets.only(|call| call.at < end && call.parameter("DryRun") != Some("true"));
    assert!(early.is_empty(), "{}", early.json_lines());
    ground.event("NodePool", "ZonalShiftCleared", &zone).await;
    ground.ec2.faults().lift_all();
    ground.clear().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_shift_that_begins_between_decision_and_launch_is_heeded() {
    let ground = Ground::registered().await;
    ground.furnish().await;
    let zone = ground.id_of(A).await;
    // Without trial launches, the first template is made for the launch.
    let options = ec2::Options { tries_launches: false, ..heeding() };
    let controller = ground.controller_with(options, None).await;
    ground.pool_is_ready().await;
    let templates = Calls::of("CreateLaunchTemplate").by(CONTROLLER);
    ground.ec2.faults().latency(templates, Duration::from_secs(15));
    ground.deploy(1, json!({})).await;
    let is_asked = |calls: &Record| !calls.clone().of("CreateLaunchTemplate").is_empty();
    ground.ec2.wait_for_calls(SOON, is_asked).await.unwrap_or_else(|lines| panic!("{lines}"));
    ground.ec2.zonal_shifts().start(&zone, HOUR);
    is_shifted(&controller, &zone).await;
    assert!(ground.ec2.calls().of("CreateFleet").is_empty(), "the shift came too late for this test");
    ground.running(1, SOON).await;
    assert_eq!(ground.zones(), [B]);
    let fleets = ground.ec2.calls().by(CONTROLLER).of("CreateFleet");
    assert!(!asks_for(&fleets, &ground.subnets[A]), "{}", fleets.json_lines());
    ground.ec2.faults().lift_all();
    ground.clear().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nodes_stay_in_their_zone_unless_their_pool_asks_that_they_leave() {
    let ground = Ground::registered().await;
    let (of_a, of_b) = (ground.id_of(A).await, ground.id_of(B).await);
    ground.apply(&[ground.class(json!({})), pool_with(&json!({}), 1)]).await;
    // Everything is in the first zone.
    ground.ec2.zonal_shifts().start(&of_b, HOUR);
    let controller = ground.heeding_controller().await;
    is_shifted(&controller, &of_b).await;
    ground.pool_is_ready().await;
    ground.deploy(3, json!({})).await;
    ground.running(3, SOON).await;
    let up = |nodes: &[Node]| nodes.len() == 3 && nodes.iter().all(is_up);
    wait::until_all(ground.nodes(), Selection::all(), SOON, "all nodes are up", up).await.unwrap();
    assert_eq!(ground.zones(), [A; 3]);

    ground.ec2.zonal_shifts().cancel(&of_b);
    ground.ec2.zonal_shifts().start(&of_a, HOUR);
    is_shifted(&controller, &of_a).await;
    let blocked = ground.event("Node", "DisruptionBlocked", "is shifted away until").await;
    assert!(blocked.ends_with("NodePool `general` does not ask that its nodes leave the zone"), "{blocked}");
    let stay = |nodes: &[Node]| nodes.len() == 3 && !nodes.iter().any(is_leaving);
    wait::stays(ground.nodes(), Selection::all(), SOON / 12, "no node leaves", stay).await.unwrap();

    let annotate = ["annotate", "nodepool", "general", "muster.dev/zonal-shift=drain"];
    let (rolled, annotated) = tokio::join!(rolled(&ground, 3), ground.cluster().kubectl(&annotate));
    annotated.unwrap();
    assert!(rolled.least >= 3, "replacements first: {} nodes took pods", rolled.least);
    assert!(rolled.most <= 1, "{} nodes were leaving at once", rolled.most);
    ground.running(3, SOON).await;
    no_pod_was_unplaced(&ground).await;
    let gone = wait::until_some("all instances are in the other zone", SOON, || async {
        Ok((ground.zones() == [B; 3]).then_some(()))
    });
    gone.await.unwrap();
    let drifted = [("reason", "drifted"), ("nodepool", "general")];
    controller.counted("karpenter_nodeclaims_disrupted_total", &drifted, 3.0).await;
    ground.clear().await;
}

/// Returns the error of a provider that does not start.
async fn refusal(ground: &Ground) -> Option<StartError> {
    let aws = Connection::new(&ground.ec2.sdk_config(CONTROLLER)).unwrap();
    Provider::connect_through(aws, ground.kube(), heeding(), None).await.err()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_cluster_without_arc_and_a_role_without_the_right_end_the_program_and_an_outage_does_not() {
    let ground = Ground::bare("run ec2 suite").await;
    let error = refusal(&ground).await.unwrap();
    assert!(error.is_usage());
    insta::assert_snapshot!(error, @r"
    `--enable-zonal-shift`: the cluster `shop` is not registered with the Application Recovery Controller (ARC)

    hint: `aws eks update-cluster-config --name shop --zonal-shift-config enabled=true`, or leave `--enable-zonal-shift` and ENABLE_ZONAL_SHIFT out
    ");
    ground.ec2.zonal_shifts().register(CLUSTER);
    let asked = || Calls::of("GetManagedResource").by(CONTROLLER);
    let rule = ground.ec2.faults().unauthorized(asked());
    let error = refusal(&ground).await.unwrap();
    assert!(!error.is_usage());
    let text = error.to_string();
    assert!(
        text.starts_with("`--enable-zonal-shift`: the zonal shifts of the cluster `shop` cannot be read: "),
        "{text}"
    );
    assert!(text.ends_with("hint: allow arc-zonal-shift:GetManagedResource (`muster iam-policy`)"), "{text}");
    ground.ec2.faults().lift(rule);
    // Slower than the wait at start, and not at all.
    let rule = ground.ec2.faults().latency(asked(), Duration::from_secs(20));
    assert_eq!(refusal(&ground).await, None);
    ground.ec2.faults().lift(rule);
    let rule = ground.ec2.faults().cut_before(asked());
    assert_eq!(refusal(&ground).await, None);
    ground.ec2.faults().lift(rule);
    assert_eq!(refusal(&ground).await, None);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_program_heeds_shifts_and_a_new_leader_knows_them() {
    let ground = Ground::registered().await;
    ground.furnish().await;
    let zone = ground.id_of(A).await;
    ground.ec2.zonal_shifts().start(&zone, HOUR);
    let kubeconfig = ground.cluster().kubeconfig().to_owned();
    let first = ground.replica_with("first", &kubeconfig, &["--enable-zonal-shift"]);
    ground.deploy(1, json!({})).await;
    ground.running(1, SOON).await;
    drop(first);
    ground.deploy(2, json!({})).await;
    let second = ground.replica_with("second", &kubeconfig, &["--enable-zonal-shift"]);
    ground.running(2, SOON).await;
    assert_eq!(ground.zones(), [B; 2]);
    assert!(second.said().contains("traffic is shifted away from a zone: nothing is launched there"));
    let names: Vec<String> =
        ground.claims().list(&Default::default()).await.unwrap().iter().map(ResourceExt::name_any).collect();
    assert_eq!(names.len(), 2, "{names:?}");
    ground.clear().await;
}
