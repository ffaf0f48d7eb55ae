//! Implementation of the cloud interface for EC2.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock};
use std::time::Duration;

use futures::future::try_join_all;
use jiff::Timestamp;
use muster_api::{Ec2NodeClass, annotations, labels};
use muster_bootstrap::userdata::base64;
use muster_cloud::{
    Cloud, CloudError, Instance, InstanceState, LaunchError, LaunchRequest, LaunchToken, Launched, Refusal, Refused,
    ZonalShifts, after,
};
use tokio::sync::watch;

use super::batch::Batch;
use super::call_observer::CallObserver;
use super::caller::{Caller, Clock, Failure};
use super::classes::{Classes, Known, Options};
use super::connection::Connection;
use super::fleet;
use super::instances::{self, Describe, Terminate, instance_id};
use super::profile::Fresh;
use super::templates::Templates;
use crate::class::{ClassSettings, PlacementGroup};
use crate::error_codes::Meaning;
use crate::inventory::Inventory;
use crate::launch::{
    Addresses, AgentSettings, Cluster, Controller, FleetAnswer, Grounds, Plan, PlannedTemplate, Taken, outcome, plan,
};
use crate::learned::Learned;
use crate::node_properties;
use crate::rate_limits::Family;
use crate::reservation_counts::ReservationCounts;

/// Time for which EC2 may not return a launched instance. Usually it is a second or two.
pub(super) const VISIBLE: Duration = Duration::from_secs(60);
/// Maximum time to search for the instance of a token that was used with other parameters.
const LOOKED_FOR: Duration = Duration::from_secs(30);

/// EC2, for one cluster.
pub struct Ec2Cloud(pub(super) Arc<Inner>);

pub(super) struct Inner {
    pub(super) aws: Connection,
    pub(super) caller: Arc<Caller>,
    pub(super) options: Options,
    classes: Classes,
    pub(super) templates: Templates,
    pub(super) fresh: Fresh,
    describe: Batch<Describe>,
    terminate: Batch<Terminate>,
    started_at: Timestamp,
    cluster: RwLock<Arc<Cluster>>,
    controller: RwLock<Option<Arc<Controller>>>,
    inventory: RwLock<Arc<Inventory>>,
    /// Zonal shifts that ARC has last told of.
    pub(super) shifts: watch::Sender<ZonalShifts>,
    /// Learned capacities of Nodes. Locked while a Node is processed, or while the types of a class are computed.
    learned: Mutex<Learned>,
    /// Locked while a launch is planned, never across a call.
    addresses: Mutex<Addresses>,
    /// Instances launched in the last minute, by ID: EC2 may not return them yet.
    pub(super) recent: Mutex<BTreeMap<String, Instance>>,
    /// Available instances of capacity reservations.
    pub(super) reservations: Mutex<ReservationCounts>,
    /// Grows when a count of reservations may be wrong.
    pub(super) doubts: watch::Sender<u64>,
    /// Grows when instances of a reservation become available.
    pub(super) freed: watch::Sender<u64>,
    /// Tokens that were used before with other parameters, and the start of the search for their instance.
    reused: Mutex<BTreeMap<LaunchToken, Timestamp>>,
}

// === impl Ec2Cloud ===

impl Ec2Cloud {
    /// Creates a client for `cluster`, with an initial inventory of instance types.
    #[must_use]
    pub fn new(aws: Connection, cluster: Cluster, inventory: Inventory, options: Options, clock: Clock) -> Self {
        let caller = Arc::new(Caller::new(clock));
        let describe = Describe { aws: aws.clone(), caller: Arc::clone(&caller) };
        let terminate = Terminate { aws: aws.clone(), caller: Arc::clone(&caller) };
        Self(Arc::new(Inner {
            started_at: caller.now(),
            aws,
            caller,
            options,
            classes: Classes::default(),
            templates: Templates::default(),
            fresh: Fresh::default(),
            describe: Batch::new(describe),
            terminate: Batch::new(terminate),
            cluster: RwLock::new(Arc::new(cluster)),
            controller: RwLock::default(),
            inventory: RwLock::new(Arc::new(inventory)),
            shifts: watch::Sender::default(),
            learned: Mutex::default(),
            addresses: Mutex::default(),
            recent: Mutex::default(),
            reservations: Mutex::default(),
            doubts: watch::Sender::default(),
            freed: watch::Sender::default(),
            reused: Mutex::default(),
        }))
    }

