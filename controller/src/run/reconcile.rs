//! Reconciliation of one claim, one NodePool, or one class.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use jiff::Timestamp;
use muster_api::conditions::nodeclaim;
use muster_api::nodeclaim::NodeClaimStatus;
use muster_api::{NodeClaim, labels};
use muster_cloud::{Alternative, Overlaid, after};
use muster_stages::classes;
use muster_stages::lifecycle::pause::Pause;
use muster_stages::lifecycle::{
    Answers, Class, Listing, Readiness, Subject, condition, decide, is_true, overlaid, pod_events,
};
use muster_stages::node::Node;
use muster_stages::pools::{self, Edition, Outcomes};
use muster_stages::provision::{ClaimAndNode, TELLING};
use muster_stages::state::{self, Cluster, LiveClass, LivePod, Surroundings};
use muster_stages::step::{Step, Write};

use super::context::{LeaderContext, LeaderState};
use super::now;
use super::offers::offers;
use super::overlays;
use super::work_queue::Verdict;
use crate::edge::{End, ObservedVersions, ReconcileResult};
use crate::provider::{Grown, Provider, Resolved, judged};

/// Time for which a Node is held for its pods before the hold is reported.
const QUIETLY: Duration = Duration::from_secs(10);
/// Interval between checks whether the watch cache has caught up with our writes.
pub(super) const ASK: Duration = Duration::from_millis(250);
/// Interval between checks whether all pods nominated to a node have been bound to it.
const CROWD: Duration = Duration::from_secs(5);
/// Delay of the next reconciliation after a write if the watch reports no change.
const LOST: Duration = Duration::from_secs(10);

/// First part of the reconciliation of a claim.
enum ReconcileStart {
    /// Nothing to write now, the usual case.
    Wait(Option<Timestamp>),
    /// There is something to write, based on these objects.
    Write(Box<PreparedReconcile>),
}

struct PreparedReconcile {
    observed: ObservedVersions,
    known: ClaimContext,
}

/// Input for a claim that the watch cache does not contain.
struct ClaimContext {
    class: Class,
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

impl ClaimContext {
    fn with(&self, pause: Pause, answers: Answers) -> state::ClaimInputs<'_> {
        let Self { class, alternatives, overlaid, listing, instance: _, hold, busy: _, expected } = self;
        state::ClaimInputs {
            class,
            pause,
            registration_hold: hold.as_deref(),
            expected,
            alternatives,
            overlaid,
            listing: *listing,
            answers,
        }
    }
}

/// Records that pods were bound to or removed from these Nodes, until it is written to their claims.
pub(super) fn remember_moves<P: Provider>(
    context: &LeaderContext<P>,
    cluster: &Cluster,
    nodes: &BTreeSet<Arc<str>>,
    now: Timestamp,
) {
    let claims = nodes.iter().filter_map(|node| cluster.claim_of(cluster.node(node)?)?.metadata.name.clone());
    let mut leader_state = context.leader_state();
    leader_state.moves.extend(claims.map(|claim| (claim, now)));
}

/// Writes the time of the last pod event to a claim. Returns the time of the next attempt if the write is postponed, or
/// the verdict as an error if it was attempted.
///
/// When many pods are bound to a node, one write follows after the last of them: while some are missing the node is not
/// disrupted ([`CommandNode`](muster_stages::disruption::CommandNode)), and an event that is not written yet counts
/// like a written one.
async fn note_moves<P: Provider>(context: &LeaderContext<P>, name: &str) -> Result<Option<Timestamp>, Verdict> {
    let (step, mut observed, at) = {
        let cluster = context.cluster_cache.read();
        let mut leader_state = context.leader_state();
        let Some(at) = leader_state.moves.get(name).copied() else { return Ok(None) };
        if leader_state.plan.has_places(name) {
            return Ok(Some(after(now(), CROWD)));
        }
        let claim = cluster.claim(name).filter(|claim| claim.spec.node_class_ref.kind == P::CLASS);
        let noted = claim.map(|claim| (claim, pod_events::touch(claim, at)));
        let Some((claim, step)) = noted.filter(|(_, step)| !step.writes.is_empty()) else {
            leader_state.moves.remove(name);
            return Ok(None);
        };
        if leader_state.is_behind("NodeClaim", name, claim.metadata.resource_version.as_deref(), now()) {
            return Err(Verdict::Rest(Some(after(now(), ASK))));
        }
        (step, ObservedVersions::default().claim(claim), at)
    };
    let result = context.edge.reconcile(&mut observed, |_, _| step.clone()).await;
    if result.end == End::Done {
        // A newer event is still to be written.
        let mut leader_state = context.leader_state();
        if leader_state.moves.get(name) == Some(&at) {
            leader_state.moves.remove(name);
        }
    }
    match conclude(context, "NodeClaim", name, &observed, &result) {
        // The rest of the claim is still to be reconciled.
        Verdict::Rest(_) => Err(Verdict::Again),
        verdict => Err(verdict),
    }
}

