//! Each fault, as the SDK sees it.

use std::time::Duration;

use aws_sdk_ec2::config::retry::RetryConfig;
use aws_sdk_ec2::error::{ProvideErrorMetadata, SdkError};
use aws_sdk_ec2::types::{InstanceStateName, InstanceType};
use muster_tests::ec2::{Calls, CapacityType, Pool, Rule};

use crate::ec2::sdk::{Fixture, client, launched, refused};

const M5A: &str = "m5.large/us-east-1a";
/// Waiting for something that has to come; on a busy machine it may take its time.
const SOON: Duration = Duration::from_secs(60);

#[tokio::test]
async fn no_capacity_for_a_type_in_a_zone_of_a_capacity_type() {
    let world = Fixture::start().await;
    let spot_in_a = Pool::of("m5.large").zone("us-east-1a").paid(CapacityType::Spot);
    world.ec2.faults().insufficient_capacity(spot_in_a);
    let spot = |pool| world.fleet(&[pool], 1).spot(aws_sdk_ec2::types::SpotAllocationStrategy::LowestPrice);
    let made = spot(M5A).send().await;
    assert_eq!(
        (refused(&made), launched(&made).len()),
        (vec!["m5.large us-east-1a: InsufficientInstanceCapacity".into()], 0)
    );
    assert_eq!(launched(&spot("m5.large/us-east-1b").send().await).len(), 1, "another zone has some");
    assert_eq!(launched(&spot("m5.xlarge/us-east-1a").send().await).len(), 1, "so has another type");
    assert_eq!(launched(&world.fleet(&[M5A], 1).send().await).len(), 1, "and on demand there is some");
}

#[tokio::test]
async fn no_capacity_for_run_instances_is_a_server_error_that_the_sdk_retries() {
    let world = Fixture::start().await;
    let rule = world.ec2.faults().insufficient_capacity(Pool::of("m5.*"));
    let image = world.image("x86_64").await;
    let run = || {
        let run = world.client.run_instances().image_id(&image).instance_type(InstanceType::M5Large);
        run.min_count(1).max_count(1).subnet_id(world.subnet("us-east-1a")).send()
    };
    let error = run().await.unwrap_err();
    assert_eq!(error.code(), Some("InsufficientInstanceCapacity"));
    assert_eq!(error.raw_response().unwrap().status().as_u16(), 500);
    assert_eq!(world.ec2.calls().of("RunInstances").failed("InsufficientInstanceCapacity").len(), 3);
    world.ec2.faults().lift(rule);
    assert_eq!(run().await.unwrap().instances().len(), 1);
}

#[tokio::test]
async fn a_subnet_without_addresses() {
    let world = Fixture::start().await;
    let subnet = world.subnet("us-east-1a").to_owned();
    world.ec2.faults().subnet_full(&subnet);
    let made = world.fleet(&[M5A, "m5.large/us-east-1b"], 1).send().await;
    assert_eq!(refused(&made), ["m5.large us-east-1a: InsufficientFreeAddressesInSubnet"]);
    assert_eq!(launched(&made), ["m5.large us-east-1b x1"]);
    let subnets = world.client.describe_subnets().subnet_ids(&subnet).send().await.unwrap();
    assert_eq!(subnets.subnets()[0].available_ip_address_count(), Some(0));
}

#[tokio::test]
async fn a_small_subnet_runs_out_by_itself() {
    let world = Fixture::start().await;
    let vpc = world.client.describe_vpcs().send().await.unwrap().vpcs()[0].vpc_id().unwrap().to_owned();
    let small = world.client.create_subnet().vpc_id(vpc).cidr_block("172.31.255.0/28").availability_zone("us-east-1a");
    let small = small.send().await.unwrap().subnet().unwrap().subnet_id().unwrap().to_owned();
    let mut world = world;
    world.subnets.insert("us-east-1a".to_owned(), small);
    let made = world.fleet(&[M5A, "m5.large/us-east-1b"], 13).send().await;
    assert_eq!(launched(&made), ["m5.large us-east-1a x11", "m5.large us-east-1b x2"], "16 addresses, 5 are EC2's");
    assert_eq!(refused(&made), ["m5.large us-east-1a: InsufficientFreeAddressesInSubnet"]);
}

