//! Attach limits of nodes that do not exist yet, by instance type, as resources of the types.
//!
//! A limit is what the CSINodes of the pool's class say about nodes of the type; else, for EBS, that of a table. Nodes
//! that are starting have it, too, until their driver has registered.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use muster_api::attachments::{EBS_DRIVER, ebs_volumes};
use muster_api::labels::INSTANCE_FAMILY;
use muster_scheduling::labels::{INSTANCE_TYPE, NODE_POOL};
use muster_scheduling::model::{Amount, AttachFacts, InstanceType, Labels, Node, Problem, Resource};
use rustc_hash::FxHashMap;

use super::pools::class_of;
use super::unlaunched::Unlaunched;
use crate::{CsiNode, Manifests, NodeClass};

/// Divisor of the limit in the table of EBS for the least that is believed of a few nodes: one cannot say of itself
/// that it attaches next to nothing, and so have others bought.
const LEAST_PART: u32 = 2;
/// Number of nodes of a type that are believed whatever they say: the driver may be started with a limit of its own.
const BELIEVED: usize = 3;

/// Limits that nodes state, by instance type and driver, for each catalogue.
type Stated = BTreeMap<usize, BTreeMap<(Arc<str>, Arc<str>), Vec<u32>>>;

/// Adds the attach limits of the drivers in use to the instance types, and to nodes that are starting.
pub(super) fn apply(manifests: &Manifests, unlaunched: &[Unlaunched], problem: &mut Problem) {
    let attachments = problem.specs.iter().flat_map(|spec| &spec.attachments);
    let drivers: BTreeSet<Arc<str>> = attachments.map(|attachment| Arc::clone(&attachment.driver)).collect();
    if drivers.is_empty() {
        return;
    }
    let drivers: Vec<Arc<str>> = drivers.into_iter().collect();
    let catalogue_of: BTreeMap<Arc<str>, usize> =
        problem.pools.iter().map(|pool| (Arc::clone(&pool.name), pool.catalogue)).collect();
    let mut stated = stated(manifests, &catalogue_of);
    for catalogue in 0..problem.catalogues.len() {
        let stated = stated.remove(&catalogue).unwrap_or_default();
        let facts = AttachFacts { drivers: drivers.clone(), disks: disks(manifests, problem, catalogue), stated };
        problem.catalogues[catalogue].set_attach_limits(facts, limits);
    }
    limit_starting_nodes(problem, &catalogue_of, unlaunched);
}

/// Returns the attach limits of the types that do not have one from a NodeOverlay.
fn limits(types: &[InstanceType], facts: &AttachFacts) -> Vec<Amount> {
    let mut limits = Vec::new();
    for driver in &facts.drivers {
        let resource = Resource::attachable(driver);
        for (index, one) in types.iter().enumerate() {
            let limit = limit(one, driver, facts).filter(|_| !one.capacity.contains(&resource));
            limits.extend(limit.map(|limit| (index, resource.clone(), i64::from(limit))));
        }
    }
    limits
}

/// Returns the number of volumes of `driver` that a node of the type can attach, if it is known.
fn limit(one: &InstanceType, driver: &Arc<str>, facts: &AttachFacts) -> Option<u32> {
    let stated = facts.stated.get(&(Arc::clone(&one.name), Arc::clone(driver)));
    let of_ec2 = **driver == *EBS_DRIVER && one.requirements.get(INSTANCE_FAMILY).is_some();
    let table = of_ec2.then(|| ebs_volumes(&one.name, facts.disks));
    let middle = stated.and_then(|all| all.get(all.len().saturating_sub(1) / 2).copied());
    let is_believed = stated.is_some_and(|all| all.len() >= BELIEVED);
    let least = if is_believed { 0 } else { table.unwrap_or(0) / LEAST_PART };
    middle.map(|middle| middle.max(least)).or(table)
}

