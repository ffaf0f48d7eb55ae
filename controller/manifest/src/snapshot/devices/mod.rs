//! Devices of resource claims as resources of the engine.
//!
//! ```text
//!  ResourceSlices of nodes ─┬─► stock  devices that count, by driver ──► capacity of nodes and types
//!  table, EC2, learned ─────┘                │
//!  claims, templates ──► uses ─► outcome  devices that a pod takes, types that have them ─► its requests, its types
//! ```
//!
//! A driver's devices are one resource. That is exact where the devices of a node that meet any request meet all of
//! them, which those of EC2 instance types do; where it is not, fewer devices count than there are, and pods without a
//! certain place are refused.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use muster_scheduling::labels::{HOSTNAME, INSTANCE_TYPE};
use muster_scheduling::model::{
    AffinityTerm, LabelSelector, NamespaceScope, Operator, PodSpec, Problem, Refusal, Requirement, Resource,
    SelectorOperator, SelectorTerm, SpecId,
};
use rustc_hash::FxHashMap;

use super::DeviceSettings;
use super::resolve::PodIdentity;
use super::sort::Bound;
use crate::{Manifests, PodClaim};

mod demand;
mod outcome;
mod selector;
mod stock;
mod supply;
mod table;
mod uses;

use outcome::{Outcome, Outcomes};
use stock::Stock;
use uses::Uses;

/// Hint of refusals.
const FIX: &str = "devices are known of EC2's NVIDIA GPUs and EFA, by the gates `DRANVIDIAGPU` and `DRAEFA`, and of \
                   types of which a node runs whose driver has published them; `docs/tasks/devices.md` has the rules";

/// Claims of pods, by `namespace/name` of the pod.
#[derive(Debug, Default)]
pub(super) struct PodClaims(BTreeMap<Arc<str>, ClaimsOfPod>);

/// Claims of a pod.
#[derive(Debug)]
struct ClaimsOfPod {
    namespace: Arc<str>,
    claims: Vec<PodClaim>,
    /// ResourceClaims that were made for it, by name in the pod.
    made: Vec<(Arc<str>, Arc<str>)>,
}

impl PodClaims {
    /// Adds a pod.
    pub(super) fn add(&mut self, pod: &PodIdentity<'_>) {
        let claims = ClaimsOfPod {
            namespace: Arc::clone(pod.namespace),
            claims: pod.template.resource_claims.clone(),
            made: pod.made_claims.to_vec(),
        };
        self.0.insert(format!("{}/{}", pod.namespace, pod.name).into(), claims);
    }
}

/// Returns the refusal of a pod because of its claims.
pub(super) fn refused(why: String) -> Refusal {
    Refusal::DynamicResources { why, fix: FIX.to_owned() }
}

/// Gives nodes and instance types their devices, and pods with claims their share of them.
pub(super) fn apply(
    manifests: &Manifests,
    settings: DeviceSettings,
    claims: &PodClaims,
    bound: &mut BTreeMap<Arc<str>, Vec<Bound>>,
    problem: &mut Problem,
) {
    if claims.0.is_empty() {
        return;
    }
    // What others write as CEL nests deeper than the stack of any caller.
    let outcome = std::thread::scope(|scope| {
        let deep = std::thread::Builder::new().stack_size(selector::STACK);
        let work = || apply_deep(manifests, settings, claims, &mut *bound, &mut *problem);
        deep.spawn_scoped(scope, work).map(std::thread::ScopedJoinHandle::join)
    });
    match outcome {
        Ok(Ok(())) => {}
        Ok(Err(panic)) => std::panic::resume_unwind(panic),
        Err(error) => refuse_all(claims, &format!("no thread for its selectors: {error}"), problem),
    }
}

