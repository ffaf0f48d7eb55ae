//! Plaintext port: health and reflection only, so that probes need no certificate.

#[cfg(test)]
mod mutations;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use http::Request;
use hyper::body::Incoming;
use hyper::server::conn::http2;
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use muster_proto::answer::{HealthOf, Statuses};
use muster_proto::health::health_server::HealthServer;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpListener;
use tokio::sync::watch;
use tokio::time::sleep;
use tonic::body::Body;
use tonic::service::Routes;
use tower::Service;

use crate::plaintext::{CONNECTIONS, HEADERS, accept};
use crate::reflection::reflection;

/// Maximum number of concurrent calls per connection.
const CALLS: u32 = 16;
/// Maximum size of a call's headers in bytes.
const HEADER_BYTES: u32 = 16 * 1024;
/// HTTP/2 flow-control window in bytes: requests are names.
const WINDOW: u32 = 64 * 1024;

/// Serves until `shutdown` completes.
///
/// # Errors
/// The descriptors are invalid.
pub async fn serve(
    listener: TcpListener,
    statuses: watch::Receiver<Statuses>,
    shutdown: impl Future<Output = ()>,
) -> Result<(), Box<dyn std::error::Error + Send + Sync>> {
    let (v1, v1alpha) = reflection()?;
    let routes = Routes::new(HealthServer::new(HealthOf(statuses))).add_service(v1).add_service(v1alpha).prepare();
    tokio::select! {
        never = accept(listener, CONNECTIONS, |stream| connection(routes.clone(), stream)) => match never {},
        () = shutdown => Ok(()),
    }
}

/// Serves a connection, unless it calls nothing.
async fn connection(routes: Routes, stream: impl AsyncRead + AsyncWrite + Unpin + Send + 'static) {
    let has_called = Arc::new(AtomicBool::new(false));
    let calls = Arc::clone(&has_called);
    let service = service_fn(move |request: Request<Incoming>| {
        calls.store(true, Ordering::Relaxed);
        let mut routes = routes.clone();
        async move { routes.call(request.map(Body::new)).await }
    });
    let served = http2::Builder::new(TokioExecutor::new())
        .timer(TokioTimer::new())
        .max_concurrent_streams(CALLS)
        .max_header_list_size(HEADER_BYTES)
        .initial_stream_window_size(WINDOW)
        .initial_connection_window_size(WINDOW)
        .keep_alive_interval(HEADERS)
        .keep_alive_timeout(HEADERS)
        .serve_connection(TokioIo::new(stream), service);
    let silence = async {
        sleep(HEADERS).await;
        if has_called.load(Ordering::Relaxed) {
            std::future::pending::<()>().await;
        }
    };
    tokio::select! {
        _ = served => {}
        () = silence => {}
    }
}
