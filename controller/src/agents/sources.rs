//! Data and writes of the gateway: the cache of the cluster, the cloud, and the API server.

use std::collections::BTreeSet;
use std::convert::Infallible;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use jiff::Timestamp;
use kube::api::{Patch, PatchParams};
use kube::{Api, Client};
use muster_api::conditions::nodeclaim;
use muster_api::{NodeClaim, annotations, labels};
use muster_cloud::CapacityType;
use muster_gateway::{Finding, LogBundle, Notice, NoticeKind, Recorded, Report, Sources, Unavailable, Wanted};
use muster_link::sts::SignedRequest;
use muster_link::{Described, Enrolled, KeyHash, Launch, NodeIdentity, Pins};
use muster_stages::archive::Record;
use muster_stages::lifecycle::{agent_silence, condition, interruption, whole_seconds};
use muster_stages::step::Write;
use serde_json::{Value, json};
use tokio::sync::Semaphore;
use tokio::time::sleep;

use super::boot::{self, Boots};
use super::launches::{enrolled, instance_of, launch, takes_pods, written};
use super::records::Records;
use super::vouch::Vouch;
use super::{FIELD_MANAGER, answered, recorded, said};
use crate::watch::ClusterCache;

/// Maximum number of attempts to write a NodeClaim that others write too.
const TRIES: usize = 8;
/// Maximum number of concurrent writes about nodes: as many as the leader's concurrent checks. More of them would not
/// make the API server faster, and a node that waits writes its latest state when its turn comes.
const WRITES: usize = 48;
/// Interval at which old entries are forgotten, even without writes.
const FORGETS: Duration = Duration::from_secs(20);

/// Sources of the gateway for the lifetime of this replica.
pub(super) struct Live {
    cluster_cache: ClusterCache,
    client: Client,
    cloud: Arc<dyn Vouch>,
    clock: fn() -> Timestamp,
    /// Held briefly, never across an await.
    recorded: Mutex<recorded::Recorded>,
    /// Held briefly, never across an await.
    answered: Mutex<answered::Answered>,
    writes: Semaphore,
    /// Archive, which outlives the NodeClaims.
    records: Records,
    boots: Boots,
}

/// Version of a NodeClaim that a write is based on.
struct Seen {
    name: String,
    uid: Option<String>,
    version: Option<String>,
}

/// Reason why a write was not done.
enum Lost {
    /// The NodeClaim has changed.
    Race,
    /// The NodeClaim is gone.
    Claim,
    /// The API server did not answer.
    Answer(Unavailable),
}

impl Seen {
    fn of(claim: &NodeClaim) -> Self {
        let meta = &claim.metadata;
        Self {
            name: meta.name.clone().unwrap_or_default(),
            uid: meta.uid.clone(),
            version: meta.resource_version.clone(),
        }
    }
}

impl Live {
    pub(super) fn new(
        cluster_cache: ClusterCache,
        client: Client,
        namespace: &str,
        cloud: Arc<dyn Vouch>,
        boots: Boots,
        clock: fn() -> Timestamp,
    ) -> Self {
        let records = Records::new(&client, namespace);
        let (recorded, answered) = (Mutex::default(), Mutex::default());
        Self { cluster_cache, client, cloud, clock, recorded, answered, writes: Semaphore::new(WRITES), records, boots }
    }

    /// Forgets old entries, as writes do too: after the last of thousands there may be no write for hours.
    pub(super) async fn forget(&self) -> Infallible {
        loop {
            sleep(FORGETS).await;
            let now = (self.clock)();
            self.recorded.lock().unwrap_or_else(PoisonError::into_inner).forget(now);
            self.answered.lock().unwrap_or_else(PoisonError::into_inner).forget(now);
        }
    }

    /// Applies `look` to the NodeClaim of an instance, as the cache has it.
    fn claim_of<T>(&self, instance: &str, look: impl FnOnce(&NodeClaim) -> T) -> Option<T> {
        let cluster = self.cluster_cache.read();
        let claim = cluster.claims_of_instance(instance).next()?;
        Some(look(claim))
    }

    /// Returns the enrolment of a NodeClaim, including one recorded just now.
    fn enrolled_at(&self, claim: &NodeClaim) -> Option<Enrolled> {
        let recorded = self.recorded.lock().unwrap_or_else(PoisonError::into_inner);
        recorded.latest(claim.metadata.uid.as_deref()?, enrolled(claim), (self.clock)())
    }

    fn claims(&self) -> Api<NodeClaim> {
        Api::all(self.client.clone())
    }

