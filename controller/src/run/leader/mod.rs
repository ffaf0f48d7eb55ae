//! The leader's event loop: one task that passes changes to the [`Driver`] and starts the jobs that it returns.
//!
//! ```text
//!   ClusterCache::changed ──► Driver::on ──┐
//!   Orders, ShiftWatch, reservations ──────┤
//!                                          ▼
//!        Driver::done ◄── Done ◄── task ◄── Job     (jobs)
//!                                   └──► writes of what a job has decided: commands, nominations, events (telling)
//! ```
//!
//! A slow launch is one long reconciliation and does not block others. Dropping the future aborts all tasks. `jobs`
//! carries out what the driver returns, and `telling` writes what is for people and metrics.

mod jobs;
mod telling;

use std::future::pending;
use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use muster_api::NodeClaim;
use muster_stages::disruption::DisruptionPlanner;
use muster_stages::driver::recording::Occurrence;
use muster_stages::driver::{AT_ONCE, Done, Driver, Grown};
use muster_stages::notices::ToldShifts;
use muster_stages::state::{Changed, Kind};
use muster_stages::step::{Step, Write};
use tokio::sync::{mpsc, watch};
use tokio::task::{JoinError, JoinSet};
use tokio::time::sleep;

use self::jobs::Ended;
use self::telling::Audience;
use super::context::LeaderContext;
use super::orders::Ordered;
use super::zonal_shifts::{self, ShiftWatch};
use super::{interruption, now};
use crate::facts::ClaimFacts;
use crate::provider::Provider;

/// Longest wait between two checks of the clock.
const IDLE: Duration = Duration::from_secs(60);

struct Leader<P> {
    context: Arc<LeaderContext<P>>,
    driver: Driver,
    tasks: JoinSet<Ended>,
    planner: DisruptionPlanner,
    /// True once the cloud has listed its instance types: only then is it known which are gone.
    has_all_types: bool,
    shifts: ShiftWatch,
    /// `None` if the cloud has no reservations.
    freed: Option<watch::Receiver<u64>>,
    told_shifts: ToldShifts,
    /// True while the conditions of the last decision about disruption are being written.
    is_telling_claims: bool,
    /// The next order.
    order: Option<Ordered>,
    /// Time at which the metrics were last told of the queues.
    told_at: Option<Timestamp>,
}

/// Leads until it is dropped, or until a task panics.
pub(super) async fn lead<P: Provider>(
    context: Arc<LeaderContext<P>>,
    facts: Arc<ClaimFacts>,
    orders: &mut mpsc::Receiver<Ordered>,
) -> JoinError {
    context.cluster_cache.synced().await;
    context.provider.catch_up().await;
    // Everything is reconciled anyway; pod events before this time are not recorded.
    drop(context.cluster_cache.take_changed());
    learn_from_all(&context);
    let driver = {
        let (cluster, settings, now) = (context.cluster_cache.read(), context.settings.driver.clone(), now());
        let mut leader_state = context.leader_state();
        context.record(Some(&cluster), now, || Occurrence::Started);
        Driver::start(settings, &cluster, &mut leader_state, now)
    };
    let mut leader = Leader {
        shifts: ShiftWatch::of(&context.provider),
        freed: context.provider.freed_reservations(),
        told_shifts: ToldShifts::default(),
        planner: DisruptionPlanner::at(context.settings.driver.timing),
        context,
        driver,
        tasks: JoinSet::new(),
        has_all_types: false,
        is_telling_claims: false,
        order: None,
        told_at: None,
    };
    leader.context.metrics.workers(AT_ONCE);
    let provider = leader.context.provider.clone();
    let polled = interruption::poll(Arc::clone(&leader.context), facts);
    tokio::select! {
        broken = leader.run(orders) => broken,
        never = provider.keep_up() => match never {},
        never = polled => match never {},
    }
}

