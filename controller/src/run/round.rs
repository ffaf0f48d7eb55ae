//! One provisioning round for all pending pods, and the resulting nominations and events.

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use muster_api::{NodeClaim, NodePool};
use muster_cloud::after;
use muster_manifest::Manifests;
use muster_manifest::snapshot::{self, Notice, Snapshot};
use muster_stages::driver::cluster_wide;
use muster_stages::driver::recording::Occurrence;
use muster_stages::lifecycle::Answers;
use muster_stages::lifecycle::pause::Pause;
use muster_stages::node::Node;
use muster_stages::notices;
use muster_stages::provision::{
    self, ClaimAndNode, Outcome, PendingPod, PlacementView, Plan, RecordedBindings, Round, Stop,
};
use muster_stages::state::{Cluster, Moment};
use muster_stages::step::{Step, Subject, Write};
use tokio::time::{Instant, sleep};

use super::context::LeaderContext;
use super::now;
use super::zonal_shifts::closed_zones;
use crate::edge::{End, ObservedVersions};
use crate::provider::Provider;

/// Longest wait for created claims to appear in the watch cache before the next round, which would otherwise create
/// them again. An API server under load may deliver them late.
pub(super) const SEEN: Duration = Duration::from_secs(30);
/// Longest wait if not all claims were created, since it is unknown which will appear.
pub(super) const PERHAPS_SEEN: Duration = Duration::from_secs(5);
/// Interval between checks.
const LOOK: Duration = Duration::from_millis(50);
/// Delay after a round that failed.
const RETRY: Duration = Duration::from_secs(1);

/// A copy of the state at one time: the watch cache changes during the computation.
struct ClusterSnapshot {
    claims: Vec<(NodeClaim, Option<Node>)>,
    pending_pods: BTreeMap<Arc<str>, Arc<PendingPod>>,
    nodes: Vec<String>,
    bindings: RecordedBindings,
}

/// The remaining input of a round.
pub(super) struct Supply {
    pub(super) manifests: Manifests,
    pub(super) pools: Vec<NodePool>,
    pub(super) pause: Pause,
    /// Reasons that block launches, by NodePool.
    pub(super) stops: BTreeMap<String, Stop>,
}

/// Decides what to launch for pending pods, and creates the NodeClaims. Returns the events to publish and the time of
/// the next round if nothing changes.
pub(super) async fn provision<P: Provider>(context: Arc<LeaderContext<P>>) -> Step {
    let Some(Outcome { step, plan, figures, buffers, violations: _ }) = consider(Arc::clone(&context)).await else {
        return Step::until(after(now(), RETRY));
    };
    if figures.pods > 0 || figures.claims > 0 {
        let provision::Figures { pods, claims, unplaced, waiting, hourly_price, .. } = figures;
        tracing::info!(pods, claims, unplaced, waiting, hourly_price, "decided about pods");
    }
    {
        let mut leader_state = context.leader_state();
        leader_state.plan.succeed(plan);
        context.record(None, now(), || Occurrence::TookPlan);
        leader_state.buffers = buffers;
    }
    let again = step.again;
    let (created, told): (Vec<Write>, Vec<Write>) =
        step.writes.into_iter().partition(|write| matches!(write, Write::CreateClaim(_)));
    let created = Step::act(created);
    let end = context.edge.carry_out(&created, &mut ObservedVersions::default(), &mut Answers::default()).await;
    if let End::Failed(why) = &end {
        tracing::warn!(why, "not all NodeClaims were created");
    }
    seen(&context, &created, if end == End::Done { SEEN } else { PERHAPS_SEEN }).await;
    let again = if end == End::Done { again } else { Some(after(now(), RETRY)) };
    let told = told.into_iter().chain(notice_events(&context, now())).collect();
    Step { writes: told, again }
}

