//! Devices of the nodes of a snapshot, and of nodes of each instance type.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use muster_api::annotations::{NVIDIA_CONSUMABLE_CAPACITY, REQUESTED_DRA_DRIVERS};
use muster_scheduling::labels::{HOSTNAME, INSTANCE_TYPE};
use muster_scheduling::model::{Node, Problem, Resource};
use rustc_hash::FxHashMap;

use super::super::DeviceSettings;
use super::super::nodes::Pairs;
use super::super::pools::class_of;
use super::demand::{Demand, groups};
use super::resources;
use super::supply::{Group, Matcher, RequestId, Supply};
use super::table::{Devices, Sharing, learned, of_type};
use super::uses::Uses;
use crate::devices::published;
use crate::{Allocation, Attribute, DeviceAlternative, Located, Manifests, NodeClaim, NodePool, ResourceSlice};

/// Driver, pool and name of a device.
type DeviceKey = (Arc<str>, Arc<str>, Arc<str>);

/// Devices of nodes and instance types.
pub(super) struct Stock<'m> {
    manifests: &'m Manifests,
    matcher: Matcher,
    /// Devices of nodes of a type; several if NodeClasses differ in it.
    types: BTreeMap<Arc<str>, Vec<Supply>>,
    /// The same by catalogue, with the index of the type.
    catalogues: Vec<Vec<(usize, Supply)>>,
    nodes: FxHashMap<Arc<str>, Supply>,
    /// Devices of nodes that count, with their value of the attribute `grouping`.
    counted: FxHashMap<DeviceKey, Option<Attribute>>,
    hosts: FxHashMap<Arc<str>, Arc<str>>,
    /// Attribute that divides the devices of a node into groups, of which claims take whole ones.
    pub(super) grouping: Option<Arc<str>>,
}

impl<'m> Stock<'m> {
    pub(super) fn new(manifests: &'m Manifests, settings: DeviceSettings, uses: &Uses<'m>, problem: &Problem) -> Self {
        let mut stock = Self {
            manifests,
            matcher: Matcher::default(),
            types: BTreeMap::new(),
            catalogues: Vec::new(),
            nodes: FxHashMap::default(),
            counted: FxHashMap::default(),
            hosts: problem.nodes.iter().map(|node| (Arc::clone(&node.name), host(node))).collect(),
            grouping: None,
        };
        for (namespace, spec) in uses.specs() {
            for alternative in spec.requests.iter().flat_map(|request| &request.alternatives) {
                stock.matcher.add(namespace, alternative, &manifests.device_classes);
            }
        }
        let mut by_node: BTreeMap<&str, Vec<&ResourceSlice>> = BTreeMap::new();
        for slice in &manifests.resource_slices {
            by_node.entry(slice.node.as_deref().unwrap_or_default()).or_default().push(slice);
        }
        stock.add_types(settings, problem, &by_node);
        stock.add_nodes(problem, &by_node);
        let same =
            uses.specs().flat_map(|(_, spec)| &spec.constraints).filter_map(|constraint| constraint.same.as_ref());
        let same: BTreeSet<&Arc<str>> = same.collect();
        let divides = |attribute: &&&Arc<str>| {
            stock.types.values().flatten().chain(stock.nodes.values()).any(|one| groups(one, attribute).is_some())
        };
        stock.grouping = same.iter().find(divides).map(|attribute| Arc::clone(attribute));
        stock.count(&by_node);
        stock
    }

    /// Returns the ID of a request of the snapshot.
    pub(super) fn id(&self, alternative: &DeviceAlternative) -> RequestId {
        self.matcher.id(alternative)
    }

    /// Returns the reason why no device can meet a request, if there is one apart from the devices.
    pub(super) fn problem(&self, id: RequestId) -> Option<String> {
        self.matcher.problem(id).map(str::to_owned)
    }

    /// Returns the instance types that have devices.
    pub(super) fn types(&self) -> impl Iterator<Item = (&Arc<str>, &Vec<Supply>)> {
        self.types.iter()
    }

    /// Returns the host name of a node, if it is one of the snapshot.
    pub(super) fn host(&self, node: &str) -> Option<Arc<str>> {
        self.hosts.get(node).cloned()
    }

