//! In-memory API server with resource versions, conflicts, finalizers, deletion, owner references and a change log.
//!
//! ```text
//!   create, update(version), delete(uid), end_pod(grace) ──► ObjectStore per kind ──► log ──► kubelets, Muster, …
//! ```
//!
//! It behaves like a real one: timestamps in whole seconds, no new finalizers on objects that are being deleted, no
//! update of an outdated version, and objects that are being deleted stay until their last finalizer is removed.

mod eviction;
mod object_store;

use std::collections::{BTreeMap, BTreeSet};

use jiff::Timestamp;
use k8s_openapi::api::core::v1::{Node, PersistentVolume, PersistentVolumeClaim, Pod};
use k8s_openapi::api::policy::v1::PodDisruptionBudget;
use k8s_openapi::api::storage::v1::VolumeAttachment;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, Time};
use kube::Resource;
use kube::core::DynamicObject;
use muster_api::{NodeClaim, NodePool};
use serde::Serialize;

pub(crate) use self::eviction::is_ready;
pub(crate) use self::object_store::{ObjectStore, Path};

/// Error of a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Refused {
    /// The object has changed or was replaced.
    Conflict,
    /// The object does not exist.
    NotFound,
    /// An object of that name exists.
    AlreadyExists,
    /// The request violates a rule of the API.
    Invalid(&'static str),
}

/// Kind of an object.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum Kind {
    Pod,
    Node,
    NodeClaim,
    NodePool,
    Budget,
    VolumeClaim,
    Volume,
    Attachment,
    /// Kinds that few components use: workloads, NodeClasses, StorageClasses.
    Other(String),
}

// === impl Kind ===

impl Kind {
    /// Returns the kind with that `kind` field.
    pub(crate) fn named(kind: &str) -> Self {
        match kind {
            "Pod" => Self::Pod,
            "Node" => Self::Node,
            "NodeClaim" => Self::NodeClaim,
            "NodePool" => Self::NodePool,
            "PodDisruptionBudget" => Self::Budget,
            "PersistentVolumeClaim" => Self::VolumeClaim,
            "PersistentVolume" => Self::Volume,
            "VolumeAttachment" => Self::Attachment,
            other => Self::Other(other.to_owned()),
        }
    }
}

/// Kind and name of an object.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Key {
    pub(crate) kind: Kind,
    pub(crate) path: Path,
}

/// A kind with its own store.
pub(crate) trait Kept: Resource + Clone + PartialEq + Serialize {
    fn key(&self) -> Key;
    fn store<'a>(api: &'a Api, kind: &Kind) -> Option<&'a ObjectStore<Self>>;
    fn store_mut<'a>(api: &'a mut Api, kind: &Kind) -> &'a mut ObjectStore<Self>;
}

/// In-memory API server.
#[derive(Debug, Clone, Default)]
pub(crate) struct Api {
    pub(crate) pods: ObjectStore<Pod>,
    pub(crate) nodes: ObjectStore<Node>,
    pub(crate) claims: ObjectStore<NodeClaim>,
    pub(crate) pools: ObjectStore<NodePool>,
    pub(crate) budgets: ObjectStore<PodDisruptionBudget>,
    pub(crate) volume_claims: ObjectStore<PersistentVolumeClaim>,
    pub(crate) volumes: ObjectStore<PersistentVolume>,
    pub(crate) attachments: ObjectStore<VolumeAttachment>,
    pub(crate) others: BTreeMap<String, ObjectStore<DynamicObject>>,
    version: u64,
    uids: u64,
    log: Vec<Key>,
    /// True if an object was removed, so that its dependents may be orphans.
    has_lost: bool,
    /// Pods that were evicted although their annotation forbids it.
    evicted_in_spite: Vec<Path>,
}

macro_rules! kept {
    ($kind:ty, $name:ident, $field:ident) => {
        impl Kept for $kind {
            fn key(&self) -> Key {
                Key { kind: Kind::$name, path: path_of(&self.metadata) }
            }

            fn store<'a>(api: &'a Api, _: &Kind) -> Option<&'a ObjectStore<Self>> {
                Some(&api.$field)
            }

            fn store_mut<'a>(api: &'a mut Api, _: &Kind) -> &'a mut ObjectStore<Self> {
                &mut api.$field
            }
        }
    };
}

