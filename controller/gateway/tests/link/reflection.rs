//! What there is, told to operators by both versions of reflection.

use std::collections::BTreeSet;

use muster_gateway::Limits;
use prost::Message;
use prost_types::FileDescriptorProto;
use tokio::sync::mpsc;
use tokio_stream::wrappers::ReceiverStream;
use tonic::transport::Channel;
use tonic::{Code, Status, Streaming};
use tonic_reflection::pb::v1::server_reflection_client::ServerReflectionClient;
use tonic_reflection::pb::v1::server_reflection_request::MessageRequest;
use tonic_reflection::pb::v1::server_reflection_response::MessageResponse;
use tonic_reflection::pb::v1::{ServerReflectionRequest, ServerReflectionResponse};
use tonic_reflection::pb::v1alpha;

use crate::identities::rpcs;
use crate::operators::{anonymous, with};
use crate::world::{TOKENS, World};

fn question(of: MessageRequest) -> ServerReflectionRequest {
    ServerReflectionRequest { host: String::new(), message_request: Some(of) }
}

/// A stream of an operator, and where it is asked.
async fn begin(
    channel: Channel,
) -> Result<(mpsc::Sender<ServerReflectionRequest>, Streaming<ServerReflectionResponse>), Status> {
    let (questions, asked) = mpsc::channel(1);
    let request = with(TOKENS[0], ReceiverStream::new(asked));
    let answers = ServerReflectionClient::new(channel).server_reflection_info(request).await?;
    Ok((questions, answers.into_inner()))
}

/// The names of all services that have an RPC.
fn services() -> BTreeSet<String> {
    rpcs().iter().map(|path| path.split('/').nth(1).unwrap().to_owned()).collect()
}

#[tokio::test]
async fn an_operator_is_told_what_there_is_and_how_it_is_called() {
    let world = World::start().await;
    let (questions, mut answers) = begin(anonymous(&world).await).await.unwrap();
    questions.send(question(MessageRequest::ListServices(String::new()))).await.unwrap();
    let listed = answers.message().await.unwrap().unwrap().message_response;
    let Some(MessageResponse::ListServicesResponse(listed)) = listed else { panic!("{listed:?}") };
    let names: BTreeSet<String> = listed.service.into_iter().map(|service| service.name).collect();
    assert_eq!(names, services());
    for name in &names {
        questions.send(question(MessageRequest::FileContainingSymbol(name.clone()))).await.unwrap();
        let file = answers.message().await.unwrap().unwrap().message_response;
        let Some(MessageResponse::FileDescriptorResponse(file)) = file else { panic!("{name}: {file:?}") };
        let file = FileDescriptorProto::decode(&*file.file_descriptor_proto[0]).unwrap();
        let of_file = |service: &str| format!("{}.{service}", file.package());
        assert!(file.service.iter().any(|service| of_file(service.name()) == *name), "{name}");
    }
    drop(questions);
    assert_eq!(answers.message().await.unwrap(), None, "the answers end with the questions");

    let list = v1alpha::server_reflection_request::MessageRequest::ListServices(String::new());
    let list = v1alpha::ServerReflectionRequest { host: String::new(), message_request: Some(list) };
    let mut older = v1alpha::server_reflection_client::ServerReflectionClient::new(anonymous(&world).await);
    let request = with(TOKENS[0], tokio_stream::iter([list]));
    let mut answers = older.server_reflection_info(request).await.unwrap().into_inner();
    let listed = answers.message().await.unwrap().unwrap().message_response;
    let Some(v1alpha::server_reflection_response::MessageResponse::ListServicesResponse(listed)) = listed else {
        panic!("{listed:?}")
    };
    assert_eq!(listed.service.into_iter().map(|service| service.name).collect::<BTreeSet<_>>(), names);
}

#[tokio::test]
async fn so_many_are_told_at_once_and_no_more() {
    let world = World::with(Limits { reflections: 1, reviews_per_second: 1000, ..Limits::default() }).await;
    let channel = anonymous(&world).await;
    let held = begin(channel.clone()).await.unwrap();
    let refused = begin(channel.clone()).await.unwrap_err();
    assert_eq!(refused.code(), Code::ResourceExhausted, "{refused}");
    drop(held);
    // The gateway hears of it by its connection.
    while begin(channel.clone()).await.is_err() {
        tokio::task::yield_now().await;
    }
}

#[tokio::test]
async fn who_asks_without_end_or_at_length_is_not_answered_for_ever() {
    let world = World::start().await;
    let channel = anonymous(&world).await;
    let (questions, mut answers) = begin(channel.clone()).await.unwrap();
    let ever = tokio::spawn(async move {
        let all = || question(MessageRequest::FileContainingSymbol("muster.v1.Fleet".to_owned()));
        while questions.send(all()).await.is_ok() {}
    });
    let mut told = 0;
    let ended = loop {
        match answers.message().await {
            Ok(answer) => told += answer.unwrap().encoded_len(),
            Err(status) => break status,
        }
    };
    assert_eq!(ended.code(), Code::ResourceExhausted, "{ended}");
    assert!((1024 * 1024..2 * 1024 * 1024).contains(&told), "{told}");
    ever.await.unwrap();

    let (questions, mut answers) = begin(channel).await.unwrap();
    questions.send(question(MessageRequest::FileByFilename("x".repeat(8 * 1024)))).await.unwrap();
    assert_eq!(answers.message().await.unwrap(), None, "a name is shorter");
}

#[tokio::test]
async fn a_stream_ends_with_its_replica() {
    let world = World::start().await;
    let (_questions, mut answers) = begin(anonymous(&world).await).await.unwrap();
    let ended = async { answers.message().await.unwrap_err().code() };
    let (ended, _memory) = tokio::join!(ended, world.stop());
    assert_eq!(ended, Code::Unavailable);
}
