//! A node's stream.

use std::time::Duration;

use muster_gateway::{Limits, NoticeKind, Phase, Progress, Severity};
use muster_proto::muster::follow_request::Message as Say;
use muster_proto::muster::follow_response::Message as Hear;
use muster_proto::muster::{self as wire, FollowRequest, FollowResponse, Hello, NodeReport};
use tokio::sync::mpsc;
use tokio_stream::wrappers::ReceiverStream;
use tonic::{Code, Status, Streaming};

use crate::node::Node;
use crate::world::{A, B, World};

/// A stream from the node's end.
#[derive(Debug)]
pub(crate) struct Talk {
    pub(crate) say: mpsc::Sender<FollowRequest>,
    pub(crate) hear: Streaming<FollowResponse>,
}

impl Talk {
    pub(crate) async fn open(node: &Node, world: &World) -> Self {
        Self::try_open(node, world).await.unwrap()
    }

    pub(crate) async fn try_open(node: &Node, world: &World) -> Result<Self, Status> {
        let (say, said) = mpsc::channel(256);
        say.send(FollowRequest { message: Some(Say::Hello(Hello::default())) }).await.unwrap();
        let hear = node.reports(world).await.follow(ReceiverStream::new(said)).await?.into_inner();
        Ok(Self { say, hear })
    }

    pub(crate) async fn say(&self, message: Say) {
        self.say.send(FollowRequest { message: Some(message) }).await.unwrap();
    }

    pub(crate) async fn report(&self, sequence: u64) {
        self.say(Say::Report(NodeReport { sequence, ..NodeReport::default() })).await;
    }

    async fn hear(&mut self) -> Hear {
        self.hear.message().await.unwrap().unwrap().message.unwrap()
    }

    /// Waits until this report is kept.
    async fn kept(&mut self, sequence: u64) {
        loop {
            match self.hear().await {
                Hear::Acknowledgement(kept) if kept.sequence == sequence => return,
                Hear::Acknowledgement(kept) => assert!(kept.sequence < sequence),
                Hear::Configuration(_) => {}
                other => panic!("{other:?}"),
            }
        }
    }

    /// How the stream ends.
    pub(crate) async fn end(&mut self) -> Status {
        loop {
            match self.hear.message().await {
                Ok(Some(_)) => {}
                Ok(None) => return Status::ok("ended"),
                Err(status) => return status,
            }
        }
    }
}

#[tokio::test]
async fn what_a_node_says_is_kept_and_then_acknowledged() {
    let world = World::start().await;
    let node = Node::enrolled(A, &world).await;
    let mut talk = Talk::open(&node, &world).await;
    assert!(matches!(talk.hear().await, Hear::Configuration(_)));
    let finding = wire::Finding {
        code: "KA07".to_owned(),
        severity: wire::Severity::Error.into(),
        phase: wire::Phase::Preflight.into(),
        message: "the startup taint\nis lost".to_owned(),
        ..wire::Finding::default()
    };
    let phase = wire::PhaseState {
        phase: wire::Phase::Preflight.into(),
        progress: wire::Progress::Failed.into(),
        ..wire::PhaseState::default()
    };
    let of_the_future = wire::PhaseState { phase: 99, progress: 1, ..wire::PhaseState::default() };
    let report = NodeReport {
        sequence: 7,
        verdict: "KA07".to_owned(),
        findings: vec![finding],
        phases: vec![phase, of_the_future],
        ..NodeReport::default()
    };
    talk.say(Say::Report(report)).await;
    talk.kept(7).await;
    let (instance, kept) = world.memory.state(|state| state.kept[0].clone());
    assert_eq!((instance.as_str(), kept.verdict.as_deref()), (A, Some("KA07")));
    assert_eq!(kept.findings[0].message, "the startup taint is lost", "one line");
    assert_eq!(kept.findings[0].severity, Severity::Error);
    let phases: Vec<_> = kept.phases.iter().map(|it| (it.phase, it.progress)).collect();
    assert_eq!(phases, [(Phase::Preflight, Progress::Failed)], "a stage of a newer agent is passed over");

    talk.report(6).await;
    talk.say(Say::Notice(wire::Notice { kind: wire::notice::Kind::Interruption.into(), text: "{}".to_owned() })).await;
    talk.say(Say::Bundle(wire::LogBundle { verdict: "KA07".to_owned(), content: b"lines".to_vec() })).await;
    world.memory.until(|state| state.bundles.len() == 1).await;
    let (kept, notice) = world.memory.state(|state| (state.kept.len(), state.notices[0].1.kind));
    assert_eq!((kept, notice), (1, NoticeKind::Interruption), "an older report is passed over");
}

#[tokio::test]
async fn only_the_latest_of_many_reports_is_kept() {
    let limits = Limits { report_interval: Duration::from_secs(1), ..Limits::default() };
    let world = World::with(limits).await;
    let node = Node::enrolled(A, &world).await;
    let mut talk = Talk::open(&node, &world).await;
    for sequence in 1..=50 {
        talk.report(sequence).await;
    }
    talk.kept(50).await;
    let kept = world.memory.state(|state| state.kept.len());
    assert!(kept <= 3, "{kept} of 50 were written");
}

