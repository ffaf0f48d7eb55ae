//! Connections: their number and lifetime, and the identification of the peer.

use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::time::Duration;

use http::{Request, Response};
use hyper::body::Incoming;
use hyper::server::conn::http2;
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use jiff::Timestamp;
use muster_link::Policy;
use muster_link::document::Certificates;
use muster_proto::answer::{HealthOf, Statuses};
use muster_proto::health::health_server::HealthServer;
use muster_proto::muster::diagnosis_server::DiagnosisServer;
use muster_proto::muster::enrolment_server::EnrolmentServer;
use muster_proto::muster::fleet_server::FleetServer;
use muster_proto::muster::node_reports_server::NodeReportsServer;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{Notify, OwnedSemaphorePermit, Semaphore, watch};
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep, timeout};
use tonic::body::Body;
use tonic::service::Routes;
use tonic::{Code, Status};
use tower::Service;

use crate::access::{Rule, rule};
use crate::admit::Gate;
use crate::arrivals::{Arrival, Arrivals};
use crate::certificate_authority::Authority;
use crate::enrolment::Enrolments;
use crate::fleet::Orders;
use crate::limits::Limits;
use crate::operators::{Answers, Caller, Operators, Reception, Turns};
use crate::peer::Peer;
use crate::recent::Recent;
use crate::reflection::{Bounded, reflection};
use crate::refusal_counters::Refusals;
use crate::reports::Reports;
use crate::secured::Secured;
use crate::sources::Sources;
use crate::streams::Streams;

/// Maximum number of concurrent calls per connection: a stream, a renewal, health.
const CALLS: u32 = 8;
/// Maximum size of a call's headers in bytes: its path and a few names.
const HEADERS: u32 = 16 * 1024;
/// Maximum size of an enrolment message in bytes: a document of 16 KiB, a token of 8 KiB, and the rest.
const ENROLMENT: usize = 32 * 1024;
/// Maximum size of a Diagnosis request in bytes: two names.
const QUESTION: usize = 4 * 1024;
/// Maximum size of an order in bytes: as many requirements as a NodePool may have, with lists of instance types.
const ORDER: usize = 64 * 1024;
/// Maximum size of a stream's message in bytes: a report of 256 KiB; a bundle is smaller.
const MESSAGE: usize = 256 * 1024;
/// Initial HTTP/2 flow-control window of a stream in bytes.
const WINDOW: u32 = 64 * 1024;
/// Calls at once, window and buffer of a connection that is not a node's. It holds at most some 100 KiB: messages of a
/// stranger are small, and an operator makes a call beside a watch.
const OF_STRANGERS: (u32, u32, usize) = (2, 32 * 1024, 16 * 1024);
/// Pause after an error of `accept`, which means that this process lacks file descriptors or memory.
const PAUSE: Duration = Duration::from_millis(100);

/// Everything that the gateway needs to serve.
pub struct Gateway<S, O> {
    /// NodeClaims, EC2, STS.
    pub sources: Arc<S>,
    /// Authenticates operators and answers them.
    pub operators: Arc<O>,
    /// The CA. New connections use the latest; agents with open streams receive the new CA certificates to trust.
    pub authority: watch::Receiver<Arc<Authority>>,
    /// Rules of enrolment for every node.
    pub policy: Policy,
    /// Certificates that verify instance identity documents.
    pub certificates: Certificates,
    /// Limits on clients.
    pub limits: Limits,
    /// Counter of refusals.
    pub refusals: Refusals,
    /// Health status, which nodes may query here too.
    pub statuses: watch::Receiver<Statuses>,
    /// The clock.
    pub clock: fn() -> Timestamp,
}

/// State shared by all connections.
struct Shared<S, O> {
    gate: Arc<Gate<S>>,
    reception: Reception<O>,
    routes: Routes,
    authority: watch::Receiver<Arc<Authority>>,
    strangers: Arc<Semaphore>,
    nodes: Arc<Semaphore>,
    limits: Limits,
    clock: fn() -> Timestamp,
}

