//! An enrolled node that says as much as it can and never the same: what is written because of it is bounded, and other
//! nodes feel nothing of it.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use muster_link::{KeyHash, Nonce};
use muster_proto::muster::enrolment_client::EnrolmentClient;
use muster_proto::muster::follow_request::Message as Say;
use muster_proto::muster::node_reports_client::NodeReportsClient;
use muster_proto::muster::{self as wire, ChallengeRequest, FollowRequest, Hello, NodeReport, RenewRequest};
use muster_tests::agents::{Agents, Claim, Machine, make_ready};
use rcgen::{KeyPair, PublicKeyData};
use rustls::ClientConfig;
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject;
use tokio::sync::mpsc;
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep, timeout};
use tokio_stream::wrappers::ReceiverStream;
use tonic::transport::Channel;

use super::client::{channel, config, unknown};
use super::ground::Ground;
use super::scale::{CALM, MOST, verdicts};

/// The fault that it says it has: another than those of honest nodes.
const LIE: &str = "KA07";
/// Connections that it has at once: as many as an address may have.
const CONNECTIONS: usize = 8;
/// Reports of a stream, each of which contradicts the one before.
const REPORTS: u64 = 8;
/// Pause after a refusal, as a client makes it that wants to be let in again soon.
const AGAIN: Duration = Duration::from_millis(50);
/// Longest wait for an answer.
const ANSWER: Duration = Duration::from_secs(2);
/// Writes that the allowances of a node let through at once: reports, pins, and what follows from them.
const BURST: u64 = 40;

/// A node that lies.
struct Liar {
    machine: Arc<Machine>,
    to: SocketAddr,
    config: Arc<ClientConfig>,
    said: AtomicUsize,
}

impl Liar {
    /// The machine of this number, enrolled with evidence that is in order.
    async fn enrolled(ground: &Ground, number: usize) -> Arc<Self> {
        let (machine, evidence) = (Arc::clone(&ground.machines[number]), ground.evidence().swap_remove(number));
        let (to, authority) = (ground.address().parse().unwrap(), ground.believed().await);
        let key = KeyPair::generate().unwrap();
        let known = channel(&config(&authority, &key, unknown(&key)), machine.address, to).await.unwrap();
        let mut client = EnrolmentClient::new(known);
        let challenge = client.challenge(ChallengeRequest {}).await.unwrap().into_inner();
        let nonce = Nonce::read(&challenge.nonce).unwrap();
        let hash = KeyHash::of(&key.subject_public_key_info());
        let request = evidence.request(&challenge.cluster, &nonce, &hash);
        let credential = client.enrol(request).await.unwrap().into_inner().credential.unwrap();
        let chain = CertificateDer::pem_slice_iter(credential.certificate_chain.as_bytes());
        let chain = chain.collect::<Result<Vec<_>, _>>().unwrap();
        Arc::new(Self { machine, to, config: config(&authority, &key, chain), said: AtomicUsize::new(0) })
    }

    /// Lies on all connections at once, `times` times on each.
    async fn lie(self: &Arc<Self>, times: usize) {
        let mut all = JoinSet::new();
        for number in 0..CONNECTIONS {
            let this = Arc::clone(self);
            all.spawn(async move {
                for time in 0..times {
                    // It has a rate, and comes again as soon as it is let in.
                    let channel = loop {
                        match channel(&this.config, this.machine.address, this.to).await {
                            Ok(channel) => break channel,
                            Err(_) => sleep(AGAIN).await,
                        }
                    };
                    this.talk(channel, number * 1_000_000 + time * 1_000).await;
                }
            });
        }
        while let Some(ended) = all.join_next().await {
            ended.unwrap();
        }
    }

    /// One stream: whom it believes, how it is, that EC2 takes it back, its logs; and a certificate is asked for.
    async fn talk(&self, channel: Channel, first: usize) {
        let (say, said) = mpsc::channel(64);
        let pins = vec![(0..32).map(|byte| first.to_le_bytes().get(byte).copied().unwrap_or(7)).collect()];
        let hello = Hello { agent_version: "9.9.9".to_owned(), boot_id: first.to_string(), authorities: pins };
        let notice = wire::Notice { kind: wire::notice::Kind::Interruption.into(), text: format!("{first}") };
        let bundle = wire::LogBundle { verdict: LIE.to_owned(), content: vec![b'x'; 64 * 1024] };
        let reports = (1..=REPORTS).map(|number| Say::Report(self.report(first, number)));
        let all = [Say::Hello(hello)].into_iter().chain(reports).chain([Say::Notice(notice), Say::Bundle(bundle)]);
        for message in all {
            self.said.fetch_add(1, Ordering::Relaxed);
            say.send(FollowRequest { message: Some(message) }).await.unwrap();
        }
        let mut certificates = EnrolmentClient::new(channel.clone());
        let _same_as_before = timeout(ANSWER, certificates.renew(RenewRequest {})).await;
        let opened = NodeReportsClient::new(channel).follow(ReceiverStream::new(said)).await;
        let Ok(answers) = opened else {
            sleep(AGAIN).await;
            return;
        };
        let mut answers = answers.into_inner();
        // Until it is told nothing more.
        while let Ok(Ok(Some(_))) = timeout(ANSWER, answers.message()).await {}
    }

