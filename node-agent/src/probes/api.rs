//! Client of the API server, with the kubelet's own credentials.

use std::time::Duration;

use http_body_util::{BodyExt, Full};
use hyper::body::{Bytes, Incoming};
use hyper::{Method, Request, Response, StatusCode, header};
use jiff::Timestamp;
use serde::Deserialize;
use serde_json::{Value, json};

use super::fault::Unanswered;
use super::http::{Answer, Connection, Server, dial, tls};
use super::kubeconfig::{Kubeconfig, Token, User};
use super::{STEP, sts};
use crate::preflight::credentials::{CredentialCheck, OwnNode};
use crate::preflight::way::{TlsFault, Way};
use crate::watch::node_object::NodeObject;

/// A connection to the API server with credentials.
pub struct ApiServer {
    connection: Connection,
    token: Option<String>,
}

/// A watch on one Node.
pub struct NodeWatch {
    body: Incoming,
    /// Received bytes of events that are not parsed yet.
    rest: Vec<u8>,
    /// Number of leading bytes of `rest` known to contain no newline.
    looked: usize,
    _connection: Connection,
}

/// An event of the watch.
#[derive(Debug)]
pub enum NodeEvent {
    /// The Node was added or modified.
    Is(Box<NodeObject>),
    /// The Node was deleted.
    Gone,
    /// The watch ended, as it does from time to time: the reason.
    Ended(String),
}

/// Connects to the API server without credentials and reads `/version`.
pub async fn way(config: &Kubeconfig) -> Way {
    let to = config.server.clone();
    let security = match tls(&config.authority, None) {
        Ok(security) => security,
        Err(why) => return Way::Tls { to, fault: TlsFault::Authority(why.to_string()) },
    };
    let server = match Server::of_url(&config.server, Some(security)) {
        Ok(server) => server.by(config.route()),
        Err(error) => return Way::Odd { to, error: error.to_string() },
    };
    let mut connection = match dial(&server, STEP).await {
        Ok(connection) => connection,
        Err(way) => return way,
    };
    let to = format!("{}:{}", server.host, server.port);
    let answer = match request(Method::GET, "/version", None, None) {
        Ok(request) => connection.ask(request, STEP).await,
        Err(error) => Err(error),
    };
    match answer {
        Err(error) => Way::Odd { to, error: error.to_string() },
        Ok(answer) if answer.status.is_server_error() => Way::Odd { to, error: answer.status.to_string() },
        Ok(answer) => Way::Open { to, clock: clock(&answer), version: version(&answer.body) },
    }
}

/// Returns the node's identity in the API server and its Node. `cached` is a token that is kept between calls. `None`
/// if the API server cannot be reached or does not support SelfSubjectReview.
pub async fn standing(config: &Kubeconfig, name: Option<&str>, cached: &mut Option<Token>) -> Option<CredentialCheck> {
    let mut server = match ApiServer::connect(config, cached).await {
        Ok(server) => server,
        Err(Unreachable::Way(_)) => return None,
        Err(Unreachable::CredentialCheck(standing)) => return Some(standing),
    };
    let review = json!({"apiVersion": "authentication.k8s.io/v1", "kind": "SelfSubjectReview"});
    let answer = server.ask(Method::POST, "/apis/authentication.k8s.io/v1/selfsubjectreviews", Some(&review)).await;
    let answer = match answer {
        Ok(answer) => answer,
        Err(error) => return Some(CredentialCheck::Refused(error.to_string())),
    };
    match answer.status {
        StatusCode::UNAUTHORIZED => {
            let token = cached.take();
            let caller = match &token {
                Some(token) => sts::caller(&token.text, config.cluster()).await,
                None => None,
            };
            return Some(CredentialCheck::Unauthorized(caller));
        }
        // An API server before 1.28 lacks SelfSubjectReview, and others may forbid it.
        StatusCode::NOT_FOUND | StatusCode::FORBIDDEN => return None,
        status if status == StatusCode::TOO_MANY_REQUESTS || status.is_server_error() => {
            return Some(CredentialCheck::Busy(message(&answer)));
        }
        status if !status.is_success() => return Some(CredentialCheck::Refused(message(&answer))),
        _ => {}
    }
    let body: Value = serde_json::from_slice(&answer.body).unwrap_or_default();
    let user = body.pointer("/status/userInfo/username").and_then(Value::as_str).unwrap_or_default().to_owned();
    let groups = body.pointer("/status/userInfo/groups").and_then(Value::as_array);
    let groups = groups.into_iter().flatten().filter_map(Value::as_str).map(ToOwned::to_owned).collect();
    let version = match server.ask(Method::GET, "/version", None).await {
        Ok(answer) => version(&answer.body),
        Err(_) => None,
    };
    let name = name.map(ToOwned::to_owned).or_else(|| user.strip_prefix("system:node:").map(ToOwned::to_owned));
    let node = match name {
        Some(name) => server.node(&name).await,
        None => OwnNode::Unknown("the node's name is not known".to_owned()),
    };
    Some(CredentialCheck::Known { user, groups, version, node })
}

