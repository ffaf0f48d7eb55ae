//! Which pods are to be placed, which hold their place, and which do not matter.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use muster_scheduling::disrupt::Occupant;
use muster_scheduling::model::{self, BoundPod, Problem};
use muster_scheduling::{Nominated, nominations_that_hold};
use rustc_hash::FxHashMap;

use super::disruption::Guards;
use super::expand::Roots;
use super::nodes::deleting_nodes;
use super::resolve::{PodIdentity, Resolver};
use crate::manifest::{Manifests, Owner, Pod, PodTemplate};

/// A pod on its node.
pub(super) struct Bound {
    pub(super) pod: BoundPod,
    /// The DaemonSet that it belongs to, as `namespace/name`.
    pub(super) daemon_set: Option<Arc<str>>,
    /// What moving it would mean.
    pub(super) occupant: Occupant,
    /// It is not there yet, and its room is kept.
    pub(super) nominated: bool,
}

/// The pods of the input by what is to be done with them.
pub(super) struct Sorted {
    /// To be placed, in the order of the input.
    pub(super) pending: Vec<model::Pod>,
    /// Those among them, by index, whose images tell for which machines they are.
    pub(super) telling: Vec<(usize, Arc<PodTemplate>)>,
    /// On nodes of the input, by the name of the node.
    pub(super) bound: BTreeMap<Arc<str>, Vec<Bound>>,
}

/// What is to be done with a pod.
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
        // Whether the node of that name is being deleted.
        let deleting = deleting_nodes(manifests);
        let nodes: FxHashMap<&str, bool> =
            manifests.nodes.iter().zip(deleting).map(|(node, deleting)| (&*node.meta.name, deleting)).collect();
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

    fn add(&mut self, pod: &Pod, nodes: &FxHashMap<&str, bool>, resolver: &mut Resolver<'_>, guards: &mut Guards<'_>) {
        let fate = fate(pod, nodes);
        if fate == Fate::Nowhere {
            return;
        }
        let spec = resolver.spec_id(&PodIdentity {
            namespace: &pod.namespace,
            name: &pod.name,
            template: &pod.template,
            owner: pod.owner.as_ref(),
            claim_templates: &[],
            granted: pod.granted.as_ref(),
        });
        let name = Arc::clone(&pod.path);
        match fate {
            Fate::Bound(node) => {
                let owner = pod.owner.as_ref().filter(|owner| &*owner.kind == "DaemonSet");
                let daemon_set = owner.map(|owner| format!("{}/{}", pod.namespace, owner.name).into());
                let occupant = guards.occupant(pod, resolver.spec(spec).priority);
                let nominated = pod.node.is_none();
                // The kubelet makes static pods, and has their Node own them.
                let daemon = pod.owner.as_ref().is_some_and(|owner| matches!(&*owner.kind, "DaemonSet" | "Node"));
                let pod = BoundPod { name, spec, counts: !pod.deleting, planned: false, daemon };
                let bound = Bound { pod, daemon_set, occupant, nominated };
                self.bound.entry(Arc::clone(node)).or_default().push(bound);
            }
            Fate::Pending | Fate::Nowhere => self.wait(model::Pod { name, spec }, &pod.template),
        }
    }
}

/// Has pods that hold room by a nomination alone have it as far as they can still be bound there. Where others were bound first, those
/// for whom no room is left, or whom a spread or an anti-affinity keeps away now, are to be placed anew: kube-scheduler will put them
/// elsewhere, into room that would seem free until it has done so. Daemons that are still to come have their room first: they can go
/// nowhere else.
///
/// Where a pod is ending it may end for them, as in a preemption, and a node that is starting may not say yet what it has: there all
/// keep their room.
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

fn fate<'p>(pod: &'p Pod, nodes: &FxHashMap<&str, bool>) -> Fate<'p> {
    if pod.terminal {
        return Fate::Nowhere;
    }
    if let Some(node) = &pod.node {
        return match nodes.get(&**node) {
            // Its node goes away, so it needs another one.
            Some(true) if is_reschedulable(pod) => Fate::Pending,
            Some(_) => Fate::Bound(node),
            None => Fate::Nowhere,
        };
    }
    if pod.gated || pod.deleting || belongs_to_node(pod) {
        return Fate::Nowhere;
    }
    match &pod.nominated_node {
        Some(node) if nodes.get(&**node) == Some(&false) => Fate::Bound(node),
        _ => Fate::Pending,
    }
}

/// Whether the pod comes and goes with its node: a daemon or a mirror pod.
pub(super) fn belongs_to_node(pod: &Pod) -> bool {
    let owner = pod.owner.as_ref().is_some_and(|owner| matches!(&*owner.kind, "DaemonSet" | "Node"));
    owner || pod.annotations.get("kubernetes.io/config.mirror").is_some()
}

/// Whether a pod on a node that goes away will want another one. A StatefulSet waits for the old pod to be gone, so the
/// one that is being deleted stands for the one that follows it.
pub(super) fn is_reschedulable(pod: &Pod) -> bool {
    let follows = pod.owner.as_ref().is_some_and(|owner| &*owner.kind == "StatefulSet");
    !belongs_to_node(pod) && (!pod.deleting || follows)
}