kept!(Pod, Pod, pods);
kept!(Node, Node, nodes);
kept!(NodeClaim, NodeClaim, claims);
kept!(NodePool, NodePool, pools);
kept!(PodDisruptionBudget, Budget, budgets);
kept!(PersistentVolumeClaim, VolumeClaim, volume_claims);
kept!(PersistentVolume, Volume, volumes);
kept!(VolumeAttachment, Attachment, attachments);

impl Kept for DynamicObject {
    fn key(&self) -> Key {
        let kind = self.types.as_ref().map(|types| types.kind.clone()).unwrap_or_default();
        Key { kind: Kind::Other(kind), path: path_of(&self.metadata) }
    }

    fn store<'a>(api: &'a Api, kind: &Kind) -> Option<&'a ObjectStore<Self>> {
        if let Kind::Other(kind) = kind { api.others.get(kind) } else { None }
    }

    fn store_mut<'a>(api: &'a mut Api, kind: &Kind) -> &'a mut ObjectStore<Self> {
        let kind = if let Kind::Other(kind) = kind { kind.clone() } else { String::new() };
        api.others.entry(kind).or_default()
    }
}

/// Returns the namespace and name of an object.
pub(crate) fn path_of(meta: &ObjectMeta) -> Path {
    Path::new(meta.namespace.clone().unwrap_or_default(), meta.name.clone().unwrap_or_default())
}

/// Truncates to whole seconds, as in the API.
pub(crate) fn seconds(moment: Timestamp) -> Time {
    Time(Timestamp::from_second(moment.as_second()).unwrap_or(moment))
}

// === impl Api ===

impl Api {
    /// Creates an object.
    ///
    /// # Errors
    /// Fails if an object of that name exists.
    pub(crate) fn create<T: Kept>(&mut self, mut object: T, now: Timestamp) -> Result<(), Refused> {
        let Key { kind, path } = object.key();
        if T::store(self, &kind).is_some_and(|store| store.get(&path).is_some()) {
            return Err(Refused::AlreadyExists);
        }
        self.uids += 1;
        let meta = object.meta_mut();
        meta.uid = Some(format!("00000000-0000-4000-8000-{:012x}", self.uids));
        meta.creation_timestamp = Some(seconds(now));
        meta.generation = Some(1);
        meta.deletion_timestamp = None;
        self.put(Key { kind, path }, object);
        Ok(())
    }

    /// Updates an object; with `version`, only if that is its latest. Returns the new version.
    ///
    /// # Errors
    /// Fails if the object does not exist, has another version, or must not be changed so.
    pub(crate) fn update<T: Kept>(
        &mut self,
        kind: &Kind,
        path: &Path,
        version: Option<&str>,
        change: impl FnOnce(&mut T),
    ) -> Result<String, Refused> {
        let before = T::store(self, kind).and_then(|store| store.get(path)).ok_or(Refused::NotFound)?;
        let there: String = before.meta().resource_version.clone().unwrap_or_default();
        if version.is_some_and(|version| *version != there) {
            return Err(Refused::Conflict);
        }
        let mut after = before.clone();
        change(&mut after);
        check_finalizers(before.meta(), after.meta())?;
        if after == *before {
            return Ok(there);
        }
        let key = Key { kind: kind.clone(), path: path.clone() };
        if is_over(after.meta()) {
            self.remove::<T>(&key);
            return Ok(there);
        }
        Ok(self.put(key, after))
    }

    /// Deletes an object: immediately, or when its last finalizer is removed. With `uid`, only the object that has it.
    ///
    /// # Errors
    /// Fails if the object does not exist or has another UID.
    pub(crate) fn delete<T: Kept>(
        &mut self,
        kind: &Kind,
        path: &Path,
        uid: Option<&str>,
        now: Timestamp,
    ) -> Result<(), Refused> {
        let there = T::store(self, kind).and_then(|store| store.get(path)).ok_or(Refused::NotFound)?;
        if uid.is_some_and(|uid| there.meta().uid.as_deref() != Some(uid)) {
            return Err(Refused::Conflict);
        }
        if there.meta().deletion_timestamp.is_some() {
            return Ok(());
        }
        let mut after = there.clone();
        after.meta_mut().deletion_timestamp = Some(seconds(now));
        let key = Key { kind: kind.clone(), path: path.clone() };
        if is_over(after.meta()) {
            self.remove::<T>(&key);
        } else {
            self.put(key, after);
        }
        Ok(())
    }

