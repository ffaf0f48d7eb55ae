//! Endpoints of the process: metrics, liveness and readiness.

use std::io::{self, Write};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use axum::Router;
use axum::body::Bytes;
use axum::http::{HeaderMap, StatusCode, header};
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use flate2::Compression;
use flate2::write::GzEncoder;
use muster_gateway::plaintext;
use tokio::net::{TcpListener, TcpSocket};
use tokio::time::Instant;

use super::RunError;
use super::metrics::Metrics;
use crate::agents::{self, Port};
use crate::watch::ClusterCache;

/// Listen backlog, as far as the kernel allows. After a restart all agents connect at the same time, and a refused
/// agent retries only after seconds.
const BACKLOG: u32 = 4096;
/// Time for which the text of the metrics is shown again.
const FRESH: Duration = Duration::from_secs(1);
/// Maximum number of earlier texts that are kept because somebody is reading them.
const MOST_READ: usize = 3;
/// Content type of the classic text format of Prometheus.
const FORMAT: (header::HeaderName, &str) = (header::CONTENT_TYPE, "text/plain; version=0.0.4; charset=utf-8");

/// Serves metrics and health until it is dropped.
pub(super) struct Served {
    pub(super) metrics: SocketAddr,
    pub(super) health: SocketAddr,
    _tasks: tokio::task::JoinSet<()>,
}

/// Text of the metrics, made anew at most once a second: any client that reaches the port can ask for it all the time.
struct Shown {
    metrics: Metrics,
    /// With earlier texts that clients are still reading.
    latest: Mutex<(Option<Latest>, Vec<Bytes>)>,
}

struct Latest {
    made_at: Instant,
    text: Bytes,
    /// The same compressed, once it was asked for: with thousands of nodes the text has tens of megabytes.
    compressed: Option<Bytes>,
}

impl Latest {
    fn is_being_read(&self) -> bool {
        !self.text.is_unique() || self.compressed.as_ref().is_some_and(|text| !text.is_unique())
    }
}

impl Shown {
    fn new(metrics: Metrics) -> Arc<Self> {
        Arc::new(Self { metrics, latest: Mutex::default() })
    }

    /// Returns the text, compressed if the client takes that.
    fn answer(&self, takes_gzip: bool, now: Instant) -> Response {
        let mut shown = self.latest.lock().unwrap_or_else(PoisonError::into_inner);
        let (latest, read) = &mut *shown;
        let is_fresh = |one: &&mut Latest| now.saturating_duration_since(one.made_at) < FRESH;
        if latest.as_mut().filter(is_fresh).is_none() && (latest.is_none() || may_replace(latest, read)) {
            *latest = Some(Latest { made_at: now, text: Bytes::from(self.metrics.text()), compressed: None });
        }
        let Some(Latest { text, compressed, .. }) = latest else { return StatusCode::NO_CONTENT.into_response() };
        if takes_gzip && compressed.is_none() {
            *compressed = compress(text).ok();
        }
        match compressed {
            Some(compressed) if takes_gzip => {
                ([FORMAT, (header::CONTENT_ENCODING, "gzip")], compressed.clone()).into_response()
            }
            _ => ([FORMAT], text.clone()).into_response(),
        }
    }
}

/// Takes the latest text from where it is shown, and returns true if another may be made: clients that ask and do not
/// read hold [`MOST_READ`] at most.
fn may_replace(latest: &mut Option<Latest>, read: &mut Vec<Bytes>) -> bool {
    read.retain(|text| !text.is_unique());
    if read.len() >= MOST_READ && latest.as_ref().is_some_and(Latest::is_being_read) {
        return false;
    }
    let texts = latest.take().into_iter().flat_map(|latest| [Some(latest.text), latest.compressed]).flatten();
    read.extend(texts.filter(|text| !text.is_unique()));
    true
}

/// Compresses a text with gzip, as fast as it can.
pub(super) fn compress(text: &[u8]) -> io::Result<Bytes> {
    let mut encoder = GzEncoder::new(Vec::with_capacity(text.len() / 16), Compression::fast());
    encoder.write_all(text)?;
    encoder.finish().map(Bytes::from)
}

/// Returns true if the client takes answers that are compressed with gzip, as Prometheus does.
fn takes_gzip(headers: &HeaderMap) -> bool {
    let offers = headers.get_all(header::ACCEPT_ENCODING).iter().filter_map(|value| value.to_str().ok());
    offers.flat_map(|value| value.split(',')).any(|offer| {
        let (coding, weight) = offer.split_once(';').unwrap_or((offer, ""));
        coding.trim() == "gzip" && !matches!(weight.trim().trim_start_matches("q="), "0" | "0.0" | "0.00" | "0.000")
    })
}