/// Serves until `shutdown` completes, and then until every call has ended or its grace period is over.
///
/// # Errors
/// The descriptors are invalid.
pub async fn serve<S: Sources, O: Operators>(
    gateway: Gateway<S, O>,
    listener: TcpListener,
    shutdown: impl Future<Output = ()>,
) -> Result<(), Box<dyn std::error::Error + Send + Sync>> {
    let refusals = gateway.refusals.clone();
    let shared = Arc::new(Shared::new(gateway)?);
    let limits = &shared.limits;
    let arrivals = Arrivals::new(limits, Instant::now());
    // Strangers, however many networks they have, take no place from a node that reconnects.
    let (of_strangers, of_nodes) = (places(limits.handshakes), places(limits.handshakes));
    let (ending_tx, ending) = watch::channel(false);
    let mut connections = JoinSet::new();
    tokio::pin!(shutdown);
    loop {
        let accepted = tokio::select! {
            accepted = listener.accept() => accepted,
            // Reap tasks that have ended.
            Some(_) = connections.join_next(), if !connections.is_empty() => continue,
            () = &mut shutdown => break,
        };
        let (stream, from) = match accepted {
            Ok(accepted) => accepted,
            Err(error) => {
                tracing::warn!(%error, "no connection can be accepted");
                sleep(PAUSE).await;
                continue;
            }
        };
        let arrival = match arrivals.admit(from.ip(), Instant::now()) {
            Ok(arrival) => arrival,
            Err(code) => {
                refusals.count(code);
                continue;
            }
        };
        let handshakes = if arrival.is_strange() { &of_strangers } else { &of_nodes };
        let Ok(place) = Arc::clone(handshakes).try_acquire_owned() else {
            refusals.count("TooManyHandshakes");
            continue;
        };
        let (shared, ending) = (Arc::clone(&shared), ending.clone());
        connections.spawn(async move { connection(&shared, stream, from, (place, arrival), ending).await });
    }
    drop(listener);
    let _nobody_is_connected = ending_tx.send(true);
    while connections.join_next().await.is_some() {}
    Ok(())
}

// === impl Shared ===

impl<S: Sources, O: Operators> Shared<S, O> {
    fn new(gateway: Gateway<S, O>) -> Result<Self, Box<dyn std::error::Error + Send + Sync>> {
        let Gateway { sources, operators, authority, policy, certificates, limits, refusals, statuses, clock } =
            gateway;
        let policy = Arc::new(policy);
        let enrolments = Enrolments {
            sources: Arc::clone(&sources),
            authority: authority.clone(),
            policy: Arc::clone(&policy),
            certificates: Arc::new(certificates),
            at_once: Semaphore::new(limits.enrolments),
            recent: Recent::new(limits.certificate_interval, Instant::now()),
            refusals: refusals.clone(),
            clock,
        };
        let gate = Arc::new(Gate::new(sources, policy, refusals.clone()));
        let reception = Reception::new(Arc::clone(&operators), refusals.clone(), &limits);
        let reports = Reports {
            gate: Arc::clone(&gate),
            streams: Streams::new(Instant::now()),
            interval: limits.report_interval,
            authority: authority.clone(),
        };
        let turns = Turns::default();
        let ((v1, v1alpha), reflections) = (reflection()?, Arc::new(Semaphore::new(limits.reflections)));
        let routes = Routes::new(EnrolmentServer::new(enrolments).max_decoding_message_size(ENROLMENT))
            .add_service(NodeReportsServer::new(reports).max_decoding_message_size(MESSAGE))
            .add_service(
                DiagnosisServer::new(Answers::new(Arc::clone(&operators), turns.clone()))
                    .max_decoding_message_size(QUESTION),
            )
            .add_service(
                FleetServer::new(Orders::new(operators, turns, limits.watches)).max_decoding_message_size(ORDER),
            )
            .add_service(HealthServer::new(HealthOf(statuses)))
            .add_service(Bounded::new(v1, Arc::clone(&reflections)))
            .add_service(Bounded::new(v1alpha, reflections))
            .prepare();
        let (strangers, nodes) = (places(limits.strangers), places(limits.connections));
        Ok(Self { gate, reception, routes, authority, strangers, nodes, limits, clock })
    }
}

