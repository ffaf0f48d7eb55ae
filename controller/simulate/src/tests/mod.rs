//! Random days on which everything must hold that must, and stories about single things.
//!
//! A day that breaks a rule is made smaller for as long as it still does, and written to a script that `muster simulate
//! --script` plays again.

mod cycles;
mod garbage;
mod random;
mod stories;

use muster_manifest as manifest;
use muster_manifest::snapshot::Settings;
use muster_scheduling::model::Catalogue;
use muster_stages::provision;
use serde_json::Value;

use super::{Outcome, Policy, Script, Setting, play};

/// A small cluster: a pool of each kind, workloads with spreads, budgets and volumes, daemons.
pub(super) const CLUSTER: &str = include_str!("cluster.yaml");
/// Twelve pods that are spread over zones, on nodes that may be an hour old.
pub(super) const EXPIRING: &str = include_str!("expiring.yaml");
/// What they can be made of.
pub(super) const CATALOGUE: &str = include_str!("catalogue.yaml");

/// The objects of a text.
pub(crate) fn objects(text: &str) -> Vec<Value> {
    let source = manifest::Source { name: "cluster.yaml".to_owned(), text: text.to_owned(), only_json: false };
    manifest::raw_of(&source).unwrap()
}

/// The types of the small catalogue.
pub(super) fn catalogue() -> Catalogue {
    muster_aws::catalogue::read(CATALOGUE).unwrap().into()
}

/// Plays a day of the small cluster.
pub(super) fn day(script: Script, seed: u64) -> Outcome {
    day_of(CLUSTER, script, seed, Policy::Muster)
}

/// Plays a day of a cluster.
pub(super) fn day_of(cluster: &str, script: Script, seed: u64, policy: Policy) -> Outcome {
    let manifests = manifest::read_text("cluster.yaml", cluster).unwrap();
    let types = catalogue();
    let setting = Setting {
        objects: objects(cluster),
        types: &|_| types.clone(),
        classes: &manifests.node_classes,
        snapshot: Settings::default(),
        provision: provision::Settings::default(),
        disruption: muster_scheduling::disrupt::Settings::default(),
        policy,
        script,
        seed,
    };
    play(setting, &mut |_, _| {}).unwrap()
}
