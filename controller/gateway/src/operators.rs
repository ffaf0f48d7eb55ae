//! RPCs that operators query, and their authorization. Operators authenticate with Kubernetes tokens, not certificates.

use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use http::HeaderMap;
use http::header::AUTHORIZATION;
use muster_proto::muster::diagnosis_server::Diagnosis;
use muster_proto::muster::{
    ExplainNodeRequest, ExplainNodeResponse, ExplainPodRequest, ExplainPodResponse, LaunchRequest, LaunchResponse,
    PlanRequest, PlanResponse, TerminateRequest, TerminateResponse, VerdictsRequest, VerdictsResponse,
    WhatIfRemovedRequest, WhatIfRemovedResponse,
};
use prost_types::Struct;
use tokio::sync::{Semaphore, watch};
use tokio::time::{Instant, timeout};
use tonic::{Extensions, Request, Response, Status};

use crate::access::Verb;
use crate::limits::Limits;
use crate::peer::Peer;
use crate::refusal_counters::Refusals;
use crate::reviews::{Reviews, call_of};
use crate::rows::Rows;
use crate::sources::Unavailable;

/// Maximum number of concurrent answers: each is a plan for the whole cluster.
const ANSWERS: usize = 1;
/// Maximum time that a caller waits for its turn.
const TURN: Duration = Duration::from_secs(10);
/// Maximum length of a token; those of service accounts have about 1 KiB.
const LONGEST_TOKEN: usize = 8 * 1024;
/// Maximum length of an object's name.
const LONGEST_NAME: usize = 253;

/// Result of a token's review.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Access {
    /// The named user is allowed.
    Allowed(String),
    /// The named user is denied; the name is for the log.
    Denied(String),
    /// The token is invalid, or has another audience.
    Unknown,
}

/// Query of an operator.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Question {
    /// Explanation of a pod's placement: `namespace/name`.
    Pod(String),
    /// Explanation of a node's state.
    Node(String),
    /// Effect of removing a node.
    Removal(String),
    /// Findings of agents: of a NodeClaim or a node, or all.
    Verdicts(Option<String>),
    /// Nodes of a NodePool, or all.
    Nodes(Option<String>),
}

/// Reason why a query or an order was not carried out.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Unanswered {
    /// The named object does not exist.
    #[error("{0}")]
    NotFound(String),
    /// A field is invalid; the text begins with its name.
    #[error("{0}")]
    Invalid(String),
    /// The request ID was already used for another order.
    #[error("{0}")]
    Taken(String),
    /// A limit is exceeded.
    #[error("{0}")]
    Exhausted(String),
    /// The current state does not permit it.
    #[error("{0}")]
    Precondition(String),
    /// Temporarily unavailable.
    #[error("{0}")]
    NotNow(String),
    /// Internal error; the text is for the log.
    #[error("{0}")]
    Failed(String),
}

/// Authentication of operators, and their queries and orders.
pub trait Operators: Send + Sync + 'static {
    /// Returns true if a token's text alone may be that of a known operator. Other text does not cost a TokenReview.
    fn may_know(&self, token: &str) -> bool;

    /// Reviews whether the token's user may do this to a path such as `/muster.v1.Diagnosis/ExplainPod`.
    fn review(&self, token: &str, verb: Verb, path: &str) -> impl Future<Output = Result<Access, Unavailable>> + Send;

    /// Answers a query as a document.
    fn answer(&self, question: Question) -> impl Future<Output = Result<Struct, Unanswered>> + Send;

    /// Plans an order of the user `by` without carrying it out.
    fn plan(&self, request: PlanRequest, by: String) -> impl Future<Output = Result<PlanResponse, Unanswered>> + Send;

    /// Carries out an order of the user `by`.
    fn launch(
        &self,
        request: LaunchRequest,
        by: String,
    ) -> impl Future<Output = Result<LaunchResponse, Unanswered>> + Send;

    /// Terminates a node for the user `by`.
    fn terminate(
        &self,
        request: TerminateRequest,
        by: String,
    ) -> impl Future<Output = Result<TerminateResponse, Unanswered>> + Send;

    /// Watches the rows of all nodes; `None` until they are known.
    fn rows(&self) -> watch::Receiver<Option<Arc<Rows>>>;
}

/// Authenticated user of a call, kept in the request's extensions.
#[derive(Debug, Clone)]
pub(crate) struct Caller {
    /// Name of the user as the API server reports it.
    pub(crate) name: String,
    /// Becomes true when the connection is to end.
    pub(crate) ending: watch::Receiver<bool>,
}