fn places(most: usize) -> Arc<Semaphore> {
    Arc::new(Semaphore::new(most))
}

async fn connection<S: Sources, O: Operators>(
    shared: &Arc<Shared<S, O>>,
    stream: TcpStream,
    from: SocketAddr,
    (handshake, mut arrival): (OwnedSemaphorePermit, Arrival),
    mut shutdown: watch::Receiver<bool>,
) {
    let Limits { age, stranger_age, grace, patience, .. } = shared.limits;
    let (ending_tx, ending) = watch::channel(false);
    // Boxed, as calls are: a connection lasts for hours, its handshake only for moments.
    let Some((stream, peer)) = Box::pin(shake(shared, stream, from, ending.clone())).await else {
        shared.gate.refusals.count("HandshakeFailed");
        tracing::debug!(peer = %from.ip(), "a handshake failed");
        return;
    };
    // A node needs a place among strangers for no moment, so a flood of them does not keep it out.
    drop(handshake);
    arrival.shaken();
    let (_place, first_age) = if let Some(peer) = peer.as_ref().filter(|peer| peer.node.is_some()) {
        arrival.known(Instant::now());
        let Ok(place) = Arc::clone(&shared.nodes).try_acquire_owned() else {
            shared.gate.refusals.count("TooManyConnections");
            return;
        };
        // Keys are random, so they spread the reconnects that age causes.
        let spread = peer.key.bytes().first().copied().unwrap_or_default();
        (place, age + age.mul_f64(f64::from(spread) / 2560.0))
    } else {
        let Ok(place) = Arc::clone(&shared.strangers).try_acquire_owned() else {
            shared.gate.refusals.count("TooManyStrangers");
            return;
        };
        (place, stranger_age)
    };
    let is_node = peer.as_ref().is_some_and(|peer| peer.node.is_some());
    let (calls, window, kept) = if is_node { (CALLS, WINDOW, MESSAGE) } else { OF_STRANGERS };
    let line = Line { from: from.ip(), peer, ending, call_record: Arc::default() };
    let service = service_fn(|request| Box::pin(call(Arc::clone(shared), line.clone(), request)));
    // Boxed too, with the stream that it reads from: a future reserves space for a moved value twice.
    let mut served = Box::pin(
        http2::Builder::new(TokioExecutor::new())
            .timer(TokioTimer::new())
            .max_concurrent_streams(calls)
            .max_header_list_size(HEADERS)
            .initial_stream_window_size(window)
            .initial_connection_window_size(if is_node { window * 2 } else { window })
            .max_send_buf_size(kept)
            .keep_alive_interval(patience)
            .keep_alive_timeout(patience)
            .serve_connection(TokioIo::new(stream), service),
    );
    let aged = async {
        for more in [first_age, age.saturating_sub(first_age)] {
            sleep(more).await;
            if !line.call_record.has_operator.load(Ordering::Relaxed) {
                break;
            }
        }
    };
    tokio::select! {
        // Whatever the reason, the peer can reconnect.
        _ = &mut served => return,
        () = aged => {}
        () = line.call_record.is_spent.notified() => {}
        _ = shutdown.wait_for(|ending| *ending) => {}
    }
    served.as_mut().graceful_shutdown();
    let _streams_are_told = ending_tx.send(true);
    let _what_takes_longer_is_cut = timeout(grace, served).await;
}

