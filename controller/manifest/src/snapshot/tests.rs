//! What becomes of the objects of a cluster.

use muster_scheduling::model::{Catalogue, PodSpec, Resource, Resources};

use super::*;
use crate::read_text;

mod attach_limits;
mod devices;
mod drift;
mod nodes;
mod pods;
mod pools;
mod unlaunched;
mod volumes;

/// Puts `text` together, without instance types.
fn snapshot(text: &str) -> Snapshot {
    let manifests = read_text("input", text).unwrap();
    assert_eq!(manifests.warnings, [""; 0], "{text}");
    let settings = Settings { gates: FeatureGates::default().of_files(), ..Settings::default() };
    assemble(&manifests, &settings, &|_| Catalogue::default()).unwrap()
}

/// A pod called `name` with more of a spec, in the flow style of YAML.
fn pod(name: &str, spec: &str) -> String {
    format!(
        "{{apiVersion: v1, kind: Pod, metadata: {{name: {name}}}, spec: {{containers: [{{name: c}}], {spec}}}}}\n---\n"
    )
}

/// The constraints of the only pending pod.
fn only_spec(snapshot: &Snapshot) -> &PodSpec {
    assert_eq!(snapshot.problem.pods.len(), 1);
    snapshot.problem.spec_of(0)
}

/// The constraints of a pod with this spec.
fn spec_of(spec: &str) -> PodSpec {
    only_spec(&snapshot(&pod("a", spec))).clone()
}

fn pending(snapshot: &Snapshot) -> Vec<&str> {
    snapshot.problem.pods.iter().map(|pod| &*pod.name).collect()
}

fn amounts(resources: &Resources) -> String {
    let all: Vec<String> = resources.iter().map(|(resource, amount)| format!("{resource}={amount}")).collect();
    all.join(" ")
}