/// Passes all initialized Nodes to the cloud, so that a new leader knows what the last one knew.
pub(super) fn learn_from_all<P: Provider>(context: &LeaderContext<P>) {
    let cluster = context.cluster_cache.read();
    for live in cluster.classes().filter(|live| live.reference.kind == P::CLASS) {
        let class = context.provider.judge(live);
        for name in cluster.claims_of_class(&live.reference).filter_map(|claim| claim.metadata.name.as_deref()) {
            let around = cluster.around(name);
            if let Some(grown) = around.as_ref().and_then(|around| Grown::of(around, Some(live), &class)) {
                context.provider.learn_from(&grown);
            }
        }
    }
}

/// Reconciles a claim.
pub(super) async fn claim<P: Provider>(context: &LeaderContext<P>, name: &str) -> Verdict {
    let owed = match note_moves(context, name).await {
        Ok(owed) => owed,
        Err(verdict) => return verdict,
    };
    let mut prepared = match prepare(context, name, now()) {
        ReconcileStart::Wait(moment) => return Verdict::Rest(sooner(moment, owed)),
        ReconcileStart::Write(prepared) => prepared,
    };
    let PreparedReconcile { observed, known } = &mut *prepared;
    let ended = Mutex::new(None);
    let result = context
        .edge
        .reconcile(observed, |answers, now| {
            let cluster = context.cluster_cache.read();
            let Some(around) = cluster.around(name) else { return Step::rest() };
            let pause = cluster.pause(&context.settings.namespace);
            let step = decide(&around.seen(known.with(pause, answers.clone())), now);
            let step = nodes_first(step, known.busy);
            if let Some(outcome) = outcome(&step, around.claim) {
                *ended.lock().unwrap_or_else(PoisonError::into_inner) = Some(outcome);
            }
            step
        })
        .await;
    let ended = ended.into_inner().unwrap_or_else(PoisonError::into_inner);
    if let (Some(became_a_node), End::Done) = (ended, &result.end) {
        note_outcome(context, name, became_a_node);
    }
    if let Some(answer) = &result.answers.launch {
        context.remember_launch(answer, now());
    }
    if let (Some(id), Some(answer)) = (known.instance.take(), &result.answers.instance) {
        let mut leader_state = context.leader_state();
        leader_state.listings.insert(id, Listing::of(answer, now()));
        if let Ok(instance) = answer {
            leader_state.observe(instance);
        }
    }
    match conclude(context, "NodeClaim", name, observed, &result) {
        Verdict::Rest(moment) => Verdict::Rest(sooner(moment, owed)),
        verdict => verdict,
    }
}

fn sooner(one: Option<Timestamp>, other: Option<Timestamp>) -> Option<Timestamp> {
    [one, other].into_iter().flatten().min()
}

