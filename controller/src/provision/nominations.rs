//! What was planned is what binds: pods are told their node before the node takes pods.
//!
//! kube-scheduler spreads pods in its own way, and a tight plan does not survive that: 5–8 % of the load would be left over
//! and bought again. From Kubernetes 1.35 on it tries `status.nominatedNodeName` first and keeps the room from others, if
//! it was set before the node was open to all (KEP-5278).
//!
//! ```text
//!   claim launched ──► Node appears, tainted ──► nominate its pods ──► taint goes ──► kube-scheduler binds them there
//!                                                       │
//!                     Seen::registration_hold ◄── hold ─┘
//! ```
//!
//! A nomination by somebody else is a preemption that is under way, and is left alone.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use muster_cloud::after;

use super::plan::{Claimed, Hint, Hold, Plan, Scene, TELLING};
use crate::step::{Step, Write};

/// After this a nomination that nobody has seen is written again.
const REPEAT: Duration = Duration::from_secs(5);

impl Plan {
    /// Tells pods of the Nodes that are meant for them, as far as these exist, and takes back what is no longer meant.
    ///
    /// To be called whenever a Node of a claim appears or goes, a pod's nomination changes, or a round has ended; and
    /// again at [`Step::again`].
    pub fn nominate(&mut self, scene: &Scene<'_>, now: Timestamp) -> Step {
        let mut again = self.settle(scene, now);
        let places = self.places(scene);
        let mut writes = Vec::new();
        for (path, applicant) in scene.applicants.iter().filter(|(_, applicant)| applicant.is_unbound()) {
            let uid = &applicant.pod.uid;
            let hint = self.hinted.get(uid);
            let is_ours = |there: &Arc<str>| hint.is_some_and(|hint| hint.node == *there);
            let node = match (&applicant.nominated, places.get(path)) {
                (Some(there), Some(node)) if there == node => {
                    self.hinted.entry(uid.clone()).or_insert_with(|| Hint { node: Arc::clone(node), at: now });
                    continue;
                }
                (None, Some(node)) => {
                    // It may be written and not seen yet.
                    let tried = hint.filter(|hint| hint.node == *node).map(|hint| after(hint.at, REPEAT));
                    if let Some(moment) = tried.filter(|moment| now < *moment) {
                        again = [again, Some(moment)].into_iter().flatten().min();
                        continue;
                    }
                    Some(node)
                }
                // What names no Node holds nothing: the scheduler that wrote it, or we in another life, have lost it.
                (Some(there), Some(node)) if is_ours(there) || !scene.nodes.contains(&**there) => Some(node),
                (Some(there), None) if is_ours(there) => None,
                _ => continue,
            };
            match node {
                Some(node) => self.hinted.insert(uid.clone(), Hint { node: Arc::clone(node), at: now }),
                None => self.hinted.remove(uid),
            };
            writes.push(Write::Nominate { pod: applicant.pod.clone(), node: node.map(ToString::to_string) });
        }
        Step { writes, again }
    }

    /// Why the Node of a claim may not take pods yet: some that are meant for it have not been told.
    #[must_use]
    pub fn hold(&self, claimed: &Claimed<'_>, scene: &Scene<'_>, now: Timestamp) -> Option<Hold> {
        let node = claimed.node?;
        let name = claimed.node_name()?;
        let until = after(node.metadata.creation_timestamp.as_ref()?.0, TELLING);
        let untold = self.placed.get(claimed.name())?.iter().filter(|pod| {
            let applicant = scene.applicants.get(&pod.path).filter(|one| one.pod.uid == pod.uid && one.is_unbound());
            applicant.is_some_and(|one| match &one.nominated {
                None => true,
                Some(there) => {
                    &**there != name && self.hinted.get(&one.pod.uid).is_some_and(|ours| &*ours.node == name)
                }
            })
        });
        let count = untold.count();
        let pods = if count == 1 { "pod has" } else { "pods have" };
        (count > 0 && now < until)
            .then(|| Hold { why: format!("{count} {pods} not been told yet that Node `{name}` is theirs"), until })
    }

    /// The Node of each pod whose claim has one.
    fn places<'s>(&self, scene: &Scene<'s>) -> BTreeMap<Arc<str>, Arc<str>> {
        let nodes: BTreeMap<&str, &'s str> = scene
            .claims
            .iter()
            .filter_map(|one| Some((one.claim.metadata.name.as_deref()?, one.node?.metadata.name.as_deref()?)))
            .collect();
        let placed =
            self.placed.iter().filter_map(|(claim, pods)| Some((pods, Arc::<str>::from(*nodes.get(claim.as_str())?))));
        placed.flat_map(|(pods, node)| pods.iter().map(move |pod| (Arc::clone(&pod.path), Arc::clone(&node)))).collect()
    }
}
