//! An API server in memory: versions, conflicts, finalizers, deletion, owners.

use std::collections::BTreeMap;

use jiff::Timestamp;
use k8s_openapi::api::core::v1::Node;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, Time};
use muster_api::NodeClaim;
use muster_api::nodeclaim::NodeClaimStatus;
use muster_stages::lifecycle::{Attachment, Class, Event, Eviction, MetaChange, NodeChange, Resident};

/// What the server refuses.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Refused {
    Conflict,
    NotFound,
    Invalid(&'static str),
}

/// A pod, and what keeps it from leaving.
#[derive(Debug, Clone)]
pub(crate) struct Pod {
    pub(crate) resident: Resident,
    /// Until when a budget does not allow its eviction.
    pub(crate) budget_until: Option<Timestamp>,
    /// Whether its kubelet never ends it.
    pub(crate) is_stuck: bool,
}

#[derive(Debug, Clone, Default)]
pub(crate) struct Api {
    version: u64,
    uids: u64,
    pub(crate) claims: BTreeMap<String, NodeClaim>,
    pub(crate) nodes: BTreeMap<String, Node>,
    pub(crate) pods: BTreeMap<String, Pod>,
    pub(crate) attachments: Vec<Attachment>,
    pub(crate) class: Option<Class>,
    pub(crate) events: Vec<Event>,
    /// Number of changes so far.
    pub(crate) changes: u64,
}

/// Seconds only, as the API keeps moments.
pub(crate) fn seconds(moment: Timestamp) -> Time {
    Time(Timestamp::from_second(moment.as_second()).unwrap())
}

/// Whether an object with this metadata goes now that it has no finalizer left.
fn is_over(meta: &ObjectMeta) -> bool {
    meta.deletion_timestamp.is_some() && meta.finalizers.as_deref().unwrap_or_default().is_empty()
}

fn checked(before: &ObjectMeta, after: &ObjectMeta) -> Result<(), Refused> {
    let held = |meta: &ObjectMeta| meta.finalizers.clone().unwrap_or_default();
    let is_new = held(after).iter().any(|one| !held(before).contains(one));
    if before.deletion_timestamp.is_some() && is_new {
        return Err(Refused::Invalid("no new finalizers can be added if the object is being deleted"));
    }
    Ok(())
}

impl Api {
    pub(crate) fn create_claim(&mut self, mut claim: NodeClaim, now: Timestamp) {
        self.stamp(&mut claim.metadata, now);
        claim.metadata.generation = Some(1);
        self.claims.insert(claim.metadata.name.clone().unwrap(), claim);
    }

    pub(crate) fn create_node(&mut self, mut node: Node, now: Timestamp) {
        self.stamp(&mut node.metadata, now);
        self.nodes.insert(node.metadata.name.clone().unwrap(), node);
    }

    pub(crate) fn claim_meta(&mut self, name: &str, version: &str, change: &MetaChange) -> Result<String, Refused> {
        let mut claim = self.claims.get(name).ok_or(Refused::NotFound)?.clone();
        let before = claim.clone();
        change.apply(&mut claim.metadata);
        checked(&before.metadata, &claim.metadata)?;
        self.put_claim(&before, claim, version)
    }

    pub(crate) fn claim_status(
        &mut self,
        name: &str,
        version: &str,
        status: &NodeClaimStatus,
    ) -> Result<String, Refused> {
        let mut claim = self.claims.get(name).ok_or(Refused::NotFound)?.clone();
        let before = claim.clone();
        claim.status = Some(status.clone());
        self.put_claim(&before, claim, version)
    }

    pub(crate) fn node(&mut self, name: &str, version: &str, change: &NodeChange) -> Result<String, Refused> {
        let mut node = self.nodes.get(name).ok_or(Refused::NotFound)?.clone();
        let before = node.clone();
        change.apply(&mut node);
        checked(&before.metadata, &node.metadata)?;
        if before.metadata.resource_version.as_deref() != Some(version) {
            return Err(Refused::Conflict);
        }
        if node != before {
            self.touch(&mut node.metadata);
        }
        let written = node.metadata.resource_version.clone().unwrap();
        self.nodes.insert(name.to_owned(), node);
        self.sweep();
        Ok(written)
    }

    pub(crate) fn class_meta(&mut self, version: &str, change: &MetaChange) -> Result<String, Refused> {
        let mut class = self.class.clone().ok_or(Refused::NotFound)?;
        if class.meta.resource_version.as_deref() != Some(version) {
            return Err(Refused::Conflict);
        }
        change.apply(&mut class.meta);
        self.touch(&mut class.meta);
        let written = class.meta.resource_version.clone().unwrap();
        self.class = Some(class);
        Ok(written)
    }

    pub(crate) fn change_class(&mut self, change: impl FnOnce(&mut Class)) {
        let mut class = self.class.take().unwrap();
        change(&mut class);
        self.touch(&mut class.meta);
        self.class = Some(class);
    }

