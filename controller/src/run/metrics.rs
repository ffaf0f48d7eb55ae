//! Metrics, with Karpenter's names where Karpenter has the same metric.

mod collect;
mod disruption;
mod expose;

use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use muster_api::{NodeClaim, labels};
use muster_gateway::Refusals;
use muster_scheduling::disrupt::DisruptionInput;
use muster_stages::disruption::{CommandNode, Delivered};
use muster_stages::provision::Figures;
use muster_stages::step::{Step, Write};
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::{Histogram, exponential_buckets};
use prometheus_client::metrics::info::Info;
use prometheus_client::registry::Registry;

use self::collect::{ClusterMetrics, Process, Refused};
use self::disruption::Disruption;
use crate::agents::Boots;
use crate::edge::{Fate, Pause, WriteObserver};
use crate::permissions::Permission;
use crate::watch::ClusterCache;

/// Labels of a metric: names and values.
type Labels<const N: usize> = [(&'static str, String); N];

/// All metrics of this process; clones share them.
#[derive(Clone)]
pub(super) struct Metrics {
    registry: Arc<Registry>,
    cluster_cache: ClusterCache,
    claims_created: Family<Labels<3>, Counter>,
    claims_disrupted: Family<Labels<2>, Counter>,
    writes: Family<Labels<2>, Counter>,
    rounds: Histogram,
    queue: Gauge,
    unschedulable: Gauge,
    ignored: Gauge,
    held: Gauge,
    cloud: Family<Labels<2>, Counter>,
    leads: Gauge,
    disruption: Disruption,
    missing: Family<Labels<3>, Gauge>,
    refusals_of_agents: Refusals,
    boots: Boots,
}

// === impl Metrics ===

impl Metrics {
    /// Creates the metrics of `cluster_cache`, and those that a cloud registers.
    pub(super) fn new(cluster_cache: &ClusterCache, of_cloud: impl FnOnce(&mut Registry)) -> Self {
        let mut registry = Registry::default();
        of_cloud(&mut registry);
        let claims_created = Family::default();
        let claims_disrupted = Family::default();
        let writes = Family::default();
        let rounds = Histogram::new(exponential_buckets(0.001, 2.0, 18));
        let (queue, unschedulable, ignored) = (Gauge::default(), Gauge::default(), Gauge::default());
        let held = Gauge::default();
        let cloud = Family::default();
        let leads = Gauge::default();
        let build = Info::new([("version", env!("CARGO_PKG_VERSION"))]);
        registry.register("karpenter_build", "The version of this program", build);
        let claims = "karpenter_nodeclaims";
        registry.register(format!("{claims}_created"), "Created NodeClaims, by reason", claims_created.clone());
        registry.register(
            format!("{claims}_disrupted"),
            "NodeClaims deleted by the controller, by reason",
            claims_disrupted.clone(),
        );
        let scheduler = "karpenter_scheduler";
        registry.register(
            format!("{scheduler}_scheduling_duration_seconds"),
            "Duration from the snapshot of the cluster to the decision",
            rounds.clone(),
        );
        registry.register(format!("{scheduler}_queue_depth"), "Pods of the last decision", queue.clone());
        registry.register(
            format!("{scheduler}_unschedulable_pods_count"),
            "Pods of the last decision that are unschedulable",
            unschedulable.clone(),
        );
        registry.register(
            format!("{scheduler}_ignored_pods_count"),
            "Pods that ask for nodes of no pool",
            ignored.clone(),
        );
        registry.register(
            "muster_launches_held",
            "Sets of pods whose launches are held because earlier ones were fruitless",
            held.clone(),
        );
        registry.register("muster_writes", "Writes, by result", writes.clone());
        registry.register("muster_cloud_refusals", "Unavailable offerings, by reason", cloud.clone());
        registry.register("muster_leading", "1 while this replica writes", leads.clone());
        let missing = Family::default();
        registry.register(
            "muster_missing_permissions",
            "1 for each permission that was missing at start",
            missing.clone(),
        );
        let disruption = Disruption::new(&mut registry);
        registry.register_collector(Box::new(ClusterMetrics(cluster_cache.clone())));
        registry.register_collector(Box::new(Process));
        let boots = Boots::new(&mut registry);
        let refusals_of_agents = Refusals::default();
        registry.register_collector(Box::new(Refused(refusals_of_agents.clone())));
        Self {
            registry: Arc::new(registry),
            cluster_cache: cluster_cache.clone(),
            claims_created,
            claims_disrupted,
            writes,
            rounds,
            queue,
            unschedulable,
            ignored,
            held,
            cloud,
            leads,
            disruption,
            missing,
            refusals_of_agents,
            boots,
        }
    }

    /// Returns all metrics in the text format of Prometheus.
    pub(super) fn text(&self) -> String {
        expose::text(&self.registry)
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
        self.leads.set(i64::from(leads));
    }

    /// Records a provisioning round.
    pub(super) fn round(&self, figures: &Figures, took: Duration) {
        let gauge = |count: usize| i64::try_from(count).unwrap_or(i64::MAX);
        self.rounds.observe(took.as_secs_f64());
        self.queue.set(gauge(figures.pods));
        self.unschedulable.set(gauge(figures.unplaced));
        self.ignored.set(gauge(figures.ignored));
        self.held.set(gauge(figures.held));
    }

    /// A decision about what is to go.
    pub(super) fn disruption_planned(
        &self,
        input: &DisruptionInput,
        delivered: impl Iterator<Item = Delivered>,
        now: Timestamp,
        took: Duration,
    ) {
        self.disruption.planned(input, now, took);
        self.disruption.delivered(delivered);
    }

    /// Records that this step has begun a command on some of `command_nodes`.
    pub(super) fn opened(&self, step: &Step, command_nodes: &[CommandNode]) {
        self.disruption.opened(step, command_nodes.iter().map(|command_node| &command_node.claim));
    }

    /// Records that this step has advanced a command.
    pub(super) fn advanced(&self, step: &Step, command_nodes: &[CommandNode]) {
        self.disruption.advanced(step, command_nodes);
    }

    /// Records a missing permission.
    pub(super) fn missing(&self, one: &Permission) {
        let Permission { group, resource, verb, .. } = one;
        let labels = [("group", *group), ("resource", *resource), ("verb", *verb)];
        self.missing.get_or_create(&labels.map(|(name, value)| (name, value.to_owned()))).set(1);
    }

    /// Records an offering that the cloud refused.
    pub(super) fn refused(&self, offering: &str, why: &str) {
        self.cloud.get_or_create(&[("offering", offering.to_owned()), ("reason", why.to_owned())]).inc();
    }
}

fn label(claim: &NodeClaim, key: &str) -> String {
    claim.metadata.labels.as_ref().and_then(|all| all.get(key)).cloned().unwrap_or_default()
}

impl WriteObserver for Metrics {
    fn before<'a>(&'a self, _: &'a Write) -> Pause<'a> {
        Box::pin(std::future::ready(()))
    }

    fn after<'a>(&'a self, write: &'a Write, fate: &'a Fate) -> Pause<'a> {
        self.writes.get_or_create(&[("write", write.name().to_owned()), ("fate", fate.name().to_owned())]).inc();
        match (write, fate) {
            (Write::ClaimMeta { change, .. }, Fate::Done) => self.disruption.marked(change),
            (Write::CreateClaim(claim), Fate::Done) => {
                let relaxed = claim
                    .metadata
                    .annotations
                    .as_ref()
                    .and_then(|all| all.get(muster_api::annotations::NODECLAIM_MIN_VALUES_RELAXED).cloned());
                let labels = [
                    ("nodepool", label(claim, labels::NODEPOOL)),
                    ("reason", self.disruption.reason_of(claim).to_owned()),
                    ("min_values_relaxed", relaxed.unwrap_or_else(|| "false".to_owned())),
                ];
                self.claims_created.get_or_create(&labels).inc();
            }
            (Write::DeleteClaim { cause, name, .. }, Fate::Done) => {
                let nodepool = pool_of(name, self.cluster_cache.read().claim(name));
                let labels = [("reason", (*cause).to_owned()), ("nodepool", nodepool)];
                self.claims_disrupted.get_or_create(&labels).inc();
            }
            _ => {}
        }
        match fate {
            Fate::Refused(why) | Fate::Unavailable(why) if !matches!(write, Write::Evict(_)) => {
                tracing::warn!(write = write.name(), why, "a write failed");
            }
            _ => tracing::debug!(write = write.name(), fate = fate.name(), "written"),
        }
        Box::pin(std::future::ready(()))
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
