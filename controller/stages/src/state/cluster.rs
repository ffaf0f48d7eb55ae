//! Cluster state and its updates.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use muster_api::{CapacityBuffer, NodeClaim, NodeClassReference, NodeOverlay, NodePool, annotations};
use muster_manifest::{
    self as manifest, Claim, CsiNode, DaemonSet, DeviceClass, DisruptionBudget, LimitRange, Meta, PersistentVolume,
    PodTemplate, PriorityClass, ResourceClaim, ResourceClaimTemplate, ResourceSlice, RuntimeClass, Service,
    StorageClass, VolumeAttachment, Workload,
};
use serde::Serialize;

use super::changed::Changed;
use super::class::LiveClass;
use super::index::Index;
use super::kind::Kind;
use super::names::Names;
use super::pod::LivePod;
use super::read::{self, ParsedObject};
use crate::lifecycle::pause::Pause;
use crate::node::Node;
use crate::provision::{PendingPod, Queue};

/// State of the cluster.
#[derive(Debug, Clone, Default)]
pub struct Cluster {
    pub(super) names: Names,
    pub(super) revision: u64,
    /// Errors of objects that could not be read completely.
    pub(super) notes: BTreeMap<(Kind, Arc<str>), String>,

    pub(super) pods: BTreeMap<Arc<str>, Box<LivePod>>,
    pub(super) pods_by_node: Index,
    /// Pods that wait, by the Node that they are nominated to.
    pub(super) pods_by_nomination: Index,
    /// Pods that wait for a node, as input of provisioning: read several times a second while many are pending.
    pub(super) unbound: BTreeMap<Arc<str>, Arc<PendingPod>>,
    /// Number of times that a pod was seen to enter a scheduler's queue, for the first time or again.
    pub(super) queued: u64,
    /// Progress of the default scheduler in its queue.
    pub(super) queue: Queue,

    /// Boxed, as are pods and claims: leaves of the map have room for eleven entries of 2 kB and are half empty after a
    /// list.
    pub(super) nodes: BTreeMap<Arc<str>, Box<LiveNode>>,
    pub(super) nodes_by_provider: Index,

    pub(super) claims: BTreeMap<Arc<str>, Box<LiveClaim>>,
    pub(super) claims_by_provider: Index,
    /// By the last part of the provider ID, which is the instance ID.
    pub(super) claims_by_instance: Index,
    pub(super) claims_by_pool: Index,
    /// By `kind/name` of the class.
    pub(super) claims_by_class: Index,

    pub(super) pools: BTreeMap<Arc<str>, LivePool>,
    pub(super) classes: BTreeMap<(Kind, Arc<str>), LiveClass>,

    pub(super) attachments: BTreeMap<Arc<str>, VolumeAttachment>,
    pub(super) attachments_by_node: Index,
    pub(super) device_classes: BTreeMap<Arc<str>, DeviceClass>,
    pub(super) resource_claims: BTreeMap<Arc<str>, ResourceClaim>,
    pub(super) resource_claim_templates: BTreeMap<Arc<str>, ResourceClaimTemplate>,
    pub(super) slices: BTreeMap<Arc<str>, Arc<ResourceSlice>>,
    pub(super) slices_by_node: Index,

    pub(super) namespaces: BTreeMap<Arc<str>, Meta>,
    pub(super) daemon_sets: BTreeMap<Arc<str>, DaemonSet>,
    pub(super) limit_ranges: BTreeMap<Arc<str>, LimitRange>,
    pub(super) overlays: BTreeMap<Arc<str>, LiveOverlay>,
    pub(super) buffers: BTreeMap<Arc<str>, LiveBuffer>,
    pub(super) pod_templates: BTreeMap<Arc<str>, LiveTemplate>,
    /// Workloads that CapacityBuffers may refer to, by kind and path.
    pub(super) scaled: BTreeMap<(Kind, Arc<str>), Workload>,
    pub(super) volume_claims: BTreeMap<Arc<str>, Claim>,
    pub(super) volumes: BTreeMap<Arc<str>, PersistentVolume>,
    pub(super) storage_classes: BTreeMap<Arc<str>, StorageClass>,
    pub(super) csi_nodes: BTreeMap<Arc<str>, CsiNode>,
    pub(super) runtime_classes: BTreeMap<Arc<str>, RuntimeClass>,
    pub(super) priority_classes: BTreeMap<Arc<str>, PriorityClass>,
    pub(super) budgets: BTreeMap<Arc<str>, DisruptionBudget>,
    pub(super) services: BTreeMap<Arc<str>, Service>,
}