/// Reason why a connection with credentials failed.
pub enum Unreachable {
    /// The API server cannot be reached: the failed step.
    Way(Way),
    /// The credentials cannot be obtained.
    CredentialCheck(CredentialCheck),
}

impl ApiServer {
    /// Connects with the node's credentials.
    ///
    /// # Errors
    /// See [`Unreachable`].
    pub async fn connect(config: &Kubeconfig, cached: &mut Option<Token>) -> Result<Self, Unreachable> {
        let own = match &config.user {
            User::Certificate(certificate, key) => Some((certificate.as_slice(), key.as_slice())),
            _ => None,
        };
        let broken = |why: &dyn std::error::Error| {
            Unreachable::CredentialCheck(CredentialCheck::Kubeconfig("kubeconfig".to_owned(), why.to_string()))
        };
        let security = tls(&config.authority, own).map_err(|fault| broken(&fault))?;
        let server = Server::of_url(&config.server, Some(security)).map_err(|fault| broken(&fault))?;
        let server = server.by(config.route());
        let token = match &config.user {
            User::Token(token) => Some(token.clone()),
            User::Exec(exec) => {
                let fresh = cached.clone().filter(|token| token.is_fresh(Timestamp::now()));
                let token = match fresh {
                    Some(token) => token,
                    None => exec.token(&config.environment).await.map_err(Unreachable::CredentialCheck)?,
                };
                *cached = Some(token.clone());
                Some(token.text)
            }
            User::Certificate(..) | User::Nobody => None,
        };
        let connection = dial(&server, STEP).await.map_err(Unreachable::Way)?;
        Ok(Self { connection, token })
    }

    async fn ask(&mut self, method: Method, path: &str, body: Option<&Value>) -> Result<Answer, Unanswered> {
        let request = request(method, path, body, self.token.as_deref())?;
        self.connection.ask(request, STEP).await
    }

    /// Reads the Node with this name.
    pub async fn node(&mut self, name: &str) -> OwnNode {
        let answer = match self.ask(Method::GET, &format!("/api/v1/nodes/{name}"), None).await {
            Ok(answer) => answer,
            Err(error) => return OwnNode::Unknown(error.to_string()),
        };
        match (answer.status, NodeObject::of_json(&answer.body)) {
            (StatusCode::OK, Some(node)) => OwnNode::Present(Box::new(node)),
            (StatusCode::NOT_FOUND, _) => OwnNode::Absent,
            _ => OwnNode::Unknown(message(&answer)),
        }
    }

    /// Watches the Node with this name, which may not exist yet.
    ///
    /// # Errors
    /// The API server refuses or does not answer.
    pub async fn watch_node(mut self, name: &str) -> Result<NodeWatch, Unanswered> {
        let path = format!("/api/v1/nodes?watch=true&allowWatchBookmarks=false&fieldSelector=metadata.name%3D{name}");
        let request = request(Method::GET, &path, None, self.token.as_deref())?;
        let response: Response<Incoming> = self.connection.open(request, Duration::from_secs(10)).await?;
        if response.status() != StatusCode::OK {
            return Err(Unanswered::Refused(response.status()));
        }
        Ok(NodeWatch { body: response.into_body(), rest: Vec::new(), looked: 0, _connection: self.connection })
    }
}