    /// Deletes a pod: immediately if no kubelet runs it, otherwise when its kubelet has terminated it. A second call
    /// can only shorten the grace period.
    ///
    /// # Errors
    /// Fails if the pod does not exist or has another UID.
    pub(crate) fn end_pod(
        &mut self,
        path: &Path,
        uid: Option<&str>,
        grace: std::time::Duration,
        now: Timestamp,
    ) -> Result<(), Refused> {
        let pod = self.pods.get(path).ok_or(Refused::NotFound)?;
        if uid.is_some() && pod.metadata.uid.as_deref() != uid {
            return Err(Refused::Conflict);
        }
        let key = Key { kind: Kind::Pod, path: path.clone() };
        if node_of(pod).is_none() || has_ended(pod) {
            self.remove::<Pod>(&key);
            return Ok(());
        }
        let end = seconds(muster_cloud::after(now, grace));
        if pod.metadata.deletion_timestamp.as_ref().is_some_and(|there| there.0 <= end.0) {
            return Ok(());
        }
        let mut pod = pod.clone();
        pod.metadata.deletion_timestamp = Some(end);
        pod.metadata.deletion_grace_period_seconds = i64::try_from(grace.as_secs()).ok();
        self.put(key, pod);
        Ok(())
    }

    /// Removes an object regardless of finalizers, as a kubelet does with a terminated pod.
    pub(crate) fn remove<T: Kept>(&mut self, key: &Key) {
        if T::store_mut(self, &key.kind).0.remove(&key.path).is_some() {
            self.version += 1;
            self.has_lost = true;
            self.log.push(key.clone());
        }
    }

    /// Returns the objects changed since the last call, each once, in the order of their last changes.
    pub(crate) fn take_log(&mut self) -> Vec<Key> {
        let mut seen = BTreeSet::new();
        let mut log = std::mem::take(&mut self.log);
        log.reverse();
        log.retain(|key| seen.insert(key.clone()));
        log.reverse();
        log
    }

    /// Returns true if there are changes that [`Api::take_log`] has not returned yet.
    pub(crate) fn has_news(&self) -> bool {
        !self.log.is_empty()
    }

    /// Returns the keys of all objects.
    pub(crate) fn keys(&self) -> Vec<Key> {
        let mut keys = Vec::new();
        let mut add = |kind: Kind, paths: Vec<Path>| {
            keys.extend(paths.into_iter().map(|path| Key { kind: kind.clone(), path }));
        };
        for (kind, store) in &self.others {
            add(Kind::Other(kind.clone()), store.0.keys().cloned().collect());
        }
        add(Kind::NodePool, self.pools.0.keys().cloned().collect());
        add(Kind::NodeClaim, self.claims.0.keys().cloned().collect());
        add(Kind::Node, self.nodes.0.keys().cloned().collect());
        add(Kind::Budget, self.budgets.0.keys().cloned().collect());
        add(Kind::VolumeClaim, self.volume_claims.0.keys().cloned().collect());
        add(Kind::Volume, self.volumes.0.keys().cloned().collect());
        add(Kind::Attachment, self.attachments.0.keys().cloned().collect());
        add(Kind::Pod, self.pods.0.keys().cloned().collect());
        keys
    }

    /// Returns an object as JSON.
    pub(crate) fn json(&self, Key { kind, path }: &Key) -> Option<serde_json::Value> {
        fn written<T: Serialize>(store: &ObjectStore<T>, path: &Path) -> Option<serde_json::Value> {
            store.get(path).and_then(|object| serde_json::to_value(object).ok())
        }
        match kind {
            Kind::Pod => written(&self.pods, path),
            Kind::Node => written(&self.nodes, path),
            Kind::NodeClaim => written(&self.claims, path),
            Kind::NodePool => written(&self.pools, path),
            Kind::Budget => written(&self.budgets, path),
            Kind::VolumeClaim => written(&self.volume_claims, path),
            Kind::Volume => written(&self.volumes, path),
            Kind::Attachment => written(&self.attachments, path),
            Kind::Other(kind) => written(self.others.get(kind)?, path),
        }
    }

