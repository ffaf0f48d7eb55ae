//! Counters of writes and of calls of the cloud, counted when these have ended.

use std::time::Duration;

use muster_api::labels;
use muster_cloud::{CloudError, LaunchError, Launched};
use muster_stages::lifecycle::Answers;
use muster_stages::step::{Call, Write};

use super::catalogue as names;
use super::{Controller, Metrics, label, mode_of, policy_of, pool_of};
use crate::edge::{Fate, Pause, WriteObserver};

/// Returns the kind of an error in Karpenter's metrics.
pub(super) fn kind_of(error: &CloudError) -> &'static str {
    match error {
        CloudError::NoCapacity { .. } => "InsufficientCapacityError",
        CloudError::NotFound { .. } => "NodeClaimNotFoundError",
        CloudError::BadClass { .. } => "NodeClassNotReadyError",
        _ => "unknown",
    }
}

/// Returns the method of a call in Karpenter's metrics, and its error.
fn told<'a>(call: &Call, answers: &'a Answers) -> (&'static str, Option<&'a CloudError>) {
    fn error<T>(answer: Option<&Result<T, CloudError>>) -> Option<&CloudError> {
        answer?.as_ref().err()
    }
    match call {
        Call::Launch(_) => {
            let answer: Option<&Result<Launched, LaunchError>> = answers.launch.as_ref();
            ("Create", answer.and_then(|answer| answer.as_ref().err()).map(|failed| &failed.error))
        }
        Call::Get(_) => ("Get", error(answers.instance.as_ref())),
        Call::Find(_) => ("List", error(answers.instance.as_ref())),
        Call::Console(_) => ("Console", error(answers.console.as_ref())),
        Call::Terminate(_) => ("Delete", error(answers.terminate.as_ref())),
        Call::Reboot(_) => ("Reboot", error(answers.reboot.as_ref())),
        Call::Tag { .. } => ("Tag", error(answers.tag.as_ref())),
    }
}

impl WriteObserver for Metrics {
    fn before<'a>(&'a self, _: &'a Write) -> Pause<'a> {
        Box::pin(std::future::ready(()))
    }

    fn called(&self, call: &Call, answers: &Answers, took: Duration) {
        let (method, error) = told(call, answers);
        self.cloud_call(Controller::Claims.name(), method, error, took);
        if let (Call::Reboot(provider_id), None) = (call, error) {
            let cluster = self.cluster_cache.read();
            let claim = cluster.claims_of(provider_id).next().and_then(|claim| claim.metadata.name.clone());
            self.observed.rebooted(claim.unwrap_or_default(), (self.clock)());
        }
        if let (Call::Terminate(provider_id), Some(error)) = (call, error)
            && !error.is_not_found()
        {
            let cluster = self.cluster_cache.read();
            let zone = cluster.claims_of(provider_id).next().map(|claim| label(claim, labels::ZONE));
            self.series.count(&names::CLOUD_TERMINATION_FAILURES, &[&zone.unwrap_or_default(), ""]);
        }
    }

    fn after<'a>(&'a self, write: &'a Write, fate: &'a Fate) -> Pause<'a> {
        self.series.count(&names::WRITES, &[write.name(), fate.name()]);
        match (write, fate) {
            (Write::ClaimMeta { change, .. }, Fate::Done) => self.disruption.marked(change),
            (Write::CreateClaim(claim), Fate::Done) => {
                let key = muster_api::annotations::NODECLAIM_MIN_VALUES_RELAXED;
                let relaxed = claim.metadata.annotations.as_ref().and_then(|all| all.get(key));
                let relaxed = relaxed.map_or("false", String::as_str);
                let pool = label(claim, labels::NODEPOOL);
                let reason = self.disruption.reason_of(claim);
                self.series.count(&names::NODECLAIMS_CREATED, &[&pool, &reason, relaxed]);
            }
            (Write::DeleteClaim { cause, name, .. }, Fate::Done) => self.disrupted(name, cause.name()),
            (Write::Evict(pod), fate) => {
                if let Some(code) = code_of(fate) {
                    self.series.count(&names::PODS_EVICTION_REQUESTS, &[code]);
                }
                if *fate == Fate::Done {
                    self.drained(pod.namespace.as_deref().unwrap_or_default(), &pod.name);
                }
            }
            (Write::PodDeletionCost { .. }, fate) => self.deletion_cost_written(fate),
            (Write::DeletePod { .. }, Fate::Done) => {
                self.series.count(&names::PODS_DRAINED, &["forceful_termination"]);
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

impl Metrics {
    /// Counts a deleted claim.
    fn disrupted(&self, name: &str, cause: &str) {
        let cluster = self.cluster_cache.read();
        let claim = cluster.claim(name);
        let pool = pool_of(name, claim);
        let policy = cluster.pool(&pool).map(|pool| policy_of(pool, cause)).unwrap_or_default();
        let capacity_type = claim.map(|claim| label(claim, labels::CAPACITY_TYPE)).unwrap_or_default();
        let mode = claim.map_or("", mode_of);
        self.series.count(&names::NODECLAIMS_DISRUPTED, &[cause, &pool, &capacity_type, policy, mode]);
        if let Some(claim) = claim.filter(|_| cause == "unhealthy") {
            self.unhealthy_disrupted(claim, &pool, &capacity_type);
        }
    }

    /// Counts an evicted pod, by the reason for which its node is disrupted.
    fn drained(&self, namespace: &str, name: &str) {
        let cluster = self.cluster_cache.read();
        let node = cluster.pod(&format!("{namespace}/{name}")).and_then(|pod| pod.pod.node.clone());
        let claim = node.and_then(|node| cluster.claim_of(cluster.node(&node)?));
        let condition = claim.and_then(|claim| {
            let reason = muster_api::conditions::nodeclaim::DISRUPTION_REASON;
            claim.status.as_ref()?.conditions.iter().find(|one| one.type_ == reason)
        });
        let reason = condition.map(|one| one.reason.to_ascii_lowercase()).unwrap_or_default();
        self.series.count(&names::PODS_DRAINED, &[&reason]);
    }
}

/// Returns the status code that an eviction was answered with, as far as it is known.
fn code_of(fate: &Fate) -> Option<&'static str> {
    Some(match fate {
        Fate::Done => "200",
        Fate::Gone => "404",
        Fate::Conflict => "409",
        Fate::Refused(why) if why.contains("more than one PodDisruptionBudget") => "500",
        Fate::Refused(why) if why.starts_with(crate::edge::BUDGET) => "429",
        Fate::Refused(_) => "400",
        Fate::Unavailable(_) => "503",
        Fate::Fenced => return None,
    })
}
