//! EC2 implementation of the controller's cloud provider.

use std::collections::{BTreeMap, BTreeSet};
use std::convert::Infallible;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError, RwLock};

use jiff::Timestamp;
use kube::Client;
use muster_api::Ec2NodeClass;
use muster_api::conditions::nodeclass::BOOTSTRAP_VALID;
use muster_api::nodeclass::ReservationType;
use muster_aws::discovery::{HASH_VERSION, class_hash};
use muster_aws::launch::{Cluster, family_of};
use muster_aws::live::{self, CallObserver, Clock, Connection, Ec2Cloud};
use muster_aws::{AmiFamily, ClassSettings, Inventory};
use muster_cloud::{
    Cloud, CloudError, Instance, LaunchError, LaunchRequest, Launched, NoticeKind, NoticeQueue, ZonalShifts,
};
use muster_manifest::NodeClass;
use muster_scheduling::model::Catalogue;
use muster_stages::classes::Kind;
use muster_stages::driver::{CloudView, Grown, readiness};
use muster_stages::lifecycle::Class;
use muster_stages::state::LiveClass;
use prometheus_client::registry::Registry;
use serde::Deserialize;
use tokio::sync::watch;

use super::agents::Roles;
use super::calls::{Calls, Line};
use super::classes::Known;
use super::cluster;
use super::learning::Learning;
use super::options::{Options, StartError};
use super::zonal_shifts;
use crate::agents::Vouch;
use crate::permissions::For;
use crate::provider::{Provider, Resolved};

/// EC2 for one cluster; clones share their state.
#[derive(Clone)]
pub struct Ec2(Arc<Inner>);

struct Inner {
    cloud: Ec2Cloud,
    aws: Connection,
    client: Client,
    options: Options,
    calls: Calls,
    cluster: RwLock<Arc<Cluster>>,
    /// ARN of the cluster, once it is known.
    arn: OnceLock<Arc<str>>,
    /// Cached results of classes, by name. Locked for the duration of a lookup.
    classes: Mutex<BTreeMap<String, Known>>,
    /// Cached instance types of classes, by name. Locked while they are read or computed.
    types: Mutex<BTreeMap<String, Typed>>,
    roles: Roles,
    learning: Learning,
}

/// Instance types of a class, and the versions of their inputs.
struct Typed {
    inventory: Arc<Inventory>,
    edition: u64,
    /// Version of the learned capacities.
    learned: u64,
    /// Version of the counts of its reservations.
    reservations: u64,
    /// IDs of the zones in which nothing was launched.
    closed_zones: BTreeSet<Arc<str>>,
    types: Catalogue,
}

// === impl Ec2 ===

impl Ec2 {
    /// Connects with the region and credentials of the environment.
    ///
    /// # Errors
    /// Fails without a region, or if the cluster's configuration or the instance types cannot be read.
    pub async fn connect(client: Client, options: Options) -> Result<Self, StartError> {
        let aws = Connection::from_environment(None).await;
        let aws = aws.map_err(|error| StartError::NoRegion(error.to_string()))?;
        Self::connect_through(aws, client, options, None).await
    }

    /// Connects through an existing connection; `observer` observes every call.
    ///
    /// # Errors
    /// Fails if the cluster's configuration or the instance types cannot be read.
    pub async fn connect_through(
        aws: Connection,
        client: Client,
        options: Options,
        observer: Option<Arc<dyn CallObserver>>,
    ) -> Result<Self, StartError> {
        let cluster = cluster::ask(&aws, &client, &options, clock()).await?;
        let embedded = Inventory::embedded(&aws.region);
        let is_embedded = embedded.is_ok();
        let inventory = embedded.unwrap_or_else(|_| Inventory::described(&aws.region, Vec::new()));
        let of_nodes =
            live::Options { reserved_enis: options.reserved_enis, vm_memory_overhead: options.vm_memory_overhead };
        let cloud = Ec2Cloud::new(aws.clone(), cluster.clone(), inventory, of_nodes, clock());
        let calls = Calls::with(observer);
        cloud.seen_by(Arc::new(calls.clone()));
        if !is_embedded {
            let asked = cloud.refresh_inventory().await;
            let unknown =
                |error: CloudError| StartError::Types { region: aws.region.clone(), reason: error.to_string() };
            asked.map_err(unknown)?;
        }
        let arn = zonal_shifts::begin(&aws, &cloud, &options, &cluster).await?;
        let inner = Inner {
            cloud,
            aws,
            client,
            options,
            calls,
            cluster: RwLock::new(Arc::new(cluster)),
            arn: arn.map_or_else(OnceLock::new, OnceLock::from),
            classes: Mutex::default(),
            types: Mutex::default(),
            roles: Roles::default(),
            learning: Learning::default(),
        };
        Ok(Self(Arc::new(inner)))
    }

