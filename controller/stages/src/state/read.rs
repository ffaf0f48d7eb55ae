//! Parser for the JSON text of an object.

use std::sync::Arc;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, ObjectMeta};
use muster_api::{CapacityBuffer, NodeClaim, NodeClassReference, NodeOverlay, NodePool, decode};
use muster_manifest::{self as manifest, Decoded, Field, Judgement, Object, PodTemplate, Skip, Tree, Trimmed, Unknown};
use serde::de::{Deserialize, DeserializeSeed};
use serde_json::Value;

use super::class::LiveClass;
use super::cluster::{LiveBuffer, LiveOverlay};
use super::kind::Kind;
use super::pod::{self, LivePod};
use crate::node::Node;

/// Result of parsing a text.
pub(super) struct ParsedObject {
    /// The object's path: `namespace/name`, or its name; empty if it has none.
    pub(super) path: Arc<str>,
    /// The object, as far as it is valid.
    pub(super) word: Option<Word>,
    /// Error of the object.
    pub(super) note: Option<String>,
    /// `metadata.resourceVersion`.
    pub(super) version: Option<String>,
}

/// An object, by form of storage.
pub(super) enum Word {
    Pod(Box<LivePod>, Box<PodTemplate>),
    Node(Box<Node>, Option<Box<manifest::Node>>),
    Claim(Box<NodeClaim>, Option<Box<manifest::NodeClaim>>),
    Pool(Box<NodePool>, Option<Box<manifest::NodePool>>),
    Class(Box<LiveClass>),
    Overlay(Box<LiveOverlay>),
    Buffer(Box<LiveBuffer>),
    /// A PodTemplate with its generation.
    Template(Box<PodTemplate>, Option<i64>),
    Other(Object),
}

/// Maximum number of conditions of a Node; others are ignored. A node writes its own: kubelet and monitoring agents
/// some twenty.
const MOST_CONDITIONS: usize = 64;

const META: Skip = Skip::below("metadata", &[Skip::all("managedFields")]);
const OBJECT: &[Skip] = &[META];

/// Fields of Nodes that no decision needs, such as the list of images.
const NODE: &[Skip] = &[
    META,
    Skip::below(
        "status",
        &[Skip::all("addresses"), Skip::all("images"), Skip::all("nodeInfo"), Skip::all("volumesInUse")],
    ),
];

const CONTAINER: &[Skip] = &[
    Skip::all("args"),
    Skip::all("command"),
    Skip::all("env"),
    Skip::all("envFrom"),
    Skip::all("imagePullPolicy"),
    Skip::all("lifecycle"),
    Skip::all("livenessProbe"),
    Skip::all("readinessProbe"),
    Skip::all("resizePolicy"),
    Skip::all("securityContext"),
    Skip::all("startupProbe"),
    Skip::all("terminationMessagePath"),
    Skip::all("terminationMessagePolicy"),
    Skip::all("volumeMounts"),
];

const CONTAINER_STATUS: &[Skip] = &[
    Skip::all("allocatedResourcesStatus"),
    Skip::all("containerID"),
    Skip::all("image"),
    Skip::all("imageID"),
    Skip::all("lastState"),
    Skip::all("ready"),
    Skip::all("restartCount"),
    Skip::all("started"),
    Skip::all("state"),
    Skip::all("user"),
    Skip::all("volumeMounts"),
];

const CONDITION: &[Skip] = &[
    Skip::all("lastProbeTime"),
    Skip::all("lastTransitionTime"),
    Skip::all("message"),
    Skip::all("observedGeneration"),
];

const VOLUME: &[Skip] =
    &[Skip::all("configMap"), Skip::all("downwardAPI"), Skip::all("projected"), Skip::all("secret")];

/// Fields of the specs of pods that concern running them and not scheduling.
const POD_SPEC: &[Skip] = &[
    Skip::below("containers", CONTAINER),
    Skip::below("initContainers", CONTAINER),
    Skip::below("volumes", VOLUME),
    Skip::all("dnsConfig"),
    Skip::all("dnsPolicy"),
    Skip::all("enableServiceLinks"),
    Skip::all("ephemeralContainers"),
    Skip::all("hostAliases"),
    Skip::all("imagePullSecrets"),
    Skip::all("preemptionPolicy"),
    Skip::all("restartPolicy"),
    Skip::all("securityContext"),
    Skip::all("serviceAccount"),
    Skip::all("serviceAccountName"),
];

