//! Plan of earlier rounds, kept in memory only: a controller that starts without it solves again.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use muster_api::conditions::nodeclaim;
use muster_api::{NodeClaim, annotations};
use muster_cloud::after;
use rustc_hash::FxHashSet;

use super::equivalent_pods::{Equivalence, Left};
use super::fruitless::Fruitless;
use super::holds::LaunchHold;
use super::last_event::Offered;
use super::pending_pod::PendingPod;
use super::queue::{Position, Queue};
use super::refusing;
use super::unplaced::Unplaced;
use crate::lifecycle::{condition, is_true};
use crate::node::Node;

/// Minimum time for which room is reserved on a node after it became ready: twice the longest batch, as in Karpenter.
pub const SETTLING: Duration = Duration::from_secs(20);

/// Minimum number of pods that kube-scheduler binds per second, for which many pending pods extend the reservation. A
/// busy machine was measured at sixty, a starved one at seven. Where more are bound, the pods are soon bound and the
/// extension has no effect.
const BOUND_PER_SECOND: u64 = 5;

/// Maximum time for which places are kept.
const LONGEST_SETTLING: Duration = Duration::from_secs(300);

/// Maximum time for which a node is held until its pods are nominated. It matters only if the API server rejects
/// nominations.
pub const TELLING: Duration = Duration::from_secs(30);

/// Time to wait for a decided NodeClaim to appear. Hundreds are created in some seconds, by a busy API server in more;
/// a claim that cannot be created at all is decided again by the next round.
const CREATING: Duration = Duration::from_secs(30);

/// A NodeClaim, and its Node if it exists.
#[derive(Debug, Clone, Copy)]
pub struct ClaimAndNode<'a> {
    /// The claim.
    pub claim: &'a NodeClaim,
    /// The Node with its provider ID.
    pub node: Option<&'a Node>,
}

/// State of the cluster against which placements are checked.
#[derive(Clone, Copy)]
pub struct PlacementView<'a> {
    /// All NodeClaims.
    pub claims: &'a [ClaimAndNode<'a>],
    /// Pods that are unbound or on nodes being removed, by `namespace/name`.
    pub pending_pods: &'a BTreeMap<Arc<str>, Arc<PendingPod>>,
    /// Names of all Nodes.
    pub nodes: &'a BTreeSet<&'a str>,
    /// Nodes of the pods that had a place and are not pending any more.
    pub bindings: &'a dyn PodBindings,
}

/// Lookup of the Nodes of bound pods.
pub trait PodBindings {
    /// Returns the Node of the pod at `path`; `None` if it is unbound or has another UID.
    fn node_of(&self, path: &str, uid: &str) -> Option<&str>;
}

/// Nodes of some pods at one time, by path: UID and Node of each.
pub type RecordedBindings = BTreeMap<Arc<str>, (String, Arc<str>)>;

/// Planned nodes of pods, the nominations written for them, and the events published about them.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Plan {
    /// Planned pods by the name of their NodeClaim.
    pub(super) placed: BTreeMap<String, Vec<Placed>>,
    /// Times at which NodeClaims were decided that have not been observed yet.
    pub(super) coming: BTreeMap<String, Timestamp>,
    /// NodeClaims whose nodes are opened together, with the time of the round that decided them.
    pub(super) gangs: BTreeMap<String, Timestamp>,
    /// Our nominations, by UID of the pod.
    pub(super) nominations: BTreeMap<String, Nomination>,
    /// Last event about a pod, by its UID.
    pub(super) last_events: BTreeMap<String, LastEvent>,
    /// The NodePools of the last round, and since when they are what they were.
    pub(super) offered: Option<(Offered, Timestamp)>,
    /// Fruitless launches.
    pub(super) fruitless: Fruitless,
    /// NodePools whose launches are held.
    pub(super) holds: BTreeMap<String, LaunchHold>,
    /// Last problem, if none of its pods found a place.
    pub(super) unplaced: Option<Arc<Unplaced>>,
}

