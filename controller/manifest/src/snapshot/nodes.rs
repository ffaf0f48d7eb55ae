//! Conversion of Nodes and NodeClaims to nodes of the model, and of the daemons that run on them.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use jiff::Timestamp;
use muster_api::conditions::nodeclaim;
use muster_api::{annotations, taints};
use muster_scheduling::disrupt::DisruptionBlocker;
use muster_scheduling::labels::HOSTNAME;
use muster_scheduling::model::{
    self, Attachment, Effect, Labels, PodSpec, Requirements, Resource, Resources, Taint, Toleration,
};
use rustc_hash::FxHashMap;

use super::expand::admitted;
use super::mark::Mark;
use super::resolve::{PodIdentity, Resolver};
use super::sort::Bound;
use crate::{Condition, CsiNode, Manifests, Node, NodeClaim, Pod};

const REGISTERED: &str = "karpenter.sh/registered";
const INITIALIZED: &str = "karpenter.sh/initialized";

/// Taint that the model gives a node with a pod that cannot be read: how much room it has is unknown. No Node of the
/// cluster has it.
const UNREADABLE_POD: &str = "muster.dev/unreadable-pod";

/// Taints that are removed automatically during node startup, by key or key prefix.
const EPHEMERAL_TAINTS: [&str; 4] = [
    "node.kubernetes.io/not-ready",
    "node.kubernetes.io/unreachable",
    "node.cloudprovider.kubernetes.io/uninitialized",
    "karpenter.sh/unregistered",
];
const EPHEMERAL_TAINT_PREFIX: &str = "readiness.k8s.io/";

/// A daemon, which runs on every node that it fits.
pub(super) struct Daemon {
    pub(super) model: model::DaemonSet,
    spec: PodSpec,
}

/// Returns the DaemonSets of the input. Their pods tolerate `PreferNoSchedule` taints, and run on nodes that match any
/// of their node affinity terms.
///
/// Requests are those of the newest pod of the DaemonSet, which include changes by admission, as in Karpenter; without
/// pods, those of the template with the defaults of LimitRanges.
pub(super) fn daemons(manifests: &Manifests, resolver: &mut Resolver<'_>) -> Vec<Daemon> {
    let newest = newest_daemon_pods(manifests);
    let mut daemons = Vec::new();
    for daemon_set in manifests.daemon_sets.iter().filter(|daemon_set| !daemon_set.meta.deleting) {
        let id = resolver.spec_id(&PodIdentity {
            namespace: &daemon_set.meta.namespace,
            name: &daemon_set.meta.name,
            template: &admitted(&daemon_set.template, &daemon_set.meta.namespace, &manifests.limit_ranges),
            owner: None,
            claim_templates: &[],
            granted: None,
            made_claims: &[],
        });
        let mut spec = resolver.spec(id).clone();
        if let Some(pod) = newest.get(&(&*daemon_set.meta.namespace, &*daemon_set.meta.name)) {
            let id = resolver.spec_id(&PodIdentity {
                namespace: &pod.namespace,
                name: &pod.name,
                template: &pod.template,
                owner: None,
                claim_templates: &[],
                granted: pod.granted.as_ref(),
                made_claims: &pod.made_claims,
            });
            spec.requests = resolver.spec(id).requests.clone();
        }
        // The DaemonSet controller pins each pod to its node by name; that does not restrict future nodes.
        spec.node_terms.iter_mut().for_each(|term| term.remove(HOSTNAME));
        if spec.node_terms.iter().any(Requirements::is_empty) {
            spec.node_terms.clear();
        }
        spec.preferred_node_terms.clear();
        spec.preferred_affinity.clear();
        spec.preferred_anti_affinity.clear();
        spec.spread.clear();
        spec.refusal = None;
        spec.tolerations.push(Toleration { key: None, value: None, effect: Some(Effect::PreferNoSchedule) });
        spec.tolerations.sort();
        spec.tolerations.dedup();
        let id = resolver.intern(spec.clone());
        daemons.push(Daemon { model: model::DaemonSet { name: daemon_set.meta.path(), spec: id }, spec });
    }
    daemons
}

/// Returns the most recently started pod of each DaemonSet, by its namespace and name; a pod that has not started is
/// newer than all others.
fn newest_daemon_pods(manifests: &Manifests) -> BTreeMap<(&str, &str), &Pod> {
    let started = |pod: &Pod| {
        let started = pod.started.as_deref().and_then(|text| text.parse::<Timestamp>().ok());
        started.unwrap_or(Timestamp::MAX)
    };
    let mut newest: BTreeMap<(&str, &str), &Pod> = BTreeMap::new();
    for pod in manifests.pods.iter().filter(|pod| !pod.terminal && !pod.deleting) {
        let Some(owner) = pod.owner.as_ref().filter(|owner| &*owner.kind == "DaemonSet") else { continue };
        let known = newest.entry((&pod.namespace, &owner.name)).or_insert(pod);
        if started(pod) > started(known) {
            *known = pod;
        }
    }
    newest
}