/// Performs the TLS handshake and identifies the peer. Only the processor limits how many are worked at: all of it runs
/// on one thread, which a client that sends nothing does not hold.
async fn shake<S, O>(
    shared: &Shared<S, O>,
    stream: TcpStream,
    from: SocketAddr,
    ending: watch::Receiver<bool>,
) -> Option<(Box<Secured>, Option<Peer>)> {
    let authority = Arc::clone(&shared.authority.borrow());
    let shake = async {
        stream.set_nodelay(true).ok()?;
        Secured::accept(Arc::clone(authority.config()), stream, shared.limits.hello).await.ok()
    };
    let stream = timeout(shared.limits.handshake, shake).await.ok()??;
    let peer = match stream.certificate() {
        Some(certificate) => {
            let now = (shared.clock)();
            Some(Peer::new(certificate, from.ip(), authority.trust(), now, ending)?)
        }
        None => None,
    };
    Some((stream, peer))
}

/// State shared by the calls of a connection.
#[derive(Clone)]
struct Line {
    /// Source address.
    from: IpAddr,
    peer: Option<Peer>,
    /// Becomes true when the connection is to end.
    ending: watch::Receiver<bool>,
    call_record: Arc<CallRecord>,
}

/// Record of a connection's calls. Relaxed ordering suffices: all of it runs on one thread, and one call more does not
/// matter.
#[derive(Debug, Default)]
struct CallRecord {
    /// True once an operator's token was accepted on the connection, which then is not closed at the stranger's age.
    has_operator: AtomicBool,
    /// Number of calls that were not admitted as those of a node or an operator, begun or refused.
    strange: AtomicU32,
    /// Notified when the connection has made all the calls that a stranger may make.
    is_spent: Notify,
}

impl CallRecord {
    /// Counts a call of a stranger; returns false if the connection has made `most` already, and then ends it.
    fn admits(&self, most: u32) -> bool {
        let is_few = self.strange.fetch_add(1, Ordering::Relaxed) < most;
        if !is_few {
            self.is_spent.notify_one();
        }
        is_few
    }

    /// Takes the count of a call back, which turned out to be a node's or an operator's.
    fn known(&self) {
        self.strange.fetch_sub(1, Ordering::Relaxed);
    }
}

async fn call<S: Sources, O: Operators>(
    shared: Arc<Shared<S, O>>,
    line: Line,
    mut request: Request<Incoming>,
) -> Result<Response<Body>, std::convert::Infallible> {
    let Line { from, peer, ending, call_record } = line;
    let path = request.uri().path();
    let rule = rule(path);
    if !call_record.admits(shared.limits.stranger_calls) {
        shared.gate.refusals.count("TooManyCalls");
        return Ok(Status::resource_exhausted("too many calls on one connection: connect again").into_http());
    }
    let mut caller = None;
    let admitted = match (rule, &peer) {
        (Some(Rule::Operator(verb)), peer) => {
            let admitted = shared.reception.admit(verb, path, (from, peer.as_ref()), request.headers()).await;
            admitted.map(|name| {
                call_record.has_operator.store(true, Ordering::Relaxed);
                caller = Some(Caller { name, ending });
            })
        }
        (_, Some(peer)) => shared.gate.admit(path, peer),
        (None, None) => shared.gate.unknown(),
        (Some(Rule::AnyKey | Rule::Node), None) => {
            shared.gate.refusals.count("NoKey");
            Err(Status::unauthenticated("this needs a client certificate"))
        }
    };
    if let Err(status) = admitted {
        // A user who may not do this is known; what they cost is counted for their address.
        if matches!(rule, Some(Rule::Operator(_))) && status.code() != Code::Unauthenticated {
            call_record.known();
        }
        return Ok(status.into_http());
    }
    // Enrolments stay counted.
    if rule != Some(Rule::AnyKey) {
        call_record.known();
    }
    if let Some(caller) = caller {
        request.extensions_mut().insert(caller);
    }
    if let Some(peer) = peer {
        request.extensions_mut().insert(peer);
    }
    shared.routes.clone().call(request.map(Body::new)).await
}