    pub(crate) fn delete_claim(&mut self, name: &str, uid: &str, now: Timestamp) -> Result<(), Refused> {
        let mut claim = self.claims.get(name).ok_or(Refused::NotFound)?.clone();
        if claim.metadata.uid.as_deref() != Some(uid) {
            return Err(Refused::Conflict);
        }
        if claim.metadata.deletion_timestamp.is_none() {
            claim.metadata.deletion_timestamp = Some(seconds(now));
            self.touch(&mut claim.metadata);
            self.claims.insert(name.to_owned(), claim);
        }
        self.sweep();
        self.own(now);
        Ok(())
    }

    pub(crate) fn delete_node(&mut self, name: &str, uid: &str, now: Timestamp) -> Result<(), Refused> {
        let mut node = self.nodes.get(name).ok_or(Refused::NotFound)?.clone();
        if node.metadata.uid.as_deref() != Some(uid) {
            return Err(Refused::Conflict);
        }
        if node.metadata.deletion_timestamp.is_none() {
            node.metadata.deletion_timestamp = Some(seconds(now));
            self.touch(&mut node.metadata);
            self.nodes.insert(name.to_owned(), node);
        }
        self.sweep();
        Ok(())
    }

    pub(crate) fn change_node(&mut self, name: &str, change: impl FnOnce(&mut Node)) {
        let Some(mut node) = self.nodes.remove(name) else { return };
        change(&mut node);
        self.touch(&mut node.metadata);
        self.nodes.insert(name.to_owned(), node);
    }

    pub(crate) fn evict(&mut self, uid: &str, now: Timestamp) -> Eviction {
        let Some(pod) = self.pods.get_mut(uid).filter(|pod| pod.resident.deleted_at.is_none()) else {
            return Eviction::Done;
        };
        if pod.budget_until.is_some_and(|until| now < until) {
            return Eviction::Blocked("the disruption budget web needs 3 healthy pods and has 3 currently".to_owned());
        }
        let grace = pod.resident.grace;
        self.delete_pod(uid, grace, now);
        Eviction::Done
    }

    pub(crate) fn delete_pod(&mut self, uid: &str, grace: std::time::Duration, now: Timestamp) {
        if let Some(pod) = self.pods.get_mut(uid) {
            let end = now.checked_add(grace).unwrap();
            let earlier = pod.resident.deleted_at.map_or(end, |there| there.min(end));
            pod.resident.deleted_at = Some(earlier);
            self.changes += 1;
        }
    }

    /// What another writer does: every object gets another version.
    pub(crate) fn meddle(&mut self) {
        let mut claims = std::mem::take(&mut self.claims);
        let mut nodes = std::mem::take(&mut self.nodes);
        claims.values_mut().for_each(|claim| self.touch(&mut claim.metadata));
        nodes.values_mut().for_each(|node| self.touch(&mut node.metadata));
        (self.claims, self.nodes) = (claims, nodes);
        self.change_class(|_| {});
    }

    /// Ownership: Nodes of claims that are gone are deleted, as the garbage collector of Kubernetes does.
    pub(crate) fn own(&mut self, now: Timestamp) {
        let claims: Vec<String> = self.claims.values().filter_map(|claim| claim.metadata.uid.clone()).collect();
        let is_orphan = |node: &&Node| {
            let owners = node.metadata.owner_references.as_deref().unwrap_or_default();
            !owners.is_empty() && owners.iter().all(|owner| !claims.contains(&owner.uid))
        };
        let orphans: Vec<(String, String)> = self
            .nodes
            .values()
            .filter(is_orphan)
            .map(|node| (node.metadata.name.clone().unwrap(), node.metadata.uid.clone().unwrap()))
            .collect();
        for (name, uid) in orphans {
            let _ = self.delete_node(&name, &uid, now);
        }
    }

    fn put_claim(&mut self, before: &NodeClaim, mut claim: NodeClaim, version: &str) -> Result<String, Refused> {
        if before.metadata.resource_version.as_deref() != Some(version) {
            return Err(Refused::Conflict);
        }
        if claim != *before {
            self.touch(&mut claim.metadata);
        }
        let written = claim.metadata.resource_version.clone().unwrap();
        self.claims.insert(claim.metadata.name.clone().unwrap(), claim);
        self.sweep();
        Ok(written)
    }

    /// Objects that are deleted and that nobody holds are gone; so are the pods of Nodes that are.
    fn sweep(&mut self) {
        let before = (self.claims.len(), self.nodes.len());
        self.claims.retain(|_, claim| !is_over(&claim.metadata));
        self.nodes.retain(|_, node| !is_over(&node.metadata));
        let nodes: Vec<String> = self.nodes.keys().cloned().collect();
        self.pods.retain(|_, pod| nodes.contains(&pod.resident.node));
        self.attachments.retain(|one| nodes.contains(&one.node));
        if before != (self.claims.len(), self.nodes.len()) {
            self.changes += 1;
        }
    }

    fn touch(&mut self, meta: &mut ObjectMeta) {
        self.version += 1;
        self.changes += 1;
        meta.resource_version = Some(self.version.to_string());
    }

    fn stamp(&mut self, meta: &mut ObjectMeta, now: Timestamp) {
        self.uids += 1;
        meta.uid = Some(format!("00000000-0000-4000-8000-{:012}", self.uids));
        meta.creation_timestamp = Some(seconds(now));
        self.touch(meta);
    }
}
