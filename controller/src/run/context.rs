//! State shared by all tasks of a leader.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use jiff::Timestamp;
use muster_cloud::{Instance, LaunchError, Launched, Refusals, after};
use muster_manifest::snapshot::{self, Notice, OverlaidTypes};
use muster_manifest::{Manifests, ObservedInstance};
use muster_scheduling::{disrupt, model};
use muster_stages::disruption::{Rest, Timing, observed_instances};
use muster_stages::lifecycle::{Listing, whole_seconds};
use muster_stages::notice_log::NoticeLog;
use muster_stages::pools::Outcomes;
use muster_stages::provision::{self, BufferOutcome, Plan};

use super::Options;
use super::interruption::Interrupted;
use super::metrics::Metrics;
use super::unhealthy::Unhealthy;
use super::unregistered_nodes::Gates;
use crate::edge::{Edge, ObservedVersions};
use crate::provider::Provider;
use crate::watch::ClusterCache;

/// Longest wait for the watch cache to show a version that is known to exist: one that this replica wrote, or one that
/// caused a conflict. An API server under load may deliver it late. The limit holds even if etcd was restored from a
/// backup or the event was lost.
const AWAITED: Duration = Duration::from_secs(30);

/// Shared state of a leader.
pub(super) struct LeaderContext<P> {
    pub(super) cluster_cache: ClusterCache,
    pub(super) provider: P,
    pub(super) edge: Edge<P>,
    pub(super) settings: Settings,
    pub(super) metrics: Metrics,
    /// Locked briefly, never across an `await`.
    leader_state: Mutex<LeaderState>,
}

/// The operator's choices.
#[derive(Debug, Clone)]
pub(super) struct Settings {
    /// Namespace with the annotation that pauses the whole cluster.
    pub(super) namespace: String,
    pub(super) provision: provision::Settings,
    pub(super) disruption: disrupt::Settings,
    pub(super) timing: Timing,
    pub(super) window: provision::Lengths,
    pub(super) snapshot: snapshot::Settings,
    /// True if nominations are written to pending pods.
    pub(super) nominates: bool,
}

/// State of the leader that is not stored in the API server. The next leader starts without it, which costs only extra
/// calls and another solve.
#[derive(Debug, Default)]
pub(super) struct LeaderState {
    pub(super) refusals: Refusals,
    /// Result of the last listing of instances, by provider ID.
    pub(super) listings: BTreeMap<String, Listing>,
    /// The instances of that listing and those that were launched since, by provider ID.
    pub(super) instances: Arc<BTreeMap<Arc<str>, ObservedInstance>>,
    pub(super) plan: Plan,
    /// Outcomes of the last launches of each NodePool.
    pub(super) outcomes: BTreeMap<String, Outcomes>,
    /// The last rest of each NodePool whose consolidation did not deliver what it promised.
    pub(super) rests: BTreeMap<String, Rest>,
    /// Time at which deletion costs were last compared with those of the pods.
    pub(super) deletion_costs_at: Option<Timestamp>,
    /// Nodes that have not registered.
    pub(super) gates: Gates,
    /// Classes that became ready a moment ago.
    pub(super) ready_classes: BTreeSet<String>,
    /// Time at which a pod was last bound to or removed from the node of each claim, until it is written to the claim.
    pub(super) moves: BTreeMap<String, Timestamp>,
    /// Nodes that a pod has left since the last decision about nodes.
    pub(super) left: BTreeSet<Arc<str>>,
    /// Conditions whose repair was due at some time since the last decision about nodes.
    pub(super) unhealthy: Unhealthy,
    /// Claims whose interruption is remembered in the refusals.
    pub(super) interrupted: Interrupted,
    /// Instance types with the NodeOverlays applied; `None` until they are needed, and after a change of what they
    /// depend on.
    pub(super) overlaid: Option<OverlaidTypes>,
    /// True once it was logged that NodeOverlays have no effect.
    pub(super) has_warned_of_overlays: bool,
    /// CapacityBuffers, and the places of their pods after the last round.
    pub(super) buffers: Vec<BufferOutcome>,
    /// True once it was logged that CapacityBuffers have no effect.
    pub(super) has_warned_of_buffers: bool,
    /// Notices about objects in the last snapshot, and those that were published.
    pub(super) notices: Vec<Notice>,
    pub(super) notice_log: NoticeLog,
    /// Versions that exist but may not have been observed yet, by kind and name.
    awaited: BTreeMap<(&'static str, String), (u64, Timestamp)>,
}

// === impl Settings ===

impl Settings {
    /// Returns the settings in `options`.
    pub(super) fn of(options: &Options, nominates: bool) -> Self {
        let Options {
            context: _,
            cloud: _,
            metrics_port: _,
            health_port: _,
            pace: _,
            lease: _,
            namespace,
            window,
            packing,
            disruption,
            timing,
            snapshot,
            reads_selectors: _,
            wait_for_unschedulable_mark,
            nominates: _,
            caps,
            agents: _,
        } = options;
        Self {
            namespace: namespace.clone(),
            provision: provision::Settings {
                packing: model::Options { tells_nodes: nominates, ..*packing },
                wait_for_unschedulable_mark: *wait_for_unschedulable_mark,
                caps: *caps,
            },
            disruption: *disruption,
            timing: *timing,
            window: *window,
            snapshot: snapshot.clone(),
            nominates,
        }
    }
}

// === impl LeaderContext ===

impl<P: Provider> LeaderContext<P> {
    pub(super) fn new(
        cluster_cache: ClusterCache,
        provider: P,
        edge: Edge<P>,
        settings: Settings,
        metrics: Metrics,
    ) -> Arc<Self> {
        Arc::new(Self { cluster_cache, provider, edge, settings, metrics, leader_state: Mutex::default() })
    }