/// A Node in typed form without unused fields, and as input of the engine unless it is invalid.
#[derive(Debug, Clone)]
pub(super) struct LiveNode {
    pub(super) typed: Node,
    pub(super) provider: Option<Arc<str>>,
    pub(super) compact: Option<manifest::Node>,
}

/// A NodeClaim in both forms.
#[derive(Debug, Clone)]
pub(super) struct LiveClaim {
    pub(super) typed: NodeClaim,
    pub(super) provider: Option<Arc<str>>,
    pub(super) instance: Option<Arc<str>>,
    pub(super) pool: Option<Arc<str>>,
    pub(super) class: Arc<str>,
    pub(super) compact: Option<manifest::NodeClaim>,
}

/// A NodePool in both forms.
#[derive(Debug, Clone)]
pub(super) struct LivePool {
    pub(super) typed: NodePool,
    pub(super) compact: Option<manifest::NodePool>,
}

/// A NodeOverlay in both forms.
#[derive(Debug, Clone, PartialEq)]
pub struct LiveOverlay {
    /// The API object, without `managedFields`.
    pub typed: NodeOverlay,
    /// Input of the engine; none if the object is invalid.
    pub(super) compact: Option<manifest::NodeOverlay>,
    /// Error of the validation that goes beyond that of the API server.
    pub refusal: Option<String>,
}

/// A CapacityBuffer in both forms.
#[derive(Debug, Clone, PartialEq)]
pub struct LiveBuffer {
    /// The API object, without `managedFields`.
    pub typed: CapacityBuffer,
    /// Input of the engine; none if the object is invalid.
    pub(super) compact: Option<manifest::CapacityBuffer>,
    /// Error of the validation that goes beyond that of the API server.
    pub refusal: Option<String>,
}

/// A PodTemplate.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct LiveTemplate {
    pub(super) template: Arc<PodTemplate>,
    pub(super) generation: Option<i64>,
}

// === changing it ===

impl Cluster {
    /// Adds or updates an object of `kind` from the API server's JSON text. Errors become a note ([`Cluster::notes`]).
    pub fn apply(&mut self, kind: Kind, text: &str) -> Changed {
        self.apply_listed(kind, text).0
    }

    /// Applies an object, and also returns its `metadata.resourceVersion`.
    pub fn apply_at(&mut self, kind: Kind, text: &str) -> (Changed, Option<String>) {
        self.names.read(text.len());
        let mut reading = read::read(kind, text);
        let version = reading.version.take();
        (self.take_in(kind, reading).0, version)
    }

    /// Applies an object, and also returns its path; empty if it has no name.
    pub fn apply_listed(&mut self, kind: Kind, text: &str) -> (Changed, Arc<str>) {
        self.names.read(text.len());
        self.take_in(kind, read::read(kind, text))
    }

    fn take_in(&mut self, kind: Kind, reading: ParsedObject) -> (Changed, Arc<str>) {
        let ParsedObject { path, word, note, version: _ } = reading;
        let is_news = note.is_some();
        let key = (kind, Arc::clone(&path));
        match note {
            Some(note) => drop(self.notes.insert(key, note)),
            None => drop(self.notes.remove(&key)),
        }
        let mut changed = Changed::default();
        match word {
            Some(word) => self.keep(kind, Arc::clone(&path), word, &mut changed),
            // The previous version is outdated, but the controller would act on the absence of a Node or NodeClaim.
            None if matches!(kind, Kind::Node | Kind::NodeClaim) => {}
            None => self.forget(kind, &path, &mut changed),
        }
        if is_news {
            changed.kinds.insert(kind);
        }
        (self.count(changed), path)
    }

    /// Adds or updates a typed object of `kind`.
    pub fn apply_object(&mut self, kind: Kind, object: &impl Serialize) -> Changed {
        // Serializing a map with string keys never fails; if it did, the object would get a note.
        self.apply(kind, &serde_json::to_string(object).unwrap_or_default())
    }

