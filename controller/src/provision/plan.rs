//! What the rounds before have planned: memory, not state. Whoever starts without it solves again.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use muster_api::conditions::nodeclaim;
use muster_api::{NodeClaim, annotations};
use muster_cloud::after;
use rustc_hash::FxHashSet;

use super::applicant::Applicant;
use super::fruitless::Fruitless;
use super::kin::{Kin, Left};
use super::queue::{Position, Queue};
use super::refusing;
use crate::lifecycle::{condition, is_true};
use crate::node::Node;

/// For how long room is kept on a node that has become ready, at least: twice the longest batch, as Karpenter keeps it.
pub const SETTLING: Duration = Duration::from_secs(20);

/// Pods that kube-scheduler binds in a second, at least: a crowd keeps its places for longer. A busy machine was seen to do
/// sixty, a starved one seven. Where more are bound the crowd is soon gone, and nobody waits for it.
const BOUND_PER_SECOND: u64 = 5;

/// For how long a crowd keeps its places at most.
const LONGEST_SETTLING: Duration = Duration::from_secs(300);

/// For how long a node is kept from pods that have not been told of it. Only a cluster that refuses to be told makes this
/// matter.
pub const TELLING: Duration = Duration::from_secs(30);

/// How long a NodeClaim that was decided is waited for. Hundreds are created in some seconds, by a busy API server in more;
/// what cannot be created at all is decided anew by the next round.
const CREATING: Duration = Duration::from_secs(30);

/// A NodeClaim, and its Node if there is one.
#[derive(Debug, Clone, Copy)]
pub struct Claimed<'a> {
    /// The claim.
    pub claim: &'a NodeClaim,
    /// The Node with its provider ID.
    pub node: Option<&'a Node>,
}

/// What placements are looked at against.
#[derive(Clone, Copy)]
pub struct Scene<'a> {
    /// Every NodeClaim.
    pub claims: &'a [Claimed<'a>],
    /// Pods without a node, and pods on nodes that go away, by `namespace/name`.
    pub applicants: &'a BTreeMap<Arc<str>, Arc<Applicant>>,
    /// Names of all Nodes.
    pub nodes: &'a BTreeSet<&'a str>,
    /// Where pods are that had a place and wait no more.
    pub homes: &'a dyn Homes,
}

/// Where pods are that have a node.
pub trait Homes {
    /// The Node of the pod at `path`, unless it has another UID or no node.
    fn home(&self, path: &str, uid: &str) -> Option<&str>;
}

/// The same for some pods, by path: UID and Node of each.
pub type HomesThen = BTreeMap<Arc<str>, (String, Arc<str>)>;

/// Which pod is to run on which coming node, what pods have been told of it, and what people have been told.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Plan {
    /// Pods by the name of their NodeClaim.
    pub(super) placed: BTreeMap<String, Vec<Placed>>,
    /// When NodeClaims were decided that nobody has seen yet.
    pub(super) coming: BTreeMap<String, Timestamp>,
    /// NodeClaims whose nodes are opened together, and the round that decided them.
    pub(super) companies: BTreeMap<String, Timestamp>,
    /// What we have nominated, by UID of the pod.
    pub(super) hinted: BTreeMap<String, Hint>,
    /// The last event about a pod, by its UID.
    pub(super) told: BTreeMap<String, Told>,
    /// Launches that brought nothing.
    pub(super) fruitless: Fruitless,
}

/// A pod with a place.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Placed {
    /// `namespace/name`.
    pub(super) path: Arc<str>,
    /// Its UID; empty for the pod of a buffer, which has none.
    pub(super) uid: String,
    /// Its set ([`Applicant::set`]); empty for the pod of a buffer.
    pub(super) set: Arc<str>,
    /// Whom it can exchange its place with, if it matters who of these is where: the round that decided it, and the number of
    /// its kind there.
    pub(super) kin: Option<Kin>,
}

/// A nomination of ours.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Hint {
    pub(super) node: Arc<str>,
    /// When it was last written.
    pub(super) at: Timestamp,
    /// How often the pod had lost one before.
    pub(super) denied: u32,
}

/// What an event said.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Told {
    /// That it gets the place of this NodeClaim.
    Place(String),
    /// That it gets none.
    Failure(Failure, Timestamp),
}

