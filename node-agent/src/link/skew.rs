//! Replays recorded messages of controllers of other releases (`proto/conversations`) to this agent.

#[path = "../../../proto/conversations/wire.rs"]
mod wire;

use std::collections::{BTreeMap, VecDeque};
use std::convert::Infallible;
use std::path::Path;
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll};
use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use muster_bootstrap::agent_config::{Controller, Mode, Secret};
use muster_bootstrap::finding::Finding;
use muster_bootstrap::verdicts;
use muster_link::Pins;
use muster_proto::muster::follow_request::Message as Say;
use muster_proto::muster::follow_response::Message as Hear;
use muster_proto::muster::{EnrolResponse, FollowRequest, FollowResponse};
use prost::Message;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;
use tokio::sync::{mpsc, watch};
use tokio::task::JoinSet;
use tokio_stream::wrappers::{ReceiverStream, TcpListenerStream};
use tonic::body::Body;
use tonic::server::{Grpc, NamedService, StreamingService};
use tonic::transport::{Channel, Endpoint, Server};
use tonic::{Request, Response, Status, Streaming};
use tower::Service;
use wire::{Bytes, Said};

use super::Own;
use super::enrol::{Credential, Evidence};
use super::follow::{Beliefs, follow};
use super::keys::Keys;
use crate::boot_state::{BootState, Observation};
use crate::report::Report;

const ENROL: &str = "/muster.v1.Enrolment/Enrol";
const RENEW: &str = "/muster.v1.Enrolment/Renew";
const FOLLOW: &str = "/muster.v1.NodeReports/Follow";

/// Evidence of the gateway's tests; proto/conversations/README.md lists its replaced parts.
const DOCUMENT: &str = include_str!("../../../controller/link/tests/documents/ec2.b64");
const LAUNCH_TOKEN: &str = "mlt-of-a-4f9aQ2xR7b";

/// Server that replays a controller: answers each message with the next recorded answer of its RPC, and records
/// requests.
#[derive(Clone)]
struct Replay {
    answers: Arc<Mutex<BTreeMap<String, VecDeque<Vec<u8>>>>>,
    heard: mpsc::UnboundedSender<Said>,
}

impl Replay {
    fn next(&self, rpc: &str, heard: Vec<u8>) -> Vec<Vec<u8>> {
        let (rpc, bytes) = (rpc.to_owned(), heard);
        let mut answers = self.answers.lock().unwrap();
        let mut next: Vec<_> = answers.get_mut(&rpc).and_then(VecDeque::pop_front).into_iter().collect();
        // Unknown messages answer no request, and are sent with the preceding answer.
        while let Some(more) = answers.get_mut(&rpc).filter(|all| all.front() == Some(&wire::unknown_member())) {
            next.extend(more.pop_front());
        }
        let _nobody_listens = self.heard.send(Said { rpc, bytes });
        next
    }
}

/// One RPC of the replay.
struct Rpc(Replay, String);

impl StreamingService<Vec<u8>> for Rpc {
    type Response = Vec<u8>;
    type ResponseStream = ReceiverStream<Result<Vec<u8>, Status>>;
    type Future = std::future::Ready<Result<Response<Self::ResponseStream>, Status>>;

    fn call(&mut self, request: Request<Streaming<Vec<u8>>>) -> Self::Future {
        let (said, saying) = mpsc::channel(16);
        let (replay, rpc, mut messages) = (self.0.clone(), self.1.clone(), request.into_inner());
        tokio::spawn(async move {
            while let Ok(Some(message)) = messages.message().await {
                for answer in replay.next(&rpc, message) {
                    let _it_has_ended = said.send(Ok(answer)).await;
                }
            }
        });
        std::future::ready(Ok(Response::new(ReceiverStream::new(saying))))
    }
}

/// One service of the replay, by name.
#[derive(Clone)]
struct Named<const IS_STREAM: bool>(Replay);

impl NamedService for Named<false> {
    const NAME: &'static str = "muster.v1.Enrolment";
}

impl NamedService for Named<true> {
    const NAME: &'static str = "muster.v1.NodeReports";
}

