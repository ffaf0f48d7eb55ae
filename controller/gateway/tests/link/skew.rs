//! Agents of other releases, as their own words have it: `proto/conversations`.

#[path = "../../../../proto/conversations/wire.rs"]
pub(crate) mod wire;

use std::path::Path;

use muster_gateway::Message as Read;
use muster_link::Nonce;
use muster_proto::muster::follow_request::Message as Say;
use muster_proto::muster::follow_response::Message as Hear;
use muster_proto::muster::{
    ChallengeResponse, EnrolResponse, Finding, FollowRequest, FollowResponse, NodeReport, Notice, PhaseState,
};
use prost::Message;
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject;
use tokio::sync::mpsc;
use tokio_stream::wrappers::ReceiverStream;
use tonic::transport::Channel;
use tonic::{Request, Streaming};
use wire::{Bytes, Said};

use crate::identities::call;
use crate::node::Node;
use crate::world::{A, World};

const CHALLENGE: &str = "/muster.v1.Enrolment/Challenge";
const ENROL: &str = "/muster.v1.Enrolment/Enrol";
const RENEW: &str = "/muster.v1.Enrolment/Renew";
const FOLLOW: &str = "/muster.v1.NodeReports/Follow";

fn of<'s>(all: &'s [Said], rpc: &str) -> Vec<&'s [u8]> {
    let found: Vec<_> = all.iter().filter(|it| it.rpc == rpc).map(|it| it.bytes.as_slice()).collect();
    assert!(!found.is_empty(), "nothing was said to {rpc}");
    found
}

/// A unary call as bytes.
async fn ask(node: &Node, world: &World, rpc: &str, message: &[u8]) -> Vec<u8> {
    let answers = call(node, world, rpc, vec![message.to_vec()]).await;
    answers.unwrap_or_else(|status| panic!("{rpc}: {status}")).remove(0)
}

/// The same over a connection that is there: a nonce is good on its own connection.
async fn ask_over(channel: &Channel, rpc: &str, message: &[u8]) -> Vec<u8> {
    let mut client = tonic::client::Grpc::new(channel.clone());
    client.ready().await.unwrap();
    let request = Request::new(tokio_stream::iter(vec![message.to_vec()]));
    let answers = client.streaming(request, rpc.parse().unwrap(), Bytes).await;
    let mut answers = answers.unwrap_or_else(|status| panic!("{rpc}: {status}")).into_inner();
    answers.message().await.unwrap_or_else(|status| panic!("{rpc}: {status}")).unwrap()
}

fn take(node: &mut Node, response: &[u8]) {
    let credential = EnrolResponse::decode(response).unwrap().credential.unwrap();
    node.certificate = CertificateDer::from_pem_slice(credential.certificate_chain.as_bytes()).unwrap();
}

/// Evidence as it was handed in, for another nonce and another key.
fn bound(node: &Node, request: &[u8], nonce: &Nonce) -> Vec<u8> {
    let request = wire::with(request, &[1], nonce.bytes());
    wire::with(&request, &[4], &node.proof("blue", nonce, &node.key_hash()).encode_to_vec())
}

/// A stream of bytes.
struct Stream {
    say: mpsc::Sender<Vec<u8>>,
    hear: Streaming<Vec<u8>>,
}

impl Stream {
    async fn open(node: &Node, world: &World) -> Self {
        let mut client = tonic::client::Grpc::new(node.connect(world).await);
        client.ready().await.unwrap();
        let (say, said) = mpsc::channel(16);
        let request = Request::new(ReceiverStream::new(said));
        let hear = client.streaming(request, FOLLOW.parse().unwrap(), Bytes).await.unwrap().into_inner();
        Self { say, hear }
    }

    /// Says it, and hears what is answered to what has an answer.
    async fn say(&mut self, message: &[u8], is_first: bool) -> Option<Vec<u8>> {
        self.say.send(message.to_vec()).await.unwrap();
        let sequence = match FollowRequest::decode(message).unwrap().message {
            Some(Say::Hello(_)) if is_first => None,
            Some(Say::Report(report)) => Some(report.sequence),
            _ => return None,
        };
        let answer = self.hear.message().await.unwrap_or_else(|status| panic!("{status}")).unwrap();
        match (FollowResponse::decode(answer.as_slice()).unwrap().message.unwrap(), sequence) {
            (Hear::Configuration(_), None) => {}
            (Hear::Acknowledgement(kept), Some(sequence)) => assert_eq!(kept.sequence, sequence),
            (other, _) => panic!("{other:?}"),
        }
        Some(answer)
    }
}

