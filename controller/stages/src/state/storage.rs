//! Storage of each kind, and the objects affected by its changes.

use std::collections::BTreeMap;
use std::sync::Arc;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use muster_api::{NodeClaim, NodePool, labels};
use muster_manifest::{self as manifest, DaemonSet, Meta, Object, PodTemplate, ResourceSlice, VolumeAttachment};

use super::changed::Changed;
use super::class::LiveClass;
use super::cluster::{
    Cluster, LiveBuffer, LiveClaim, LiveNode, LiveOverlay, LivePool, LiveTemplate, class_key, instance_of,
};
use super::kind::Kind;
use super::milestone::{self, Milestone};
use super::moved::note_move;
use super::pod::LivePod;
use super::read::Word;
use crate::node::Node;

impl Cluster {
    /// Stores the object at `path`.
    pub(super) fn keep(&mut self, kind: Kind, path: Arc<str>, word: Word, changed: &mut Changed) {
        match word {
            Word::Pod(pod, template) => self.keep_pod(path, pod, *template, changed),
            Word::Node(typed, compact) => self.keep_node(path, *typed, compact.map(|node| *node), changed),
            Word::Claim(typed, compact) => self.keep_claim(path, *typed, compact.map(|claim| *claim), changed),
            Word::Pool(typed, compact) => self.keep_pool(path, *typed, compact.map(|pool| *pool), changed),
            Word::Class(class) => self.keep_class(kind, path, *class, changed),
            Word::Overlay(overlay) => self.keep_overlay(path, *overlay, changed),
            Word::Buffer(buffer) => self.keep_buffer(path, *buffer, changed),
            Word::Template(template, generation) => {
                let template = self.names.template(*template);
                if put(&mut self.pod_templates, path, LiveTemplate { template, generation }) {
                    changed.kinds.insert(kind);
                }
            }
            Word::Other(object) => self.keep_other(kind, path, object, changed),
        }
    }

    /// Removes the object at `path`.
    pub(super) fn forget(&mut self, kind: Kind, path: &str, changed: &mut Changed) {
        let gone = match kind {
            Kind::Pod => return self.forget_pod(path, changed),
            Kind::Node => return self.forget_node(path, changed),
            Kind::NodeClaim => return self.forget_claim(path, changed),
            Kind::NodePool => {
                let gone = self.pools.remove(path);
                if let Some(pool) = &gone {
                    changed.milestones.push(milestone::removal(kind, &pool.typed.metadata, None));
                    self.touch_pool(&path.into(), changed);
                }
                gone.is_some()
            }
            Kind::Ec2NodeClass | Kind::KwokNodeClass => {
                let name: Arc<str> = path.into();
                let gone = self.classes.remove(&(kind, Arc::clone(&name)));
                if let Some(class) = &gone {
                    changed.milestones.push(milestone::removal(kind, &class.meta, None));
                    self.touch_class(kind, &name, changed);
                }
                gone.is_some()
            }
            Kind::VolumeAttachment => return self.forget_attachment(path, changed),
            Kind::ResourceSlice => return self.forget_slice(path, changed),
            Kind::DeviceClass => self.device_classes.remove(path).is_some(),
            Kind::ResourceClaim => self.resource_claims.remove(path).is_some(),
            Kind::ResourceClaimTemplate => self.resource_claim_templates.remove(path).is_some(),
            Kind::Namespace => {
                let gone = self.namespaces.remove(path);
                self.touch_paused(gone.as_ref().and_then(pause_of), None, changed);
                gone.is_some()
            }
            Kind::PersistentVolumeClaim => self.volume_claims.remove(path).is_some(),
            Kind::PersistentVolume => self.volumes.remove(path).is_some(),
            Kind::DaemonSet => self.daemon_sets.remove(path).is_some(),
            Kind::LimitRange => self.limit_ranges.remove(path).is_some(),
            Kind::RuntimeClass => self.runtime_classes.remove(path).is_some(),
            Kind::PodDisruptionBudget => self.budgets.remove(path).is_some(),
            Kind::PriorityClass => self.priority_classes.remove(path).is_some(),
            Kind::CsiNode => self.csi_nodes.remove(path).is_some(),
            Kind::StorageClass => self.storage_classes.remove(path).is_some(),
            Kind::Service => self.services.remove(path).is_some(),
            Kind::NodeOverlay => self.overlays.remove(path).is_some(),
            Kind::CapacityBuffer => self.buffers.remove(path).is_some(),
            Kind::PodTemplate => self.pod_templates.remove(path).is_some(),
            Kind::Deployment | Kind::StatefulSet | Kind::ReplicaSet | Kind::ReplicationController => {
                self.scaled.remove(&(kind, path.into())).is_some()
            }
        };
        if gone {
            changed.kinds.insert(kind);
        }
    }

