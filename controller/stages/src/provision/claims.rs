//! Conversion of a planned node to its NodeClaim, in Karpenter's form.

use std::collections::{BTreeMap, BTreeSet};

use k8s_openapi::apimachinery::pkg::api::resource::Quantity;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, OwnerReference};
use muster_api::conditions::nodeclaim;
use muster_api::nodeclaim::ResourceRequests;
use muster_api::{NodeClaim, NodeClaimSpec, NodePool, Operator, Requirement, annotations, hash, labels};
use muster_aws::quantity::format;
use muster_scheduling::NewNode;
use muster_scheduling::model::{self, InstanceType, Problem, Requirements};
use sha2::{Digest, Sha256};

use super::plan::ClaimAndNode;
use crate::lifecycle::is_true;

/// Maximum number of entries in `spec.requirements` that the CRD allows.
const MOST_REQUIREMENTS: usize = 100;
/// Maximum length of a name, which is also the value of a label and of a tag.
const LONGEST_NAME: usize = 63;
/// Number of characters of the hash: 50 bits.
const HASH: usize = 10;
/// Alphabet of the hash, 32 characters: that of Kubernetes' generated names, extended by 0, 1, 3, y and u.
const LETTERS: &[u8; 32] = b"bcdfghjklmnpqrstvwxz0123456789yu";

/// Returns the name of a claim of `pool`, derived from `reasons`: the UIDs of the pods that it is for, or of the nodes
/// that it replaces. The same decision always gives the same name.
#[must_use]
pub fn name<R: AsRef<str>>(pool: &str, reasons: impl IntoIterator<Item = R>) -> String {
    let mut digest = Sha256::new();
    digest.update(pool);
    for reason in reasons {
        digest.update([0]);
        digest.update(reason.as_ref());
    }
    let letters =
        digest.finalize().iter().take(HASH).map(|byte| char::from(LETTERS[usize::from(byte % 32)])).collect::<String>();
    format!("{}-{letters}", prefix(pool))
}

/// Returns the part of the names of a pool's claims before the last hyphen.
pub(super) fn prefix(pool: &str) -> &str {
    let room = LONGEST_NAME - 1 - HASH;
    let cut = pool.char_indices().map(|(at, _)| at).find(|at| *at >= room).unwrap_or(pool.len());
    pool[..cut].trim_end_matches(['-', '.'])
}

/// Names for new claims, and of claims that are the same decision.
pub(super) struct Names {
    /// Names of existing claims; true if the claim has neither been launched nor deleted.
    taken: BTreeMap<String, bool>,
}

/// Name of the claim for a planned node.
pub(super) struct Named {
    pub(super) name: String,
    /// The name, if no claim has it yet.
    pub(super) new: Option<String>,
}

impl Names {
    pub(super) fn new(claims: &[ClaimAndNode<'_>]) -> Self {
        let is_open = |one: &ClaimAndNode<'_>| !one.is_leaving() && !is_true(one.claim, nodeclaim::LAUNCHED);
        Self { taken: claims.iter().map(|one| (one.name().to_owned(), is_open(one))).collect() }
    }

    /// Returns the name for a node with pods of these UIDs. An existing claim of that name is the same decision if it
    /// has not been launched. If it is being deleted, or became a node that does not hold the pods, this is another
    /// attempt with another name. Nodes without pods are numbered.
    pub(super) fn of(&mut self, pool: &str, node: &NewNode, uids: &BTreeSet<String>) -> Named {
        let mut count = 0_u32;
        loop {
            let number = (count > 0).then(|| count.to_string());
            let name = name(pool, uids.iter().chain(&number));
            let is_free = match self.taken.get(&name) {
                None => true,
                Some(true) if !node.pods.is_empty() => return Named { name, new: None },
                Some(_) => false,
            };
            if is_free {
                self.taken.insert(name.clone(), true);
                return Named { new: Some(name.clone()), name };
            }
            count += 1;
        }
    }
}

/// Returns the claim of a planned node under `name`. `pool` is the API object of the node's pool.
#[must_use]
pub fn claim(problem: &Problem, node: &NewNode, pool: &NodePool, name: String) -> NodeClaim {
    let template = &pool.spec.template;
    let types = types_of(problem, node);
    let labels = labels_of(problem, node, &types);
    let wanted = node.claim_requirements(problem);
    let requirements = requirements(&wanted, pool, &types, &labels);
    // No Node lists devices that claims take.
    let requests = node.requests.iter().filter(|(resource, amount)| *amount > 0 && !resource.is_of_claims());
    let requests = requests.map(|(resource, amount)| (resource.name().to_owned(), Quantity(format(resource, amount))));
    NodeClaim {
        metadata: ObjectMeta {
            name: Some(name),
            labels: Some(labels),
            annotations: Some(annotations_of(problem, node, pool)),
            // Set on creation, so that the instance is never orphaned, and one write is saved.
            finalizers: Some(vec![annotations::TERMINATION_FINALIZER.to_owned()]),
            owner_references: Some(vec![OwnerReference {
                api_version: "karpenter.sh/v1".to_owned(),
                kind: "NodePool".to_owned(),
                name: pool.metadata.name.clone().unwrap_or_default(),
                uid: pool.metadata.uid.clone().unwrap_or_default(),
                block_owner_deletion: Some(true),
                controller: None,
            }]),
            ..ObjectMeta::default()
        },
        spec: NodeClaimSpec {
            requirements,
            resources: ResourceRequests { requests: requests.collect() },
            node_class_ref: template.spec.node_class_ref.clone(),
            taints: template.spec.taints.clone(),
            startup_taints: template.spec.startup_taints.clone(),
            expire_after: template.spec.expire_after,
            termination_grace_period: template.spec.termination_grace_period,
        },
        status: None,
    }
}

/// Returns the candidate instance types, cheapest first.
fn types_of<'p>(problem: &'p Problem, node: &NewNode) -> Vec<&'p InstanceType> {
    let types = problem.catalogues[problem.pools[node.pool].catalogue].types();
    node.alternatives.iter().filter_map(|one| types.get(*one)).collect()
}