    /// Sets the witness of every later attempt of a call; only the first invocation has an effect.
    pub fn seen_by(&self, observer: Arc<dyn CallObserver>) {
        self.0.caller.seen_by(observer);
    }

    /// Stores a class as the API server has it. `group` is the placement group that it selects.
    pub fn learn_class(&self, class: Ec2NodeClass, group: Option<PlacementGroup>) {
        self.0.classes.learn(class, self.0.options, group);
    }

    /// Removes a deleted class.
    pub fn forget_class(&self, name: &str) {
        self.0.classes.forget(name);
    }

    /// Sets the settings of the cluster.
    pub fn learn_cluster(&self, cluster: Cluster) {
        *self.0.cluster.write().unwrap_or_else(PoisonError::into_inner) = Arc::new(cluster);
    }

    /// Sets how nodes that are launched from now on connect to the controller.
    pub fn learn_controller(&self, controller: Controller) {
        *self.0.controller.write().unwrap_or_else(PoisonError::into_inner) = Some(Arc::new(controller));
    }

    /// Sets the free addresses by subnet, as last reported by EC2.
    pub fn learn_addresses(&self, free: impl IntoIterator<Item = (String, i64)>) {
        lock(&self.0.addresses).tell(free);
    }

    /// Removes queued launches of all claims except these, given by UID, so that other launches do not wait behind
    /// them.
    pub fn keep_turns<'a>(&self, claims: impl Iterator<Item = &'a str>) {
        if self.count_queued() == 0 {
            return;
        }
        let staying: BTreeSet<&str> = claims.collect();
        let stays = |who: &str| LaunchToken::parse(who).is_some_and(|token| staying.contains(token.claim_uid.as_str()));
        self.0.caller.budgets(|budgets, _| budgets.keep(Family::CreateFleet, stays));
    }

    /// Returns the number of launches that are queued because of the rate limit.
    #[must_use]
    pub fn count_queued(&self) -> usize {
        self.0.caller.budgets(|budgets, now| budgets.waiting(Family::CreateFleet, now))
    }

    /// Sets the instance types with their prices.
    pub fn learn_inventory(&self, inventory: Inventory) {
        *self.0.inventory.write().unwrap_or_else(PoisonError::into_inner) = Arc::new(inventory);
    }

    /// Returns the instance types with their prices.
    #[must_use]
    pub fn inventory(&self) -> Arc<Inventory> {
        Arc::clone(&self.0.inventory.read().unwrap_or_else(PoisonError::into_inner))
    }
}

impl Cloud for Ec2Cloud {
    async fn launch(&self, request: &LaunchRequest) -> Result<Launched, LaunchError> {
        let known = self.0.class(&request.class.name).map_err(LaunchError::of_request)?;
        settings(&known).map_err(LaunchError::of_request)?;
        let mut again = true;
        loop {
            let shifted = self.0.shifted();
            let (plan, taken) = self.0.plan(request, &known, &shifted)?;
            let made = plan.templates.iter().map(|one| self.0.templates.ensure(&self.0.aws, &self.0.caller, one));
            let ids = try_join_all(made).await.map_err(|error| {
                self.0.settle(&taken, None);
                LaunchError::of_request(error)
            })?;
            // Templates take seconds to make: a shift that has begun since is taken into account.
            if self.0.shifted() != shifted {
                self.0.settle(&taken, None);
                continue;
            }
            let ask = || fleet::request(&self.0.aws.ec2, &plan, &ids).send();
            let asked = self.0.caller.call_in_turn(Family::CreateFleet, Some(&plan.token), "ec2:CreateFleet", ask);
            let failure = match asked.await {
                Ok(output) => {
                    let answer = fleet::answer(&output, &plan, &ids);
                    return self.0.launched(request, &known, &plan, &taken, &answer);
                }
                Err(failure) => failure,
            };
            self.0.settle(&taken, None);
            match failure.meaning() {
                Meaning::TemplateGone if again => {
                    again = false;
                    self.0.templates.forget(plan.templates.iter().map(|one| &one.name));
                }
                Meaning::TokenReused => return self.0.find_launched(request, &known, &plan).await,
                _ => {
                    let error = refused_whole(&plan, failure);
                    self.0.note_refused(error.refused());
                    return Err(LaunchError::of_request(self.0.without_haste(&plan, error)));
                }
            }
        }
    }