    // === pods ===

    fn keep_pod(&mut self, path: Arc<str>, mut pod: Box<LivePod>, template: PodTemplate, changed: &mut Changed) {
        let names = &mut self.names;
        pod.pod.template = names.template(template);
        pod.pod.namespace = names.text(&pod.pod.namespace);
        pod.scheduler = names.text(&pod.scheduler);
        names.optional(&mut pod.pod.node);
        names.optional(&mut pod.pod.nominated_node);
        names.owner(&mut pod.pod.owner);
        let old = self.pods.remove(&path);
        let is_news = old.as_ref().is_none_or(|old| !old.is_same(&pod));
        note_move(old.as_deref(), Some(&pod), changed);
        milestone::of_pod(&path, old.as_deref(), &pod, &mut changed.milestones);
        let old_node = old.as_ref().and_then(|old| old.pod.node.clone());
        let node = pod.pod.node.clone();
        let told = old.as_ref().filter(|old| old.uid == pod.uid).and_then(|old| old.pod.nominated_node.as_ref());
        changed.has_strayed |= told.is_some() && old_node.is_none() && node.is_some() && told != node.as_ref();
        self.pods_by_node.shift(old_node.as_ref(), node.as_ref(), &path);
        let old_nomination = old.as_deref().and_then(LivePod::nomination);
        self.pods_by_nomination.shift(old_nomination, pod.nomination(), &path);
        if pod.waits() {
            if is_news {
                let mut pending_pod = pod.pending_pod();
                let mut is_queued_anew = true;
                let before = self.unbound.get(&path).filter(|one| one.pod.uid == *pod.uid);
                if let Some(before) = before {
                    let is_denied = before.nominated.is_some() && pending_pod.nominated.is_none();
                    pending_pod.denied = before.denied + u32::from(is_denied);
                    changed.has_forgotten |= is_denied;
                    pending_pod.arrival = before.arrival;
                    pending_pod.queued = before.queued;
                    is_queued_anew = is_denied || pending_pod.is_marked && !before.is_marked;
                } else {
                    pending_pod.arrival = self.queued;
                }
                if is_queued_anew {
                    if let Some(before) = before {
                        self.queue.note_tried(before);
                    }
                    pending_pod.queued = self.queued;
                    self.queued += 1;
                }
                self.unbound.insert(Arc::clone(&path), Arc::new(pending_pod));
                changed.waiting.insert(Arc::clone(&path));
            }
        } else if let Some(before) = self.unbound.remove(&path)
            && before.pod.uid == *pod.uid
            && pod.pod.node.is_some()
        {
            self.queue.note_tried(&before);
        }
        self.pods.insert(path, pod);
        if is_news {
            changed.kinds.insert(Kind::Pod);
            self.touch_node(old_node.as_deref(), changed);
            self.touch_node(node.as_deref(), changed);
        }
    }

    fn forget_pod(&mut self, path: &str, changed: &mut Changed) {
        let Some((path, pod)) = self.pods.remove_entry(path) else { return };
        self.pods_by_node.shift(pod.pod.node.as_ref(), None, &path);
        self.pods_by_nomination.shift(pod.nomination(), None, &path);
        self.unbound.remove(&path);
        note_move(Some(&pod), None, changed);
        changed.milestones.push(Milestone::PodGone(Arc::clone(&path)));
        changed.kinds.insert(Kind::Pod);
        self.touch_node(pod.pod.node.as_deref(), changed);
    }

    // === nodes ===

