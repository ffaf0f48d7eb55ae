//! EC2 and its neighbours on loopback: moto behind a proxy of our own.
//!
//! ```text
//!  controller, agent, test ──► proxy (one per test, one account) ──► moto (one per process: EC2, SSM, SQS, IAM, STS, EKS, EventBridge)
//!   real AWS SDK, HTTP          │  record    every call: when, by whom, what, what it got
//!                               │  faults    rules that refuse, delay, cut, double, hide
//!                               │  fleet     picks among overrides by price and strategy
//!                               │  services  what moto lacks: SSM image parameters, prices, spot market,
//!                               │            capacity reservations, placement groups, instance status, presigned STS,
//!                               │            zonal shifts
//!                               └─ Events ──► who turns an instance into a machine or a node
//! ```
//!
//! moto knows accounts: each proxy has one of its own, so proxies share a moto and see nothing of each other. What decides a
//! fault is a rule and how often it has matched; where time counts it is the proxy's [`Clock`], which a test can hold. Signatures
//! are checked for identities that were named with [`Ec2::credentials`]; other keys are let in, under their own name.

mod admin;
mod alter;
mod answer;
mod client;
mod clock;
mod command_line;
mod digest;
mod direct;
mod faults;
mod fleet;
mod identity;
mod images;
mod instances;
mod inventory;
mod launch;
mod moto;
mod network;
mod notices;
mod parameters;
mod proxy;
mod record;
mod request;
mod reserved;
mod residents;
mod services;
mod shared;
mod signature;
mod template;
mod xml;

pub use clock::Clock;
pub use faults::{CallFault, Calls, CapacityType, Faults, LaunchFault, Pool, Rule, RuleId};
pub use identity::Credentials;
pub use images::{KUBERNETES, family_of};
pub use instances::{Event, Events, Instance, LaunchTemplate, MetadataOptions, StateReason};
pub use moto::Moto;
pub use record::{Call, Record};
pub use reserved::CapacityReservations;
pub use services::InstanceFault;

use std::collections::BTreeMap;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use jiff::Timestamp;
use tokio::net::TcpListener;
use tokio::task::JoinSet;

use answer::ApiError;
use shared::Shared;

use crate::error::Result;
use crate::lock::lock;

/// The region of programs that are started with [`Credentials::environment`].
pub const REGION: &str = "us-east-1";

/// One EC2: an account, its instances, its record and its faults. Dropping it closes its port; instances of it are gone.
#[derive(Debug)]
pub struct Ec2 {
    shared: Arc<Shared>,
    address: SocketAddr,
    /// Aborted with it.
    _tasks: JoinSet<()>,
}

/// A call that the handle made and EC2 refused.
#[derive(Debug, thiserror::Error)]
#[error("`{action}`: {code}: {message}")]
pub struct Refused {
    /// What was asked.
    pub action: &'static str,
    /// AWS's code.
    pub code: String,
    /// AWS's message.
    pub message: String,
}

/// Shifts traffic of clusters away from zones, and back.
#[derive(Debug)]
pub struct ZonalShifts<'a>(&'a Shared);

/// Moves the spot market.
#[derive(Debug)]
pub struct Spot<'a>(&'a Shared);

impl Ec2 {
    /// A new EC2 on a free port of loopback.
    ///
    /// # Errors
    /// If there is no such port.
    pub async fn start(moto: &Arc<Moto>) -> Result<Self> {
        Self::start_on((Ipv4Addr::LOCALHOST, 0).into(), moto).await
    }

    /// A new EC2 on `address`.
    ///
    /// # Errors
    /// If the address cannot be listened on.
    pub async fn start_on(address: SocketAddr, moto: &Arc<Moto>) -> Result<Self> {
        let listener = TcpListener::bind(address).await?;
        let address = listener.local_addr()?;
        let shared = Arc::new(Shared::new(Arc::clone(moto), Moto::account()));
        let routes =
            Router::new().nest("/_muster", admin::routes()).fallback(proxy::serve).with_state(Arc::clone(&shared));
        let mut tasks = JoinSet::new();
        tasks.spawn(listen(listener, routes));
        let events = shared.state().instances.subscribe();
        tasks.spawn(notices::announce(Arc::clone(&shared), events));
        Ok(Self { shared, address, _tasks: tasks })
    }

    /// `http://127.0.0.1:4711`: what every client's `endpoint_url` and `AWS_ENDPOINT_URL` is set to.
    pub fn endpoint(&self) -> String {
        format!("http://{}", self.address)
    }

    /// Twelve digits.
    pub fn account(&self) -> &str {
        &self.shared.account
    }

    /// The log of the moto behind it.
    pub fn moto_log(&self) -> &std::path::Path {
        self.shared.moto.log()
    }