impl<const IS_STREAM: bool> Service<tonic::codegen::http::Request<Body>> for Named<IS_STREAM> {
    type Response = tonic::codegen::http::Response<Body>;
    type Error = Infallible;
    type Future = tonic::codegen::BoxFuture<Self::Response, Infallible>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: tonic::codegen::http::Request<Body>) -> Self::Future {
        let rpc = Rpc(self.0.clone(), request.uri().path().to_owned());
        Box::pin(async move { Ok(Grpc::new(Bytes).streaming(rpc, request).await) })
    }
}

/// Serves the instance metadata that an enrolment reads.
async fn metadata() -> (String, JoinSet<()>) {
    let listener = TcpListener::bind(("127.0.0.1", 0)).await.unwrap();
    let endpoint = format!("http://{}", listener.local_addr().unwrap());
    let credentials = r#"{"AccessKeyId": "ASIA0123456789abcdef0", "SecretAccessKey": "x", "Token": "y"}"#;
    let mut tasks = JoinSet::new();
    tasks.spawn(async move {
        while let Ok((mut stream, _)) = listener.accept().await {
            let mut asked = Vec::new();
            while stream.read_buf(&mut asked).await.unwrap() > 0 {
                while let Some(end) = asked.windows(4).position(|four| four == b"\r\n\r\n") {
                    let line: Vec<u8> = asked.drain(..end + 4).take_while(|byte| *byte != b'\r').collect();
                    let line = String::from_utf8(line).unwrap();
                    let body = match line.split(' ').nth(1).unwrap() {
                        "/latest/api/token" => "token",
                        "/latest/dynamic/instance-identity/rsa2048" => DOCUMENT,
                        "/latest/meta-data/iam/security-credentials/" => "NodeRole",
                        "/latest/meta-data/iam/security-credentials/NodeRole" => credentials,
                        other => panic!("{other}"),
                    };
                    let answer = format!("HTTP/1.1 200 OK\r\ncontent-length: {}\r\n\r\n{body}", body.len());
                    stream.write_all(answer.as_bytes()).await.unwrap();
                }
            }
        }
    });
    (endpoint, tasks)
}

/// A node connected to a replayed controller.
struct Conversation {
    channel: Channel,
    heard: mpsc::UnboundedReceiver<Said>,
    controller: Controller,
    metadata: String,
    tasks: JoinSet<()>,
    folder: tempfile::TempDir,
}

impl Conversation {
    async fn with(said: Vec<Said>) -> Self {
        let mut answers = BTreeMap::<String, VecDeque<Vec<u8>>>::new();
        said.into_iter().for_each(|one| answers.entry(one.rpc).or_default().push_back(one.bytes));
        let (heard_tx, heard) = mpsc::unbounded_channel();
        let replay = Replay { answers: Arc::new(Mutex::new(answers)), heard: heard_tx };
        let listener = TcpListener::bind(("127.0.0.1", 0)).await.unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let (metadata, mut tasks) = metadata().await;
        let server = Server::builder().add_service(Named::<false>(replay.clone())).add_service(Named::<true>(replay));
        tasks.spawn(async move { server.serve_with_incoming(TcpListenerStream::new(listener)).await.unwrap() });
        let controller = Controller {
            address: "unused:9443".to_owned(),
            certificate_authority: "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n".to_owned(),
            launch_token: Secret::new(LAUNCH_TOKEN),
        };
        let channel = Endpoint::from_shared(url).unwrap().connect().await.unwrap();
        Self { channel, heard, controller, metadata, tasks, folder: tempfile::tempdir().unwrap() }
    }