    /// Runs Kubernetes' garbage collector: deletes objects whose owners are all gone.
    pub(crate) fn collect_orphans(&mut self, now: Timestamp) {
        while std::mem::take(&mut self.has_lost) {
            let alive: BTreeSet<String> = self.uids();
            let is_orphan = |meta: &ObjectMeta| {
                let owners = meta.owner_references.as_deref().unwrap_or_default();
                meta.deletion_timestamp.is_none()
                    && !owners.is_empty()
                    && owners.iter().all(|owner| !alive.contains(&owner.uid))
            };
            let pods: Vec<(Path, u64)> = self
                .pods
                .iter()
                .filter(|(_, pod)| is_orphan(&pod.metadata))
                .map(|(path, pod)| (path.clone(), grace_of(pod)))
                .collect();
            let nodes: Vec<Path> =
                self.nodes.iter().filter(|(_, node)| is_orphan(&node.metadata)).map(|(path, _)| path.clone()).collect();
            let others: Vec<(Kind, Path)> = self
                .others
                .iter()
                .flat_map(|(kind, store)| store.iter().map(move |(path, one)| (kind, path, one)))
                .filter(|(_, _, one)| is_orphan(&one.metadata))
                .map(|(kind, path, _)| (Kind::Other(kind.clone()), path.clone()))
                .collect();
            let claims: Vec<Path> =
                self.claims.iter().filter(|(_, one)| is_orphan(&one.metadata)).map(|(path, _)| path.clone()).collect();
            for path in claims {
                let _gone_already = self.delete::<NodeClaim>(&Kind::NodeClaim, &path, None, now);
            }
            for (path, grace) in pods {
                let _gone_already = self.end_pod(&path, None, std::time::Duration::from_secs(grace), now);
            }
            for path in nodes {
                let _gone_already = self.delete::<Node>(&Kind::Node, &path, None, now);
            }
            for (kind, path) in others {
                let _gone_already = self.delete::<DynamicObject>(&kind, &path, None, now);
            }
        }
    }

    fn uids(&self) -> BTreeSet<String> {
        let others = self.others.values().flat_map(ObjectStore::values).map(|one| &one.metadata);
        let claims = self.claims.values().map(|one| &one.metadata);
        let nodes = self.nodes.values().map(|one| &one.metadata);
        let pools = self.pools.values().map(|one| &one.metadata);
        others.chain(claims).chain(nodes).chain(pools).filter_map(|meta| meta.uid.clone()).collect()
    }

    fn put<T: Kept>(&mut self, key: Key, mut object: T) -> String {
        self.version += 1;
        let version = self.version.to_string();
        object.meta_mut().resource_version = Some(version.clone());
        T::store_mut(self, &key.kind).0.insert(key.path.clone(), object);
        self.log.push(key);
        version
    }
}

/// Returns the node that the pod is bound to.
pub(crate) fn node_of(pod: &Pod) -> Option<&str> {
    pod.spec.as_ref()?.node_name.as_deref().filter(|name| !name.is_empty())
}

/// Returns true if the pod has terminated.
pub(crate) fn has_ended(pod: &Pod) -> bool {
    let phase = pod.status.as_ref().and_then(|status| status.phase.as_deref());
    matches!(phase, Some("Succeeded" | "Failed"))
}

/// Returns the termination grace period, in seconds.
pub(crate) fn grace_of(pod: &Pod) -> u64 {
    let said = pod.spec.as_ref().and_then(|spec| spec.termination_grace_period_seconds);
    said.and_then(|seconds| u64::try_from(seconds).ok()).unwrap_or(30)
}

/// Returns true if an object with this metadata is removed, since it has no finalizer left. Pods end differently.
fn is_over(meta: &ObjectMeta) -> bool {
    let is_pod_with_time = meta.deletion_grace_period_seconds.is_some();
    meta.deletion_timestamp.is_some() && !is_pod_with_time && meta.finalizers.as_deref().unwrap_or_default().is_empty()
}

fn check_finalizers(before: &ObjectMeta, after: &ObjectMeta) -> Result<(), Refused> {
    let held = |meta: &ObjectMeta| meta.finalizers.clone().unwrap_or_default();
    let is_new = held(after).iter().any(|one| !held(before).contains(one));
    if before.deletion_timestamp.is_some() && is_new {
        return Err(Refused::Invalid("no new finalizers can be added if the object is being deleted"));
    }
    Ok(())
}
