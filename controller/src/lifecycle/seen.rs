//! What a stage looks at.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use jiff::Timestamp;
use k8s_openapi::api::core::v1::Pod;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, ObjectMeta};
use muster_api::{NodeClaim, NodeClassReference, NodePool, annotations, taints};
use muster_cloud::{Alternative, CloudError, Instance, InstanceState, LaunchError, Launched};

use super::pause::Pause;
use crate::node::Node;
use crate::step::{Event, EventType, Subject};

/// Everything that is known about one NodeClaim.
#[derive(Debug, Clone)]
pub struct Seen<'a> {
    /// The claim.
    pub claim: &'a NodeClaim,
    /// Its NodePool, if it has one that exists.
    pub pool: Option<&'a NodePool>,
    /// Its NodeClass.
    pub class: &'a Class,
    /// What an operator has paused in the whole cluster.
    pub pause: Pause,
    /// Every Node with the claim's provider ID, by name.
    pub nodes: Vec<&'a Node>,
    /// Every Node that has another provider ID or none, but the name that the claim's instance would have chosen.
    pub namesakes: Vec<&'a Node>,
    /// What holds the registration of the Node back, although it is there.
    pub registration_hold: Option<&'a str>,
    /// Drivers that have published their devices of the Node.
    pub device_drivers: &'a BTreeSet<String>,
    /// Pods that are bound to the Nodes, by namespace and name. They may be left out for as long as neither the claim nor a
    /// Node is being deleted.
    pub residents: &'a [Resident],
    /// Pods that wait for the Node, as far as somebody remembers that it is meant for them, by namespace and name. They may be left
    /// out for as long as the Node's agent has not said that it cannot become one.
    pub expected: &'a [Subject],
    /// Volumes that are attached to the Nodes.
    pub attachments: &'a [Attachment],
    /// What the claim may be launched as, cheapest first, without what was refused lately
    /// ([`muster_cloud::alternatives`], [`muster_cloud::Refusals::sieve`]).
    pub alternatives: &'a [Alternative],
    /// What the last list of instances says about the claim's.
    pub listing: Option<Listing>,
    /// What came of the questions of the steps before.
    pub answers: Answers,
}

/// A NodeClass, as the controller of its cloud judges it.
#[derive(Debug, Clone, PartialEq)]
pub struct Class {
    /// Where it stands.
    pub reference: NodeClassReference,
    /// Its metadata.
    pub meta: ObjectMeta,
    /// Its conditions.
    pub conditions: Vec<Condition>,
    /// Whether instances can be launched with it.
    pub readiness: Readiness,
    /// Hash of what instances are launched with.
    pub hash: String,
    /// Why its user data cannot make a node, if that is known before the first launch.
    pub bootstrap_fault: Option<String>,
    /// Whether its user data hands the taints of the claim to the kubelet, so that a node brings them itself.
    pub hands_over_taints: bool,
    /// Whether its cloud has tags.
    pub tags_instances: bool,
}

/// Whether instances can be launched with a class.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Readiness {
    /// There is no such class.
    Missing,
    /// It is being deleted.
    Terminating,
    /// They cannot, for this reason.
    NotReady(String),
    /// It has not been judged since it was changed.
    Unknown,
    /// They can.
    Ready,
}

/// A pod that is bound to a Node.
#[derive(Debug, Clone, PartialEq)]
pub struct Resident {
    /// The pod.
    pub pod: Subject,
    /// Name of its Node.
    pub node: String,
    /// Whether it is among those that a cluster cannot do without.
    pub is_critical: bool,
    /// Whether a DaemonSet owns it.
    pub is_daemon: bool,
    /// Whether the kubelet made it from a file.
    pub is_mirror: bool,
    /// Whether it has ended.
    pub is_terminal: bool,
    /// Whether it tolerates the taint of nodes that are about to be taken away.
    pub tolerates_disruption: bool,
    /// Whether and how long it keeps its node.
    pub hold: Hold,
    /// When it was, or will be, killed, if it is being deleted.
    pub deleted_at: Option<Timestamp>,
    /// How long it may take to end.
    pub grace: Duration,
    /// PersistentVolumes that it uses.
    pub volumes: Vec<String>,
}

/// Whether and how long a pod keeps its node.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Hold {
    /// It does not.
    None,
    /// Until then.
    Until(Timestamp),
    /// For as long as it runs.
    Forever,
}

/// A volume that is attached to a Node.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Attachment {
    /// Name of the Node.
    pub node: String,
    /// Name of the PersistentVolume.
    pub volume: String,
}

/// What a list of instances says about one, or a look at that one alone.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Listing {
    /// When it was asked for.
    pub at: Timestamp,
    /// Whether the instance was there, and had not ended.
    pub has_instance: bool,
}