    /// Enrols, streams reports as `play` changes them, and renews. Returns all messages sent by the agent.
    async fn live(
        mut self,
        keys: &mut Keys,
        play: impl AsyncFnOnce(&watch::Sender<Report>, &mut Listener),
    ) -> Vec<Said> {
        let (controller, region) = (&self.controller, "eu-west-1");
        let node = Own { metadata_endpoint: self.metadata.clone() };
        let evidence = Evidence { controller, region, node: &node, keys };
        let mut credential: Credential = evidence.enrol(&self.channel, 0).await.unwrap();
        assert!(credential.is_good() && credential.chain().contains("BEGIN CERTIFICATE"));
        let (reports_tx, mut reports) = watch::channel(boot_state().report(now()));
        let beliefs = Beliefs { keys, written: &controller.certificate_authority };
        let mut listener = Listener { heard: &mut self.heard, all: Vec::new() };
        tokio::select! {
            ended = follow(&self.channel, &mut credential, beliefs, &mut reports, &node) => panic!("{:?}", ended.err()),
            () = play(&reports_tx, &mut listener) => {}
        }
        credential.renew(&self.channel).await.unwrap();
        assert!(credential.is_good());
        listener.until(|said| said.rpc == RENEW).await;
        let all = std::mem::take(&mut listener.all);
        self.tasks.shutdown().await;
        all
    }
}

/// Messages received from the agent so far.
struct Listener<'h> {
    heard: &'h mut mpsc::UnboundedReceiver<Said>,
    all: Vec<Said>,
}

impl Listener<'_> {
    /// Waits for a message. Earlier ones count too, since the order of messages is not guaranteed.
    async fn until(&mut self, is_it: impl Fn(&Said) -> bool) {
        if self.all.iter().any(&is_it) {
            return;
        }
        loop {
            let said = self.heard.recv().await.unwrap();
            let is_last = is_it(&said);
            self.all.push(said);
            if is_last {
                return;
            }
        }
    }

    /// Waits for a message of the stream that satisfies `is_it`.
    async fn message(&mut self, is_it: impl Fn(Say) -> bool) {
        let of = |said: &Said| FollowRequest::decode(said.bytes.as_slice()).unwrap().message.is_some_and(&is_it);
        self.until(|said| said.rpc == FOLLOW && of(said)).await;
    }
}

fn now() -> Timestamp {
    "2026-11-22T20:00:00Z".parse().unwrap()
}

fn boot_state() -> BootState {
    BootState::new(Mode::Delegate, false, "7d9c3f0e-2f0e-4a53-9f0a-5f2c1d7f6b11".to_owned(), now())
}

/// Replaces the validity of recorded credentials by one that starts now.
fn of_today(said: Vec<Said>) -> Vec<Said> {
    let at = |hours| {
        let moment = Timestamp::now() + SignedDuration::from_hours(hours);
        prost_types::Timestamp { seconds: moment.as_second(), nanos: 0 }.encode_to_vec()
    };
    let fresh = |said: Said| match said.rpc.as_str() {
        ENROL | RENEW => {
            let bytes = wire::with(&wire::with(&said.bytes, &[1, 2], &at(2)), &[1, 3], &at(4));
            Said { bytes, ..said }
        }
        _ => said,
    };
    said.into_iter().map(fresh).collect()
}

/// Adds what a newer controller might send.
fn of_a_newer_controller(said: &[Said]) -> Vec<Said> {
    let mut newer = Vec::new();
    for Said { rpc, bytes } in said {
        let (_, method) = rpc.rsplit_once('/').unwrap();
        let bytes = wire::newer(&format!("muster.v1.{method}Response"), bytes);
        newer.push(Said { rpc: rpc.clone(), bytes });
        if rpc == FOLLOW {
            newer.push(Said { rpc: rpc.clone(), bytes: wire::unknown_member() });
        }
    }
    newer
}