    /// Credentials of a session called `name` of the role `name`; the same ones for the same name. Calls signed with them are
    /// recorded under the name, and refused if the signature is wrong.
    pub fn credentials(&self, name: &str) -> Credentials {
        self.shared.state().identities.session(name, name)
    }

    /// Credentials as an instance's metadata hands them out: a session of `role` named after the instance.
    pub fn instance_credentials(&self, role: &str, instance: &str) -> Credentials {
        self.shared.state().identities.session(role, instance)
    }

    /// Rules that go wrong.
    pub fn faults(&self) -> Faults {
        Faults { shared: Arc::clone(&self.shared) }
    }

    /// The time of this EC2.
    pub fn clock(&self) -> Clock {
        self.shared.clock.clone()
    }

    /// The spot market.
    pub fn spot(&self) -> Spot<'_> {
        Spot(&self.shared)
    }

    /// Capacity reservations, as their owners and EC2 change them.
    pub fn reservations(&self) -> CapacityReservations<'_> {
        CapacityReservations(&self.shared)
    }

    /// Zonal shifts of the clusters.
    pub fn zonal_shifts(&self) -> ZonalShifts<'_> {
        ZonalShifts(&self.shared)
    }

    /// Publishes the newer release of an image family: `al2023`, `al2`, `bottlerocket`, `windows2019`, `windows2022`,
    /// `windows2025`.
    pub fn publish_images(&self, family: &str) {
        self.shared.state().releases.publish(family);
    }

    /// Has the region offer an instance type no longer, to any call that asks for types.
    pub fn withdraw_type(&self, instance_type: &str) {
        self.shared.state().withdrawn.insert(instance_type.to_owned());
    }

    /// All calls so far. A call that is still at work has no status yet.
    pub fn calls(&self) -> Record {
        Record(self.shared.state().record.clone())
    }

    /// Waits until `enough` says yes of the calls, looked at when one comes and when one is answered.
    ///
    /// # Errors
    /// The record, one line a call, if that has not come within `deadline` of the machine's clock.
    pub async fn wait_for_calls(&self, deadline: Duration, enough: impl Fn(&Record) -> bool) -> Result<Record, String> {
        let mut recorded = self.shared.recorded.subscribe();
        let wait = async {
            loop {
                recorded.borrow_and_update();
                let calls = self.calls();
                if enough(&calls) {
                    return calls;
                }
                if recorded.changed().await.is_err() {
                    std::future::pending::<()>().await;
                }
            }
        };
        tokio::time::timeout(deadline, wait).await.map_err(|_| self.calls().lines())
    }

    /// Instances that have not ended, in the order of launch.
    pub fn running(&self) -> Vec<Arc<Instance>> {
        self.shared.state().instances.running_shared()
    }

    /// When a fleet was first refused a pool, by instance type and zone.
    pub fn refused(&self) -> BTreeMap<(String, String), Timestamp> {
        self.shared.state().refused.clone()
    }

    /// Takes in instances that run already, by the thousand: this EC2 lists, describes and ends them itself, and moto, for which
    /// each would be a launch, hears nothing of them.
    pub fn take_in(&self, instances: impl IntoIterator<Item = Instance>) {
        let mut state = self.shared.state();
        for instance in instances {
            state.instances.take_in(instance);
        }
    }

    /// Launches and ends of instances; begins with a launch for each that runs now.
    pub fn events(&self) -> Events {
        self.shared.state().instances.subscribe()
    }

    /// Sends the two minutes' notice of a spot interruption to EventBridge.
    ///
    /// # Errors
    /// If there is no such instance or EventBridge does not take it.
    pub async fn warn_of_interruption(&self, id: &str) -> Result<(), Refused> {
        self.warn_of_interruptions(&[id]).await
    }

    /// Sends the two minutes' notice of the interruption of several spot instances, ten in a call.
    ///
    /// # Errors
    /// If there is no such instance or EventBridge does not take it.
    pub async fn warn_of_interruptions(&self, ids: &[&str]) -> Result<(), Refused> {
        let instances = ids.iter().map(|id| self.instance(id)).collect::<Result<Vec<_>, _>>()?;
        let Some(first) = instances.first() else { return Ok(()) };
        let sent = notices::spot_interruptions(&self.shared, &first.region, &instances).await;
        sent.map_err(|error| refused("PutEvents", error))
    }

    /// Sends a rebalance recommendation to EventBridge.
    ///
    /// # Errors
    /// If there is no such instance or EventBridge does not take it.
    pub async fn recommend_rebalance(&self, id: &str) -> Result<(), Refused> {
        let instance = self.instance(id)?;
        notices::rebalance(&self.shared, &instance).await.map_err(|error| refused("PutEvents", error))
    }

    /// Takes an instance back: it is terminated with `Server.SpotInstanceTermination`.
    ///
    /// # Errors
    /// If there is no such instance.
    pub async fn interrupt(&self, id: &str) -> Result<(), Refused> {
        let instance = self.instance(id)?;
        notices::take_back(&self.shared, &instance).await.map_err(|error| refused("TerminateInstances", error))
    }

    /// Has `DescribeInstanceStatus` report this of an instance, or nothing.
    pub fn report(&self, id: &str, fault: Option<InstanceFault>) {
        let statuses = &mut self.shared.state().statuses.0;
        match fault {
            Some(fault) => drop(statuses.insert(id.to_owned(), fault)),
            None => drop(statuses.remove(id)),
        }
    }

    /// Adds to what an instance has written to its serial console.
    ///
    /// # Errors
    /// If there is no such instance.
    pub fn write_console(&self, id: &str, text: &str) -> Result<(), Refused> {
        let is_there = self.shared.state().instances.write_console(id, text);
        is_there.then_some(()).ok_or_else(|| refused("GetConsoleOutput", faults::no_instance(id)))
    }

    fn instance(&self, id: &str) -> Result<Arc<Instance>, Refused> {
        let found = self.shared.state().instances.get(id).map(|kept| Arc::clone(&kept.instance));
        found.ok_or_else(|| refused("DescribeInstances", faults::no_instance(id)))
    }
}

