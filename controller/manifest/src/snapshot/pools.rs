//! NodePools, their classes, and the resources in use.

use std::collections::BTreeMap;
use std::sync::Arc;

use muster_scheduling::labels::{INSTANCE_TYPE, NODE_POOL};
use muster_scheduling::model::{self, Catalogue, InstanceType, PoolState, Problem, Requirements, Resources};
use rustc_hash::FxHashMap;

use super::Types;
use super::nodes::{Footprint, footprints, node_count};
use crate::{Condition, Manifests, NodeClass, NodeClassRef, NodePool};

/// Adds the pools with the instance types of their classes.
pub(super) fn append(manifests: &Manifests, types: &Types<'_>, problem: &mut Problem, warnings: &mut Vec<String>) {
    let footprints = footprints(manifests);
    let mut usage: BTreeMap<&str, Usage<'_>> = BTreeMap::new();
    for footprint in &footprints {
        usage.entry(&footprint.pool).or_default().add(footprint);
    }
    let mut catalogues: BTreeMap<Option<(&str, &str)>, usize> = BTreeMap::new();
    for pool in &manifests.node_pools {
        if pool.meta.deleting {
            continue;
        }
        let class = class_of(manifests, &pool.class);
        let catalogue = *catalogues.entry(class.map(|class| (class.kind, &*class.name))).or_insert_with(|| {
            problem.catalogues.push(types(class));
            problem.catalogues.len() - 1
        });
        let state = state(pool, class);
        if let PoolState::NotReady(reason) = &state {
            warnings.push(format!("NodePool `{}` cannot launch nodes: {reason}", pool.meta.name));
        }
        let mut used = usage.remove(&*pool.meta.name).unwrap_or_default();
        used.settle(&problem.catalogues[catalogue]);
        problem.pools.push(model_of(pool, catalogue, state, used));
    }
}

/// Total resources of the nodes of a pool.
#[derive(Default)]
struct Usage<'m> {
    capacity: Resources,
    nodes: i64,
    staying: u32,
    /// Requirements of claims that have not been launched.
    choices: Vec<&'m Requirements>,
}

impl<'m> Usage<'m> {
    fn add(&mut self, footprint: &Footprint<'m>) {
        self.capacity.add(&footprint.capacity);
        self.choices.extend(footprint.choice);
        self.nodes += 1;
        if !footprint.deleting {
            self.staying = self.staying.saturating_add(1);
        }
    }
}

impl Usage<'_> {
    /// Counts claims that have not been launched as the largest type that they allow: limits hold whichever type is
    /// chosen.
    fn settle(&mut self, types: &Catalogue) {
        if self.choices.is_empty() {
            return;
        }
        let by_name: FxHashMap<&str, &InstanceType> = types.types().iter().map(|one| (&*one.name, one)).collect();
        for choice in std::mem::take(&mut self.choices) {
            let mut largest = Resources::new();
            match choice.get(INSTANCE_TYPE).filter(|names| names.is_finite()) {
                Some(names) => {
                    let named = names.values().filter_map(|name| by_name.get(&**name));
                    named.for_each(|one| largest.raise_to(&one.capacity));
                }
                None => {
                    let fit = types.types().iter().filter(|one| one.requirements.intersects(choice));
                    fit.for_each(|one| largest.raise_to(&one.capacity));
                }
            }
            self.capacity.add(&largest);
        }
    }
}

/// Returns the NodeClass that `wanted` names.
pub(super) fn class_of<'m>(manifests: &'m Manifests, wanted: &NodeClassRef) -> Option<&'m NodeClass> {
    manifests.node_classes.iter().find(|class| *class.kind == *wanted.kind && class.name == wanted.name)
}

fn model_of(pool: &NodePool, catalogue: usize, state: PoolState, used: Usage<'_>) -> model::NodePool {
    let mut labels = pool.labels.clone();
    let NodeClassRef { group, kind, name } = &pool.class;
    if !group.is_empty() && !kind.is_empty() {
        labels.set(format!("{group}/{}", kind.to_lowercase()), Arc::clone(name));
    }
    labels.set(NODE_POOL, Arc::clone(&pool.meta.name));
    let mut requirements: Requirements = pool.requirements.iter().cloned().collect();
    requirements.add_all(&Requirements::from_labels(&labels));
    let missing_replicas = missing_replicas(pool, &used);
    let Usage { mut capacity, nodes, .. } = used;
    capacity.set(node_count(), nodes);
    model::NodePool {
        name: Arc::clone(&pool.meta.name),
        weight: pool.weight,
        requirements,
        labels,
        annotations: pool.annotations.clone(),
        taints: pool.taints.clone(),
        startup_taints: pool.startup_taints.clone(),
        limits: pool.limits.clone(),
        usage: capacity,
        catalogue,
        state,
        missing_replicas,
    }
}

/// Returns the number of nodes that a static pool lacks, bounded by its limit of nodes.
fn missing_replicas(pool: &NodePool, used: &Usage<'_>) -> Option<u32> {
    let missing = pool.replicas?.saturating_sub(used.staying);
    let limit = pool.limits.as_ref().filter(|limits| limits.contains(&node_count()));
    let room = limit.map_or(i64::MAX, |limits| limits.get(&node_count()).saturating_sub(used.nodes).max(0));
    Some(u32::try_from(room).map_or(missing, |room| missing.min(room)))
}

fn state(pool: &NodePool, class: Option<&NodeClass>) -> PoolState {
    if let Some(reason) = &pool.never_ready {
        return PoolState::NotReady(reason.clone());
    }
    if let Some(reason) = not_ready(&pool.conditions) {
        return PoolState::NotReady(format!("its condition Ready is False{reason}"));
    }
    if let Some((class, reason)) = class.and_then(|class| Some((class, class.never_ready.as_ref()?))) {
        return PoolState::NotReady(format!("{} `{}` never becomes ready: {reason}", class.kind, class.name));
    }
    match class.and_then(|class| Some((class, not_ready(&class.conditions)?))) {
        Some((class, reason)) => {
            PoolState::NotReady(format!("condition Ready of {} `{}` is False{reason}", class.kind, class.name))
        }
        None => PoolState::Ready,
    }
}

/// Returns reason and message of the condition Ready, if it is False.
fn not_ready(conditions: &[Condition]) -> Option<String> {
    let ready = conditions.iter().find(|condition| &*condition.kind == "Ready" && &*condition.status == "False")?;
    let words: Vec<&str> = [&*ready.reason, &*ready.message].into_iter().filter(|word| !word.is_empty()).collect();
    Some(if words.is_empty() { String::new() } else { format!(" ({})", words.join(": ")) })
}
