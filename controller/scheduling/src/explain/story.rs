//! Explanation of a node.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::census::Census;
use super::placement::{PlacedOn, source_of};
use super::purchase::{buys, cost};
use super::{existing, wording};
use crate::labels;
use crate::model::{Conflict, InstanceType, Offering, PodSpec, Requirements, Resource, Resources};
use crate::solution::NewNode;

/// Explanation of a node.
#[derive(Debug, Clone, PartialEq)]
pub struct NodeStory {
    /// The node.
    pub node: PlacedOn,
    /// Its pool, if known.
    pub pool: Option<Arc<str>>,
    /// Its type; for a launch, the cheapest type that it may be.
    pub instance_type: Option<Arc<str>>,
    /// Its zone.
    pub zone: Option<Arc<str>>,
    /// Its capacity type.
    pub capacity_type: Option<Arc<str>>,
    /// USD per hour, if known.
    pub price: Option<f64>,
    /// Number of types that a launch may choose from; 0 for an existing node.
    pub alternatives: usize,
    /// Requirements on it with their sources; for an existing node, its labels.
    pub requirements: Vec<RequirementOrigin>,
    /// Utilization, by resource.
    pub fill: Vec<Fill>,
    /// The resource with the highest utilization.
    pub binding: Option<Resource>,
    /// Daemons that count against it.
    pub daemons: Vec<DaemonCharge>,
    /// The cheaper type that came closest to holding the pods, if one lacks only a resource.
    pub next_smaller: Option<RuledOut>,
    /// Its pods with their share of the price.
    pub pods: Vec<PodShare>,
}

/// A requirement of a node, with its sources.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RequirementOrigin {
    /// The label.
    pub key: Arc<str>,
    /// The requirement (`In [a b]`).
    pub requirement: String,
    /// The sources of the requirement: the pool, pods.
    pub sources: Vec<String>,
}

/// Utilization of one resource of a node.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Fill {
    /// The resource.
    pub resource: Resource,
    /// Requests of pods and daemons.
    pub used: i64,
    /// Total amount that pods and daemons can use.
    pub allocatable: i64,
    /// `used` per thousand of `allocatable`.
    pub permille: i64,
}

/// A daemon that runs on a node.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DaemonCharge {
    /// `namespace/name`.
    pub name: Arc<str>,
    /// Requests of each of its pods.
    pub requests: Resources,
}

/// A cheaper type, with the reason why it was not chosen.
#[derive(Debug, Clone, PartialEq)]
pub struct RuledOut {
    /// The type.
    pub instance_type: Arc<str>,
    /// USD per hour of its cheapest offering.
    pub price: f64,
    /// The resource of which it has too little, with the missing amount, if that is the reason.
    pub lacks: Option<(Resource, i64)>,
    /// The reason, in words.
    pub why: String,
}

/// A pod's share of a node.
#[derive(Debug, Clone, PartialEq)]
pub struct PodShare {
    /// `namespace/name`.
    pub name: Arc<str>,
    /// USD per hour: the price divided in proportion to requests, where cpu and memory count half each.
    pub price: Option<f64>,
}

/// Maximum number of cheaper types that are listed.
const RULED_OUT: usize = 5;

pub(super) fn tell(census: &Census<'_>, node: PlacedOn) -> Option<NodeStory> {
    match node {
        PlacedOn::New(index) => launched(census, index, census.solution.new_nodes.get(index)?),
        PlacedOn::Existing(index) => standing(census, index),
    }
}

fn launched(census: &Census<'_>, index: usize, node: &NewNode) -> Option<NodeStory> {
    let problem = census.problem;
    let pool = problem.pools.get(node.pool)?;
    let instance_type = problem.catalogues.get(pool.catalogue)?.get(node.instance_type)?;
    let offering = instance_type.offerings.get(node.offering);
    let pods: Vec<(&Arc<str>, &PodSpec)> = node
        .pods
        .iter()
        .filter_map(|pod| problem.pods.get(*pod))
        .filter_map(|pod| Some((&pod.name, problem.specs.get(pod.spec)?)))
        .collect();
    let view = census.view(node.pool).types.iter().find(|it| it.index == node.instance_type);
    let daemons = view.into_iter().flat_map(|it| &it.daemons).map(|daemon| &problem.daemons[*daemon]);
    let origins = node.requirements.iter().map(|(key, requirement)| {
        let mut sources: Vec<String> = Vec::new();
        if pool.requirements.get(key).is_some() {
            sources.push(format!("nodepool {:?}", pool.name));
        }
        sources.extend(askers(&pods, key));
        RequirementOrigin { key: Arc::clone(key), requirement: wording::requirement(requirement), sources }
    });
    let (fill, binding) = fill(&node.requests, &instance_type.allocatable());
    Some(NodeStory {
        node: PlacedOn::New(index),
        pool: Some(Arc::clone(&pool.name)),
        instance_type: Some(Arc::clone(&instance_type.name)),
        zone: offering.and_then(Offering::zone).map(Arc::from),
        capacity_type: offering.and_then(Offering::capacity_type).map(Arc::from),
        price: Some(node.price),
        alternatives: node.alternatives.len(),
        requirements: origins.collect(),
        fill,
        binding,
        daemons: daemons
            .map(|it| DaemonCharge { name: Arc::clone(&it.name), requests: problem.specs[it.spec].requests.clone() })
            .collect(),
        next_smaller: next_smaller(census, node),
        pods: shares(&pods, Some(node.price)),
    })
}

