//! The observed objects that a step may change.

use std::collections::BTreeMap;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, ObjectMeta};
use muster_api::{CapacityBuffer, NodeClaim, NodeClassReference, NodeOverlay, NodePool};
use muster_stages::lifecycle::Class;
use muster_stages::node::Node;
use muster_stages::step::Write;
use serde::Deserialize;
use serde_json::Value;

use super::request::Written;

/// Observed state on which a step was decided, as far as its writes need it: resource versions, and the statuses that
/// are replaced. Both are updated by each write.
#[derive(Debug, Clone, Default)]
pub struct ObservedVersions {
    claims: BTreeMap<String, Kept>,
    nodes: BTreeMap<String, Kept>,
    pools: BTreeMap<String, Kept>,
    overlays: BTreeMap<String, Kept>,
    /// By `namespace/name`.
    buffers: BTreeMap<String, Kept>,
    class: Option<KeptClass>,
    /// The object of the last conflict: kind, name, and the version that was not the newest.
    conflict: Option<(&'static str, String, String)>,
}

/// One object.
#[derive(Debug, Clone, Default)]
pub(super) struct Kept {
    pub(super) version: String,
    /// True if this version is the result of our own write.
    pub(super) is_ours: bool,
    /// Null if no write replaces it.
    pub(super) status: Value,
}

/// The NodeClass of the step.
#[derive(Debug, Clone)]
pub(super) struct KeptClass {
    pub(super) reference: NodeClassReference,
    pub(super) version: String,
    /// True if this version is the result of our own write.
    is_ours: bool,
    pub(super) conditions: Vec<Condition>,
    /// Null if no write replaces it.
    pub(super) status: Value,
}

/// Kind of an object.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    Claim,
    Node,
    Pool,
    Overlay,
    Buffer,
}

// === impl ObservedVersions ===

impl ObservedVersions {
    /// Adds a NodeClaim.
    #[must_use]
    pub fn claim(mut self, claim: &NodeClaim) -> Self {
        let status = claim.status.as_ref().and_then(|status| serde_json::to_value(status).ok());
        self.claims.insert(name(&claim.metadata), Kept::new(&claim.metadata, status.unwrap_or_default()));
        self
    }

    /// Adds a Node.
    #[must_use]
    pub fn node(mut self, node: &Node) -> Self {
        self.nodes.insert(name(&node.metadata), Kept::new(&node.metadata, Value::Null));
        self
    }

    /// Adds a NodePool.
    #[must_use]
    pub fn pool(mut self, pool: &NodePool) -> Self {
        let status = pool.status.as_ref().and_then(|status| serde_json::to_value(status).ok());
        self.pools.insert(name(&pool.metadata), Kept::new(&pool.metadata, status.unwrap_or_default()));
        self
    }

    /// Adds a NodeOverlay.
    #[must_use]
    pub fn overlay(mut self, overlay: &NodeOverlay) -> Self {
        let status = overlay.status.as_ref().and_then(|status| serde_json::to_value(status).ok());
        self.overlays.insert(name(&overlay.metadata), Kept::new(&overlay.metadata, status.unwrap_or_default()));
        self
    }

    /// Adds a CapacityBuffer at `path` (`namespace/name`).
    #[must_use]
    pub fn buffer(mut self, path: &str, buffer: &CapacityBuffer) -> Self {
        let status = buffer.status.as_ref().and_then(|status| serde_json::to_value(status).ok());
        self.buffers.insert(path.to_owned(), Kept::new(&buffer.metadata, status.unwrap_or_default()));
        self
    }

    /// Sets the NodeClass.
    #[must_use]
    pub fn class(mut self, class: &Class) -> Self {
        self.class = Some(KeptClass {
            reference: class.reference.clone(),
            version: version(&class.meta),
            is_ours: false,
            conditions: class.conditions.clone(),
            status: Value::Null,
        });
        self
    }

    /// Sets the observed status of the NodeClass, in the form of its kind.
    #[must_use]
    pub fn class_status(mut self, status: Value) -> Self {
        if let Some(class) = &mut self.class {
            class.status = status;
        }
        self
    }

    /// Returns the objects that were written: kind, name, and new version.
    pub fn written(&self) -> impl Iterator<Item = (&'static str, &str, &str)> {
        let class = self.class.iter().filter(|class| class.is_ours);
        let class = class.map(|class| (kind_of(class), class.reference.name.as_str(), class.version.as_str()));
        let claims = ours("NodeClaim", &self.claims);
        let others = ours("NodePool", &self.pools).chain(ours("NodeOverlay", &self.overlays));
        let others = others.chain(ours("CapacityBuffer", &self.buffers));
        class.chain(claims).chain(ours("Node", &self.nodes)).chain(others)
    }

    /// Returns the object of the last conflict: kind, name, and the version that was not the newest.
    pub fn conflict(&self) -> Option<(&'static str, &str, &str)> {
        self.conflict.as_ref().map(|(kind, name, version)| (*kind, name.as_str(), version.as_str()))
    }

