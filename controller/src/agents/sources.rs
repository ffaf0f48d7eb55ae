//! What the gateway asks and writes: the picture of the cluster, the cloud, and the API server.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use jiff::{SignedDuration, Timestamp};
use kube::api::{Patch, PatchParams};
use kube::{Api, Client};
use muster_api::conditions::nodeclaim;
use muster_api::{NodeClaim, annotations};
use muster_gateway::{LogBundle, Notice, NoticeKind, Recorded, Report, Sources, Unavailable};
use muster_link::sts::SignedRequest;
use muster_link::{Described, Enrolled, KeyHash, Launch, NodeIdentity, Pins};
use serde_json::{Value, json};

use super::launches::{enrolled, instance_of, launch, takes_pods, written};
use super::vouch::Vouch;
use super::{FIELD_MANAGER, said};
use crate::lifecycle::{condition, interruption, silence, whole_seconds};
use crate::step::Write;
use crate::watch::Picture;

/// Looks and writes until a claim that others write to as well has been written to.
const TRIES: usize = 8;
/// How long the picture may be behind what this replica has recorded.
const LAG: SignedDuration = SignedDuration::from_secs(60);

/// What the gateway asks, for the life of this replica.
pub(super) struct Live {
    picture: Picture,
    client: Client,
    cloud: Arc<dyn Vouch>,
    clock: fn() -> Timestamp,
    /// Held for moments, never while anything is awaited.
    known: Mutex<Known>,
}

/// What saves looking. All of it is found again by whoever has it not.
#[derive(Default)]
struct Known {
    /// Names of claims by instance.
    claims: HashMap<String, String>,
    /// By UID of the claim: what was recorded here a moment ago, which the picture may not show yet. Not by name, which the next claim
    /// for the same pods may have.
    recorded: BTreeMap<String, Enrolled>,
}

/// A write that others have come before.
enum Lost {
    /// The claim has changed.
    Race,
    /// It is gone.
    Claim,
    /// There is no answer.
    Answer(Unavailable),
}

impl Live {
    pub(super) fn new(picture: Picture, client: Client, cloud: Arc<dyn Vouch>, clock: fn() -> Timestamp) -> Self {
        Self { picture, client, cloud, clock, known: Mutex::default() }
    }

    fn known(&self) -> MutexGuard<'_, Known> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The claim of an instance, as the picture has it, and whether its Node takes pods.
    fn claim_of(&self, instance: &str) -> Option<(NodeClaim, bool)> {
        let cluster = self.picture.glance();
        let is_its = |claim: &&NodeClaim| instance_of(claim) == Some(instance);
        let remembered = self.known().claims.get(instance).cloned();
        let claim = remembered.and_then(|name| cluster.claim(&name)).filter(is_its);
        let claim = claim.or_else(|| cluster.claims().find(is_its))?;
        let name = claim.metadata.name.clone()?;
        let id = claim.status.as_ref()?.provider_id.as_deref()?;
        let is_ready = cluster.nodes_of(id).any(takes_pods);
        let mut known = self.known();
        if known.claims.len() > 2 * cluster.claims().len() + 64 {
            known.claims.clear();
        }
        known.claims.insert(instance.to_owned(), name);
        Some((claim.clone(), is_ready))
    }

    /// What stands at a claim, or was written there a moment ago.
    fn enrolled_at(&self, claim: &NodeClaim) -> Option<Enrolled> {
        let (shown, now) = (enrolled(claim), (self.clock)());
        let mut known = self.known();
        known.recorded.retain(|_, one| now.duration_since(one.at) < LAG);
        let recorded = known.recorded.get(claim.metadata.uid.as_deref()?).copied();
        match (shown, recorded) {
            (Some(shown), Some(recorded)) if recorded.at <= shown.at => Some(shown),
            (shown, recorded) => recorded.or(shown),
        }
    }

    fn claims(&self) -> Api<NodeClaim> {
        Api::all(self.client.clone())
    }

    /// A claim as the API server has it now.
    async fn fresh(&self, name: &str) -> Result<NodeClaim, Lost> {
        match self.claims().get_opt(name).await {
            Ok(Some(claim)) => Ok(claim),
            Ok(None) => Err(Lost::Claim),
            Err(error) => Err(Lost::Answer(unavailable(&error))),
        }
    }