/// Reconciles a class: its finalizer, status and cloud resources.
pub(super) async fn class<P: Provider>(context: &LeaderContext<P>, name: &str) -> Verdict {
    let Some((live, is_used)) = seen_class::<P>(context, name) else { return Verdict::Rest(None) };
    if context.leader_state().is_behind(P::CLASS, name, live.meta.resource_version.as_deref(), now()) {
        return Verdict::Rest(Some(after(now(), ASK)));
    }
    let has_finalizer = live.meta.finalizers.iter().flatten().any(|one| one == P::KIND.finalizer);
    let is_going = live.meta.deletion_timestamp.is_some();
    let mut has_leftovers = false;
    let mut resolved = Resolved::default();
    // Create cloud resources only for a class with a finalizer, which guarantees their removal.
    if has_finalizer && !is_going {
        resolved = context.provider.resolve(&live).await;
    } else if has_finalizer && !is_used {
        let cleared = context.provider.clear(&live).await;
        has_leftovers = cleared.is_err();
        if let Err(error) = cleared {
            tracing::warn!(class = name, %error, "the resources of a deleted class could not be removed");
        }
    }
    let (class, mut step, mut observed) = {
        let cluster = context.cluster_cache.read();
        let class = context.provider.judge(&live);
        let claims: Vec<_> = cluster.claims_of_class(&live.reference).collect();
        let input = classes::ClassInput { class: &class, kind: P::KIND, claims: &claims, has_leftovers };
        let step = classes::decide(&input, now());
        let observed =
            written_claims(&step, &cluster).fold(ObservedVersions::default().class(&class), ObservedVersions::claim);
        (class, step, observed)
    };
    if let Some((before, status)) = resolved.status {
        observed = observed.class_status(before);
        // First, so that conditions set by later writes override it.
        step.writes.insert(0, Write::ClassStatus(Box::new(status)));
    }
    step = step.or_sooner(resolved.again);
    if resolved.is_news {
        context.leader_state().ready_classes.insert(name.to_owned());
    }
    let result = context.edge.reconcile(&mut observed, |_, _| step.clone()).await;
    match conclude(context, P::CLASS, &class.reference.name, &observed, &result) {
        Verdict::Rest(_) if has_leftovers => Verdict::Failed,
        verdict => verdict,
    }
}

/// Returns a class, and whether any claim uses it.
fn seen_class<P: Provider>(context: &LeaderContext<P>, name: &str) -> Option<(LiveClass, bool)> {
    let cluster = context.cluster_cache.read();
    let mut classes = cluster.classes();
    let live = classes.find(|live| live.reference.kind == P::CLASS && live.reference.name == name)?;
    Some((live.clone(), cluster.claims_of_class(&live.reference).next().is_some()))
}

/// Reconciles the status of a NodePool.
pub(super) async fn pool<P: Provider>(context: &LeaderContext<P>, name: &str) -> Verdict {
    let (step, mut observed) = {
        let cluster = context.cluster_cache.read();
        let Some(pool) = cluster.pool(name) else {
            let mut leader_state = context.leader_state();
            leader_state.outcomes.remove(name);
            leader_state.rests.remove(name);
            return Verdict::Rest(None);
        };
        let reference = &pool.spec.template.spec.node_class_ref;
        // Pools of another cloud's classes belong to another controller.
        if reference.kind != P::CLASS {
            return Verdict::Rest(None);
        }
        let now = now();
        let mut leader_state = context.leader_state();
        if leader_state.is_behind("NodePool", name, pool.metadata.resource_version.as_deref(), now) {
            return Verdict::Rest(Some(after(now, ASK)));
        }
        let class = cluster.class(reference).map(|live| context.provider.judge(live));
        let claims: Vec<ClaimAndNode<'_>> = cluster.claims_of_pool(name).map(|claim| cluster.claimed(claim)).collect();
        let is_of_pool = |node: &&Node| {
            let label = node.metadata.labels.as_ref().and_then(|all| all.get(labels::NODEPOOL));
            let id = node.spec.as_ref().and_then(|spec| spec.provider_id.as_deref()).unwrap_or_default();
            label.is_some_and(|label| label == name) && cluster.claims_of(id).next().is_none()
        };
        let unclaimed: Vec<&Node> = cluster.nodes().filter(is_of_pool).collect();
        let rest = leader_state.rests.get(name).copied();
        let hold = leader_state.plan.holds().get(name).cloned();
        let outcomes =
            leader_state.outcomes.entry(name.to_owned()).or_insert_with(|| Outcomes::of(pool, class.as_ref()));
        let class = class.as_ref();
        let input = pools::PoolInput {
            pool,
            class,
            claims: &claims,
            unclaimed: &unclaimed,
            outcomes,
            rest,
            hold: hold.as_ref(),
            keeps_replicas: context.settings.snapshot.gates.static_capacity,
        };
        let step = pools::decide(&input, now);
        if step.writes.is_empty() {
            return Verdict::Rest(step.again);
        }
        let observed =
            written_claims(&step, &cluster).fold(ObservedVersions::default().pool(pool), ObservedVersions::claim);
        (step, observed)
    };
    let result = context.edge.reconcile(&mut observed, |_, _| step.clone()).await;
    match conclude(context, "NodePool", name, &observed, &result) {
        // Ignore the change caused by this write, and limit the frequency of status updates.
        Verdict::Rest(_) if result.has_written => Verdict::RestUntil(after(now(), pools::EVERY)),
        verdict => verdict,
    }
}

