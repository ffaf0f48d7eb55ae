//! Reconciliation of one claim, one NodePool, or one class.

use std::sync::{Mutex, PoisonError};

use jiff::Timestamp;
use muster_api::NodeClaim;
use muster_cloud::after;
use muster_stages::classes;
use muster_stages::driver::claim::{
    ASK, ClaimStart, PodEvent, PreparedClaim, launch_outcome, note_outcome, pod_event, wrote_pod_event,
};
use muster_stages::driver::recording::Occurrence;
use muster_stages::driver::{self, LOST, Verdict, cluster_wide};
use muster_stages::pools;
use muster_stages::state::{Cluster, LiveClass};
use muster_stages::step::{Step, Write};

use super::context::LeaderContext;
use super::now;
use crate::edge::{End, ObservedVersions, ReconcileResult};
use crate::provider::{Provider, Resolved};

/// Writes the time of the last pod event to a claim. Returns the time of the next attempt if the write is postponed, or
/// the verdict as an error if it was attempted.
async fn note_moves<P: Provider>(context: &LeaderContext<P>, name: &str) -> Result<Option<Timestamp>, Verdict> {
    let (step, mut observed, at) = {
        let (cluster, now) = (context.cluster_cache.read(), now());
        let event = {
            let mut leader_state = context.leader_state();
            let event = pod_event(&context.settings.driver, &cluster, &mut leader_state, name, now);
            context.record(Some(&cluster), now, || Occurrence::PodEvent(name.to_owned(), event.clone()));
            event
        };
        match event {
            PodEvent::None => return Ok(None),
            PodEvent::Later(moment) => return Ok(Some(moment)),
            PodEvent::Behind(moment) => return Err(Verdict::Rest(Some(moment))),
            PodEvent::Write { step, at } => {
                let observed = cluster.claim(name).map(|claim| ObservedVersions::default().claim(claim));
                (step, observed.unwrap_or_default(), at)
            }
        }
    };
    let result = context.edge.reconcile(&mut observed, |_, _| step.clone()).await;
    if result.end == End::Done {
        let mut leader_state = context.leader_state();
        wrote_pod_event(&mut leader_state, name, at);
        context.record(None, now(), || Occurrence::WrotePodEvent(name.to_owned(), at));
    }
    match conclude(context, "NodeClaim", name, &observed, &result) {
        // The rest of the claim is still to be reconciled.
        Verdict::Rest(_) => Err(Verdict::Again),
        verdict => Err(verdict),
    }
}

/// Reconciles a claim.
pub(super) async fn claim<P: Provider>(context: &LeaderContext<P>, name: &str) -> Verdict {
    let owed = match note_moves(context, name).await {
        Ok(owed) => owed,
        Err(verdict) => return verdict,
    };
    let (prepared, mut observed) = match prepare(context, name, now()) {
        Ok(prepared) => prepared,
        Err(moment) => return Verdict::Rest(sooner(moment, owed)),
    };
    let ended = Mutex::new(None);
    let result = context
        .edge
        .reconcile(&mut observed, |answers, now| {
            let cluster = context.cluster_cache.read();
            let Some(around) = cluster.around(name) else { return Step::rest() };
            let pause = cluster.pause(&context.settings.driver.namespace);
            let step = prepared.decide(&around, pause, answers.clone(), now);
            context.record(Some(&cluster), now, || {
                Occurrence::Decided(name.to_owned(), Box::new(answers.clone()), step.clone())
            });
            if let Some(outcome) = launch_outcome(&step, around.claim) {
                *ended.lock().unwrap_or_else(PoisonError::into_inner) = Some(outcome);
            }
            step
        })
        .await;
    let ended = ended.into_inner().unwrap_or_else(PoisonError::into_inner);
    if let (Some(became_a_node), End::Done) = (ended, &result.end) {
        let cluster = context.cluster_cache.read();
        let mut leader_state = context.leader_state();
        note_outcome(&context.provider, &cluster, &mut leader_state, name, became_a_node);
        context.record(Some(&cluster), now(), || Occurrence::Outcome(name.to_owned(), became_a_node));
    }
    if let Some(answer) = &result.answers.launch {
        context.remember_launch(answer, now());
    }
    {
        let (mut leader_state, now) = (context.leader_state(), now());
        prepared.note_instance(&mut leader_state, &result.answers, now);
        context.record(None, now, || Occurrence::Instance(name.to_owned(), Box::new(result.answers.clone())));
    }
    match conclude(context, "NodeClaim", name, &observed, &result) {
        Verdict::Rest(moment) => Verdict::Rest(sooner(moment, owed)),
        verdict => verdict,
    }
}

/// Returns the input for a claim and the versions on which it is based; as an error, the time of its next
/// reconciliation if there is nothing to write.
fn prepare<P: Provider>(
    context: &LeaderContext<P>,
    name: &str,
    now: Timestamp,
) -> Result<(Box<PreparedClaim>, ObservedVersions), Option<Timestamp>> {
    let cluster = context.cluster_cache.read();
    let mut leader_state = context.leader_state();
    let settings = &context.settings.driver;
    let start = driver::claim::prepare(&context.provider, settings, &cluster, &mut leader_state, name, now);
    context
        .record(Some(&cluster), now, || Occurrence::Prepared(name.to_owned(), matches!(start, ClaimStart::Write(_))));
    match start {
        ClaimStart::Wait(moment) => Err(moment),
        ClaimStart::Write(prepared) => {
            let Some(around) = cluster.around(name) else { return Err(None) };
            let observed = ObservedVersions::default().claim(around.claim).class(&prepared.class);
            let observed = around.nodes.iter().fold(observed, |observed, node| observed.node(node));
            Ok((prepared, observed))
        }
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
        let (cluster, now) = (context.cluster_cache.read(), now());
        let mut leader_state = context.leader_state();
        let version = cluster.pool(name).and_then(|pool| pool.metadata.resource_version.as_deref());
        if leader_state.is_behind("NodePool", name, version, now) {
            return Verdict::Rest(Some(after(now, ASK)));
        }
        let settings = &context.settings.driver;
        let step = cluster_wide::pool(&context.provider, settings, &cluster, &mut leader_state, name, now);
        context
            .record(Some(&cluster), now, || Occurrence::Pool(name.to_owned(), step.clone().unwrap_or_else(Step::rest)));
        let Some((step, pool)) = step.zip(cluster.pool(name)) else { return Verdict::Rest(None) };
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

pub(super) fn conclude<P: Provider>(
    context: &LeaderContext<P>,
    kind: &'static str,
    name: &str,
    observed: &ObservedVersions,
    result: &ReconcileResult,
) -> Verdict {
    let now = now();
    context.note_written(observed, now);
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
