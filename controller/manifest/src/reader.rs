//! Reader of objects: decodes those of known kinds one by one, and collects them.

use std::sync::Arc;

use muster_api::likeness::nearest_of;
use rustc_hash::{FxHashMap, FxHashSet};

use super::document::Origin;
use super::error::{InputError, Place};
use super::field::{Fault, UnknownField};
use super::inspect::{self, Inspected};
use super::object::Object;
use super::objects::Manifests;
use super::pod::PodTemplate;
use super::tree::{Tree, shorten};
use super::version;

/// Maximum number of individual warnings. Each costs a second parse of its document, and a template used ten thousand
/// times would hide everything else.
pub(super) const WARNINGS: usize = 20;

/// State of reading.
#[derive(Default)]
pub(crate) struct Reader {
    manifests: Manifests,
    files: Vec<String>,
    seen: FxHashMap<(&'static str, Arc<str>), Spot>,
    templates: FxHashSet<Arc<PodTemplate>>,
    namespaces: FxHashSet<Arc<str>>,
    sequence: usize,
    objects: usize,
    unnamed_warnings: usize,
}

/// Position of an object, small enough to keep for each.
#[derive(Clone, Copy)]
struct Spot {
    file: usize,
    document: usize,
    item: Option<usize>,
}

/// Decoded object with the name that it is stored under.
struct Named {
    kind: &'static str,
    path: Arc<str>,
}

impl Reader {
    /// Starts the file of the next objects.
    pub(crate) fn enter(&mut self, file: &str) {
        self.files.push(file.to_owned());
    }

    /// Returns the number of objects of all kinds.
    pub(crate) fn objects(&self) -> usize {
        self.objects
    }

    /// Adds a warning.
    pub(crate) fn say(&mut self, warning: String) {
        self.manifests.warnings.push(warning);
    }

    /// Returns everything that was read.
    pub(crate) fn finish(mut self) -> Manifests {
        if self.unnamed_warnings > 0 {
            self.manifests.warnings.push(format!("{} more warnings like these", self.unnamed_warnings));
        }
        self.manifests
    }

    /// Reads one object.
    pub(crate) fn take(&mut self, tree: &Tree<'_>, origin: &Origin<'_>) -> Result<(), InputError> {
        let (api_version, kind) = identity(tree, origin)?;
        if (api_version, kind) == ("v1", "List") {
            return list_without_items(tree, origin);
        }
        self.objects += 1;
        let Some(known) = version::known_kind(api_version, kind) else {
            let (group, _) = version::split(api_version);
            *self.manifests.ignored.entry(full_name(group, kind)).or_default() += 1;
            if let Some(warning) = autoscaler_warning(group, kind, tree) {
                self.warn_of(tree, origin, "", &warning);
            }
            return Ok(());
        };
        if let Err(supported) = known.check_version(api_version) {
            return Err(InputError::Version {
                place: origin.place("apiVersion"),
                object: describe(tree),
                version: shorten(api_version),
                supported,
                hint: version::hint(api_version, supported),
            });
        }
        let Inspected { object, ignored, unknown, never_ready } =
            inspect::decoded(known, tree).map_err(|(first, others)| self.refuse_all(tree, origin, first, others))?;
        // A pool reports it itself when it is used.
        if let Some(reason) = never_ready.filter(|_| known.kind != "NodePool") {
            self.warn_of(tree, origin, "", &format!("will never become ready: {reason}"));
        }
        let named = self.keep(known.kind, object);
        for (path, warning) in ignored {
            self.warn_of(tree, origin, &path, &warning);
        }
        for field in unknown {
            self.warn(tree, origin, &field);
        }
        self.remember(named, tree, origin)
    }

    /// Returns the error that rejects an object for several reasons.
    fn refuse_all(&self, tree: &Tree<'_>, origin: &Origin<'_>, first: Fault, others: Vec<Fault>) -> InputError {
        let refuse = |fault: Fault| self.refuse(tree, origin, fault);
        InputError::several(refuse(first), others.into_iter().map(refuse).collect())
    }

    /// Returns the error that rejects an object.
    pub(crate) fn refuse(&self, tree: &Tree<'_>, origin: &Origin<'_>, fault: Fault) -> InputError {
        let (place, object) = (origin.place(&fault.path), describe(tree));
        let Fault { path: field, problem, hint } = fault;
        if field.is_empty() {
            return InputError::Object { place, object, problem, hint };
        }
        InputError::Field { place, object, field, problem, hint }
    }

    fn warn(&mut self, tree: &Tree<'_>, origin: &Origin<'_>, field: &UnknownField) {
        let nearest =
            field.nearest.as_ref().map_or_else(String::new, |nearest| format!(" (did you mean `{nearest}`?)"));
        self.warn_of(tree, origin, &field.path, &format!("unknown field `{}` is ignored{nearest}", field.path));
    }

