//! Nominations: pods are nominated to their planned node before the node becomes schedulable.
//!
//! kube-scheduler distributes pods by its own rules, which breaks a tight plan: 5–8 % of the load would be left over
//! and cause further launches. From Kubernetes 1.35 on it tries `status.nominatedNodeName` first and reserves the room,
//! if the field was set before the node became schedulable (KEP-5278).
//!
//! ```text
//!   claim launched ──► Node appears, tainted ──► ready ──► nominate its pods ──► remove taint ──► kube-scheduler binds
//!                                                                │
//!                              Seen::registration_hold ◄── hold ─┘
//! ```
//!
//! A nomination by another component is a preemption in progress and is not changed.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use muster_cloud::after;

use super::gang::Late;
use super::plan::{ClaimAndNode, NodeHold, Nomination, PlacementView, Plan, TELLING};
use crate::step::{Step, Write};

/// Delay after which a nomination that has not been observed is written again.
const REPEAT: Duration = Duration::from_secs(15);

/// Delay after which a nomination that was observed and then removed is written again: a pod that its scheduler tried
/// in vain is not nominated any more, and its room is not reserved. kube-scheduler does not try it again for a second;
/// the delay is for other components that remove nominations.
const DENIED: Duration = Duration::from_millis(200);

/// Planned node of a pod.
#[derive(Debug, Clone)]
struct Place {
    node: Arc<str>,
    /// True if it is too early to nominate the pod.
    is_early: bool,
}

impl Plan {
    /// Returns the writes that nominate pods to their planned Nodes, as far as these exist, and that clear outdated
    /// nominations.
    ///
    /// Call it whenever a Node of a claim appears or disappears, a pod's nomination changes, or a round has ended; and
    /// again at [`Step::again`].
    pub fn nominate(&mut self, view: &PlacementView<'_>, now: Timestamp) -> Step {
        let mut again = self.settle(view, now);
        let (places, early) = self.places(view, now);
        again = [again, early].into_iter().flatten().min();
        let mut writes = Vec::new();
        for (path, pending_pod) in view.pending_pods.iter().filter(|(_, pending_pod)| pending_pod.is_unbound()) {
            let uid = &pending_pod.pod.uid;
            let hint = self.nominations.get(uid);
            let is_ours = |there: &Arc<str>| hint.is_some_and(|hint| hint.node == *there);
            let node = match (&pending_pod.nominated, places.get(path)) {
                (Some(there), Some(Place { node, .. })) if there == node => {
                    let hint = || Nomination { node: Arc::clone(node), at: now, denied: pending_pod.denied };
                    self.nominations.entry(uid.clone()).or_insert_with(hint);
                    continue;
                }
                (_, Some(Place { is_early: true, .. })) => continue,
                (None, Some(Place { node, .. })) => {
                    // The write may not have been observed yet.
                    let wait = |hint: &Nomination| if pending_pod.denied > hint.denied { DENIED } else { REPEAT };
                    let tried = hint.filter(|hint| hint.node == *node).map(|hint| after(hint.at, wait(hint)));
                    if let Some(moment) = tried.filter(|moment| now < *moment) {
                        again = [again, Some(moment)].into_iter().flatten().min();
                        continue;
                    }
                    Some(node)
                }
                // A nomination to a Node that does not exist reserves nothing: the scheduler, or an earlier run of the
                // controller, has left it.
                (Some(there), Some(Place { node, .. })) if is_ours(there) || !view.nodes.contains(&**there) => {
                    Some(node)
                }
                (Some(there), None) if is_ours(there) => None,
                _ => continue,
            };
            match node {
                Some(node) => self
                    .nominations
                    .insert(uid.clone(), Nomination { node: Arc::clone(node), at: now, denied: pending_pod.denied }),
                None => self.nominations.remove(uid),
            };
            writes.push(Write::Nominate { pod: pending_pod.pod.clone(), node: node.map(ToString::to_string) });
        }
        Step { writes, again }
    }

    /// Returns the reason why the Node of a claim must stay unschedulable: pods planned on it have not been nominated,
    /// or are spread over it and others that are not ready yet.
    #[must_use]
    pub fn hold(
        &self,
        claimed: &ClaimAndNode<'_>,
        view: &PlacementView<'_>,
        late: &Late,
        now: Timestamp,
    ) -> Option<NodeHold> {
        let node = claimed.node?;
        let until = after(node.metadata.creation_timestamp.as_ref()?.0, TELLING);
        let is_untold = now < until && self.has_untold(claimed, view);
        if is_untold && !self.gangs.contains_key(claimed.name()) {
            let name = claimed.node_name()?;
            // Without the number, which changes with each of them and would cause a write each time.
            let why = format!("some of its pods are not nominated to Node `{name}` yet");
            return Some(NodeHold { why, until });
        }
        self.waits_for_gang(claimed, late, is_untold, until, now)
    }

    /// Returns true if pods planned on the Node of a claim have not been nominated to it.
    pub(super) fn has_untold(&self, claimed: &ClaimAndNode<'_>, view: &PlacementView<'_>) -> bool {
        let Some(name) = claimed.node_name() else { return false };
        self.placed.get(claimed.name()).into_iter().flatten().any(|pod| {
            let pending_pod = view.pending_pods.get(&pod.path).filter(|one| one.pod.uid == pod.uid && one.is_unbound());
            pending_pod.is_some_and(|one| match &one.nominated {
                None => true,
                Some(there) => {
                    &**there != name && self.nominations.get(&one.pod.uid).is_some_and(|ours| &*ours.node == name)
                }
            })
        })
    }

    /// Returns the Node of each pod that has one, and the earliest time at which pods that are too early may be
    /// nominated.
    fn places(&self, view: &PlacementView<'_>, now: Timestamp) -> (BTreeMap<Arc<str>, Place>, Option<Timestamp>) {
        let late = self.late(view);
        let mut places = BTreeMap::new();
        let mut next = None;
        for claimed in view.claims {
            let (Some(pods), Some(node)) = (self.placed.get(claimed.name()), claimed.node_name()) else { continue };
            let early = self.is_too_early(claimed, &late, now);
            next = [next, early].into_iter().flatten().min();
            let place = Place { node: node.into(), is_early: early.is_some() };
            places.extend(pods.iter().map(|pod| (Arc::clone(&pod.path), place.clone())));
        }
        (places, next)
    }
}
