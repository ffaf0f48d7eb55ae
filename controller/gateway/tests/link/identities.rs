//! For every RPC that the descriptors have, and every pair of identities: nobody reads or writes anything of another.

use muster_gateway::{DESCRIPTORS, Rule, rule};
use muster_proto::muster::{FollowRequest, Hello, LogBundle, NodeReport, Notice, follow_request, notice};
use prost::Message;
use prost_types::FileDescriptorSet;
use tonic::{Code, Request, Status};

use crate::node::{Node, instances};
use crate::skew::wire::Bytes;
use crate::world::{A, B, World};

pub(crate) fn rpcs() -> Vec<String> {
    let mut paths = Vec::new();
    for file in DESCRIPTORS.into_iter().flat_map(|set| FileDescriptorSet::decode(set).unwrap().file) {
        for service in &file.service {
            let of = |method: &str| format!("/{}.{}/{method}", file.package(), service.name());
            paths.extend(service.method.iter().map(|method| of(method.name())));
        }
    }
    paths
}

/// Calls an RPC with these messages and gives all answers.
pub(crate) async fn call(
    node: &Node,
    world: &World,
    path: &str,
    messages: Vec<Vec<u8>>,
) -> Result<Vec<Vec<u8>>, Status> {
    call_with(node, world, path, messages, None).await
}

/// The same with an operator's token.
pub(crate) async fn call_with(
    node: &Node,
    world: &World,
    path: &str,
    messages: Vec<Vec<u8>>,
    token: Option<&str>,
) -> Result<Vec<Vec<u8>>, Status> {
    let mut client = tonic::client::Grpc::new(node.connect(world).await);
    client.ready().await.unwrap();
    let mut request = Request::new(tokio_stream::iter(messages));
    if let Some(token) = token {
        request.metadata_mut().insert("authorization", format!("Bearer {token}").parse().unwrap());
    }
    let answers = client.streaming(request, path.parse().unwrap(), Bytes).await?.into_inner();
    let mut answers = answers;
    let mut all = Vec::new();
    // A `Watch` never ends by itself: its first answer is enough.
    while let Some(answer) = answers.message().await? {
        all.push(answer);
        if path.ends_with("/Watch") {
            break;
        }
    }
    Ok(all)
}

/// Whatever an agent can say, as the one message type of the stream; an RPC of another type reads what it can of it.
fn speech() -> Vec<Vec<u8>> {
    use follow_request::Message as Say;
    let report = NodeReport { sequence: 1, node_name: "node-of-b".to_owned(), ..NodeReport::default() };
    let notice = Notice { kind: notice::Kind::Interruption.into(), text: B.to_owned() };
    let bundle = LogBundle { verdict: String::new(), content: B.as_bytes().to_vec() };
    [Say::Hello(Hello::default()), Say::Report(report), Say::Notice(notice), Say::Bundle(bundle)]
        .map(|message| FollowRequest { message: Some(message) }.encode_to_vec())
        .to_vec()
}

#[tokio::test]
async fn nobody_touches_anything_of_another() {
    let world = World::start().await;
    let nodes = [Node::enrolled(A, &world).await, Node::enrolled(B, &world).await];
    assert!(rpcs().len() >= 18);
    for path in rpcs() {
        for (index, other) in [(0, instances()[1]), (1, instances()[0])] {
            let of_other = |world: &World| {
                world.memory.state(|state| {
                    let count = |name: &String| name == other;
                    let written = state.kept.iter().filter(|it| count(&it.0)).count()
                        + state.notices.iter().filter(|it| count(&it.0)).count()
                        + state.bundles.iter().filter(|it| count(&it.0)).count();
                    (written, state.launches[other].clone())
                })
            };
            let before = of_other(&world);
            let messages = if path.ends_with("/Follow") { speech() } else { vec![Vec::new()] };
            let answers = call(&nodes[index], &world, &path, messages).await;
            assert_eq!(of_other(&world), before, "{path} by {}", nodes[index].instance);
            if matches!(rule(&path), Some(Rule::Operator(_))) {
                assert_eq!(answers.as_ref().err().map(Status::code), Some(Code::PermissionDenied), "{path}");
            }
            for answer in answers.unwrap_or_default() {
                let text = String::from_utf8_lossy(&answer).into_owned();
                assert!(!text.contains(other), "{path} tells {} of {other}", nodes[index].instance);
            }
        }
    }
    let said = world.memory.state(|state| (state.kept.len(), state.notices.len(), state.bundles.len()));
    assert_eq!(said, (2, 2, 2), "each about itself");
}

#[tokio::test]
async fn who_has_not_enrolled_may_only_enrol() {
    let world = World::start().await;
    let node = Node::new(A);
    for path in rpcs() {
        let answer = call(&node, &world, &path, vec![Vec::new()]).await;
        match rule(&path).unwrap() {
            Rule::Node | Rule::Operator(_) => assert_eq!(answer.unwrap_err().code(), Code::Unauthenticated, "{path}"),
            Rule::AnyKey => assert_ne!(answer.err().map(|it| it.code()), Some(Code::Unauthenticated), "{path}"),
        }
    }
    let answer = call(&node, &world, "/grpc.channelz.v1.Channelz/GetServers", Vec::new()).await;
    assert_eq!((answer.unwrap_err().code(), world.refusals.of("UnknownRpc")), (Code::Unimplemented, 1));
}

#[tokio::test]
async fn a_certificate_is_of_no_use_at_another_address_or_for_another_cluster() {
    let world = World::start().await;
    let mut node = Node::enrolled(A, &world).await;
    let follow = "/muster.v1.NodeReports/Follow";
    assert!(call(&node, &world, follow, speech()).await.is_ok());
    node.from = [127, 0, 0, 9].into();
    assert_eq!(call(&node, &world, follow, speech()).await.unwrap_err().code(), Code::Unauthenticated, "stolen");
    let other_cluster = World::start().await;
    node.from = [127, 0, 0, 1].into();
    assert_eq!(call(&node, &other_cluster, follow, speech()).await.unwrap_err().code(), Code::Unauthenticated);
    assert_eq!((world.refusals.of("NotEnrolled"), other_cluster.refusals.of("NotEnrolled")), (1, 1));
    let copied = world.copied("green").await;
    assert_eq!(
        call(&node, &copied, follow, speech()).await.unwrap_err().code(),
        Code::Unauthenticated,
        "same authority"
    );
    let same = world.copied("blue").await;
    assert!(call(&node, &same, follow, speech()).await.is_ok(), "another replica");
}