/// Passes all initialized Nodes to the cloud, so that a new leader knows what the last one knew.
fn learn_from_all<P: Provider>(context: &LeaderContext<P>) {
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

/// Completes when instances of a reservation have become available.
async fn is_freed(freed: &mut Option<watch::Receiver<u64>>) {
    let Some(freed) = freed else { return pending().await };
    if freed.changed().await.is_err() {
        pending().await
    }
}

// === impl Leader ===

impl<P: Provider> Leader<P> {
    async fn run(&mut self, orders: &mut mpsc::Receiver<Ordered>) -> JoinError {
        let cluster_cache = self.context.cluster_cache.clone();
        loop {
            self.begin_jobs();
            let wait = self
                .next_moment()
                .map_or(IDLE, |moment| Duration::try_from(moment.duration_since(now())).unwrap_or_default().min(IDLE));
            tokio::select! {
                changed = cluster_cache.changed() => self.take_in(&changed),
                Some(ended) = self.tasks.join_next() => match ended {
                    Ok(ended) => self.conclude(ended),
                    Err(broken) => return broken,
                },
                Some(order) = orders.recv(), if self.order.is_none() => {
                    self.order = Some(order);
                    self.driver.on_order();
                }
                () = self.shifts.heard() => {}
                () = is_freed(&mut self.freed) => {
                    self.driver.on_freed_reservation(&self.context.cluster_cache.read(), now());
                }
                () = sleep(wait) => {}
            }
        }
    }

    fn next_moment(&self) -> Option<Timestamp> {
        [self.driver.next(), self.shifts.next_end(now())].into_iter().flatten().min()
    }

    /// Starts all jobs that are due.
    fn begin_jobs(&mut self) {
        let now = now();
        if !self.has_all_types && self.context.provider.has_all_types() {
            self.has_all_types = true;
            self.driver.stir_disruption();
        }
        self.take_in_shifts(now);
        self.tell_queues(now);
        while let Some(job) = self.driver.next_job(now) {
            self.context.record(None, now, || Occurrence::Began(job.clone()));
            self.begin_job(job);
        }
    }

    fn take_in(&mut self, changed: &Changed) {
        let context = Arc::clone(&self.context);
        let cluster = context.cluster_cache.read();
        {
            let (mut leader_state, now) = (context.leader_state(), now());
            context.record(Some(&cluster), now, || Occurrence::Changed(Box::new(changed.clone())));
            self.driver.on(changed, &cluster, &mut leader_state, now);
        }
        let stays = |claim: &&NodeClaim| claim.metadata.deletion_timestamp.is_none();
        if changed.claims.iter().any(|name| !cluster.claim(name).as_ref().is_some_and(stays)) {
            let staying = cluster.claims().filter(stays).filter_map(|claim| claim.metadata.uid.as_deref());
            context.provider.keep_turns(staying);
        }
        drop(cluster);
        // Only now may it be known that a NodePool launches nodes in a zone that is shifted away.
        if [Kind::NodePool, Kind::Ec2NodeClass].into_iter().any(|kind| changed.kinds.contains(kind)) {
            self.tell_of_shifts();
        }
    }

    /// Takes in zonal shifts that have begun or ended: other offerings are available from now on.
    fn take_in_shifts(&mut self, now: Timestamp) {
        let Some(change) = self.shifts.turn(now) else { return };
        zonal_shifts::log(&change);
        self.context.metrics.shifted(self.shifts.known());
        self.driver.on_zonal_shifts(now);
        self.tell_of_shifts();
    }

    /// Tells NodePools of the zones that are shifted away, or are not any more.
    fn tell_of_shifts(&mut self) {
        let context = Arc::clone(&self.context);
        let news = self.told_shifts.news(&context.cluster_cache.read(), self.shifts.known(), P::CLASS);
        self.tell(Step::act(news.into_iter().map(Write::Event)), Audience::People);
    }

    /// Reports the end of a job, or of writes, to the driver.
    fn done(&mut self, done: Done) {
        let context = Arc::clone(&self.context);
        let (cluster, now) = (context.cluster_cache.read(), now());
        let mut leader_state = context.leader_state();
        context.record(Some(&cluster), now, || Occurrence::Ended(done.clone()));
        self.driver.done(done, &cluster, &mut leader_state, now);
    }
}