    /// Reads a NodeClaim from the API server.
    async fn fresh(&self, name: &str) -> Result<NodeClaim, Lost> {
        match self.claims().get_opt(name).await {
            Ok(Some(claim)) => Ok(claim),
            Ok(None) => Err(Lost::Claim),
            Err(error) => Err(Lost::Answer(unavailable(&error))),
        }
    }

    /// Patches a NodeClaim, if it still has the version that was seen.
    async fn change(&self, seen: &Seen, of_status: bool, mut body: Value) -> Result<(), Lost> {
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
                self.answered.lock().unwrap_or_else(PoisonError::into_inner).note(claim, (self.clock)());
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
    async fn have_said(
        &self,
        instance: &str,
        wanted: impl Fn(&NodeClaim) -> Option<Value> + Send,
    ) -> Result<bool, Unavailable> {
        let wanted = move |claim: &NodeClaim| Some(json!({"status": {"conditions": wanted(claim)?}}));
        self.have_written(instance, true, wanted).await
    }

    /// Merges the result of `wanted` into a node's NodeClaim, until it returns `None`. Returns true if it was written
    /// now.
    async fn have_written(
        &self,
        instance: &str,
        of_status: bool,
        wanted: impl Fn(&NodeClaim) -> Option<Value> + Send,
    ) -> Result<bool, Unavailable> {
        let look = |claim: &NodeClaim| wanted(claim).map(|change| (Seen::of(claim), change));
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
}

impl Sources for Live {
    async fn launch(&self, instance: &str) -> Result<Option<Launch>, Unavailable> {
        let (known, class) = {
            let cluster = self.cluster_cache.read();
            let Some(claim) = cluster.claims_of_instance(instance).next() else { return Ok(None) };
            let is_ready = cluster.node_of(claim).is_some_and(takes_pods);
            let Some(known) = launch(claim, BTreeSet::new(), is_ready) else { return Ok(None) };
            (Launch { enrolled: self.enrolled_at(claim), ..known }, cluster.class(&claim.spec.node_class_ref).cloned())
        };
        let roles = match class {
            Some(class) => self.cloud.roles(&class).await?,
            None => BTreeSet::new(),
        };
        Ok(Some(Launch { roles, ..known }))
    }

    fn enrolled(&self, instance: &str) -> Option<KeyHash> {
        self.claim_of(instance, |claim| self.enrolled_at(claim))?.map(|enrolled| enrolled.key)
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
        let look = |claim: &NodeClaim| (enrolled(claim).map(|it| it.key), Seen::of(claim));
        // The cache first: the API server refuses the write if it is behind.
        let mut seen = self.cluster_cache.read().claim(claim).map(look);
        for _ in 0..TRIES {
            let (key, of) = match seen.take() {
                Some((key, seen)) if key == before => (key, seen),
                _ => match self.fresh(claim).await {
                    Ok(fresh) => look(&fresh),
                    Err(Lost::Answer(error)) => return Err(error),
                    Err(Lost::Claim | Lost::Race) => return Ok(Recorded::Changed),
                },
            };
            // The decision was about the NodeClaim in the cache; one of that name may be another by now.
            let uid = self.cluster_cache.read().claim(claim).and_then(|it| it.metadata.uid.clone());
            if uid.is_none() || uid != of.uid || key != before {
                return Ok(Recorded::Changed);
            }
            let mut all = json!({ annotations::AGENT_KEY: written(wanted) });
            if uses_permission {
                all[annotations::AGENT_ENROL_AGAIN] = Value::Null;
            }
            match self.change(&of, false, json!({"metadata": {"annotations": all}})).await {
                Ok(()) => {
                    let mut recorded = self.recorded.lock().unwrap_or_else(PoisonError::into_inner);
                    recorded.note(&uid.unwrap_or_default(), *wanted, (self.clock)());
                    return Ok(Recorded::Written);
                }
                Err(Lost::Answer(error)) => return Err(error),
                Err(Lost::Claim) => return Ok(Recorded::Changed),
                Err(Lost::Race) => {}
            }
        }
        Err(Unavailable("the NodeClaim keeps changing".to_owned()))
    }

    async fn keep(&self, node: &NodeIdentity, report: Report) -> Result<(), Unavailable> {
        let now = (self.clock)();
        let booted = Mutex::new(None);
        let wanted = |claim: &NodeClaim| {
            let conditions = said::conditions(claim, &report, now)?;
            let image = boot::first_boot(claim, &conditions, now).map(ToOwned::to_owned);
            *booted.lock().unwrap_or_else(PoisonError::into_inner) = image;
            Some(json!(conditions))
        };
        let is_written = self.have_said(&node.instance, wanted).await?;
        // Once: the same report again is not written.
        if let Some(code) = report.verdict.as_ref().filter(|_| is_written) {
            tracing::warn!(instance = node.instance, code, "an agent reports that its node cannot join");
        }
        // Counted by the replica that has written it, so that two replicas do not count a boot twice.
        if let Some(image) = booted.into_inner().unwrap_or_else(PoisonError::into_inner).filter(|_| is_written) {
            self.boots.note(&image, &report.phases);
        }
        Ok(())
    }

    async fn wants_logs(&self, node: &NodeIdentity, fatal: &Finding) -> Wanted {
        let now = (self.clock)();
        let record = |claim: &NodeClaim| Record::new(claim, &fatal.code, &said::verdict(fatal), now);
        let Some(record) = self.claim_of(&node.instance, record) else { return Wanted::No };
        self.records.note(&node.instance, record, now).await
    }

    async fn greeted(&self, node: &NodeIdentity, pins: Pins) {
        let (said, now) = (pins.to_string(), (self.clock)());
        let wanted = |claim: &NodeClaim| {
            let written = claim.metadata.annotations.as_ref().and_then(|all| all.get(annotations::AGENT_PINS));
            let mut news = serde_json::Map::new();
            if !pins.is_empty() && written != Some(&said) {
                news.insert(annotations::AGENT_PINS.to_owned(), json!(said));
            }
            if agent_silence::is_worth_noting(claim, now) {
                news.insert(annotations::AGENT_HEARD.to_owned(), json!(whole_seconds(now).to_string()));
            }
            (!news.is_empty()).then(|| json!({"metadata": {"annotations": news}}))
        };
        // The agent repeats it on the next connection.
        if let Err(error) = self.have_written(&node.instance, false, wanted).await {
            tracing::warn!(
                %error,
                instance = node.instance,
                "the connection of an agent cannot be recorded"
            );
        }
    }

    async fn notice(&self, node: &NodeIdentity, notice: Notice) {
        // Rebalance recommendations are ignored, as by Karpenter.
        if notice.kind != NoticeKind::Interruption {
            return;
        }
        let now = (self.clock)();
        let interrupted = |claim: &NodeClaim| {
            // EC2 takes nothing back that runs on demand, so only a liar says so.
            if !may_be_interrupted(claim) {
                return None;
            }
            // Only the condition: events belong to decisions, which the leader makes.
            let step = interruption::heed(claim, interruption::Notice::Spot, now);
            step.writes.into_iter().find_map(|write| match write {
                Write::ClaimStatus { status, .. } => Some(json!(status.conditions)),
                _ => None,
            })
        };
        let is_news =
            |claim: &NodeClaim| may_be_interrupted(claim) && condition(claim, nodeclaim::INTERRUPTED).is_none();
        if self.claim_of(&node.instance, is_news) == Some(true) {
            tracing::warn!(
                instance = node.instance,
                notice = notice.text,
                "an agent reports the interruption of its instance"
            );
        }
        if let Err(error) = self.have_said(&node.instance, interrupted).await {
            tracing::warn!(%error, instance = node.instance, "an interruption cannot be recorded");
        }
    }

    async fn bundle(&self, node: &NodeIdentity, bundle: LogBundle) {
        self.records.bundle(&node.instance, &bundle.content).await;
    }
}

/// Returns true if EC2 may reclaim the instance: of spot capacity, or of a reservation that can be interrupted.
fn may_be_interrupted(claim: &NodeClaim) -> bool {
    let capacity_type = claim.metadata.labels.as_ref().and_then(|all| all.get(labels::CAPACITY_TYPE));
    capacity_type.is_some_and(|it| it != CapacityType::OnDemand.name())
}

fn unavailable(error: &kube::Error) -> Unavailable {
    Unavailable(format!("the API server: {error}"))
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;

    #[test]
    fn a_notice_of_interruption_is_believed_of_what_ec2_takes_back() {
        let of = |capacity_type: Option<&str>| {
            let labels: Option<BTreeMap<String, String>> =
                capacity_type.map(|it| [(labels::CAPACITY_TYPE.to_owned(), it.to_owned())].into());
            let claim: NodeClaim = serde_json::from_value(json!({
                "apiVersion": "karpenter.sh/v1", "kind": "NodeClaim",
                "metadata": {"name": "a", "labels": labels.unwrap_or_default()},
                "spec": {"nodeClassRef": {"group": "karpenter.k8s.aws", "kind": "EC2NodeClass", "name": "a"}, "requirements": []},
            }))
            .unwrap();
            may_be_interrupted(&claim)
        };
        assert_eq!([of(Some("spot")), of(Some("reserved"))], [true, true]);
        assert_eq!([of(Some("on-demand")), of(None)], [false, false], "nobody takes it back");
    }
}