    /// Returns what an allocation takes from its node.
    pub(super) fn allocated(&self, allocation: &Allocation) -> Demand {
        let mut demand = Demand::default();
        let mut values = Vec::new();
        for device in allocation.devices.iter().filter(|device| !device.is_admin) {
            let key = (Arc::clone(&device.driver), Arc::clone(&device.pool), Arc::clone(&device.device));
            let Some(value) = self.counted.get(&key) else { continue };
            *demand.devices.entry(Arc::clone(&device.driver)).or_default() += 1;
            if self.grouping.is_some() && (value.is_none() || !values.contains(&value)) {
                values.push(value);
                demand.groups += 1;
            }
        }
        demand
    }

    /// Writes the devices into the capacity of nodes and instance types.
    pub(super) fn write(&self, uses: &Uses<'_>, problem: &mut Problem) {
        for (catalogue, types) in self.catalogues.iter().enumerate() {
            let of_type = |(index, supply): &(usize, Supply)| {
                let all = resources(supply, self.grouping.as_ref());
                all.into_iter().map(|(resource, amount)| (*index, resource, amount)).collect::<Vec<_>>()
            };
            let amounts: Vec<(usize, Resource, i64)> = types.iter().flat_map(of_type).collect();
            if !amounts.is_empty() {
                problem.catalogues[catalogue].set_capacities(amounts);
            }
        }
        let mut orphans: FxHashMap<&str, Vec<Demand>> = FxHashMap::default();
        for allocation in uses.orphans() {
            if let Located::Node(node) = &allocation.located {
                orphans.entry(node).or_default().push(self.allocated(allocation));
            }
        }
        for node in &mut problem.nodes {
            let Some(supply) = self.nodes.get(&node.name) else { continue };
            let mut taken = muster_scheduling::model::Resources::new();
            orphans.get(&*node.name).into_iter().flatten().for_each(|demand| demand.add_to(&mut taken));
            for (resource, amount) in resources(supply, self.grouping.as_ref()) {
                let left = amount.saturating_sub(taken.get(&resource)).max(0);
                node.allocatable.set(resource, left);
            }
        }
    }

    fn add_types(
        &mut self,
        settings: DeviceSettings,
        problem: &Problem,
        by_node: &BTreeMap<&str, Vec<&ResourceSlice>>,
    ) {
        let mut known = learned_types(self.manifests, by_node);
        for (catalogue, types) in problem.catalogues.iter().enumerate() {
            let sharing = sharing(self.manifests, problem, catalogue);
            let mut supplies = Vec::new();
            for (index, one) in types.iter().enumerate() {
                let mut devices = of_type(one, settings, sharing);
                devices.extend(known.get(&one.name).cloned().into_iter().flatten());
                if devices.is_empty() {
                    continue;
                }
                let supply = self.matcher.supply(&devices);
                let alike = self.types.entry(Arc::clone(&one.name)).or_default();
                if !alike.contains(&supply) {
                    alike.push(supply.clone());
                }
                supplies.push((index, supply));
            }
            self.catalogues.push(supplies);
        }
        known.retain(|name, _| !self.types.contains_key(name));
        for (name, devices) in known {
            let supply = self.matcher.supply(&devices);
            self.types.insert(name, vec![supply]);
        }
    }

    fn add_nodes(&mut self, problem: &Problem, by_node: &BTreeMap<&str, Vec<&ResourceSlice>>) {
        let claims = claims_by_node(self.manifests);
        for node in &problem.nodes {
            let claim = claims.get(&node.name).copied();
            let promised = claim.filter(|_| !node.initialized).map(|claim| self.promised(node, claim));
            let mut supply = promised.unwrap_or_default();
            let slices = by_node.get(&*node.name).into_iter().flatten().copied();
            for (driver, slices) in published(slices) {
                // Attributes that differ between nodes of a type, such as a UUID, are unknown here as well.
                let mut own = self.matcher.supply(&[(driver.clone(), learned(&slices))].into());
                let of_type =
                    node.labels.get(INSTANCE_TYPE).and_then(|name| self.types.get(name)?.first()?.get(&driver));
                supply.remove(&driver);
                // Pods are told apart by the type of a node: one that differs from its type is left alone.
                let own = own.remove(&driver).filter(|own| of_type.is_some_and(|of| of.requests == own.requests));
                supply.extend(own.map(|own| (driver, own)));
            }
            self.nodes.insert(Arc::clone(&node.name), supply);
        }
    }

