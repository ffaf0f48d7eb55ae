//! Authentication and answers of operators' calls.

#[cfg(test)]
mod mutations;

use std::sync::Arc;
use std::time::Duration;

use base64::Engine;
use base64::prelude::BASE64_URL_SAFE_NO_PAD;
use jiff::Timestamp;
use k8s_openapi::api::authentication::v1::{TokenReview, TokenReviewSpec};
use k8s_openapi::api::authorization::v1::{NonResourceAttributes, SubjectAccessReview, SubjectAccessReviewSpec};
use kube::api::PostParams;
use kube::{Api, Client};
use muster_api::NodeClaim;
use muster_gateway::{Access, Operators, Question, Rows, Unanswered, Unavailable, Verb};
use muster_manifest::NodeClass;
use muster_manifest::snapshot;
use muster_proto::muster::{
    LaunchRequest, LaunchResponse, PlanRequest, PlanResponse, TerminateRequest, TerminateResponse,
};
use muster_scheduling::disrupt;
use muster_scheduling::model::Catalogue;
use muster_stages::archive::Record;
use prost_types::{ListValue, Struct, Value, value::Kind};
use serde::Deserialize;
use tokio::sync::watch;
use tokio::time::timeout;

use super::counter::Counter;
use super::documents::{self, Documents, Given, Of};
use super::orders;
use super::records::Records;
use super::rows::Roster;
use crate::watch::ClusterCache;

/// Required audience of tokens. A token for the API server is refused: the controller could use it there in its user's
/// name.
pub const AUDIENCE: &str = "muster.dev";
/// Timeout of requests to the API server: the client has none of its own.
const PATIENCE: Duration = Duration::from_secs(10);

/// Function that returns the instance types of a NodeClass, as this controller launches them.
pub(crate) type Types = Arc<dyn Fn(Option<&NodeClass>) -> Catalogue + Send + Sync>;

/// Sources of answers in addition to the cache of the cluster.
#[derive(Clone)]
pub(crate) struct Knowledge {
    pub(crate) types: Types,
    pub(crate) settings: snapshot::Settings,
    pub(crate) choices: disrupt::Settings,
}

/// Answers operators for the lifetime of this replica.
pub(super) struct OperatorService {
    pub(super) cluster_cache: ClusterCache,
    pub(super) client: Client,
    pub(super) records: Records,
    pub(super) knowledge: Knowledge,
    pub(super) documents: Documents,
    pub(super) orders: Arc<dyn Counter>,
    pub(super) roster: Arc<Roster>,
    pub(super) clock: fn() -> Timestamp,
}

impl Operators for OperatorService {
    /// Any client can send any text, so only tokens for this audience cost a review.
    fn may_know(&self, token: &str) -> bool {
        may_be_for_us(token)
    }

    async fn review(&self, token: &str, verb: Verb, path: &str) -> Result<Access, Unavailable> {
        let silence = |_| Err(Unavailable(format!("the API server: no answer within {} s", PATIENCE.as_secs())));
        timeout(PATIENCE, self.ask(token, verb, path)).await.unwrap_or_else(silence)
    }

    async fn answer(&self, question: Question) -> Result<Struct, Unanswered> {
        let of = match question {
            Question::Pod(name) => Of::Pod(name),
            Question::Node(name) => Of::Node(name),
            Question::Removal(name) => Of::Removal(name),
            Question::Verdicts(name) => return self.verdicts(name).await,
            Question::Nodes(pool) => {
                let (cluster_cache, now) = (self.cluster_cache.clone(), (self.clock)());
                let nodes = self.documents.nodes;
                let work = move || nodes(&cluster_cache.read().nodes_and_claims(), pool.as_deref(), now);
                return aside(work).await;
            }
        };
        let (cluster_cache, knowledge, now) = (self.cluster_cache.clone(), self.knowledge.clone(), (self.clock)());
        let explanation = self.documents.explanation;
        let work = move || {
            let manifests = cluster_cache.read().manifests();
            let Knowledge { types, settings, choices } = &knowledge;
            let given = Given { settings, types: &|class: Option<&NodeClass>| types(class), choices, now };
            explanation(manifests, given, &of)
        };
        aside(work).await
    }

    async fn plan(&self, request: PlanRequest, by: String) -> Result<PlanResponse, Unanswered> {
        orders::plan(Arc::clone(&self.orders), request, by).await
    }