const OF_TEMPLATE: Skip = Skip::below("template", &[Skip::below("spec", POD_SPEC)]);
const TEMPLATE: &[Skip] = &[META, OF_TEMPLATE];

/// Fields of workloads that CapacityBuffers do not need. Annotations may repeat the whole object.
const WORKLOAD: &[Skip] = &[
    Skip::below("metadata", &[Skip::all("managedFields"), Skip::all("annotations")]),
    Skip::below("spec", &[OF_TEMPLATE]),
    Skip::all("status"),
];

/// Fields of pods that concern running them and not scheduling.
const POD: &[Skip] = &[
    META,
    Skip::below("spec", POD_SPEC),
    Skip::below(
        "status",
        &[
            Skip::below("conditions", CONDITION),
            Skip::below("containerStatuses", CONTAINER_STATUS),
            Skip::below("initContainerStatuses", CONTAINER_STATUS),
            Skip::all("ephemeralContainerStatuses"),
            Skip::all("hostIP"),
            Skip::all("hostIPs"),
            Skip::all("observedGeneration"),
            Skip::all("podIP"),
            Skip::all("podIPs"),
            Skip::all("qosClass"),
        ],
    ),
];

/// Parses the text of an object of `kind`.
pub(crate) fn read(kind: Kind, text: &str) -> ParsedObject {
    match tree(kind, text) {
        Ok(tree) => read_tree(kind, &tree, text),
        Err(error) => {
            let note = Some(format!("{} is not JSON: {error}", kind.name()));
            ParsedObject { path: Arc::default(), word: None, note, version: None }
        }
    }
}

/// Reads an object's path, empty if it has no name, and its `metadata.resourceVersion`.
pub(super) fn read_name(kind: Kind, text: &str) -> (Arc<str>, Option<String>) {
    let Ok(tree) = tree(kind, text) else { return (Arc::default(), None) };
    (path_of(kind, &tree).unwrap_or_default(), version_of(&tree))
}

fn tree(kind: Kind, text: &str) -> Result<Tree<'_>, serde_json::Error> {
    let skips = match kind {
        Kind::Pod => POD,
        Kind::Node => NODE,
        Kind::Deployment | Kind::StatefulSet | Kind::ReplicaSet | Kind::ReplicationController => WORKLOAD,
        Kind::PodTemplate => TEMPLATE,
        _ => OBJECT,
    };
    Trimmed(skips).deserialize(&mut serde_json::Deserializer::from_str(text))
}

fn version_of(tree: &Tree<'_>) -> Option<String> {
    tree.get("metadata")?.get("resourceVersion")?.text().map(str::to_owned)
}

fn read_tree(kind: Kind, tree: &Tree<'_>, text: &str) -> ParsedObject {
    let Some(path) = path_of(kind, tree) else {
        let note = format!("{} without a name", kind.name());
        return ParsedObject { path: Arc::default(), word: None, note: Some(note), version: version_of(tree) };
    };
    let (word, problem) = match kind {
        Kind::Pod => {
            let (pod, template, problem) = pod::read(tree, &path);
            (Some(Word::Pod(Box::new(pod), Box::new(template))), problem)
        }
        Kind::Node => node(tree, text),
        Kind::NodeClaim => claim(tree, text),
        Kind::NodePool => pool(tree),
        Kind::Ec2NodeClass | Kind::KwokNodeClass => class(kind, tree),
        Kind::NodeOverlay => overlay(tree),
        Kind::CapacityBuffer => buffer(tree),
        // Only an old revision of a Deployment has no replicas; there are many of them.
        Kind::ReplicaSet if is_controlled(tree) && has_no_replicas(tree) => (None, None),
        Kind::PodTemplate => match decoded(kind, tree) {
            Ok(Object::PodTemplate(_, template)) => (Some(Word::Template(template, generation_of(tree))), None),
            Ok(_) => (None, None),
            Err(problem) => (None, Some(problem)),
        },
        _ => match decoded(kind, tree) {
            Ok(object) => (Some(Word::Other(object)), None),
            Err(problem) => (None, Some(problem)),
        },
    };
    let note = problem.map(|problem| format!("{} `{path}`: {problem}", kind.name()));
    ParsedObject { path, word, note, version: version_of(tree) }
}

