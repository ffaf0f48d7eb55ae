//! The protocols: what moto does not know, other services' errors, the proxy's own path.

use aws_sdk_ec2::error::ProvideErrorMetadata;
use aws_sdk_ec2::types::InstanceType;
use http_body_util::BodyExt;
use muster_tests::ec2::Calls;
use serde_json::{Value, json};

use crate::ec2::sdk::{Fixture, client};

#[tokio::test]
async fn an_action_that_nobody_answers_is_an_error_that_says_so() {
    let world = Fixture::start().await;
    let error = world.client.describe_capacity_blocks().send().await.unwrap_err();
    assert_eq!(error.code(), Some("UnsupportedOperation"));
    assert!(error.message().unwrap().contains("ec2:DescribeCapacityBlocks"), "{error:?}");
}

#[tokio::test]
async fn types_and_offerings_come_from_moto() {
    let world = Fixture::start().await;
    let types = world.client.describe_instance_types().instance_types(InstanceType::M5Large).send().await.unwrap();
    assert_eq!(types.instance_types()[0].v_cpu_info().unwrap().default_v_cpus(), Some(2));
    let offerings = world.client.describe_instance_type_offerings().send().await.unwrap();
    assert!(offerings.instance_type_offerings().len() > 500);
}

#[tokio::test]
async fn the_aws_command_line_is_a_client_too() {
    let world = Fixture::start().await;
    let who = world.ec2.credentials("person");
    let identity = world.ec2.aws(&who, &["sts", "get-caller-identity"]).await.unwrap();
    assert_eq!(identity["Account"], world.ec2.account());
    world.ec2.faults().unauthorized(Calls::of("DescribeVpcs").by("person"));
    let error = world.ec2.aws(&who, &["ec2", "describe-vpcs"]).await.unwrap_err().to_string();
    assert!(error.contains("(UnauthorizedOperation)"), "{error}");
    assert!(world.ec2.calls().by("person").0[0].user_agent.contains("aws-cli"));
}

#[tokio::test]
async fn zonal_shifts_are_started_and_cancelled_by_the_aws_command_line() {
    let world = Fixture::start().await;
    let who = world.ec2.credentials("operator");
    let arc = async |arguments: &[&str]| world.ec2.aws(&who, &[&["arc-zonal-shift"], arguments].concat()).await;
    let arn = format!("arn:aws:eks:us-east-1:{}:cluster/shop", world.ec2.account());
    let get = ["get-managed-resource", "--resource-identifier", &arn];
    let error = arc(&get).await.unwrap_err().to_string();
    assert!(error.contains("(AccessDeniedException)") && error.contains("is not a managed resource"), "{error}");
    assert_eq!(world.ec2.zonal_shifts().register("shop"), arn);
    assert_eq!(arc(&get).await.unwrap()["zonalShifts"], json!([]));

    let start = ["start-zonal-shift", "--resource-identifier", &arn, "--expires-in", "30m", "--comment", "x"];
    let first = arc(&[&start[..], &["--away-from", "use1-az1"]].concat()).await.unwrap();
    let second = arc(&[&start[..], &["--away-from", "use1-az2"]].concat()).await.unwrap();
    world.ec2.zonal_shifts().autoshift("use1-az3", true);
    let found = arc(&get).await.unwrap();
    let of = |list: &str| -> Vec<(String, String)> {
        let text = |one: &Value, field: &str| one[field].as_str().unwrap().to_owned();
        found[list].as_array().unwrap().iter().map(|one| (text(one, "awayFrom"), text(one, "appliedStatus"))).collect()
    };
    let pair = |zone: &str, status: &str| (zone.to_owned(), status.to_owned());
    assert_eq!(of("zonalShifts"), [pair("use1-az1", "NOT_APPLIED"), pair("use1-az2", "APPLIED")]);
    assert_eq!(of("autoshifts"), [pair("use1-az3", "NOT_APPLIED")]);

    for shift in [first, second] {
        let id = shift["zonalShiftId"].as_str().unwrap();
        arc(&["update-zonal-shift", "--zonal-shift-id", id, "--expires-in", "1h"]).await.unwrap();
        arc(&["cancel-zonal-shift", "--zonal-shift-id", id]).await.unwrap();
    }
    let found = arc(&get).await.unwrap();
    assert_eq!((&found["zonalShifts"], &found["autoshifts"][0]["appliedStatus"]), (&json!([]), &json!("APPLIED")));
}