impl NodeWatch {
    /// Returns the next event. Cancel safe.
    pub async fn next(&mut self) -> NodeEvent {
        /// Maximum size of an event. A Node with all its images takes 50 KB.
        const LARGEST: usize = 4 << 20;
        const ROOM: usize = 64 << 10;
        loop {
            let fresh = self.rest.get(self.looked..).unwrap_or_default();
            if let Some(end) = fresh.iter().position(|byte| *byte == b'\n') {
                let end = self.looked + end;
                let event = event(self.rest.get(..end).unwrap_or_default());
                self.rest.drain(..=end);
                // Release the memory of a large event.
                self.rest.shrink_to(ROOM);
                self.looked = 0;
                if let Some(event) = event {
                    return event;
                }
                continue;
            }
            self.looked = self.rest.len();
            match self.body.frame().await {
                Some(Ok(frame)) => self.rest.extend_from_slice(&frame.into_data().unwrap_or_default()),
                Some(Err(error)) => return NodeEvent::Ended(error.to_string()),
                None => return NodeEvent::Ended("the API server ended the watch".to_owned()),
            }
            if self.rest.len() > LARGEST {
                return NodeEvent::Ended("an event is too long".to_owned());
            }
        }
    }
}

/// Type of an event. Parsed first, since the object of an error is not a Node.
#[derive(Deserialize)]
struct Kind {
    #[serde(rename = "type")]
    kind: String,
}

#[derive(Deserialize)]
struct Changed {
    object: NodeObject,
}

fn event(line: &[u8]) -> Option<NodeEvent> {
    let Kind { kind } = serde_json::from_slice(line).ok()?;
    match kind.as_str() {
        "ADDED" | "MODIFIED" => {
            let Changed { object } = serde_json::from_slice(line).ok()?;
            Some(NodeEvent::Is(Box::new(object)))
        }
        "DELETED" => Some(NodeEvent::Gone),
        "ERROR" => Some(NodeEvent::Ended("the API server asks to begin again".to_owned())),
        _ => None,
    }
}

fn request(
    method: Method,
    path: &str,
    body: Option<&Value>,
    token: Option<&str>,
) -> Result<Request<Full<Bytes>>, Unanswered> {
    let mut request = Request::builder().method(method).uri(path).header(header::ACCEPT, "application/json");
    request = request.header(header::USER_AGENT, concat!("muster-agent/", env!("CARGO_PKG_VERSION")));
    if let Some(token) = token {
        request = request.header(header::AUTHORIZATION, format!("Bearer {token}"));
    }
    if body.is_some() {
        request = request.header(header::CONTENT_TYPE, "application/json");
    }
    let body = body.map(|body| Bytes::from(body.to_string())).unwrap_or_default();
    // The token may contain bytes that are invalid in a header. It must not appear in the error.
    request.body(Full::new(body)).map_err(|_| Unanswered::Malformed)
}

fn clock(answer: &Answer) -> Option<(Timestamp, Timestamp)> {
    let date = answer.headers.get(header::DATE)?.to_str().ok()?;
    // For example `Sat, 21 Nov 2026 20:00:00 GMT`.
    let theirs = jiff::fmt::rfc2822::parse(date).ok()?.timestamp();
    Some((theirs, Timestamp::now()))
}

fn version(body: &[u8]) -> Option<String> {
    let body: Value = serde_json::from_slice(body).ok()?;
    body.get("gitVersion").and_then(Value::as_str).map(ToOwned::to_owned)
}

fn message(answer: &Answer) -> String {
    let body: Value = serde_json::from_slice(&answer.body).unwrap_or_default();
    let said = body.get("message").and_then(Value::as_str).unwrap_or_default();
    format!("{} {said}", answer.status).trim().to_owned()
}
