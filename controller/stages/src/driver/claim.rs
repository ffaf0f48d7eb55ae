//! Reconciliation of a claim: its input, and its consequences for what the leader knows.
//!
//! ```text
//!   pod_event ──► prepare ──► PreparedClaim ──► decide ──► the caller writes ──► launch_outcome ──► note_outcome
//!                    └─ wait                      ▲ ───────── answers ─────────┘
//! ```

use std::time::Duration;

use jiff::Timestamp;
use muster_api::conditions::nodeclaim;
use muster_api::nodeclaim::NodeClaimStatus;
use muster_api::{NodeClaim, labels};
use muster_cloud::{Alternative, LaunchError, Launched, Overlaid, after};
use muster_manifest::snapshot::OverlaidTypes;
use muster_scheduling::model::Catalogue;

use super::offers::offers;
use super::{CloudView, Grown, LeaderState, Settings, judged};
use crate::lifecycle::pause::Pause;
use crate::lifecycle::{Answers, Class, Listing, Readiness, Subject, condition, decide, is_true, overlaid, pod_events};
use crate::pools::{Edition, Outcomes};
use crate::provision::TELLING;
use crate::state::{ClaimInputs, Cluster, LiveClass, LivePod, Surroundings};
use crate::step::{Step, Write};

/// Interval between checks whether the watch cache has caught up with our writes.
pub const ASK: Duration = Duration::from_millis(250);
/// Time for which a Node is held for its pods before the hold is reported.
const QUIETLY: Duration = Duration::from_secs(10);
/// Interval between checks whether all pods nominated to a node have been bound to it.
const CROWD: Duration = Duration::from_secs(5);

/// Pod event on the node of a claim that is not written to the claim yet.
#[derive(Debug, Clone, PartialEq)]
pub enum PodEvent {
    /// There is none, or another one was written a moment ago.
    None,
    /// It is written later, at this time.
    Later(Timestamp),
    /// The cluster shows the claim older than our last write: the claim is reconciled at this time.
    Behind(Timestamp),
    /// It is written now.
    Write {
        /// The write.
        step: Step,
        /// Time of the event.
        at: Timestamp,
    },
}

/// First part of the reconciliation of a claim.
#[derive(Debug)]
pub enum ClaimStart {
    /// Nothing to write now, the usual case.
    Wait(Option<Timestamp>),
    /// There is something to write.
    Write(Box<PreparedClaim>),
}

/// Input for a claim that the cluster does not contain.
#[derive(Debug)]
pub struct PreparedClaim {
    /// Its class.
    pub class: Class,
    alternatives: Vec<Alternative>,
    overlaid: Overlaid,
    listing: Option<Listing>,
    /// Provider ID of the instance.
    instance: Option<String>,
    hold: Option<String>,
    /// Time until which only the Node is written, because other nodes are being opened.
    busy: Option<Timestamp>,
    /// Pods planned on its Node, if they must be notified that the node has failed.
    expected: Vec<Subject>,
}

/// Returns the last pod event on the claim's node, if it is to be written to the claim.
///
/// When many pods are bound to a node, one write follows after the last of them: while some are missing the node is not
/// disrupted ([`CommandNode`](crate::disruption::CommandNode)), and an event that is not written yet counts like a
/// written one.
pub fn pod_event(
    settings: &Settings,
    cluster: &Cluster,
    state: &mut LeaderState,
    name: &str,
    now: Timestamp,
) -> PodEvent {
    let Some(at) = state.moves.get(name).copied() else { return PodEvent::None };
    if state.plan.has_places(name) {
        return PodEvent::Later(after(now, CROWD));
    }
    let claim = cluster.claim(name).filter(|claim| settings.serves(&claim.spec.node_class_ref.kind));
    let noted = claim.map(|claim| (claim, pod_events::touch(claim, at)));
    let Some((claim, step)) = noted.filter(|(_, step)| !step.writes.is_empty()) else {
        state.moves.remove(name);
        return PodEvent::None;
    };
    if state.is_behind("NodeClaim", name, claim.metadata.resource_version.as_deref(), now) {
        return PodEvent::Behind(after(now, ASK));
    }
    PodEvent::Write { step, at }
}

/// Takes in that the pod event of that time has been written to the claim.
pub fn wrote_pod_event(state: &mut LeaderState, name: &str, at: Timestamp) {
    // A newer event is still to be written.
    if state.moves.get(name) == Some(&at) {
        state.moves.remove(name);
    }
}