#[tokio::test]
async fn an_identity_without_the_right() {
    let world = Fixture::start().await;
    world.ec2.faults().unauthorized(Calls::of("TerminateInstances").by("controller"));
    let id = world.launch(M5A).await;
    let error = world.client.terminate_instances().instance_ids(&id).send().await.unwrap_err();
    assert!(matches!(error, SdkError::ServiceError(_)));
    assert_eq!(error.raw_response().unwrap().status().as_u16(), 403);
    assert_eq!(error.code(), Some("UnauthorizedOperation"));
    let message = error.message().unwrap();
    assert!(
        message.contains(":assumed-role/controller/controller is not authorized to perform: ec2:TerminateInstances")
    );
    let other = client!(aws_sdk_ec2, world.ec2, world.ec2.credentials("operator"));
    other.terminate_instances().instance_ids(&id).send().await.unwrap();
}

#[tokio::test]
async fn a_fleet_needs_the_right_to_run_instances_too() {
    let world = Fixture::start().await;
    world.ec2.faults().unauthorized(Calls::of("RunInstances"));
    let made = world.fleet(&[M5A], 1).send().await;
    assert_eq!(refused(&made), ["m5.large us-east-1a: UnauthorizedOperation"]);
}

#[tokio::test]
async fn throttled_calls_are_retried_and_then_seen() {
    let world = Fixture::start().await;
    world.ec2.faults().throttled(Calls::of("DescribeVpcs").times(2));
    world.client.describe_vpcs().send().await.unwrap();
    assert_eq!(world.ec2.calls().of("DescribeVpcs").failed("RequestLimitExceeded").len(), 2);
    world.ec2.faults().throttled(Calls::of("DescribeVpcs"));
    let error = world.client.describe_vpcs().send().await.unwrap_err();
    assert_eq!((error.code(), error.raw_response().unwrap().status().as_u16()), (Some("RequestLimitExceeded"), 503));
}

#[tokio::test]
async fn token_buckets_empty_and_fill_by_the_held_clock() {
    let world = Fixture::start().await;
    world.ec2.clock().hold();
    world.ec2.faults().token_buckets();
    let run = || async {
        let error = world.once.run_instances().dry_run(true).min_count(1).max_count(1).send().await.unwrap_err();
        error.code().unwrap().to_owned()
    };
    let mut codes = Vec::new();
    for _ in 0..6 {
        codes.push(run().await);
    }
    assert_eq!(codes.iter().filter(|code| *code == "RequestLimitExceeded").count(), 1, "five tokens: {codes:?}");
    assert_eq!(codes[5], "RequestLimitExceeded");
    world.ec2.clock().advance(Duration::from_secs(1));
    let again = [run().await, run().await, run().await];
    assert_ne!(again[1], "RequestLimitExceeded", "two a second come back");
    assert_eq!(again[2], "RequestLimitExceeded");
}

#[tokio::test]
async fn a_slow_call_is_answered_when_its_time_has_come() {
    let world = Fixture::start().await;
    world.ec2.clock().hold();
    world.ec2.faults().latency(Calls::of("DescribeVpcs"), Duration::from_hours(1));
    let call = tokio::spawn(world.client.describe_vpcs().send());
    world.ec2.wait_for_calls(SOON, |calls| !calls.clone().of("DescribeVpcs").is_empty()).await.unwrap();
    assert!(!call.is_finished());
    world.ec2.clock().advance(Duration::from_hours(1));
    call.await.unwrap().unwrap();
}

#[tokio::test]
async fn a_client_with_a_deadline_gives_up_on_a_slow_call() {
    let world = Fixture::start().await;
    world.ec2.clock().hold();
    world.ec2.faults().latency(Calls::of("DescribeVpcs"), Duration::from_hours(1));
    let timeouts = aws_sdk_ec2::config::timeout::TimeoutConfig::builder().operation_timeout(Duration::from_millis(200));
    let hurried =
        aws_sdk_ec2::Client::from_conf(world.once.config().to_builder().timeout_config(timeouts.build()).build());
    let error = hurried.describe_vpcs().send().await.unwrap_err();
    assert!(matches!(error, SdkError::TimeoutError(_)), "{error:?}");
}