    fn keep_node(&mut self, name: Arc<str>, typed: Node, mut compact: Option<manifest::Node>, changed: &mut Changed) {
        if let Some(compact) = &mut compact {
            self.names.meta(&mut compact.meta);
            self.names.conditions(&mut compact.conditions);
        }
        let provider = typed.spec.as_ref().and_then(|spec| spec.provider_id.as_deref());
        let provider: Option<Arc<str>> = provider.filter(|id| !id.is_empty()).map(Arc::from);
        let old = self.nodes.remove(&name);
        let is_news = old.as_ref().is_none_or(|old| {
            !is_same(&old.typed.metadata, &typed.metadata)
                || (&old.typed.spec, &old.typed.status) != (&typed.spec, &typed.status)
                || old.compact != compact
        });
        let old_provider = old.as_ref().and_then(|old| old.provider.clone());
        self.nodes_by_provider.shift(old_provider.as_ref(), provider.as_ref(), &name);
        if is_news {
            changed.kinds.insert(Kind::Node);
            self.touch_provider(old_provider.as_deref(), changed);
            self.touch_provider(provider.as_deref(), changed);
            let pools = [old.as_ref().map(|old| &old.typed.metadata), Some(&typed.metadata)];
            changed.pools.extend(pools.into_iter().flatten().filter_map(pool_label));
        }
        let node = LiveNode { typed, provider, compact };
        if let Some(old) = &old {
            let meta = &node.typed.metadata;
            milestone::of_conditions(Kind::Node, meta, old.told(), node.told(), &mut changed.milestones);
        }
        self.nodes.insert(name, Box::new(node));
    }

    fn forget_node(&mut self, name: &str, changed: &mut Changed) {
        let Some((name, node)) = self.nodes.remove_entry(name) else { return };
        self.nodes_by_provider.shift(node.provider.as_ref(), None, &name);
        changed.kinds.insert(Kind::Node);
        changed.pools.extend(pool_label(&node.typed.metadata));
        changed.milestones.push(node.removal());
        self.touch_provider(node.provider.as_deref(), changed);
    }

    // === claims ===

    fn keep_claim(
        &mut self,
        name: Arc<str>,
        typed: NodeClaim,
        mut compact: Option<manifest::NodeClaim>,
        changed: &mut Changed,
    ) {
        if let Some(compact) = &mut compact {
            self.names.meta(&mut compact.meta);
            self.names.conditions(&mut compact.conditions);
        }
        let provider = typed.status.as_ref().and_then(|status| status.provider_id.as_deref());
        let reference = &typed.spec.node_class_ref;
        let claim = LiveClaim {
            provider: provider.filter(|id| !id.is_empty()).map(Arc::from),
            instance: provider.and_then(instance_of),
            pool: pool_label(&typed.metadata).map(|pool| self.names.text(&pool)),
            class: self.names.text(&class_key(&reference.kind, &reference.name)),
            typed,
            compact,
        };
        let old = self.claims.remove(&name);
        let is_news = old.as_ref().is_none_or(|old| {
            !is_same(&old.typed.metadata, &claim.typed.metadata)
                || (&old.typed.spec, &old.typed.status) != (&claim.typed.spec, &claim.typed.status)
                || old.compact != claim.compact
        });
        let key = |of: fn(&LiveClaim) -> Option<&Arc<str>>| old.as_deref().and_then(of);
        let provider: fn(&LiveClaim) -> Option<&Arc<str>> = |claim| claim.provider.as_ref();
        let instance: fn(&LiveClaim) -> Option<&Arc<str>> = |claim| claim.instance.as_ref();
        let pool: fn(&LiveClaim) -> Option<&Arc<str>> = |claim| claim.pool.as_ref();
        let class: fn(&LiveClaim) -> Option<&Arc<str>> = |claim| Some(&claim.class);
        self.claims_by_provider.shift(key(provider), provider(&claim), &name);
        self.claims_by_instance.shift(key(instance), instance(&claim), &name);
        self.claims_by_pool.shift(key(pool), pool(&claim), &name);
        self.claims_by_class.shift(key(class), class(&claim), &name);
        if is_news {
            old.as_deref().into_iter().chain([&claim]).for_each(|claim| touch_own(&name, claim, changed));
        }
        if let Some(old) = &old {
            let meta = &claim.typed.metadata;
            milestone::of_conditions(Kind::NodeClaim, meta, old.told(), claim.told(), &mut changed.milestones);
            changed.milestones.extend(claim.start_since(old));
        }
        self.claims.insert(name, Box::new(claim));
    }

