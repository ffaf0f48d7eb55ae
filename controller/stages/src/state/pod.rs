//! Pods in compact form.

use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use muster_api::annotations::DO_NOT_DISRUPT;
use muster_api::taints;
use muster_manifest::{self as manifest, Field, Object, Owner, Pod, PodTemplate, Tree, Unknown, Volume};
use muster_scheduling::model::{Effect, Labels};

use super::read::in_words;
use crate::lifecycle::{DisruptionBlocker, Resident};
use crate::provision::{PendingPod, set_named};
use crate::step::Subject;

/// A pod without the fields that no decision needs.
#[derive(Debug, Clone, PartialEq)]
pub struct LivePod {
    /// Input of the engine.
    pub pod: Pod,
    /// Its UID.
    pub uid: Box<str>,
    /// `metadata.resourceVersion`.
    pub version: Box<str>,
    /// `spec.schedulerName`.
    pub scheduler: Arc<str>,
    /// Creation time.
    pub created: Option<Timestamp>,
    /// Time at which its grace period ends, if it is being deleted (`metadata.deletionTimestamp`).
    pub deleted_at: Option<Timestamp>,
    /// Termination grace period, in seconds.
    pub grace: u32,
    /// True if kube-scheduler has marked it `Unschedulable`.
    pub is_marked: bool,
    /// True if a DaemonSet owns it.
    pub is_daemon: bool,
    /// True if it is a mirror pod, which a kubelet created from a file.
    pub is_mirror: bool,
    /// Its phase. A change of it alone affects no decision.
    pub phase: Phase,
}

/// Phase of a pod.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Phase {
    /// Not all its containers have started.
    Pending,
    /// Its containers run.
    Running,
    /// All its containers have ended without an error.
    Succeeded,
    /// A container has failed.
    Failed,
    /// Not known.
    Unknown,
}

impl Phase {
    /// Its name in the API.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Pending => "Pending",
            Self::Running => "Running",
            Self::Succeeded => "Succeeded",
            Self::Failed => "Failed",
            Self::Unknown => "Unknown",
        }
    }

    fn read(text: &str) -> Self {
        let known = [Self::Pending, Self::Running, Self::Succeeded, Self::Failed];
        known.into_iter().find(|one| one.name() == text).unwrap_or(Self::Unknown)
    }
}

const DEFAULT_SCHEDULER: &str = "default-scheduler";
const MIRROR: &str = "kubernetes.io/config.mirror";
const CRITICAL: [&str; 2] = ["system-cluster-critical", "system-node-critical"];
/// Default of the API server, in seconds.
const DEFAULT_GRACE: u32 = 30;

impl LivePod {
    /// Returns true if it needs a node and has none.
    #[must_use]
    pub fn waits(&self) -> bool {
        self.pod.node.is_none() && !self.pod.terminal && !self.pod.deleting
    }

    /// Returns the Node that it is nominated to while it waits.
    #[must_use]
    pub fn nomination(&self) -> Option<&Arc<str>> {
        self.pod.nominated_node.as_ref().filter(|_| self.waits())
    }

    /// Returns true if kube-scheduler's default profile is responsible for it.
    #[must_use]
    pub fn is_of_default_scheduler(&self) -> bool {
        matches!(&*self.scheduler, "" | DEFAULT_SCHEDULER)
    }

    /// Returns true if both are equal apart from the resource version.
    pub(super) fn is_same(&self, other: &Self) -> bool {
        let Self {
            pod,
            uid,
            version: _,
            scheduler,
            created,
            deleted_at,
            grace,
            is_marked,
            is_daemon,
            is_mirror,
            phase: _,
        } = self;
        (pod, uid, scheduler, created) == (&other.pod, &other.uid, &other.scheduler, &other.created)
            && (deleted_at, grace) == (&other.deleted_at, &other.grace)
            && (is_marked, is_daemon) == (&other.is_marked, &other.is_daemon)
            && is_mirror == &other.is_mirror
    }

