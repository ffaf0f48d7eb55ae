//! Operators: who they are, and what they are answered.

use std::sync::Arc;

use jiff::Timestamp;
use k8s_openapi::api::authentication::v1::{TokenReview, TokenReviewSpec};
use k8s_openapi::api::authorization::v1::{NonResourceAttributes, SubjectAccessReview, SubjectAccessReviewSpec};
use kube::api::PostParams;
use kube::{Api, Client};
use muster_gateway::{Access, Operators, Question, Unanswered, Unavailable};
use muster_scheduling::disrupt;
use muster_scheduling::model::Catalogue;
use prost_types::{ListValue, Struct, Value, value::Kind};

use super::records::Records;
use crate::cli::{self, Given, Of};
use crate::manifest::NodeClass;
use crate::snapshot;
use crate::watch::Picture;

/// For whom a token must be: one for the API server is none for the controller, which could use it there in its user's name.
pub const AUDIENCE: &str = "muster.dev";
/// What a user must be allowed, on the path of an RPC.
const VERB: &str = "get";

/// The instance types of a class, as this controller launches them.
pub(crate) type Types = Arc<dyn Fn(Option<&NodeClass>) -> Catalogue + Send + Sync>;

/// What answers are made from, beside the picture.
#[derive(Clone)]
pub(crate) struct Knowledge {
    pub(crate) types: Types,
    pub(crate) settings: snapshot::Settings,
    pub(crate) choices: disrupt::Settings,
}

/// Answers operators, for the life of this replica.
pub(super) struct Desk {
    pub(super) picture: Picture,
    pub(super) client: Client,
    pub(super) records: Records,
    pub(super) knowledge: Knowledge,
    pub(super) clock: fn() -> Timestamp,
}

impl Operators for Desk {
    async fn review(&self, token: &str, path: &str) -> Result<Access, Unavailable> {
        let spec = TokenReviewSpec { token: token.to_owned(), audiences: Some(vec![AUDIENCE.to_owned()]) };
        let review = TokenReview { spec, ..TokenReview::default() };
        let answer = Api::all(self.client.clone()).create(&PostParams::default(), &review).await;
        let status = answer.map_err(|error| unavailable(&error))?.status.unwrap_or_default();
        // An authenticator that does not know of audiences names none, and means the API server's.
        let is_for_us = status.audiences.iter().flatten().any(|audience| audience == AUDIENCE);
        let Some(user) = status.user.filter(|_| status.authenticated == Some(true) && is_for_us) else {
            return Ok(Access::Unknown);
        };
        let name = user.username.clone().unwrap_or_default();
        let wanted = NonResourceAttributes { path: Some(path.to_owned()), verb: Some(VERB.to_owned()) };
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
        Ok(if is_allowed { Access::Allowed } else { Access::Denied(name) })
    }

    async fn answer(&self, question: Question) -> Result<Struct, Unanswered> {
        let of = match question {
            Question::Pod(name) => Of::Pod(name),
            Question::Node(name) => Of::Node(name),
            Question::Removal(name) => Of::Removal(name),
            Question::Verdicts(name) => return self.verdicts(name).await,
        };
        let (picture, knowledge, now) = (self.picture.clone(), self.knowledge.clone(), (self.clock)());
        // A plan for a large cluster takes a second of a core: not one that connections need.
        let work = tokio::task::spawn_blocking(move || {
            let manifests = picture.glance().manifests();
            let Knowledge { types, settings, choices } = &knowledge;
            let given = Given { settings, types: &|class: Option<&NodeClass>| types(class), choices, now };
            cli::explanation(manifests, given, &of)
        });
        let document = work.await.map_err(|error| Unanswered::Failed(error.to_string()))?;
        document.map_err(unanswered).map(structure)
    }
}

impl Desk {
    async fn verdicts(&self, name: Option<String>) -> Result<Struct, Unanswered> {
        // Bundles are read if one is to be shown.
        let maps = self.records.all(name.is_some()).await;
        let maps = maps.map_err(|error| {
            tracing::warn!(%error, "what is kept of nodes cannot be read");
            Unanswered::NotNow("the API server does not say what is kept: try again".to_owned())
        })?;
        let manifests = self.picture.glance().manifests();
        cli::verdicts_shown(&manifests, maps, name.as_deref()).map_err(unanswered).map(structure)
    }
}

fn unanswered(why: cli::Unanswered) -> Unanswered {
    match why {
        cli::Unanswered::NotFound(message) => Unanswered::NotFound(message),
        cli::Unanswered::Failed(error) => Unanswered::Failed(error),
    }
}

fn unavailable(error: &kube::Error) -> Unavailable {
    Unavailable(format!("the API server: {error}"))
}

/// A document as gRPC has it. Documents are maps.
fn structure(document: serde_json::Value) -> Struct {
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
        // Counts and prices: none is beyond what a double keeps apart.
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
