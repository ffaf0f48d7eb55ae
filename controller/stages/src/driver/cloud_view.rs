//! The cloud as decisions see it.

use std::collections::BTreeMap;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use muster_api::conditions::{READY, nodeclaim};
use muster_api::{NodeClaim, NodeClassReference};
use muster_manifest::NodeClass;
use muster_scheduling::model::Catalogue;

use crate::lifecycle::{Class, Readiness, is_true};
use crate::node::Node;
use crate::state::{LiveClass, Surroundings};

/// View of a cloud and of its NodeClasses, as far as decisions need it.
pub trait CloudView {
    /// Returns the instance types of a class, or of the default one.
    fn types(&self, class: Option<&NodeClass>) -> Catalogue;

    /// Returns the state of the class that decides on launches.
    fn judge(&self, class: &LiveClass) -> Class;

    /// Returns true if this replica has resolved the references of the current version of the class. Until then it
    /// cannot launch with the class, regardless of its status, which another replica may have written.
    fn is_resolved(&self, _class: &LiveClass) -> bool {
        true
    }

    /// Learns the properties of a machine from the Node of an initialized claim, so that [`Self::types`] describes the
    /// next instance of its type precisely. Called in every reconciliation of such a claim, and for all of them before
    /// a new leader decides anything, so that nothing has to be persisted.
    fn learn_from(&self, _grown: &Grown<'_>) {}
}

/// A claim whose Node is initialized.
#[derive(Debug, Clone, Copy)]
pub struct Grown<'a> {
    /// The claim.
    pub claim: &'a NodeClaim,
    /// Its only Node.
    pub node: &'a Node,
    /// The current version of its class.
    pub class: &'a NodeClass,
    /// [`Class::hash`] of that version.
    pub class_hash: &'a str,
}

// === impl Grown ===

impl<'a> Grown<'a> {
    /// Returns the claim with its Node, if the claim is initialized and is not being deleted.
    #[must_use]
    pub fn of(around: &Surroundings<'a>, class: Option<&'a LiveClass>, judged: &'a Class) -> Option<Self> {
        let (claim, &[node]) = (around.claim, around.nodes.as_slice()) else { return None };
        let is_grown = is_true(claim, nodeclaim::INITIALIZED) && claim.metadata.deletion_timestamp.is_none();
        is_grown.then_some(Self { claim, node, class: class?.manifest()?, class_hash: &judged.hash })
    }
}

/// Returns the state of a claim's class, with [`Readiness::Missing`] if the class does not exist.
pub fn judged(cloud: &impl CloudView, class: Option<&LiveClass>, reference: &NodeClassReference) -> Class {
    class.map_or_else(
        || Class {
            reference: reference.clone(),
            meta: ObjectMeta::default(),
            conditions: Vec::new(),
            readiness: Readiness::Missing,
            hash: String::new(),
            bootstrap_fault: None,
            hands_over_taints: false,
            tags_instances: false,
            reboots_instances: false,
            block_ends: BTreeMap::new(),
        },
        |class| cloud.judge(class),
    )
}

/// Returns the readiness that the condition Ready and the metadata of a class indicate.
#[must_use]
pub fn readiness(class: &LiveClass) -> Readiness {
    if class.meta.deletion_timestamp.is_some() {
        return Readiness::Terminating;
    }
    let Some(ready) = class.conditions.iter().find(|one| one.type_ == READY) else { return Readiness::Unknown };
    match ready.status.as_str() {
        "True" => Readiness::Ready,
        "False" => {
            let words = [ready.reason.as_str(), ready.message.as_str()];
            let words: Vec<&str> = words.into_iter().filter(|word| !word.is_empty()).collect();
            Readiness::NotReady(words.join(": "))
        }
        _ => Readiness::Unknown,
    }
}
