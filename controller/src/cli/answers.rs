//! Documents of `explain`, `nodes` and `verdicts` for requests to the controller, from the same functions as the
//! commands.

use jiff::Timestamp;
use k8s_openapi::api::core::v1::ConfigMap;
use muster_manifest::Manifests;
use muster_manifest::snapshot::{self, Snapshot};
use muster_scheduling::disrupt;
use muster_stages::roster::Member;
use serde::Serialize;
use serde_json::Value;

use super::explain;
use super::failure::Failure;
use super::inputs::Inputs;
use super::nodes;
use super::prices::PriceWords;
use super::progress::Progress;
use super::settings::Subject;
use super::verdicts;
use crate::agents::{Documents, Given, Of, Unanswered};

/// The documents for the server of operators.
pub const DOCUMENTS: Documents = Documents { explanation, nodes, verdicts, row };

fn explanation(manifests: Manifests, given: Given<'_>, of: &Of) -> Result<Value, Unanswered> {
    let Given { settings, types, choices, now } = given;
    let (subject, if_removed) = match of {
        Of::Pod(name) => (Subject::Pod(name.clone()), false),
        Of::Node(name) => (Subject::Node(name.clone()), false),
        Of::Removal(name) => (Subject::Node(name.clone()), true),
    };
    let snapshot = snapshot::assemble(&manifests, settings, types);
    let Snapshot { problem, managed_nodes, remarks, .. } = snapshot.map_err(Failure::from)?;
    // Prices are those of the controller's catalogue, and the price source is not shown in an explanation.
    let inputs = Inputs { problem, manifests, managed_nodes, remarks, price_source: PriceWords::default() };
    let choices = disrupt::Settings { first: false, ..*choices };
    let explained = explain::explain(&inputs, &choices, &subject, if_removed, now, &mut Progress::new(false))?;
    value(&explained)
}

fn verdicts(manifests: &Manifests, maps: Vec<ConfigMap>, name: Option<&str>) -> Result<Value, Unanswered> {
    value(&verdicts::shown(manifests, maps, name)?)
}

fn nodes(manifests: &Manifests, pool: Option<&str>, now: Timestamp) -> Result<Value, Unanswered> {
    let pools: Vec<String> = pool.map(str::to_owned).into_iter().collect();
    value(&nodes::shown(manifests, &pools, now)?)
}

fn row(member: &Member) -> Option<Value> {
    // The time only affects the duration that is removed.
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
