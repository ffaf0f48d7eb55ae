//! Facts about nodes that any replica writes into NodeClaims: what agents report, and what the cloud says of instances.
//!
//! ```text
//!   agents, queue, status checks ──► ClaimFacts ─┬─ ClusterCache, Answered: latest known version of the NodeClaim
//!                                                └─► merge patch at that version ──► API server ──► the leader decides
//! ```
//!
//! The leader's decisions are written by [`crate::edge`] with another field manager.

mod answered;

use std::sync::{Arc, Mutex, PoisonError};

use jiff::Timestamp;
use kube::api::{Patch, PatchParams};
use kube::{Api, Client};
use muster_api::NodeClaim;
use muster_cloud::NoticeKind;
use muster_gateway::Unavailable;
use muster_stages::lifecycle::interruption;
use muster_stages::step::{Step, Write};
use serde_json::{Value, json};
use tokio::sync::Semaphore;

use self::answered::Answered;
use crate::edge::{Fate, Recorder};
use crate::watch::ClusterCache;

/// Field manager of writes that record facts, not decisions, in `metadata.managedFields`.
pub const FIELD_MANAGER: &str = "muster-agents";

/// Maximum number of attempts to write a NodeClaim that others write too.
const TRIES: usize = 8;
/// Maximum number of concurrent writes about nodes: as many as the leader's concurrent checks. More of them would not
/// make the API server faster, and a node that waits writes its latest state when its turn comes.
const WRITES: usize = 48;

/// Maximum number of notices whose events are being published.
const PUBLISHING: usize = 1000;

/// Writer of facts, for the lifetime of this replica.
pub(crate) struct ClaimFacts {
    cluster_cache: ClusterCache,
    client: Client,
    recorder: Recorder,
    clock: fn() -> Timestamp,
    /// Held briefly, never across an await.
    answered: Mutex<Answered>,
    writes: Semaphore,
    publishing: Arc<Semaphore>,
}

/// Version of a NodeClaim that a write is based on.
pub(crate) struct ClaimVersion {
    pub(crate) name: String,
    pub(crate) uid: Option<String>,
    version: Option<String>,
}

/// Reason why a write was not done.
pub(crate) enum Lost {
    /// The NodeClaim has changed.
    Race,
    /// The NodeClaim is gone.
    Claim,
    /// The API server did not answer.
    Answer(Unavailable),
}

/// Result of a notice.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Heeded {
    /// No NodeClaim has the instance.
    Unknown,
    /// It was known already, is not believed, or the NodeClaim is being deleted.
    Ignored,
    /// It is news, and has been recorded.
    Recorded,
}

impl ClaimVersion {
    pub(crate) fn of(claim: &NodeClaim) -> Self {
        let meta = &claim.metadata;
        Self {
            name: meta.name.clone().unwrap_or_default(),
            uid: meta.uid.clone(),
            version: meta.resource_version.clone(),
        }
    }
}

impl ClaimFacts {
    pub(crate) fn new(
        cluster_cache: ClusterCache,
        client: Client,
        recorder: Recorder,
        clock: fn() -> Timestamp,
    ) -> Arc<Self> {
        let (answered, writes) = (Mutex::default(), Semaphore::new(WRITES));
        let publishing = Arc::new(Semaphore::new(PUBLISHING));
        Arc::new(Self { cluster_cache, client, recorder, clock, answered, writes, publishing })
    }

    /// Returns the cache of the cluster.
    pub(crate) fn cluster_cache(&self) -> &ClusterCache {
        &self.cluster_cache
    }

    /// Returns the current time.
    pub(crate) fn now(&self) -> Timestamp {
        (self.clock)()
    }

    /// Forgets old answers, as writes do too.
    pub(crate) fn forget(&self) {
        self.answered.lock().unwrap_or_else(PoisonError::into_inner).forget(self.now());
    }

    /// Applies `look` to the NodeClaim of an instance, as the cache has it.
    pub(crate) fn claim_of<T>(&self, instance: &str, look: impl FnOnce(&NodeClaim) -> T) -> Option<T> {
        let cluster = self.cluster_cache.read();
        let claim = cluster.claims_of_instance(instance).next()?;
        Some(look(claim))
    }

    fn claims(&self) -> Api<NodeClaim> {
        Api::all(self.client.clone())
    }

    /// Reads a NodeClaim from the API server.
    pub(crate) async fn fresh(&self, name: &str) -> Result<NodeClaim, Lost> {
        match self.claims().get_opt(name).await {
            Ok(Some(claim)) => Ok(claim),
            Ok(None) => Err(Lost::Claim),
            Err(error) => Err(Lost::Answer(unavailable(&error))),
        }
    }

    /// Patches a NodeClaim, if it still has the version that was seen.
    pub(crate) async fn change(&self, seen: &ClaimVersion, of_status: bool, mut body: Value) -> Result<(), Lost> {
        body["metadata"]["resourceVersion"] = json!(seen.version);
        let parameters = PatchParams { field_manager: Some(FIELD_MANAGER.to_owned()), ..PatchParams::default() };
        let (claims, patch) = (self.claims(), Patch::Merge(&body));
        let _turn = self.writes.acquire().await;
        let patched = match of_status {
            true => claims.patch_status(&seen.name, &parameters, &patch).await,
            false => claims.patch(&seen.name, &parameters, &patch).await,
        };
        match patched {
            Ok(claim) => {
                self.answered.lock().unwrap_or_else(PoisonError::into_inner).note(claim, self.now());
                Ok(())
            }
            Err(kube::Error::Api(status)) if status.code == 409 => Err(Lost::Race),
            Err(kube::Error::Api(status)) if status.code == 404 => Err(Lost::Claim),
            Err(error) => Err(Lost::Answer(unavailable(&error))),
        }
    }