/// Refuses all pending pods with claims.
fn refuse_all(claims: &PodClaims, why: &str, problem: &mut Problem) {
    for index in 0..problem.pods.len() {
        if claims.0.contains_key(&problem.pods[index].name) {
            let mut spec = problem.spec_of(index).clone();
            spec.refusal.get_or_insert_with(|| refused(why.to_owned()));
            problem.pods[index].spec = problem.intern(spec);
        }
    }
}

fn apply_deep(
    manifests: &Manifests,
    settings: DeviceSettings,
    claims: &PodClaims,
    bound: &mut BTreeMap<Arc<str>, Vec<Bound>>,
    problem: &mut Problem,
) {
    let running: BTreeSet<&str> =
        manifests.pods.iter().filter(|pod| pod.node.is_some()).map(|pod| &*pod.path).collect();
    let uses = Uses::new(manifests, claims, &running);
    let stock = Stock::new(manifests, settings, &uses, problem);
    let mut outcomes = Outcomes::new(&uses, &stock);
    let on_nodes = problem.nodes.iter().flat_map(|node| &node.bound).map(|pod| (Arc::clone(&pod.name), pod.spec));
    let pods = problem.pods.iter().map(|pod| (Arc::clone(&pod.name), pod.spec)).chain(on_nodes);
    let pods: Vec<(Arc<str>, SpecId)> = pods.filter(|(path, _)| claims.0.contains_key(path)).collect();
    let mut changed: FxHashMap<Arc<str>, SpecId> = FxHashMap::default();
    for (path, spec) in pods {
        let outcome = outcomes.of(&path, problem, spec);
        let new = changed_spec(&problem.specs[spec], outcome, &uses, &path);
        changed.insert(path, problem.intern(new));
    }
    stock.write(&uses, problem);
    let change = |name: &Arc<str>, spec: &mut SpecId| {
        if let Some(new) = changed.get(name) {
            *spec = *new;
        }
    };
    problem.pods.iter_mut().for_each(|pod| change(&pod.name, &mut pod.spec));
    problem.nodes.iter_mut().flat_map(|node| &mut node.bound).for_each(|pod| change(&pod.name, &mut pod.spec));
    bound.values_mut().flatten().for_each(|one| change(&one.pod.name, &mut one.pod.spec));
}

fn changed_spec(spec: &PodSpec, outcome: Outcome, uses: &Uses<'_>, path: &str) -> PodSpec {
    let mut spec = spec.clone();
    let Outcome { demand, types, host, refusal } = outcome;
    demand.add_to(&mut spec.requests);
    if let Some(types) = types {
        spec.node_selector.add(INSTANCE_TYPE, Requirement::new(Operator::In, types));
    }
    if let Some(host) = host {
        spec.node_selector.add(HOSTNAME, Requirement::new(Operator::In, [host]));
    }
    if let Some(why) = refusal {
        spec.refusal.get_or_insert_with(|| refused(why));
    }
    for claim in uses.shared(path) {
        // Pods that share a claim run where its devices are.
        let key: Arc<str> = format!("resource.k8s.io/claim/{claim}").into();
        spec.labels.set(Arc::clone(&key), "");
        let term = SelectorTerm { key, operator: SelectorOperator::Exists, values: Vec::new() };
        spec.affinity.push(AffinityTerm {
            topology_key: HOSTNAME.into(),
            selector: LabelSelector::Terms(vec![term]),
            namespaces: NamespaceScope::Only([Arc::clone(&spec.namespace)].into()),
        });
    }
    spec
}

/// Resources of the engine that stand for devices, with their amounts.
fn resources(supply: &supply::Supply, grouping: Option<&Arc<str>>) -> Vec<(Resource, i64)> {
    /// Number of groups where devices are not in groups.
    const ANY: i64 = 1 << 30;
    let devices = supply.iter().map(|(driver, group)| (Resource::devices(driver), i64::from(group.total)));
    let groups = grouping
        .map(|attribute| (Resource::device_groups(), demand::groups(supply, attribute).unwrap_or(ANY)))
        .filter(|_| !supply.is_empty());
    devices.chain(groups).collect()
}
