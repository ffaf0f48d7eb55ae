//! A node that has enrolled and takes what it can get, and operators' tokens that are none.

use std::time::Duration;

use muster_gateway::{Limits, Rate};
use muster_proto::muster::diagnosis_client::DiagnosisClient;
use muster_proto::muster::enrolment_client::EnrolmentClient;
use muster_proto::muster::follow_request::Message as Say;
use muster_proto::muster::follow_response::Message as Hear;
use muster_proto::muster::{Hello, RenewRequest, VerdictsRequest};
use tonic::Code;

use crate::node::Node;
use crate::operators::with;
use crate::reports::Talk;
use crate::world::{A, B, TOKENS, World, hasty};

#[tokio::test]
async fn a_nodes_allowance_is_the_same_over_all_its_streams() {
    let limits = Limits { connections_of_address: 100, report_interval: Duration::ZERO, ..hasty() };
    let world = World::with(limits).await;
    let node = Node::enrolled(A, &world).await;
    // Another stream each time, with other pins each time: each would be a write.
    let mut opened = 0_u8;
    let refused = loop {
        let mut talk = match Talk::try_open(&node, &world).await {
            Ok(talk) => talk,
            Err(status) => break status,
        };
        opened += 1;
        let pins = Hello { authorities: vec![vec![opened; 32]], ..Hello::default() };
        talk.say(Say::Hello(pins)).await;
        talk.report(u64::from(opened)).await;
        // Until it was heard, or the stream was refused what it asks.
        while let Ok(Some(answer)) = talk.hear.message().await {
            if matches!(answer.message, Some(Hear::Acknowledgement(_))) {
                break;
            }
        }
        assert!(opened < 60, "it is never too much");
    };
    assert_eq!((refused.code(), world.refusals.of("TooManyStreams")), (Code::ResourceExhausted, 1));
    // Each stream has begun with a greeting that says nothing new.
    let (greeted, kept) = world.memory.state(|state| (state.greeted, state.kept.len()));
    assert!(greeted <= usize::from(opened) + 4, "{greeted} of {opened}");
    assert!(kept <= usize::from(opened), "{kept}");
    assert!(world.refusals.of("TooManyPins") > 0);
    // Another node has its own.
    let other = Node::enrolled(B, &world).await;
    Talk::open(&other, &world).await;
}

#[tokio::test]
async fn a_certificate_is_renewed_only_after_a_while() {
    let world = World::with(Limits { certificate_interval: Duration::from_secs(3600), ..hasty() }).await;
    let mut node = Node::new(A);
    let first = node.enrol(&world).await.unwrap().certificate_chain;
    let asked = |world: &World| world.memory.state(|state| (state.described_times, state.asked));
    let before = asked(&world);
    for _ in 0..5 {
        let mut client = EnrolmentClient::new(node.connect(&world).await);
        let renewed = client.renew(RenewRequest {}).await.unwrap().into_inner().credential.unwrap();
        assert_eq!(renewed.certificate_chain, first);
        assert_eq!(node.enrol(&world).await.unwrap().certificate_chain, first, "the answer was lost");
    }
    assert_eq!(asked(&world), before, "nobody was asked");
}

#[tokio::test]
async fn unknown_tokens_cost_their_sender_and_good_ones_are_remembered() {
    let unknown_tokens = Rate::new(2, Duration::from_secs(3600));
    let world = World::with(Limits { unknown_tokens, ..hasty() }).await;
    let ask = async |node: &Node, token: &str| {
        let mut client = DiagnosisClient::new(node.connect(&world).await);
        client.verdicts(with(token, VerdictsRequest::default())).await.err().map(|status| status.code())
    };
    let (hostile, mut ann) = (Node::anonymous(), Node::anonymous());
    ann.from = [127, 0, 0, 7].into();
    for expected in [Code::Unauthenticated, Code::Unauthenticated, Code::ResourceExhausted] {
        assert_eq!(ask(&hostile, "token-of-nobody").await, Some(expected));
    }
    assert_eq!(world.refusals.of("TooManyUnknownTokens"), 1);
    for _ in 0..5 {
        assert_eq!(ask(&ann, TOKENS[0]).await, None);
    }
    assert_eq!(world.memory.state(|state| state.reviewed.len()), 3, "two of nobody, and one of ann");
}