/// Starts serving metrics and health on the given ports; 0 selects any free one.
pub(super) fn serve(ports: (u16, u16), metrics: Metrics, cluster_cache: ClusterCache) -> Result<Served, RunError> {
    let shown = Shown::new(metrics);
    // With thousands of nodes it takes a while, in which a thread of the async runtime must not block.
    let told = move |headers: HeaderMap| {
        let shown = Arc::clone(&shown);
        async move {
            let takes_gzip = takes_gzip(&headers);
            let answer = tokio::task::spawn_blocking(move || shown.answer(takes_gzip, Instant::now())).await;
            answer.unwrap_or_else(|_| StatusCode::INTERNAL_SERVER_ERROR.into_response())
        }
    };
    let ready = move || {
        let is_synced = cluster_cache.is_synced();
        async move { if is_synced { (StatusCode::OK, "ok") } else { (StatusCode::SERVICE_UNAVAILABLE, "still listing") } }
    };
    let metrics = Router::new().route("/metrics", get(told));
    let health = Router::new().route("/healthz", get(async || "ok")).route("/readyz", get(ready));
    let (metrics_at, health_at) = (bind(ports.0, "--metrics-port")?, bind(ports.1, "--health-probe-port")?);
    let addresses = (address(&metrics_at)?, address(&health_at)?);
    let mut tasks = tokio::task::JoinSet::new();
    for (listener, router) in [(metrics_at, metrics), (health_at, health)] {
        tasks.spawn(async move { match plaintext::http(listener, router).await {} });
    }
    Ok(Served { metrics: addresses.0, health: addresses.1, _tasks: tasks })
}

/// Starts serving agents.
pub(super) fn agents(options: &agents::Options, place: agents::Place) -> Result<agents::Served, RunError> {
    let listeners = (listen(&options.port, "--agent-port")?, listen(&options.health_port, "--agent-health-port")?);
    let served =
        agents::Served::start(options, listeners, place).map_err(|error| unusable("--agent-port", 0, &error))?;
    tracing::info!(agents = %served.agents, health = %served.health, address = %options.address, "agents are served");
    Ok(served)
}

fn listen(port: &Port, option: &'static str) -> Result<std::net::TcpListener, RunError> {
    let bound = match port {
        Port::Number(number) => bind(*number, option)?.into_std(),
        Port::Bound(bound) => bound.try_clone(),
    };
    let listener = bound.and_then(|it| it.set_nonblocking(true).map(|()| it));
    listener.map_err(|error| unusable(option, 0, &error))
}

fn unusable(option: &'static str, port: u16, error: &io::Error) -> RunError {
    RunError::Port { option, port, reason: error.to_string() }
}

fn bind(port: u16, option: &'static str) -> Result<TcpListener, RunError> {
    let listening = |socket: io::Result<TcpSocket>, address: IpAddr| {
        let socket = socket?;
        socket.set_reuseaddr(true)?;
        socket.bind((address, port).into())?;
        socket.listen(BACKLOG)
    };
    let bound = match listening(TcpSocket::new_v6(), Ipv6Addr::UNSPECIFIED.into()) {
        // A machine without IPv6 (97 is EAFNOSUPPORT).
        Err(error) if error.kind() == io::ErrorKind::AddrNotAvailable || error.raw_os_error() == Some(97) => {
            listening(TcpSocket::new_v4(), Ipv4Addr::UNSPECIFIED.into())
        }
        bound => bound,
    };
    bound.map_err(|error| unusable(option, port, &error))
}

fn address(listener: &TcpListener) -> Result<SocketAddr, RunError> {
    listener.local_addr().map_err(|error| unusable("", 0, &error))
}

#[cfg(test)]
mod tests {
    use std::io::Read;

    use super::*;

    fn offering(encodings: &str) -> HeaderMap {
        HeaderMap::from_iter([(header::ACCEPT_ENCODING, encodings.parse().unwrap())])
    }

    #[test]
    fn clients_that_do_not_read_hold_few_texts() {
        let latest = || Some(Latest { made_at: Instant::now(), text: Bytes::from(vec![b'x'; 100]), compressed: None });
        let (mut shown, mut read, mut held) = (latest(), Vec::new(), Vec::new());
        for _ in 0..10 {
            held.push(shown.as_ref().unwrap().text.clone());
            if may_replace(&mut shown, &mut read) {
                shown = latest();
            }
        }
        assert_eq!(read.len(), MOST_READ);
        held.clear();
        assert!(may_replace(&mut shown, &mut read) && read.is_empty(), "they are gone");
    }

    #[test]
    fn text_is_compressed_for_those_who_take_it() {
        assert!(takes_gzip(&offering("gzip")) && takes_gzip(&offering("deflate, gzip;q=0.5")));
        assert!(!takes_gzip(&offering("identity")) && !takes_gzip(&offering("gzip;q=0")));
        assert!(!takes_gzip(&HeaderMap::new()));
        let text = "karpenter_nodes_allocatable 1\n".repeat(1000);
        let compressed = compress(text.as_bytes()).unwrap();
        assert!(compressed.len() * 20 < text.len(), "{}", compressed.len());
        let mut back = String::new();
        flate2::read::GzDecoder::new(&compressed[..]).read_to_string(&mut back).unwrap();
        assert_eq!(back, text);
    }
}