/// Returns the cheaper type that lacks the smallest part of the node's requests.
fn next_smaller(census: &Census<'_>, node: &NewNode) -> Option<RuledOut> {
    let part = |it: &RuledOut| {
        let (resource, amount) = it.lacks.as_ref()?;
        Some(i128::from(*amount) * 1_000_000 / i128::from(node.requests.get(resource).max(1)))
    };
    let lacking = cheaper(census, node).into_iter().filter_map(|it| Some((part(&it)?, it)));
    let nearest = lacking.min_by(|(a, x), (b, y)| {
        a.cmp(b).then(x.price.total_cmp(&y.price)).then_with(|| x.instance_type.cmp(&y.instance_type))
    });
    nearest.map(|(_, it)| it)
}

/// Returns the sources among the pods of a requirement on `key`: `node selector of a/web-0 and 4 others`.
fn askers(pods: &[(&Arc<str>, &PodSpec)], key: &str) -> Vec<String> {
    let mut by_source: BTreeMap<&str, Vec<&Arc<str>>> = BTreeMap::new();
    for (name, spec) in pods {
        if let Some(source) = source_of(spec, key) {
            by_source.entry(source).or_default().push(name);
        }
    }
    let line = |(source, names): (&str, Vec<&Arc<str>>)| match names.as_slice() {
        [] => source.to_owned(),
        [name] => format!("{source} of {name}"),
        [name, others @ ..] => format!("{source} of {name} and {}", wording::others(others.len(), "")),
    };
    by_source.into_iter().map(line).collect()
}

fn standing(census: &Census<'_>, index: usize) -> Option<NodeStory> {
    let problem = census.problem;
    let node = problem.nodes.get(index)?;
    let label = |key| node.labels.get(key).cloned();
    let (zone, capacity_type) = (label(labels::ZONE), label(labels::CAPACITY_TYPE));
    let pool = label(labels::NODE_POOL);
    let instance_type = label(labels::INSTANCE_TYPE);
    let known = problem.pools.iter().find(|it| Some(&it.name) == pool.as_ref());
    let catalogue = known.and_then(|it| problem.catalogues.get(it.catalogue));
    let bought = catalogue.and_then(|types| types.iter().find(|it| Some(&it.name) == instance_type.as_ref()));
    let here = |it: &&Offering| it.zone() == zone.as_deref() && it.capacity_type() == capacity_type.as_deref();
    let price = bought.and_then(|it| it.offerings.iter().find(here)).and_then(|it| it.price);
    let mut used = node.allocatable.clone();
    used.subtract(census.free(index)?);
    let (fill, binding) = fill(&used, &node.allocatable);
    let pods: Vec<_> = existing::pods_on(census, index).collect();
    let origins = node.labels.iter().map(|(key, value)| RequirementOrigin {
        key: Arc::clone(key),
        requirement: format!("In [{value}]"),
        sources: askers(&pods, key),
    });
    let requirements = origins.collect();
    let pods = shares(&pods, price);
    let node = PlacedOn::Existing(index);
    let (alternatives, daemons, next_smaller) = (0, Vec::new(), None);
    Some(NodeStory {
        node,
        pool,
        instance_type,
        zone,
        capacity_type,
        price,
        alternatives,
        requirements,
        fill,
        binding,
        daemons,
        next_smaller,
        pods,
    })
}