#[tokio::test]
async fn each_service_refuses_in_its_own_words() {
    let world = Fixture::start().await;
    let who = world.ec2.credentials("controller");
    let code = |error: &dyn ProvideErrorMetadata| error.code().unwrap().to_owned();
    let ssm = client!(aws_sdk_ssm, world.ec2, who);
    let iam = client!(aws_sdk_iam, world.ec2, who);
    let eks = client!(aws_sdk_eks, world.ec2, who);
    let sqs = client!(aws_sdk_sqs, world.ec2, who);
    let ask = || async {
        [
            code(&ssm.get_parameter().name("/aws/service/bottlerocket/x").send().await.unwrap_err()),
            code(&iam.get_role().role_name("none").send().await.unwrap_err()),
            code(&eks.describe_cluster().name("none").send().await.unwrap_err()),
            code(&sqs.get_queue_url().queue_name("none").send().await.unwrap_err()),
        ]
    };
    let no_queue = "AWS.SimpleQueueService.NonExistentQueue";
    assert_eq!(ask().await, ["ParameterNotFound", "NoSuchEntity", "ResourceNotFoundException", no_queue]);
    let rule = world.ec2.faults().unauthorized(Calls::any().by("controller"));
    assert_eq!(
        ask().await,
        ["AccessDeniedException", "AccessDenied", "AccessDeniedException", "AccessDeniedException"]
    );
    world.ec2.faults().lift(rule);
    world.ec2.faults().throttled(Calls::any());
    assert_eq!(ask().await, ["ThrottlingException", "Throttling", "ThrottlingException", "RequestThrottled"]);
}

#[tokio::test]
async fn eks_describes_a_cluster() {
    let world = Fixture::start().await;
    let eks = client!(aws_sdk_eks, world.ec2, world.ec2.credentials("operator"));
    let network = aws_sdk_eks::types::VpcConfigRequest::builder().subnet_ids(world.subnet("us-east-1a")).build();
    let role = "arn:aws:iam::123456789012:role/eks";
    eks.create_cluster()
        .name("shop")
        .role_arn(role)
        .resources_vpc_config(network)
        .version("1.35")
        .send()
        .await
        .unwrap();
    let cluster = eks.describe_cluster().name("shop").send().await.unwrap();
    assert_eq!(cluster.cluster().unwrap().version(), Some("1.35"));
    assert_eq!(world.ec2.calls().of("DescribeCluster").0[0].parameter("name"), Some("shop"));
}

async fn http(method: &str, address: &str, body: Value) -> (u16, Value) {
    let client = hyper_util::client::legacy::Client::builder(hyper_util::rt::TokioExecutor::new()).build_http();
    let body = if body.is_null() { String::new() } else { body.to_string() };
    let request = hyper::Request::builder().method(method).uri(address).header("content-type", "application/json");
    let response = client.request(request.body(axum::body::Body::from(body)).unwrap()).await.unwrap();
    let status = response.status().as_u16();
    let bytes = response.into_body().collect().await.unwrap().to_bytes();
    (status, serde_json::from_slice(&bytes).unwrap_or(Value::Null))
}

#[tokio::test]
async fn a_person_can_set_and_lift_rules_over_http() {
    let world = Fixture::start().await;
    let path = |rest: &str| format!("{}/_muster/{rest}", world.ec2.endpoint());
    let rule = json!({ "calls": { "action": "DescribeVpcs" }, "fault": { "error": { "status": 400, "code": "Blocked", "message": "no" } } });
    let (status, made) = http("POST", &path("faults"), rule.clone()).await;
    assert_eq!((status, &made), (201, &json!({ "id": 1 })));
    assert_eq!(world.once.describe_vpcs().send().await.unwrap_err().code(), Some("Blocked"));
    let (_, listed) = http("GET", &path("faults"), Value::Null).await;
    assert_eq!((&listed[0]["rule"]["fault"], &listed[0]["matched"]), (&rule["fault"], &json!(1)));
    assert_eq!(http("DELETE", &path("faults/1"), Value::Null).await.0, 204);
    world.once.describe_vpcs().send().await.unwrap();

    let (status, _) = http("POST", &path("faults"), json!({ "calls": { "akshun": "x" }, "fault": "throttled" })).await;
    assert_eq!(status, 422, "a rule with a field that is not known is not taken");
    http("POST", &path("clock"), json!({ "hold": true })).await;
    let before = world.ec2.clock().now();
    http("POST", &path("clock"), json!({ "advanceSeconds": 90 })).await;
    assert_eq!(world.ec2.clock().now().duration_since(before).as_secs(), 90);
    http("POST", &path("spot"), json!({ "instanceType": "m5.large", "zone": "us-east-1a", "price": 0.5 })).await;
    assert_eq!(world.ec2.spot().price("us-east-1", "m5.large", "us-east-1a"), Some(0.5));
    let id = world.launch("m5.large/us-east-1a").await;
    let (_, running) = http("GET", &path("instances"), Value::Null).await;
    assert_eq!(running[0]["id"], id.as_str());
    assert_eq!(http("POST", &path(&format!("interrupt/{id}")), Value::Null).await.0, 204);
    assert!(world.ec2.running().is_empty());
    let (_, calls) = http("GET", &path("calls"), Value::Null).await;
    assert_eq!(calls.as_array().unwrap().last().unwrap()["action"], "CreateFleet");
}