/// Returns the claims to which the step of another object writes. The others, of which there may be thousands, need no
/// precondition.
fn written_claims<'c>(step: &Step, cluster: &'c Cluster) -> impl Iterator<Item = &'c NodeClaim> {
    let names = step.writes.iter().filter_map(|write| match write {
        Write::ClaimMeta { name, .. } | Write::ClaimStatus { name, .. } => Some(name),
        _ => None,
    });
    names.filter_map(|name| cluster.claim(name))
}

/// Records whether the launch of a claim resulted in a Node.
fn note_outcome<P: Provider>(context: &LeaderContext<P>, claim: &str, became_a_node: bool) {
    let cluster = context.cluster_cache.read();
    let Some(pool) = cluster.around(claim).and_then(|around| around.pool) else { return };
    let class = cluster.class(&pool.spec.template.spec.node_class_ref).map(|live| context.provider.judge(live));
    let name = pool.metadata.name.clone().unwrap_or_default();
    let mut leader_state = context.leader_state();
    let outcomes = leader_state.outcomes.entry(name).or_insert_with(|| Outcomes::of(pool, class.as_ref()));
    outcomes.note(Edition::of(pool, class.as_ref()), became_a_node);
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

/// Returns the outcome of the launch if this step ends it: true if the node has registered.
fn outcome(step: &Step, claim: &NodeClaim) -> Option<bool> {
    step.writes.iter().find_map(|write| match write {
        Write::ClaimStatus { status, .. } if is_registered(status) && !is_true(claim, nodeclaim::REGISTERED) => {
            Some(true)
        }
        Write::DeleteClaim { cause: "registration_timeout" | "launch_timeout", .. } => Some(false),
        Write::DeleteClaim { cause: "node_verdict", .. } if !is_true(claim, nodeclaim::REGISTERED) => Some(false),
        _ => None,
    })
}

fn prepare<P: Provider>(context: &LeaderContext<P>, name: &str, now: Timestamp) -> ReconcileStart {
    let cluster = context.cluster_cache.read();
    let Some(around) = cluster.around(name) else { return ReconcileStart::Wait(None) };
    // Claims of another cloud's classes belong to another controller.
    let reference = &around.claim.spec.node_class_ref;
    if reference.kind != P::CLASS {
        return ReconcileStart::Wait(None);
    }
    let mut leader_state = context.leader_state();
    let shown = around.claim.metadata.resource_version.as_deref();
    let is_behind = leader_state.is_behind("NodeClaim", name, shown, now)
        || around.nodes.iter().any(|node| {
            let name = node.metadata.name.as_deref().unwrap_or_default();
            leader_state.is_behind("Node", name, node.metadata.resource_version.as_deref(), now)
        });
    if is_behind {
        return ReconcileStart::Wait(Some(after(now, ASK)));
    }
    let hold = match hold_of(context, &around, &leader_state, now) {
        Ok(hold) => hold,
        Err(wait) => return ReconcileStart::Wait(Some(wait)),
    };
    let live = cluster.class(reference);
    let mut class = judged(&context.provider, live, reference);
    if let Some(grown) = Grown::of(&around, live, &class) {
        context.provider.learn_from(&grown);
    }
    let is_judged = matches!(class.readiness, Readiness::Ready | Readiness::NotReady(_));
    if is_judged && live.is_some_and(|live| !context.provider.is_resolved(live)) {
        class.readiness = Readiness::Unknown;
    }
    let is_launched = is_true(around.claim, nodeclaim::LAUNCHED);
    let (alternatives, overlaid) = if is_launched || around.claim.metadata.deletion_timestamp.is_some() {
        Default::default()
    } else {
        let plain = context.provider.types(live.and_then(LiveClass::manifest));
        let catalogue = overlays::types_of(context, &cluster, &mut leader_state, around.claim, plain);
        let offers = offers(around.claim, &catalogue, &leader_state.refusals, now);
        let overlaid = overlaid(around.claim, &catalogue, &offers);
        (offers, overlaid)
    };
    let instance = around.claim.status.as_ref().and_then(|status| status.provider_id.clone());
    let listing = instance.as_ref().and_then(|id| leader_state.listings.get(id)).copied();
    let expected = expected(&cluster, &leader_state, around.claim);
    let is_joining = !around.nodes.is_empty() && is_launched && !is_true(around.claim, nodeclaim::REGISTERED);
    let busy = leader_state.gates.busy_until(now).filter(|_| is_joining && hold.is_none());
    let known = ClaimContext { class, alternatives, overlaid, listing, instance, hold, busy, expected };
    let pause = cluster.pause(&context.settings.namespace);
    let step = nodes_first(decide(&around.seen(known.with(pause, Answers::default())), now), known.busy);
    if step.writes.is_empty() {
        return ReconcileStart::Wait(step.again);
    }
    let observed = ObservedVersions::default().claim(around.claim).class(&known.class);
    let observed = around.nodes.iter().fold(observed, |observed, node| observed.node(node));
    ReconcileStart::Write(Box::new(PreparedReconcile { observed, known }))
}

/// Returns the pending pods planned on the Node of a claim whose agent reported a fatal verdict; empty for other
/// claims.
fn expected(cluster: &Cluster, leader_state: &LeaderState, claim: &NodeClaim) -> Vec<Subject> {
    if condition(claim, nodeclaim::NODE_VERDICT).is_none() {
        return Vec::new();
    }
    let name = claim.metadata.name.as_deref().unwrap_or_default();
    let mut paths: Vec<&str> = leader_state.plan.placed_on(name).collect();
    paths.sort_unstable();
    let waiting = paths.into_iter().filter_map(|path| cluster.pod(path)).filter(|pod| pod.waits());
    waiting.map(LivePod::subject).collect()
}

/// Returns the reason why the registration of the claim's Node is held, or, as an error, the time until which to wait
/// silently. The claim is reconciled again as soon as the hold ends.
fn hold_of<P: Provider>(
    context: &LeaderContext<P>,
    around: &Surroundings<'_>,
    leader_state: &LeaderState,
    now: Timestamp,
) -> Result<Option<String>, Timestamp> {
    let claim = around.claim;
    let is_coming = is_true(claim, nodeclaim::LAUNCHED)
        && !is_true(claim, nodeclaim::REGISTERED)
        && claim.metadata.deletion_timestamp.is_none();
    let (true, true, [node]) = (is_coming, context.settings.nominates, around.nodes.as_slice()) else {
        return Ok(None);
    };
    let name = claim.metadata.name.as_deref().unwrap_or_default();
    let gate = node.metadata.uid.as_ref().and_then(|uid| leader_state.gates.of(name, uid));
    let made_at = node.metadata.creation_timestamp.as_ref().map_or(now, |time| time.0);
    if let Some(moment) = gate.and_then(|_| leader_state.gates.opens(name)) {
        return if now < moment { Err(moment) } else { Ok(None) };
    }
    match gate.map(|gate| &gate.hold) {
        Some(None) => Ok(None),
        Some(Some(_)) if now < after(made_at, QUIETLY) => Err(after(made_at, QUIETLY)),
        // The leader notices the end of the hold and the order in which nodes open.
        Some(Some(hold)) => Ok(Some(hold.why.clone())),
        None if leader_state.plan.has_places(name) && now < after(made_at, TELLING) => Err(after(made_at, TELLING)),
        None => Ok(None),
    }
}

pub(super) fn conclude<P: Provider>(
    context: &LeaderContext<P>,
    kind: &'static str,
    name: &str,
    observed: &ObservedVersions,
    result: &ReconcileResult,
) -> Verdict {
    let now = now();
    context.leader_state().note_written(observed, now);
    match &result.end {
        End::Done if result.has_written => Verdict::Rest(Some(result.again.unwrap_or_else(|| after(now, LOST)))),
        End::Done => Verdict::Rest(result.again),
        End::Stale => Verdict::Conflicted,
        End::Failed(why) => {
            tracing::warn!(kind, name, why, "will be tried again");
            Verdict::Failed
        }
        // The next leader starts over.
        End::Fenced => Verdict::Rest(None),
    }
}