/// Replays a controller and checks that the agent obeys each of its messages.
async fn heed(who: &str, said: Vec<Said>, keys: &mut Keys) {
    let wanted = said.iter().filter(|it| it.rpc == FOLLOW).find_map(|it| {
        match FollowResponse::decode(it.bytes.as_slice()).unwrap().message {
            Some(Hear::Configuration(wanted)) => Some(wanted),
            _ => None,
        }
    });
    let wanted = wanted.unwrap();
    let pins = Pins::of_pem(&wanted.authorities);
    let chain = said.iter().find(|it| it.rpc == ENROL).unwrap();
    let chain = EnrolResponse::decode(chain.bytes.as_slice()).unwrap().credential.unwrap().certificate_chain;
    assert!(chain.contains("BEGIN CERTIFICATE"), "{who}");
    let heard = Conversation::with(of_today(said)).await.live(keys, async |reports, listener| {
        listener.message(|message| matches!(message, Say::Report(_))).await;
        if let Some(pins) = &pins {
            let believes = |message| {
                matches!(message, Say::Hello(hello)
                if Pins::of_bytes(hello.authorities.iter().map(Vec::as_slice)) == *pins)
            };
            listener.message(believes).await;
        }
        let mut boot_state = boot_state();
        let fault = Finding::new(&verdicts::UD12, "`containerd` cannot be started", None);
        boot_state.observe(Observation::Native(Err(Box::new(fault))), now());
        reports.send_replace(boot_state.report(now()));
        let is_told =
            |message| matches!(message, Say::Report(report) if report.findings.iter().any(|it| it.code == "UD12"));
        listener.message(is_told).await;
    });
    let heard = heard.await;
    assert!(heard.iter().any(|it| it.rpc == RENEW), "{who}");
    if !wanted.authorities.is_empty() {
        assert_eq!(keys.believed("-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n"), wanted.authorities);
    }
}

#[tokio::test]
async fn controllers_of_older_and_newer_releases_are_heeded() {
    for (version, folder) in wire::releases() {
        let said = wire::read(&folder.join("controller.txt"));
        let newer = of_a_newer_controller(&said);
        for (who, said) in [(version.clone(), said), (format!("{version} and what is not known of it yet"), newer)] {
            let state = tempfile::tempdir().unwrap();
            heed(&who, said, &mut Keys::of_boot(state.path(), "boot").unwrap()).await;
        }
    }
}

#[test]
fn what_an_older_agent_has_kept_is_read() {
    for (version, folder) in wire::releases() {
        let state = tempfile::tempdir().unwrap();
        std::fs::copy(folder.join("link.json"), state.path().join("link.json")).unwrap();
        let before = Keys::of_boot(state.path(), "boot").unwrap().hash();
        let again = Keys::of_boot(state.path(), "boot").unwrap().hash();
        assert_eq!(before, again);
        let rebooted = Keys::of_boot(state.path(), "the next boot").unwrap();
        assert_ne!(rebooted.hash(), before);
        let vouched = rebooted.vouched_for(&muster_link::Nonce::new([1; 32]), 0).unwrap();
        assert_eq!(muster_link::KeyHash::of(&vouched.public_key), before, "{version}: the key was read, and vouches");
    }
}

#[tokio::test]
#[ignore = "records today's release: proto/conversations/README.md"]
async fn record_this_agent() {
    let version = env!("CARGO_PKG_VERSION");
    let (_, folder) = wire::releases().into_iter().find(|(of, _)| of == version).unwrap();
    let said = of_today(wire::read(&folder.join("controller.txt")));
    let conversation = Conversation::with(said).await;
    let mut keys = Keys::of_boot(conversation.folder.path(), "boot").unwrap();
    std::fs::copy(conversation.folder.path().join("link.json"), folder.join("link.json")).unwrap();
    let heard = conversation.live(&mut keys, async |reports, listener| {
        let has = |code: &'static str| move |message| matches!(message, Say::Report(report) if report.verdict == code);
        listener.message(|message| matches!(message, Say::Hello(hello) if !hello.authorities.is_empty())).await;
        listener.message(has("")).await;
        let mut boot_state = boot_state();
        boot_state.observe(Observation::Notice(crate::boot_state::Notice::Interruption("{}".to_owned())), now());
        reports.send_replace(boot_state.report(now()));
        listener.message(|message| matches!(message, Say::Notice(_))).await;
        let fault = Finding::new(&verdicts::UD12, "`containerd` cannot be started", None);
        boot_state.observe(Observation::Native(Err(Box::new(fault))), now());
        reports.send_replace(boot_state.report(now()));
        listener.message(has("UD12")).await;
    });
    let heard = tokio::time::timeout(Duration::from_secs(60), heard).await.unwrap();
    let about = format!(
        "What the agent of {version} says: a nonce is asked for, evidence handed in; then who it is and whom it believes, its stages, that its\n\
         instance is taken back, a fault, that this is the end of the node once it has stood for a while, and the next certificate is asked for."
    );
    wire::write(Path::new(&folder.join("agent.txt")), &about, &heard);
}
