//! Who called: the record, signatures, STS.

use std::time::{Duration, SystemTime};

use aws_sdk_ec2::error::ProvideErrorMetadata;
use aws_sigv4::http_request::{SignableBody, SignableRequest, SignatureLocation, SigningSettings, sign};
use aws_sigv4::sign::v4;
use http_body_util::BodyExt;
use muster_tests::ec2::{Calls, Credentials, Ec2};

use crate::ec2::sdk::{Fixture, client};

/// A `GET` with a header, as a controller checks a node's presigned address.
async fn get(address: &str, claim: &str) -> (u16, String) {
    let client = hyper_util::client::legacy::Client::builder(hyper_util::rt::TokioExecutor::new()).build_http();
    let request = hyper::Request::get(address).header(CLAIM, claim).body(axum::body::Body::empty()).unwrap();
    let response = client.request(request).await.unwrap();
    let status = response.status().as_u16();
    let body = response.into_body().collect().await.unwrap().to_bytes();
    (status, String::from_utf8(body.to_vec()).unwrap())
}

/// Signed with the address, so that the proof is good for one thing only.
const CLAIM: &str = "x-test-claim";

/// What a node sends as proof of who it is; it holds for a minute.
fn presigned(ec2: &Ec2, who: &Credentials, claim: &str) -> String {
    let endpoint = ec2.endpoint();
    let address = format!("{endpoint}/?Action=GetCallerIdentity&Version=2011-06-15");
    let mut settings = SigningSettings::default();
    settings.signature_location = SignatureLocation::QueryParams;
    settings.expires_in = Some(Duration::from_mins(1));
    let identity = crate::ec2::sdk::keys(who).into();
    let parameters = v4::SigningParams::builder().identity(&identity).region("us-east-1").name("sts");
    let parameters = parameters.time(SystemTime::now()).settings(settings).build().unwrap().into();
    let host = endpoint.strip_prefix("http://").unwrap();
    let headers = [("host", host), (CLAIM, claim)].into_iter();
    let request = SignableRequest::new("GET", &address, headers, SignableBody::Bytes(b"")).unwrap();
    let (instructions, _) = sign(request, &parameters).unwrap().into_parts();
    let mut signed = hyper::Request::get(&address).body(()).unwrap();
    instructions.apply_to_request_http1x(&mut signed);
    signed.uri().to_string()
}

#[tokio::test]
async fn every_call_is_on_record_with_its_caller_time_and_answer() {
    let world = Fixture::start().await;
    let operator = client!(aws_sdk_ec2, world.ec2, world.ec2.credentials("operator"));
    let before = world.ec2.clock().now();
    operator.describe_vpcs().max_results(7).send().await.unwrap();
    let _ = operator.describe_instances().instance_ids("i-0123456789abcdef0").send().await.unwrap_err();
    let calls = world.ec2.calls().by("operator").since(before);
    assert_eq!(
        calls.lines().lines().map(|line| line.split_once(' ').unwrap().1).collect::<Vec<_>>(),
        ["ec2:DescribeVpcs by operator: 200", "ec2:DescribeInstances by operator: InvalidInstanceID.NotFound"]
    );
    assert_eq!(calls.0[0].parameter("MaxResults"), Some("7"));
    assert!(calls.0[0].user_agent.contains("aws-sdk-rust"));
    assert_eq!(calls.0[0].region, "us-east-1");
}

#[tokio::test]
async fn a_wrong_secret_is_an_auth_failure() {
    let world = Fixture::start().await;
    let mut forged = world.ec2.credentials("controller");
    forged.secret_access_key.push('x');
    let error = client!(aws_sdk_ec2, world.ec2, forged).describe_vpcs().send().await.unwrap_err();
    assert_eq!((error.code(), error.raw_response().unwrap().status().as_u16()), (Some("AuthFailure"), 401));
    let error = client!(aws_sdk_sts, world.ec2, forged).get_caller_identity().send().await.unwrap_err();
    assert_eq!(error.code(), Some("SignatureDoesNotMatch"));
}

#[tokio::test]
async fn sts_names_the_role_and_session_of_an_instance() {
    let world = Fixture::start().await;
    let id = world.launch("m5.large/us-east-1a").await;
    let node = world.ec2.instance_credentials("NodeRole", &id);
    let answer = client!(aws_sdk_sts, world.ec2, node).get_caller_identity().send().await.unwrap();
    let account = world.ec2.account();
    assert_eq!(answer.account(), Some(account));
    assert_eq!(answer.arn().unwrap(), format!("arn:aws:sts::{account}:assumed-role/NodeRole/{id}"));
}

#[tokio::test]
async fn a_presigned_address_proves_who_made_it_until_it_expires() {
    let world = Fixture::start().await;
    let node = world.ec2.instance_credentials("NodeRole", "i-1");
    let address = presigned(&world.ec2, &node, "node-1");
    let (status, body) = get(&address, "node-1").await;
    assert_eq!(status, 200, "{body}");
    assert!(body.contains(":assumed-role/NodeRole/i-1</Arn>"), "{body}");
    assert_eq!(world.ec2.calls().of("GetCallerIdentity").by("i-1").len(), 1);

    let (status, body) = get(&address, "node-2").await;
    assert_eq!((status, body.contains("SignatureDoesNotMatch")), (403, true), "{body}");
    world.ec2.clock().advance(Duration::from_mins(2));
    let (status, body) = get(&address, "node-1").await;
    assert_eq!((status, body.contains("Signature expired")), (403, true), "{body}");
}

#[tokio::test]
async fn a_presigned_address_of_a_stranger_is_refused() {
    let world = Fixture::start().await;
    let stranger = Fixture::start().await.ec2.credentials("stranger");
    let (status, body) = get(&presigned(&world.ec2, &stranger, "node-1"), "node-1").await;
    assert_eq!((status, body.contains("InvalidClientTokenId")), (403, true), "{body}");
}

#[tokio::test]
async fn two_ec2s_share_a_moto_and_nothing_else() {
    let (one, other) = (Fixture::start().await, Fixture::start().await);
    one.launch("m5.large/us-east-1a").await;
    assert!(other.client.describe_instances().send().await.unwrap().reservations().is_empty());
    one.ec2.faults().throttled(Calls::any());
    other.once.describe_vpcs().send().await.unwrap();
}