    fn forget_claim(&mut self, name: &str, changed: &mut Changed) {
        let Some((name, claim)) = self.claims.remove_entry(name) else { return };
        self.claims_by_provider.shift(claim.provider.as_ref(), None, &name);
        self.claims_by_instance.shift(claim.instance.as_ref(), None, &name);
        self.claims_by_pool.shift(claim.pool.as_ref(), None, &name);
        self.claims_by_class.shift(Some(&claim.class), None, &name);
        changed.milestones.push(claim.removal());
        touch_own(&name, &claim, changed);
    }

    // === pools and classes ===

    fn keep_pool(
        &mut self,
        name: Arc<str>,
        mut typed: NodePool,
        compact: Option<manifest::NodePool>,
        changed: &mut Changed,
    ) {
        typed.metadata.managed_fields = None;
        let old = self.pools.get(&name).map(|old| &old.typed);
        let is_news = old.is_none_or(|old| {
            !is_same(&old.metadata, &typed.metadata) || (&old.spec, &old.status) != (&typed.spec, &typed.status)
        });
        // Changes of a pool's counts do not affect its claims; otherwise each of 10,000 new claims would reconcile all
        // others.
        let judged = |pool: &NodePool| {
            let status = pool.status.as_ref();
            status.map(|status| (status.node_class_observed_generation, status.conditions.clone()))
        };
        let concerns_claims = old.is_none_or(|old| {
            !is_same(&old.metadata, &typed.metadata) || old.spec != typed.spec || judged(old) != judged(&typed)
        });
        let is_other_policy = old.is_none_or(|old| !is_same(&old.metadata, &typed.metadata) || old.spec != typed.spec);
        changed.has_new_policy |= is_other_policy;
        if let Some(old) = old {
            let conditions = |pool: &NodePool| pool.status.as_ref().map(|status| status.conditions.clone());
            let (before, after) = (conditions(old).unwrap_or_default(), conditions(&typed).unwrap_or_default());
            let (before, after) = (milestone::told(&before), milestone::told(&after));
            milestone::of_conditions(Kind::NodePool, &typed.metadata, before, after, &mut changed.milestones);
        }
        self.pools.insert(Arc::clone(&name), LivePool { typed, compact });
        if is_news {
            changed.kinds.insert(Kind::NodePool);
            changed.pools.insert(Arc::clone(&name));
        }
        if concerns_claims {
            self.touch_pool(&name, changed);
        }
    }

    fn touch_pool(&self, name: &Arc<str>, changed: &mut Changed) {
        changed.pools.insert(Arc::clone(name));
        changed.claims.extend(self.claims_by_pool.get(name).cloned());
    }

    fn keep_class(&mut self, kind: Kind, name: Arc<str>, class: LiveClass, changed: &mut Changed) {
        let key = (kind, name);
        let old = self.classes.get(&key);
        let is_news = old.is_none_or(|old| {
            !is_same(&old.meta, &class.meta)
                || old.conditions != class.conditions
                || ["spec", "status"].into_iter().any(|part| old.object.get(part) != class.object.get(part))
        });
        let is_other_policy = old
            .is_none_or(|old| !is_same(&old.meta, &class.meta) || old.object.get("spec") != class.object.get("spec"));
        changed.has_new_policy |= is_other_policy;
        if is_news {
            changed.kinds.insert(kind);
            self.touch_class(kind, &key.1, changed);
        }
        if let Some(old) = old {
            milestone::of_conditions(kind, &class.meta, old.told(), class.told(), &mut changed.milestones);
        }
        self.classes.insert(key, class);
    }

    fn touch_class(&self, kind: Kind, name: &Arc<str>, changed: &mut Changed) {
        changed.classes.insert((kind, Arc::clone(name)));
        changed.claims.extend(self.claims_by_class.get(&class_key(kind.name(), name)).cloned());
    }