    /// Returns the devices that a node will have, of the drivers that it was launched for.
    fn promised(&self, node: &Node, claim: &NodeClaim) -> Supply {
        let drivers = claim.meta.annotations.get(REQUESTED_DRA_DRIVERS).map_or("", |text| &**text);
        let drivers: BTreeSet<&str> = drivers.split(',').map(str::trim).collect();
        let names: Vec<&Arc<str>> = match (node.labels.get(INSTANCE_TYPE), claim.requirements.get(INSTANCE_TYPE)) {
            (Some(name), _) => vec![name],
            (None, Some(names)) if names.is_finite() => names.values().collect(),
            _ => Vec::new(),
        };
        let mut supplies = names.into_iter().map(|name| self.types.get(name).and_then(|all| all.first()));
        let Some(Some(first)) = supplies.next() else { return Supply::new() };
        let mut least: Supply = first.clone();
        least.retain(|driver, _| drivers.contains(&**driver));
        for other in supplies {
            least.retain(|driver, group| {
                let other = other.and_then(|all| all.get(driver)).filter(|other| other.requests == group.requests);
                // The type is not chosen yet: what all of them have is there.
                if let Some(fewer) = other.filter(|other| other.total < group.total) {
                    *group = fewer.clone();
                }
                other.is_some()
            });
        }
        least
    }

    /// Notes the devices of nodes that count.
    fn count(&mut self, by_node: &BTreeMap<&str, Vec<&ResourceSlice>>) {
        let mut of_nodes = Vec::new();
        for (node, slices) in by_node {
            of_nodes.extend(published(slices.iter().copied()).into_iter().map(|(driver, of)| (*node, driver, of)));
        }
        for (node, driver, slices) in of_nodes {
            let Some(Group { requests, .. }) = self.nodes.get(node).and_then(|node| node.get(&driver)) else {
                continue;
            };
            let devices = slices.iter().flat_map(|slice| slice.devices.iter().map(|device| (&slice.pool, device)));
            for ((pool, device), (alike, _)) in devices.zip(learned(&slices)) {
                if self.matcher.meets_exactly(&driver, &alike, requests) {
                    let value = self.grouping.as_ref().and_then(|name| device.attributes.get(name)).cloned();
                    self.counted.insert((Arc::clone(&driver), Arc::clone(pool), Arc::clone(&device.name)), value);
                }
            }
        }
    }
}

/// Returns the claim of each node, by name of the Node, or of the claim if there is no Node yet.
fn claims_by_node(manifests: &Manifests) -> FxHashMap<&Arc<str>, &NodeClaim> {
    let pairs = Pairs::new(manifests);
    let there = manifests.nodes.iter().zip(&pairs.claim_of_node);
    let there = there.filter_map(|(node, claim)| Some((&node.meta.name, (*claim)?)));
    let coming = manifests.node_claims.iter().map(|claim| (&claim.meta.name, claim));
    coming.chain(there).collect()
}

fn host(node: &Node) -> Arc<str> {
    node.labels.get(HOSTNAME).unwrap_or(&node.name).clone()
}

/// Returns the devices of each type of which a node runs whose drivers have published them; of several nodes, the first
/// one counts.
fn learned_types(manifests: &Manifests, by_node: &BTreeMap<&str, Vec<&ResourceSlice>>) -> BTreeMap<Arc<str>, Devices> {
    let mut types: BTreeMap<Arc<str>, Devices> = BTreeMap::new();
    for node in &manifests.nodes {
        let (Some(name), Some(slices)) = (node.meta.labels.get(INSTANCE_TYPE), by_node.get(&*node.meta.name)) else {
            continue;
        };
        let devices = types.entry(Arc::clone(name)).or_default();
        for (driver, slices) in published(slices.iter().copied()) {
            devices.entry(driver).or_insert_with(|| learned(&slices));
        }
    }
    types
}

/// Returns the sharing of GPUs on nodes of a catalogue, which is that of one NodeClass.
fn sharing(manifests: &Manifests, problem: &Problem, catalogue: usize) -> Sharing {
    let pool = problem.pools.iter().find(|pool| pool.catalogue == catalogue);
    let manifest = pool.and_then(|pool| manifests.node_pools.iter().find(|one| one.meta.name == pool.name));
    let class = manifest.and_then(|pool: &NodePool| class_of(manifests, &pool.class));
    let annotations = class.and_then(|class| class.object.pointer("/metadata/annotations"));
    Sharing::read(annotations.and_then(|all| all.get(NVIDIA_CONSUMABLE_CAPACITY)).and_then(|value| value.as_str()))
}
