//! What the process says of itself: metrics, and whether it lives and is ready.

use std::net::{Ipv6Addr, SocketAddr};

use axum::Router;
use axum::http::StatusCode;
use axum::routing::get;
use tokio::net::TcpListener;

use super::RunError;
use super::metrics::Metrics;
use crate::agents::{self, Port};
use crate::watch::Picture;

/// What Prometheus calls its classic format.
const FORMAT: (&str, &str) = ("content-type", "text/plain; version=0.0.4; charset=utf-8");

/// Serves metrics on one port and health on the other, 0 being any free one, until it is dropped.
pub(super) struct Served {
    pub(super) metrics: SocketAddr,
    pub(super) health: SocketAddr,
    _tasks: tokio::task::JoinSet<()>,
}

/// Starts serving.
pub(super) async fn serve(ports: (u16, u16), metrics: Metrics, picture: Picture) -> Result<Served, RunError> {
    let told = move || {
        let text = metrics.text();
        async move { ([FORMAT], text) }
    };
    let ready = move || {
        let is_synced = picture.is_synced();
        async move { if is_synced { (StatusCode::OK, "ok") } else { (StatusCode::SERVICE_UNAVAILABLE, "still listing") } }
    };
    let metrics = Router::new().route("/metrics", get(told));
    let health = Router::new().route("/healthz", get(async || "ok")).route("/readyz", get(ready));
    let (metrics_at, health_at) = (bind(ports.0, "--metrics-port").await?, bind(ports.1, "--health-probe-port").await?);
    let addresses = (address(&metrics_at)?, address(&health_at)?);
    let mut tasks = tokio::task::JoinSet::new();
    for (listener, router) in [(metrics_at, metrics), (health_at, health)] {
        tasks.spawn(async move {
            if let Err(error) = axum::serve(listener, router).await {
                tracing::error!(%error, "not serving any more");
            }
        });
    }
    Ok(Served { metrics: addresses.0, health: addresses.1, _tasks: tasks })
}

/// Starts serving agents.
pub(super) async fn agents(options: &agents::Options, place: agents::Place) -> Result<agents::Served, RunError> {
    let listeners =
        (listen(&options.port, "--agent-port").await?, listen(&options.health_port, "--agent-health-port").await?);
    let served =
        agents::Served::start(options, listeners, place).map_err(|error| unusable("--agent-port", 0, &error))?;
    tracing::info!(agents = %served.agents, health = %served.health, address = %options.address, "agents are served");
    Ok(served)
}

async fn listen(port: &Port, option: &'static str) -> Result<TcpListener, RunError> {
    let bound = match port {
        Port::Number(number) => return bind(*number, option).await,
        Port::Bound(bound) => bound.try_clone(),
    };
    let listener = bound.and_then(|it| it.set_nonblocking(true).and_then(|()| TcpListener::from_std(it)));
    listener.map_err(|error| unusable(option, 0, &error))
}

fn unusable(option: &'static str, port: u16, error: &std::io::Error) -> RunError {
    RunError::Port { option, port, reason: error.to_string() }
}

async fn bind(port: u16, option: &'static str) -> Result<TcpListener, RunError> {
    let any = SocketAddr::from((Ipv6Addr::UNSPECIFIED, port));
    let bound = match TcpListener::bind(any).await {
        // A machine without IPv6.
        Err(error) if error.kind() == std::io::ErrorKind::AddrNotAvailable || error.raw_os_error() == Some(97) => {
            TcpListener::bind(("0.0.0.0", port)).await
        }
        bound => bound,
    };
    bound.map_err(|error| unusable(option, port, &error))
}

fn address(listener: &TcpListener) -> Result<SocketAddr, RunError> {
    listener.local_addr().map_err(|error| unusable("", 0, &error))
}
