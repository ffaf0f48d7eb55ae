//! Classification of pods: pending, bound, or irrelevant.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use muster_scheduling::disrupt::NodePod;
use muster_scheduling::model::{self, BoundPod, Problem};
use muster_scheduling::{Nominated, nominations_that_hold};
use rustc_hash::FxHashMap;

use super::disruption::Guards;
use super::expand::Roots;
use super::nodes::{Prospect, prospects};
use super::resolve::{PodIdentity, Resolver};
use crate::{Manifests, Owner, Pod, PodTemplate};

/// A pod on its node.
pub(super) struct Bound {
    pub(super) pod: BoundPod,
    /// Its DaemonSet, as `namespace/name`.
    pub(super) daemon_set: Option<Arc<str>>,
    /// Constraints on its eviction.
    pub(super) node_pod: NodePod,
    /// True if it is only nominated: it is not bound yet, and its room is reserved.
    pub(super) nominated: bool,
}

/// Pods of the input by classification.
pub(super) struct Sorted {
    /// Pods to place, in input order.
    pub(super) pending: Vec<model::Pod>,
    /// Pending pods, by index, whose images imply a platform.
    pub(super) telling: Vec<(usize, Arc<PodTemplate>)>,
    /// Pods on nodes of the input, by node name.
    pub(super) bound: BTreeMap<Arc<str>, Vec<Bound>>,
}

/// Classification of a pod.
#[derive(Debug, PartialEq, Eq)]
enum Fate<'p> {
    Pending,
    /// On this node.
    Bound(&'p Arc<str>),
    Nowhere,
}

impl Sorted {
    pub(super) fn new<'m>(
        manifests: &'m Manifests,
        roots: &Roots<'m>,
        resolver: &mut Resolver<'_>,
        guards: &mut Guards<'_>,
    ) -> Self {
        let names = manifests.nodes.iter().map(|node| &*node.meta.name);
        let nodes: FxHashMap<&str, Prospect> = names.zip(prospects(manifests)).collect();
        let mut sorted = Self { pending: Vec::new(), telling: Vec::new(), bound: BTreeMap::new() };
        let mut pods = manifests.pods.iter().peekable();
        for workload in &manifests.workloads {
            while let Some(pod) = pods.next_if(|pod| pod.sequence < workload.sequence) {
                sorted.add(pod, &nodes, resolver, guards);
            }
            let new_pods = roots.new_pods(workload);
            if new_pods.is_empty() {
                continue;
            }
            let template = roots.admitted_template(workload);
            let owner = Owner { kind: workload.kind.into(), name: Arc::clone(&workload.meta.name) };
            for pod in new_pods {
                let spec = resolver.spec_id(&PodIdentity {
                    namespace: &workload.meta.namespace,
                    name: &pod.name,
                    template: &template,
                    owner: Some(&owner),
                    claim_templates: &workload.claim_templates,
                    granted: None,
                    made_claims: &[],
                });
                sorted.wait(model::Pod { name: pod.path, spec }, &template);
            }
        }
        for pod in pods {
            sorted.add(pod, &nodes, resolver, guards);
        }
        sorted
    }

    fn wait(&mut self, pod: model::Pod, template: &Arc<PodTemplate>) {
        if template.containers.iter().any(|container| container.image.is_some()) {
            self.telling.push((self.pending.len(), Arc::clone(template)));
        }
        self.pending.push(pod);
    }

    fn add(
        &mut self,
        pod: &Pod,
        nodes: &FxHashMap<&str, Prospect>,
        resolver: &mut Resolver<'_>,
        guards: &mut Guards<'_>,
    ) {
        let fate = fate(pod, nodes);
        if fate == Fate::Nowhere || pod.is_unreadable && (fate == Fate::Pending || pod.node.is_none()) {
            return;
        }
        let spec = resolver.spec_id(&PodIdentity {
            namespace: &pod.namespace,
            name: &pod.name,
            template: &pod.template,
            owner: pod.owner.as_ref(),
            claim_templates: &[],
            granted: pod.granted.as_ref(),
            made_claims: &pod.made_claims,
        });
        let name = Arc::clone(&pod.path);
        match fate {
            Fate::Bound(node) => {
                // What one that cannot be read asks for is unknown, and assumed to be what its DaemonSet asks for.
                let owner = pod.owner.as_ref().filter(|owner| &*owner.kind == "DaemonSet" && !pod.is_unreadable);
                let daemon_set = owner.map(|owner| format!("{}/{}", pod.namespace, owner.name).into());
                let node_pod = guards.node_pod(pod, resolver.spec(spec).priority);
                let nominated = pod.node.is_none();
                // Static pods are created by the kubelet and owned by their Node.
                let daemon = pod.owner.as_ref().is_some_and(|owner| matches!(&*owner.kind, "DaemonSet" | "Node"));
                let pod = BoundPod { name, spec, counts: !pod.deleting, planned: false, daemon };
                let bound = Bound { pod, daemon_set, node_pod, nominated };
                self.bound.entry(Arc::clone(node)).or_default().push(bound);
            }
            Fate::Pending | Fate::Nowhere => self.wait(model::Pod { name, spec }, &pod.template),
        }
    }
}