/// A pod with a place.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Placed {
    /// `namespace/name`.
    pub(super) path: Arc<str>,
    /// Its UID; empty for the pod of a buffer, which has none.
    pub(super) uid: String,
    /// Its set ([`PendingPod::set`]); empty for the pod of a buffer.
    pub(super) set: Arc<str>,
    /// Kind of the pods with which it can exchange its place, if placement matters among them: time of the round that
    /// decided it, and number of its spec there.
    pub(super) equivalence: Option<Equivalence>,
}

/// A nomination written by this controller.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Nomination {
    pub(super) node: Arc<str>,
    /// Time of the last write.
    pub(super) at: Timestamp,
    /// Number of nominations that the pod had lost before.
    pub(super) denied: u32,
}

/// Content of an event about a pod.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum LastEvent {
    /// The pod has a place on this NodeClaim.
    Place(String),
    /// The pod has no place, and the time of the event.
    Failure(Failure, Timestamp),
}

/// Reason why a pod has no place.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Failure {
    /// Reason, one word.
    pub(super) reason: &'static str,
    /// Message, one line.
    pub(super) message: String,
}

/// A hold on the Node of a claim, which stays unschedulable until its pods have been nominated.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NodeHold {
    /// Reason of the hold.
    pub why: String,
    /// Latest end of the hold.
    pub until: Timestamp,
}

// === impl RecordedBindings ===

impl PodBindings for RecordedBindings {
    fn node_of(&self, path: &str, uid: &str) -> Option<&str> {
        self.get(path).filter(|(there, _)| there == uid).map(|(_, node)| &**node)
    }
}

// === impl PlacementView ===

impl<'a> PlacementView<'a> {
    /// Returns the pod at `path`, if it needs a node.
    pub(super) fn pending_pod(&self, path: &str) -> Option<&'a PendingPod> {
        self.pending_pods.get(path).map(|one| &**one)
    }
}

// === impl Placed ===

impl Placed {
    /// Returns true if it is not bound yet.
    fn waits(&self, view: &PlacementView<'_>) -> bool {
        let pending_pod = view.pending_pods.get(&self.path);
        pending_pod.is_some_and(|one| one.pod.uid == self.uid && one.is_unbound())
    }

    /// Returns true if it is bound to the node that was launched for it.
    fn is_bound_as_planned(&self, claim: &ClaimAndNode<'_>, view: &PlacementView<'_>) -> bool {
        view.bindings.node_of(&self.path, &self.uid).is_some_and(|node| claim.node_name() == Some(node))
    }
}

// === impl ClaimAndNode ===

impl ClaimAndNode<'_> {
    /// Name of the claim.
    #[must_use]
    pub fn name(&self) -> &str {
        self.claim.metadata.name.as_deref().unwrap_or_default()
    }

    /// Returns true if the claim, its Node or its instance is being deleted, so that no pods are placed there.
    #[must_use]
    pub fn is_leaving(&self) -> bool {
        let node = self.node.is_some_and(|node| node.metadata.deletion_timestamp.is_some());
        node || self.claim.metadata.deletion_timestamp.is_some() || is_true(self.claim, nodeclaim::INSTANCE_TERMINATING)
    }

    /// Returns true if a disruption command has marked the claim.
    #[must_use]
    pub fn is_marked(&self) -> bool {
        is_marked(self.claim)
    }

    /// Returns the time at which the node was initialized.
    fn ready_since(&self) -> Option<Timestamp> {
        let initialized = condition(self.claim, nodeclaim::INITIALIZED).filter(|one| one.status == "True")?;
        Some(initialized.last_transition_time.0)
    }

    pub(super) fn node_name(&self) -> Option<&str> {
        self.node.and_then(|node| node.metadata.name.as_deref())
    }
}