    /// Changes a claim, if it is still the one that was seen.
    async fn change(&self, seen: &NodeClaim, of_status: bool, mut body: Value) -> Result<(), Lost> {
        let (name, meta) = (seen.metadata.name.as_deref().unwrap_or_default(), &seen.metadata);
        body["metadata"]["resourceVersion"] = json!(meta.resource_version);
        let parameters = PatchParams { field_manager: Some(FIELD_MANAGER.to_owned()), ..PatchParams::default() };
        let (claims, patch) = (self.claims(), Patch::Merge(&body));
        let patched = match of_status {
            true => claims.patch_status(name, &parameters, &patch).await,
            false => claims.patch(name, &parameters, &patch).await,
        };
        match patched {
            Ok(_) => Ok(()),
            Err(kube::Error::Api(status)) if status.code == 409 => Err(Lost::Race),
            Err(kube::Error::Api(status)) if status.code == 404 => Err(Lost::Claim),
            Err(error) => Err(Lost::Answer(unavailable(&error))),
        }
    }

    /// Has the status of a node's claim say what `wanted` makes of it, whoever else writes to it. A merge of the whole list with the
    /// version that was seen, and not an apply of our conditions alone: in the definitions of other versions of Karpenter the list
    /// is one value, and an apply would take the others' away.
    async fn have_said(
        &self,
        instance: &str,
        wanted: impl Fn(&NodeClaim) -> Option<Value> + Send,
    ) -> Result<(), Unavailable> {
        // What was launched and is gone needs to be told nothing.
        let Some((mut claim, _)) = self.claim_of(instance) else { return Ok(()) };
        for _ in 0..TRIES {
            let Some(conditions) = wanted(&claim) else { return Ok(()) };
            match self.change(&claim, true, json!({"status": {"conditions": conditions}})).await {
                Ok(()) | Err(Lost::Claim) => return Ok(()),
                Err(Lost::Answer(error)) => return Err(error),
                Err(Lost::Race) => {}
            }
            claim = match self.fresh(claim.metadata.name.as_deref().unwrap_or_default()).await {
                Ok(claim) if instance_of(&claim) == Some(instance) => claim,
                Ok(_) | Err(Lost::Claim | Lost::Race) => return Ok(()),
                Err(Lost::Answer(error)) => return Err(error),
            };
        }
        Err(Unavailable("the NodeClaim changes all the time".to_owned()))
    }
}

impl Sources for Live {
    async fn launch(&self, instance: &str) -> Result<Option<Launch>, Unavailable> {
        let Some((claim, is_ready)) = self.claim_of(instance) else { return Ok(None) };
        // Asked for at every message: only an enrolment needs the roles.
        let enrolled = self.enrolled_at(&claim);
        let Some(known) = launch(&claim, BTreeSet::new(), is_ready) else { return Ok(None) };
        let class = self.picture.glance().class(&claim.spec.node_class_ref).cloned();
        let roles = match class {
            Some(class) => self.cloud.roles(&class).await?,
            None => BTreeSet::new(),
        };
        Ok(Some(Launch { enrolled, roles, ..known }))
    }

    async fn describe(&self, instance: &str) -> Result<Option<Described>, Unavailable> {
        self.cloud.describe(instance).await
    }

    async fn ask_sts(&self, request: &SignedRequest) -> Result<(u16, Vec<u8>), Unavailable> {
        self.cloud.ask_sts(request).await
    }