/// Claim of each node, and for each claim whether it has a node.
pub(super) struct Pairs<'m> {
    pub(super) claim_of_node: Vec<Option<&'m NodeClaim>>,
    claim_has_node: Vec<bool>,
}

impl<'m> Pairs<'m> {
    pub(super) fn new(manifests: &'m Manifests) -> Self {
        let by_name = manifests.nodes.iter().enumerate().map(|(index, node)| (&*node.meta.name, index));
        let by_name: FxHashMap<&str, usize> = by_name.collect();
        let provider_ids = manifests.nodes.iter().enumerate();
        let by_provider: FxHashMap<&str, usize> =
            provider_ids.filter_map(|(index, node)| Some((node.provider_id.as_deref()?, index))).collect();
        let mut pairs = Self { claim_of_node: vec![None; manifests.nodes.len()], claim_has_node: Vec::new() };
        for claim in &manifests.node_claims {
            // The instance decides: a Node of that name may be another one that has come since. Of several with its
            // provider ID it is the one that the claim was registered with.
            let named = claim.node.as_deref().and_then(|name| by_name.get(name)).copied();
            let is_of_instance =
                |node: &usize| claim.provider_id.is_some() && manifests.nodes[*node].provider_id == claim.provider_id;
            let of_instance = claim.provider_id.as_deref().and_then(|id| by_provider.get(id)).copied();
            let node = named.filter(is_of_instance).or(of_instance).or(named);
            if let Some(node) = node {
                pairs.claim_of_node[node] = Some(claim);
            }
            pairs.claim_has_node.push(node.is_some());
        }
        pairs
    }
}

/// Future of a node.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Prospect {
    /// It stays.
    Stays,
    /// It is drained, rebooted and used again.
    Reboots,
    /// It is being deleted.
    Goes,
}

/// Returns the future of each node of the input.
pub(super) fn prospects(manifests: &Manifests) -> Vec<Prospect> {
    let pairs = Pairs::new(manifests);
    let prospect = |(node, claim): (&Node, &Option<&NodeClaim>)| match claim {
        _ if is_deleting(node, *claim) => Prospect::Goes,
        Some(claim) if is_rebooting(claim) => Prospect::Reboots,
        _ => Prospect::Stays,
    };
    manifests.nodes.iter().zip(&pairs.claim_of_node).map(prospect).collect()
}

fn is_deleting(node: &Node, claim: Option<&NodeClaim>) -> bool {
    node.meta.deleting || claim.is_some_and(is_ending)
}

/// Returns true if the claim's node is being removed, or a running disruption command will remove it.
fn is_ending(claim: &NodeClaim) -> bool {
    let is_marked = claim.meta.annotations.get(annotations::DISRUPTION).is_some_and(|mark| Mark::read(mark).is_some());
    claim.meta.deleting || is_marked || has_condition(&claim.conditions, "InstanceTerminating")
}

fn unreadable_mark(claim: &NodeClaim) -> Option<String> {
    let mark = claim.meta.annotations.get(annotations::DISRUPTION)?;
    let (name, key) = (&claim.meta.name, annotations::DISRUPTION);
    Mark::read(mark).is_none().then(|| format!("NodeClaim `{name}`: annotation `{key}` cannot be read, and is ignored"))
}

pub(super) fn has_condition(conditions: &[Condition], kind: &str) -> bool {
    conditions.iter().any(|condition| &*condition.kind == kind && &*condition.status == "True")
}

/// Resources of a node or claim that count against the limits of its pool.
pub(super) struct Footprint<'m> {
    pub(super) pool: Arc<str>,
    pub(super) capacity: Resources,
    /// Requirements of a claim that has not been launched.
    pub(super) choice: Option<&'m Requirements>,
    pub(super) deleting: bool,
}