/// Why a pod gets no place.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Failure {
    /// One word.
    pub(super) reason: &'static str,
    /// One line.
    pub(super) message: String,
}

/// The Node of a claim that its pods are not to meet before they know that it is theirs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Hold {
    /// What is waited for.
    pub why: String,
    /// Until when at most.
    pub until: Timestamp,
}

// === impl Homes ===

impl Homes for HomesThen {
    fn home(&self, path: &str, uid: &str) -> Option<&str> {
        self.get(path).filter(|(there, _)| there == uid).map(|(_, node)| &**node)
    }
}

// === impl Scene ===

impl<'a> Scene<'a> {
    /// The pod at `path`, if it wants a node.
    pub(super) fn applicant(&self, path: &str) -> Option<&'a Applicant> {
        self.applicants.get(path).map(|one| &**one)
    }
}

// === impl Placed ===

impl Placed {
    /// Whether its scheduler has bound it nowhere yet.
    fn waits(&self, scene: &Scene<'_>) -> bool {
        let applicant = scene.applicants.get(&self.path);
        applicant.is_some_and(|one| one.pod.uid == self.uid && one.is_unbound())
    }

    /// Whether it is on the node that was launched for it.
    fn is_home(&self, claim: &Claimed<'_>, scene: &Scene<'_>) -> bool {
        scene.homes.home(&self.path, &self.uid).is_some_and(|node| claim.node_name() == Some(node))
    }
}

// === impl Claimed ===

impl Claimed<'_> {
    /// Name of the claim.
    #[must_use]
    pub fn name(&self) -> &str {
        self.claim.metadata.name.as_deref().unwrap_or_default()
    }

    /// Whether the claim, or its Node, is being deleted: nothing new comes there.
    #[must_use]
    pub fn is_leaving(&self) -> bool {
        let node = self.node.is_some_and(|node| node.metadata.deletion_timestamp.is_some());
        node || self.claim.metadata.deletion_timestamp.is_some() || is_true(self.claim, nodeclaim::INSTANCE_TERMINATING)
    }

    /// Whether a command is to take its node away, or has done so.
    #[must_use]
    pub fn is_marked(&self) -> bool {
        is_marked(self.claim)
    }

    /// When the node became ready.
    fn ready_since(&self) -> Option<Timestamp> {
        let initialized = condition(self.claim, nodeclaim::INITIALIZED).filter(|one| one.status == "True")?;
        Some(initialized.last_transition_time.0)
    }

    pub(super) fn node_name(&self) -> Option<&str> {
        self.node.and_then(|node| node.metadata.name.as_deref())
    }
}

/// Tells if a command is to take the node of the claim away, or has done so.
pub(super) fn is_marked(claim: &NodeClaim) -> bool {
    claim.metadata.annotations.as_ref().is_some_and(|all| all.contains_key(annotations::DISRUPTION))
}

// === impl Plan ===

