//! Nodes whose claims have not been launched: they have what each instance type has that the claim allows.
//!
//! The cloud chooses type, zone and capacity type, so only the minimum over the types is certain; and what the claim
//! was made for, since every one of them fits that. Three things are not certain of a node to come, and leave it with
//! what it was made for:
//!
//! - a label that is still open and that a daemon asks for, or a pod excludes: its absence from the labels that are
//!   known says nothing;
//! - devices and other extended resources that the claim does not request: the launch may leave them out, and the node
//!   is initialized without them;
//! - the settings of a class that is no longer that of the pool.

use std::collections::BTreeSet;
use std::sync::Arc;

use muster_scheduling::labels::{INSTANCE_TYPE, NODE_POOL};
use muster_scheduling::model::{
    Catalogue, InstanceType, PodSpec, Problem, Requirement, Requirements, Resource, Resources,
};
use rustc_hash::FxHashMap;

use crate::{Manifests, NodeClaim, NodePool};

/// Maximum number of claims that are looked at, so that a crowd of them costs no time: the others keep what they were
/// made for.
const MOST: usize = 1000;

/// A node of the problem whose claim has not been launched, with the types that the claim allows.
pub(super) struct Unlaunched {
    pub(super) node: usize,
    pub(super) catalogue: usize,
    /// Indices in the catalogue, at least one.
    pub(super) types: Vec<usize>,
}

/// Amounts that pods can use of a type, by catalogue and type.
type Known = FxHashMap<(usize, usize), Resources>;

/// Returns the nodes whose claims have not been launched.
pub(super) fn find(manifests: &Manifests, problem: &Problem) -> Vec<Unlaunched> {
    let is_open = |claim: &&NodeClaim| claim.allocatable.is_empty();
    let claims: FxHashMap<&str, &NodeClaim> =
        manifests.node_claims.iter().filter(is_open).map(|claim| (&*claim.meta.name, claim)).collect();
    if claims.is_empty() {
        return Vec::new();
    }
    let pools: FxHashMap<&str, &NodePool> = manifests.node_pools.iter().map(|pool| (&*pool.meta.name, pool)).collect();
    let catalogues: FxHashMap<&str, usize> = problem.pools.iter().map(|pool| (&*pool.name, pool.catalogue)).collect();
    let names: Vec<FxHashMap<&str, usize>> = problem.catalogues.iter().map(indices).collect();
    let decisive = decisive_keys(problem);
    let defined: Vec<BTreeSet<&str>> = problem.catalogues.iter().map(|all| defined_among(all, &decisive)).collect();
    // After the Nodes come the claims without one.
    let nodes = problem.nodes.iter().enumerate().skip(manifests.nodes.len()).filter(|(_, node)| !node.deleting);
    let nodes = nodes.filter_map(|(node, model)| Some((node, model, *claims.get(&*model.name)?))).take(MOST);
    let found = nodes.filter_map(|(node, model, claim)| {
        let pool = &**claim.meta.labels.get(NODE_POOL)?;
        let catalogue = *catalogues.get(pool)?;
        if pools.get(pool)?.class != claim.class {
            return None;
        }
        let types = allowed(&claim.requirements, &problem.catalogues[catalogue], &names[catalogue]);
        let all = problem.catalogues[catalogue].types();
        let is_unknown = |key: &str| model.labels.get(key).is_none();
        let mut wanted = claim.requirements.iter().map(|(key, _)| &**key).filter(|key| decisive.contains(key));
        let may_have = |key: &str| types.iter().any(|one| defines(&all[*one], key));
        let is_open = wanted.any(is_unknown) || defined[catalogue].iter().any(|key| is_unknown(key) && may_have(key));
        (!types.is_empty() && !is_open).then_some(Unlaunched { node, catalogue, types })
    });
    found.collect()
}