    /// Returns a reference to the pod.
    #[must_use]
    pub fn subject(&self) -> Subject {
        Subject {
            kind: "Pod".to_owned(),
            namespace: Some(self.pod.namespace.to_string()),
            name: self.pod.name.to_string(),
            uid: self.uid.to_string(),
        }
    }

    /// Returns the set of pods that it belongs to: those of its controller, or itself alone.
    pub(super) fn set(&self) -> Arc<str> {
        match &self.pod.owner {
            Some(owner) => set_named(&self.pod.namespace, &owner.kind, &owner.name),
            None => set_named(&self.pod.namespace, "Pod", &self.pod.name),
        }
    }

    /// Returns the pod as input of provisioning.
    pub(super) fn pending_pod(&self) -> PendingPod {
        PendingPod {
            pod: self.subject(),
            is_of_default_scheduler: self.is_of_default_scheduler(),
            is_marked: self.is_marked,
            is_provided_for: false,
            set: self.set(),
            priority: self.pod.template.priority.unwrap_or_default(),
            node: self.pod.node.clone(),
            nominated: self.pod.nominated_node.clone(),
            denied: 0,
            arrival: 0,
            queued: 0,
        }
    }

    /// Returns the PersistentVolumeClaims that it uses, as `namespace/name`.
    pub(super) fn volume_claims(&self) -> impl Iterator<Item = String> {
        let Pod { namespace, name, template, .. } = &self.pod;
        template.volumes.iter().filter_map(move |volume| match volume {
            Volume::Claim { claim, .. } => Some(format!("{namespace}/{claim}")),
            Volume::Ephemeral { volume, .. } => Some(format!("{namespace}/{name}-{volume}")),
            Volume::InTree { .. } | Volume::Foreign { .. } => None,
        })
    }

    /// Returns the pod as resident of its Node; none without a Node. Its volume claims are bound to `volumes`.
    pub(super) fn resident(&self, volumes: Vec<String>) -> Option<Resident> {
        let node = self.pod.node.as_ref()?;
        let template = &self.pod.template;
        let disrupted = taints::disrupted();
        let tolerates = |toleration: &muster_scheduling::model::Toleration| {
            toleration.effect.is_none_or(|effect| effect == Effect::NoSchedule)
                && toleration.key.as_deref().is_none_or(|key| key == disrupted.key)
                && toleration.value.as_deref().is_none_or(str::is_empty)
        };
        let started = self.pod.started.as_deref().and_then(|text| text.parse().ok());
        let hold = self.pod.annotations.get(DO_NOT_DISRUPT);
        Some(Resident {
            pod: self.subject(),
            node: node.to_string(),
            is_critical: template.priority_class.as_deref().is_some_and(|class| CRITICAL.contains(&class)),
            is_daemon: self.is_daemon,
            is_mirror: self.is_mirror,
            is_terminal: self.pod.terminal,
            tolerates_disruption: template.tolerations.iter().any(tolerates),
            hold: hold.map_or(DisruptionBlocker::None, |text| DisruptionBlocker::read(text, started)),
            deleted_at: self.deleted_at,
            grace: Duration::from_secs(self.grace.into()),
            volumes,
        })
    }
}

