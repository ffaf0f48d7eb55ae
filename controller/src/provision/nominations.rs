//! What was planned is what binds: pods are told their node before the node takes pods.
//!
//! kube-scheduler spreads pods in its own way, and a tight plan does not survive that: 5–8 % of the load would be left over
//! and bought again. From Kubernetes 1.35 on it tries `status.nominatedNodeName` first and keeps the room from others, if
//! it was set before the node was open to all (KEP-5278).
//!
//! ```text
//!   claim launched ──► Node appears, tainted ──► ready ──► nominate its pods ──► taint goes ──► kube-scheduler binds them there
//!                                                                │
//!                              Seen::registration_hold ◄── hold ─┘
//! ```
//!
//! A nomination by somebody else is a preemption that is under way, and is left alone.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use muster_cloud::after;

use super::plan::{Claimed, Hint, Hold, Plan, Scene, TELLING};
use super::together::Late;
use crate::step::{Step, Write};

/// After this a nomination that nobody has seen is written again.
const REPEAT: Duration = Duration::from_secs(15);

/// After this one is that was seen and has gone: a pod that its scheduler tries in vain is nominated no more, and until it is again its
/// room is anybody's. It is not tried again for a second; this much is for whoever else takes nominations back.
const DENIED: Duration = Duration::from_millis(200);

/// Where a pod is to run.
#[derive(Debug, Clone)]
struct Place {
    node: Arc<str>,
    /// Whether it is not told of it yet.
    is_early: bool,
}

impl Plan {
    /// Tells pods of the Nodes that are meant for them, as far as these exist, and takes back what is no longer meant.
    ///
    /// To be called whenever a Node of a claim appears or goes, a pod's nomination changes, or a round has ended; and
    /// again at [`Step::again`].
    pub fn nominate(&mut self, scene: &Scene<'_>, now: Timestamp) -> Step {
        let mut again = self.settle(scene, now);
        let (places, early) = self.places(scene, now);
        again = [again, early].into_iter().flatten().min();
        let mut writes = Vec::new();
        for (path, applicant) in scene.applicants.iter().filter(|(_, applicant)| applicant.is_unbound()) {
            let uid = &applicant.pod.uid;
            let hint = self.hinted.get(uid);
            let is_ours = |there: &Arc<str>| hint.is_some_and(|hint| hint.node == *there);
            let node = match (&applicant.nominated, places.get(path)) {
                (Some(there), Some(Place { node, .. })) if there == node => {
                    let hint = || Hint { node: Arc::clone(node), at: now, denied: applicant.denied };
                    self.hinted.entry(uid.clone()).or_insert_with(hint);
                    continue;
                }
                (_, Some(Place { is_early: true, .. })) => continue,
                (None, Some(Place { node, .. })) => {
                    // It may be written and not seen yet.
                    let wait = |hint: &Hint| if applicant.denied > hint.denied { DENIED } else { REPEAT };
                    let tried = hint.filter(|hint| hint.node == *node).map(|hint| after(hint.at, wait(hint)));
                    if let Some(moment) = tried.filter(|moment| now < *moment) {
                        again = [again, Some(moment)].into_iter().flatten().min();
                        continue;
                    }
                    Some(node)
                }
                // What names no Node holds nothing: the scheduler that wrote it, or we in another life, have lost it.
                (Some(there), Some(Place { node, .. })) if is_ours(there) || !scene.nodes.contains(&**there) => {
                    Some(node)
                }
                (Some(there), None) if is_ours(there) => None,
                _ => continue,
            };
            match node {
                Some(node) => {
                    self.hinted.insert(uid.clone(), Hint { node: Arc::clone(node), at: now, denied: applicant.denied })
                }
                None => self.hinted.remove(uid),
            };
            writes.push(Write::Nominate { pod: applicant.pod.clone(), node: node.map(ToString::to_string) });
        }
        Step { writes, again }
    }

    /// Why the Node of a claim may not take pods yet: some that are meant for it have not been told, or are spread over it
    /// and others that cannot take pods yet.
    #[must_use]
    pub fn hold(&self, claimed: &Claimed<'_>, scene: &Scene<'_>, late: &Late, now: Timestamp) -> Option<Hold> {
        let node = claimed.node?;
        let until = after(node.metadata.creation_timestamp.as_ref()?.0, TELLING);
        let is_untold = now < until && self.has_untold(claimed, scene);
        if is_untold && !self.companies.contains_key(claimed.name()) {
            let name = claimed.node_name()?;
            // Not how many: that changes with each of them, and every change would be written.
            let why = format!("some of its pods have not been told yet that Node `{name}` is theirs");
            return Some(Hold { why, until });
        }
        self.waits_for_company(claimed, late, is_untold, until, now)
    }

    /// Whether pods are meant for the Node of a claim that do not know of it.
    pub(super) fn has_untold(&self, claimed: &Claimed<'_>, scene: &Scene<'_>) -> bool {
        let Some(name) = claimed.node_name() else { return false };
        self.placed.get(claimed.name()).into_iter().flatten().any(|pod| {
            let applicant = scene.applicants.get(&pod.path).filter(|one| one.pod.uid == pod.uid && one.is_unbound());
            applicant.is_some_and(|one| match &one.nominated {
                None => true,
                Some(there) => {
                    &**there != name && self.hinted.get(&one.pod.uid).is_some_and(|ours| &*ours.node == name)
                }
            })
        })
    }

    /// The Node of each pod that has one, and when some of them are to be told that are not yet.
    fn places(&self, scene: &Scene<'_>, now: Timestamp) -> (BTreeMap<Arc<str>, Place>, Option<Timestamp>) {
        let late = self.late(scene);
        let mut places = BTreeMap::new();
        let mut next = None;
        for claimed in scene.claims {
            let (Some(pods), Some(node)) = (self.placed.get(claimed.name()), claimed.node_name()) else { continue };
            let early = self.is_too_early(claimed, &late, now);
            next = [next, early].into_iter().flatten().min();
            let place = Place { node: node.into(), is_early: early.is_some() };
            places.extend(pods.iter().map(|pod| (Arc::clone(&pod.path), place.clone())));
        }
        (places, next)
    }
}