#[tokio::test]
async fn a_connection_cut_before_the_work_is_a_dispatch_failure_and_nothing_is_done() {
    let world = Fixture::start().await;
    world.ec2.faults().cut_before(Calls::of("CreateFleet").times(1));
    let fleet = world.fleet(&[M5A], 1).by(&world.once);
    let error = fleet.request().send().await.unwrap_err();
    // Of a known kind: one that the SDK retries.
    assert!(matches!(&error, SdkError::DispatchFailure(why) if why.as_other().is_some()), "{error:?}");
    assert!(world.ec2.running().is_empty());
    let made = fleet.by(&world.client).send().await;
    assert_eq!(launched(&made).len(), 1);
}

#[tokio::test]
async fn a_connection_cut_after_the_work_launches_once_because_of_the_client_token() {
    let world = Fixture::start().await;
    world.ec2.faults().cut_after(Calls::of("CreateFleet").times(1));
    let made = world.fleet(&[M5A], 2).send().await;
    let calls = world.ec2.calls().of("CreateFleet");
    assert_eq!(calls.0.iter().map(|call| call.status).collect::<Vec<_>>(), [None, Some(200)]);
    assert_eq!(calls.0[0].parameter("ClientToken"), calls.0[1].parameter("ClientToken"));
    let running = world.ec2.running().iter().map(|instance| instance.id.clone()).collect::<Vec<_>>();
    assert_eq!(running, made.instances()[0].instance_ids());
}

#[tokio::test]
async fn a_caller_that_does_not_retry_never_hears_of_the_instance_that_was_launched() {
    let world = Fixture::start().await;
    world.ec2.faults().cut_after(Calls::of("CreateFleet"));
    let error = world.fleet(&[M5A], 1).by(&world.once).request().send().await.unwrap_err();
    assert!(matches!(error, SdkError::DispatchFailure(_)));
    assert_eq!(world.ec2.running().len(), 1);
}

#[tokio::test]
async fn a_token_with_other_parameters_is_a_mismatch() {
    let world = Fixture::start().await;
    world.fleet(&[M5A], 1).request().client_token("once").send().await.unwrap();
    let error = world.fleet(&[M5A], 2).request().client_token("once").send().await.unwrap_err();
    assert_eq!(error.code(), Some("IdempotentParameterMismatch"));
}

#[tokio::test]
async fn items_come_twice_and_in_reverse() {
    let world = Fixture::start().await;
    let ids = [world.launch(M5A).await, world.launch("m5.large/us-east-1b").await];
    let seen = || async {
        let answer = world.client.describe_instances().send().await.unwrap();
        let instances = answer.reservations().iter().flat_map(|reservation| reservation.instances());
        instances.map(|instance| instance.instance_id().unwrap().to_owned()).collect::<Vec<_>>()
    };
    let in_order = seen().await;
    assert_eq!(in_order.len(), ids.len());
    world.ec2.faults().duplicated(Calls::of("DescribeInstances").times(1));
    let twice = seen().await;
    assert_eq!(twice, [&in_order[0], &in_order[0], &in_order[1], &in_order[1]].map(Clone::clone));
    world.ec2.faults().reordered(Calls::of("DescribeInstances").times(1));
    assert_eq!(seen().await, [in_order[1].clone(), in_order[0].clone()]);
    assert_eq!(seen().await, in_order);
}

#[tokio::test]
async fn answers_of_two_calls_change_places() {
    let world = Fixture::start().await;
    world.ec2.clock().hold();
    world.ec2.faults().late_answer(Calls::of("CreateFleet").times(1), Duration::from_secs(30));
    let first = world.fleet(&[M5A], 1);
    let mut events = world.ec2.events();
    let first = tokio::spawn(async move { first.send().await });
    events.next().await.unwrap();
    let second = world.fleet(&[M5A], 1).send().await;
    assert!(!first.is_finished(), "its work is done, its answer is not here");
    world.ec2.clock().advance(Duration::from_secs(30));
    let first = first.await.unwrap();
    assert_ne!(first.instances()[0].instance_ids(), second.instances()[0].instance_ids());
    assert_eq!(world.ec2.running()[0].id, first.instances()[0].instance_ids()[0], "it was launched first");
}

