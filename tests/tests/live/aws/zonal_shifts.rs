//! Zonal shifts as ARC tells of them: which count, for how long, and that nothing is launched there.

use std::time::Duration;

use muster_aws::permissions::{Feature, Scope, needed};
use muster_cloud::{Cloud, CloudError, Refusal, ShiftEnd};
use muster_tests::ec2::{Calls, Pool};

use crate::aws::fixture::{CONTROLLER, World, offering, request};

const A: &str = "m5.large/us-east-1a";
const B: &str = "m5.large/us-east-1b";
const HOUR: Duration = Duration::from_secs(3600);

/// The ID of the zone us-east-1a.
async fn zone_of_a(world: &World) -> String {
    let found = world.client.describe_subnets().subnet_ids(&world.subnets["us-east-1a"]).send().await.unwrap();
    found.subnets()[0].availability_zone_id().unwrap().to_owned()
}

/// The zones that nothing is launched in now.
fn shifted(world: &World) -> Vec<String> {
    world.cloud.shifted_zones().iter().map(ToString::to_string).collect()
}

#[tokio::test]
async fn what_arc_says_counts_until_it_says_otherwise_or_the_shift_is_over() {
    let world = World::start().await;
    let arn = world.ec2.zonal_shifts().register("shop");
    let refresh = async || world.cloud.refresh_zonal_shifts(&arn).await;
    refresh().await.unwrap();
    assert_eq!(shifted(&world), [""; 0]);
    world.ec2.zonal_shifts().start("use1-az6", HOUR);
    refresh().await.unwrap();
    assert_eq!(shifted(&world), ["use1-az6"]);
    // Another one is in effect.
    world.ec2.zonal_shifts().start("use1-az1", HOUR);
    refresh().await.unwrap();
    assert_eq!(shifted(&world), ["use1-az1"]);
    world.ec2.zonal_shifts().cancel("use1-az1");
    refresh().await.unwrap();
    assert_eq!(shifted(&world), ["use1-az6"]);

    // Whatever goes wrong, what is known stays.
    for garbage in ["", "{}", "{\"zonalShifts\":", "[]", "null", "{\"arn\":\"arn:aws:eks:x:1:cluster/other\"}"] {
        world.ec2.zonal_shifts().say(Some(garbage));
        let error = refresh().await.unwrap_err();
        assert!(matches!(error, CloudError::Transient { .. }), "{garbage}: {error}");
        assert_eq!(shifted(&world), ["use1-az6"], "{garbage}");
    }
    world.ec2.zonal_shifts().say(None);
    let faults = world.ec2.faults();
    let asked = || Calls::of("GetManagedResource").by(CONTROLLER);
    let rule = faults.error(asked(), 500, "InternalServerException", "no");
    assert!(matches!(refresh().await.unwrap_err(), CloudError::Transient { .. }));
    faults.lift(rule);
    let rule = faults.throttled(asked());
    assert!(matches!(refresh().await.unwrap_err(), CloudError::Throttled { .. }));
    faults.lift(rule);
    let rule = faults.cut_after(asked());
    assert!(matches!(refresh().await.unwrap_err(), CloudError::Transient { .. }));
    faults.lift(rule);
    let rule = faults.unauthorized(asked());
    let error = refresh().await.unwrap_err();
    assert!(
        matches!(&error, CloudError::Unauthorized { action, .. } if action == "arc-zonal-shift:GetManagedResource")
    );
    assert_eq!(shifted(&world), ["use1-az6"]);
    // It ends by itself while nothing is heard.
    world.advance(HOUR);
    assert_eq!(shifted(&world), [""; 0]);
    faults.lift(rule);

    world.ec2.zonal_shifts().deregister("shop");
    assert!(refresh().await.unwrap_err().is_not_found());
}

#[tokio::test]
async fn an_autoshift_counts_for_an_hour_after_it_was_last_heard_of() {
    let world = World::start().await;
    let arn = world.ec2.zonal_shifts().register("shop");
    world.ec2.zonal_shifts().autoshift("use1-az6", true);
    world.cloud.refresh_zonal_shifts(&arn).await.unwrap();
    let end = world.cloud.zonal_shifts().borrow().get("use1-az6").unwrap();
    assert!(matches!(end, ShiftEnd::Open(_)), "{end:?}");
    world.advance(HOUR / 2);
    world.cloud.refresh_zonal_shifts(&arn).await.unwrap();
    world.advance(HOUR * 3 / 4);
    assert_eq!(shifted(&world), ["use1-az6"], "it was heard of within the hour");
    world.advance(HOUR / 2);
    assert_eq!(shifted(&world), [""; 0]);
    world.ec2.zonal_shifts().autoshift("use1-az6", false);
    world.cloud.refresh_zonal_shifts(&arn).await.unwrap();
    assert_eq!(shifted(&world), [""; 0]);
}