fn fill(used: &Resources, allocatable: &Resources) -> (Vec<Fill>, Option<Resource>) {
    let entry = |(resource, used): (&Resource, i64)| {
        let there = allocatable.get(resource);
        let permille = i128::from(used) * 1000 / i128::from(there.max(1));
        let permille = i64::try_from(permille).unwrap_or(i64::MAX);
        Fill { resource: resource.clone(), used, allocatable: there, permille }
    };
    let fill: Vec<Fill> = used.iter().filter(|(_, amount)| *amount > 0).map(entry).collect();
    let fullest = fill.iter().rev().max_by_key(|it| it.permille).map(|it| it.resource.clone());
    (fill, fullest)
}

fn shares(pods: &[(&Arc<str>, &PodSpec)], price: Option<f64>) -> Vec<PodShare> {
    let total = |resource: &Resource| pods.iter().map(|(_, spec)| spec.requests.get(resource) as f64).sum::<f64>();
    let totals = [Resource::Cpu, Resource::Memory].map(|it| (total(&it), it));
    let asked = totals.iter().filter(|(total, _)| *total > 0.0).count();
    let part = |spec: &PodSpec| {
        if asked == 0 {
            return 1.0 / pods.len() as f64;
        }
        let parts = totals.iter().filter(|(total, _)| *total > 0.0);
        parts.map(|(total, resource)| spec.requests.get(resource) as f64 / total).sum::<f64>() / asked as f64
    };
    let share = |(name, spec): &(&Arc<str>, &PodSpec)| PodShare {
        name: Arc::clone(name),
        price: price.map(|price| price * part(spec)),
    };
    pods.iter().map(share).collect()
}

/// Returns the types next below the node's price, with the reasons why they were not chosen.
pub(super) fn ruled_out(census: &Census<'_>, node: &NewNode) -> Vec<RuledOut> {
    let mut cheaper = cheaper(census, node);
    cheaper.sort_by(|a, b| b.price.total_cmp(&a.price).then_with(|| a.instance_type.cmp(&b.instance_type)));
    cheaper.truncate(RULED_OUT);
    cheaper
}

/// Returns every type of the pool with an offering below the node's price, in the catalogue's order.
fn cheaper(census: &Census<'_>, node: &NewNode) -> Vec<RuledOut> {
    let Some(pool) = census.problem.pools.get(node.pool) else { return Vec::new() };
    let Some(catalogue) = census.problem.catalogues.get(pool.catalogue) else { return Vec::new() };
    let mut pods = Resources::new();
    for spec in node.pods.iter().filter_map(|pod| census.problem.pods.get(*pod)).map(|pod| pod.spec) {
        if let Some(spec) = census.problem.specs.get(spec) {
            pods.add(&spec.requests);
        }
    }
    let types = census.view(node.pool).types.iter().filter(|it| it.index != node.instance_type);
    let judged = types.filter_map(|candidate| {
        let instance_type = &catalogue[candidate.index];
        let offerings = instance_type.offerings.iter().filter(|it| buys(census, instance_type, it));
        let offerings = offerings.filter(|it| pool.requirements.intersects(&it.requirements));
        let price = offerings.map(cost).min_by(f64::total_cmp).filter(|price| *price < node.price)?;
        let lacks = pods.first_shortage(&candidate.room).map(|(resource, short)| (resource.clone(), short));
        let why = why_not(instance_type, &node.requirements, lacks.as_ref(), node.price);
        Some(RuledOut { instance_type: Arc::clone(&instance_type.name), price, lacks, why })
    });
    judged.collect()
}

fn why_not(it: &InstanceType, required: &Requirements, lacks: Option<&(Resource, i64)>, price: f64) -> String {
    if let Some((resource, short)) = lacks {
        return format!("lacks {} of {resource} for these pods", wording::amount(resource, *short));
    }
    // The list of launch alternatives would exclude every type that the plan did not choose.
    let mut required = required.clone();
    required.remove(labels::INSTANCE_TYPE);
    if let Some(Conflict::Disjoint { key, incoming, existing }) = required.first_disjoint(&it.requirements) {
        let (incoming, existing) = (wording::requirement(&incoming), wording::requirement(&existing));
        return format!("it has {key} {incoming}, the node must have {existing}");
    }
    let open = |offering: &&Offering| required.intersects(&offering.requirements);
    let at = it.offerings.iter().filter(|offering| offering.launchable()).filter(open).map(cost).min_by(f64::total_cmp);
    match at {
        None => "not available in the zones and capacity types that the node allows".to_owned(),
        Some(there) if there >= price => format!("${there:.4} an hour in the zones that the node allows"),
        Some(_) => "excluded by the limits or minValues of the pool, or a host port".to_owned(),
    }
}
