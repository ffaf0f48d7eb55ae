//! Operators: known by their tokens, for every RPC that is theirs; and nobody else.

use muster_gateway::{Limits, Question, Rule, rule};
use muster_proto::muster::diagnosis_client::DiagnosisClient;
use muster_proto::muster::{ExplainNodeRequest, ExplainPodRequest, VerdictsRequest, WhatIfRemovedRequest};
use tonic::transport::Channel;
use tonic::{Code, Request, Status};

use crate::identities::{call_with, rpcs};
use crate::node::Node;
use crate::world::{A, TOKENS, World};

pub(crate) fn with<T>(token: &str, message: T) -> Request<T> {
    let mut request = Request::new(message);
    request.metadata_mut().insert("authorization", format!("Bearer {token}").parse().unwrap());
    request
}

/// Whoever comes without a certificate.
pub(crate) async fn anonymous(world: &World) -> Channel {
    Node::anonymous().connect(world).await
}

#[tokio::test]
async fn whoever_the_api_server_lets_is_answered() {
    let world = World::start().await;
    let mut client = DiagnosisClient::new(anonymous(&world).await);
    let pod = ExplainPodRequest { namespace: String::new(), pod: "web-0".to_owned() };
    let answer = client.explain_pod(with(TOKENS[0], pod)).await.unwrap().into_inner().document.unwrap();
    assert!(answer.fields.contains_key("asked"));
    let node = ExplainNodeRequest { node: "ip-10-0-0-1.ec2.internal".to_owned() };
    client.explain_node(with(TOKENS[0], node)).await.unwrap();
    client.what_if_removed(with(TOKENS[0], WhatIfRemovedRequest { node: "n".to_owned() })).await.unwrap();
    client.verdicts(with(TOKENS[1], VerdictsRequest { name: String::new() })).await.unwrap();
    let asked = world.memory.state(|state| state.questions.clone());
    let text = |text: &str| text.to_owned();
    assert_eq!(
        asked,
        [
            Question::Pod(text("default/web-0")),
            Question::Node(text("ip-10-0-0-1.ec2.internal")),
            Question::Removal(text("n")),
            Question::Verdicts(None),
        ]
    );
    let nobody = client.verdicts(with(TOKENS[0], VerdictsRequest { name: text("nobody") })).await.unwrap_err();
    assert_eq!((nobody.code(), nobody.message()), (Code::NotFound, "there is nobody"));
    let nameless = client.explain_node(with(TOKENS[0], ExplainNodeRequest::default())).await.unwrap_err();
    assert_eq!((nameless.code(), nameless.message()), (Code::InvalidArgument, "node: is missing"));
}

#[tokio::test]
async fn every_rpc_of_operators_is_for_those_whom_the_api_server_lets_and_for_no_others() {
    let world = World::start().await;
    let node = Node::enrolled(A, &world).await;
    let theirs: Vec<String> = rpcs().into_iter().filter(|path| matches!(rule(path), Some(Rule::Operator(_)))).collect();
    assert!(theirs.len() >= 11, "{theirs:?}");
    for path in theirs {
        let code = async |node: &Node, token: Option<&str>| {
            let answer = call_with(node, &world, &path, vec![Vec::new()], token).await;
            answer.err().map(|status| Status::code(&status))
        };
        let stranger = Node::new(A);
        for one in [&Node::anonymous(), &stranger] {
            assert_eq!(code(one, None).await, Some(Code::Unauthenticated), "{path}");
            for unknown in ["made-up", "token-of-nobody"] {
                assert_eq!(code(one, Some(unknown)).await, Some(Code::Unauthenticated), "{path}");
            }
            let with_token = code(one, Some(TOKENS[0])).await;
            assert!(matches!(with_token, None | Some(Code::InvalidArgument)), "{path}: {with_token:?}");
        }
        let expected = (!path.ends_with("/Verdicts")).then_some(Code::PermissionDenied);
        assert_eq!(code(&Node::anonymous(), Some(TOKENS[1])).await, expected, "{path}");
        // A pod on a node may have the node's key, and a token of its own.
        assert_eq!(code(&node, Some(TOKENS[0])).await, Some(Code::PermissionDenied), "{path}");
        world.memory.state(|state| state.is_down = true);
        // Of ann it is remembered.
        assert_eq!(code(&stranger, Some("token-of-carl")).await, Some(Code::Unavailable), "{path}");
        world.memory.state(|state| state.is_down = false);
    }
    for code in ["NoToken", "TokenUnknown", "OperatorDenied", "NodeAsOperator"] {
        assert!(world.refusals.of(code) >= 3, "{code}");
    }
}

#[tokio::test]
async fn who_has_no_key_may_do_nothing_that_is_a_nodes_with_whatever_token() {
    let world = World::start().await;
    for path in rpcs().into_iter().filter(|path| !matches!(rule(path), Some(Rule::Operator(_)))) {
        let answer = call_with(&Node::anonymous(), &world, &path, vec![Vec::new()], Some(TOKENS[0])).await;
        assert_eq!(answer.unwrap_err().code(), Code::Unauthenticated, "{path}");
    }
    let unknown = call_with(&Node::anonymous(), &world, "/a.B/C", Vec::new(), Some(TOKENS[0])).await;
    assert_eq!(unknown.unwrap_err().code(), Code::Unimplemented);
}

#[tokio::test]
async fn strangers_have_the_api_server_review_no_more_than_so_many_tokens_in_a_second() {
    let world = World::with(Limits { reviews_per_second: 0, ..Limits::default() }).await;
    let mut client = DiagnosisClient::new(anonymous(&world).await);
    let refused = client.verdicts(with(TOKENS[0], VerdictsRequest::default())).await.unwrap_err();
    assert_eq!(refused.code(), Code::ResourceExhausted);
    assert_eq!(world.refusals.of("TooManyReviews"), 1);
    let tokenless = client.verdicts(VerdictsRequest::default()).await.unwrap_err();
    assert_eq!(tokenless.code(), Code::Unauthenticated, "that is not asked about");
}

#[tokio::test]
async fn what_is_no_token_takes_no_review_from_those_who_have_one() {
    let world = World::with(Limits { reviews_per_second: 1, stranger_calls: 100, ..Limits::default() }).await;
    let mut client = DiagnosisClient::new(anonymous(&world).await);
    for _ in 0..50 {
        let refused = client.verdicts(with("garbage", VerdictsRequest::default())).await.unwrap_err();
        assert_eq!(refused.code(), Code::Unauthenticated);
    }
    client.verdicts(with(TOKENS[0], VerdictsRequest::default())).await.unwrap();
    assert_eq!((world.refusals.of("TokenUnknown"), world.refusals.of("TooManyReviews")), (50, 0));
    assert_eq!(world.memory.state(|state| state.reviewed.len()), 1);
}