    /// Removes the object of `kind` at `path` (`namespace/name`, or the name if the kind is cluster-scoped).
    pub fn remove(&mut self, kind: Kind, path: &str) -> Changed {
        let mut changed = Changed::default();
        if self.notes.remove(&(kind, path.into())).is_some() {
            changed.kinds.insert(kind);
        }
        self.forget(kind, path, &mut changed);
        self.count(changed)
    }

    /// Removes the object of `kind` whose last version is `text`. Also returns that resource version.
    pub fn remove_at(&mut self, kind: Kind, text: &str) -> (Changed, Option<String>) {
        let (path, version) = read::read_name(kind, text);
        (self.remove(kind, &path), version)
    }

    /// Removes all objects of `kind` that are not at one of `paths`, which are the paths of a new list.
    pub fn retain(&mut self, kind: Kind, paths: &BTreeSet<Arc<str>>) -> Changed {
        let mut gone: Vec<Arc<str>> = self.paths(kind).into_iter().filter(|path| !paths.contains(path)).collect();
        let noted = self.notes.keys().filter(|(of, path)| *of == kind && !paths.contains(path));
        gone.extend(noted.map(|(_, path)| Arc::clone(path)));
        let mut changed = Changed::default();
        for path in gone {
            changed.merge(self.remove(kind, &path));
        }
        changed
    }

    fn count(&mut self, changed: Changed) -> Changed {
        self.revision += u64::from(!changed.is_empty());
        changed
    }
}

// === asking it ===

impl Cluster {
    /// Returns the number of effective changes so far.
    #[must_use]
    pub const fn revision(&self) -> u64 {
        self.revision
    }

    /// Returns the read errors by kind and path, each a line of text.
    pub fn notes(&self) -> impl Iterator<Item = (Kind, &str, &str)> {
        self.notes.iter().map(|((kind, path), note)| (*kind, &**path, &**note))
    }

    /// Returns true if an object of `kind` could not be read at all. If so for NodeClaims, instances without a claim
    /// cannot be determined.
    #[must_use]
    pub fn has_unreadable(&self, kind: Kind) -> bool {
        let is_kept = |path: &Arc<str>| match kind {
            Kind::NodeClaim => self.claims.contains_key(path),
            Kind::Node => self.nodes.contains_key(path),
            _ => false,
        };
        self.notes.keys().any(|(of, path)| *of == kind && !is_kept(path))
    }

    /// Returns a pod by `namespace/name`.
    #[must_use]
    pub fn pod(&self, path: &str) -> Option<&LivePod> {
        self.pods.get(path).map(|pod| &**pod)
    }

    /// Returns all pods, by path.
    pub fn pods(&self) -> impl ExactSizeIterator<Item = &LivePod> {
        self.pods.values().map(|pod| &**pod)
    }

    /// Returns those of the sets that have pods that have not ended and are not being deleted.
    #[must_use]
    pub fn live_among(&self, sets: &BTreeSet<Arc<str>>) -> BTreeSet<Arc<str>> {
        // The name of a set begins with its namespace. That of a pod is put together only if the namespace is one of
        // these.
        let namespaces: BTreeSet<&str> = sets.iter().filter_map(|set| set.split('/').next()).collect();
        let of_these = self.pods().filter(|pod| namespaces.contains(&*pod.pod.namespace));
        let live = of_these.filter(|pod| !pod.pod.deleting && !pod.pod.terminal);
        live.filter_map(|pod| sets.get(&*pod.set())).cloned().collect()
    }

    /// Returns pods without a node that want one, including gated ones, by path.
    pub fn unbound(&self) -> impl Iterator<Item = &LivePod> {
        self.unbound.keys().filter_map(|path| self.pod(path))
    }

    /// Returns the waiting pods that are nominated to `node`, by path.
    pub fn nominated_to(&self, node: &str) -> impl Iterator<Item = &LivePod> {
        self.pods_by_nomination.get(node).filter_map(|path| self.pod(path))
    }

    /// Returns the progress of the default scheduler with the unbound pods.
    #[must_use]
    pub const fn queue(&self) -> &Queue {
        &self.queue
    }

