//! Takes objects one by one, decodes those of known kinds, and keeps what they say.

use std::sync::Arc;

use rustc_hash::{FxHashMap, FxHashSet};
use serde::de::Deserialize;

use super::document::Origin;
use super::error::{InputError, Place};
use super::field::{Decoded, Fault, Field, Unknown, UnknownField};
use super::objects::Manifests;
use super::pod::PodTemplate;
use super::tree::{Tree, shorten};
use super::{capacity, cluster, judge, meta, pod, version, volume, workload};

/// Warnings that are given one by one, each for the price of a second look at its document; a template stamped ten
/// thousand times would drown everything else.
const WARNINGS: usize = 20;

/// What has been read so far.
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

/// Where an object was seen, small enough to keep for each.
#[derive(Clone, Copy)]
struct Spot {
    file: usize,
    document: usize,
    item: Option<usize>,
}

/// An object that was decoded and is to be kept under its name.
struct Named {
    kind: &'static str,
    path: Arc<str>,
}

impl Reader {
    /// The file that the next objects come from.
    pub(crate) fn enter(&mut self, file: &str) {
        self.files.push(file.to_owned());
    }

    /// How many objects there were, of whatever kind.
    pub(crate) fn objects(&self) -> usize {
        self.objects
    }

    /// Adds a warning.
    pub(crate) fn say(&mut self, warning: String) {
        self.manifests.warnings.push(warning);
    }