/// Returns the user of a call. All RPCs of operators are authenticated by a token.
pub(crate) fn caller(extensions: &Extensions) -> Result<Caller, Status> {
    extensions.get().cloned().ok_or_else(|| Status::internal("the caller was not authenticated"))
}

/// Authenticates and authorizes calls of operators.
pub(crate) struct Reception<S> {
    sources: Arc<S>,
    refusals: Refusals,
    reviews: Reviews,
}

impl<S: Operators> Reception<S> {
    pub(crate) fn new(sources: Arc<S>, refusals: Refusals, limits: &Limits) -> Self {
        Self { sources, refusals, reviews: Reviews::new(limits, Instant::now()) }
    }

    /// Returns the user's name if they may call the RPC at `path`. Only the token counts, with any client key; but a
    /// client with a node's certificate never acts as an operator.
    pub(crate) async fn admit(
        &self,
        verb: Verb,
        path: &str,
        (from, peer): (IpAddr, Option<&Peer>),
        headers: &HeaderMap,
    ) -> Result<String, Status> {
        if peer.is_some_and(|peer| peer.node.is_some()) {
            self.refusals.count("NodeAsOperator");
            return Err(Status::permission_denied("this is for operators, and the certificate is a node's"));
        }
        let Some(token) = token(headers) else {
            self.refusals.count("NoToken");
            return Err(Status::unauthenticated("no token: send `authorization: Bearer TOKEN`"));
        };
        // Before it is counted: clients that send other text must not use up the rate of those with tokens.
        if !self.sources.may_know(token) {
            return Err(self.unknown());
        }
        let call = call_of(token, verb, path);
        if let Some(user) = self.reviews.remembered(&call, Instant::now()) {
            return Ok(user);
        }
        let turn = self.reviews.begin(from, Instant::now()).map_err(|code| {
            self.refusals.count(code);
            Status::resource_exhausted("too many ask at once: try again")
        })?;
        match self.sources.review(token, verb, path).await {
            Ok(Access::Allowed(user)) => {
                turn.allowed(call, &user, Instant::now());
                Ok(user)
            }
            Ok(Access::Denied(user)) => {
                self.refusals.count("OperatorDenied");
                tracing::warn!(user, path, "an operator may not do this");
                Err(Status::permission_denied(format!("you may not `{}` the non-resource URL `{path}`", verb.name())))
            }
            Ok(Access::Unknown) => Err(self.unknown()),
            Err(error) => {
                turn.unanswered();
                tracing::warn!(%error, "a token cannot be looked at");
                Err(Status::unavailable("the API server does not say whose token this is: try again"))
            }
        }
    }

    fn unknown(&self) -> Status {
        self.refusals.count("TokenUnknown");
        Status::unauthenticated("the token is not known, or not for the audience `muster.dev`")
    }
}

/// Returns the bearer token of a call, if it is well-formed.
fn token(headers: &HeaderMap) -> Option<&str> {
    let value = headers.get(AUTHORIZATION)?.to_str().ok()?;
    let (scheme, token) = value.split_once(' ')?;
    let token = token.trim();
    let is_token =
        !token.is_empty() && token.len() <= LONGEST_TOKEN && token.bytes().all(|byte| byte.is_ascii_graphic());
    (scheme.eq_ignore_ascii_case("bearer") && is_token).then_some(token)
}

/// Implements the Diagnosis RPCs.
pub(crate) struct Answers<S> {
    sources: Arc<S>,
    turns: Turns,
}

/// Limits how many answers are worked out at once.
#[derive(Debug, Clone)]
pub(crate) struct Turns(Arc<Semaphore>);

impl<S: Operators> Answers<S> {
    pub(crate) const fn new(sources: Arc<S>, turns: Turns) -> Self {
        Self { sources, turns }
    }

    async fn answer(&self, question: Question) -> Result<Option<Struct>, Status> {
        let sources = Arc::clone(&self.sources);
        self.turns.work(async move { sources.answer(question).await }).await.map(Some)
    }
}

impl Default for Turns {
    fn default() -> Self {
        Self(Arc::new(Semaphore::new(ANSWERS)))
    }
}

impl Turns {
    /// Works an answer out once a turn is free.
    pub(crate) async fn work<T: Send + 'static>(
        &self,
        answer: impl Future<Output = Result<T, Unanswered>> + Send + 'static,
    ) -> Result<T, Status> {
        let turn = timeout(TURN, Arc::clone(&self.0).acquire_owned()).await;
        let Ok(Ok(turn)) = turn else { return Err(Status::resource_exhausted("too many ask at once: try again")) };
        // A task of its own that holds the turn: a plan in progress continues when its caller is gone, and the next one
        // waits for it.
        let work = tokio::spawn(async move {
            let answer = answer.await;
            drop(turn);
            answer
        });
        work.await.unwrap_or_else(|error| Err(Unanswered::Failed(error.to_string()))).map_err(Status::from)
    }
}