    fn keep_overlay(&mut self, name: Arc<str>, overlay: LiveOverlay, changed: &mut Changed) {
        let is_news = self.overlays.get(&name).is_none_or(|old| {
            !is_same(&old.typed.metadata, &overlay.typed.metadata)
                || (&old.typed.spec, &old.typed.status) != (&overlay.typed.spec, &overlay.typed.status)
        });
        if is_news {
            changed.kinds.insert(Kind::NodeOverlay);
        }
        // Kept in any case: the next write needs the last version.
        self.overlays.insert(name, overlay);
    }

    fn keep_buffer(&mut self, path: Arc<str>, buffer: LiveBuffer, changed: &mut Changed) {
        let is_news = self.buffers.get(&path).is_none_or(|old| {
            !is_same(&old.typed.metadata, &buffer.typed.metadata)
                || (&old.typed.spec, &old.typed.status) != (&buffer.typed.spec, &buffer.typed.status)
        });
        if is_news {
            changed.kinds.insert(Kind::CapacityBuffer);
        }
        // Kept in any case: the next write needs the last version.
        self.buffers.insert(path, buffer);
    }

    // === what is on a node ===

    fn keep_attachment(&mut self, name: Arc<str>, attachment: VolumeAttachment, changed: &mut Changed) {
        if self.attachments.get(&name) == Some(&attachment) {
            return;
        }
        let node = Arc::clone(&attachment.node);
        let old = self.attachments.insert(Arc::clone(&name), attachment).map(|old| old.node);
        self.attachments_by_node.shift(old.as_ref(), Some(&node), &name);
        changed.kinds.insert(Kind::VolumeAttachment);
        self.touch_node(old.as_deref(), changed);
        self.touch_node(Some(&node), changed);
    }

    fn forget_attachment(&mut self, name: &str, changed: &mut Changed) {
        let Some((name, attachment)) = self.attachments.remove_entry(name) else { return };
        self.attachments_by_node.shift(Some(&attachment.node), None, &name);
        changed.kinds.insert(Kind::VolumeAttachment);
        self.touch_node(Some(&attachment.node), changed);
    }

    fn keep_slice(&mut self, name: Arc<str>, slice: ResourceSlice, changed: &mut Changed) {
        if self.slices.get(&name).is_some_and(|old| **old == slice) {
            return;
        }
        let node = slice.node.clone();
        let old = self.slices.insert(Arc::clone(&name), Arc::new(slice)).and_then(|old| old.node.clone());
        self.slices_by_node.shift(old.as_ref(), node.as_ref(), &name);
        changed.kinds.insert(Kind::ResourceSlice);
        self.touch_node(old.as_deref(), changed);
        self.touch_node(node.as_deref(), changed);
    }

    fn forget_slice(&mut self, name: &str, changed: &mut Changed) {
        let Some((name, slice)) = self.slices.remove_entry(name) else { return };
        self.slices_by_node.shift(slice.node.as_ref(), None, &name);
        changed.kinds.insert(Kind::ResourceSlice);
        self.touch_node(slice.node.as_deref(), changed);
    }

    /// Adds the claims of the Node of that name.
    fn touch_node(&self, node: Option<&str>, changed: &mut Changed) {
        let provider = node.and_then(|node| self.nodes.get(node)).and_then(|node| node.provider.as_deref());
        self.touch_provider(provider, changed);
    }

    /// Adds the claims of the instance with that provider ID.
    fn touch_provider(&self, provider: Option<&str>, changed: &mut Changed) {
        if let Some(provider) = provider {
            changed.claims.extend(self.claims_by_provider.get(provider).cloned());
        }
    }

    // === the rest ===