    /// All that was read.
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
            let name = if group.is_empty() { kind.to_owned() } else { format!("{kind}.{group}") };
            *self.manifests.ignored.entry(shorten(&name)).or_default() += 1;
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
        let unknown = Unknown::default();
        let (completed, never_ready);
        let (decoded, more_unknown) = if known.ours {
            let judgement = judge::judge(&tree.to_json());
            if let Some(fault) = judgement.refusal {
                return Err(self.refuse(tree, origin, fault));
            }
            // A pool says so itself when it is put to use.
            if let Some(reason) = judgement.never_ready.as_ref().filter(|_| known.kind != "NodePool") {
                self.warn_of(tree, origin, "", &format!("will never become ready: {reason}"));
            }
            never_ready = judgement.never_ready;
            completed = judgement.completed;
            // Judged already: what is unknown here was reported by the judge, with the names of the whole schema.
            let tree = Tree::deserialize(&completed).unwrap_or(Tree::Null);
            let decoded =
                self.decode_ours(known.kind, &Field::root(&tree, &Unknown::default()), &completed, never_ready);
            (decoded, judgement.unknown)
        } else {
            (self.decode(known.kind, &Field::root(tree, &unknown)), Vec::new())
        };
        let named = decoded.map_err(|fault| self.refuse(tree, origin, *fault))?;
        for field in unknown.into_fields().into_iter().chain(more_unknown) {
            self.warn(tree, origin, &field);
        }
        self.remember(named, tree, origin)
    }

    fn refuse(&self, tree: &Tree<'_>, origin: &Origin<'_>, fault: Fault) -> InputError {
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

    /// Decodes and keeps an object of Kubernetes.
    fn decode(&mut self, kind: &'static str, object: &Field<'_>) -> Decoded<Named> {
        let path = match kind {
            "Pod" => self.take_pod(object)?,
            "Deployment" | "StatefulSet" | "ReplicaSet" => self.take_workload(workload::replicated(object, kind)?),
            "Job" => self.take_workload(workload::job(object)?),
            "CronJob" => self.take_workload(workload::cron_job(object)?),
            "DaemonSet" => {
                let (mut daemon_set, template) = workload::daemon_set(object)?;
                daemon_set.template = self.share(template);
                let path = daemon_set.meta.path();
                self.manifests.daemon_sets.push(daemon_set);
                path
            }
            "PodTemplate" => {
                object.only(&["apiVersion", "kind", "metadata", "template"]);
                let path = meta::meta(object, true)?.path();
                let template = pod::template(object.require("template")?)?;
                let template = self.share(template);
                self.manifests.pod_templates.insert(Arc::clone(&path), template);
                path
            }
            "Node" => keep(cluster::node(object)?, |node| node.meta.path(), &mut self.manifests.nodes),
            "CSINode" => keep(volume::csi_node(object)?, |node| Arc::clone(&node.name), &mut self.manifests.csi_nodes),
            "VolumeAttachment" => {
                let attachment = volume::volume_attachment(object)?;
                self.manifests.volume_attachments.push(attachment);
                meta::meta(object, false)?.path()
            }
            "Namespace" => keep(cluster::namespace(object)?, meta::Meta::path, &mut self.manifests.namespaces),
            "LimitRange" => {
                keep(cluster::limit_range(object)?, |range| range.meta.path(), &mut self.manifests.limit_ranges)
            }
            "PodDisruptionBudget" => keep(
                cluster::disruption_budget(object)?,
                |budget| budget.meta.path(),
                &mut self.manifests.disruption_budgets,
            ),
            "Service" => {
                // Only the default spread looks at Services, so to everyone else they are ignored.
                *self.manifests.ignored.entry(kind.to_owned()).or_default() += 1;
                keep(cluster::service(object)?, |service| service.meta.path(), &mut self.manifests.services)
            }
            _ => self.take_by_name(kind, object)?,
        };
        Ok(Named { kind, path })
    }

    /// Decodes and keeps an object that others find by its name.
    fn take_by_name(&mut self, kind: &'static str, object: &Field<'_>) -> Decoded<Arc<str>> {
        let manifests = &mut self.manifests;
        Ok(match kind {
            "PersistentVolumeClaim" => {
                keep_by_name(volume::claim(object)?, |claim| claim.meta.path(), &mut manifests.claims)
            }
            "PersistentVolume" => {
                keep_by_name(volume::persistent_volume(object)?, |volume| volume.meta.path(), &mut manifests.volumes)
            }
            "StorageClass" => {
                keep_by_name(volume::storage_class(object)?, |class| class.meta.path(), &mut manifests.storage_classes)
            }
            "RuntimeClass" => {
                keep_by_name(cluster::runtime_class(object)?, |class| class.meta.path(), &mut manifests.runtime_classes)
            }
            _ => keep_by_name(
                cluster::priority_class(object)?,
                |class| class.meta.path(),
                &mut manifests.priority_classes,
            ),
        })
    }

    fn take_pod(&mut self, object: &Field<'_>) -> Decoded<Arc<str>> {
        let (mut pod, template) = pod::pod(object)?;
        pod.template = self.share(template);
        pod.namespace = self.share_namespace(pod.namespace);
        pod.sequence = self.next_sequence();
        let path = Arc::clone(&pod.path);
        self.manifests.pods.push(pod);
        Ok(path)
    }

    fn take_workload(&mut self, (mut workload, template): (workload::Workload, PodTemplate)) -> Arc<str> {
        workload.template = self.share(template);
        workload.sequence = self.next_sequence();
        let path = workload.meta.path();
        self.manifests.workloads.push(workload);
        path
    }

    /// Decodes and keeps an object of ours.
    fn decode_ours(
        &mut self,
        kind: &'static str,
        object: &Field<'_>,
        json: &serde_json::Value,
        never_ready: Option<String>,
    ) -> Decoded<Named> {
        let manifests = &mut self.manifests;
        let path = match kind {
            "NodePool" => {
                let mut pool = capacity::node_pool(object, json.clone())?;
                pool.never_ready = never_ready;
                keep(pool, |pool| pool.meta.path(), &mut manifests.node_pools)
            }
            "NodeClaim" => keep(capacity::node_claim(object)?, |claim| claim.meta.path(), &mut manifests.node_claims),
            "NodeOverlay" => {
                keep(capacity::node_overlay(object)?, |overlay| Arc::clone(&overlay.name), &mut manifests.node_overlays)
            }
            "CapacityBuffer" => {
                keep(capacity::capacity_buffer(object)?, |buffer| buffer.meta.path(), &mut manifests.capacity_buffers)
            }
            _ => {
                let class = capacity::node_class(object, kind, json.clone())?;
                keep(class, |class| Arc::clone(&class.name), &mut manifests.node_classes)
            }
        };
        Ok(Named { kind, path })
    }
}

fn keep<T>(object: T, path: impl Fn(&T) -> Arc<str>, all: &mut Vec<T>) -> Arc<str> {
    let path = path(&object);
    all.push(object);
    path
}

fn keep_by_name<T>(
    object: T,
    path: impl Fn(&T) -> Arc<str>,
    all: &mut std::collections::BTreeMap<Arc<str>, T>,
) -> Arc<str> {
    let path = path(&object);
    all.insert(Arc::clone(&path), object);
    path
}

/// A `List` whose items were not taken apart: it has none, or they are not a list.
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

/// apiVersion and kind.
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

/// The object for people, as far as it says who it is.
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