    async fn record(
        &self,
        claim: &str,
        before: Option<KeyHash>,
        wanted: &Enrolled,
        uses_permission: bool,
    ) -> Result<Recorded, Unavailable> {
        for _ in 0..TRIES {
            let seen = match self.fresh(claim).await {
                Ok(seen) => seen,
                Err(Lost::Answer(error)) => return Err(error),
                Err(Lost::Claim | Lost::Race) => return Ok(Recorded::Changed),
            };
            // What was decided about is the claim in the picture: one of that name may be another by now.
            let uid = self.picture.glance().claim(claim).and_then(|it| it.metadata.uid.clone());
            if uid.is_none() || uid != seen.metadata.uid || enrolled(&seen).map(|it| it.key) != before {
                return Ok(Recorded::Changed);
            }
            let mut all = json!({ annotations::AGENT_KEY: written(wanted) });
            if uses_permission {
                all[annotations::AGENT_ENROL_AGAIN] = Value::Null;
            }
            match self.change(&seen, false, json!({"metadata": {"annotations": all}})).await {
                Ok(()) => {
                    self.known().recorded.extend(uid.map(|uid| (uid, *wanted)));
                    return Ok(Recorded::Written);
                }
                Err(Lost::Answer(error)) => return Err(error),
                Err(Lost::Claim) => return Ok(Recorded::Changed),
                Err(Lost::Race) => {}
            }
        }
        Err(Unavailable("the NodeClaim changes all the time".to_owned()))
    }

    async fn keep(&self, node: &NodeIdentity, report: Report) -> Result<(), Unavailable> {
        let now = (self.clock)();
        if let Some(code) = &report.verdict {
            tracing::warn!(instance = node.instance, code, "a node says that it cannot become one");
        }
        self.have_said(&node.instance, |claim| Some(json!(said::conditions(claim, &report, now)?))).await
    }

    async fn greeted(&self, node: &NodeIdentity, pins: Pins) {
        let Some((mut claim, _)) = self.claim_of(&node.instance) else { return };
        let (said, now) = (pins.to_string(), (self.clock)());
        for _ in 0..TRIES {
            let written = claim.metadata.annotations.as_ref().and_then(|all| all.get(annotations::AGENT_PINS));
            let mut news = serde_json::Map::new();
            if !pins.is_empty() && written != Some(&said) {
                news.insert(annotations::AGENT_PINS.to_owned(), json!(said));
            }
            if silence::is_worth_noting(&claim, now) {
                news.insert(annotations::AGENT_HEARD.to_owned(), json!(whole_seconds(now).to_string()));
            }
            if news.is_empty() {
                return;
            }
            match self.change(&claim, false, json!({"metadata": {"annotations": news}})).await {
                Ok(()) | Err(Lost::Claim) => return,
                // It is said again on the next connection.
                Err(Lost::Answer(error)) => {
                    tracing::warn!(%error, instance = node.instance, "that a node is connected, and whom it believes, cannot be written down");
                    return;
                }
                Err(Lost::Race) => {}
            }
            match self.fresh(claim.metadata.name.as_deref().unwrap_or_default()).await {
                Ok(now) if instance_of(&now) == Some(node.instance.as_str()) => claim = now,
                _ => return,
            }
        }
    }

    async fn notice(&self, node: &NodeIdentity, notice: Notice) {
        // A recommendation is none to act on, as with Karpenter.
        if notice.kind != NoticeKind::Interruption {
            return;
        }
        let now = (self.clock)();
        let interrupted = |claim: &NodeClaim| {
            // The condition alone: events are decisions', and the leader's.
            let step = interruption::heed(claim, interruption::Notice::Spot, now);
            step.writes.into_iter().find_map(|write| match write {
                Write::ClaimStatus { status, .. } => Some(json!(status.conditions)),
                _ => None,
            })
        };
        let is_news =
            self.claim_of(&node.instance).is_some_and(|(it, _)| condition(&it, nodeclaim::INTERRUPTED).is_none());
        if is_news {
            tracing::warn!(
                instance = node.instance,
                notice = notice.text,
                "a node says that its instance is taken back"
            );
        }
        if let Err(error) = self.have_said(&node.instance, interrupted).await {
            tracing::warn!(%error, instance = node.instance, "an interruption cannot be written down");
        }
    }

    async fn bundle(&self, node: &NodeIdentity, bundle: LogBundle) {
        // None is asked for: an agent that sends one all the same is a newer one.
        tracing::debug!(instance = node.instance, bytes = bundle.content.len(), "a log bundle is not kept");
    }
}

fn unavailable(error: &kube::Error) -> Unavailable {
    Unavailable(format!("the API server: {error}"))
}