    fn keep_other(&mut self, kind: Kind, path: Arc<str>, object: Object, changed: &mut Changed) {
        let is_news = match object {
            Object::VolumeAttachment(_, attachment) => return self.keep_attachment(path, attachment, changed),
            Object::ResourceSlice(slice) => return self.keep_slice(path, *slice, changed),
            Object::DeviceClass(class) => put(&mut self.device_classes, path, *class),
            Object::ResourceClaim(claim) => put(&mut self.resource_claims, path, *claim),
            Object::ResourceClaimTemplate(template) => put(&mut self.resource_claim_templates, path, *template),
            Object::DaemonSet(mut daemon_set, template) => {
                daemon_set.template = self.names.template(*template);
                // Nothing is decided by its own labels and annotations.
                let is_same = |old: &DaemonSet| {
                    (&old.template, old.meta.deleting) == (&daemon_set.template, daemon_set.meta.deleting)
                };
                let is_news = !self.daemon_sets.get(&path).is_some_and(is_same);
                self.daemon_sets.insert(path, *daemon_set);
                is_news
            }
            Object::Namespace(meta) => self.keep_namespace(path, *meta, changed),
            Object::Claim(claim) => put(&mut self.volume_claims, path, *claim),
            Object::PersistentVolume(volume) => put(&mut self.volumes, path, *volume),
            Object::StorageClass(class) => put(&mut self.storage_classes, path, *class),
            Object::CsiNode(node) => put(&mut self.csi_nodes, path, node),
            Object::RuntimeClass(class) => put(&mut self.runtime_classes, path, *class),
            Object::PriorityClass(class) => put(&mut self.priority_classes, path, *class),
            Object::DisruptionBudget(budget) => put(&mut self.budgets, path, *budget),
            Object::LimitRange(range) => put(&mut self.limit_ranges, path, *range),
            Object::Service(service) => put(&mut self.services, path, *service),
            Object::Workload(mut workload, template) => {
                workload.template = self.names.template(*template);
                let is_news = self.scaled.get(&(kind, Arc::clone(&path))) != Some(&*workload);
                self.scaled.insert((kind, path), *workload);
                is_news
            }
            // Stored separately, or not part of the cluster state.
            Object::Pod(..)
            | Object::Node(_)
            | Object::NodeClaim(_)
            | Object::NodePool(_)
            | Object::NodeClass(_)
            | Object::NodeOverlay(_)
            | Object::CapacityBuffer(_)
            | Object::PodTemplate(..) => false,
        };
        if is_news {
            changed.kinds.insert(kind);
        }
    }

    fn keep_namespace(&mut self, name: Arc<str>, meta: Meta, changed: &mut Changed) -> bool {
        self.touch_paused(self.namespaces.get(&name).and_then(pause_of), pause_of(&meta), changed);
        put(&mut self.namespaces, name, meta)
    }

    /// Adds all claims if the pause annotation of a namespace has changed.
    fn touch_paused(&self, before: Option<&Arc<str>>, after: Option<&Arc<str>>, changed: &mut Changed) {
        if before != after {
            changed.claims.extend(self.claims.keys().cloned());
        }
    }
}

fn pause_of(namespace: &Meta) -> Option<&Arc<str>> {
    namespace.annotations.get(muster_api::annotations::PAUSE)
}

/// Stores an object. Returns true if it is new or changed.
fn put<T: PartialEq>(all: &mut BTreeMap<Arc<str>, T>, path: Arc<str>, object: T) -> bool {
    if all.get(&path) == Some(&object) {
        return false;
    }
    all.insert(path, object);
    true
}

/// Returns true if both metadata are equal, apart from the resource version and other irrelevant fields.
fn is_same(one: &ObjectMeta, other: &ObjectMeta) -> bool {
    let ObjectMeta {
        annotations,
        creation_timestamp,
        deletion_grace_period_seconds: _,
        deletion_timestamp,
        finalizers,
        generate_name: _,
        generation,
        labels,
        managed_fields: _,
        name: _,
        namespace: _,
        owner_references,
        resource_version: _,
        self_link: _,
        uid,
    } = one;
    (annotations, creation_timestamp, deletion_timestamp, finalizers)
        == (&other.annotations, &other.creation_timestamp, &other.deletion_timestamp, &other.finalizers)
        && (generation, labels, owner_references, uid)
            == (&other.generation, &other.labels, &other.owner_references, &other.uid)
}

fn pool_label(meta: &ObjectMeta) -> Option<Arc<str>> {
    meta.labels.as_ref()?.get(labels::NODEPOOL).map(|pool| pool.as_str().into())
}

fn touch_own(name: &Arc<str>, claim: &LiveClaim, changed: &mut Changed) {
    changed.kinds.insert(Kind::NodeClaim);
    changed.claims.insert(Arc::clone(name));
    changed.pools.extend(claim.pool.clone());
    let class = claim.class.split_once('/');
    changed.classes.extend(class.and_then(|(kind, name)| Some((Kind::named(kind)?, name.into()))));
}