fn annotations_of(problem: &Problem, node: &NewNode, pool: &NodePool) -> BTreeMap<String, String> {
    let catalogue = &problem.catalogues[problem.pools[node.pool].catalogue];
    // As for the requirements: which type a node of a static pool gets is decided at launch.
    let types: &[usize] = if pool.spec.replicas.is_none() { &node.alternatives } else { &[] };
    let overlaid = [
        (annotations::PRICE_OVERLAY_APPLIED, types.iter().any(|index| catalogue.has_other_price(*index))),
        (annotations::CAPACITY_OVERLAY_APPLIED, types.iter().any(|index| !catalogue.other_capacity(*index).is_empty())),
    ];
    let overlaid = overlaid.into_iter().filter(|(_, is_applied)| *is_applied).map(|(key, _)| (key, "true".to_owned()));
    let mut all = pool.spec.template.metadata.annotations.clone();
    let relaxed =
        node.min_values_relaxed.map(|relaxed| (annotations::NODECLAIM_MIN_VALUES_RELAXED, relaxed.to_string()));
    let drivers = node.requests.iter().filter(|(_, amount)| *amount > 0);
    let drivers: Vec<&str> = drivers.filter_map(|(resource, _)| resource.device_driver()).collect();
    let drivers = (!drivers.is_empty()).then(|| (annotations::REQUESTED_DRA_DRIVERS, drivers.join(",")));
    let own = [
        (annotations::NODEPOOL_HASH, hash::node_pool(pool)),
        (annotations::NODEPOOL_HASH_VERSION, hash::NODEPOOL_HASH_VERSION.to_owned()),
        (annotations::LAUNCH_ATTEMPT, "1".to_owned()),
    ];
    all.extend(
        own.into_iter().chain(relaxed).chain(drivers).chain(overlaid).map(|(key, value)| (key.to_owned(), value)),
    );
    all
}

/// Returns the labels of the pool, and those from requirements that do not depend on the instance type: these need a
/// single value, which is chosen now.
fn labels_of(problem: &Problem, node: &NewNode, types: &[&InstanceType]) -> BTreeMap<String, String> {
    let pool = &problem.pools[node.pool];
    let mut all: BTreeMap<String, String> =
        pool.labels.iter().map(|(key, value)| (key.to_string(), value.to_string())).collect();
    for (key, requirement) in node.requirements.iter() {
        let is_of_types = labels::is_well_known(key)
            || types.iter().any(|one| {
                let offered = one.offerings.iter().any(|offering| offering.requirements.get(key).is_some());
                offered || one.requirements.get(key).is_some()
            });
        if is_of_types || labels::is_restricted(key) || all.contains_key(&**key) {
            continue;
        }
        if let Some(value) = some_value(requirement) {
            all.insert(key.to_string(), value);
        }
    }
    all
}