#[tokio::test]
async fn nothing_is_launched_in_a_zone_that_is_shifted_away() {
    let world = World::start().await;
    let arn = world.ec2.zonal_shifts().register("shop");
    world.ec2.zonal_shifts().start(&zone_of_a(&world).await, HOUR);
    world.cloud.refresh_zonal_shifts(&arn).await.unwrap();
    let launched = world.launch("x", &[A, B]).await.instance;
    assert_eq!(launched.offering, offering(B));
    let failed = world.cloud.launch(&request("y", 1, &[A])).await.unwrap_err();
    let refused = failed.error.refused();
    assert_eq!((refused.len(), &refused[0].refusal), (1, &Refusal::ZonalShift));
    assert!(!failed.is_outcome, "EC2 was not asked");
    assert_eq!(world.ec2.calls().by(CONTROLLER).of("CreateFleet").len(), 1);
    world.advance(HOUR);
    assert_eq!(world.launch("y", &[A]).await.instance.offering, offering(A));
}

#[tokio::test]
async fn a_shift_that_begins_while_templates_are_made_is_heeded() {
    let world = World::start().await;
    let arn = world.ec2.zonal_shifts().register("shop");
    let zone = zone_of_a(&world).await;
    world.ec2.faults().latency(Calls::of("CreateLaunchTemplate").by(CONTROLLER), Duration::from_secs(2));
    let (cloud, request) = (world.cloud.clone(), request("x", 1, &[A, B]));
    let launch = tokio::spawn(async move { cloud.launch(&request).await });
    let is_asked = |calls: &muster_tests::ec2::Record| !calls.clone().of("CreateLaunchTemplate").is_empty();
    world.ec2.wait_for_calls(HOUR / 60, is_asked).await.unwrap();
    world.ec2.zonal_shifts().start(&zone, HOUR);
    world.cloud.refresh_zonal_shifts(&arn).await.unwrap();
    let launched = launch.await.unwrap().unwrap();
    assert_eq!(launched.instance.offering, offering(B));
    let fleets = world.ec2.calls().by(CONTROLLER).of("CreateFleet");
    let subnet = &world.subnets["us-east-1a"];
    assert!(fleets.len() == 1 && !fleets.json_lines().contains(subnet), "{}", fleets.json_lines());
}

#[tokio::test]
async fn what_ec2_does_not_know_in_an_impaired_zone_is_not_taken_for_gone() {
    let world = World::start().await;
    let arn = world.ec2.zonal_shifts().register("shop");
    world.ec2.faults().unseen_for(Pool::any(), HOUR);
    let launched = world.launch("x", &[A]).await.instance;
    let id = launched.provider_id.as_str();
    // So long after the launch that EC2 should know it.
    world.advance(Duration::from_secs(120));
    assert!(world.cloud.get(id).await.unwrap_err().is_not_found());
    world.ec2.zonal_shifts().start(&zone_of_a(&world).await, HOUR);
    world.cloud.refresh_zonal_shifts(&arn).await.unwrap();
    for error in [world.cloud.get(id).await.unwrap_err(), world.cloud.terminate(id).await.unwrap_err()] {
        assert!(matches!(error, CloudError::Transient { .. }), "{error}");
    }
    let elsewhere = "aws:///us-east-1b/i-00000000000000000";
    assert!(world.cloud.get(elsewhere).await.unwrap_err().is_not_found());
    world.advance(HOUR);
    assert!(world.cloud.get(id).await.unwrap_err().is_not_found());
}

/// The policy allows the call that is made, and no other resource of ARC.
#[tokio::test]
async fn the_call_is_in_the_table_of_permissions() {
    let world = World::start().await;
    let arn = world.ec2.zonal_shifts().register("shop");
    world.cloud.refresh_zonal_shifts(&arn).await.unwrap();
    let calls = world.ec2.calls().by(CONTROLLER).only(|call| call.service == "arc-zonal-shift");
    let called: Vec<String> = calls.0.iter().map(|call| format!("{}:{}", call.service, call.action)).collect();
    let features = [Feature::ZonalShifts].into();
    let granted = needed(&features, true).filter(|one| one.scope == Scope::OwnManagedResource);
    assert_eq!(called, granted.map(|one| one.action).collect::<Vec<_>>());
    assert_eq!(calls.0[0].parameter("resourceIdentifier"), Some(arn.as_str()));
}
