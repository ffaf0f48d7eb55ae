//! A cloud, and the state of its NodeClasses.

use std::collections::{BTreeMap, BTreeSet};
use std::convert::Infallible;
use std::future::Future;
use std::sync::Arc;

use jiff::Timestamp;
use muster_cloud::{Cloud, CloudError, NoticeKind, NoticeQueue, ZonalShifts};
use muster_manifest::NodeClass;
use muster_scheduling::model::Catalogue;
use muster_stages::classes;
use muster_stages::driver::{CloudView, readiness};
use muster_stages::lifecycle::Class;
use muster_stages::state::LiveClass;
use prometheus_client::registry::Registry;
use serde_json::Value;
use sha2::{Digest, Sha256};
use tokio::sync::watch;

use crate::agents::Vouch;
use crate::kwok::Kwok;
use crate::permissions::For;

/// A cloud with its kind of NodeClass.
pub trait Provider: Cloud + CloudView + Clone + 'static {
    /// Kind of its NodeClasses.
    const CLASS: &'static str;
    /// Its name in metrics.
    const NAME: &'static str;
    /// Permissions that it needs.
    const CLOUD: For;
    /// Static properties of the kind.
    const KIND: classes::Kind;

    /// Returns true if the cloud has listed its instance types, so that a type that is missing in
    /// [`CloudView::types`] does not exist.
    fn has_all_types(&self) -> bool {
        true
    }

    /// Keeps the launch queue entries of these claims only, by UID, so that a deleted claim does not delay other
    /// launches. Called whenever a claim is deleted or being deleted.
    fn keep_turns<'a>(&self, _claims: impl Iterator<Item = &'a str>) {}

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
    /// [`CloudView::types`] has no available offering there, and nothing is launched there.
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

impl Provider for Kwok {
    const CLASS: &'static str = "KWOKNodeClass";
    const NAME: &'static str = "kwok";
    const CLOUD: For = For::Kwok;
    const KIND: classes::Kind = classes::Kind::KWOK;
}

impl CloudView for Kwok {
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
