//! Metrics, with Karpenter's names where Karpenter has the same metric.
//!
//! ```text
//!   writes ──────────► WriteObserver ─┐
//!   calls of the cloud ───────────────┤
//!   decisions, reconciliations ───────┼──► Series ───────────────────┐
//!   watch ──► Milestones ──► Observed ┘                              ├──► text, once a second at most
//!   watch cache ─────────────────────── when asked for ──► scrape ───┤
//!   agents, EC2 ──────────────────────► Registry ──► expose ─────────┘
//! ```
//!
//! `catalogue` has the names. Series about the cluster are those of the replica that leads, so that a sum over replicas
//! counts nothing twice.

#[cfg_attr(not(test), expect(dead_code, reason = "the document also has metrics that other parts record"))]
mod catalogue;
mod disruption;
#[cfg(test)]
mod document;
mod expose;
mod observed;
mod page;
mod process;
mod repairs;
mod scrape;
mod series;
mod work;
mod writes;

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use jiff::Timestamp;
use muster_api::{NodeClaim, NodePool, labels};
use muster_cloud::{CloudError, NoticeKind, Refused, ZonalShifts};
use muster_gateway::Refusals;
use muster_scheduling::disrupt::DisruptionInput;
use muster_scheduling::model::Catalogue;
use muster_stages::disruption::{CommandNode, Delivered, Turn};
use muster_stages::provision::Figures;
use muster_stages::step::Step;
use prometheus_client::registry::Registry;
use tokio::time::Instant;

use self::catalogue as names;
use self::disruption::Disruption;
use self::observed::Observed;
pub(super) use self::observed::PodTimes;
use self::page::{Page, Rendered};
use self::scrape::Scrape;
use self::series::Series;
pub(super) use self::work::{Controller, Ended, Work};
use super::traces::Traces;
use crate::agents::Boots;
use crate::permissions::Permission;
use crate::watch::ClusterCache;

/// All metrics of this process; clones share them.
#[derive(Clone)]
pub(super) struct Metrics {
    registry: Arc<Registry>,
    cluster_cache: ClusterCache,
    series: Series,
    observed: Observed,
    disruption: Disruption,
    /// Instance types by class, as of the last decision.
    offers: Arc<Mutex<BTreeMap<String, Catalogue>>>,
    /// Beginning of the provisioning round in progress.
    round: Arc<Mutex<Option<Instant>>>,
    /// Name of the cloud.
    provider: &'static str,
    /// Conditions for which nodes are repaired, by node.
    repairs: Arc<Mutex<BTreeMap<String, String>>>,
    started: Timestamp,
    clock: fn() -> Timestamp,
    refusals_of_agents: Refusals,
    boots: Boots,
}

// === impl Metrics ===

impl Metrics {
    /// Creates the metrics of `cluster_cache`, and those that a cloud registers.
    pub(super) fn new(
        cluster_cache: &ClusterCache,
        provider: &'static str,
        clock: fn() -> Timestamp,
        traces: Traces,
        of_cloud: impl FnOnce(&mut Registry),
    ) -> Self {
        let mut registry = Registry::default();
        of_cloud(&mut registry);
        let boots = Boots::new(&mut registry);
        let series = Series::default();
        let observed = Observed::new(series.clone(), traces, clock);
        cluster_cache.tell(Arc::new(observed.clone()));
        Self {
            registry: Arc::new(registry),
            cluster_cache: cluster_cache.clone(),
            disruption: Disruption::new(series.clone()),
            series,
            observed,
            offers: Arc::default(),
            round: Arc::default(),
            provider,
            repairs: Arc::default(),
            started: clock(),
            clock,
            refusals_of_agents: Refusals::default(),
            boots,
        }
    }

    /// Returns all metrics in the text format of Prometheus.
    pub(super) fn text(&self) -> String {
        let mut page = Page::after(expose::text(&self.registry));
        let now = (self.clock)();
        process::write(&mut page, self.started);
        let leads = self.observed.leads();
        page.single(&names::LEADING, if leads { 1.0 } else { 0.0 });
        let refused = self.refusals_of_agents.counted();
        let mut refused = refused.into_iter().peekable();
        if refused.peek().is_some() {
            page.declare(&names::AGENT_REFUSALS);
        }
        for (code, count) in refused {
            page.sample(&names::AGENT_REFUSALS, "", &[&Rendered::new([("reason", code)])], count as f64);
        }
        let is_synced = self.cluster_cache.is_synced();
        let unsynced = if is_synced { 0.0 } else { observed::between(self.started, now).as_secs_f64() };
        page.single(&names::CLUSTER_STATE_SYNCED, if is_synced { 1.0 } else { 0.0 });
        page.single(&names::CLUSTER_STATE_UNSYNCED_TIME, unsynced);
        self.series.write(&mut page);
        let mut left_out: BTreeMap<&str, u64> = self.series.left_out().into_iter().collect();
        {
            let cluster = self.cluster_cache.read();
            page.single(&names::CLUSTER_STATE_NODE_COUNT, cluster.nodes().len() as f64);
            page.single(&names::KNOWN_NODECLAIMS, cluster.claims().len() as f64);
            page.single(&names::UNBOUND_PODS, cluster.count_unbound() as f64);
            if leads {
                let offers = self.offers.lock().unwrap_or_else(PoisonError::into_inner).clone();
                let times = self.observed.times();
                left_out.extend(Scrape { cluster: &cluster, times: &times, offers: &offers, now }.write(&mut page));
            }
        }
        if leads {
            let begun = *self.round.lock().unwrap_or_else(PoisonError::into_inner);
            let labels = Rendered::new([("controller", names::PROVISIONER)]);
            page.declare(&names::SCHEDULER_UNFINISHED_WORK);
            let seconds = begun.map_or(0.0, |begun| begun.elapsed().as_secs_f64());
            page.sample(&names::SCHEDULER_UNFINISHED_WORK, "", &[&labels], seconds);
        }
        if !left_out.is_empty() {
            page.declare(&names::LEFT_OUT);
        }
        for (metric, count) in left_out {
            page.sample(&names::LEFT_OUT, "", &[&Rendered::new([("metric", metric)])], count as f64);
        }
        page.text()
    }