    /// Sets the conditions that `wanted` returns in the status of a node's NodeClaim, whatever others write to it. It
    /// merges the whole list at the version that was seen, instead of applying only its own conditions: in the CRDs of
    /// other versions of Karpenter the list is atomic, and an apply would remove the others'. Returns true if it was
    /// written now.
    pub(crate) async fn have_said(
        &self,
        instance: &str,
        wanted: impl Fn(&NodeClaim) -> Option<Value> + Send,
    ) -> Result<bool, Unavailable> {
        let wanted = move |claim: &NodeClaim| Some(json!({"status": {"conditions": wanted(claim)?}}));
        self.have_written(instance, true, wanted).await
    }

    /// Merges the result of `wanted` into a node's NodeClaim, until it returns `None`. Returns true if it was written
    /// now.
    pub(crate) async fn have_written(
        &self,
        instance: &str,
        of_status: bool,
        wanted: impl Fn(&NodeClaim) -> Option<Value> + Send,
    ) -> Result<bool, Unavailable> {
        let look = |claim: &NodeClaim| wanted(claim).map(|change| (ClaimVersion::of(claim), change));
        let latest = |shown: &NodeClaim| {
            let answered = self.answered.lock().unwrap_or_else(PoisonError::into_inner);
            look(answered.latest(shown))
        };
        // Nothing is written if the instance's NodeClaim is gone or already has the change.
        let Some(Some(mut change)) = self.claim_of(instance, latest) else { return Ok(false) };
        for _ in 0..TRIES {
            let (seen, body) = &change;
            match self.change(seen, of_status, body.clone()).await {
                Ok(()) => return Ok(true),
                Err(Lost::Claim) => return Ok(false),
                Err(Lost::Answer(error)) => return Err(error),
                Err(Lost::Race) => {}
            }
            let fresh = match self.fresh(&seen.name).await {
                Ok(claim) if instance_of(&claim) == Some(instance) => claim,
                Ok(_) | Err(Lost::Claim | Lost::Race) => return Ok(false),
                Err(Lost::Answer(error)) => return Err(error),
            };
            let Some(again) = look(&fresh) else { return Ok(false) };
            change = again;
        }
        Err(Unavailable("the NodeClaim keeps changing".to_owned()))
    }

    /// Records a notice about an instance, if `believes` says so of its NodeClaim, and publishes its events.
    pub(crate) async fn heed(
        &self,
        instance: &str,
        kind: NoticeKind,
        given_at: Timestamp,
        believes: impl Fn(&NodeClaim) -> bool + Send + Sync,
    ) -> Result<Heeded, Unavailable> {
        let now = self.now();
        let given_at = given_at.min(now);
        let step = {
            let cluster = self.cluster_cache.read();
            let Some(shown) = cluster.claims_of_instance(instance).next() else { return Ok(Heeded::Unknown) };
            let answered = self.answered.lock().unwrap_or_else(PoisonError::into_inner);
            let claim = answered.latest(shown);
            if !believes(claim) {
                return Ok(Heeded::Ignored);
            }
            interruption::heed(claim, cluster.node_of(claim), kind, given_at)
        };
        if step.writes.is_empty() {
            return Ok(Heeded::Ignored);
        }
        let has_status = step.writes.iter().any(|write| matches!(write, Write::ClaimStatus { .. }));
        let interrupted = |claim: &NodeClaim| {
            if !believes(claim) {
                return None;
            }
            let step = interruption::heed(claim, None, kind, given_at);
            step.writes.into_iter().find_map(|write| match write {
                Write::ClaimStatus { status, .. } => Some(json!(status.conditions)),
                _ => None,
            })
        };
        let is_written = has_status && self.have_said(instance, interrupted).await?;
        if is_written || !has_status {
            self.publish(step, now);
        }
        if is_written {
            tracing::warn!(instance, notice = kind.name(), "the cloud gave notice of an instance");
        }
        Ok(if is_written || !has_status { Heeded::Recorded } else { Heeded::Ignored })
    }

    /// Publishes the events of a step. They are not waited for: that may take seconds, which the next notice does not
    /// have.
    fn publish(&self, step: Step, now: Timestamp) {
        let Ok(permit) = Arc::clone(&self.publishing).try_acquire_owned() else {
            tracing::warn!("an event was not published: too many are");
            return;
        };
        let recorder = self.recorder.clone();
        tokio::spawn(async move {
            for write in &step.writes {
                let Write::Event(event) = write else { continue };
                if let Fate::Refused(why) | Fate::Unavailable(why) = recorder.publish(event, now).await {
                    tracing::warn!(why, reason = event.reason, "an event was not published");
                }
            }
            drop(permit);
        });
    }
}

fn unavailable(error: &kube::Error) -> Unavailable {
    Unavailable(format!("the API server: {error}"))
}

/// Returns the instance ID of a NodeClaim.
pub(crate) fn instance_of(claim: &NodeClaim) -> Option<&str> {
    claim.status.as_ref()?.provider_id.as_deref()?.strip_prefix("aws:///")?.rsplit('/').next()
}