/// Decides what to launch for pending pods, without writing. Returns `None`, and logs the reason, if the round failed.
pub(super) async fn consider<P: Provider>(context: Arc<LeaderContext<P>>) -> Option<Outcome> {
    // Solving may take long and must not block a thread of the async runtime.
    let decided = tokio::task::spawn_blocking(move || decide(&context, now())).await;
    let why = match decided {
        Ok(Ok(outcome)) => {
            for violation in &outcome.violations {
                tracing::error!(?violation, "a plan was not carried out: please report this");
            }
            return Some(outcome);
        }
        Ok(Err(why)) => why,
        Err(error) => error.to_string(),
    };
    tracing::error!(why, "the provisioning round failed");
    None
}

/// Computes the nominations to write, unless some are being written, and updates the holds on nodes.
pub(super) fn nominate<P: Provider>(context: &LeaderContext<P>, is_writing: bool) -> Step {
    let (cluster, now) = (context.cluster_cache.read(), now());
    let mut leader_state = context.leader_state();
    let step = cluster_wide::nominate(&cluster, &mut leader_state, is_writing, now);
    context.record(Some(&cluster), now, || Occurrence::Nominated(is_writing, step.clone()));
    step
}

fn decide<P: Provider>(context: &LeaderContext<P>, now: Timestamp) -> Result<Outcome, String> {
    let begun = Instant::now();
    context.metrics.round_begins();
    let outcome = with(context, now, |round| {
        let mut outcome = provision::provision(round, now);
        context.record(None, now, || Occurrence::DecidedPods(outcome.step.writes.clone()));
        if outcome.figures.unplaced > 0 {
            let lacking = notices::incompatible(round.problem, round.pools);
            outcome.step.writes.extend(lacking.into_iter().map(Write::Event));
        }
        let took = begun.elapsed();
        let placed = placed(round, &outcome);
        let pods = round.view.pending_pods.keys().map(|path| (&**path, placed.contains(&**path)));
        context.metrics.round(&outcome.figures, pods, after(now, took), took);
        outcome
    });
    context.metrics.round_ended();
    outcome
}

/// Returns the pods that have a node, or get one of those that the round launches.
fn placed<'o>(round: &Round<'_>, outcome: &'o Outcome) -> BTreeSet<&'o str> {
    let launched = outcome.step.writes.iter().filter_map(|write| match write {
        Write::CreateClaim(claim) => claim.metadata.name.as_deref(),
        _ => None,
    });
    let known = round.view.claims.iter().map(ClaimAndNode::name);
    launched.chain(known).flat_map(|claim| outcome.plan.placed_on(claim)).collect()
}