/// Returns `namespace/name`, or the name if the kind is cluster-scoped.
fn path_of(kind: Kind, tree: &Tree<'_>) -> Option<Arc<str>> {
    let meta = tree.get("metadata")?;
    let text = |key: &str| meta.get(key).and_then(Tree::text).filter(|text| !text.is_empty());
    let name = text("name")?;
    Some(match text("namespace") {
        Some(namespace) if kind.is_namespaced() => format!("{namespace}/{name}").into(),
        None if kind.is_namespaced() => format!("default/{name}").into(),
        _ => name.into(),
    })
}

fn decoded(kind: Kind, tree: &Tree<'_>) -> Result<Object, String> {
    in_words(manifest::decode(kind.name(), &Field::root(tree, &Unknown::unasked())))
}

/// Converts a fault to a one-line message.
pub(super) fn in_words<T>(decoded: Decoded<T>) -> Result<T, String> {
    decoded.map_err(|fault| match fault.path.as_str() {
        "" => format!("{}; {}", fault.problem, fault.hint),
        path => format!("field `{path}` {}; {}", fault.problem, fault.hint),
    })
}

// === kinds that are typed ===

/// Removes unused fields, and rebuilds the maps: leaves of a map that was filled in order are half empty.
fn fit(meta: &mut ObjectMeta) {
    meta.managed_fields = None;
    for all in [&mut meta.labels, &mut meta.annotations] {
        *all = all.take().map(|all| all.into_iter().collect());
    }
}

fn node(tree: &Tree<'_>, text: &str) -> (Option<Word>, Option<String>) {
    let mut node: Node = match serde_json::from_str(text) {
        Ok(node) => node,
        Err(error) => return (None, Some(error.to_string())),
    };
    fit(&mut node.metadata);
    // The heartbeat time is not used, and would make every heartbeat a change.
    if let Some(conditions) = node.status.as_mut().and_then(|status| status.conditions.as_mut()) {
        conditions.truncate(MOST_CONDITIONS);
        conditions.iter_mut().for_each(|condition| condition.last_heartbeat_time = None);
    }
    let (compact, problem) = match decoded(Kind::Node, tree) {
        Ok(Object::Node(mut compact)) => {
            compact.conditions.truncate(MOST_CONDITIONS);
            (Some(compact), None)
        }
        Ok(_) => (None, None),
        Err(problem) => (None, Some(problem)),
    };
    (Some(Word::Node(Box::new(node), compact)), problem)
}

/// Reads a NodeClaim without validating it with its CRD: the API server has done so, the spec is immutable, and there
/// are many claims.
fn claim(tree: &Tree<'_>, text: &str) -> (Option<Word>, Option<String>) {
    let mut claim: NodeClaim = match serde_json::from_str(text) {
        Ok(claim) => claim,
        Err(error) => return (None, Some(error.to_string())),
    };
    fit(&mut claim.metadata);
    let unknown = Unknown::unasked();
    let compact = manifest::decode_ours(Kind::NodeClaim.name(), &Field::root(tree, &unknown), &Value::Null, None);
    let (compact, problem) = match in_words(compact) {
        Ok(Object::NodeClaim(compact)) => (Some(compact), None),
        Ok(_) => (None, None),
        Err(problem) => (None, Some(problem)),
    };
    (Some(Word::Claim(Box::new(claim), compact)), problem)
}

fn pool(tree: &Tree<'_>) -> (Option<Word>, Option<String>) {
    let mut judgement = judge(Kind::NodePool, tree);
    let pool = match decode::<NodePool>(&judgement.completed) {
        Ok(pool) => pool,
        Err(error) => return (None, Some(error.to_string())),
    };
    let (compact, problem) = judged(Kind::NodePool, &mut judgement);
    let compact = compact.and_then(|object| if let Object::NodePool(pool) = object { Some(pool) } else { None });
    (Some(Word::Pool(Box::new(pool), compact)), problem)
}