    /// Every second report has a fault, and each another text.
    fn report(&self, first: usize, number: u64) -> NodeReport {
        let is_broken = number.is_multiple_of(2);
        let finding = wire::Finding {
            code: LIE.to_owned(),
            severity: wire::Severity::Error.into(),
            phase: wire::Phase::Kubelet.into(),
            message: format!("lie {first} {number}"),
            evidence_source: "/proc/swaps".to_owned(),
            evidence: "x".repeat(1_000),
            ..wire::Finding::default()
        };
        NodeReport {
            sequence: number,
            node_name: self.machine.node.clone(),
            verdict: if is_broken { LIE.to_owned() } else { String::new() },
            findings: if is_broken { vec![finding] } else { Vec::new() },
            waiting_for: format!("lie {first} {number}"),
            ..NodeReport::default()
        }
    }

    fn said(&self) -> usize {
        self.said.load(Ordering::Relaxed)
    }
}

/// A ground with so many honest nodes that are well, and the liar, whose Node is Ready like theirs.
async fn with_liar(ground: &Ground, honest: usize) -> (Agents, Arc<Liar>) {
    let mut agents = ground.agents().await;
    agents.start_next(honest);
    ground.claims.until("all agents are ready", honest, MOST, Claim::is_ready).await.unwrap();
    let liar = Liar::enrolled(ground, honest).await;
    make_ready(&ground.client(), &ground.machines).await.unwrap();
    (agents, liar)
}

/// Number of honest nodes that something went wrong with.
fn disturbed(agents: &Agents, honest: usize) -> usize {
    agents.heard().iter().take(honest).filter(|heard| heard.faults > 0).count()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_a_lying_node_has_written_is_bounded() {
    const HONEST: usize = 10;
    let ground = Ground::new("agents", u32::try_from(HONEST).unwrap() + 1).await;
    let controller = ground.controller("muster").await;
    let (agents, liar) = with_liar(&ground, HONEST).await;
    let (before, begun) = (ground.writes().await, Instant::now());
    timeout(MOST, liar.lie(6)).await.unwrap();
    // It counts per second, and not how long the machine takes.
    let (written, seconds) = (ground.writes().await - before, begun.elapsed().as_secs());
    println!("{} messages in {seconds} s, {written} writes", liar.said());
    assert!(written > 0, "nothing of it was believed");
    assert!(written <= BURST + seconds, "{written} writes in {seconds} s");
    verdicts(&ground, &agents, &controller, 0..HONEST).await;
    assert_eq!(disturbed(&agents, HONEST), 0);
    assert_eq!(ground.claims.count(|claim| claim.is_ending), 0, "and it has not talked itself or others to death");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "scale: minutes, and its figures are those of an optimised program"]
async fn a_node_that_lies_for_minutes() {
    const HONEST: usize = 50;
    let ground = Ground::new("agents", u32::try_from(HONEST).unwrap() + 1).await;
    let controller = ground.controller("muster").await;
    let (agents, liar) = with_liar(&ground, HONEST).await;
    sleep(CALM).await;
    let (before, begun) = (ground.writes().await, Instant::now());
    sleep(CALM).await;
    let idle = (ground.writes().await - before) as f64 / begun.elapsed().as_secs_f64();
    let alone = verdicts(&ground, &agents, &controller, 0..HONEST / 2).await;

    let own = Arc::clone(&liar);
    let mut lies = JoinSet::new();
    lies.spawn(async move { own.lie(usize::MAX).await });
    let before = ground.writes().await;
    sleep(CALM).await;
    let burst = ground.writes().await - before;
    let (before, said, begun) = (ground.writes().await, liar.said(), Instant::now());
    sleep(CALM).await;
    let (written, seconds) = (ground.writes().await - before, begun.elapsed().as_secs_f64());
    let rate = written as f64 / seconds - idle;
    println!(
        "a lying node: {:.1} messages a second; {burst} writes in its first minute, then {rate:.2} a second above the \
         {idle:.2} of a cluster that rests",
        (liar.said() - said) as f64 / seconds,
    );
    let beside = verdicts(&ground, &agents, &controller, 0..HONEST / 2).await;
    println!("verdicts of others, p99: {alone:?} without it, {beside:?} beside it");
    drop(lies);
    assert!(rate <= 1.0, "{rate:.2} writes a second");
    assert!(beside <= alone + Duration::from_secs(1), "{beside:?} beside it, {alone:?} without");
    assert_eq!(disturbed(&agents, HONEST), 0);
    assert_eq!(ground.claims.count(|claim| claim.is_ending), 0);
}
