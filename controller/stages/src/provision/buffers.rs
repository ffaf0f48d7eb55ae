//! Places of the virtual pods of CapacityBuffers.

use std::collections::BTreeMap;
use std::sync::Arc;

use muster_manifest::snapshot::ResolvedBuffer;
use muster_scheduling::Solution;
use muster_scheduling::model::Problem;
use rustc_hash::{FxHashMap, FxHashSet};

use super::Round;
use super::plan::{Failure, Plan};

/// A CapacityBuffer, and the places of its pods after a round.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BufferOutcome {
    /// The buffer.
    pub buffer: ResolvedBuffer,
    /// Places of its pods.
    pub places: BufferPlaces,
}

/// Numbers of pods of a CapacityBuffer by place.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct BufferPlaces {
    /// Pods with room on nodes that are ready.
    pub existing: u32,
    /// Pods with room on nodes that are coming.
    pub coming: u32,
    /// Pods without room.
    pub failed: u32,
    /// Reason of the first of these: one word, and a message.
    pub why: Option<(&'static str, String)>,
}

/// A round of which the places are counted.
pub(super) struct Counted<'r> {
    pub(super) round: &'r Round<'r>,
    /// The solved problem, and its solution.
    pub(super) problem: &'r Problem,
    pub(super) solution: &'r Solution,
    pub(super) plan: &'r Plan,
    /// By pod of the problem.
    pub(super) failures: &'r BTreeMap<usize, Failure>,
}

impl Counted<'_> {
    /// Returns the outcome for each buffer of the round.
    pub(super) fn outcomes(&self) -> Vec<BufferOutcome> {
        if self.round.buffers.is_empty() {
            return Vec::new();
        }
        let mut places = self.places();
        let outcome = |buffer: &ResolvedBuffer| {
            let mut places = places.remove(&*buffer.path).unwrap_or_default();
            // What has no other place excludes nodes of all pools.
            let wanted = buffer.pods.as_ref().copied().unwrap_or_default();
            places.failed = wanted.saturating_sub(places.existing).saturating_sub(places.coming);
            BufferOutcome { buffer: buffer.clone(), places }
        };
        self.round.buffers.iter().map(outcome).collect()
    }

    fn places(&self) -> BTreeMap<&str, BufferPlaces> {
        let Self { round, problem, solution, plan, failures } = self;
        let virtual_pods = round.problem.pods.iter().filter(|pod| round.problem.specs[pod.spec].is_virtual);
        let mut left: FxHashSet<&str> = virtual_pods.map(|pod| &*pod.name).collect();
        let ready: FxHashMap<&str, bool> = problem.nodes.iter().map(|node| (&*node.name, node.initialized)).collect();
        let mut all: BTreeMap<&str, BufferPlaces> = BTreeMap::new();
        let mut note = |name: &Arc<str>, is_ready: bool| {
            let Some(name) = left.take(&**name) else { return };
            let places = all.entry(buffer_of(name)).or_default();
            *(if is_ready { &mut places.existing } else { &mut places.coming }) += 1;
        };
        let nodes: FxHashMap<&str, &str> =
            round.view.claims.iter().filter_map(|one| Some((one.name(), one.node_name()?))).collect();
        for (claim, pods) in &plan.placed {
            let node = nodes.get(claim.as_str()).copied().unwrap_or(claim);
            let is_ready = ready.get(node).copied().unwrap_or_default();
            pods.iter().filter(|pod| pod.uid.is_empty()).for_each(|pod| note(&pod.path, is_ready));
        }
        for (node, pods) in &solution.existing {
            let is_ready = problem.nodes.get(*node).is_some_and(|node| node.initialized);
            pods.iter().filter_map(|pod| problem.pods.get(*pod)).for_each(|pod| note(&pod.name, is_ready));
        }
        for (pod, failure) in *failures {
            let Some(name) = problem.pods.get(*pod).and_then(|pod| left.get(&*pod.name)) else { continue };
            let places = all.entry(buffer_of(name)).or_default();
            places.why.get_or_insert_with(|| (failure.reason, failure.message.clone()));
        }
        all
    }
}

/// Returns the path of the buffer of a virtual pod.
fn buffer_of(pod: &str) -> &str {
    pod.rsplit_once("-buffer-").map_or(pod, |(buffer, _)| buffer)
}
