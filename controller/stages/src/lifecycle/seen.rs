//! Observed state that stages work on.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use jiff::Timestamp;
use k8s_openapi::api::core::v1::Pod;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, ObjectMeta};
use muster_api::{NodeClaim, NodeClassReference, NodePool, annotations, taints};
use muster_cloud::{Alternative, CapacityType, CloudError, Instance, InstanceState, LaunchError, Launched, Overlaid};

use super::pause::Pause;
use crate::node::Node;
use crate::step::{Event, EventType, Subject};

/// Observed state of one NodeClaim.
#[derive(Debug, Clone)]
pub struct Seen<'a> {
    /// The claim.
    pub claim: &'a NodeClaim,
    /// Its NodePool, if it exists.
    pub pool: Option<&'a NodePool>,
    /// Its NodeClass.
    pub class: &'a Class,
    /// Operations that an operator has paused in the whole cluster.
    pub pause: Pause,
    /// Nodes with the claim's provider ID, by name; of a registered claim only its own, while that exists.
    pub nodes: Vec<&'a Node>,
    /// All Nodes with the name expected for the claim's instance but with another provider ID or none.
    pub namesakes: Vec<&'a Node>,
    /// Reason why the registration of an existing Node is held, if it is.
    pub registration_hold: Option<&'a str>,
    /// DRA drivers that have published their devices of the Node.
    pub device_drivers: &'a BTreeSet<String>,
    /// Pods bound to the Nodes, by namespace and name. May be empty unless the claim or a Node is being deleted,
    /// or rebooted.
    pub residents: &'a [Resident],
    /// Pending pods planned on the Node, as far as the plan is known, by namespace and name. May be empty unless the
    /// Node's agent has reported a fatal verdict.
    pub expected: &'a [Subject],
    /// Volumes attached to the Nodes.
    pub attachments: &'a [Attachment],
    /// Alternatives for the launch, cheapest first, without those refused recently ([`muster_cloud::alternatives`],
    /// [`muster_cloud::Refusals::sieve`]).
    pub alternatives: &'a [Alternative],
    /// Changes of NodeOverlays to these.
    pub overlaid: &'a Overlaid,
    /// State of the claim's instance in the last listing.
    pub listing: Option<Listing>,
    /// Results of the calls of earlier steps.
    pub answers: Answers,
}

/// A NodeClass, as evaluated by the controller of its cloud.
#[derive(Debug, Clone, PartialEq)]
pub struct Class {
    /// Its group, kind and name.
    pub reference: NodeClassReference,
    /// Its metadata.
    pub meta: ObjectMeta,
    /// Its conditions.
    pub conditions: Vec<Condition>,
    /// Readiness for launches.
    pub readiness: Readiness,
    /// Hash of the fields that determine how instances are launched.
    pub hash: String,
    /// Defect of its user data that keeps nodes from joining, if known before the first launch.
    pub bootstrap_fault: Option<String>,
    /// True if its user data passes the taints of the claim to the kubelet, so that the Node registers with them.
    pub hands_over_taints: bool,
    /// True if its cloud supports tags.
    pub tags_instances: bool,
    /// True if its cloud can reboot instances.
    pub reboots_instances: bool,
    /// Ends of the capacity blocks that it selects, by ID.
    pub block_ends: BTreeMap<String, Timestamp>,
}

/// Readiness of a class for launches.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Readiness {
    /// The class does not exist.
    Missing,
    /// The class is being deleted.
    Terminating,
    /// Instances cannot be launched, for this reason.
    NotReady(String),
    /// The class has not been evaluated since its last change.
    Unknown,
    /// Instances can be launched.
    Ready,
}

/// A pod bound to a Node.
#[derive(Debug, Clone, PartialEq)]
pub struct Resident {
    /// The pod.
    pub pod: Subject,
    /// Name of its Node.
    pub node: String,
    /// True if it has a system-critical priority class.
    pub is_critical: bool,
    /// True if a DaemonSet owns it.
    pub is_daemon: bool,
    /// True if it is a mirror pod, i.e. a static pod of the kubelet.
    pub is_mirror: bool,
    /// True if it has succeeded or failed.
    pub is_terminal: bool,
    /// True if it tolerates the taint of nodes that are being disrupted.
    pub tolerates_disruption: bool,
    /// Hold of the pod on its node (`karpenter.sh/do-not-disrupt`).
    pub hold: DisruptionBlocker,
    /// End of its grace period, if it is being deleted.
    pub deleted_at: Option<Timestamp>,
    /// Termination grace period.
    pub grace: Duration,
    /// Names of the PersistentVolumes that it uses.
    pub volumes: Vec<String>,
}

/// Hold of a pod on its node, which blocks disruption.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DisruptionBlocker {
    /// No hold.
    None,
    /// The hold ends at this time.
    Until(Timestamp),
    /// The hold lasts as long as the pod runs.
    Forever,
}

/// A volume attached to a Node.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Attachment {
    /// Name of the Node.
    pub node: String,
    /// Name of the PersistentVolume.
    pub volume: String,
}