    async fn get(&self, provider_id: &str) -> Result<Instance, CloudError> {
        let not_found = || CloudError::NotFound { what: provider_id.to_owned() };
        let id = instance_id(provider_id).ok_or_else(not_found)?;
        match self.0.describe.ask(id).await? {
            Some(described) => {
                let instance = instances::instance(&described);
                self.0.note_described(&instance);
                Ok(self.0.complete(instance))
            }
            None => self.0.unseen(provider_id, id).unwrap_or_else(|| {
                self.0.note_ended(id);
                Err(not_found())
            }),
        }
    }

    async fn list(&self) -> Result<Vec<Instance>, CloudError> {
        let cluster = self.0.cluster();
        let filters = instances::of_cluster(&cluster.name);
        let mut all = instances::find(&self.0.aws, &self.0.caller, filters, |one| instances::instance(&one)).await?;
        // A changing list may return an instance on two pages.
        all.sort_by(|a, b| (a.launched_at, &a.provider_id).cmp(&(b.launched_at, &b.provider_id)));
        all.dedup_by(|a, b| a.provider_id == b.provider_id);
        self.0.note_listed(&all);
        Ok(all)
    }

    async fn console(&self, provider_id: &str) -> Result<Option<String>, CloudError> {
        let not_found = || CloudError::NotFound { what: provider_id.to_owned() };
        let id = instance_id(provider_id).ok_or_else(not_found)?;
        let asked = |latest: Option<bool>| {
            self.0.caller.call(Family::DescribeEc2, "ec2:GetConsoleOutput", move || {
                self.0.aws.ec2.get_console_output().instance_id(id).set_latest(latest).send()
            })
        };
        let answer = match asked(Some(true)).await {
            // Instances without Nitro have only the console output of their boot.
            Err(failure) if matches!(failure.meaning(), Meaning::BadClass(_)) => asked(None).await,
            other => other,
        };
        let output = answer.map_err(|failure| failure.into_error(provider_id))?;
        let text = output.output().and_then(|text| base64(text.as_bytes()));
        Ok(text.map(|bytes| String::from_utf8_lossy(&bytes).into_owned()).filter(|text| !text.trim().is_empty()))
    }

    async fn terminate(&self, provider_id: &str) -> Result<(), CloudError> {
        let not_found = || CloudError::NotFound { what: provider_id.to_owned() };
        let id = instance_id(provider_id).ok_or_else(not_found)?;
        self.0.note_ending(id);
        match self.0.terminate.ask(id).await {
            Ok(had_ended) => {
                if had_ended {
                    self.0.note_ended(id);
                    Err(not_found())
                } else {
                    Ok(())
                }
            }
            Err(error) if error.is_not_found() && self.0.unseen(provider_id, id).is_some() => {
                // The instance will appear: the caller must not conclude that it does not exist.
                Err(CloudError::Transient { message: format!("EC2 does not know `{id}` yet") })
            }
            Err(error) if error.is_not_found() => Err(not_found()),
            Err(error) => Err(error),
        }
    }

    async fn reboot(&self, provider_id: &str) -> Result<(), CloudError> {
        let not_found = || CloudError::NotFound { what: provider_id.to_owned() };
        let id = instance_id(provider_id).ok_or_else(not_found)?;
        instances::reboot(&self.0.aws, &self.0.caller, id).await
    }