    /// Returns the number of pods without a node that want one.
    #[must_use]
    pub fn count_unbound(&self) -> usize {
        self.unbound.len()
    }

    /// Returns the pods that are bound to `node`, by path.
    pub fn pods_on(&self, node: &str) -> impl Iterator<Item = &LivePod> {
        self.pods_by_node.get(node).filter_map(|path| self.pod(path))
    }

    /// Returns a Node.
    #[must_use]
    pub fn node(&self, name: &str) -> Option<&Node> {
        self.nodes.get(name).map(|node| &node.typed)
    }

    /// Returns a Node as input of the engine; none if it does not exist or is invalid.
    #[must_use]
    pub fn readable_node(&self, name: &str) -> Option<&manifest::Node> {
        self.nodes.get(name)?.compact.as_ref()
    }

    /// Returns all Nodes, by name.
    pub fn nodes(&self) -> impl ExactSizeIterator<Item = &Node> {
        self.nodes.values().map(|node| &node.typed)
    }

    /// Returns the Nodes with a provider ID, by name.
    pub fn nodes_of(&self, provider_id: &str) -> impl Iterator<Item = &Node> {
        self.nodes_by_provider.get(provider_id).filter_map(|name| self.node(name))
    }

    /// Returns the Node of a NodeClaim. Of several with its provider ID it is the one that the claim was registered
    /// with: anyone with the role of nodes can create a Node with the ID of another.
    #[must_use]
    pub fn node_of(&self, claim: &NodeClaim) -> Option<&Node> {
        let status = claim.status.as_ref()?;
        let id = status.provider_id.as_deref()?;
        let is_registered =
            |node: &&Node| node.metadata.name.is_some() && node.metadata.name.as_deref() == status.node_name.as_deref();
        self.nodes_of(id).find(is_registered).or_else(|| self.nodes_of(id).next())
    }

    /// Returns the NodeClaim that a Node is the Node of ([`Cluster::node_of`]).
    #[must_use]
    pub fn claim_of(&self, node: &Node) -> Option<&NodeClaim> {
        let id = node.spec.as_ref()?.provider_id.as_deref()?;
        let is_this =
            |claim: &&NodeClaim| self.node_of(claim).is_some_and(|own| own.metadata.name == node.metadata.name);
        self.claims_of(id).find(is_this)
    }

    /// Returns a NodeClaim.
    #[must_use]
    pub fn claim(&self, name: &str) -> Option<&NodeClaim> {
        self.claims.get(name).map(|claim| &claim.typed)
    }

    /// Returns all NodeClaims, by name.
    pub fn claims(&self) -> impl ExactSizeIterator<Item = &NodeClaim> {
        self.claims.values().map(|claim| &claim.typed)
    }

    /// Returns the NodeClaims with a provider ID, by name.
    pub fn claims_of(&self, provider_id: &str) -> impl Iterator<Item = &NodeClaim> {
        self.claims_by_provider.get(provider_id).filter_map(|name| self.claim(name))
    }

    /// Returns the NodeClaims of an instance ID such as `i-0123456789abcdef0`, by name.
    pub fn claims_of_instance(&self, instance: &str) -> impl Iterator<Item = &NodeClaim> {
        self.claims_by_instance.get(instance).filter_map(|name| self.claim(name))
    }

    /// Returns the NodeClaims of a NodePool, by name.
    pub fn claims_of_pool(&self, pool: &str) -> impl Iterator<Item = &NodeClaim> {
        self.claims_by_pool.get(pool).filter_map(|name| self.claim(name))
    }

    /// Returns the NodeClaims of a class, by name.
    pub fn claims_of_class(&self, class: &NodeClassReference) -> impl Iterator<Item = &NodeClaim> {
        self.claims_by_class.get(&class_key(&class.kind, &class.name)).filter_map(|name| self.claim(name))
    }

    /// Returns a NodePool.
    #[must_use]
    pub fn pool(&self, name: &str) -> Option<&NodePool> {
        self.pools.get(name).map(|pool| &pool.typed)
    }

    /// Returns all NodePools, by name.
    pub fn pools(&self) -> impl ExactSizeIterator<Item = &NodePool> {
        self.pools.values().map(|pool| &pool.typed)
    }