/// State of one instance, from a listing of all instances or a query for this one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Listing {
    /// Time of the request.
    pub at: Timestamp,
    /// True if the instance existed and had not been terminated.
    pub has_instance: bool,
    /// Capacity type that it was billed as, if it is known.
    pub capacity_type: Option<CapacityType>,
}

/// Results of the calls of earlier steps, see [`super::Step`].
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Answers {
    /// Result of the launch.
    pub launch: Option<Result<Launched, LaunchError>>,
    /// Result of the query for the instance.
    pub instance: Option<Result<Instance, CloudError>>,
    /// Result of the query for its console output.
    pub console: Option<Result<Option<String>, CloudError>>,
    /// Result of its termination.
    pub terminate: Option<Result<(), CloudError>>,
    /// Result of its reboot.
    pub reboot: Option<Result<(), CloudError>>,
    /// Result of tagging it.
    pub tag: Option<Result<(), CloudError>>,
    /// Results of evictions and of forced deletions, by UID of the pod.
    pub evictions: BTreeMap<String, Eviction>,
}

/// Result of an eviction.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Eviction {
    /// The pod is being deleted or gone, or another pod has its name.
    Done,
    /// The same, by a deletion that budgets do not hold back.
    Forced,
    /// A PodDisruptionBudget does not allow the eviction now (429); the message names it.
    Blocked(String),
    /// More than one PodDisruptionBudget selects the pod, which the API server rejects (500).
    Ambiguous(String),
    /// Another error.
    Failed(String),
}

// === impl Seen ===

impl Seen<'_> {
    /// Name of the claim.
    #[must_use]
    pub fn name(&self) -> String {
        self.claim.metadata.name.clone().unwrap_or_default()
    }

    /// UID of the claim.
    #[must_use]
    pub fn uid(&self) -> String {
        self.claim.metadata.uid.clone().unwrap_or_default()
    }

    /// Returns an annotation of the claim.
    pub(super) fn annotation(&self, key: &str) -> Option<&str> {
        self.claim.metadata.annotations.as_ref()?.get(key).map(String::as_str)
    }

    /// Returns a label of the claim.
    pub(super) fn label(&self, key: &str) -> Option<&str> {
        self.claim.metadata.labels.as_ref()?.get(key).map(String::as_str)
    }

    /// Returns the creation time of the claim; the epoch if it is not set.
    pub(super) fn created_at(&self) -> Timestamp {
        self.claim.metadata.creation_timestamp.as_ref().map_or(Timestamp::UNIX_EPOCH, |time| time.0)
    }

    /// Returns the provider ID of the claim's instance.
    pub(super) fn provider_id(&self) -> Option<&str> {
        self.claim.status.as_ref()?.provider_id.as_deref().filter(|id| !id.is_empty())
    }

    /// Returns the operations paused for this claim, in the cluster or for its pool.
    pub(super) fn paused(&self) -> Pause {
        let annotations = self.pool.and_then(|pool| pool.metadata.annotations.as_ref());
        let own = annotations.and_then(|all| all.get(annotations::PAUSE));
        self.pause | own.map_or(Pause::NOTHING, |text| Pause::read(text).0)
    }

    /// Returns an event about the claim.
    pub(super) fn event(&self, kind: EventType, reason: &'static str, message: impl Into<String>) -> super::Write {
        let about = Subject { kind: "NodeClaim".to_owned(), namespace: None, name: self.name(), uid: self.uid() };
        super::Write::Event(Event { about, kind, reason, message: message.into() })
    }

    /// Returns the deletion of the claim.
    pub(super) fn delete(&self, cause: super::DeletionCause) -> super::Write {
        super::Write::DeleteClaim { name: self.name(), uid: self.uid(), cause }
    }
}

// === impl Class ===

impl Class {
    /// Returns an annotation of the class.
    pub(super) fn annotation(&self, key: &str) -> Option<&str> {
        self.meta.annotations.as_ref()?.get(key).map(String::as_str)
    }
}

// === impl Listing ===

impl Listing {
    /// Returns the state from a query for the instance. An error other than "not found" counts as existing.
    #[must_use]
    pub fn of(answer: &Result<Instance, CloudError>, at: Timestamp) -> Self {
        let has_instance = match answer {
            Ok(instance) => instance.state != InstanceState::Terminated,
            Err(error) => !error.is_not_found(),
        };
        let capacity_type = answer.as_ref().ok().map(|instance| instance.offering.capacity_type);
        Self { at, has_instance, capacity_type }
    }
}

// === impl Resident ===