    pub(super) fn leader_state(&self) -> MutexGuard<'_, LeaderState> {
        self.leader_state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Records the result of a launch.
    pub(super) fn remember_launch(&self, answer: &Result<Launched, LaunchError>, now: Timestamp) {
        let refused = match answer {
            Ok(launched) => launched.refused.as_slice(),
            Err(failed) => failed.error.refused(),
        };
        for one in refused {
            self.metrics.refused(one);
        }
        let mut leader_state = self.leader_state();
        leader_state.refusals.heed(answer, now);
        if let Ok(launched) = answer {
            leader_state.observe(&launched.instance);
        }
    }
}

// === impl LeaderState ===

impl LeaderState {
    /// Sets the last pod event of each claim, including those that are not written to the API server yet.
    pub(super) fn tell_moves(&self, manifests: &mut Manifests) {
        for claim in &mut manifests.node_claims {
            let Some(at) = self.moves.get(&*claim.meta.name) else { continue };
            claim.last_pod_event = Some(whole_seconds(*at).to_string().into());
        }
    }

    /// Records an instance that the cloud has described or launched since the last listing.
    pub(super) fn observe(&mut self, instance: &Instance) {
        Arc::make_mut(&mut self.instances).extend(observed_instances(std::slice::from_ref(instance)));
    }

    /// Records the versions that a reconciliation wrote, and the version that caused a conflict.
    pub(super) fn note_written(&mut self, observed: &ObservedVersions, now: Timestamp) {
        self.awaited.retain(|_, (_, at)| now < after(*at, AWAITED));
        for (kind, name, version) in observed.written() {
            if let Ok(version) = version.parse() {
                self.awaited.insert((kind, name.to_owned()), (version, now));
            }
        }
        if let Some((kind, name, version)) = observed.conflict()
            && let Ok(version) = version.parse::<u64>()
        {
            self.awaited.insert((kind, name.to_owned()), (version.saturating_add(1), now));
        }
    }

    /// Returns true if the watch cache shows an object older than a version that is known to exist. Resource versions
    /// of one cluster are comparable by contract since Kubernetes 1.35, and have always been in practice.
    pub(super) fn is_behind(&self, kind: &'static str, name: &str, shown: Option<&str>, now: Timestamp) -> bool {
        let Some((awaited, at)) = self.awaited.get(&(kind, name.to_owned())) else { return false };
        let shown: Option<u64> = shown.and_then(|text| text.parse().ok());
        now < after(*at, AWAITED) && shown.is_some_and(|shown| shown < *awaited)
    }
}