#[tokio::test]
async fn an_instance_that_ends_at_once_says_why() {
    let world = Fixture::start().await;
    let why = "Client.VolumeLimitExceeded: Volume limit exceeded";
    world.ec2.faults().ends_at_once(Pool::any().times(1), "Client.VolumeLimitExceeded", why);
    let id = world.launch(M5A).await;
    let instance = world.describe(&id).await;
    assert_eq!(instance.state().unwrap().name(), Some(&InstanceStateName::Terminated));
    let reason = instance.state_reason().unwrap();
    assert_eq!((reason.code(), reason.message()), (Some("Client.VolumeLimitExceeded"), Some(why)));
    let next = world.launch(M5A).await;
    assert_eq!(world.describe(&next).await.state().unwrap().name(), Some(&InstanceStateName::Running));
}

#[tokio::test]
async fn any_other_error_by_its_code_and_status() {
    let world = Fixture::start().await;
    world.ec2.faults().error(
        Calls::of("DescribeVpcs").after(1).times(1),
        500,
        "InternalError",
        "An internal error has occurred",
    );
    world.once.describe_vpcs().send().await.unwrap();
    let error = world.once.describe_vpcs().send().await.unwrap_err();
    assert_eq!((error.code(), error.message()), (Some("InternalError"), Some("An internal error has occurred")));
    world.once.describe_vpcs().send().await.unwrap();
}

#[tokio::test]
async fn a_pool_may_refuse_with_any_code() {
    let world = Fixture::start().await;
    let rule = r#"{ "pool": { "instanceType": "m5.*" },
        "fault": { "refused": { "status": 400, "code": "VcpuLimitExceeded", "message": "You have requested too much" } } }"#;
    world.ec2.faults().set(serde_json::from_str::<Rule>(rule).unwrap());
    assert_eq!(refused(&world.fleet(&[M5A], 1).send().await), ["m5.large us-east-1a: VcpuLimitExceeded"]);
}

#[tokio::test]
async fn a_clock_that_is_off() {
    let world = Fixture::start().await;
    // Within the tolerance the header is all that shows it.
    let rule = world.ec2.faults().skewed(Calls::any(), 240);
    world.once.describe_subnets().send().await.unwrap();
    world.ec2.faults().lift(rule);

    for (ahead, words) in [(900, "expired: "), (-900, "not yet current: ")] {
        let rule = world.ec2.faults().skewed(Calls::any(), ahead);
        let error = world.once.describe_subnets().send().await.unwrap_err();
        assert_eq!((error.code(), error.message()), (Some("RequestExpired"), Some("Request has expired.")));
        let date = error.raw_response().unwrap().headers().get("date").unwrap();
        let date = jiff::fmt::rfc2822::parse(date).unwrap().timestamp();
        let off = date.duration_since(jiff::Timestamp::now()).as_secs();
        assert!((off - ahead).abs() <= 60, "{off} s");
        let controller = world.ec2.credentials("controller");
        let sts = client!(aws_sdk_sts, world.ec2, controller, retry: RetryConfig::disabled());
        let error = sts.get_caller_identity().send().await.unwrap_err();
        assert_eq!(error.code(), Some("SignatureDoesNotMatch"));
        assert!(error.message().unwrap().contains(words), "{error:?}");
        // The SDK reads the header, and signs its second try by the clock of the service.
        let before = world.ec2.calls().of("GetCallerIdentity").failed("SignatureDoesNotMatch").len();
        client!(aws_sdk_sts, world.ec2, controller).get_caller_identity().send().await.unwrap();
        let calls = world.ec2.calls().of("GetCallerIdentity");
        assert_eq!(calls.failed("SignatureDoesNotMatch").len(), before + 1);
        world.ec2.faults().lift(rule);
    }
    world.once.describe_subnets().send().await.unwrap();
}