    /// Records that `write` was rejected because its object has changed.
    pub(super) fn note_conflict(&mut self, write: &Write) {
        let found = match write {
            Write::ClaimMeta { name, .. } | Write::ClaimStatus { name, .. } => {
                self.claims.get(name).map(|kept| ("NodeClaim", name.clone(), kept.version.clone()))
            }
            Write::Node { name, .. } => self.nodes.get(name).map(|kept| ("Node", name.clone(), kept.version.clone())),
            Write::PoolMeta { name, .. } | Write::PoolStatus { name, .. } => {
                self.pools.get(name).map(|kept| ("NodePool", name.clone(), kept.version.clone()))
            }
            Write::OverlayStatus { name, .. } => {
                self.overlays.get(name).map(|kept| ("NodeOverlay", name.clone(), kept.version.clone()))
            }
            Write::BufferStatus { path, .. } => {
                self.buffers.get(path).map(|kept| ("CapacityBuffer", path.clone(), kept.version.clone()))
            }
            Write::ClassMeta(_) | Write::ClassCondition(_) | Write::ClassStatus(_) => {
                self.class.as_ref().map(|kept| (kind_of(kept), kept.reference.name.clone(), kept.version.clone()))
            }
            _ => None,
        };
        self.conflict = found.or(self.conflict.take());
    }

    pub(super) fn of(&self, kind: Kind, name: &str) -> Option<&Kept> {
        match kind {
            Kind::Claim => self.claims.get(name),
            Kind::Node => self.nodes.get(name),
            Kind::Pool => self.pools.get(name),
            Kind::Overlay => self.overlays.get(name),
            Kind::Buffer => self.buffers.get(name),
        }
    }

    pub(super) fn its_class(&self) -> Option<&KeptClass> {
        self.class.as_ref()
    }

    /// Records the new version, and the status, after a write.
    pub(super) fn note(&mut self, write: &Write, written: Written) {
        let Some(version) = written.metadata.resource_version else { return };
        match write {
            Write::ClaimMeta { name, .. } => move_on(self.claims.get_mut(name), version, None),
            Write::ClaimStatus { name, status } => {
                move_on(self.claims.get_mut(name), version, serde_json::to_value(status).ok());
            }
            Write::Node { name, .. } => move_on(self.nodes.get_mut(name), version, None),
            Write::PoolMeta { name, .. } => move_on(self.pools.get_mut(name), version, None),
            Write::PoolStatus { name, status } => {
                move_on(self.pools.get_mut(name), version, serde_json::to_value(status).ok());
            }
            Write::OverlayStatus { name, status } => {
                move_on(self.overlays.get_mut(name), version, serde_json::to_value(status).ok());
            }
            Write::BufferStatus { path, status } => {
                move_on(self.buffers.get_mut(path), version, serde_json::to_value(status).ok());
            }
            Write::ClassMeta(_) => {
                if let Some(class) = &mut self.class {
                    class.version = version;
                    class.is_ours = true;
                }
            }
            Write::ClassCondition(condition) => {
                if let Some(class) = &mut self.class {
                    class.version = version;
                    class.is_ours = true;
                    muster_stages::lifecycle::set_condition(&mut class.conditions, condition.clone());
                }
            }
            Write::ClassStatus(status) => {
                if let Some(class) = &mut self.class {
                    class.version = version;
                    class.is_ours = true;
                    class.conditions = conditions_of(status);
                    class.status = Value::clone(status);
                }
            }
            _ => {}
        }
    }
}

fn conditions_of(status: &Value) -> Vec<Condition> {
    status.get("conditions").and_then(|all| Vec::deserialize(all).ok()).unwrap_or_default()
}

fn kind_of(class: &KeptClass) -> &'static str {
    match class.reference.kind.as_str() {
        "KWOKNodeClass" => "KWOKNodeClass",
        _ => "EC2NodeClass",
    }
}

fn ours<'h>(
    kind: &'static str,
    all: &'h BTreeMap<String, Kept>,
) -> impl Iterator<Item = (&'static str, &'h str, &'h str)> {
    let ours = all.iter().filter(|(_, kept)| kept.is_ours);
    ours.map(move |(name, kept)| (kind, name.as_str(), kept.version.as_str()))
}

impl Kept {
    fn new(meta: &ObjectMeta, status: Value) -> Self {
        Self { version: version(meta), is_ours: false, status }
    }
}

fn move_on(kept: Option<&mut Kept>, version: String, status: Option<Value>) {
    let Some(kept) = kept else { return };
    kept.version = version;
    kept.is_ours = true;
    if let Some(status) = status {
        kept.status = status;
    }
}

fn name(meta: &ObjectMeta) -> String {
    meta.name.clone().unwrap_or_default()
}

fn version(meta: &ObjectMeta) -> String {
    meta.resource_version.clone().unwrap_or_default()
}
