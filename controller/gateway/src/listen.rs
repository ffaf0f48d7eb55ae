//! Connections: their number and lifetime, and the identification of the peer.

use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use http::{Request, Response};
use hyper::body::Incoming;
use hyper::server::conn::http2;
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use jiff::Timestamp;
use muster_link::document::Certificates;
use muster_link::{Nonces, Policy};
use muster_proto::answer::{HealthOf, Statuses};
use muster_proto::health::health_server::HealthServer;
use muster_proto::muster::diagnosis_server::DiagnosisServer;
use muster_proto::muster::enrolment_server::EnrolmentServer;
use muster_proto::muster::fleet_server::FleetServer;
use muster_proto::muster::node_reports_server::NodeReportsServer;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, watch};
use tokio::task::JoinSet;
use tokio::time::{sleep, timeout};
use tonic::Status;
use tonic::body::Body;
use tonic::service::Routes;
use tower::Service;

use crate::admit::Gate;
use crate::authority::Authority;
use crate::enrolment::Enrolments;
use crate::fleet::Orders;
use crate::limits::{Addresses, Limits};
use crate::operators::{Answers, Caller, Operators, Reception, Turns};
use crate::peer::Peer;
use crate::reflection::{Bounded, reflection};
use crate::refusals::Refusals;
use crate::reports::{Reports, Streams};
use crate::rules::{Rule, rule};
use crate::secured::Secured;
use crate::sources::Sources;

/// Maximum number of concurrent calls per connection: a stream, a renewal, health.
const CALLS: u32 = 8;
/// Maximum size of a call's headers in bytes: its path and a few names.
const HEADERS: u32 = 16 * 1024;
/// Maximum size of an enrolment message in bytes: a document of 16 KiB, a token of 8 KiB.
const ENROLMENT: usize = 64 * 1024;
/// Maximum size of a Diagnosis request in bytes: two names.
const QUESTION: usize = 4 * 1024;
/// Maximum size of an order in bytes: as many requirements as a NodePool may have, with lists of instance types.
const ORDER: usize = 64 * 1024;
/// Maximum size of a stream's message in bytes: a report of 256 KiB; a bundle is smaller.
const MESSAGE: usize = 256 * 1024;
/// Initial HTTP/2 flow-control window of a stream in bytes.
const WINDOW: u32 = 64 * 1024;
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
    handshakes: Semaphore,
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
    let Gateway { sources, operators, authority, policy, certificates, limits, refusals, statuses, clock } = gateway;
    let policy = Arc::new(policy);
    let enrolments = Enrolments {
        sources: Arc::clone(&sources),
        authority: authority.clone(),
        policy: Arc::clone(&policy),
        certificates: Arc::new(certificates),
        nonces: Mutex::new(Nonces::new(limits.nonces)),
        at_once: Semaphore::new(limits.enrolments),
        refusals: refusals.clone(),
        clock,
    };
    let gate = Arc::new(Gate { sources, policy, refusals: refusals.clone() });
    let reception = Reception::new(Arc::clone(&operators), refusals.clone(), limits.reviews_per_second);
    let reports = Reports {
        gate: Arc::clone(&gate),
        streams: Streams::default(),
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
        .add_service(FleetServer::new(Orders::new(operators, turns, limits.watches)).max_decoding_message_size(ORDER))
        .add_service(HealthServer::new(HealthOf(statuses)))
        .add_service(Bounded::new(v1, Arc::clone(&reflections)))
        .add_service(Bounded::new(v1alpha, reflections))
        .prepare();
    let (addresses, strangers) = (Addresses::default(), Arc::new(Semaphore::new(limits.strangers)));
    let (handshakes, nodes) = (Semaphore::new(limits.handshakes), Arc::new(Semaphore::new(limits.connections)));
    let shared = Arc::new(Shared { gate, reception, routes, authority, handshakes, nodes, limits, clock });
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
        let Ok(place) = Arc::clone(&strangers).try_acquire_owned() else {
            refusals.count("TooManyStrangers");
            continue;
        };
        let Some(counted) = addresses.count(from.ip().to_canonical(), shared.limits.connections_of_address) else {
            refusals.count("TooManyConnectionsOfAddress");
            continue;
        };
        let (shared, ending) = (Arc::clone(&shared), ending.clone());
        connections.spawn(async move {
            connection(&shared, stream, from, place, ending).await;
            drop(counted);
        });
    }
    drop(listener);
    let _nobody_is_connected = ending_tx.send(true);
    while connections.join_next().await.is_some() {}
    Ok(())
}