/// Calls `decide` with a consistent view of the cluster.
pub(super) fn with<P: Provider, T>(
    context: &LeaderContext<P>,
    now: Timestamp,
    decide: impl FnOnce(&Round<'_>) -> T,
) -> Result<T, String> {
    let (moment, supply, plan) = {
        let cluster = context.cluster_cache.read();
        let plan = {
            let leader_state = context.leader_state();
            context.record(Some(&cluster), now, || Occurrence::DecidingPods);
            leader_state.plan.clone()
        };
        (ClusterSnapshot::of(&cluster, &plan), Supply::of(context, &cluster, now), plan)
    };
    let Supply { manifests, pools, pause, stops } = supply;
    let snapshot = assemble(context, manifests, now)?;
    let pools: BTreeMap<&str, &NodePool> =
        pools.iter().filter_map(|pool| Some((pool.metadata.name.as_deref()?, pool))).collect();
    Ok(moment.view(|view| {
        decide(&Round {
            problem: &snapshot.problem,
            buffers: &snapshot.buffers,
            view: *view,
            pools: &pools,
            pause,
            stops: &stops,
            settings: &context.settings.provision,
            plan: &plan,
        })
    }))
}

/// Assembles the snapshot of the cluster for the scheduling engine, with the instance types of this cloud.
///
/// Offerings that were refused recently are left out. Otherwise the same plan would be made, and refused, repeatedly.
/// So are those in zones that traffic is shifted away from, which the instance types know.
pub(super) fn assemble<P: Provider>(
    context: &LeaderContext<P>,
    mut manifests: Manifests,
    now: Timestamp,
) -> Result<Snapshot, String> {
    manifests.observed.closed_zones = closed_zones(&context.provider, now);
    let refused = context.leader_state().refusals.current(now);
    let offers = RefCell::new(BTreeMap::new());
    let types = |class: Option<&muster_manifest::NodeClass>| {
        let mut types = context.provider.types(class);
        types.refuse(&refused);
        let name = class.map(|class| class.name.to_string()).unwrap_or_default();
        offers.borrow_mut().insert(name, types.clone());
        types
    };
    let assembled = snapshot::assemble(&manifests, &context.settings.snapshot, &types);
    context.metrics.offers(offers.take());
    let mut snapshot = assembled.map_err(|error| error.to_string())?;
    if !context.settings.snapshot.gates.static_capacity {
        // Pools with `replicas` are left alone: nothing is launched for them, and pods do not use them as dynamic ones.
        let counts = snapshot.problem.pools.iter_mut().flat_map(|pool| &mut pool.missing_replicas);
        counts.for_each(|count| *count = 0);
    }
    context.leader_state().notices = std::mem::take(&mut snapshot.notices);
    Ok(snapshot)
}

/// Returns the events about objects of the last snapshot that are due.
pub(super) fn notice_events<P: Provider>(context: &LeaderContext<P>, now: Timestamp) -> Vec<Write> {
    let cluster = context.cluster_cache.read();
    let mut leader_state = context.leader_state();
    let notices = std::mem::take(&mut leader_state.notices);
    leader_state.notice_log.admit(&notices, |notice| subject_of(&cluster, notice), now)
}

fn subject_of(cluster: &Cluster, notice: &Notice) -> Option<Subject> {
    let kind = notice.kind.to_owned();
    match notice.path.split_once('/') {
        Some((namespace, name)) => {
            let uid = cluster.pod(&notice.path)?.uid.to_string();
            Some(Subject { kind, namespace: Some(namespace.to_owned()), name: name.to_owned(), uid })
        }
        None => Some(Subject { kind, namespace: None, name: notice.path.to_string(), uid: String::new() }),
    }
}

/// Waits at most `most` until the watch cache has the claims that `step` created, which the next decision must take
/// into account.
pub(super) async fn seen<P: Provider>(context: &LeaderContext<P>, step: &Step, most: Duration) {
    let created = step.writes.iter().filter_map(|write| match write {
        Write::CreateClaim(claim) => claim.metadata.name.as_deref(),
        _ => None,
    });
    let created: Vec<&str> = created.collect();
    let until = Instant::now() + most;
    while Instant::now() < until {
        let all = {
            let cluster = context.cluster_cache.read();
            created.iter().all(|name| cluster.claim(name).is_some())
        };
        if all {
            return;
        }
        sleep(LOOK).await;
    }
}

// === impl ClusterSnapshot ===

impl ClusterSnapshot {
    fn of(cluster: &Cluster, plan: &Plan) -> Self {
        let Moment { claims, pending_pods, nodes, .. } = cluster.moment();
        Self {
            claims: claims.iter().map(|ClaimAndNode { claim, node }| ((*claim).clone(), node.cloned())).collect(),
            pending_pods: pending_pods.into_owned(),
            nodes: nodes.into_iter().map(str::to_owned).collect(),
            bindings: plan.bindings(cluster),
        }
    }

    fn view<T>(&self, look: impl FnOnce(&PlacementView<'_>) -> T) -> T {
        let claims: Vec<ClaimAndNode<'_>> =
            self.claims.iter().map(|(claim, node)| ClaimAndNode { claim, node: node.as_ref() }).collect();
        let nodes: BTreeSet<&str> = self.nodes.iter().map(String::as_str).collect();
        look(&PlacementView {
            claims: &claims,
            pending_pods: &self.pending_pods,
            nodes: &nodes,
            bindings: &self.bindings,
        })
    }
}

// === impl Supply ===

impl Supply {
    pub(super) fn of<P: Provider>(context: &LeaderContext<P>, cluster: &Cluster, now: Timestamp) -> Self {
        Self {
            manifests: cluster.without_void_nominations(),
            pools: cluster.pools().cloned().collect(),
            pause: cluster.pause(&context.settings.driver.namespace),
            stops: cluster_wide::stops(&context.provider, &context.settings.driver, cluster, now),
        }
    }
}