    async fn tag(&self, provider_id: &str, tags: &BTreeMap<String, String>) -> Result<(), CloudError> {
        let not_found = || CloudError::NotFound { what: provider_id.to_owned() };
        let id = instance_id(provider_id).ok_or_else(not_found)?;
        instances::tag(&self.0.aws, &self.0.caller, id, tags).await
    }
}

impl fmt::Debug for Ec2Cloud {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Ec2Cloud").field("region", &self.0.aws.region).finish_non_exhaustive()
    }
}

impl Clone for Ec2Cloud {
    fn clone(&self) -> Self {
        Self(Arc::clone(&self.0))
    }
}

// === impl Inner ===

impl Inner {
    pub(super) fn cluster(&self) -> Arc<Cluster> {
        Arc::clone(&self.cluster.read().unwrap_or_else(PoisonError::into_inner))
    }

    pub(super) fn controller(&self) -> Option<Arc<Controller>> {
        self.controller.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    pub(super) fn learned(&self) -> MutexGuard<'_, Learned> {
        lock(&self.learned)
    }

    fn inventory(&self) -> Arc<Inventory> {
        Arc::clone(&self.inventory.read().unwrap_or_else(PoisonError::into_inner))
    }

    pub(super) fn class(&self, name: &str) -> Result<Arc<Known>, CloudError> {
        let missing = || CloudError::NotFound { what: format!("EC2NodeClass {name}") };
        self.classes.get(name).ok_or_else(missing)
    }

    /// Returns true if nodes of some class run Windows.
    pub(super) fn has_windows(&self) -> bool {
        self.classes.has_windows()
    }

    /// Plans the launch and reserves the addresses that it may need, under one lock, so that the next plan sees the
    /// rest.
    fn plan(
        &self,
        request: &LaunchRequest,
        known: &Known,
        shifted: &BTreeSet<Arc<str>>,
    ) -> Result<(Plan, Taken), LaunchError> {
        let of_request = LaunchError::of_request;
        let (cluster, inventory, controller) = (self.cluster(), self.inventory(), self.controller());
        let mut addresses = lock(&self.addresses);
        let grounds = Grounds {
            cluster: &cluster,
            class: &known.class,
            settings: settings(known).map_err(of_request)?,
            inventory: &inventory,
            addresses: &addresses,
            shifted,
            controller: controller.as_deref(),
        };
        let plan = plan(request, &grounds).map_err(|error| of_request(error.into()))?;
        let mut subnets: Vec<&str> =
            plan.templates.iter().flat_map(|one| &one.overrides).map(|one| one.subnet.as_str()).collect();
        subnets.sort_unstable();
        subnets.dedup();
        let taken = addresses.take(subnets, plan.addresses);
        Ok((plan, taken))
    }

    /// Returns the IDs of the zones that traffic is shifted away from now.
    pub(super) fn shifted(&self) -> BTreeSet<Arc<str>> {
        self.shifts.borrow().at(self.caller.now()).zones()
    }

    /// Returns the instance as EC2 describes it now.
    pub(super) async fn described(&self, id: &str) -> Result<Option<Box<aws_sdk_ec2::types::Instance>>, CloudError> {
        self.describe.ask(id).await
    }

    fn settle(&self, taken: &Taken, came_to: Option<&str>) {
        lock(&self.addresses).settle(taken, came_to);
    }

    /// Makes the error transient if EC2 does not know an instance profile that was created moments ago.
    fn without_haste(&self, plan: &Plan, error: CloudError) -> CloudError {
        let profile = plan.templates.first().map(|one| &one.template.instance_profile);
        let is_fresh = profile.is_some_and(|name| self.fresh.has(name, self.caller.now()));
        match error {
            CloudError::BadClass { reason, message } if is_fresh && reason == "InstanceProfileNameInvalid" => {
                CloudError::Transient { message: format!("EC2 does not know the new instance profile yet: {message}") }
            }
            other => other,
        }
    }