/// What came of the questions of earlier steps, see [`super::Step`].
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Answers {
    /// Of the launch.
    pub launch: Option<Result<Launched, LaunchError>>,
    /// Of looking at the instance.
    pub instance: Option<Result<Instance, CloudError>>,
    /// Of looking at its console.
    pub console: Option<Result<Option<String>, CloudError>>,
    /// Of having it end.
    pub terminate: Option<Result<(), CloudError>>,
    /// Of tagging it.
    pub tag: Option<Result<(), CloudError>>,
    /// Of evictions, by UID of the pod.
    pub evictions: BTreeMap<String, Eviction>,
}

/// What the API server says to an eviction.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Eviction {
    /// The pod is being deleted, or is gone, or is another one by now.
    Done,
    /// A PodDisruptionBudget does not allow it now (429); the message names it.
    Blocked(String),
    /// More than one PodDisruptionBudget selects the pod, which the API server refuses (500).
    Ambiguous(String),
    /// Something else.
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

    /// An annotation of the claim.
    pub(super) fn annotation(&self, key: &str) -> Option<&str> {
        self.claim.metadata.annotations.as_ref()?.get(key).map(String::as_str)
    }

    /// When the claim was made; the epoch, if it does not say.
    pub(super) fn created_at(&self) -> Timestamp {
        self.claim.metadata.creation_timestamp.as_ref().map_or(Timestamp::UNIX_EPOCH, |time| time.0)
    }

    /// The cloud's identifier of the claim's instance.
    pub(super) fn provider_id(&self) -> Option<&str> {
        self.claim.status.as_ref()?.provider_id.as_deref().filter(|id| !id.is_empty())
    }

    /// What is paused for this claim: in the cluster, or for its pool.
    pub(super) fn paused(&self) -> Pause {
        let annotations = self.pool.and_then(|pool| pool.metadata.annotations.as_ref());
        let own = annotations.and_then(|all| all.get(annotations::PAUSE));
        self.pause | own.map_or(Pause::NOTHING, |text| Pause::read(text).0)
    }

    /// An event about the claim.
    pub(super) fn event(&self, kind: EventType, reason: &'static str, message: impl Into<String>) -> super::Write {
        let about = Subject { kind: "NodeClaim".to_owned(), namespace: None, name: self.name(), uid: self.uid() };
        super::Write::Event(Event { about, kind, reason, message: message.into() })
    }

    /// Deletes the claim.
    pub(super) fn delete(&self, cause: &'static str) -> super::Write {
        super::Write::DeleteClaim { name: self.name(), uid: self.uid(), cause }
    }
}

// === impl Class ===

impl Class {
    /// An annotation of the class.
    pub(super) fn annotation(&self, key: &str) -> Option<&str> {
        self.meta.annotations.as_ref()?.get(key).map(String::as_str)
    }
}

// === impl Listing ===

impl Listing {
    /// What a look at the instance alone has said at that moment. A look that failed tells nothing against it.
    #[must_use]
    pub fn of(answer: &Result<Instance, CloudError>, at: Timestamp) -> Self {
        let has_instance = match answer {
            Ok(instance) => instance.state != InstanceState::Terminated,
            Err(error) => !error.is_not_found(),
        };
        Self { at, has_instance }
    }
}

// === impl Resident ===

impl Resident {
    /// What matters of `pod`, whose claims are bound to `volumes`; nothing if the pod has no node.
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
                .map_or(Hold::None, |text| Hold::read(text, started)),
            deleted_at: meta.deletion_timestamp.as_ref().map(|time| time.0),
            // The API server fills it in: 30 seconds.
            grace: Duration::from_secs(
                spec.termination_grace_period_seconds.and_then(|seconds| u64::try_from(seconds).ok()).unwrap_or(30),
            ),
            volumes,
        })
    }
}

// === impl Hold ===

impl Hold {
    /// What the annotation `karpenter.sh/do-not-disrupt` of a pod that started then says. What cannot be understood
    /// holds nothing, as with Karpenter.
    #[must_use]
    pub fn read(text: &str, started: Option<Timestamp>) -> Self {
        if text == "true" {
            return Self::Forever;
        }
        match (text.parse::<muster_api::Span>(), started) {
            (Ok(span), Some(started)) => Self::Until(muster_cloud::after(started, span.0)),
            // The time runs from the start.
            (Ok(_), None) => Self::Forever,
            (Err(_), _) => Self::None,
        }
    }

    /// Whether the pod keeps its node at that moment.
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
        assert!(other.is_terminal && other.hold == Hold::Forever);
    }

    #[test]
    fn a_hold_may_end() {
        let start = Timestamp::UNIX_EPOCH;
        assert_eq!(Hold::read("1h", Some(start)), Hold::Until(muster_cloud::after(start, Duration::from_secs(3600))));
        assert_eq!(Hold::read("1h", None), Hold::Forever, "it has not started");
        assert_eq!(Hold::read("soon", Some(start)), Hold::None);
    }
}