    /// Returns the counters of refused agent requests.
    pub(super) fn refusals_of_agents(&self) -> Refusals {
        self.refusals_of_agents.clone()
    }

    /// Returns the metrics of node boots.
    pub(super) fn boots(&self) -> Boots {
        self.boots.clone()
    }

    /// Records whether this replica leads.
    pub(super) fn leads(&self, leads: bool) {
        self.observed.lead(leads);
        if leads {
            for kind in ["multi", "single"] {
                self.series.add(&names::DISRUPTION_TIMEOUTS, &[kind], 0.0);
            }
        } else {
            self.series.forget_leading();
        }
    }

    /// Records that a provisioning round begins.
    pub(super) fn round_begins(&self) {
        *self.round.lock().unwrap_or_else(PoisonError::into_inner) = Some(Instant::now());
    }

    /// Records the end of a provisioning round.
    pub(super) fn round_ended(&self) {
        *self.round.lock().unwrap_or_else(PoisonError::into_inner) = None;
    }

    /// Records a provisioning round: its statistics, and the pods that it was about, with whether they got a node.
    pub(super) fn round<'p>(
        &self,
        figures: &Figures,
        pods: impl Iterator<Item = (&'p str, bool)>,
        now: Timestamp,
        took: Duration,
    ) {
        let controller = names::PROVISIONER;
        self.series.observe(&names::SCHEDULING_DURATION, &[controller], took);
        self.series.set(&names::SCHEDULER_QUEUE_DEPTH, &[controller, ""], figures.pods as f64);
        self.series.set(&names::SCHEDULER_UNSCHEDULABLE_PODS, &[controller], figures.unplaced as f64);
        self.series.set(&names::SCHEDULER_IGNORED_PODS, &[], figures.ignored as f64);
        self.series.set(&names::LAUNCHES_HELD, &[], figures.held as f64);
        self.observed.decided(pods, now);
    }

    /// Records the instance types of the classes that a decision was about.
    pub(super) fn offers(&self, offers: BTreeMap<String, Catalogue>) {
        *self.offers.lock().unwrap_or_else(PoisonError::into_inner) = offers;
    }

    /// Records a decision about what is to go. `was_open` is true if it decided again about an earlier choice.
    pub(super) fn disruption_planned(
        &self,
        input: &DisruptionInput,
        (turn, was_open): (&Turn, bool),
        delivered: impl Iterator<Item = Delivered>,
        now: Timestamp,
        took: Duration,
    ) {
        self.disruption.planned(input, turn, now, took);
        if was_open {
            self.disruption.validated(turn);
        }
        self.disruption.delivered(delivered);
    }

    /// Records that this step has begun a command on some of `command_nodes`.
    pub(super) fn opened(&self, step: &Step, command_nodes: &[CommandNode]) {
        let claims: Vec<_> = command_nodes.iter().map(|one| (&one.claim, one.pool.as_ref())).collect();
        self.disruption.opened(step, &claims);
    }

    /// Records that this step has advanced a command.
    pub(super) fn advanced(&self, step: &Step, command_nodes: &[CommandNode]) {
        self.disruption.advanced(step, command_nodes);
    }

    /// Records a missing permission.
    pub(super) fn missing(&self, one: &Permission) {
        let Permission { group, resource, verb, .. } = one;
        self.series.set(&names::MISSING_PERMISSIONS, &[group, resource, verb], 1.0);
    }

    /// Records an offering that the cloud refused.
    pub(super) fn refused(&self, refused: &Refused) {
        let Refused { offering, refusal } = refused;
        let (of, why) = (offering.to_string(), refusal.to_string());
        self.series.count(&names::CLOUD_REFUSALS, &[&of, &why]);
        let capacity_type = offering.capacity_type.to_string();
        self.series.count(&names::CLOUD_LAUNCH_FAILURES, &[&offering.zone, "", &capacity_type, &why]);
    }