    /// Converts the response of CreateFleet to the result of the launch.
    fn launched(
        &self,
        request: &LaunchRequest,
        known: &Known,
        plan: &Plan,
        taken: &Taken,
        answer: &FleetAnswer,
    ) -> Result<Launched, LaunchError> {
        self.settle(taken, answer.subnet(plan));
        let came = outcome(plan, answer);
        let refused = match &came {
            Ok((_, _, _, refused)) => refused.as_slice(),
            Err(failed) => failed.error.refused(),
        };
        for one in refused {
            if let Refusal::Addresses { subnet } = &one.refusal {
                lock(&self.addresses).exhaust(subnet);
            }
        }
        self.note_refused(refused);
        let (had, offering, planned, refused) = came.map_err(|failed| {
            if failed.error == CloudError::TemplateGone {
                self.templates.forget(plan.templates.iter().map(|one| &one.name));
            }
            LaunchError { error: self.without_haste(plan, failed.error), ..failed }
        })?;
        self.note_launched(&had.instance_id, offering.reservation.as_deref());
        let now = self.caller.now();
        let mut instance = Instance {
            provider_id: format!("aws:///{}/{}", offering.zone, had.instance_id),
            offering,
            state: InstanceState::Pending,
            state_reason: None,
            launched_at: now,
            token: Some(request.token.clone()),
            image_id: planned.map(|planned| planned.template.image_id.clone()),
            subnet: answer.subnet(plan).map(str::to_owned),
            security_groups: planned
                .and_then(|planned| planned.template.interfaces.first())
                .map(|interface| interface.groups.clone())
                .unwrap_or_default(),
            placement_group: planned.and_then(|planned| planned.template.placement.group_id.clone()),
            labels: BTreeMap::new(),
            annotations: BTreeMap::new(),
            capacity: BTreeMap::new(),
            allocatable: BTreeMap::new(),
            tags: plan.instance_tags.clone(),
            host_name: None,
        };
        self.complete_as(&mut instance, known, &request.requests);
        note_told(&mut instance, planned, false);
        if let Some(planned) = planned {
            let placement = &planned.template.placement;
            instance.labels.insert(labels::INSTANCE_TENANCY.to_owned(), placement.tenancy.clone());
            if let Some(partition) = placement.partition {
                instance.labels.insert(labels::PLACEMENT_GROUP_PARTITION.to_owned(), partition.to_string());
            }
        }
        let mut recent = lock(&self.recent);
        recent.retain(|_, one| now < after(one.launched_at, VISIBLE));
        recent.insert(had.instance_id.clone(), instance.clone());
        Ok(Launched { instance, refused })
    }

    /// Finds the instance of a token that was used with other parameters: by a controller that has crashed since, or
    /// before a price, a subnet or the class changed.
    async fn find_launched(
        &self,
        request: &LaunchRequest,
        known: &Known,
        plan: &Plan,
    ) -> Result<Launched, LaunchError> {
        let token = &request.token;
        let filters = instances::of_token(token);
        let found = instances::find(&self.aws, &self.caller, filters, |one| instances::instance(&one)).await;
        let mut found = found.map_err(LaunchError::of_request)?;
        found.sort_by(|a, b| (a.state, &a.provider_id).cmp(&(b.state, &b.provider_id)));
        if let Some(mut instance) = found.into_iter().next() {
            lock(&self.reused).remove(token);
            if let Some(id) = instance_id(&instance.provider_id) {
                self.note_launched(id, instance.offering.reservation.as_deref());
            }
            self.complete_as(&mut instance, known, &request.requests);
            // The template and the key of its secret are unknown, so all candidates are recorded. The agent is not
            // admitted if other content of the template has changed.
            note_told(&mut instance, plan.templates.iter(), true);
            instance.annotations.remove(annotations::AGENT_PINS);
            return Ok(Launched { instance, refused: Vec::new() });
        }
        let now = self.caller.now();
        let since = *lock(&self.reused).entry(token.clone()).or_insert(now);
        if now < after(since, LOOKED_FOR) {
            let message = "an earlier request with the same token may have launched an instance, which is looked for";
            return Err(LaunchError::of_request(CloudError::Transient { message: message.to_owned() }));
        }
        lock(&self.reused).remove(token);
        let message = "an earlier request with the same token has launched nothing";
        Err(LaunchError::outcome(CloudError::Transient { message: message.to_owned() }))
    }