#[tokio::test]
async fn a_node_has_one_stream_the_newest() {
    let world = World::start().await;
    let node = Node::enrolled(A, &world).await;
    let mut first = Talk::open(&node, &world).await;
    first.report(1).await;
    first.kept(1).await;
    let mut second = Talk::open(&node, &world).await;
    second.report(2).await;
    second.kept(2).await;
    assert_eq!(first.end().await.code(), Code::Aborted);
    second.report(3).await;
    second.kept(3).await;
}

#[tokio::test]
async fn a_certificate_that_is_taken_back_ends_the_stream() {
    let world = World::start().await;
    let node = Node::enrolled(A, &world).await;
    let mut talk = Talk::open(&node, &world).await;
    talk.report(1).await;
    talk.kept(1).await;
    world.memory.state(|state| drop(state.launches.remove(A)));
    talk.report(2).await;
    assert_eq!(talk.end().await.code(), Code::Unauthenticated);
    assert_eq!(world.memory.state(|state| state.kept.len()), 1);
}

#[tokio::test]
async fn a_replica_that_ends_keeps_what_was_said_and_sends_its_nodes_elsewhere() {
    let limits = Limits { report_interval: Duration::from_secs(3600), ..Limits::default() };
    let world = World::with(limits).await;
    let node = Node::enrolled(A, &world).await;
    let mut talk = Talk::open(&node, &world).await;
    talk.report(1).await;
    talk.kept(1).await;
    talk.report(2).await;
    // It is read before the gateway ends: the notice comes after it.
    talk.say(Say::Notice(wire::Notice { kind: wire::notice::Kind::Rebalance.into(), text: String::new() })).await;
    world.memory.until(|state| state.notices.len() == 1).await;
    let end = tokio::spawn(async move { talk.end().await });
    let memory = world.stop().await;
    assert_eq!(end.await.unwrap().code(), Code::Unavailable);
    assert_eq!(memory.state(|state| state.kept.iter().map(|it| it.1.sequence).collect::<Vec<_>>()), [1, 2]);
}

#[tokio::test]
async fn what_cannot_be_kept_is_not_acknowledged() {
    let world = World::start().await;
    let node = Node::enrolled(A, &world).await;
    let mut talk = Talk::open(&node, &world).await;
    world.memory.state(|state| state.is_down = true);
    talk.report(1).await;
    assert_eq!(talk.end().await.code(), Code::Unavailable, "the node says it again elsewhere");
}

fn fatal(sequence: u64, code: &str) -> Say {
    let finding = wire::Finding { code: code.to_owned(), ..wire::Finding::default() };
    Say::Report(NodeReport { sequence, verdict: code.to_owned(), findings: vec![finding], ..NodeReport::default() })
}

#[tokio::test]
async fn who_fails_is_asked_for_its_logs_once_for_each_verdict_if_they_are_wanted() {
    let world = World::start().await;
    world.memory.state(|state| state.wants_logs_of = Some(A.to_owned()));
    let node = Node::enrolled(A, &world).await;
    let mut talk = Talk::open(&node, &world).await;
    assert!(matches!(talk.hear().await, Hear::Configuration(_)));
    talk.report(1).await;
    talk.kept(1).await;
    talk.say(fatal(2, "KA07")).await;
    talk.kept(2).await;
    assert!(matches!(talk.hear().await, Hear::SendBundle(_)), "once it is kept");
    // The same again is no news; another one is.
    talk.say(fatal(3, "KA07")).await;
    talk.kept(3).await;
    talk.say(fatal(4, "UD12")).await;
    talk.kept(4).await;
    assert!(matches!(talk.hear().await, Hear::SendBundle(_)));
    let content = b"lines".to_vec();
    talk.say(Say::Bundle(wire::LogBundle { verdict: "UD12".to_owned(), content: content.clone() })).await;
    world.memory.until(|state| !state.bundles.is_empty()).await;
    let (told, bundles) = world.memory.state(|state| (state.fatal.clone(), state.bundles.clone()));
    assert_eq!(told, [(A.to_owned(), "KA07".to_owned()), (A.to_owned(), "UD12".to_owned())]);
    assert_eq!((bundles[0].0.as_str(), &bundles[0].1.content), (A, &content));

    // Of others they are not wanted.
    let other = Node::enrolled(B, &world).await;
    let mut talk = Talk::open(&other, &world).await;
    talk.say(fatal(1, "KA07")).await;
    talk.kept(1).await;
    talk.report(2).await;
    talk.kept(2).await;
}

#[tokio::test]
async fn a_verdict_that_could_not_be_looked_at_is_looked_at_with_the_next_report() {
    let world = World::start().await;
    world.memory.state(|state| (state.wants_logs_of, state.asks_again) = (Some(A.to_owned()), true));
    let node = Node::enrolled(A, &world).await;
    let mut talk = Talk::open(&node, &world).await;
    assert!(matches!(talk.hear().await, Hear::Configuration(_)));
    talk.say(fatal(1, "KA07")).await;
    talk.kept(1).await;
    world.memory.until(|state| state.fatal.len() == 1).await;
    world.memory.state(|state| state.asks_again = false);
    talk.say(fatal(2, "KA07")).await;
    talk.kept(2).await;
    assert!(matches!(talk.hear().await, Hear::SendBundle(_)));
    assert_eq!(world.memory.state(|state| state.fatal.len()), 2);
}