/// Returns true if a disruption command has marked the claim.
pub(super) fn is_marked(claim: &NodeClaim) -> bool {
    claim.metadata.annotations.as_ref().is_some_and(|all| all.contains_key(annotations::DISRUPTION))
}

// === impl Plan ===

impl Plan {
    /// Removes places on nodes that are being deleted, were never created, or became ready some time ago, and places of
    /// pods that are deleted or bound. Returns the time at which the next place expires.
    pub(super) fn settle(&mut self, view: &PlacementView<'_>, now: Timestamp) -> Option<Timestamp> {
        let claims: BTreeMap<&str, &ClaimAndNode<'_>> = view.claims.iter().map(|one| (one.name(), one)).collect();
        let crowd = view.pending_pods.values().filter(|one| one.is_unbound()).count();
        let crowd = Duration::from_secs(u64::try_from(crowd).unwrap_or(u64::MAX) / BOUND_PER_SECOND);
        let settling = SETTLING.saturating_add(crowd).min(LONGEST_SETTLING);
        self.coming.retain(|name, since| !claims.contains_key(name.as_str()) && now < after(*since, CREATING));
        self.gangs.retain(|name, _| claims.contains_key(name.as_str()) || self.coming.contains_key(name));
        let mut next = None;
        let mut left = Vec::new();
        let (mut missed, mut met) = (Vec::new(), Vec::new());
        self.placed.retain(|name, pods| {
            let Some(claim) = claims.get(name.as_str()) else { return self.coming.contains_key(name) };
            let settled_at = claim.ready_since().map(|since| after(since, settling));
            if claim.is_leaving() || settled_at.is_some_and(|end| end <= now) {
                // A node that never came up says nothing about the plan; nor does one that the controller removes.
                if settled_at.is_some() || is_true(claim.claim, nodeclaim::REGISTERED) && !claim.is_marked() {
                    let waits = pods.iter().filter(|pod| pod.waits(view));
                    missed.extend(waits.map(|pod| (Arc::clone(&pod.set), name.clone())));
                }
                met.extend(
                    pods.iter().filter(|pod| pod.is_bound_as_planned(claim, view)).map(|pod| Arc::clone(&pod.set)),
                );
                return false;
            }
            pods.retain(|pod| match view.pending_pods.get(&pod.path) {
                Some(there) => there.pod.uid == pod.uid,
                // A buffer keeps its room as long as places are kept.
                None if pod.uid.is_empty() => true,
                None => {
                    left.extend(Left::of(pod, claim, view.bindings));
                    met.extend(pod.is_bound_as_planned(claim, view).then(|| Arc::clone(&pod.set)));
                    false
                }
            });
            if !pods.is_empty() {
                next = [next, settled_at].into_iter().flatten().min();
            }
            !pods.is_empty()
        });
        met.iter().for_each(|set| self.fruitless.note_bound(set, now));
        missed.iter().for_each(|(set, claim)| self.fruitless.note_unused(set, claim, now));
        self.fruitless.age(now);
        self.hand_on(&left, view);
        // The set is used for lookups only, so its order does not matter.
        let uids: FxHashSet<&str> = view.pending_pods.values().map(|one| one.pod.uid.as_str()).collect();
        self.nominations.retain(|uid, _| uids.contains(uid.as_str()));
        self.last_events.retain(|uid, _| uids.contains(uid.as_str()));
        next
    }

    /// Takes over the plan of a round, except for nominations, which may have been written since it began.
    pub fn succeed(&mut self, decided: Self) {
        let Self { placed, coming, gangs, nominations: _, last_events, offered, fruitless, holds, unplaced } = decided;
        self.placed = placed;
        self.coming = coming;
        self.gangs = gangs;
        self.last_events = last_events;
        self.offered = offered;
        self.holds = holds;
        self.unplaced = unplaced;
        let observed = std::mem::replace(&mut self.fruitless, fruitless);
        self.fruitless.add_observed(&observed);
    }

