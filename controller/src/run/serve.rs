//! Endpoints of the process: metrics, liveness and readiness.

use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use axum::Router;
use axum::body::Bytes;
use axum::http::StatusCode;
use axum::routing::get;
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
/// Content type of the classic text format of Prometheus.
const FORMAT: (&str, &str) = ("content-type", "text/plain; version=0.0.4; charset=utf-8");

/// Serves metrics and health until it is dropped.
pub(super) struct Served {
    pub(super) metrics: SocketAddr,
    pub(super) health: SocketAddr,
    _tasks: tokio::task::JoinSet<()>,
}

/// Text of the metrics, made anew at most once a second: any client that reaches the port can ask for it all the time.
struct Shown {
    metrics: Metrics,
    latest: Mutex<Option<(Instant, Bytes)>>,
}

impl Shown {
    fn new(metrics: Metrics) -> Arc<Self> {
        Arc::new(Self { metrics, latest: Mutex::default() })
    }

    fn text(&self, now: Instant) -> Bytes {
        let mut latest = self.latest.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((made_at, text)) = &*latest
            && now.saturating_duration_since(*made_at) < FRESH
        {
            return text.clone();
        }
        let text = Bytes::from(self.metrics.text());
        *latest = Some((now, text.clone()));
        text
    }
}

/// Starts serving metrics and health on the given ports; 0 selects any free one.
pub(super) fn serve(ports: (u16, u16), metrics: Metrics, cluster_cache: ClusterCache) -> Result<Served, RunError> {
    let shown = Shown::new(metrics);
    // With thousands of nodes it takes a while, in which a thread of the async runtime must not block.
    let told = move || {
        let shown = Arc::clone(&shown);
        async move {
            let text = tokio::task::spawn_blocking(move || shown.text(Instant::now())).await;
            ([FORMAT], text.unwrap_or_default())
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