    fn warn_of(&mut self, tree: &Tree<'_>, origin: &Origin<'_>, path: &str, what: &str) {
        if self.manifests.warnings.len() < WARNINGS {
            let place = origin.place(path);
            self.manifests.warnings.push(format!("{place}: {}: {what}", describe(tree)));
        } else {
            self.unnamed_warnings += 1;
        }
    }

    fn remember(&mut self, named: Named, tree: &Tree<'_>, origin: &Origin<'_>) -> Result<(), InputError> {
        let spot = Spot { file: self.files.len().saturating_sub(1), document: origin.document, item: origin.item };
        match self.seen.insert((named.kind, named.path), spot) {
            None => Ok(()),
            Some(Spot { file, document, item }) => {
                let file = self.files.get(file).cloned().unwrap_or_default();
                let first = Box::new(Place { file, document, item, line: None });
                Err(InputError::Twice { place: origin.place("metadata.name"), object: describe(tree), first })
            }
        }
    }

    fn share(&mut self, template: PodTemplate) -> Arc<PodTemplate> {
        if let Some(shared) = self.templates.get(&template) {
            return Arc::clone(shared);
        }
        let shared = Arc::new(template);
        self.templates.insert(Arc::clone(&shared));
        shared
    }

    fn share_namespace(&mut self, namespace: Arc<str>) -> Arc<str> {
        if let Some(shared) = self.namespaces.get(&namespace) {
            return Arc::clone(shared);
        }
        self.namespaces.insert(Arc::clone(&namespace));
        namespace
    }

    fn next_sequence(&mut self) -> usize {
        self.sequence += 1;
        self.sequence
    }

    /// Stores a decoded object.
    fn keep(&mut self, kind: &'static str, object: Object) -> Named {
        let path = object.path();
        let name = Arc::clone(&path);
        let manifests = &mut self.manifests;
        match object {
            Object::Pod(mut pod, template) => {
                pod.template = self.share(*template);
                pod.namespace = self.share_namespace(pod.namespace);
                pod.sequence = self.next_sequence();
                self.manifests.pods.push(*pod);
            }
            Object::Workload(mut workload, template) => {
                workload.template = self.share(*template);
                workload.sequence = self.next_sequence();
                self.manifests.workloads.push(*workload);
            }
            Object::DaemonSet(mut daemon_set, template) => {
                daemon_set.template = self.share(*template);
                self.manifests.daemon_sets.push(*daemon_set);
            }
            Object::PodTemplate(_, template) => {
                let template = self.share(*template);
                self.manifests.pod_templates.insert(name, template);
            }
            Object::Node(node) => manifests.nodes.push(*node),
            Object::CsiNode(node) => manifests.csi_nodes.push(node),
            Object::VolumeAttachment(_, attachment) => manifests.volume_attachments.push(attachment),
            Object::Namespace(meta) => manifests.namespaces.push(*meta),
            Object::LimitRange(range) => manifests.limit_ranges.push(*range),
            Object::DisruptionBudget(budget) => manifests.disruption_budgets.push(*budget),
            Object::Service(service) => {
                // Only the default spread uses Services, so they are reported as ignored.
                *manifests.ignored.entry(kind.to_owned()).or_default() += 1;
                manifests.services.push(*service);
            }
            Object::Claim(claim) => drop(manifests.claims.insert(name, *claim)),
            Object::PersistentVolume(volume) => drop(manifests.volumes.insert(name, *volume)),
            Object::StorageClass(class) => drop(manifests.storage_classes.insert(name, *class)),
            Object::RuntimeClass(class) => drop(manifests.runtime_classes.insert(name, *class)),
            Object::PriorityClass(class) => drop(manifests.priority_classes.insert(name, *class)),
            Object::DeviceClass(class) => drop(manifests.device_classes.insert(name, *class)),
            Object::ResourceClaim(claim) => drop(manifests.resource_claims.insert(name, *claim)),
            Object::ResourceClaimTemplate(template) => {
                drop(manifests.resource_claim_templates.insert(name, *template));
            }
            Object::ResourceSlice(slice) => manifests.resource_slices.push(Arc::from(slice)),
            Object::NodePool(pool) => manifests.node_pools.push(*pool),
            Object::NodeClaim(claim) => manifests.node_claims.push(*claim),
            Object::NodeOverlay(overlay) => manifests.node_overlays.push(*overlay),
            Object::CapacityBuffer(buffer) => manifests.capacity_buffers.push(*buffer),
            Object::NodeClass(class) => manifests.node_classes.push(*class),
        }
        Named { kind, path }
    }
}

/// Returns the warning about a HorizontalPodAutoscaler: its workload counts with the replicas of its own manifest.
fn autoscaler_warning(group: &str, kind: &str, tree: &Tree<'_>) -> Option<String> {
    if (group, kind) != ("autoscaling", "HorizontalPodAutoscaler") {
        return None;
    }
    let spec = tree.get("spec")?;
    let target = spec.get("scaleTargetRef");
    let text = |key: &str| target.and_then(|target| target.get(key)).and_then(Tree::text);
    let workload = format!("{} `{}`", shorten(text("kind")?), shorten(text("name")?));
    let number = |key: &str| spec.get(key).and_then(|tree| tree.to_json().as_i64());
    let (least, most) = (number("minReplicas").unwrap_or(1), number("maxReplicas")?);
    Some(format!("{workload} is planned with its own `replicas` (1 if absent), not with {least} to {most}"))
}

/// Handles a `List` that was not flattened: its items are absent or not a list.
fn list_without_items(tree: &Tree<'_>, origin: &Origin<'_>) -> Result<(), InputError> {
    let (reason, hint) = match tree.get("items") {
        None => return Ok(()),
        Some(Tree::List(_)) => ("lists are nested too deep".to_owned(), "put all objects into one `List`"),
        Some(items) => {
            let reason = format!("field `items` of a List must be a list, not {}", items.describe());
            (reason, "begin each object with `- `, or put them into `[` and `]`")
        }
    };
    Err(InputError::NotAnObject { place: origin.place("items"), reason, hint: hint.to_owned() })
}

/// Returns apiVersion and kind.
fn identity<'t>(tree: &'t Tree<'_>, origin: &Origin<'_>) -> Result<(&'t str, &'t str), InputError> {
    let not_an_object =
        |reason: String, hint: &str| InputError::NotAnObject { place: origin.place(""), reason, hint: hint.to_owned() };
    if !matches!(tree, Tree::Map(_)) {
        let reason = format!("a Kubernetes object must be a map, not {}", tree.describe());
        return Err(not_an_object(
            reason,
            "write `apiVersion`, `kind` and `metadata`; several objects go into a `List`",
        ));
    }
    let text = |key: &str| {
        tree.get(key).and_then(Tree::text).filter(|text| !text.is_empty()).ok_or_else(|| {
            let what = if tree.get(key).is_some() { "is not text" } else { "is missing" };
            not_an_object(format!("field `{key}` {what}"), "every object needs an `apiVersion` and a `kind`")
        })
    };
    Ok((text("apiVersion")?, text("kind")?))
}