impl Resident {
    /// Returns the relevant fields of `pod`, whose PersistentVolumeClaims are bound to `volumes`; `None` if the pod is
    /// unbound.
    #[must_use]
    pub fn of(pod: &Pod, volumes: Vec<String>) -> Option<Self> {
        let spec = pod.spec.as_ref()?;
        let node = spec.node_name.clone().filter(|name| !name.is_empty())?;
        let meta = &pod.metadata;
        let status = pod.status.as_ref();
        let owners = meta.owner_references.as_deref().unwrap_or_default();
        let annotations = meta.annotations.as_ref();
        let critical = ["system-cluster-critical", "system-node-critical"];
        let disrupted = taints::disrupted();
        let tolerates = |toleration: &k8s_openapi::api::core::v1::Toleration| {
            let is_any = toleration.operator.as_deref() == Some("Exists");
            let key = toleration.key.as_deref().unwrap_or_default();
            toleration.effect.as_deref().is_none_or(|effect| effect.is_empty() || effect == disrupted.effect)
                && (key == disrupted.key && (is_any || toleration.value.as_deref().unwrap_or_default().is_empty())
                    || key.is_empty() && is_any)
        };
        let started = status.and_then(|status| status.start_time.as_ref()).map(|time| time.0);
        Some(Self {
            pod: Subject {
                kind: "Pod".to_owned(),
                namespace: meta.namespace.clone(),
                name: meta.name.clone().unwrap_or_default(),
                uid: meta.uid.clone().unwrap_or_default(),
            },
            node,
            is_critical: spec.priority_class_name.as_deref().is_some_and(|name| critical.contains(&name)),
            is_daemon: owners.iter().any(|owner| owner.kind == "DaemonSet"),
            is_mirror: owners.iter().any(|owner| owner.kind == "Node")
                || annotations.is_some_and(|all| all.contains_key("kubernetes.io/config.mirror")),
            is_terminal: status
                .and_then(|status| status.phase.as_deref())
                .is_some_and(|phase| phase == "Succeeded" || phase == "Failed"),
            tolerates_disruption: spec.tolerations.as_deref().unwrap_or_default().iter().any(tolerates),
            hold: annotations
                .and_then(|all| all.get(annotations::DO_NOT_DISRUPT))
                .map_or(DisruptionBlocker::None, |text| DisruptionBlocker::read(text, started)),
            deleted_at: meta.deletion_timestamp.as_ref().map(|time| time.0),
            // The API server's default is 30 seconds.
            grace: Duration::from_secs(
                spec.termination_grace_period_seconds.and_then(|seconds| u64::try_from(seconds).ok()).unwrap_or(30),
            ),
            volumes,
        })
    }
}

// === impl DisruptionBlocker ===

impl DisruptionBlocker {
    /// Parses the annotation `karpenter.sh/do-not-disrupt` of a pod that started at `started`. An invalid value is
    /// ignored, as Karpenter does.
    #[must_use]
    pub fn read(text: &str, started: Option<Timestamp>) -> Self {
        if text == "true" {
            return Self::Forever;
        }
        match (muster_api::go_duration(text), started) {
            (Ok(span), Some(started)) => Self::Until(muster_cloud::after(started, span)),
            // The duration begins with the start of the pod.
            (Ok(_), None) => Self::Forever,
            (Err(_), _) => Self::None,
        }
    }

    /// Returns true if the hold is in effect at `now`.
    #[must_use]
    pub fn is_on(self, now: Timestamp) -> bool {
        match self {
            Self::None => false,
            Self::Until(end) => now < end,
            Self::Forever => true,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn resident(pod: &str) -> Option<Resident> {
        Resident::of(&serde_json::from_str::<Pod>(pod).unwrap(), Vec::new())
    }

    #[test]
    fn what_matters_of_a_pod() {
        assert_eq!(resident(r#"{"metadata":{"name":"x"},"spec":{"containers":[]}}"#), None, "it has no node");
        let critical = resident(
            r#"{"metadata":{"name":"x","namespace":"n","uid":"u","ownerReferences":[{"apiVersion":"apps/v1",
               "kind":"DaemonSet","name":"d","uid":"d"}]},
               "spec":{"nodeName":"a","containers":[],"priorityClassName":"system-node-critical",
               "terminationGracePeriodSeconds":5,"tolerations":[{"operator":"Exists"}]},"status":{"phase":"Running"}}"#,
        )
        .unwrap();
        assert!(critical.is_critical && critical.is_daemon && critical.tolerates_disruption && !critical.is_terminal);
        assert_eq!((critical.node.as_str(), critical.grace), ("a", Duration::from_secs(5)));
        let other = resident(
            r#"{"metadata":{"name":"x","annotations":{"karpenter.sh/do-not-disrupt":"true"}},
               "spec":{"nodeName":"a","containers":[],"tolerations":[{"key":"karpenter.sh/disrupted",
               "operator":"Exists","effect":"NoExecute"}]},"status":{"phase":"Failed"}}"#,
        )
        .unwrap();
        assert!(!other.tolerates_disruption, "the taint has another effect");
        assert!(other.is_terminal && other.hold == DisruptionBlocker::Forever);
    }

    #[test]
    fn a_hold_may_end() {
        let start = Timestamp::UNIX_EPOCH;
        assert_eq!(
            DisruptionBlocker::read("1h", Some(start)),
            DisruptionBlocker::Until(muster_cloud::after(start, Duration::from_secs(3600)))
        );
        assert_eq!(DisruptionBlocker::read("1h", None), DisruptionBlocker::Forever, "it has not started");
        assert_eq!(DisruptionBlocker::read("soon", Some(start)), DisruptionBlocker::None);
    }
}
