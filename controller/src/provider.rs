//! A cloud, and the state of its NodeClasses.

use std::collections::{BTreeMap, BTreeSet};
use std::convert::Infallible;
use std::future::Future;
use std::sync::Arc;

use jiff::Timestamp;
use muster_api::conditions::{READY, nodeclaim};
use muster_api::{NodeClaim, NodeClassReference};
use muster_cloud::{Cloud, CloudError, NoticeKind, NoticeQueue, ZonalShifts};
use muster_manifest::NodeClass;
use muster_scheduling::model::Catalogue;
use muster_stages::classes;
use muster_stages::lifecycle::{Class, Readiness, is_true};
use muster_stages::node::Node;
use muster_stages::state::{LiveClass, Surroundings};
use prometheus_client::registry::Registry;
use serde_json::Value;
use sha2::{Digest, Sha256};
use tokio::sync::watch;

use crate::agents::Vouch;
use crate::kwok::Kwok;
use crate::permissions::For;

/// A cloud with its kind of NodeClass.
pub trait Provider: Cloud + Clone + 'static {
    /// Kind of its NodeClasses.
    const CLASS: &'static str;
    /// Its name in metrics.
    const NAME: &'static str;
    /// Permissions that it needs.
    const CLOUD: For;
    /// Static properties of the kind.
    const KIND: classes::Kind;

    /// Returns the instance types of a class, or of the default one.
    fn types(&self, class: Option<&NodeClass>) -> Catalogue;

    /// Returns true if the cloud has listed its instance types, so that a type that is missing in [`Self::types`] does
    /// not exist.
    fn has_all_types(&self) -> bool {
        true
    }

    /// Learns the properties of a machine from the Node of an initialized claim, so that [`Self::types`] describes the
    /// next instance of its type precisely. Called in every reconciliation of such a claim, and for all of them before
    /// a new leader decides anything, so that nothing has to be persisted.
    fn learn_from(&self, _grown: &Grown<'_>) {}

    /// Keeps the launch queue entries of these claims only, by UID, so that a deleted claim does not delay other
    /// launches. Called whenever a claim is deleted or being deleted.
    fn keep_turns<'a>(&self, _claims: impl Iterator<Item = &'a str>) {}

    /// Returns the state of the class that decides on launches.
    fn judge(&self, class: &LiveClass) -> Class;

    /// Returns true if this replica has resolved the references of the current version of the class. Until then it
    /// cannot launch with the class, regardless of its status, which another replica may have written.
    fn is_resolved(&self, _class: &LiveClass) -> bool {
        true
    }

    /// Resolves the references of the class, unless they are known, so that instances can be launched. Called in every
    /// reconciliation of a class that has its finalizer and is not being deleted.
    fn resolve(&self, _class: &LiveClass) -> impl Future<Output = Resolved> + Send {
        std::future::ready(Resolved::default())
    }

    /// Deletes the cloud resources of a class that is being deleted and has no claims left.
    fn clear(&self, _class: &LiveClass) -> impl Future<Output = Result<(), CloudError>> + Send {
        std::future::ready(Ok(()))
    }

    /// Returns the zones that traffic is shifted away from, as they were last heard of; `None` if they are not heeded.
    /// [`Self::types`] has no available offering there, and nothing is launched there.
    fn zonal_shifts(&self) -> Option<watch::Receiver<ZonalShifts>> {
        None
    }

    /// Returns a counter that changes whenever instances of a capacity reservation become available, which no object of
    /// the cluster shows.
    fn freed_reservations(&self) -> Option<watch::Receiver<u64>> {
        None
    }

    /// Renews what decisions must not be based on if it is old. Called before this replica leads, and takes seconds at
    /// most.
    fn catch_up(&self) -> impl Future<Output = ()> + Send {
        std::future::ready(())
    }

    /// Keeps cached data of the cloud up to date while this replica leads.
    fn keep_up(&self) -> impl Future<Output = Infallible> + Send {
        std::future::pending()
    }

    /// Returns the queue on which the cloud sends notices about its instances, if one is configured.
    fn queue(&self) -> Option<Arc<dyn NoticeQueue>> {
        None
    }

    /// Returns the instances, by ID, that fail status checks or have scheduled events.
    fn unhealthy(&self) -> impl Future<Output = Result<BTreeSet<(String, NoticeKind)>, CloudError>> + Send {
        std::future::ready(Ok(BTreeSet::new()))
    }

    /// Returns the verifier of node identities; `None` if the cloud has none, in which case agents are not served.
    fn vouches(&self) -> Option<Arc<dyn Vouch>> {
        None
    }

    /// Registers the metrics of the cloud.
    fn register(&self, _registry: &mut Registry) {}
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

/// Result of resolving the references of a class.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Resolved {
    /// The observed and the desired status, in the form of the class's kind; `None` if it does not change.
    pub status: Option<(Value, Value)>,
    /// True if the class has just become usable. Waiting claims do not see this in its status, which another replica
    /// may have written before.
    pub is_news: bool,
    /// Time at which it must be resolved again.
    pub again: Option<Timestamp>,
}

// === impl Grown ===

impl<'a> Grown<'a> {
    /// Returns the claim with its Node, if the claim is initialized and is not being deleted.
    pub(crate) fn of(around: &Surroundings<'a>, class: Option<&'a LiveClass>, judged: &'a Class) -> Option<Self> {
        let (claim, &[node]) = (around.claim, around.nodes.as_slice()) else { return None };
        let is_grown = is_true(claim, nodeclaim::INITIALIZED) && claim.metadata.deletion_timestamp.is_none();
        is_grown.then_some(Self { claim, node, class: class?.manifest()?, class_hash: &judged.hash })
    }
}

/// Returns the state of a claim's class, with [`Readiness::Missing`] if the class does not exist.
pub(crate) fn judged<P: Provider>(provider: &P, class: Option<&LiveClass>, reference: &NodeClassReference) -> Class {
    class.map_or_else(
        || Class {
            reference: reference.clone(),
            meta: k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta::default(),
            conditions: Vec::new(),
            readiness: Readiness::Missing,
            hash: String::new(),
            bootstrap_fault: None,
            hands_over_taints: false,
            tags_instances: false,
            reboots_instances: false,
            block_ends: BTreeMap::new(),
        },
        |class| provider.judge(class),
    )
}

/// Returns the readiness that the condition Ready and the metadata of a class indicate.
pub(crate) fn readiness(class: &LiveClass) -> Readiness {
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

impl Provider for Kwok {
    const CLASS: &'static str = "KWOKNodeClass";
    const NAME: &'static str = "kwok";
    const CLOUD: For = For::Kwok;
    const KIND: classes::Kind = classes::Kind::KWOK;

    fn types(&self, _: Option<&NodeClass>) -> Catalogue {
        self.catalogue().clone()
    }

    fn judge(&self, class: &LiveClass) -> Class {
        let spec = class.object.get("spec").map(ToString::to_string).unwrap_or_default();
        let hash = Sha256::digest(spec).iter().take(8).map(|byte| format!("{byte:02x}")).collect();
        Class {
            reference: class.reference.clone(),
            meta: class.meta.clone(),
            conditions: class.conditions.clone(),
            readiness: readiness(class),
            hash,
            bootstrap_fault: None,
            hands_over_taints: false,
            tags_instances: false,
            reboots_instances: false,
            block_ends: BTreeMap::new(),
        }
    }
}