fn buffer(tree: &Tree<'_>) -> (Option<Word>, Option<String>) {
    let mut judgement = judge(Kind::CapacityBuffer, tree);
    let mut typed = match decode::<CapacityBuffer>(&judgement.completed) {
        Ok(typed) => typed,
        Err(error) => return (None, Some(error.to_string())),
    };
    typed.metadata.managed_fields = None;
    let (compact, refusal) = judged(Kind::CapacityBuffer, &mut judgement);
    let compact = compact.and_then(|object| if let Object::CapacityBuffer(it) = object { Some(*it) } else { None });
    let buffer = LiveBuffer { typed, compact, refusal: refusal.clone() };
    (Some(Word::Buffer(Box::new(buffer))), refusal)
}

fn generation_of(tree: &Tree<'_>) -> Option<i64> {
    tree.get("metadata")?.get("generation")?.to_json().as_i64()
}

fn is_controlled(tree: &Tree<'_>) -> bool {
    let owners = tree.get("metadata").and_then(|meta| meta.get("ownerReferences"));
    owners.is_some_and(|owners| !matches!(owners, Tree::Null))
}

fn has_no_replicas(tree: &Tree<'_>) -> bool {
    tree.get("spec").and_then(|spec| spec.get("replicas")).is_some_and(|count| count.to_json().as_i64() == Some(0))
}

fn overlay(tree: &Tree<'_>) -> (Option<Word>, Option<String>) {
    let mut judgement = judge(Kind::NodeOverlay, tree);
    let mut typed = match decode::<NodeOverlay>(&judgement.completed) {
        Ok(typed) => typed,
        Err(error) => return (None, Some(error.to_string())),
    };
    typed.metadata.managed_fields = None;
    let (compact, refusal) = judged(Kind::NodeOverlay, &mut judgement);
    let compact = compact.and_then(|object| if let Object::NodeOverlay(it) = object { Some(*it) } else { None });
    let overlay = LiveOverlay { typed, compact, refusal: refusal.clone() };
    (Some(Word::Overlay(Box::new(overlay))), refusal)
}

fn class(kind: Kind, tree: &Tree<'_>) -> (Option<Word>, Option<String>) {
    let mut judgement = judge(kind, tree);
    let (compact, refusal) = judged(kind, &mut judgement);
    let object = judgement.completed;
    let meta = object.get("metadata").map(ObjectMeta::deserialize).and_then(Result::ok).unwrap_or_default();
    let conditions = object.pointer("/status/conditions").map(Vec::<Condition>::deserialize);
    let (group, _) = kind.api_version().split_once('/').unwrap_or_default();
    let class = LiveClass {
        reference: NodeClassReference {
            group: group.to_owned(),
            kind: kind.name().to_owned(),
            name: meta.name.clone().unwrap_or_default(),
        },
        meta,
        conditions: conditions.and_then(Result::ok).unwrap_or_default(),
        manifest: compact.and_then(|object| if let Object::NodeClass(class) = object { Some(*class) } else { None }),
        object,
        refusal: refusal.clone(),
    };
    (Some(Word::Class(Box::new(class))), refusal)
}

// === the word of the CRDs ===

fn judge(kind: Kind, tree: &Tree<'_>) -> Judgement {
    let mut json = tree.to_json();
    // Items of a list lack these fields.
    if let Value::Object(fields) = &mut json {
        fields.entry("apiVersion").or_insert_with(|| kind.api_version().into());
        fields.entry("kind").or_insert_with(|| kind.name().into());
    }
    manifest::judge(&json)
}

/// Returns a validated object as input of the engine, or the error.
fn judged(kind: Kind, judgement: &mut Judgement) -> (Option<Object>, Option<String>) {
    if let Some(fault) = std::mem::take(&mut judgement.refusals).into_iter().next() {
        return (None, in_words::<()>(Err(Box::new(fault))).err());
    }
    let tree = Tree::deserialize(&judgement.completed).unwrap_or(Tree::Null);
    let unknown = Unknown::unasked();
    let never_ready = judgement.never_ready.take();
    let object = manifest::decode_ours(kind.name(), &Field::root(&tree, &unknown), &judgement.completed, never_ready);
    match in_words(object) {
        Ok(object) => (Some(object), None),
        Err(problem) => (None, Some(problem)),
    }
}