    pub(super) fn cloud(&self) -> &Ec2Cloud {
        &self.0.cloud
    }

    pub(super) fn aws(&self) -> &Connection {
        &self.0.aws
    }

    pub(super) fn client(&self) -> &Client {
        &self.0.client
    }

    pub(super) fn options(&self) -> &Options {
        &self.0.options
    }

    pub(super) fn cluster(&self) -> Arc<Cluster> {
        Arc::clone(&self.0.cluster.read().unwrap_or_else(PoisonError::into_inner))
    }

    pub(super) fn arn(&self) -> Option<Arc<str>> {
        self.0.arn.get().cloned()
    }

    /// Keeps the ARN of the cluster, and returns it.
    pub(super) fn note_arn(&self, arn: Arc<str>) -> Arc<str> {
        Arc::clone(self.0.arn.get_or_init(|| arn))
    }

    pub(super) fn note_cluster(&self, cluster: Arc<Cluster>) {
        *self.0.cluster.write().unwrap_or_else(PoisonError::into_inner) = cluster;
    }

    pub(super) fn classes(&self) -> MutexGuard<'_, BTreeMap<String, Known>> {
        lock(&self.0.classes)
    }

    pub(super) fn learning(&self) -> &Learning {
        &self.0.learning
    }

    pub(super) fn roles(&self) -> &Roles {
        &self.0.roles
    }

    /// Returns the instance types, as far as they are known, of a class that has not been looked up yet, or of any
    /// class.
    fn types_before(&self, class: Option<&NodeClass>) -> Catalogue {
        let typed = class.and_then(|class| Ec2NodeClass::deserialize(&class.object).ok()).unwrap_or_default();
        let default = ClassSettings::default();
        let settings = class.map_or(&default, |class| &class.settings);
        let mut types: Catalogue = self.cloud().instance_types_of(&typed, settings).into();
        types.close_zones(&self.cloud().shifted_zones());
        types
    }
}

impl CloudView for Ec2 {
    fn types(&self, class: Option<&NodeClass>) -> Catalogue {
        let name = class.map(|class| class.name.to_string());
        let edition = name.as_ref().and_then(|name| self.classes().get(name).map(|known| known.edition));
        let Some((name, edition)) = name.as_ref().zip(edition) else {
            return self.types_before(class);
        };
        // Read before the types are computed, so that values learned meanwhile cause them to be computed again.
        let (inventory, learned) = (self.cloud().inventory(), self.cloud().learned_edition());
        let reservations = self.cloud().reservations_edition(name);
        let closed_zones = self.cloud().shifted_zones();
        let mut all = lock(&self.0.types);
        if let Some(typed) = all.get(name)
            && typed.edition == edition
            && typed.learned == learned
            && typed.reservations == reservations
            && typed.closed_zones == closed_zones
            && Arc::ptr_eq(&typed.inventory, &inventory)
        {
            return typed.types.clone();
        }
        // The class's status reports settings that cannot be used.
        let mut types: Catalogue = self.cloud().instance_types(name).unwrap_or_default().into();
        types.close_zones(&closed_zones);
        all.insert(
            name.clone(),
            Typed { inventory, edition, learned, reservations, closed_zones, types: types.clone() },
        );
        types
    }

    fn judge(&self, live: &LiveClass) -> Class {
        // What only reads does not write its findings into the status, so they are taken from memory.
        let observed = self.options().only_reads.then(|| {
            let classes = self.classes();
            let known = classes.get(&live.reference.name).filter(|known| known.is_of(live));
            let mut live = live.clone();
            live.conditions = known.map(|known| known.status.conditions.clone()).unwrap_or_default();
            live
        });
        let live = observed.as_ref().unwrap_or(live);
        let class: Option<Ec2NodeClass> = live.typed().ok();
        let bootstrap = live.conditions.iter().find(|one| one.type_ == BOOTSTRAP_VALID);
        Class {
            reference: live.reference.clone(),
            meta: live.meta.clone(),
            conditions: live.conditions.clone(),
            readiness: readiness(live),
            hash: class.as_ref().map(class_hash).unwrap_or_default(),
            bootstrap_fault: bootstrap.filter(|one| one.status == "False").map(|one| one.message.clone()),
            hands_over_taints: class.as_ref().is_some_and(|class| family_of(&class.spec) != AmiFamily::Custom),
            tags_instances: true,
            reboots_instances: true,
            block_ends: class.as_ref().map(block_ends).unwrap_or_default(),
        }
    }