    /// Fills in the properties that follow from the class named in the instance's tags.
    fn complete(&self, mut instance: Instance) -> Instance {
        let class = instance.tags.get(labels::EC2NODECLASS).and_then(|name| self.classes.get(name));
        if let Some(known) = class {
            self.complete_as(&mut instance, &known, &BTreeMap::new());
        }
        instance
    }

    fn complete_as(&self, instance: &mut Instance, known: &Known, requested: &BTreeMap<String, String>) {
        if let Ok(settings) = &known.settings {
            node_properties::complete(
                instance,
                &known.class,
                settings,
                (&self.inventory(), &self.learned()),
                requested,
            );
        }
    }

    /// Returns the known state of an instance that EC2 does not return: one that was launched moments ago, or may have
    /// been, by the previous controller; or one in a zone that traffic is shifted away from, of which EC2 may not know
    /// everything.
    fn unseen(&self, provider_id: &str, id: &str) -> Option<Result<Instance, CloudError>> {
        let now = self.caller.now();
        let recent = lock(&self.recent).get(id).filter(|one| now < after(one.launched_at, VISIBLE)).cloned();
        match recent {
            Some(instance) => Some(Ok(instance)),
            None if now < after(self.started_at, VISIBLE) => {
                let message = format!("EC2 does not know `{id}`, which may have been launched a moment ago");
                Some(Err(CloudError::Transient { message }))
            }
            None if self.is_shifted(provider_id) => {
                let message = format!("EC2 does not know `{id}`, whose zone is shifted away");
                Some(Err(CloudError::Transient { message }))
            }
            None => None,
        }
    }

    /// Returns true if traffic is shifted away from the zone in the provider ID.
    fn is_shifted(&self, provider_id: &str) -> bool {
        let zone = provider_id.strip_prefix("aws:///").and_then(|rest| rest.split('/').next()).unwrap_or_default();
        let shifted = self.shifted();
        !shifted.is_empty() && self.classes.id_of_zone(zone).is_some_and(|id| shifted.contains(&*id))
    }
}

/// Records the secret hashes and CA pins of the instance's agent. If several templates are possible, the pins are left
/// out, and the agent has to report them. `is_found`: the instance may have been launched before the secret key was
/// replaced.
fn note_told<'p>(instance: &mut Instance, templates: impl IntoIterator<Item = &'p PlannedTemplate>, is_found: bool) {
    let told: Vec<&AgentSettings> = templates.into_iter().filter_map(|one| one.told.as_ref()).collect();
    if told.is_empty() {
        return;
    }
    let secrets: Vec<String> =
        told.iter().flat_map(|one| one.secrets(is_found)).map(|secret| secret.to_string()).collect();
    instance.annotations.insert(annotations::AGENT_SECRET.to_owned(), secrets.join(" "));
    if let [one] = told.as_slice() {
        instance.annotations.insert(annotations::AGENT_PINS.to_owned(), one.pins.to_string());
    }
}

pub(super) fn settings(known: &Known) -> Result<&ClassSettings, CloudError> {
    known
        .settings
        .as_ref()
        .map_err(|error| CloudError::BadClass { reason: "InvalidSetting".to_owned(), message: error.to_string() })
}

/// Converts an error of the whole request. One that another offering might avoid applies to all offerings.
fn refused_whole(plan: &Plan, failure: Failure) -> CloudError {
    let Meaning::Refused(refusal) = failure.meaning() else { return failure.into_error("the launch") };
    let all = plan.templates.iter().flat_map(|one| &one.overrides);
    let refused = all.map(|one| Refused { offering: one.offering.clone(), refusal: refusal.clone() });
    CloudError::NoCapacity { refused: refused.collect() }
}

pub(super) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