/// Returns the labels that daemons ask for, and those that pods exclude.
fn decisive_keys(problem: &Problem) -> BTreeSet<&str> {
    fn terms(spec: &PodSpec) -> impl Iterator<Item = (&Arc<str>, &Requirement)> {
        let all = [&spec.node_selector].into_iter().chain(&spec.node_terms).chain(&spec.volume_terms);
        all.flat_map(Requirements::iter)
    }
    let excluded = problem.specs.iter().flat_map(terms).filter(|(_, wanted)| wanted.allows_absence());
    let of_daemons = problem.daemons.iter().flat_map(|daemon| terms(&problem.specs[daemon.spec]));
    excluded.chain(of_daemons).map(|(key, _)| &**key).collect()
}

/// Returns those of the labels that nodes of some type of the catalogue may have: pods can name any number of others.
fn defined_among<'k>(catalogue: &Catalogue, keys: &BTreeSet<&'k str>) -> BTreeSet<&'k str> {
    let of_type = |one: &InstanceType| {
        let offered = one.offerings.iter().map(|offering| &offering.requirements);
        let all = [&one.requirements].into_iter().chain(offered).flat_map(Requirements::iter);
        all.filter_map(|(key, _)| keys.get(&**key).copied()).collect::<Vec<_>>()
    };
    if keys.is_empty() { BTreeSet::new() } else { catalogue.iter().flat_map(of_type).collect() }
}

/// Returns true if a node of the type may have the label.
fn defines(one: &InstanceType, key: &str) -> bool {
    one.requirements.get(key).is_some() || one.offerings.iter().any(|offering| offering.requirements.get(key).is_some())
}

/// Raises the allocatable amounts of the nodes to what all their types have.
pub(super) fn apply(unlaunched: &[Unlaunched], problem: &mut Problem) {
    let mut known = Known::default();
    for one in unlaunched {
        let certain = certain(one, &problem.catalogues[one.catalogue], &mut known);
        let allocatable = &mut problem.nodes[one.node].allocatable;
        for (resource, amount) in certain.iter() {
            let is_usual =
                matches!(resource, Resource::Cpu | Resource::Memory | Resource::EphemeralStorage | Resource::Pods);
            if (is_usual || allocatable.contains(resource)) && amount > allocatable.get(resource) {
                allocatable.set(resource.clone(), amount);
            }
        }
    }
}

/// Returns a warning for each claim of which nothing is known.
pub(super) fn warnings<'p>(manifests: &Manifests, problem: &'p Problem) -> impl Iterator<Item = String> + use<'p> {
    let nodes = problem.nodes.iter().skip(manifests.nodes.len());
    nodes.filter(|node| node.allocatable.is_empty() && !node.deleting).map(|node| {
        let name = &node.name;
        format!("NodeClaim `{name}` does not say yet what its node will hold, so nothing is planned onto it")
    })
}

fn indices(catalogue: &Catalogue) -> FxHashMap<&str, usize> {
    catalogue.iter().enumerate().map(|(index, one)| (&*one.name, index)).collect()
}

/// Returns the types that `requirements` name and allow.
fn allowed(requirements: &Requirements, catalogue: &Catalogue, names: &FxHashMap<&str, usize>) -> Vec<usize> {
    let Some(wanted) = requirements.get(INSTANCE_TYPE).filter(|wanted| wanted.is_finite()) else { return Vec::new() };
    let fits = |index: &usize| catalogue.types()[*index].requirements.intersects(requirements);
    wanted.values().filter_map(|name: &Arc<str>| names.get(&**name).copied()).filter(fits).collect()
}

/// Returns the minimum of each resource over the types.
fn certain(one: &Unlaunched, catalogue: &Catalogue, known: &mut Known) -> Resources {
    let mut certain: Option<Resources> = None;
    for &index in &one.types {
        let amounts = known.entry((one.catalogue, index)).or_insert_with(|| catalogue.types()[index].allocatable());
        certain = Some(match certain {
            None => amounts.clone(),
            Some(before) => {
                let least =
                    before.iter().map(|(resource, amount)| (resource.clone(), amount.min(amounts.get(resource))));
                least.collect()
            }
        });
    }
    certain.unwrap_or_default()
}
