//! What all tasks of a leader share.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use jiff::Timestamp;
use muster_cloud::{LaunchError, Launched, Refusals, after};
use muster_scheduling::{disrupt, model};

use super::Options;
use super::gates::Gates;
use super::metrics::Metrics;
use super::provider::Provider;
use crate::disruption::{Rest, Tempo};
use crate::edge::{Edge, Held};
use crate::lifecycle::{Listing, whole_seconds};
use crate::manifest::Manifests;
use crate::pools::Outcomes;
use crate::provision::{self, Plan};
use crate::snapshot;
use crate::watch::Picture;

/// How long a version that is known to exist is waited for in the picture: one that we have written, or one that a write of ours
/// lost against. An API server in trouble tells of it late. Whatever was restored or lost, nobody waits longer.
const AWAITED: Duration = Duration::from_secs(30);

/// What a leader has at hand.
pub(super) struct Desk<P> {
    pub(super) picture: Picture,
    pub(super) provider: P,
    pub(super) edge: Edge<P>,
    pub(super) settings: Settings,
    pub(super) metrics: Metrics,
    /// Held for moments, never while anything is awaited.
    memory: Mutex<Memory>,
}

/// The operator's choices.
#[derive(Debug, Clone)]
pub(super) struct Settings {
    /// Where the annotation stands that pauses the whole cluster.
    pub(super) namespace: String,
    pub(super) provision: provision::Settings,
    pub(super) disruption: disrupt::Settings,
    pub(super) tempo: Tempo,
    pub(super) window: provision::Lengths,
    pub(super) snapshot: snapshot::Settings,
    /// Whether pods are told of their nodes.
    pub(super) nominates: bool,
}

/// What a leader knows that the API server does not. Whoever leads next starts without it: it costs calls and another
/// solve, nothing else.
#[derive(Debug, Default)]
pub(super) struct Memory {
    pub(super) refusals: Refusals,
    /// What the last list of instances said, by provider ID.
    pub(super) listings: BTreeMap<String, Listing>,
    pub(super) plan: Plan,
    /// How the last launches of each NodePool ended.
    pub(super) outcomes: BTreeMap<String, Outcomes>,
    /// The last rest of each NodePool whose consolidation did not deliver what it promised.
    pub(super) rests: BTreeMap<String, Rest>,
    /// Nodes that have not registered.
    pub(super) gates: Gates,
    /// Classes that can be launched with since a moment ago.
    pub(super) ready_classes: BTreeSet<String>,
    /// When pods last came to the node of a claim or left it, until that is written down on the claim.
    pub(super) moves: BTreeMap<String, Timestamp>,
    /// Nodes that a pod has left since nodes were last decided about.
    pub(super) left: BTreeSet<Arc<str>>,
    /// Versions that exist and may not have been seen yet, by kind and name.
    awaited: BTreeMap<(&'static str, String), (u64, Timestamp)>,
}

// === impl Settings ===

impl Settings {
    /// The choices of `options`.
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
            tempo,
            snapshot,
            reads_services: _,
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
            tempo: *tempo,
            window: *window,
            snapshot: snapshot.clone(),
            nominates,
        }
    }
}

// === impl Desk ===

impl<P: Provider> Desk<P> {
    pub(super) fn new(picture: Picture, provider: P, edge: Edge<P>, settings: Settings, metrics: Metrics) -> Arc<Self> {
        Arc::new(Self { picture, provider, edge, settings, metrics, memory: Mutex::default() })
    }

    pub(super) fn memory(&self) -> MutexGuard<'_, Memory> {
        self.memory.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Remembers what came of a launch.
    pub(super) fn remember_launch(&self, answer: &Result<Launched, LaunchError>, now: Timestamp) {
        let refused = match answer {
            Ok(launched) => launched.refused.as_slice(),
            Err(failed) => failed.error.refused(),
        };
        for one in refused {
            self.metrics.refused(&one.offering.to_string(), &one.refusal.to_string());
        }
        self.memory().refusals.heed(answer, now);
    }
}

// === impl Memory ===

impl Memory {
    /// Has claims say when pods last came to their nodes or left them, also where that is not written down yet.
    pub(super) fn tell_moves(&self, manifests: &mut Manifests) {
        for claim in &mut manifests.node_claims {
            let Some(at) = self.moves.get(&*claim.meta.name) else { continue };
            claim.last_pod_event = Some(whole_seconds(*at).to_string().into());
        }
    }

    /// Remembers which versions a look has left, and which one was no longer the newest.
    pub(super) fn note_written(&mut self, held: &Held, now: Timestamp) {
        self.awaited.retain(|_, (_, at)| now < after(*at, AWAITED));
        for (kind, name, version) in held.written() {
            if let Ok(version) = version.parse() {
                self.awaited.insert((kind, name.to_owned()), (version, now));
            }
        }
        if let Some((kind, name, version)) = held.conflict()
            && let Ok(version) = version.parse::<u64>()
        {
            self.awaited.insert((kind, name.to_owned()), (version.saturating_add(1), now));
        }
    }

    /// Tells if the picture shows an object as it was before a version that is known to exist. Versions of one cluster can be
    /// compared since Kubernetes 1.35 by contract, and always could.
    pub(super) fn is_behind(&self, kind: &'static str, name: &str, shown: Option<&str>, now: Timestamp) -> bool {
        let Some((awaited, at)) = self.awaited.get(&(kind, name.to_owned())) else { return false };
        let shown: Option<u64> = shown.and_then(|text| text.parse().ok());
        now < after(*at, AWAITED) && shown.is_some_and(|shown| shown < *awaited)
    }
}
