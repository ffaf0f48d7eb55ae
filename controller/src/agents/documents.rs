//! Documents that answer operators. The commands build them, so that both give the same; the server gets the functions.

use jiff::Timestamp;
use k8s_openapi::api::core::v1::ConfigMap;
use muster_manifest::Manifests;
use muster_manifest::snapshot::{self, Types};
use muster_scheduling::disrupt;
use muster_stages::roster::Member;
use serde_json::Value;

/// A document, or the reason why there is none.
pub type Answer = Result<Value, Unanswered>;

/// Functions that build documents from a snapshot.
#[derive(Debug, Clone, Copy)]
pub struct Documents {
    /// Returns the document of `muster explain`.
    pub explanation: fn(Manifests, Given<'_>, &Of) -> Answer,
    /// Returns the document of `muster nodes`, for one NodePool or all.
    pub nodes: fn(&Manifests, Option<&str>, Timestamp) -> Answer,
    /// Returns the document of `muster verdicts`: all verdicts, or one.
    pub verdicts: fn(&Manifests, Vec<ConfigMap>, Option<&str>) -> Answer,
    /// Returns a row of the document of `muster nodes`, without the field that changes with time alone.
    pub row: fn(&Member) -> Option<Value>,
}

/// Object to explain.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Of {
    /// A pod, by `namespace/name`.
    Pod(String),
    /// A node.
    Node(String),
    /// A node, with the effect of its removal.
    Removal(String),
}

/// Reason why a document cannot be built.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Unanswered {
    /// The named object does not exist, or cannot be explained.
    NotFound(String),
    /// Internal error.
    Failed(String),
}

/// Inputs of an explanation in addition to the objects.
#[derive(Clone, Copy)]
pub struct Given<'a> {
    /// Settings of the snapshot.
    pub settings: &'a snapshot::Settings,
    /// Instance types of a NodeClass.
    pub types: &'a Types<'a>,
    /// Settings of packing and disruption.
    pub choices: &'a disrupt::Settings,
    /// Time of the request.
    pub now: Timestamp,
}
