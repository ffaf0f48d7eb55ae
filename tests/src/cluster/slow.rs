//! A slow way to an API server: every call takes longer, and what watches report comes late.
//!
//! ```text
//!  client ── HTTP ──► SlowServer, a port on loopback ── a client of its own ──► API server
//!                       ├─ a request waits before it is sent on
//!                       └─ each piece of a watch waits before it is handed over, in its order
//! ```
//!
//! The two delays are separate because they do different things to a controller: slow calls make it wait, a late watch lets it
//! decide from objects that have changed.

use std::net::{Ipv4Addr, SocketAddr};
use std::time::Duration;

use axum::body::{Body, to_bytes};
use axum::extract::{Request, State};
use axum::http::header::{AUTHORIZATION, CONTENT_LENGTH, HOST};
use axum::http::{StatusCode, Uri};
use axum::response::{IntoResponse, Response};
use axum::{Router, serve};
use futures::StreamExt;
use kube::Client;
use tokio::net::TcpListener;
use tokio::sync::mpsc;
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep, sleep_until};
use tokio_stream::wrappers::UnboundedReceiverStream;

use crate::error::Result;

/// Largest request that is sent on, in bytes: more than the API server takes.
const LARGEST: usize = 4 * 1024 * 1024;

/// Delays of a slow API server.
#[derive(Debug, Clone, Copy)]
pub struct Delays {
    /// Time added to each call.
    pub call: Duration,
    /// Time by which events of watches are late.
    pub watch: Duration,
}

/// A slow way to one API server, as one user. Its connections end with it.
#[derive(Debug)]
pub struct SlowServer {
    address: SocketAddr,
    _serves: JoinSet<()>,
}

impl SlowServer {
    /// Serves what `client` reaches.
    pub(super) async fn of(client: Client, delays: Delays) -> Result<Self> {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await?;
        let address = listener.local_addr()?;
        let router = Router::new().fallback(forward).with_state((client, delays));
        let mut serves = JoinSet::new();
        serves.spawn(async move {
            // Ends with the set; an accept that fails is tried again by axum.
            let _ = serve(listener, router).await;
        });
        Ok(Self { address, _serves: serves })
    }

    /// Its address, as `http://127.0.0.1:4711`.
    pub fn url(&self) -> String {
        format!("http://{}", self.address)
    }
}

async fn forward(State((client, delays)): State<(Client, Delays)>, request: Request) -> Response {
    sleep(delays.call).await;
    let is_watch = is_watch(request.uri());
    match send(&client, request).await {
        Ok(answer) if is_watch => late(answer, delays.watch),
        Ok(answer) => answer,
        Err(error) => (StatusCode::BAD_GATEWAY, error.to_string()).into_response(),
    }
}

/// Returns true if the answer is a stream of events.
fn is_watch(uri: &Uri) -> bool {
    uri.query().is_some_and(|query| query.split('&').any(|pair| pair == "watch=true" || pair == "watch=1"))
}

async fn send(
    client: &Client,
    request: Request,
) -> std::result::Result<Response, Box<dyn std::error::Error + Send + Sync>> {
    let (parts, body) = request.into_parts();
    let path = parts.uri.path_and_query().map_or("/", |it| it.as_str());
    let mut onward = http::Request::builder().method(parts.method).uri(path);
    for (name, value) in &parts.headers {
        // The client has an identity and a server of its own.
        if ![HOST, CONTENT_LENGTH, AUTHORIZATION].contains(name) {
            onward = onward.header(name, value);
        }
    }
    let body = to_bytes(body, LARGEST).await?;
    let answer = client.send(onward.body(body.to_vec().into())?).await?;
    Ok(answer.map(Body::new))
}

/// Hands each piece of the answer over `delay` after it came.
fn late(answer: Response, delay: Duration) -> Response {
    let (parts, body) = answer.into_parts();
    let (sender, pieces) = mpsc::unbounded_channel();
    tokio::spawn(async move {
        let mut pieces = body.into_data_stream();
        // Until the server ends the watch, or the client no longer reads it.
        while let Some(piece) = pieces.next().await {
            if sender.send((Instant::now() + delay, piece)).is_err() {
                return;
            }
        }
    });
    let pieces = UnboundedReceiverStream::new(pieces).then(|(due, piece)| async move {
        sleep_until(due).await;
        piece
    });
    Response::from_parts(parts, Body::from_stream(pieces))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_streams_of_events_are_watches() {
        let is = |uri: &str| is_watch(&uri.parse().unwrap());
        assert!(is("/api/v1/pods?allowWatchBookmarks=true&watch=true"));
        assert!(!is("/api/v1/pods?watch=false"));
        assert!(!is("/api/v1/watch"));
    }
}