    /// Returns all NodeOverlays, by name.
    pub fn overlays(&self) -> impl ExactSizeIterator<Item = &LiveOverlay> {
        self.overlays.values()
    }

    /// Returns all CapacityBuffers, by `namespace/name`.
    pub fn buffers(&self) -> impl ExactSizeIterator<Item = (&str, &LiveBuffer)> {
        self.buffers.iter().map(|(path, buffer)| (&**path, buffer))
    }

    /// Returns the `metadata.generation` of a PodTemplate (`namespace/name`).
    #[must_use]
    pub fn generation_of_template(&self, path: &str) -> Option<i64> {
        self.pod_templates.get(path)?.generation
    }

    /// Returns a NodeClass.
    #[must_use]
    pub fn class(&self, reference: &NodeClassReference) -> Option<&LiveClass> {
        let kind = Kind::named(&reference.kind)?;
        self.classes.get(&(kind, reference.name.as_str().into()))
    }

    /// Returns all NodeClasses, by kind and name.
    pub fn classes(&self) -> impl ExactSizeIterator<Item = &LiveClass> {
        self.classes.values()
    }

    /// Returns the cluster-wide pause, from the annotation of the namespace that Muster runs in.
    #[must_use]
    pub fn pause(&self, namespace: &str) -> Pause {
        let said = self.namespaces.get(namespace).and_then(|meta| meta.annotations.get(annotations::PAUSE));
        said.map_or(Pause::NOTHING, |text| Pause::read(text).0)
    }

    /// Returns the paths of all objects of a kind, sorted.
    #[must_use]
    pub fn paths(&self, kind: Kind) -> Vec<Arc<str>> {
        fn keys<T>(all: &BTreeMap<Arc<str>, T>) -> Vec<Arc<str>> {
            all.keys().cloned().collect()
        }
        match kind {
            Kind::Namespace => keys(&self.namespaces),
            Kind::Node => keys(&self.nodes),
            Kind::Pod => keys(&self.pods),
            Kind::PersistentVolumeClaim => keys(&self.volume_claims),
            Kind::PersistentVolume => keys(&self.volumes),
            Kind::DaemonSet => keys(&self.daemon_sets),
            Kind::LimitRange => keys(&self.limit_ranges),
            Kind::RuntimeClass => keys(&self.runtime_classes),
            Kind::PodDisruptionBudget => keys(&self.budgets),
            Kind::PriorityClass => keys(&self.priority_classes),
            Kind::CsiNode => keys(&self.csi_nodes),
            Kind::StorageClass => keys(&self.storage_classes),
            Kind::VolumeAttachment => keys(&self.attachments),
            Kind::DeviceClass => keys(&self.device_classes),
            Kind::ResourceClaim => keys(&self.resource_claims),
            Kind::ResourceClaimTemplate => keys(&self.resource_claim_templates),
            Kind::ResourceSlice => keys(&self.slices),
            Kind::Service => keys(&self.services),
            Kind::NodePool => keys(&self.pools),
            Kind::NodeClaim => keys(&self.claims),
            Kind::NodeOverlay => keys(&self.overlays),
            Kind::CapacityBuffer => keys(&self.buffers),
            Kind::PodTemplate => keys(&self.pod_templates),
            Kind::Deployment | Kind::StatefulSet | Kind::ReplicaSet | Kind::ReplicationController => {
                self.scaled.keys().filter(|(of, _)| *of == kind).map(|(_, path)| Arc::clone(path)).collect()
            }
            Kind::Ec2NodeClass | Kind::KwokNodeClass => {
                self.classes.keys().filter(|(of, _)| *of == kind).map(|(_, name)| Arc::clone(name)).collect()
            }
        }
    }
}

/// Returns the instance ID of a provider ID: `i-0123456789abcdef0` of `aws:///eu-west-1a/i-0123456789abcdef0`.
pub(super) fn instance_of(provider_id: &str) -> Option<Arc<str>> {
    let (_, instance) = provider_id.strip_prefix("aws:///")?.rsplit_once('/')?;
    Some(instance.into())
}

/// Returns the key of `claims_by_class`.
pub(super) fn class_key(kind: &str, name: &str) -> Arc<str> {
    format!("{kind}/{name}").into()
}
