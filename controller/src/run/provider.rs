//! A cloud, and what is known of it before anything is launched.

use std::convert::Infallible;
use std::future::Future;
use std::sync::Arc;

use jiff::Timestamp;
use muster_api::conditions::{READY, nodeclaim};
use muster_api::{NodeClaim, NodeClassReference};
use muster_cloud::{Cloud, CloudError};
use muster_scheduling::model::Catalogue;
use prometheus_client::registry::Registry;
use serde_json::Value;
use sha2::{Digest, Sha256};

use crate::agents::Vouch;
use crate::classes;
use crate::kwok::Kwok;
use crate::lifecycle::{Class, Readiness, is_true};
use crate::manifest::NodeClass;
use crate::node::Node;
use crate::permissions::For;
use crate::state::{LiveClass, Surroundings};

/// A cloud that NodeClasses of one kind belong to.
pub trait Provider: Cloud + Clone + 'static {
    /// Kind of its NodeClasses.
    const CLASS: &'static str;
    /// Whose permissions it needs.
    const CLOUD: For;
    /// What is the same in all of them.
    const KIND: classes::Kind;

    /// The instance types of a class, or of the default one.
    fn types(&self, class: Option<&NodeClass>) -> Catalogue;

    /// Takes in what the Node of a claim says of its machine, so that [`Self::types`] has what the next one will have. Asked at every
    /// look at a claim that is initialized, and of all of them before a leader decides anything: nothing has to be kept.
    fn learn_from(&self, _grown: &Grown<'_>) {}

    /// Claims have gone, or are going, and these stay, by UID: nobody's launch waits its turn behind another one's. Asked whenever any
    /// has.
    fn keep_turns<'a>(&self, _claims: impl Iterator<Item = &'a str>) {}

    /// What the class means for launches.
    fn judge(&self, class: &LiveClass) -> Class;

    /// Whether this replica has looked up what the class, as it is now, refers to. Until then it cannot launch with it,
    /// whatever the status says, which may be another replica's word.
    fn is_resolved(&self, _class: &LiveClass) -> bool {
        true
    }

    /// Looks up what the class refers to, unless that is known, so that it can be launched with. Asked at every look at a
    /// class that has its finalizer and is not being deleted.
    fn resolve(&self, _class: &LiveClass) -> impl Future<Output = Resolved> + Send {
        std::future::ready(Resolved::default())
    }

    /// Removes what was made for a class that is being deleted and that no claim uses any more.
    fn clear(&self, _class: &LiveClass) -> impl Future<Output = Result<(), CloudError>> + Send {
        std::future::ready(Ok(()))
    }

    /// Keeps what is known of the cloud up to date, for as long as this replica leads.
    fn keep_up(&self) -> impl Future<Output = Infallible> + Send {
        std::future::pending()
    }

    /// Who can say which instance a node is; none where nobody can, and then no agent is served.
    fn vouches(&self) -> Option<Arc<dyn Vouch>> {
        None
    }

    /// Metrics of its own.
    fn register(&self, _registry: &mut Registry) {}
}

/// A claim whose Node takes pods.
#[derive(Debug, Clone, Copy)]
pub struct Grown<'a> {
    /// The claim.
    pub claim: &'a NodeClaim,
    /// Its only Node.
    pub node: &'a Node,
    /// Its class, as it is now.
    pub class: &'a NodeClass,
    /// [`Class::hash`] of that.
    pub class_hash: &'a str,
}

/// What follows from what a class refers to.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Resolved {
    /// The status as it was seen, and as it should be, in the form of the class's kind; none if nothing changes.
    pub status: Option<(Value, Value)>,
    /// Whether the class could not be launched with a moment ago, and now can: whoever waits for that does not see it by
    /// its status, which may be that of another replica.
    pub is_news: bool,
    /// When it has to be looked up again.
    pub again: Option<Timestamp>,
}

// === impl Grown ===

impl<'a> Grown<'a> {
    /// What the picture shows around a claim, if its Node takes pods and stays.
    pub(super) fn of(around: &Surroundings<'a>, class: Option<&'a LiveClass>, judged: &'a Class) -> Option<Self> {
        let (claim, &[node]) = (around.claim, around.nodes.as_slice()) else { return None };
        let is_grown = is_true(claim, nodeclaim::INITIALIZED) && claim.metadata.deletion_timestamp.is_none();
        is_grown.then_some(Self { claim, node, class: class?.manifest()?, class_hash: &judged.hash })
    }
}

/// The class of a claim, or that there is none.
pub(super) fn judged<P: Provider>(provider: &P, class: Option<&LiveClass>, reference: &NodeClassReference) -> Class {
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
        },
        |class| provider.judge(class),
    )
}

/// What the condition Ready and the metadata of a class say.
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
        }
    }
}