/// Returns the resources of the nodes and claims of the input that count against the limits of their pools.
pub(super) fn footprints(manifests: &Manifests) -> Vec<Footprint<'_>> {
    let pairs = Pairs::new(manifests);
    let mut footprints = Vec::new();
    for (node, claim) in manifests.nodes.iter().zip(&pairs.claim_of_node) {
        let label = |labels: &Labels| labels.get(muster_scheduling::labels::NODE_POOL).cloned();
        let Some(pool) = claim.and_then(|claim| label(&claim.meta.labels)).or_else(|| label(&node.meta.labels)) else {
            continue;
        };
        let mut capacity = node.capacity.clone();
        if let Some(claim) = claim {
            replace_zeros(&mut capacity, &claim.capacity);
        }
        footprints.push(Footprint { pool, capacity, choice: None, deleting: is_deleting(node, *claim) });
    }
    for (claim, _) in in_flight(manifests, &pairs) {
        if let Some(pool) = claim.meta.labels.get(muster_scheduling::labels::NODE_POOL) {
            let (pool, capacity) = (Arc::clone(pool), claim.capacity.clone());
            let choice = capacity.is_empty().then_some(&claim.requirements);
            footprints.push(Footprint { pool, capacity, choice, deleting: is_ending(claim) });
        }
    }
    footprints
}

fn in_flight<'m>(manifests: &'m Manifests, pairs: &Pairs<'_>) -> impl Iterator<Item = (&'m NodeClaim, bool)> {
    manifests.node_claims.iter().zip(pairs.claim_has_node.clone()).filter(|(_, has_node)| !has_node)
}

/// Returns the Nodes in input order, then the claims whose Nodes do not exist yet.
pub(super) fn nodes(
    manifests: &Manifests,
    bound: &BTreeMap<Arc<str>, Vec<Bound>>,
    daemons: &[Daemon],
    warnings: &mut Vec<String>,
) -> Vec<model::Node> {
    let pairs = Pairs::new(manifests);
    let csi_nodes: FxHashMap<&str, &CsiNode> = manifests.csi_nodes.iter().map(|node| (&*node.name, node)).collect();
    let mut attached = attached(manifests);
    let mut nodes = Vec::new();
    for (node, claim) in manifests.nodes.iter().zip(&pairs.claim_of_node) {
        let pods = bound.get(&node.meta.name).map_or(&[][..], Vec::as_slice);
        let present: BTreeSet<&str> = pods.iter().filter_map(|pod| pod.daemon_set.as_deref()).collect();
        warnings.extend(claim.and_then(unreadable_mark));
        let mut model = existing(node, *claim);
        model.daemon_requests = daemon_requests(daemons, &model, &present);
        if let Some(csi_node) = csi_nodes.get(&*node.meta.name) {
            model.attach_limits.clone_from(&csi_node.limits);
            model.attach_limits.sort();
        }
        model.attached = attached.remove(&*node.meta.name).unwrap_or_default();
        if pods.iter().any(|bound| bound.node_pod.hold == Some(DisruptionBlocker::Unreadable)) {
            let effect = Effect::NoSchedule;
            model.taints.push(Taint { key: UNREADABLE_POD.into(), value: "".into(), effect });
        }
        model.bound = pods.iter().map(|bound| bound.pod.clone()).collect();
        nodes.push(model);
    }
    for (claim, _) in in_flight(manifests, &pairs) {
        let mut model = coming(claim);
        model.daemon_requests = daemon_requests(daemons, &model, &BTreeSet::new());
        nodes.push(model);
    }
    nodes
}

fn existing(node: &Node, claim: Option<&NodeClaim>) -> model::Node {
    let is_set = |key: &str| node.meta.labels.get(key).is_some_and(|value| &**value == "true");
    // A node without a claim is not managed by Muster and is used as it is.
    let registered = claim.is_none() || is_set(REGISTERED);
    let initialized = claim.is_none_or(|claim| !is_rebooting(claim)) && (claim.is_none() || is_set(INITIALIZED));
    let mut labels = node.meta.labels.clone();
    let mut taints = node.taints.clone();
    let mut allocatable = node.allocatable.clone();
    if let Some(claim) = claim {
        if !registered {
            for (key, value) in claim_labels(claim).iter() {
                labels.set(Arc::clone(key), Arc::clone(value));
            }
            taints.clone_from(&claim.taints);
        }
        if !initialized {
            taints.retain(|taint| !is_passing(taint, claim));
            replace_zeros(&mut allocatable, &claim.allocatable);
        }
    }
    let cordon = Taint { key: "node.kubernetes.io/unschedulable".into(), value: "".into(), effect: Effect::NoSchedule };
    if node.unschedulable && !taints.iter().any(|taint| taint.key == cordon.key) {
        taints.push(cordon);
    }
    if labels.get(HOSTNAME).is_none() {
        labels.set(HOSTNAME, Arc::clone(&node.meta.name));
    }
    model::Node {
        name: Arc::clone(&node.meta.name),
        labels,
        taints,
        allocatable,
        daemon_requests: Resources::new(),
        initialized: registered && initialized,
        deleting: is_deleting(node, claim),
        bound: Vec::new(),
        attach_limits: Vec::new(),
        attached: Vec::new(),
    }
}

