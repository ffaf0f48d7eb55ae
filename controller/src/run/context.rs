//! State shared by all tasks of a leader.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use jiff::Timestamp;
use muster_cloud::{LaunchError, Launched};
use muster_manifest::snapshot;
use muster_scheduling::disrupt::Repair;
use muster_scheduling::{disrupt, model};
use muster_stages::driver::recording::{Entry, LoopRecorder, Occurrence};
use muster_stages::driver::{self, LeaderState, Version};
use muster_stages::provision;
use muster_stages::state::Cluster;

use super::Options;
use super::metrics::Metrics;
use crate::edge::{Edge, ObservedVersions};
use crate::provider::Provider;
use crate::watch::ClusterCache;

/// Shared state of a leader.
pub(super) struct LeaderContext<P> {
    pub(super) cluster_cache: ClusterCache,
    pub(super) provider: P,
    pub(super) edge: Edge<P>,
    pub(super) settings: Settings,
    pub(super) metrics: Metrics,
    recorder: Option<Arc<dyn LoopRecorder>>,
    /// Locked briefly, never across an `await`.
    leader_state: Mutex<LeaderState>,
}

/// The operator's choices.
#[derive(Debug, Clone)]
pub(super) struct Settings {
    pub(super) provision: provision::Settings,
    pub(super) disruption: disrupt::Settings,
    pub(super) snapshot: snapshot::Settings,
    pub(super) driver: driver::Settings,
}

// === impl Settings ===

impl Settings {
    /// Returns the settings in `options` for the cloud `P`.
    pub(super) fn of<P: Provider>(options: &Options, nominates: bool) -> Self {
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
            provision: provision::Settings {
                packing: model::Options { tells_nodes: nominates, ..*packing },
                wait_for_unschedulable_mark: *wait_for_unschedulable_mark,
                caps: *caps,
            },
            disruption: *disruption,
            snapshot: snapshot.clone(),
            driver: driver::Settings {
                class_kind: Some(P::CLASS),
                namespace: namespace.as_str().into(),
                timing: *timing,
                window: *window,
                nominates,
                repairs: (disruption.repair != Repair::Off).then(|| snapshot.repair_policy()),
                keeps_buffers: snapshot.gates.capacity_buffer,
                overlays: snapshot.gates.node_overlay,
                keeps_replicas: snapshot.gates.static_capacity,
            },
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
        recorder: Option<Arc<dyn LoopRecorder>>,
    ) -> Arc<Self> {
        Arc::new(Self { cluster_cache, provider, edge, settings, metrics, recorder, leader_state: Mutex::default() })
    }

    /// Records an occurrence, if the loop is recorded. Called while the state is locked.
    pub(super) fn record(&self, cluster: Option<&Cluster>, at: Timestamp, occurrence: impl FnOnce() -> Occurrence) {
        if let Some(recorder) = &self.recorder {
            let cluster = cluster.cloned().map(Box::new);
            recorder.record(Entry { at, cluster, occurrence: occurrence() });
        }
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
        driver::claim::note_launch(&mut leader_state, answer, now);
        self.record(None, now, || Occurrence::Launched(Box::new(answer.clone())));
    }

    /// Records the versions that a reconciliation wrote, and the version that caused a conflict.
    pub(super) fn note_written(&self, observed: &ObservedVersions, now: Timestamp) {
        let mut leader_state = self.leader_state();
        leader_state.note_written(observed.written(), observed.conflict(), now);
        self.record(None, now, || {
            let owned = |(kind, name, version): Version<'_>| (kind, name.to_owned(), version.to_owned());
            let (versions, conflict) = (observed.written().map(owned).collect(), observed.conflict().map(owned));
            Occurrence::Wrote { versions, conflict }
        });
    }
}
