//! Random days on which everything must hold that must, and stories about single things.
//!
//! A day that breaks a rule is made smaller for as long as it still does, and written to a script that `muster simulate
//! --script` plays again.

mod cycles;
mod faults;
mod garbage;
mod lifecycle;
mod random;
mod stories;
mod unplaced;
mod upstream;

use muster_manifest as manifest;
use muster_manifest::snapshot::{FeatureGates, Settings};
use muster_scheduling::disrupt::{self, Repair};
use muster_scheduling::model::Catalogue;
use muster_stages::provision;
use serde_json::Value;

pub(super) use self::lifecycle::{WriteLog, log_write};
use super::{Outcome, Policy, Script, Setting, play};

/// A small cluster: a pool of each kind, workloads with spreads, budgets and volumes, daemons.
pub(super) const CLUSTER: &str = include_str!("cluster.yaml");
/// Twelve pods that are spread over zones, on nodes that may be an hour old.
pub(super) const EXPIRING: &str = include_str!("expiring.yaml");
/// What they can be made of.
pub(super) const CATALOGUE: &str = include_str!("catalogue.yaml");

/// A pool of a fixed number of nodes, and room for pods that are not there yet.
const MORE: &str = "apiVersion: autoscaling.x-k8s.io/v1beta1
kind: CapacityBuffer
metadata: {name: spare, namespace: shop}
spec:
  replicas: 2
  podTemplateRef: {name: spare}
---
apiVersion: v1
kind: PodTemplate
metadata: {name: spare, namespace: shop}
template:
  spec:
    containers: [{name: main, image: none, resources: {requests: {cpu: 700m, memory: 1Gi}}}]
---
apiVersion: karpenter.sh/v1
kind: NodePool
metadata: {name: fixed}
spec:
  replicas: 1
  limits: {nodes: 4}
  template:
    spec:
      nodeClassRef: {group: karpenter.k8s.aws, kind: EC2NodeClass, name: default}
      taints: [{key: fixed, effect: NoSchedule}]
      requirements:
      - {key: karpenter.sh/capacity-type, operator: In, values: [on-demand]}
";

/// The small cluster with that.
pub(super) fn larger_cluster() -> String {
    format!("{CLUSTER}---\n{MORE}")
}

/// Settings with which everything is done that is built.
pub(super) fn settings_of_all() -> (Settings, disrupt::Settings) {
    let (mut snapshot, mut disruption) = settings_of();
    snapshot.gates = FeatureGates { node_repair: true, ..snapshot.gates.of_files() };
    snapshot.reboot_for_repair = true;
    disruption.repair = Repair::Voluntary;
    (snapshot, disruption)
}

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
    day_with(cluster, script, seed, policy, settings_of())
}

/// The settings of most days.
pub(super) fn settings_of() -> (Settings, disrupt::Settings) {
    (Settings::default(), disrupt::Settings::default())
}

/// Plays a day of a cluster with these settings.
pub(super) fn day_with(
    cluster: &str,
    script: Script,
    seed: u64,
    policy: Policy,
    (snapshot, disruption): (Settings, disrupt::Settings),
) -> Outcome {
    let manifests = manifest::read_text("cluster.yaml", cluster).unwrap();
    let types = catalogue();
    let setting = Setting {
        objects: objects(cluster),
        types: &|_| types.clone(),
        classes: &manifests.node_classes,
        snapshot,
        provision: provision::Settings::default(),
        disruption,
        policy,
        script,
        seed,
    };
    play(setting, &mut |_, _| {}).unwrap()
}