impl Plan {
    /// Forgets places on nodes that go, that never came, or that have been ready for a while, and pods that have gone or have
    /// got a node.
    /// Returns when the next place will be forgotten.
    pub(super) fn settle(&mut self, scene: &Scene<'_>, now: Timestamp) -> Option<Timestamp> {
        let claims: BTreeMap<&str, &Claimed<'_>> = scene.claims.iter().map(|one| (one.name(), one)).collect();
        let crowd = scene.applicants.values().filter(|one| one.is_unbound()).count();
        let crowd = Duration::from_secs(u64::try_from(crowd).unwrap_or(u64::MAX) / BOUND_PER_SECOND);
        let settling = SETTLING.saturating_add(crowd).min(LONGEST_SETTLING);
        self.coming.retain(|name, since| !claims.contains_key(name.as_str()) && now < after(*since, CREATING));
        self.companies.retain(|name, _| claims.contains_key(name.as_str()) || self.coming.contains_key(name));
        let mut next = None;
        let mut left = Vec::new();
        let (mut missed, mut met) = (Vec::new(), Vec::new());
        self.placed.retain(|name, pods| {
            let Some(claim) = claims.get(name.as_str()) else { return self.coming.contains_key(name) };
            let settled_at = claim.ready_since().map(|since| after(since, settling));
            if claim.is_leaving() || settled_at.is_some_and(|end| end <= now) {
                // A node that never came says nothing of what was planned; nor does one that we take away.
                if settled_at.is_some() || is_true(claim.claim, nodeclaim::REGISTERED) && !claim.is_marked() {
                    let waits = pods.iter().filter(|pod| pod.waits(scene));
                    missed.extend(waits.map(|pod| (Arc::clone(&pod.set), name.clone())));
                }
                met.extend(pods.iter().filter(|pod| pod.is_home(claim, scene)).map(|pod| Arc::clone(&pod.set)));
                return false;
            }
            pods.retain(|pod| match scene.applicants.get(&pod.path) {
                Some(there) => there.pod.uid == pod.uid,
                // A buffer keeps its room for as long as places are kept.
                None if pod.uid.is_empty() => true,
                None => {
                    left.extend(Left::of(pod, claim, scene.homes));
                    met.extend(pod.is_home(claim, scene).then(|| Arc::clone(&pod.set)));
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
        self.hand_on(&left, scene);
        // Only ever asked for one of them, so that no order shows.
        let uids: FxHashSet<&str> = scene.applicants.values().map(|one| one.pod.uid.as_str()).collect();
        self.hinted.retain(|uid, _| uids.contains(uid.as_str()));
        self.told.retain(|uid, _| uids.contains(uid.as_str()));
        next
    }

    /// Takes over what a round has decided. Pods may have been told of their nodes since it began: that is kept.
    pub fn succeed(&mut self, decided: Self) {
        let Self { placed, coming, companies, hinted: _, told, fruitless } = decided;
        self.placed = placed;
        self.coming = coming;
        self.companies = companies;
        self.told = told;
        let observed = std::mem::replace(&mut self.fruitless, fruitless);
        self.fruitless.add_observed(&observed);
    }

    /// Takes note of a NodeClaim that has changed: one that comes and goes between two rounds was there.
    pub fn observe(&mut self, claim: &NodeClaim, now: Timestamp) {
        let name = claim.metadata.name.as_deref().unwrap_or_default();
        refusing::observe(&mut self.fruitless, name, Some(claim), false, now);
    }

    /// What pods can be bound to may have changed: launches that brought nothing are no evidence any more.
    pub fn forget_fruitless(&mut self) {
        self.fruitless.forget_all();
    }

    /// Sets of pods for which launches are held.
    #[must_use]
    pub fn held_sets(&self, now: Timestamp) -> usize {
        self.fruitless.held(now)
    }

    /// Where those of the pods with a place are that have a node by now.
    #[must_use]
    pub fn homes(&self, now: &dyn Homes) -> HomesThen {
        let placed = self.placed.values().flatten();
        let home = |pod: &Placed| {
            let node = now.home(&pod.path, &pod.uid)?;
            Some((Arc::clone(&pod.path), (pod.uid.clone(), node.into())))
        };
        placed.filter_map(home).collect()
    }

    /// Whether pods are to run on the node of the NodeClaim.
    #[must_use]
    pub fn has_places(&self, claim: &str) -> bool {
        self.placed.contains_key(claim)
    }

    /// Whether pods are to run on any node.
    #[must_use]
    pub fn has_any_place(&self) -> bool {
        !self.placed.is_empty()
    }

    /// The pods that are to run on the node of the NodeClaim, by `namespace/name`.
    pub fn placed_on(&self, claim: &str) -> impl Iterator<Item = &str> {
        self.placed.get(claim).into_iter().flatten().map(|pod| &*pod.path)
    }

    /// Of the pods that are to run on the node of the NodeClaim, where the one stands that its scheduler tries first.
    #[must_use]
    pub fn first_in_queue(&self, claim: &str, scene: &Scene<'_>, queue: &Queue) -> Option<Position> {
        self.placed_on(claim).filter_map(|path| Some(queue.position(scene.applicants.get(path)?))).min()
    }

    /// Where the pod is to run: the name of its NodeClaim.
    #[must_use]
    pub fn place_of(&self, path: &str) -> Option<&str> {
        let holds = |pods: &[Placed]| pods.iter().any(|pod| &*pod.path == path);
        self.placed.iter().find(|(_, pods)| holds(pods)).map(|(claim, _)| claim.as_str())
    }
}