    async fn launch(&self, request: LaunchRequest, by: String) -> Result<LaunchResponse, Unanswered> {
        orders::launch(&*self.orders, request, by).await
    }

    async fn terminate(&self, request: TerminateRequest, by: String) -> Result<TerminateResponse, Unanswered> {
        orders::terminate(&*self.orders, request, by).await
    }

    fn rows(&self) -> watch::Receiver<Option<Arc<Rows>>> {
        self.roster.watch()
    }
}

impl OperatorService {
    async fn ask(&self, token: &str, verb: Verb, path: &str) -> Result<Access, Unavailable> {
        let spec = TokenReviewSpec { token: token.to_owned(), audiences: Some(vec![AUDIENCE.to_owned()]) };
        let review = TokenReview { spec, ..TokenReview::default() };
        let answer = Api::all(self.client.clone()).create(&PostParams::default(), &review).await;
        let status = answer.map_err(|error| unavailable(&error))?.status.unwrap_or_default();
        // An authenticator that does not support audiences returns none, which means the API server's.
        let is_for_us = status.audiences.iter().flatten().any(|audience| audience == AUDIENCE);
        let Some(user) = status.user.filter(|_| status.authenticated == Some(true) && is_for_us) else {
            return Ok(Access::Unknown);
        };
        let name = user.username.clone().unwrap_or_default();
        let wanted = NonResourceAttributes { path: Some(path.to_owned()), verb: Some(verb.name().to_owned()) };
        let spec = SubjectAccessReviewSpec {
            user: user.username,
            uid: user.uid,
            groups: user.groups,
            extra: user.extra,
            non_resource_attributes: Some(wanted),
            resource_attributes: None,
        };
        let review = SubjectAccessReview { spec, ..SubjectAccessReview::default() };
        let answer = Api::all(self.client.clone()).create(&PostParams::default(), &review).await;
        let is_allowed = answer.map_err(|error| unavailable(&error))?.status.is_some_and(|status| status.allowed);
        Ok(if is_allowed { Access::Allowed(name) } else { Access::Denied(name) })
    }

    /// Returns the UID of the NodeClaim whose Node has that name.
    fn claim_of(&self, node: &str) -> Option<String> {
        let cluster = self.cluster_cache.read();
        let is_its =
            |claim: &&NodeClaim| claim.status.as_ref().and_then(|status| status.node_name.as_deref()) == Some(node);
        cluster.claims().find(is_its)?.metadata.uid.clone()
    }

    async fn verdicts(&self, name: Option<String>) -> Result<Struct, Unanswered> {
        let later = || Unanswered::NotNow("the API server did not return the records: try again".to_owned());
        // A record may be older than its Node, and name only the NodeClaim.
        let uid = name.as_deref().and_then(|name| self.claim_of(name));
        let bundle_of = |record: &Record| {
            name.as_deref().is_some_and(|name| record.is_on(name)) || uid.as_ref() == Some(&record.uid)
        };
        let maps = timeout(PATIENCE, self.records.all(bundle_of)).await.map_err(|_| later())?;
        let maps = maps.map_err(|error| {
            tracing::warn!(%error, "the records of nodes cannot be read");
            later()
        })?;
        let cluster_cache = self.cluster_cache.clone();
        let verdicts = self.documents.verdicts;
        aside(move || verdicts(&cluster_cache.read().manifests(), maps, name.as_deref())).await
    }
}

/// Works an answer out on a blocking thread: for a large cluster it takes a second of a core, and connections need this
/// thread.
async fn aside(
    work: impl FnOnce() -> Result<serde_json::Value, documents::Unanswered> + Send + 'static,
) -> Result<Struct, Unanswered> {
    let document = tokio::task::spawn_blocking(work).await;
    document.map_err(|error| Unanswered::Failed(error.to_string()))?.map_err(unanswered).map(structure)
}