/// Begins the reconciliation of a claim.
pub fn prepare(
    cloud: &impl CloudView,
    settings: &Settings,
    cluster: &Cluster,
    state: &mut LeaderState,
    name: &str,
    now: Timestamp,
) -> ClaimStart {
    let Some(around) = cluster.around(name) else { return ClaimStart::Wait(None) };
    // Claims of another cloud's classes belong to another controller.
    let reference = &around.claim.spec.node_class_ref;
    if !settings.serves(&reference.kind) {
        return ClaimStart::Wait(None);
    }
    if is_behind(&around, state, name, now) {
        return ClaimStart::Wait(Some(after(now, ASK)));
    }
    let hold = match hold_of(settings, &around, state, now) {
        Ok(hold) => hold,
        Err(wait) => return ClaimStart::Wait(Some(wait)),
    };
    let live = cluster.class(reference);
    let mut class = judged(cloud, live, reference);
    if let Some(grown) = Grown::of(&around, live, &class) {
        cloud.learn_from(&grown);
    }
    let is_judged = matches!(class.readiness, Readiness::Ready | Readiness::NotReady(_));
    if is_judged && live.is_some_and(|live| !cloud.is_resolved(live)) {
        class.readiness = Readiness::Unknown;
    }
    let is_launched = is_true(around.claim, nodeclaim::LAUNCHED);
    let (alternatives, overlaid) = if is_launched || around.claim.metadata.deletion_timestamp.is_some() {
        Default::default()
    } else {
        let plain = cloud.types(live.and_then(LiveClass::manifest));
        let catalogue = types_of(cloud, settings, cluster, state, around.claim, plain);
        let offers = offers(around.claim, &catalogue, &state.refusals, now);
        let overlaid = overlaid(around.claim, &catalogue, &offers);
        (offers, overlaid)
    };
    let instance = around.claim.status.as_ref().and_then(|status| status.provider_id.clone());
    let listing = instance.as_ref().and_then(|id| state.listings.get(id)).copied();
    let expected = expected(cluster, state, around.claim);
    let is_joining = !around.nodes.is_empty() && is_launched && !is_true(around.claim, nodeclaim::REGISTERED);
    let busy = state.gates.busy_until(now).filter(|_| is_joining && hold.is_none());
    let prepared = PreparedClaim { class, alternatives, overlaid, listing, instance, hold, busy, expected };
    let step = prepared.decide(&around, cluster.pause(&settings.namespace), Answers::default(), now);
    if step.writes.is_empty() { ClaimStart::Wait(step.again) } else { ClaimStart::Write(Box::new(prepared)) }
}

/// Returns true if the cluster shows the claim or one of its Nodes older than our last write.
fn is_behind(around: &Surroundings<'_>, state: &LeaderState, name: &str, now: Timestamp) -> bool {
    state.is_behind("NodeClaim", name, around.claim.metadata.resource_version.as_deref(), now)
        || around.nodes.iter().any(|node| {
            let name = node.metadata.name.as_deref().unwrap_or_default();
            state.is_behind("Node", name, node.metadata.resource_version.as_deref(), now)
        })
}

/// Returns the types of the cloud (`plain`) with the NodeOverlays for the claim's pool applied.
///
/// The result is kept until an overlay, a pool or a class changes, since many claims are launched together.
fn types_of(
    cloud: &impl CloudView,
    settings: &Settings,
    cluster: &Cluster,
    state: &mut LeaderState,
    claim: &NodeClaim,
    plain: Catalogue,
) -> Catalogue {
    let pool = claim.metadata.labels.as_ref().and_then(|all| all.get(labels::NODEPOOL));
    let (Some(pool), true) = (pool, settings.overlays && cluster.overlays().len() > 0) else { return plain };
    let known = state.overlaid.as_ref().and_then(|all| all.of(pool));
    if let Some(known) = known.filter(|known| known.is_made_of(&plain)) {
        return known.clone();
    }
    let evaluated = OverlaidTypes::new(&cluster.pools_and_overlays(), &|class| cloud.types(class));
    state.overlaid.insert(evaluated).of(pool).cloned().unwrap_or(plain)
}

/// Returns the pending pods planned on the Node of a claim whose agent reported a fatal verdict; empty for other
/// claims.
fn expected(cluster: &Cluster, state: &LeaderState, claim: &NodeClaim) -> Vec<Subject> {
    if condition(claim, nodeclaim::NODE_VERDICT).is_none() {
        return Vec::new();
    }
    let name = claim.metadata.name.as_deref().unwrap_or_default();
    let mut paths: Vec<&str> = state.plan.placed_on(name).collect();
    paths.sort_unstable();
    let waiting = paths.into_iter().filter_map(|path| cluster.pod(path)).filter(|pod| pod.waits());
    waiting.map(LivePod::subject).collect()
}

