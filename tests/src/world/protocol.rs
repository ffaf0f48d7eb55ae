//! What a test process and the daemon say to each other: one line of JSON each way for each part that is asked for.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use crate::cluster::Place;

/// A part of the shared world. Each is started when it is first asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Part {
    /// The control plane.
    Cluster,
    /// KWOK, for nodes without machines; brings the control plane.
    Kwok,
    /// moto, behind which each test has an EC2 of its own.
    Moto,
}

/// A test process to the daemon.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(super) struct Ask {
    pub(super) parts: Vec<Part>,
}

/// The daemon to a test process.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(super) enum Answer {
    /// All that was asked for runs.
    Ready(Described),
    /// It does not, and here is why, hint included.
    Failed(String),
}

/// The shared world as its users see it.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(super) struct Described {
    /// If the cluster or KWOK was asked for.
    pub(super) cluster: Option<Place>,
    pub(super) logs: PathBuf,
    /// If it was asked for.
    pub(super) moto: Option<MotoPlace>,
}

/// Where moto is.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(super) struct MotoPlace {
    pub(super) port: u16,
    pub(super) log: PathBuf,
}