/// Returns the limits that nodes state, each list in ascending order.
fn stated(manifests: &Manifests, catalogue_of: &BTreeMap<Arc<str>, usize>) -> Stated {
    let csi_nodes: FxHashMap<&str, &CsiNode> = manifests.csi_nodes.iter().map(|node| (&*node.name, node)).collect();
    let mut stated = Stated::new();
    for node in &manifests.nodes {
        let labels = &node.meta.labels;
        let place = catalogue_of_node(labels, catalogue_of);
        let (Some(csi_node), Some((catalogue, name))) = (csi_nodes.get(&*node.meta.name), place) else { continue };
        for (driver, limit) in &csi_node.limits {
            let of_type = stated.entry(catalogue).or_default();
            of_type.entry((Arc::clone(name), Arc::clone(driver))).or_default().push(*limit);
        }
    }
    stated.values_mut().flat_map(BTreeMap::values_mut).for_each(|all| all.sort_unstable());
    stated
}

/// Returns the catalogue of the pool of a node, and the node's instance type.
fn catalogue_of_node<'l>(
    labels: &'l Labels,
    catalogue_of: &BTreeMap<Arc<str>, usize>,
) -> Option<(usize, &'l Arc<str>)> {
    Some((*catalogue_of.get(labels.get(NODE_POOL)?)?, labels.get(INSTANCE_TYPE)?))
}

/// Returns the number of volumes with which the nodes of a catalogue are launched.
fn disks(manifests: &Manifests, problem: &Problem, catalogue: usize) -> u32 {
    let pool = problem.pools.iter().find(|pool| pool.catalogue == catalogue);
    let pool = pool.and_then(|pool| manifests.node_pools.iter().find(|one| one.meta.name == pool.name));
    pool.and_then(|pool| class_of(manifests, &pool.class)).map_or(1, disks_of_class)
}

fn disks_of_class(class: &NodeClass) -> u32 {
    let spec = |path: &str| class.object.pointer(path);
    let text = |path: &str| spec(path).and_then(serde_json::Value::as_str).unwrap_or_default();
    let mappings = spec("/spec/blockDeviceMappings").and_then(serde_json::Value::as_array).map_or(0, Vec::len);
    // Bottlerocket has its data on a volume of its own.
    let bottlerocket = text("/spec/amiFamily") == "Bottlerocket"
        || text("/spec/amiSelectorTerms/0/alias").starts_with("bottlerocket@");
    match u32::try_from(mappings).unwrap_or(u32::MAX) {
        0 if bottlerocket => 2,
        mappings => mappings.max(1),
    }
}

/// Gives nodes that are not initialized the limits of their types, for drivers that have not registered there: the
/// least of them if the type has not been chosen.
fn limit_starting_nodes(problem: &mut Problem, catalogue_of: &BTreeMap<Arc<str>, usize>, unlaunched: &[Unlaunched]) {
    let open: FxHashMap<usize, &Unlaunched> = unlaunched.iter().map(|one| (one.node, one)).collect();
    let Problem { nodes, catalogues, .. } = problem;
    let starting = nodes.iter_mut().enumerate().filter(|(_, node)| !node.initialized && !node.deleting);
    for (number, node) in starting {
        let mut limits: BTreeMap<Arc<str>, u32> = BTreeMap::new();
        let mut least = |one: &InstanceType| {
            for (driver, limit) in one.capacity.attach_limits() {
                limits.entry(driver).and_modify(|least| *least = limit.min(*least)).or_insert(limit);
            }
        };
        if let Some(one) = open.get(&number) {
            one.types.iter().for_each(|&index| least(&catalogues[one.catalogue].types()[index]));
        } else if let Some((catalogue, name)) = catalogue_of_node(&node.labels, catalogue_of) {
            catalogues[catalogue].iter().find(|one| one.name == *name).into_iter().for_each(least);
        }
        limits.retain(|driver, _| !knows(node, driver));
        node.attach_limits.extend(limits);
        node.attach_limits.sort();
    }
}

fn knows(node: &Node, driver: &str) -> bool {
    node.attach_limits.iter().any(|(known, _)| **known == *driver)
}