/// Returns a value that the requirement allows, deterministically; Karpenter chooses one at random.
fn some_value(requirement: &model::Requirement) -> Option<String> {
    if requirement.is_finite() {
        return requirement.values().next().map(ToString::to_string);
    }
    let (least, most) = requirement.bounds();
    let least = least.unwrap_or(0).max(0);
    // Among more numbers than are excluded, at least one is allowed.
    let count = i64::try_from(requirement.values().count()).unwrap_or(i64::MAX);
    let last = least.saturating_add(count).min(most.unwrap_or(i64::MAX));
    (least..=last).map(|number| number.to_string()).find(|number| requirement.has(number))
}

fn requirements(
    wanted: &Requirements,
    pool: &NodePool,
    types: &[&InstanceType],
    own_labels: &BTreeMap<String, String>,
) -> Vec<Requirement> {
    // For a static pool only the number of nodes is decided here; the instance type is chosen at launch.
    let names_types = pool.spec.replicas.is_none();
    let mut all = Vec::new();
    let mut missing = BTreeMap::from([
        (labels::CAPACITY_TYPE, capacity_types(wanted, types)),
        (labels::INSTANCE_TYPE, types.iter().map(|one| one.name.to_string()).collect::<Vec<String>>()),
    ]);
    if !names_types {
        missing.clear();
    }
    for (key, requirement) in wanted.iter() {
        // Only the controller sets a restricted label, so a requirement that excludes it is void.
        let is_void = labels::is_restricted(key) && !own_labels.contains_key(&**key);
        if is_void || &**key == labels::HOSTNAME {
            continue;
        }
        let min_values = requirement.min_values;
        if let Some(values) = missing.remove(&**key).filter(|values| !values.is_empty()) {
            all.push(within(Requirement { min_values, ..Requirement::new(&**key, Operator::In, values) }));
            continue;
        }
        for (operator, values) in requirement.entries() {
            let values = values.iter().map(ToString::to_string);
            let entry = Requirement { min_values, ..Requirement::new(&**key, operator_of(operator), values) };
            all.extend(from_zero(within(entry)));
        }
    }
    let missing = missing.into_iter().filter(|(_, values)| !values.is_empty());
    all.extend(missing.map(|(key, values)| Requirement::new(key, Operator::In, values)));
    all.sort_by(|one, other| one.key.cmp(&other.key));
    if all.len() > MOST_REQUIREMENTS {
        let is_said_by_label = |one: &Requirement| {
            let label = own_labels.get(&one.key);
            one.operator == Operator::In && one.min_values.is_none() && one.values.iter().eq(label)
        };
        all.retain(|one| labels::is_well_known(&one.key) || !is_said_by_label(one));
    }
    all
}

/// Limits `minValues` to the number of listed values, which pods may have narrowed (a spread decides the zone): the CRD
/// rejects a larger one.
fn within(entry: Requirement) -> Requirement {
    let listed = u32::try_from(entry.values.len()).unwrap_or(u32::MAX);
    let min_values =
        entry.min_values.map(|least| if entry.operator == Operator::In { least.min(listed) } else { least });
    Requirement { min_values, ..entry }
}

/// Replaces negative bounds, which the CRD rejects: numeric labels have no negative values.
fn from_zero(entry: Requirement) -> Option<Requirement> {
    let bound =
        entry.values.first().filter(|_| entry.operator.is_numeric()).and_then(|value| value.parse::<i64>().ok());
    match (bound, entry.operator) {
        (Some(..0), Operator::Gt | Operator::Gte) => {
            Some(Requirement { operator: Operator::Gte, values: vec!["0".to_owned()], ..entry })
        }
        (Some(..0), _) => None,
        _ => Some(entry),
    }
}

/// Returns the capacity types of the launchable offerings of the types.
fn capacity_types(wanted: &Requirements, types: &[&InstanceType]) -> Vec<String> {
    let offerings = types.iter().flat_map(|one| &one.offerings);
    let fit = offerings.filter(|one| one.launchable() && one.requirements.intersects(wanted));
    let all: BTreeSet<&str> = fit.filter_map(|one| one.capacity_type()).collect();
    all.into_iter().map(str::to_owned).collect()
}

fn operator_of(operator: model::Operator) -> Operator {
    match operator {
        model::Operator::In => Operator::In,
        model::Operator::NotIn => Operator::NotIn,
        model::Operator::Exists => Operator::Exists,
        model::Operator::DoesNotExist => Operator::DoesNotExist,
        model::Operator::Gt => Operator::Gt,
        model::Operator::Lt => Operator::Lt,
        model::Operator::Gte => Operator::Gte,
        model::Operator::Lte => Operator::Lte,
    }
}
