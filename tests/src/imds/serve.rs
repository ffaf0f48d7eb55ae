//! The HTTP of the metadata service.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;
use std::time::Instant;

use axum::Router;
use axum::body::Bytes;
use axum::extract::connect_info::Connected;
use axum::extract::{ConnectInfo, Request, State};
use axum::http::{HeaderMap, HeaderValue, Method, StatusCode, header};
use axum::response::{IntoResponse, Response};
use axum::serve::IncomingStream;
use jiff::Timestamp;
use nix::sys::socket::setsockopt;
use nix::sys::socket::sockopt::Ipv4Ttl;
use tokio::net::{TcpListener, TcpStream};

use super::registry::{Known, Registry};
use super::tree;

/// How many hops an answer may take that is no token.
const HOPS: i32 = 64;
const TOKEN: &str = "x-aws-ec2-metadata-token";
const TTL: &str = "x-aws-ec2-metadata-token-ttl-seconds";

/// Serves until the task is aborted.
pub(super) async fn serve(listener: TcpListener, registry: Arc<Registry>) {
    let router = Router::new().fallback(answer).with_state(registry);
    // It ends only when the listener breaks, and then its clients see that.
    let _ends_with_the_listener =
        axum::serve(Listener(listener), router.into_make_service_with_connect_info::<Peer>()).await;
}

struct Listener(TcpListener);

/// Who asks, and a second handle to the connection: the answer to a request for a token goes only so many hops.
#[derive(Debug, Clone)]
struct Peer {
    address: Ipv4Addr,
    connection: Option<Arc<OwnedFd>>,
}

impl axum::serve::Listener for Listener {
    type Io = TcpStream;
    type Addr = Peer;

    async fn accept(&mut self) -> (TcpStream, Peer) {
        loop {
            // A connection that was taken back before it was accepted is no matter.
            if let Ok((stream, from)) = self.0.accept().await {
                let connection = stream.as_fd().try_clone_to_owned().ok().map(Arc::new);
                return (stream, Peer { address: v4(from), connection });
            }
        }
    }

    fn local_addr(&self) -> std::io::Result<Peer> {
        Ok(Peer { address: v4(self.0.local_addr()?), connection: None })
    }
}

impl Connected<IncomingStream<'_, Listener>> for Peer {
    fn connect_info(stream: IncomingStream<'_, Listener>) -> Self {
        stream.remote_addr().clone()
    }
}

impl Peer {
    fn set_hops(&self, hops: i32) {
        if let Some(connection) = &self.connection {
            // A connection that has ended needs no hops.
            let _ended = setsockopt(connection, Ipv4Ttl, &hops);
        }
    }
}

fn v4(address: SocketAddr) -> Ipv4Addr {
    match address.ip() {
        IpAddr::V4(address) => address,
        IpAddr::V6(address) => address.to_ipv4_mapped().unwrap_or(Ipv4Addr::UNSPECIFIED),
    }
}

async fn answer(
    State(registry): State<Arc<Registry>>,
    ConnectInfo(peer): ConnectInfo<Peer>,
    request: Request,
) -> Response {
    peer.set_hops(HOPS);
    let Some(known) = registry.find(peer.address) else {
        return StatusCode::NOT_FOUND.into_response();
    };
    let (method, path) = (request.method().clone(), request.uri().path().to_owned());
    let mut response = decide(&registry, &known, &peer, &method, &path, request.headers());
    known.served.note(&method, &path, peer.address, response.status().as_u16());
    let headers = response.headers_mut();
    headers.insert(header::SERVER, HeaderValue::from_static("EC2ws"));
    let clock = known.served.now().clock;
    if let Some(date) = Timestamp::now().saturating_add(clock).ok().and_then(http_date) {
        headers.insert(header::DATE, date);
    }
    response
}

fn decide(
    registry: &Registry,
    known: &Known,
    peer: &Peer,
    method: &Method,
    path: &str,
    headers: &HeaderMap,
) -> Response {
    let instance = &known.served.instance;
    if !instance.options.enabled {
        return StatusCode::FORBIDDEN.into_response();
    }
    // `/latest/…` or a version by its date, as `/2021-07-15/…`.
    let (version, rest) = path.trim_start_matches('/').split_once('/').unwrap_or((path.trim_matches('/'), ""));
    if version.is_empty() {
        return text("1.0\n2021-07-15\nlatest".to_owned());
    }
    let now = known.served.now().clone();
    let failing = now.failing.iter().find(|(prefix, _)| rest.starts_with(prefix.trim_matches('/')));
    if let Some((_, status)) = failing {
        return StatusCode::from_u16(*status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR).into_response();
    }
    if rest == "api/token" {
        return give_token(registry, known, peer, method, headers);
    }
    if method != Method::GET && method != Method::HEAD {
        return StatusCode::METHOD_NOT_ALLOWED.into_response();
    }
    let token = headers.get(TOKEN).map(|token| token.to_str().unwrap_or_default());
    let lives = token.and_then(|token| registry.tokens.check(&instance.instance_id, token, Instant::now()));
    if lives.is_none() && (token.is_some() || instance.options.tokens_required) {
        return StatusCode::UNAUTHORIZED.into_response();
    }
    let (area, below) = rest.split_once('/').unwrap_or((rest, ""));
    let mut response = match area {
        "" => text("dynamic\nmeta-data\nuser-data".to_owned()),
        "dynamic" => known.identity.read(below).map_or_else(not_found, text),
        "meta-data" => tree::read(instance, &now, Timestamp::now(), below).map_or_else(not_found, text),
        "user-data" => match &instance.user_data {
            Some(data) => {
                ([(header::CONTENT_TYPE, "application/octet-stream")], Bytes::from(data.clone())).into_response()
            }
            None => not_found(),
        },
        _ => not_found(),
    };
    if let Some(lives) = lives {
        response.headers_mut().insert(TTL, HeaderValue::from(lives));
    }
    response
}

fn give_token(registry: &Registry, known: &Known, peer: &Peer, method: &Method, headers: &HeaderMap) -> Response {
    if method != Method::PUT {
        return StatusCode::METHOD_NOT_ALLOWED.into_response();
    }
    // A proxy that forwards for others gets none.
    if headers.contains_key("x-forwarded-for") {
        return StatusCode::FORBIDDEN.into_response();
    }
    let instance = &known.served.instance;
    let asked = headers.get(TTL).and_then(|value| value.to_str().ok()).unwrap_or_default();
    let Some((token, lives)) = registry.tokens.give(&instance.instance_id, asked, Instant::now()) else {
        return StatusCode::BAD_REQUEST.into_response();
    };
    peer.set_hops(instance.options.hop_limit.into());
    let mut response = text(token);
    response.headers_mut().insert(TTL, HeaderValue::from(lives));
    response
}

fn text(text: String) -> Response {
    ([(header::CONTENT_TYPE, "text/plain")], text).into_response()
}

fn not_found() -> Response {
    StatusCode::NOT_FOUND.into_response()
}

/// As `Thu, 01 Jan 1970 00:00:00 GMT`.
fn http_date(time: Timestamp) -> Option<HeaderValue> {
    HeaderValue::from_str(&time.strftime("%a, %d %b %Y %H:%M:%S GMT").to_string()).ok()
}