    /// Returns true if no pod has a place, and none of those that were decided last found one.
    pub fn has_only_unplaced(&self) -> bool {
        self.unplaced.is_some() && self.placed.is_empty()
    }

    /// Returns the plan of a controller that has just started, which has no earlier places, but need not solve again
    /// what is known to have no solution.
    pub fn afresh(&self) -> Self {
        Self { unplaced: self.unplaced.clone(), ..Self::default() }
    }

    /// Records the change of a NodeClaim, including one that is created and deleted between two rounds.
    pub fn observe(&mut self, claim: &NodeClaim, now: Timestamp) {
        let name = claim.metadata.name.as_deref().unwrap_or_default();
        refusing::observe(&mut self.fruitless, name, Some(claim), false, now);
    }

    /// Sets of pods with nodes that another actor deleted soon after their launch.
    #[must_use]
    pub fn sets_with_losses(&self) -> BTreeSet<Arc<str>> {
        self.fruitless.sets_with_losses()
    }

    /// Records which of the sets with losses have pods.
    pub fn note_live(&mut self, live: &BTreeSet<Arc<str>>, now: Timestamp) {
        self.fruitless.reset_if_due(now);
        self.fruitless.note_live(live, now);
    }

    /// Forgets fruitless launches, after a change of a policy that may let pods be bound.
    pub fn forget_fruitless(&mut self) {
        self.fruitless.forget_all();
    }

    /// Forgets fruitless launches after a change of DaemonSet pods; later, if that was done in the last ten minutes.
    pub fn note_daemons(&mut self, now: Timestamp) {
        self.fruitless.note_daemons(now);
    }

    /// NodePools whose launches were held in the last round.
    #[must_use]
    pub fn holds(&self) -> &BTreeMap<String, LaunchHold> {
        &self.holds
    }

    /// Returns the number of sets of pods for which launches are held.
    #[must_use]
    pub fn held_sets(&self, now: Timestamp) -> usize {
        self.fruitless.held(now)
    }

    /// Returns the current nodes of the planned pods that are bound.
    #[must_use]
    pub fn bindings(&self, now: &dyn PodBindings) -> RecordedBindings {
        let placed = self.placed.values().flatten();
        let node_of = |pod: &Placed| {
            let node = now.node_of(&pod.path, &pod.uid)?;
            Some((Arc::clone(&pod.path), (pod.uid.clone(), node.into())))
        };
        placed.filter_map(node_of).collect()
    }

    /// Returns true if pods are planned on the node of the NodeClaim.
    #[must_use]
    pub fn has_places(&self, claim: &str) -> bool {
        self.placed.contains_key(claim)
    }

    /// Returns true if pods are planned on any node.
    #[must_use]
    pub fn has_any_place(&self) -> bool {
        !self.placed.is_empty()
    }

    /// Returns the pods planned on the node of the NodeClaim, by `namespace/name`.
    pub fn placed_on(&self, claim: &str) -> impl Iterator<Item = &str> {
        self.placed.get(claim).into_iter().flatten().map(|pod| &*pod.path)
    }

    /// Returns the earliest position in the scheduler's queue among the pods planned on the node of the NodeClaim.
    #[must_use]
    pub fn first_in_queue(&self, claim: &str, view: &PlacementView<'_>, queue: &Queue) -> Option<Position> {
        self.placed_on(claim).filter_map(|path| Some(queue.position(view.pending_pods.get(path)?))).min()
    }

    /// Returns the name of the NodeClaim on which the pod is planned.
    #[must_use]
    pub fn place_of(&self, path: &str) -> Option<&str> {
        let holds = |pods: &[Placed]| pods.iter().any(|pod| &*pod.path == path);
        self.placed.iter().find(|(_, pods)| holds(pods)).map(|(claim, _)| claim.as_str())
    }
}