async fn connection<S: Sources, O: Operators>(
    shared: &Arc<Shared<S, O>>,
    stream: TcpStream,
    from: SocketAddr,
    place: OwnedSemaphorePermit,
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
    let (_place, first_age) = if let Some(peer) = peer.as_ref().filter(|peer| peer.node.is_some()) {
        drop(place);
        let Ok(place) = Arc::clone(&shared.nodes).try_acquire_owned() else {
            shared.gate.refusals.count("TooManyConnections");
            return;
        };
        // Keys are random, so they spread the reconnects that age causes.
        let spread = peer.key.bytes().first().copied().unwrap_or_default();
        (place, age + age.mul_f64(f64::from(spread) / 2560.0))
    } else {
        (place, stranger_age)
    };
    let line = Line { peer, ending, has_operator: Arc::new(AtomicBool::new(false)) };
    let service = service_fn(|request| Box::pin(call(Arc::clone(shared), line.clone(), request)));
    // Boxed too, with the stream that it reads from: a future reserves space for a moved value twice.
    let mut served = Box::pin(
        http2::Builder::new(TokioExecutor::new())
            .timer(TokioTimer::new())
            .max_concurrent_streams(CALLS)
            .max_header_list_size(HEADERS)
            .initial_stream_window_size(WINDOW)
            .initial_connection_window_size(WINDOW * 2)
            .max_send_buf_size(MESSAGE)
            .keep_alive_interval(patience)
            .keep_alive_timeout(patience)
            .serve_connection(TokioIo::new(stream), service),
    );
    let aged = async {
        for more in [first_age, age.saturating_sub(first_age)] {
            sleep(more).await;
            if !line.has_operator.load(Ordering::Relaxed) {
                break;
            }
        }
    };
    tokio::select! {
        // Whatever the reason, the peer can reconnect.
        _ = &mut served => return,
        () = aged => {}
        _ = shutdown.wait_for(|ending| *ending) => {}
    }
    served.as_mut().graceful_shutdown();
    let _streams_are_told = ending_tx.send(true);
    let _what_takes_longer_is_cut = timeout(grace, served).await;
}

/// Performs the TLS handshake and identifies the peer.
async fn shake<S, O>(
    shared: &Shared<S, O>,
    stream: TcpStream,
    from: SocketAddr,
    ending: watch::Receiver<bool>,
) -> Option<(Box<Secured>, Option<Peer>)> {
    let authority = Arc::clone(&shared.authority.borrow());
    let shake = async {
        let _permit = shared.handshakes.acquire().await.ok()?;
        stream.set_nodelay(true).ok()?;
        Secured::accept(Arc::clone(authority.config()), stream).await.ok()
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
    peer: Option<Peer>,
    /// Becomes true when the connection is to end.
    ending: watch::Receiver<bool>,
    /// True once an operator's token was accepted on the connection, which then is not closed at the stranger's age.
    /// Set by calls and read by the connection's timer; relaxed ordering suffices.
    has_operator: Arc<AtomicBool>,
}

async fn call<S: Sources, O: Operators>(
    shared: Arc<Shared<S, O>>,
    line: Line,
    mut request: Request<Incoming>,
) -> Result<Response<Body>, std::convert::Infallible> {
    let Line { peer, ending, has_operator } = line;
    let path = request.uri().path();
    let mut caller = None;
    let admitted = match (rule(path), &peer) {
        (Some(Rule::Operator(verb)), peer) => {
            let admitted = shared.reception.admit(verb, path, peer.as_ref(), request.headers()).await;
            admitted.map(|name| {
                has_operator.store(true, Ordering::Relaxed);
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
        return Ok(status.into_http());
    }
    if let Some(caller) = caller {
        request.extensions_mut().insert(caller);
    }
    if let Some(peer) = peer {
        request.extensions_mut().insert(peer);
    }
    shared.routes.clone().call(request.map(Body::new)).await
}