impl From<Unanswered> for Status {
    fn from(unanswered: Unanswered) -> Self {
        match unanswered {
            Unanswered::NotFound(message) => Self::not_found(message),
            Unanswered::Invalid(message) => Self::invalid_argument(message),
            Unanswered::Taken(message) => Self::already_exists(message),
            Unanswered::Exhausted(message) => Self::resource_exhausted(message),
            Unanswered::Precondition(message) => Self::failed_precondition(message),
            Unanswered::NotNow(message) => Self::unavailable(message),
            Unanswered::Failed(error) => {
                tracing::error!(error, "a question of an operator has no answer");
                Self::internal("it could not be answered: the controller's log says why")
            }
        }
    }
}

/// Checks that a text may be an object's name.
pub(crate) fn name(text: String, field: &'static str) -> Result<String, Status> {
    if text.is_empty() {
        return Err(Status::invalid_argument(format!("{field}: is missing")));
    }
    let is_name =
        text.len() <= LONGEST_NAME && text.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-.".contains(&byte));
    if is_name { Ok(text) } else { Err(Status::invalid_argument(format!("{field}: not a valid name"))) }
}

/// Checks an optional name; empty is `None`.
pub(crate) fn name_or_none(text: String, field: &'static str) -> Result<Option<String>, Status> {
    Some(text).filter(|text| !text.is_empty()).map(|text| name(text, field)).transpose()
}

#[tonic::async_trait]
impl<S: Operators> Diagnosis for Answers<S> {
    async fn explain_pod(&self, request: Request<ExplainPodRequest>) -> Result<Response<ExplainPodResponse>, Status> {
        let ExplainPodRequest { namespace, pod } = request.into_inner();
        let namespace = if namespace.is_empty() { "default".to_owned() } else { name(namespace, "namespace")? };
        let question = Question::Pod(format!("{namespace}/{}", name(pod, "pod")?));
        Ok(Response::new(ExplainPodResponse { document: self.answer(question).await? }))
    }

    async fn explain_node(
        &self,
        request: Request<ExplainNodeRequest>,
    ) -> Result<Response<ExplainNodeResponse>, Status> {
        let question = Question::Node(name(request.into_inner().node, "node")?);
        Ok(Response::new(ExplainNodeResponse { document: self.answer(question).await? }))
    }

    async fn what_if_removed(
        &self,
        request: Request<WhatIfRemovedRequest>,
    ) -> Result<Response<WhatIfRemovedResponse>, Status> {
        let question = Question::Removal(name(request.into_inner().node, "node")?);
        Ok(Response::new(WhatIfRemovedResponse { document: self.answer(question).await? }))
    }

    async fn verdicts(&self, request: Request<VerdictsRequest>) -> Result<Response<VerdictsResponse>, Status> {
        let question = Question::Verdicts(name_or_none(request.into_inner().name, "name")?);
        Ok(Response::new(VerdictsResponse { document: self.answer(question).await? }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_is_what_stands_behind_bearer() {
        let of = |value: &[u8]| {
            let mut headers = HeaderMap::new();
            headers.insert(AUTHORIZATION, http::HeaderValue::from_bytes(value).unwrap());
            token(&headers).map(str::to_owned)
        };
        assert_eq!(token(&HeaderMap::new()), None);
        assert_eq!(of(b"Bearer eyJh.x-y_z"), Some("eyJh.x-y_z".to_owned()));
        assert_eq!(of(b"bearer  a"), Some("a".to_owned()));
        for other in [&b"Basic abc"[..], b"Bearer", b"Bearer ", b"Bearer a b", b"Bearer \xff", b"token"] {
            assert_eq!(of(other), None, "{other:?}");
        }
        assert_eq!(of(format!("Bearer {}", "a".repeat(LONGEST_TOKEN + 1)).as_bytes()), None);
    }

    #[test]
    fn a_name_is_one_of_an_object() {
        assert_eq!(name("ip-10-0-0-1.ec2.internal".to_owned(), "node").unwrap(), "ip-10-0-0-1.ec2.internal");
        for (text, why) in
            [("", "node: is missing"), ("a/b", "node: not a valid name"), ("a\nb", "node: not a valid name")]
        {
            assert_eq!(name(text.to_owned(), "node").unwrap_err().message(), why);
        }
    }
}