impl Spot<'_> {
    /// From now on the pool costs `price` USD an hour.
    pub fn set_price(&self, instance_type: &str, zone: &str, price: f64) {
        let now = self.0.clock.now();
        self.0.state().market.set_price(instance_type, zone, now, price);
    }

    /// What the pool costs now; `None` if the type has no list price.
    pub fn price(&self, region: &str, instance_type: &str, zone: &str) -> Option<f64> {
        let now = self.0.clock.now();
        self.0.state().market.price(region, instance_type, zone, now)
    }

    /// How deep the pool is, from 1 (rare) to 10 (plenty): what `price-capacity-optimized` looks at before the price.
    pub fn set_depth(&self, instance_type: &str, zone: &str, depth: u32) {
        self.0.state().market.set_depth(instance_type, zone, depth);
    }
}

impl ZonalShifts<'_> {
    /// Registers an EKS cluster with ARC; its ARN.
    pub fn register(&self, cluster: &str) -> String {
        let arn = self.arn(cluster);
        self.0.state().shifts.register(arn.clone());
        arn
    }

    /// Takes the registration back, and ends all shifts of the cluster.
    pub fn deregister(&self, cluster: &str) {
        self.0.state().shifts.deregister(&self.arn(cluster));
    }

    fn arn(&self, cluster: &str) -> String {
        format!("arn:aws:eks:{REGION}:{}:cluster/{cluster}", self.0.account)
    }

    /// Traffic of every registered cluster is shifted away from the zone with this ID for so long.
    pub fn start(&self, zone: &str, lasts: Duration) {
        let now = self.0.clock.now();
        self.0.state().shifts.begin(zone, now, lasts);
    }

    /// Cancels the shifts away from the zone.
    pub fn cancel(&self, zone: &str) {
        self.0.state().shifts.cancel(zone);
    }

    /// AWS starts an autoshift away from the zone, or ends it.
    pub fn autoshift(&self, zone: &str, is_on: bool) {
        let began = is_on.then(|| self.0.clock.now());
        self.0.state().shifts.autoshift(zone, began);
    }

    /// Answers this text with status 200 instead of what is known, until it is told otherwise.
    pub fn say(&self, garbage: Option<&str>) {
        self.0.state().shifts.say(garbage);
    }
}

/// One task for each connection; all of them end with this one.
async fn listen(listener: TcpListener, routes: Router) {
    let mut connections = JoinSet::new();
    loop {
        tokio::select! {
            accepted = listener.accept() => {
                let Ok((stream, _)) = accepted else { continue };
                // An answer is one write: nothing to gain from waiting for more.
                let _ = stream.set_nodelay(true);
                let routes = routes.clone();
                let service = service_fn(move |request: hyper::Request<hyper::body::Incoming>| {
                    use tower::ServiceExt as _;
                    let routes = routes.clone();
                    async move { proxy::or_close(routes.oneshot(request).await) }
                });
                connections.spawn(async move {
                    // An error here is a connection that a rule cut or the client left.
                    let _ = hyper::server::conn::http1::Builder::new()
                        .timer(TokioTimer::new())
                        .serve_connection(TokioIo::new(stream), service)
                        .await;
                });
            }
            Some(_) = connections.join_next() => {}
        }
    }
}

fn refused(action: &'static str, error: ApiError) -> Refused {
    Refused { action, code: error.code, message: error.message }
}