/// Reads a pod and its template; also returns the error of an invalid pod.
pub(crate) fn read(tree: &Tree<'_>, path: &Arc<str>) -> (LivePod, PodTemplate, Option<String>) {
    let decoded = in_words(manifest::decode("Pod", &Field::root(tree, &Unknown::unasked())));
    let (pod, template, problem) = match decoded {
        Ok(Object::Pod(pod, template)) => (*pod, *template, None),
        Ok(_) => (shell(tree, path), PodTemplate::default(), None),
        Err(problem) => (shell(tree, path), PodTemplate::default(), Some(problem)),
    };
    let (meta, spec, status) = (tree.get("metadata"), tree.get("spec"), tree.get("status"));
    let text = |tree: Option<&Tree<'_>>, key: &str| {
        tree.and_then(|tree| tree.get(key)).and_then(Tree::text).map(str::to_owned)
    };
    let moment = |key: &str| text(meta, key).and_then(|text| text.parse().ok());
    let owned_by = |kind: &str| {
        let owners = meta.and_then(|meta| meta.get("ownerReferences"));
        items(owners).iter().any(|owner| owner.get("kind").and_then(Tree::text) == Some(kind))
    };
    let says = |condition: &Tree<'_>, key: &str, wanted: &str| condition.get(key).and_then(Tree::text) == Some(wanted);
    let is_marked = items(status.and_then(|status| status.get("conditions"))).iter().any(|condition| {
        says(condition, "type", "PodScheduled")
            && says(condition, "status", "False")
            && says(condition, "reason", "Unschedulable")
    });
    let grace = match spec.and_then(|spec| spec.get("terminationGracePeriodSeconds")) {
        Some(Tree::Number(seconds)) => seconds.as_u64().and_then(|seconds| u32::try_from(seconds).ok()),
        _ => None,
    };
    let live = LivePod {
        uid: text(meta, "uid").unwrap_or_default().into(),
        version: text(meta, "resourceVersion").unwrap_or_default().into(),
        scheduler: text(spec, "schedulerName").map_or_else(|| DEFAULT_SCHEDULER.into(), Arc::from),
        created: moment("creationTimestamp"),
        deleted_at: moment("deletionTimestamp"),
        grace: grace.unwrap_or(DEFAULT_GRACE),
        is_marked,
        is_daemon: owned_by("DaemonSet"),
        is_mirror: owned_by("Node") || pod.annotations.get(MIRROR).is_some(),
        phase: Phase::read(&text(status, "phase").unwrap_or_default()),
        pod,
    };
    (live, template, problem)
}

fn items<'t, 'a>(list: Option<&'t Tree<'a>>) -> &'t [Tree<'a>] {
    if let Some(Tree::List(items)) = list { items } else { &[] }
}

/// Returns the name, owner, node and state of an invalid pod.
fn shell(tree: &Tree<'_>, path: &Arc<str>) -> Pod {
    let at = |part: &str, key: &str| -> Option<Arc<str>> {
        tree.get(part)?.get(key)?.text().filter(|text| !text.is_empty()).map(Arc::from)
    };
    let annotations = [DO_NOT_DISRUPT, MIRROR].into_iter().filter_map(|key| {
        let value = tree.get("metadata")?.get("annotations")?.get(key)?.text()?;
        Some((key, value.to_owned()))
    });
    let annotations: Labels = annotations.collect();
    Pod {
        sequence: 0,
        namespace: at("metadata", "namespace").unwrap_or_else(|| "default".into()),
        name: at("metadata", "name").unwrap_or_default(),
        path: Arc::clone(path),
        template: Arc::default(),
        granted: None,
        made_claims: Vec::new(),
        node: at("spec", "nodeName"),
        nominated_node: at("status", "nominatedNodeName"),
        owner: controller(tree),
        gated: false,
        terminal: matches!(at("status", "phase").as_deref(), Some("Succeeded" | "Failed")),
        deleting: at("metadata", "deletionTimestamp").is_some(),
        ready: false,
        started: at("status", "startTime"),
        annotations,
        is_unreadable: true,
    }
}

/// Returns the owner that controls the object.
fn controller(tree: &Tree<'_>) -> Option<Owner> {
    let owners = items(tree.get("metadata")?.get("ownerReferences"));
    let owner = owners.iter().find(|owner| matches!(owner.get("controller"), Some(Tree::Bool(true))))?;
    let text = |key: &str| owner.get(key)?.text().map(Arc::from);
    Some(Owner { kind: text("kind")?, name: text("name")? })
}