    fn is_resolved(&self, live: &LiveClass) -> bool {
        self.classes().get(&live.reference.name).is_some_and(|known| known.is_of(live))
    }

    fn learn_from(&self, grown: &Grown<'_>) {
        self.learn_figures(grown);
    }
}

impl Provider for Ec2 {
    const CLOUD: For = For::Aws;
    const CLASS: &'static str = "EC2NodeClass";
    const NAME: &'static str = "aws";
    const KIND: Kind = Kind::ec2(HASH_VERSION);

    fn has_all_types(&self) -> bool {
        self.cloud().inventory().is_described()
    }

    fn keep_turns<'a>(&self, claims: impl Iterator<Item = &'a str>) {
        self.cloud().keep_turns(claims);
    }

    async fn resolve(&self, class: &LiveClass) -> Resolved {
        self.resolve_class(class).await
    }

    async fn clear(&self, class: &LiveClass) -> Result<(), CloudError> {
        self.clear_class(class).await
    }

    fn zonal_shifts(&self) -> Option<watch::Receiver<ZonalShifts>> {
        self.options().zonal_shifts_every.map(|_| self.cloud().zonal_shifts())
    }

    fn freed_reservations(&self) -> Option<watch::Receiver<u64>> {
        Some(self.cloud().freed_reservations())
    }

    async fn catch_up(&self) {
        self.catch_up_with_zonal_shifts().await;
    }

    async fn keep_up(&self) -> Infallible {
        self.keep_all_up().await
    }

    fn queue(&self) -> Option<Arc<dyn NoticeQueue>> {
        let name = self.options().queue.as_deref()?;
        Some(Arc::new(self.cloud().queue(name)))
    }

    async fn unhealthy(&self) -> Result<BTreeSet<(String, NoticeKind)>, CloudError> {
        self.cloud().unhealthy().await
    }

    fn vouches(&self) -> Option<Arc<dyn Vouch>> {
        Some(Arc::new(self.clone()))
    }

    fn register(&self, registry: &mut Registry) {
        self.0.calls.register(registry);
        registry.register_collector(Box::new(Line(self.cloud().clone())));
        self.0.learning.register(registry);
    }
}

impl Cloud for Ec2 {
    async fn launch(&self, request: &LaunchRequest) -> Result<Launched, LaunchError> {
        self.cloud().launch(request).await
    }

    async fn get(&self, provider_id: &str) -> Result<Instance, CloudError> {
        self.cloud().get(provider_id).await
    }

    async fn list(&self) -> Result<Vec<Instance>, CloudError> {
        self.cloud().list().await
    }

    async fn console(&self, provider_id: &str) -> Result<Option<String>, CloudError> {
        self.cloud().console(provider_id).await
    }

    async fn terminate(&self, provider_id: &str) -> Result<(), CloudError> {
        self.cloud().terminate(provider_id).await
    }

    async fn reboot(&self, provider_id: &str) -> Result<(), CloudError> {
        self.cloud().reboot(provider_id).await
    }

    async fn tag(&self, provider_id: &str, tags: &BTreeMap<String, String>) -> Result<(), CloudError> {
        self.cloud().tag(provider_id, tags).await
    }
}

/// Returns the ends of the capacity blocks that the class selects, by ID.
fn block_ends(class: &Ec2NodeClass) -> BTreeMap<String, Timestamp> {
    let reservations = class.status.iter().flat_map(|status| &status.capacity_reservations);
    let blocks = reservations.filter(|one| one.reservation_type == ReservationType::CapacityBlock);
    blocks.filter_map(|block| Some((block.id.clone(), block.end_time.as_ref()?.0))).collect()
}

/// Returns the clock for AWS calls.
pub(crate) fn clock() -> Clock {
    Arc::new(now)
}

#[expect(clippy::disallowed_methods, reason = "the edge: decisions are given the moment")]
pub(super) fn now() -> Timestamp {
    Timestamp::now()
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
