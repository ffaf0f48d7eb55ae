//! Data and writes of the gateway: the cache of the cluster, the cloud, and the API server.

use std::collections::BTreeSet;
use std::convert::Infallible;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use jiff::Timestamp;
use kube::Client;
use muster_api::{NodeClaim, annotations, labels};
use muster_cloud::CapacityType;
use muster_gateway::{Finding, LogBundle, Notice, NoticeKind, Recorded, Report, Sources, Unavailable, Wanted};
use muster_link::sts::SignedRequest;
use muster_link::{Described, Enrolled, KeyHash, Launch, NodeIdentity, Pins};
use muster_stages::archive::Record;
use muster_stages::lifecycle::{agent_silence, whole_seconds};
use serde_json::{Value, json};
use tokio::time::sleep;

use super::boot::{self, Boots};
use super::launches::{enrolled, launch, takes_pods, written};
use super::records::Records;
use super::vouch::Vouch;
use super::{recorded, said};
use crate::facts::{ClaimFacts, ClaimVersion, Heeded, Lost};
use crate::watch::ClusterCache;

/// Maximum number of attempts to record an enrolment.
const TRIES: usize = 8;
/// Interval at which old entries are forgotten, even without writes.
const FORGETS: Duration = Duration::from_secs(20);

/// Sources of the gateway for the lifetime of this replica.
pub(super) struct Live {
    cluster_cache: ClusterCache,
    facts: Arc<ClaimFacts>,
    cloud: Arc<dyn Vouch>,
    clock: fn() -> Timestamp,
    /// Held briefly, never across an await.
    recorded: Mutex<recorded::Recorded>,
    /// Archive, which outlives the NodeClaims.
    records: Records,
    boots: Boots,
}

impl Live {
    pub(super) fn new(
        facts: Arc<ClaimFacts>,
        client: &Client,
        namespace: &str,
        cloud: Arc<dyn Vouch>,
        boots: Boots,
        clock: fn() -> Timestamp,
    ) -> Self {
        let (records, cluster_cache) = (Records::new(client, namespace), facts.cluster_cache().clone());
        Self { cluster_cache, facts, cloud, clock, recorded: Mutex::default(), records, boots }
    }

    /// Forgets old entries, as writes do too: after the last of thousands there may be no write for hours.
    pub(super) async fn forget(&self) -> Infallible {
        loop {
            sleep(FORGETS).await;
            let now = (self.clock)();
            self.recorded.lock().unwrap_or_else(PoisonError::into_inner).forget(now);
            self.facts.forget();
        }
    }

    /// Returns the enrolment of a NodeClaim, including one recorded just now.
    fn enrolled_at(&self, claim: &NodeClaim) -> Option<Enrolled> {
        let recorded = self.recorded.lock().unwrap_or_else(PoisonError::into_inner);
        recorded.latest(claim.metadata.uid.as_deref()?, enrolled(claim), (self.clock)())
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
        self.facts.claim_of(instance, |claim| self.enrolled_at(claim))?.map(|enrolled| enrolled.key)
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
        let look = |claim: &NodeClaim| (enrolled(claim).map(|it| it.key), ClaimVersion::of(claim));
        // The cache first: the API server refuses the write if it is behind.
        let mut seen = self.cluster_cache.read().claim(claim).map(look);
        for _ in 0..TRIES {
            let (key, of) = match seen.take() {
                Some((key, seen)) if key == before => (key, seen),
                _ => match self.facts.fresh(claim).await {
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
            match self.facts.change(&of, false, json!({"metadata": {"annotations": all}})).await {
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
        let is_written = self.facts.have_said(&node.instance, wanted).await?;
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
        let Some(record) = self.facts.claim_of(&node.instance, record) else { return Wanted::No };
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
        if let Err(error) = self.facts.have_written(&node.instance, false, wanted).await {
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
        let of = |claim: &NodeClaim| capacity_type(claim) == Some(CapacityType::Reserved.name());
        let is_reserved = self.facts.claim_of(&node.instance, of) == Some(true);
        let kind = match is_reserved {
            true => muster_cloud::NoticeKind::CapacityReservationInterrupted,
            false => muster_cloud::NoticeKind::SpotInterrupted,
        };
        // EC2 takes nothing back that runs on demand, so only a liar says so.
        match self.facts.heed(&node.instance, kind, (self.clock)(), may_be_interrupted).await {
            Ok(Heeded::Recorded) => {
                tracing::warn!(
                    instance = node.instance,
                    notice = notice.text,
                    "an agent reports the interruption of its instance"
                );
            }
            Ok(Heeded::Ignored | Heeded::Unknown) => {}
            Err(error) => tracing::warn!(%error, instance = node.instance, "an interruption cannot be recorded"),
        }
    }

    async fn bundle(&self, node: &NodeIdentity, bundle: LogBundle) {
        self.records.bundle(&node.instance, &bundle.content).await;
    }
}

fn capacity_type(claim: &NodeClaim) -> Option<&str> {
    claim.metadata.labels.as_ref()?.get(labels::CAPACITY_TYPE).map(String::as_str)
}

/// Returns true if EC2 may reclaim the instance: of spot capacity, or of a reservation that can be interrupted.
fn may_be_interrupted(claim: &NodeClaim) -> bool {
    capacity_type(claim).is_some_and(|it| it != CapacityType::OnDemand.name())
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