fn coming(claim: &NodeClaim) -> model::Node {
    let mut labels = claim_labels(claim);
    if labels.get(HOSTNAME).is_none() {
        labels.set(HOSTNAME, Arc::clone(&claim.meta.name));
    }
    model::Node {
        name: Arc::clone(&claim.meta.name),
        labels,
        taints: claim.taints.iter().filter(|taint| !is_passing(taint, claim)).cloned().collect(),
        // Before the launch the type of the node is unknown, but it will fit what it is launched for.
        allocatable: if claim.allocatable.is_empty() { claim.requests.clone() } else { claim.allocatable.clone() },
        daemon_requests: Resources::new(),
        initialized: false,
        deleting: is_ending(claim),
        bound: Vec::new(),
        attach_limits: Vec::new(),
        attached: Vec::new(),
    }
}

/// Returns the labels of a claim, including those of requirements that allow only one value.
fn claim_labels(claim: &NodeClaim) -> Labels {
    let mut labels = claim.meta.labels.clone();
    for (key, requirement) in claim.requirements.iter() {
        if let (None, Some(value)) = (labels.get(key), requirement.single()) {
            labels.set(Arc::clone(key), Arc::clone(value));
        }
    }
    labels
}

/// Returns true if the claim's node is being rebooted: it is left alone, and its capacity comes back.
pub(super) fn is_rebooting(claim: &NodeClaim) -> bool {
    has_condition(&claim.conditions, nodeclaim::REBOOTING)
}

/// Returns true if the taint is removed before the node is initialized.
fn is_passing(taint: &Taint, claim: &NodeClaim) -> bool {
    if &*taint.key == taints::REBOOTING {
        return is_rebooting(claim);
    }
    let alike = |other: &Taint| other.key == taint.key && other.effect == taint.effect;
    EPHEMERAL_TAINTS.contains(&&*taint.key)
        || taint.key.starts_with(EPHEMERAL_TAINT_PREFIX)
        || claim.startup_taints.iter().any(alike)
}

/// Replaces zeros: kubelets report zero for devices whose plugins have not registered yet.
fn replace_zeros(amounts: &mut Resources, promised: &Resources) {
    for (resource, amount) in promised.iter() {
        if amounts.get(resource) == 0 {
            amounts.set(resource.clone(), amount);
        }
    }
}

/// Returns the requests of the daemons that fit the node but do not run on it yet.
fn daemon_requests(daemons: &[Daemon], node: &model::Node, present: &BTreeSet<&str>) -> Resources {
    let mut requests = Resources::new();
    if daemons.is_empty() {
        return requests;
    }
    let mut labels = node.labels.clone();
    // Daemons that select these labels will be created once the node is ready.
    labels.set(REGISTERED, "true");
    labels.set(INITIALIZED, "true");
    let labels = Requirements::from_labels(&labels);
    for daemon in daemons.iter().filter(|daemon| !present.contains(&*daemon.model.name)) {
        if fits(&daemon.spec, &labels, &node.taints) {
            requests.add(&daemon.spec.requests);
        }
    }
    requests
}

/// Returns true if a daemon fits the current node: by its node selector, affinity and tolerations.
#[must_use]
pub fn runs_on(daemon: &PodSpec, node: &model::Node) -> bool {
    fits(daemon, &Requirements::from_labels(&node.labels), &node.taints)
}

fn fits(spec: &PodSpec, labels: &Requirements, taints: &[Taint]) -> bool {
    let meets = |wanted: &Requirements| labels.first_conflict(wanted, |_| false).is_none();
    let tolerated = |taint: &Taint| spec.tolerations.iter().any(|toleration| toleration.tolerates(taint));
    meets(&spec.node_selector)
        && (spec.node_terms.is_empty() || spec.node_terms.iter().any(meets))
        && taints.iter().all(|taint| !taint.repels() || tolerated(taint))
}

/// Returns the volumes that are attached to nodes, by name. A volume without a claim has its own name.
fn attached(manifests: &Manifests) -> FxHashMap<&str, Vec<Attachment>> {
    let mut attached: FxHashMap<&str, Vec<Attachment>> = FxHashMap::default();
    for one in &manifests.volume_attachments {
        let Some(name) = &one.volume else { continue };
        let claim = manifests.volumes.get(name).and_then(|volume| volume.claim.as_ref()).unwrap_or(name);
        let volume = Attachment { driver: Arc::clone(&one.driver), claim: Arc::clone(claim) };
        attached.entry(&one.node).or_default().push(volume);
    }
    attached
}

/// Returns the resource under which limits count nodes.
pub(super) fn node_count() -> Resource {
    Resource::new("nodes")
}