/// Keeps nominated pods on their nodes as far as they can still be bound there. If other pods were bound first,
/// nominated ones without room, or excluded by a spread or anti-affinity, become pending: kube-scheduler will bind them
/// elsewhere, to room that would otherwise seem free until then. Daemons that have not been created yet take
/// precedence, because they have no alternative.
///
/// All keep their room on a node with a pod that is being deleted, possibly by a preemption in their favor, and on a
/// node that is starting, which may not report all its resources yet.
pub(super) fn release(bound: &mut BTreeMap<Arc<str>, Vec<Bound>>, problem: &mut Problem) {
    let mut nominated = Vec::new();
    for (number, node) in problem.nodes.iter_mut().enumerate().filter(|(_, node)| node.initialized) {
        let Some(here) = bound.get(&node.name) else { continue };
        let is_leaving = here.iter().any(|one| !one.pod.counts);
        if is_leaving || !here.iter().any(|one| one.nominated) {
            continue;
        }
        let coming = here.iter().filter(|one| one.nominated);
        nominated.extend(coming.map(|one| Nominated { spec: one.pod.spec, node: number }));
        node.bound = here.iter().filter(|one| !one.nominated).map(|one| one.pod.clone()).collect();
    }
    let mut holds = nominations_that_hold(problem, &nominated).into_iter();
    let nodes: BTreeSet<usize> = nominated.iter().map(|one| one.node).collect();
    let Problem { nodes: all, pods, .. } = problem;
    for node in nodes {
        let Some(here) = bound.get_mut(&all[node].name) else { continue };
        here.retain(|one| {
            let stays = !one.nominated || holds.next().unwrap_or(true);
            if !stays {
                pods.push(model::Pod { name: Arc::clone(&one.pod.name), spec: one.pod.spec });
            }
            stays
        });
        all[node].bound = here.iter().map(|one| one.pod.clone()).collect();
    }
}

fn fate<'p>(pod: &'p Pod, nodes: &FxHashMap<&str, Prospect>) -> Fate<'p> {
    if pod.terminal {
        return Fate::Nowhere;
    }
    if let Some(node) = &pod.node {
        return match nodes.get(&**node) {
            // Its node is being removed, so it needs another one.
            Some(Prospect::Goes) if is_reschedulable(pod) => Fate::Pending,
            // It is gone before the node is used again, and its room is there for its successor.
            Some(Prospect::Reboots) if pod.deleting => Fate::Nowhere,
            Some(_) => Fate::Bound(node),
            None => Fate::Nowhere,
        };
    }
    if pod.gated || pod.deleting || belongs_to_node(pod) {
        return Fate::Nowhere;
    }
    match &pod.nominated_node {
        Some(node) if nodes.get(&**node).is_some_and(|one| *one != Prospect::Goes) => Fate::Bound(node),
        _ => Fate::Pending,
    }
}

/// Returns true if the pod's life is bound to its node: a daemon or a mirror pod.
pub(super) fn belongs_to_node(pod: &Pod) -> bool {
    let owner = pod.owner.as_ref().is_some_and(|owner| matches!(&*owner.kind, "DaemonSet" | "Node"));
    owner || pod.annotations.get("kubernetes.io/config.mirror").is_some()
}

/// Returns true if a pod on a node that is removed will need another node. StatefulSets recreate a pod only after it is
/// gone, so a pod that is being deleted represents its successor.
pub(super) fn is_reschedulable(pod: &Pod) -> bool {
    let follows = pod.owner.as_ref().is_some_and(|owner| &*owner.kind == "StatefulSet");
    !belongs_to_node(pod) && (!pod.deleting || follows)
}