/// Checks the kind and version of an object without decoding it. Returns the name of its kind, if that is unknown; for
/// kinds of Muster the version must be supported, or accepted by `is_old`.
pub(crate) fn look(
    tree: &Tree<'_>,
    origin: &Origin<'_>,
    is_old: impl Fn(&str, &str) -> bool,
) -> Result<Option<String>, InputError> {
    let (api_version, kind) = identity(tree, origin)?;
    let (group, _) = version::split(api_version);
    let Some(known) = version::known_kind(api_version, kind) else {
        if !version::is_our_group(group) {
            return Ok(Some(full_name(group, kind)));
        }
        let all: Vec<&str> = version::kinds_of(group).collect();
        let hint = match nearest_of(all.iter().copied(), kind) {
            Some(nearest) => format!("did you mean `{nearest}`?"),
            None => format!("it has {}", all.join(", ")),
        };
        let problem = format!("there is no kind `{}` in `{group}`", shorten(kind));
        return Err(InputError::Object { place: origin.place("kind"), object: describe(tree), problem, hint });
    };
    match known.check_version(api_version) {
        Err(supported) if version::is_our_group(group) && !is_old(api_version, kind) => Err(InputError::Version {
            place: origin.place("apiVersion"),
            object: describe(tree),
            version: shorten(api_version),
            supported,
            hint: "v1beta1 and v1alpha5 (of AWSNodeTemplate v1alpha1) can be converted: name the one it is written for"
                .to_owned(),
        }),
        _ => Ok(None),
    }
}

/// Returns the full name of a kind, such as `Job.batch.volcano.sh`.
fn full_name(group: &str, kind: &str) -> String {
    shorten(&if group.is_empty() { kind.to_owned() } else { format!("{kind}.{group}") })
}

/// Describes the object for messages, as far as it can be identified.
fn describe(tree: &Tree<'_>) -> String {
    let kind = tree.get("kind").and_then(Tree::text).unwrap_or("object");
    let meta = tree.get("metadata");
    let text = |key: &str| meta.and_then(|meta| meta.get(key)).and_then(Tree::text);
    match (text("namespace"), text("name")) {
        (Some(namespace), Some(name)) => format!("{} `{}/{}`", shorten(kind), shorten(namespace), shorten(name)),
        (None, Some(name)) => format!("{} `{}`", shorten(kind), shorten(name)),
        (_, None) => format!("{} without a name", shorten(kind)),
    }
}
