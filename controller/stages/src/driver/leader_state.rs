//! State of the leader that is not stored in the API server.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use muster_cloud::{Instance, Refusals, after};
use muster_manifest::snapshot::{Notice, OverlaidTypes};
use muster_manifest::{Manifests, ObservedInstance};

use super::gates::Gates;
use super::interrupted::Interrupted;
use super::unhealthy::Unhealthy;
use crate::disruption::{Rest, observed_instances};
use crate::lifecycle::{Listing, whole_seconds};
use crate::notice_log::NoticeLog;
use crate::pools::Outcomes;
use crate::provision::{BufferOutcome, Plan};
use crate::state::Cluster;

/// Longest wait for the watch cache to show a version that is known to exist: one that this replica wrote, or one that
/// caused a conflict. An API server under load may deliver it late. The limit holds even if etcd was restored from a
/// backup or the event was lost.
const AWAITED: Duration = Duration::from_secs(30);

/// Version of an object: kind, name, resource version.
pub type Version<'v> = (&'static str, &'v str, &'v str);

/// State of the leader, see the module. The next leader starts without it, which costs only extra calls and another
/// solve.
#[derive(Debug, Default)]
pub struct LeaderState {
    /// Offerings that the cloud has refused recently.
    pub refusals: Refusals,
    /// Result of the last listing of instances, by provider ID.
    pub listings: BTreeMap<String, Listing>,
    /// The instances of that listing and those that were launched since, by provider ID.
    pub instances: Arc<BTreeMap<Arc<str>, ObservedInstance>>,
    /// Places of pods, and what is known of earlier rounds.
    pub plan: Plan,
    /// Outcomes of the last launches of each NodePool.
    pub outcomes: BTreeMap<String, Outcomes>,
    /// The last rest of each NodePool whose consolidation did not deliver what it promised.
    pub rests: BTreeMap<String, Rest>,
    /// Time at which deletion costs were last compared with those of the pods.
    pub deletion_costs_at: Option<Timestamp>,
    /// Nodes that have not registered.
    pub gates: Gates,
    /// Classes that became ready a moment ago.
    pub ready_classes: BTreeSet<String>,
    /// Time at which a pod was last bound to or removed from the node of each claim, until it is written to the claim.
    pub moves: BTreeMap<String, Timestamp>,
    /// Nodes that a pod has left since the last decision about nodes.
    pub left: BTreeSet<Arc<str>>,
    /// Conditions whose repair was due at some time since the last decision about nodes.
    pub unhealthy: Unhealthy,
    /// Claims whose interruption is remembered in the refusals.
    pub interrupted: Interrupted,
    /// Instance types with the NodeOverlays applied; `None` until they are needed, and after a change of what they
    /// depend on.
    pub overlaid: Option<OverlaidTypes>,
    /// True once it was logged that NodeOverlays have no effect.
    pub has_warned_of_overlays: bool,
    /// CapacityBuffers, and the places of their pods after the last round.
    pub buffers: Vec<BufferOutcome>,
    /// True once it was logged that CapacityBuffers have no effect.
    pub has_warned_of_buffers: bool,
    /// Notices about objects in the last snapshot.
    pub notices: Vec<Notice>,
    /// Notices that were published.
    pub notice_log: NoticeLog,
    /// Versions that exist but may not have been observed yet, by kind and name.
    awaited: BTreeMap<(&'static str, String), (u64, Timestamp)>,
}

// === impl LeaderState ===

impl LeaderState {
    /// Records that pods were bound to or removed from these Nodes, until it is written to their claims.
    pub(super) fn remember_moves(&mut self, cluster: &Cluster, nodes: &BTreeSet<Arc<str>>, now: Timestamp) {
        let claims = nodes.iter().filter_map(|node| cluster.claim_of(cluster.node(node)?)?.metadata.name.clone());
        self.moves.extend(claims.map(|claim| (claim, now)));
    }

    /// Sets the last pod event of each claim, including those that are not written to the API server yet.
    pub fn tell_moves(&self, manifests: &mut Manifests) {
        for claim in &mut manifests.node_claims {
            let Some(at) = self.moves.get(&*claim.meta.name) else { continue };
            claim.last_pod_event = Some(whole_seconds(*at).to_string().into());
        }
    }

    /// Records an instance that the cloud has described or launched since the last listing.
    pub fn observe(&mut self, instance: &Instance) {
        Arc::make_mut(&mut self.instances).extend(observed_instances(std::slice::from_ref(instance)));
    }

    /// Records the versions that a reconciliation wrote, and the version that caused a conflict.
    pub fn note_written<'v>(
        &mut self,
        written: impl Iterator<Item = Version<'v>>,
        conflict: Option<Version<'v>>,
        now: Timestamp,
    ) {
        self.awaited.retain(|_, (_, at)| now < after(*at, AWAITED));
        for (kind, name, version) in written {
            if let Ok(version) = version.parse() {
                self.awaited.insert((kind, name.to_owned()), (version, now));
            }
        }
        if let Some((kind, name, version)) = conflict
            && let Ok(version) = version.parse::<u64>()
        {
            self.awaited.insert((kind, name.to_owned()), (version.saturating_add(1), now));
        }
    }

    /// Returns true if the watch cache shows an object older than a version that is known to exist. Resource versions
    /// of one cluster are comparable by contract since Kubernetes 1.35, and have always been in practice.
    #[must_use]
    pub fn is_behind(&self, kind: &'static str, name: &str, shown: Option<&str>, now: Timestamp) -> bool {
        let Some((awaited, at)) = self.awaited.get(&(kind, name.to_owned())) else { return false };
        let shown: Option<u64> = shown.and_then(|text| text.parse().ok());
        now < after(*at, AWAITED) && shown.is_some_and(|shown| shown < *awaited)
    }
}
