//! What `explain`, `nodes` and `verdicts` say, for those who ask the controller for it: the same documents, from the same functions.

use jiff::Timestamp;
use k8s_openapi::api::core::v1::ConfigMap;
use muster_scheduling::disrupt;
use serde::Serialize;
use serde_json::Value;

use super::explain;
use super::failure::Failure;
use super::inputs::Inputs;
use super::nodes;
use super::progress::Progress;
use super::settings::Subject;
use super::verdicts;
use crate::manifest::Manifests;
use crate::roster::Member;
use crate::snapshot::{self, Snapshot, Types};

/// Of which object.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Of {
    /// A pod, by `namespace/name`.
    Pod(String),
    /// A node.
    Node(String),
    /// A node, and what if it were gone.
    Removal(String),
}

/// Why there is no document.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Unanswered {
    /// There is nothing of that name, or it is nothing that can be asked about.
    NotFound(String),
    /// It failed.
    Failed(String),
}

/// What an explanation is made from, beside the objects.
#[derive(Clone, Copy)]
pub(crate) struct Given<'a> {
    /// What shapes a snapshot.
    pub(crate) settings: &'a snapshot::Settings,
    /// The instance types of a class.
    pub(crate) types: &'a Types<'a>,
    /// How pods are packed, and what is worth taking a node away.
    pub(crate) choices: &'a disrupt::Settings,
    /// The moment of the question.
    pub(crate) now: Timestamp,
}

/// The document of `muster explain`.
pub(crate) fn explanation(manifests: Manifests, given: Given<'_>, of: &Of) -> Result<Value, Unanswered> {
    let Given { settings, types, choices, now } = given;
    let (subject, if_removed) = match of {
        Of::Pod(name) => (Subject::Pod(name.clone()), false),
        Of::Node(name) => (Subject::Node(name.clone()), false),
        Of::Removal(name) => (Subject::Node(name.clone()), true),
    };
    let snapshot = snapshot::assemble(&manifests, settings, types);
    let Snapshot { problem, custody, remarks, warnings: _ } = snapshot.map_err(Failure::from)?;
    // Prices are those of the controller's catalogue, and no plan is shown that would say so.
    let inputs = Inputs { problem, manifests, custody, remarks, price_source: String::new() };
    let choices = disrupt::Settings { first: false, ..*choices };
    let explained = explain::explain(&inputs, &choices, &subject, if_removed, now, &mut Progress::new(false))?;
    value(&explained)
}

/// The document of `muster verdicts`, or of one of them.
pub(crate) fn verdicts(manifests: &Manifests, maps: Vec<ConfigMap>, name: Option<&str>) -> Result<Value, Unanswered> {
    value(&verdicts::shown(manifests, maps, name)?)
}

/// The document of `muster nodes`, of one NodePool or all.
pub(crate) fn nodes(manifests: &Manifests, pool: Option<&str>, now: Timestamp) -> Result<Value, Unanswered> {
    let pools: Vec<String> = pool.map(str::to_owned).into_iter().collect();
    value(&nodes::shown(manifests, &pools, now)?)
}

/// A row of that, without what moves by itself.
pub(crate) fn row(member: &Member) -> Option<Value> {
    // Of the moment nothing depends but the length that is left out.
    let mut row = serde_json::to_value(nodes::NodeDocument::new(member, Timestamp::UNIX_EPOCH)).ok()?;
    row.as_object_mut()?.remove("phaseSeconds");
    Some(row)
}

fn value(document: &impl Serialize) -> Result<Value, Unanswered> {
    serde_json::to_value(document).map_err(|error| Unanswered::Failed(error.to_string()))
}

impl From<Failure> for Unanswered {
    fn from(failure: Failure) -> Self {
        match failure {
            Failure::Usage(message) => Self::NotFound(message),
            other => Self::Failed(other.to_string()),
        }
    }
}