    /// Records the zones that traffic is shifted away from.
    pub(super) fn shifted(&self, shifts: &ZonalShifts) {
        self.series.clear(&names::ZONE_SHIFTED_AWAY);
        for (zone, _) in shifts.iter() {
            self.series.set(&names::ZONE_SHIFTED_AWAY, &[&**zone], 1.0);
        }
    }

    /// Records a message of the interruption queue.
    pub(super) fn message_received(&self, kind: &str) {
        self.series.count(&names::INTERRUPTION_RECEIVED, &[kind]);
    }

    /// Records the time from a notice to its reception.
    pub(super) fn message_age(&self, given_at: Timestamp, now: Timestamp) {
        self.series.observe(&names::INTERRUPTION_QUEUE_DURATION, &[], observed::between(given_at, now));
    }

    /// Records deleted messages of the interruption queue.
    pub(super) fn messages_deleted(&self, count: usize) {
        self.series.add(&names::INTERRUPTION_DELETED, &[], count as f64);
    }

    /// Records an instance that begins to fail a status check or to have a scheduled event.
    pub(super) fn instance_unhealthy(&self, kind: NoticeKind) {
        let category = match kind {
            NoticeKind::InstanceStatus => "InstanceStatus",
            NoticeKind::SystemStatus => "SystemStatus",
            _ => "EventStatus",
        };
        self.series.count(&names::INTERRUPTION_UNHEALTHY, &[category]);
    }

    /// Begins to measure a reconciliation.
    pub(super) fn work(&self, controller: Controller) -> Work {
        Work::new(self.series.clone(), controller)
    }

    /// Records the number of objects that are due.
    pub(super) fn queue(&self, controller: Controller, depth: usize) {
        work::queue(&self.series, controller, depth);
    }

    /// Records how many reconciliations may be in progress at once.
    pub(super) fn workers(&self, most: usize) {
        let many = [
            Controller::Claims,
            Controller::Pools,
            Controller::Classes,
            Controller::Commands,
            Controller::Overlays,
            Controller::Buffers,
        ];
        let single = [Controller::Provisioner, Controller::Disruption, Controller::Garbage];
        for controller in many {
            self.series.set(&names::MOST_WORKERS, &[controller.name()], most as f64);
        }
        for controller in single {
            self.series.set(&names::MOST_WORKERS, &[controller.name()], 1.0);
            // It is the only object of its queue, and begins when it is due.
            self.queue(controller, 0);
        }
        many.into_iter().chain(single).for_each(|controller| work::announce(&self.series, controller));
    }

    /// Records a call of the cloud that is not a write of a step.
    pub(super) fn cloud_called(&self, method: &'static str, error: Option<&CloudError>, took: Duration) {
        let controller = Controller::Garbage.name();
        self.cloud_call(controller, method, error, took);
    }

    fn cloud_call(&self, controller: &str, method: &str, error: Option<&CloudError>, took: Duration) {
        self.series.observe(&names::CLOUD_DURATION, &[controller, method, self.provider], took);
        if let Some(error) = error {
            self.series.count(&names::CLOUD_ERRORS, &[controller, method, self.provider, writes::kind_of(error)]);
        }
    }
}

fn label(claim: &NodeClaim, key: &str) -> String {
    claim.metadata.labels.as_ref().and_then(|all| all.get(key)).cloned().unwrap_or_default()
}

/// Returns the consolidation policy of a NodePool in Karpenter's metrics; empty if the cause is no consolidation.
fn policy_of(pool: &NodePool, cause: &str) -> &'static str {
    use muster_api::nodepool::ConsolidationPolicy;
    if !matches!(cause, "empty" | "underutilized") {
        return "";
    }
    match pool.spec.disruption.consolidation_policy {
        ConsolidationPolicy::WhenEmpty => "when_empty",
        ConsolidationPolicy::WhenEmptyOrUnderutilized => "when_empty_or_underutilized",
        ConsolidationPolicy::Balanced => "balanced",
    }
}

/// Returns how a node of this claim is terminated, in Karpenter's metrics.
fn mode_of(claim: &NodeClaim) -> &'static str {
    match claim.spec.termination_grace_period {
        None => "graceful",
        Some(grace) if grace.0.is_zero() => "forceful",
        Some(_) => "eventual",
    }
}

/// Returns the NodePool of the claim of this name. If the claim is not known any more, it is the prefix of the name,
/// which is incomplete for a long name of a NodePool.
fn pool_of(name: &str, claim: Option<&NodeClaim>) -> String {
    let said = claim.map(|claim| label(claim, labels::NODEPOOL)).filter(|pool| !pool.is_empty());
    said.unwrap_or_else(|| name.rsplit_once('-').map_or(name, |(pool, _)| pool).to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_nodepool_with_a_long_name_is_named_in_full() {
        let pool = "p".repeat(60);
        let name = muster_stages::provision::name(&pool, ["uid"]);
        let mut claim = NodeClaim::default();
        claim.metadata.labels = Some([(labels::NODEPOOL.to_owned(), pool.clone())].into());
        assert_eq!(pool_of(&name, Some(&claim)), pool);
        assert_eq!(pool_of("general-a1", None), "general", "it has gone already");
    }
}