/// Returns the reason why the registration of the claim's Node is held, or, as an error, the time until which to wait
/// silently. The claim is reconciled again as soon as the hold ends.
fn hold_of(
    settings: &Settings,
    around: &Surroundings<'_>,
    state: &LeaderState,
    now: Timestamp,
) -> Result<Option<String>, Timestamp> {
    let claim = around.claim;
    let is_coming = is_true(claim, nodeclaim::LAUNCHED)
        && !is_true(claim, nodeclaim::REGISTERED)
        && claim.metadata.deletion_timestamp.is_none();
    let (true, true, [node]) = (is_coming, settings.nominates, around.nodes.as_slice()) else {
        return Ok(None);
    };
    let name = claim.metadata.name.as_deref().unwrap_or_default();
    let gate = node.metadata.uid.as_ref().and_then(|uid| state.gates.of(name, uid));
    let made_at = node.metadata.creation_timestamp.as_ref().map_or(now, |time| time.0);
    if let Some(moment) = gate.and_then(|_| state.gates.opens(name)) {
        return if now < moment { Err(moment) } else { Ok(None) };
    }
    match gate.map(|gate| &gate.hold) {
        Some(None) => Ok(None),
        Some(Some(_)) if now < after(made_at, QUIETLY) => Err(after(made_at, QUIETLY)),
        // The leader notices the end of the hold and the order in which nodes open.
        Some(Some(hold)) => Ok(Some(hold.why.clone())),
        None if state.plan.has_places(name) && now < after(made_at, TELLING) => Err(after(made_at, TELLING)),
        None => Ok(None),
    }
}

/// Returns the outcome of the launch if this step ends it: true if the node has registered.
#[must_use]
pub fn launch_outcome(step: &Step, claim: &NodeClaim) -> Option<bool> {
    step.writes.iter().find_map(|write| match write {
        Write::ClaimStatus { status, .. } if is_registered(status) && !is_true(claim, nodeclaim::REGISTERED) => {
            Some(true)
        }
        Write::DeleteClaim { cause, .. } if cause.fails_launch() && !is_true(claim, nodeclaim::REGISTERED) => {
            Some(false)
        }
        _ => None,
    })
}

/// Records whether the launch of a claim resulted in a Node, for the health of its pool.
pub fn note_outcome(
    cloud: &impl CloudView,
    cluster: &Cluster,
    state: &mut LeaderState,
    claim: &str,
    became_a_node: bool,
) {
    let Some(pool) = cluster.around(claim).and_then(|around| around.pool) else { return };
    let class = cluster.class(&pool.spec.template.spec.node_class_ref).map(|live| cloud.judge(live));
    let name = pool.metadata.name.clone().unwrap_or_default();
    let outcomes = state.outcomes.entry(name).or_insert_with(|| Outcomes::of(pool, class.as_ref()));
    outcomes.note(Edition::of(pool, class.as_ref()), became_a_node);
}

/// Records the result of a launch.
pub fn note_launch(state: &mut LeaderState, answer: &Result<Launched, LaunchError>, now: Timestamp) {
    state.refusals.heed(answer, now);
    if let Ok(launched) = answer {
        state.observe(&launched.instance);
    }
}

fn is_registered(status: &NodeClaimStatus) -> bool {
    status.conditions.iter().any(|one| one.type_ == nodeclaim::REGISTERED && one.status == "True")
}

/// While other nodes are being opened, drops the writes from the status update "Registered" on, and postpones them.
fn nodes_first(mut step: Step, busy: Option<Timestamp>) -> Step {
    let says_so = |write: &Write| matches!(write, Write::ClaimStatus { status, .. } if is_registered(status));
    let (Some(busy), Some(end)) = (busy, step.writes.iter().position(says_so)) else { return step };
    step.writes.truncate(end);
    step.or_sooner(Some(busy))
}

// === impl PreparedClaim ===

impl PreparedClaim {
    /// Returns the next step of the claim, with the answers to the calls of the steps before.
    #[must_use]
    pub fn decide(&self, around: &Surroundings<'_>, pause: Pause, answers: Answers, now: Timestamp) -> Step {
        let Self { class, alternatives, overlaid, listing, instance: _, hold, busy, expected } = self;
        let inputs = ClaimInputs {
            class,
            pause,
            registration_hold: hold.as_deref(),
            expected,
            alternatives,
            overlaid,
            listing: *listing,
            answers,
        };
        nodes_first(decide(&around.seen(inputs), now), *busy)
    }

    /// Records what the cloud has answered about the claim's instance.
    pub fn note_instance(&self, state: &mut LeaderState, answers: &Answers, now: Timestamp) {
        if let (Some(id), Some(answer)) = (&self.instance, &answers.instance) {
            state.listings.insert(id.clone(), Listing::of(answer, now));
            if let Ok(instance) = answer {
                state.observe(instance);
            }
        }
    }
}