/// Returns true if a token is a JWT for this audience, with any signature. Only service account tokens can be for an
/// audience, and they are JWTs.
fn may_be_for_us(token: &str) -> bool {
    #[derive(Deserialize)]
    struct Claims {
        aud: Audiences,
    }
    #[derive(Deserialize)]
    #[serde(untagged)]
    enum Audiences {
        One(String),
        Many(Vec<String>),
    }
    let is_some = |part: &Vec<u8>| !part.is_empty();
    let parts = token.split('.').map(|part| BASE64_URL_SAFE_NO_PAD.decode(part).ok().filter(is_some));
    let parts: Option<Vec<Vec<u8>>> = parts.collect();
    let Some([_header, claims, _signature]) = parts.as_deref() else { return false };
    let claims: Option<Claims> = serde_json::from_slice(claims).ok();
    claims.is_some_and(|claims| match claims.aud {
        Audiences::One(one) => one == AUDIENCE,
        Audiences::Many(many) => many.iter().any(|one| one == AUDIENCE),
    })
}

fn unanswered(why: documents::Unanswered) -> Unanswered {
    match why {
        documents::Unanswered::NotFound(message) => Unanswered::NotFound(message),
        documents::Unanswered::Failed(error) => Unanswered::Failed(error),
    }
}

fn unavailable(error: &kube::Error) -> Unavailable {
    Unavailable(format!("the API server: {error}"))
}

/// Converts a document to a protobuf `Struct`. Documents are maps.
pub(super) fn structure(document: serde_json::Value) -> Struct {
    match document {
        serde_json::Value::Object(fields) => {
            Struct { fields: fields.into_iter().map(|(key, field)| (key, value(field))).collect() }
        }
        other => Struct { fields: [("document".to_owned(), value(other))].into() },
    }
}

fn value(document: serde_json::Value) -> Value {
    use serde_json::Value as Json;
    let kind = match document {
        Json::Null => Kind::NullValue(0),
        Json::Bool(yes) => Kind::BoolValue(yes),
        // Counts and prices: all are within the exact range of a double.
        Json::Number(number) => Kind::NumberValue(number.as_f64().unwrap_or_default()),
        Json::String(text) => Kind::StringValue(text),
        Json::Array(items) => Kind::ListValue(ListValue { values: items.into_iter().map(value).collect() }),
        object @ Json::Object(_) => Kind::StructValue(structure(object)),
    };
    Value { kind: Some(kind) }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn what_is_for_somebody_else_is_not_asked_about() {
        let token = |claims: &str| format!("e30.{}.c2ln", BASE64_URL_SAFE_NO_PAD.encode(claims));
        assert!(may_be_for_us(&token(r#"{"aud":["muster.dev"],"sub":"x"}"#)));
        assert!(may_be_for_us(&token(r#"{"aud":"muster.dev"}"#)));
        for other in [r#"{"aud":["https://kubernetes.default.svc"]}"#, r#"{"sub":"x"}"#, r#"{"aud":7}"#, "[]", ""] {
            assert!(!may_be_for_us(&token(other)), "{other}");
        }
        let claims = BASE64_URL_SAFE_NO_PAD.encode(r#"{"aud":"muster.dev"}"#);
        let of = |text: &str| text.replace("CLAIMS", &claims);
        assert!(may_be_for_us(&of("e30.CLAIMS.c2ln")));
        for other in [
            "",
            "..",
            "a.%.c",
            "opaque",
            ".CLAIMS.",
            "e30.CLAIMS",
            "e30.CLAIMS.",
            "e30.CLAIMS.c2ln.c2ln",
            "e30.CLAIMS.c2l+",
        ] {
            assert!(!may_be_for_us(&of(other)), "{other}");
        }
    }

    #[test]
    fn a_document_is_the_same_over_grpc() {
        let document =
            json!({"kind": "Verdicts", "n": 3, "price": 0.25, "none": null, "yes": true, "list": [{"a": "b"}, "c"]});
        let Struct { fields } = structure(document);
        let kind = |name: &str| fields[name].kind.clone().unwrap();
        assert_eq!(kind("kind"), Kind::StringValue("Verdicts".to_owned()));
        assert_eq!((kind("n"), kind("price")), (Kind::NumberValue(3.0), Kind::NumberValue(0.25)));
        assert_eq!((kind("none"), kind("yes")), (Kind::NullValue(0), Kind::BoolValue(true)));
        let Kind::ListValue(ListValue { values }) = kind("list") else { panic!("no list") };
        assert_eq!(values.len(), 2);
        assert!(matches!(&values[0].kind, Some(Kind::StructValue(one)) if one.fields.contains_key("a")));
    }
}
