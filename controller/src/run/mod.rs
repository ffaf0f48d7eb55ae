//! `muster run`: the controller, from its options to its shutdown.
//!
//! ```text
//!   Options ──► run ──┬─► watch::follow ──► ClusterCache ──────────────────┐
//!                     ├─► serve: /metrics, /healthz, /readyz; agents       │
//!                     ├─► interruption: queue ─► conditions of NodeClaims  │
//!                     │      └─► orders ─► leader                          │
//!                     ├─► election: the Lease ──► Gate ─► Fence            ▼
//!                     │                                    └─ open ──► leader: reconciles ──► edge ──► API server
//!                     └─ SIGTERM: stop, release the Lease, exit                                └────► cloud
//! ```
//!
//! Every replica watches the cluster, so that a newly elected one leads at once. Only the leader writes decisions, and
//! only while the fence is open (any replica writes what agents report of their nodes, and what the cloud says of
//! them). A leader that loses its Lease drops the work in progress and stands for election again.

mod buffers;
mod context;
mod disruption;
mod dry_run;
mod election;
mod garbage;
mod interruption;
mod leader;
mod metrics;
mod orders;
mod overlays;
mod permissions;
mod reconcile;
mod repairs;
mod round;
mod serve;
mod static_capacity;
mod traces;
mod zonal_shifts;

use std::future::Future;
use std::hash::{BuildHasher, RandomState};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use kube::{Api, Client};
use muster_manifest::snapshot;
use muster_scheduling::disrupt;
use muster_scheduling::model::{Catalogue, Options as Packing};
use muster_stages::disruption::Timing;
use muster_stages::driver::recording::LoopRecorder;
use muster_stages::lifecycle::Answers;
use muster_stages::lifecycle::caps::Caps;
use muster_stages::provision::Lengths;
use muster_stages::step::Call;
use tokio::sync::mpsc;
use tokio::task::{JoinError, JoinSet};

use self::context::{LeaderContext, Settings};
pub use self::dry_run::{Disruption, Launch, Report, Unplaced};
use self::election::{Candidate, Standing};
use self::metrics::Metrics;
use self::traces::Traces;
pub use self::traces::TracesError;
use crate::agents;
use crate::ec2;
use crate::edge::{Edge, Fence, Pace, Pause, Recorder, WriteObserver};
use crate::facts::ClaimFacts;
use crate::kwok::{self, FileError, Kwok};
use crate::permissions::{Uses, needed_by};
use crate::provider::Provider;
use crate::watch::{self, ClusterError, Extras};

/// First minor version of Kubernetes whose kube-scheduler by default honours nominations written by other components.
const NOMINATIONS_SINCE: u32 = 35;

/// Options of the controller.
#[derive(Debug, Clone)]
pub struct Options {
    /// Context of the kubeconfig; `None` uses the current one, or the pod's service account.
    pub context: Option<String>,
    /// Cloud in which nodes are launched.
    pub cloud: CloudOptions,
    /// Port of the metrics endpoint; 0 selects any free port.
    pub metrics_port: u16,
    /// Port of the health endpoints; 0 selects any free port.
    pub health_port: u16,
    /// Rate limit of writes: per second, and burst.
    pub pace: (u32, u32),
    /// Name of the Lease for leader election; `None` if this is the only replica.
    pub lease: Option<String>,
    /// Namespace of the Lease and of the annotation that pauses the whole cluster.
    pub namespace: String,
    /// Durations of the batching window for pods.
    pub window: Lengths,
    /// Settings of bin packing.
    pub packing: Packing,
    /// Settings that decide which nodes are disrupted.
    pub disruption: disrupt::Settings,
    /// Settings that limit the rate of disruption.
    pub timing: Timing,
    /// Settings of snapshots.
    pub snapshot: snapshot::Settings,
    /// True if Services and owners of pods are read, whose selectors kube-scheduler's default topology spread uses.
    pub reads_selectors: bool,
    /// True if a pod is considered only after its scheduler has marked it unschedulable.
    pub wait_for_unschedulable_mark: bool,
    /// True if nominations are written to pending pods, where the API server honours them.
    pub nominates: bool,
    /// Limits on launches.
    pub caps: Caps,
    /// Settings of the endpoint for node agents, if it is served.
    pub agents: Option<agents::Options>,
}

/// Observers of a controller, for tests.
#[derive(Clone, Default)]
pub struct Observers {
    /// Observer of all writes.
    pub writes: Option<Arc<dyn WriteObserver>>,
    /// Receiver of the record of the leader's loop.
    pub recorder: Option<Arc<dyn LoopRecorder>>,
}

/// Rate limit of Karpenter's client: writes per second, and burst.
const PACE: (u32, u32) = (200, 300);