/// Plays an agent, whose every word is to be heard.
async fn hear(who: &str, said: &[Said]) {
    let world = World::start().await;
    let mut node = Node::new(A);
    let channel = node.connect(&world).await;
    let challenge = ask_over(&channel, CHALLENGE, of(said, CHALLENGE)[0]).await;
    let nonce = Nonce::read(&ChallengeResponse::decode(challenge.as_slice()).unwrap().nonce).unwrap();
    let response = ask_over(&channel, ENROL, &bound(&node, of(said, ENROL)[0], &nonce)).await;
    take(&mut node, &response);
    let mut stream = Stream::open(&node, &world).await;
    let messages = of(said, FOLLOW);
    for (index, message) in messages.iter().enumerate() {
        stream.say(message, index == 0).await;
    }
    let response = ask(&node, &world, RENEW, of(said, RENEW)[0]).await;
    take(&mut node, &response);
    Stream::open(&node, &world).await;

    let heard = messages.iter().map(|it| Read::read(FollowRequest::decode(*it).unwrap()).unwrap());
    let reports: Vec<_> =
        heard.filter_map(|it| if let Some(Read::Report(report)) = it { Some(report) } else { None }).collect();
    let notices = messages.iter().filter(|it| {
        let kind = FollowRequest::decode(**it).unwrap().message;
        matches!(kind, Some(Say::Notice(notice)) if notice.kind == 1 || notice.kind == 2)
    });
    let notices = notices.count();
    world.memory.until(|state| state.notices.len() == notices).await;
    let kept = world.memory.state(|state| state.kept.iter().map(|(_, report)| report.clone()).collect::<Vec<_>>());
    assert_eq!(kept, reports, "{who}");
    let verdicts = kept.iter().filter(|report| report.verdict.is_some()).count();
    let stages = kept.iter().map(|report| report.phases.len()).max();
    assert!(verdicts > 0 && stages >= Some(6), "{who}: the conversation has a verdict, and all stages");
    assert!(world.refusals.counted().is_empty(), "{who}: {:?}", world.refusals);
}

/// What an agent would say that knows more.
fn of_a_newer_agent(said: &[Said]) -> Vec<Said> {
    let mut newer = Vec::new();
    let mut last = None;
    let mut push = |rpc: &str, bytes: Vec<u8>| newer.push(Said { rpc: rpc.to_owned(), bytes });
    let follow = |message: Say| FollowRequest { message: Some(message) }.encode_to_vec();
    let wrapped = |bytes: &[u8]| wire::newer("muster.v1.FollowRequest", bytes);
    for Said { rpc, bytes } in said {
        match rpc.as_str() {
            CHALLENGE => push(rpc, wire::newer("muster.v1.ChallengeRequest", bytes)),
            ENROL => push(rpc, wire::newer("muster.v1.EnrolRequest", bytes)),
            RENEW => push(rpc, wire::newer("muster.v1.RenewRequest", bytes)),
            _ => {
                push(rpc, wrapped(bytes));
                push(rpc, wire::unknown_member());
                if let Some(Say::Report(report)) = FollowRequest::decode(bytes.as_slice()).unwrap().message {
                    last = Some(report);
                }
            }
        }
    }
    let mut report: NodeReport = last.unwrap();
    report.sequence += 1;
    report.phases.push(PhaseState { phase: 99, progress: 99, ..PhaseState::default() });
    report.phases.push(PhaseState { phase: 99, progress: 1, ..PhaseState::default() });
    report.findings.push(Finding { code: "ZZ99".to_owned(), severity: 99, phase: 99, ..Finding::default() });
    push(FOLLOW, wrapped(&follow(Say::Report(report))));
    push(FOLLOW, wrapped(&follow(Say::Notice(Notice { kind: 99, text: "news".to_owned() }))));
    newer
}

#[tokio::test]
async fn agents_of_older_and_newer_releases_are_heard() {
    for (version, folder) in wire::releases() {
        let said = wire::read(&folder.join("agent.txt"));
        hear(&version, &said).await;
        let newer = of_a_newer_agent(&said);
        assert!(newer.len() > said.len() + 2);
        hear(&format!("{version} and what is not known of it yet"), &newer).await;
    }
}

#[tokio::test]
#[ignore = "records today's release: proto/conversations/README.md"]
async fn record() {
    let world = World::start().await;
    let mut node = Node::new(A);
    let mut said = Vec::new();
    let mut note = |rpc: &str, bytes: Vec<u8>| said.push(Said { rpc: rpc.to_owned(), bytes });
    let channel = node.connect(&world).await;
    let challenge = ask_over(&channel, CHALLENGE, &[]).await;
    let nonce = Nonce::read(&ChallengeResponse::decode(challenge.as_slice()).unwrap().nonce).unwrap();
    note(CHALLENGE, challenge);
    let response = ask_over(&channel, ENROL, &node.evidence(&nonce).encode_to_vec()).await;
    take(&mut node, &response);
    note(ENROL, response);
    let mut stream = Stream::open(&node, &world).await;
    let follow = |message: Say| FollowRequest { message: Some(message) }.encode_to_vec();
    let hello = stream.say(&follow(Say::Hello(muster_proto::muster::Hello::default())), true).await;
    note(FOLLOW, hello.unwrap());
    for sequence in 1..=3 {
        let report = NodeReport { sequence, ..NodeReport::default() };
        note(FOLLOW, stream.say(&follow(Say::Report(report)), false).await.unwrap());
    }
    note(RENEW, ask(&node, &world, RENEW, &[]).await);
    let version = env!("CARGO_PKG_VERSION");
    let about = format!(
        "What the controller of {version} answers: a nonce, a certificate, what it wants of an agent (its pace, and whom to believe), that\n\
         three reports are kept, and the next certificate."
    );
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../proto/conversations").join(version);
    wire::write(&folder.join("controller.txt"), &about, &said);
}
