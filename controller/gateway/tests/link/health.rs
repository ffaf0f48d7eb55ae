//! The plaintext port, and what is said in the log.

use std::io::Write;
use std::sync::{Arc, Mutex};

use muster_proto::answer::Statuses;
use muster_proto::health::health_check_response::ServingStatus;
use muster_proto::health::health_client::HealthClient;
use muster_proto::health::{HealthCheckRequest, HealthListRequest};
use tokio::net::TcpListener;
use tokio::sync::{oneshot, watch};
use tonic::Code;
use tonic::transport::Endpoint;
use tonic_reflection::pb::v1::ServerReflectionRequest;
use tonic_reflection::pb::v1::server_reflection_client::ServerReflectionClient;
use tonic_reflection::pb::v1::server_reflection_request::MessageRequest;
use tonic_reflection::pb::v1::server_reflection_response::MessageResponse;
use tracing_subscriber::fmt::MakeWriter;

use crate::node::Node;
use crate::world::{A, SECRETS, World};

#[tokio::test]
async fn health_and_what_is_offered_are_told_in_plaintext_and_nothing_else() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    let (statuses_tx, statuses) = watch::channel(Statuses::from([(String::new(), ServingStatus::Serving)]));
    let (stop, stopped) = oneshot::channel::<()>();
    let served = tokio::spawn(async move {
        muster_gateway::health::serve(listener, statuses, async move { drop(stopped.await) }).await.unwrap();
    });
    let channel = Endpoint::from_shared(url).unwrap().connect().await.unwrap();
    let mut health = HealthClient::new(channel.clone());
    let asked = |service: &str| HealthCheckRequest { service: service.to_owned() };
    assert_eq!(health.check(asked("")).await.unwrap().into_inner().status(), ServingStatus::Serving);
    assert_eq!(health.check(asked("controller.Fleet")).await.unwrap_err().code(), Code::NotFound);

    let mut watched = health.watch(asked("controller.AgentGateway")).await.unwrap().into_inner();
    assert_eq!(watched.message().await.unwrap().unwrap().status(), ServingStatus::ServiceUnknown);
    statuses_tx.send_modify(|all| all.extend([("controller.AgentGateway".to_owned(), ServingStatus::NotServing)]));
    assert_eq!(watched.message().await.unwrap().unwrap().status(), ServingStatus::NotServing);
    drop(watched);
    assert_eq!(health.list(HealthListRequest {}).await.unwrap().into_inner().statuses.len(), 2);

    let ask = |message| ServerReflectionRequest { host: String::new(), message_request: Some(message) };
    let requests = tokio_stream::iter([ask(MessageRequest::ListServices(String::new()))]);
    let mut answers =
        ServerReflectionClient::new(channel.clone()).server_reflection_info(requests).await.unwrap().into_inner();
    let Some(MessageResponse::ListServicesResponse(listed)) =
        answers.message().await.unwrap().unwrap().message_response
    else {
        panic!("no list of services")
    };
    let names: Vec<_> = listed.service.iter().map(|it| it.name.as_str()).collect();
    for name in ["grpc.health.v1.Health", "muster.v1.Enrolment", "muster.v1.NodeReports"] {
        assert!(names.contains(&name), "{names:?}");
    }
    let mut enrolment = muster_proto::muster::enrolment_client::EnrolmentClient::new(channel);
    let refused = enrolment.challenge(muster_proto::muster::ChallengeRequest {}).await.unwrap_err();
    assert_eq!(refused.code(), Code::Unimplemented, "described here, and offered elsewhere");
    drop((answers, enrolment, health, stop));
    served.await.unwrap();
}

/// Keeps what is logged.
#[derive(Debug, Clone, Default)]
struct Log(Arc<Mutex<Vec<u8>>>);

impl Write for Log {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0.lock().unwrap().write(bytes)
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

impl MakeWriter<'_> for Log {
    type Writer = Self;

    fn make_writer(&self) -> Self {
        self.clone()
    }
}

#[tokio::test]
async fn the_log_says_why_and_holds_no_secret() {
    let log = Log::default();
    let subscriber = tracing_subscriber::fmt().with_env_filter("trace").with_writer(log.clone()).with_ansi(false);
    // Of the whole process: what one thread alone listens to another may have found that nobody does. The other tests say
    // more, and nothing that would be a secret here.
    tracing::subscriber::set_global_default(subscriber.finish()).unwrap();
    let world = World::start().await;
    let mut node = Node::new(A);
    node.enrol(&world).await.unwrap();
    Node::new(A).enrol(&world).await.unwrap_err();
    let mut guessing = Node::new(A);
    guessing.launch_token = SECRETS[1];
    guessing.enrol(&world).await.unwrap_err();
    let text = String::from_utf8(log.0.lock().unwrap().clone()).unwrap();
    assert!(text.contains("a node has enrolled") && text.contains("code=\"EnrolledBefore\""), "{text}");
    assert!(text.contains(A) && text.contains("LaunchTokenWrong"));
    for secret in [SECRETS[0], SECRETS[1], "IQoJb3JpZ2luX2Vj", "Signature=", "PRIVATE KEY", "MIAGCSqGSIb3"] {
        assert!(!text.contains(secret), "{secret} is logged");
    }
}