impl Options {
    /// Returns Karpenter's defaults for a single replica that listens on free ports.
    #[must_use]
    pub fn of(cloud: CloudOptions) -> Self {
        Self {
            context: None,
            cloud,
            metrics_port: 0,
            health_port: 0,
            pace: PACE,
            lease: None,
            namespace: "kube-system".to_owned(),
            window: Lengths::default(),
            packing: Packing::default(),
            disruption: disrupt::Settings::default(),
            timing: Timing::default(),
            snapshot: snapshot::Settings::default(),
            reads_selectors: false,
            wait_for_unschedulable_mark: false,
            nominates: true,
            caps: Caps::default(),
            agents: None,
        }
    }
}

/// A cloud, with its options.
#[derive(Debug, Clone)]
pub enum CloudOptions {
    /// Nodes simulated by KWOK, with the instance types of this file, or generated ones.
    Kwok {
        /// File of instance types in Karpenter's format.
        types: Option<PathBuf>,
    },
    /// EC2.
    Aws(Box<ec2::Options>),
}

/// Error that keeps the controller from running. `Display` is the whole message, hint included.
#[derive(Debug, thiserror::Error)]
pub enum RunError {
    /// The cluster cannot be reached.
    #[error(transparent)]
    Cluster(#[from] ClusterError),
    /// The instance types cannot be read.
    #[error(transparent)]
    Types(#[from] FileError),
    /// EC2 cannot be used.
    #[error(transparent)]
    Ec2(#[from] ec2::StartError),
    /// Traces cannot be sent.
    #[error(transparent)]
    Traces(#[from] TracesError),
    /// A port cannot be bound.
    #[error("port {port} cannot be served: {reason}\n\nhint: choose another one with `{option}`")]
    Port {
        /// Option that sets the port.
        option: &'static str,
        /// The port.
        port: u16,
        /// Reason why it cannot be bound.
        reason: String,
    },
    /// Agents cannot be authenticated in this cloud.
    #[error(
        "`--agent-port` is for `--cloud aws` only: nodes of `--cloud kwok` cannot prove which instance they are\n\nhint: leave \
         `--agent-port` and AGENT_PORT out"
    )]
    NoAgents,
    /// A task has ended unexpectedly, which is a bug.
    #[error("a background task exited unexpectedly: {0}\n\nhint: please report this with the log at {site}/issues", site = env!("CARGO_PKG_REPOSITORY"))]
    Broken(String),
}

/// Runs the controller until `stop` completes.
///
/// # Errors
/// Returns an error if the controller cannot start or cannot continue.
pub async fn run(options: Options, stop: impl Future<Output = ()> + Send) -> Result<(), RunError> {
    let client = watch::connect_to_follow(options.context.as_deref()).await?;
    run_with(client, options, Observers::default(), stop).await
}

/// Runs like [`run`] with the given client ([`crate::edge::Edge::new`] lists its requirements); `observer` observes
/// every write. Dropping the future is equivalent to killing the controller.
///
/// # Errors
/// Returns an error if the controller cannot start or cannot continue.
pub async fn run_with(
    client: Client,
    options: Options,
    observers: Observers,
    stop: impl Future<Output = ()> + Send,
) -> Result<(), RunError> {
    match &options.cloud {
        CloudOptions::Kwok { types } => {
            let types = types.as_deref().map(kwok::read).transpose()?.unwrap_or_else(kwok::instance_types);
            let cloud = Kwok::new(client.clone(), Catalogue::new(types));
            run_in(client, cloud, options, observers, stop).await
        }
        #[cfg(feature = "ec2")]
        CloudOptions::Aws(of_cloud) => {
            let cloud = ec2::Ec2::connect(client.clone(), ec2::Options::clone(of_cloud)).await?;
            run_in(client, cloud, options, observers, stop).await
        }
        #[cfg(not(feature = "ec2"))]
        CloudOptions::Aws(_) => Err(ec2::StartError::NotBuilt.into()),
    }
}

/// Reports what [`run`] would do, until `stop` completes. It takes no Lease, writes nothing, and needs only read
/// permissions.
///
/// # Errors
/// Returns an error if the controller cannot start or cannot continue.
pub async fn observe(
    options: Options,
    tell: impl FnMut(&Report) + Send,
    stop: impl Future<Output = ()> + Send,
) -> Result<(), RunError> {
    let client = watch::connect_to_follow(options.context.as_deref()).await?;
    match &options.cloud {
        CloudOptions::Kwok { types } => {
            let types = types.as_deref().map(kwok::read).transpose()?.unwrap_or_else(kwok::instance_types);
            let cloud = Kwok::new(client.clone(), Catalogue::new(types));
            observe_in(client, cloud, options, tell, stop).await
        }
        #[cfg(feature = "ec2")]
        CloudOptions::Aws(of_cloud) => {
            let only_reads = ec2::Options { only_reads: true, tries_launches: false, ..ec2::Options::clone(of_cloud) };
            let cloud = ec2::Ec2::connect(client.clone(), only_reads).await?;
            observe_in(client, cloud, options, tell, stop).await
        }
        #[cfg(not(feature = "ec2"))]
        CloudOptions::Aws(_) => Err(ec2::StartError::NotBuilt.into()),
    }
}

/// Returns the kinds that are watched in addition to those that every controller watches.
const fn extras(options: &Options) -> Extras {
    Extras {
        selecting: options.reads_selectors,
        templates: options.snapshot.gates.capacity_buffer,
        devices: options.snapshot.devices.allocates,
    }
}

/// Reports like [`observe`] in the given cloud, regardless of the cloud in the options.
///
/// # Errors
/// Returns an error if the controller cannot start or cannot continue.
pub async fn observe_in<P: Provider>(
    client: Client,
    cloud: P,
    options: Options,
    tell: impl FnMut(&Report) + Send,
    stop: impl Future<Output = ()> + Send,
) -> Result<(), RunError> {
    let (cluster_cache, mut following) = watch::follow(&client, extras(&options));
    let metrics = Metrics::new(&cluster_cache, P::NAME, now, Traces::default(), |registry| cloud.register(registry));
    // The gate is dropped, so the fence stays closed and stops any attempted write.
    let (_, fence) = Fence::closed();
    let (qps, burst) = options.pace;
    let recorder = Recorder::new(client.clone(), Pace::new(qps, burst), "dry run");
    let edge = Edge::new(client, cloud.clone(), fence, Pace::new(qps, burst), recorder);
    let context = LeaderContext::new(cluster_cache, cloud, edge, Settings::of::<P>(&options, false), metrics, None);
    tokio::select! {
        () = stop => Ok(()),
        () = dry_run::observe(context, tell) => Ok(()),
        broken = following.ended() => {
            Err(RunError::Broken(broken.map_or_else(|| "no watch is running".to_owned(), |it| it.to_string())))
        }
    }
}

/// Runs like [`run_with`] in the given cloud, regardless of the cloud in the options.
///
/// # Errors
/// Returns an error if the controller cannot start or cannot continue.
pub async fn run_in<P: Provider>(
    client: Client,
    cloud: P,
    options: Options,
    observers: Observers,
    stop: impl Future<Output = ()> + Send,
) -> Result<(), RunError> {
    let served = options.agents.as_ref().map(|of| cloud.vouches().map(|cloud| (of, cloud)).ok_or(RunError::NoAgents));
    let to_serve = served.transpose()?;
    let ((qps, burst), namespace, lease) = (options.pace, options.namespace.clone(), options.lease.clone());
    let identity = identity();
    let (cluster_cache, mut following) = watch::follow(&client, extras(&options));
    let traces = Traces::from_env()?;
    let metrics = Metrics::new(&cluster_cache, P::NAME, now, traces.clone(), |registry| cloud.register(registry));
    let served = serve::serve((options.metrics_port, options.health_port), metrics.clone(), cluster_cache.clone())?;
    tracing::info!(metrics = %served.metrics, health = %served.health, identity, "started");
    let provider = cloud.clone();
    let knowledge = agents::Knowledge {
        types: Arc::new(move |class| provider.types(class)),
        settings: options.snapshot.clone(),
        choices: options.disruption,
    };
    let (gate, fence) = Fence::closed();
    // Events have a rate limit of their own, so that they do not delay writes.
    let recorder = Recorder::new(client.clone(), Pace::new(qps.div_ceil(4), burst.div_ceil(4)), &identity);
    let facts = ClaimFacts::new(cluster_cache.clone(), client.clone(), recorder.clone(), now);
    let queue = cloud.queue();
    let edge = Edge::new(client.clone(), cloud.clone(), fence.clone(), Pace::new(qps, burst), recorder);
    let Observers { writes, recorder } = observers;
    let writes = Arc::new(ChainedObserver(metrics.clone(), writes));
    let nominates = options.nominates && honours_nominations(&client).await;
    let settings = Settings::of::<P>(&options, nominates);
    let edge = edge.seen_by(writes);
    let context = LeaderContext::new(cluster_cache.clone(), cloud, edge, settings, metrics.clone(), recorder);
    let held = lease.clone().map(|name| (Api::namespaced(client.clone(), &namespace), name));
    let (counter, mut orders) = orders::counter(Arc::clone(&context), fence.clone(), held);
    let of_agents = to_serve.map(|(of, cloud)| {
        let place = agents::Place {
            cluster_cache,
            facts: Arc::clone(&facts),
            client: client.clone(),
            namespace: namespace.clone(),
            cloud,
            refusals: metrics.refusals_of_agents(),
            boots: metrics.boots(),
            knowledge,
            orders: Arc::new(counter),
            fence: fence.clone(),
            clock: now,
        };
        serve::agents(of, place)
    });
    let mut of_agents = of_agents.transpose()?;

    let mut asking = JoinSet::new();
    let needed = needed_by(uses::<P>(&options, nominates));
    asking.spawn(permissions::check(client.clone(), needed, lease.clone(), namespace.clone(), metrics.clone()));
    let candidate = lease.map(|name| Candidate::new(client, &namespace, &name, &identity));
    let standing = Standing::new(candidate, gate);
    let notices =
        queue.map(|queue| interruption::follow(queue, Arc::clone(&facts), metrics.clone(), standing.is_of_muster()));
    let broken = tokio::select! {
        () = stop => None,
        broken = if_any(notices) => Some(broken.to_string()),
        broken = if_any(of_agents.as_mut().map(agents::Served::ended)) => Some(broken),
        broken = lead_while_open(fence, context, Arc::clone(&facts), &mut orders) => Some(broken.to_string()),
        broken = following.ended() => Some(broken.map_or_else(|| "no watch is running".to_owned(), |it| it.to_string())),
    };
    // The reconciliations in progress have been dropped: nothing more is written, and the Lease can be released.
    standing.end().await;
    traces.end().await;
    tracing::info!("stopped");
    broken.map_or(Ok(()), |why| Err(RunError::Broken(why)))
}

/// Leads whenever the fence is open. Returns the error of a task that ended unexpectedly.
async fn lead_while_open<P: Provider>(
    mut fence: Fence,
    context: Arc<LeaderContext<P>>,
    facts: Arc<ClaimFacts>,
    orders: &mut mpsc::Receiver<orders::Ordered>,
) -> JoinError {
    loop {
        if !fence.opened().await {
            std::future::pending::<()>().await;
        }
        context.metrics.leads(true);
        let mut watched = fence.clone();
        tokio::select! {
            broken = leader::lead(Arc::clone(&context), Arc::clone(&facts), orders) => return broken,
            () = watched.closes() => context.metrics.leads(false),
        }
    }
}

/// Completes when `task` does, and never without one.
async fn if_any<T>(task: Option<impl Future<Output = T>>) -> T {
    match task {
        Some(task) => task.await,
        None => std::future::pending().await,
    }
}

/// Returns what the controller uses with these options.
fn uses<P: Provider>(options: &Options, nominates: bool) -> Uses {
    let gates = &options.snapshot.gates;
    Uses {
        cloud: P::CLOUD,
        elects: options.lease.is_some(),
        serves_agents: options.agents.is_some(),
        nominates,
        writes_deletion_costs: gates.pod_deletion_cost_management,
        reads_selectors: options.reads_selectors,
        overlays: gates.node_overlay,
        buffers: gates.capacity_buffer,
        devices: options.snapshot.devices.allocates,
    }
}

/// Forwards the same writes to two observers.
struct ChainedObserver(Metrics, Option<Arc<dyn WriteObserver>>);

impl WriteObserver for ChainedObserver {
    fn before<'a>(&'a self, write: &'a muster_stages::step::Write) -> Pause<'a> {
        match &self.1 {
            Some(other) => other.before(write),
            None => self.0.before(write),
        }
    }

    fn called(&self, call: &Call, answers: &Answers, took: Duration) {
        self.0.called(call, answers, took);
        if let Some(other) = &self.1 {
            other.called(call, answers, took);
        }
    }

    fn after<'a>(&'a self, write: &'a muster_stages::step::Write, fate: &'a crate::edge::Fate) -> Pause<'a> {
        Box::pin(async move {
            self.0.after(write, fate).await;
            if let Some(other) = &self.1 {
                other.after(write, fate).await;
            }
        })
    }
}

/// Returns true if kube-scheduler honours `status.nominatedNodeName` set by other components (KEP-5278).
async fn honours_nominations(client: &Client) -> bool {
    match client.apiserver_version().await {
        Ok(version) => {
            let minor: String = version.minor.chars().take_while(char::is_ascii_digit).collect();
            version.major != "1" || minor.parse().is_ok_and(|minor: u32| minor >= NOMINATIONS_SINCE)
        }
        Err(error) => {
            tracing::warn!(%error, "the version of the API server is not known: pods are not nominated");
            false
        }
    }
}

/// Returns `<host name>_<random>`, the format of Karpenter's identities.
fn identity() -> String {
    let host = sysinfo::System::host_name().unwrap_or_default();
    // The standard library seeds the keys of its hash maps randomly.
    format!("{}_{:016x}", host.trim(), RandomState::new().hash_one(std::process::id()))
}

/// Returns the current time. Decisions take the time as an argument.
#[expect(clippy::disallowed_methods, reason = "the edge: decisions are given the moment")]
fn now() -> Timestamp {
    Timestamp::now()
}
