//! `muster run`: the controller, from its options to its last write.
//!
//! ```text
//!   Options ──► run ──┬─► watch::follow ──► Picture ──────────────────────────────────┐
//!                     ├─► serve: /metrics, /healthz, /readyz; agents, if asked        │
//!                     │      └─► orders ─► leader                                     │
//!                     ├─► election: the Lease ──► Gate ─► Fence                       ▼
//!                     │                                    └─ open ──► leader: looks, rounds, disruption ──► edge ──► API server
//!                     └─ SIGTERM: stop looking, give the lease up, end                                         └────► cloud
//! ```
//!
//! Every replica follows the cluster, so that whoever is elected leads at once. Only the leader writes what is decided, and only
//! while the fence is open (what agents say of their nodes any replica writes); a leader that loses its lease drops what it is doing and stands for election again.

mod agenda;
mod desk;
mod disruption;
mod dry_run;
mod election;
mod garbage;
mod gates;
mod leader;
mod look;
mod metrics;
mod offers;
mod orders;
mod permissions;
mod provider;
mod round;
mod serve;

use std::future::Future;
use std::hash::{BuildHasher, RandomState};
use std::path::PathBuf;
use std::sync::Arc;

use jiff::Timestamp;
use kube::{Api, Client};
use muster_scheduling::disrupt;
use muster_scheduling::model::{Catalogue, Options as Packing};
use tokio::sync::watch as channel;
use tokio::task::JoinSet;

use self::desk::{Desk, Settings};
pub use self::dry_run::{Disruption, Launch, Report, Unplaced};
use self::election::Candidate;
use self::metrics::Metrics;
#[cfg(feature = "ec2")]
pub(crate) use self::provider::readiness;
pub use self::provider::{Grown, Provider, Resolved};
use crate::agents;
use crate::disruption::Tempo;
use crate::ec2;
use crate::edge::{Edge, Fence, Pace, Pause, Recorder, Witness};
use crate::kwok::{self, FileError, Kwok};
use crate::lifecycle::caps::Caps;
use crate::permissions::needed_by;
use crate::provision::Lengths;
use crate::snapshot;
use crate::watch::{self, ClusterError};

/// The first minor version of Kubernetes whose scheduler takes nominations of others as hints by default.
const NOMINATIONS_SINCE: u32 = 35;

/// How the controller runs.
#[derive(Debug, Clone)]
pub struct Options {
    /// The context of the kubeconfig; none: the current one, or the pod's service account.
    pub context: Option<String>,
    /// The cloud that nodes are launched in.
    pub cloud: CloudOptions,
    /// Where metrics are served; 0 is any free port.
    pub metrics_port: u16,
    /// Where health is served; 0 is any free port.
    pub health_port: u16,
    /// Writes a second, and at once after a rest.
    pub pace: (u32, u32),
    /// The Lease that is to be held; none: this replica is the only one.
    pub lease: Option<String>,
    /// Where the Lease is, and the annotation that pauses everything.
    pub namespace: String,
    /// How long pods are gathered.
    pub window: Lengths,
    /// How pods are packed.
    pub packing: Packing,
    /// What is worth taking a node away.
    pub disruption: disrupt::Settings,
    /// How fast nodes are taken away.
    pub tempo: Tempo,
    /// What shapes a snapshot.
    pub snapshot: snapshot::Settings,
    /// Whether Services decide on the default spread.
    pub reads_services: bool,
    /// Whether pods wait for the mark of their scheduler.
    pub wait_for_unschedulable_mark: bool,
    /// Whether pods are told of their nodes, where the API server honours it.
    pub nominates: bool,
    /// How much may be launched.
    pub caps: Caps,
    /// How agents are served, if they are.
    pub agents: Option<agents::Options>,
}

/// Writes of Karpenter's client: a second, and at once after a rest.
const PACE: (u32, u32) = (200, 300);

impl Options {
    /// Karpenter's defaults, for the only replica on a cloud, which listens on free ports.
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
            tempo: Tempo::default(),
            snapshot: snapshot::Settings::default(),
            reads_services: false,
            wait_for_unschedulable_mark: false,
            nominates: true,
            caps: Caps::default(),
            agents: None,
        }
    }
}

/// A cloud.
#[derive(Debug, Clone)]
pub enum CloudOptions {
    /// Nodes that KWOK brings to life, of the types of this file or of the rule.
    Kwok {
        /// Karpenter's file of instance types.
        types: Option<PathBuf>,
    },
    /// EC2.
    Aws(Box<ec2::Options>),
}

/// Why the controller does not run. `Display` is the whole message, hint included.
#[derive(Debug, thiserror::Error)]
pub enum RunError {
    /// The cluster cannot be reached.
    #[error(transparent)]
    Cluster(#[from] ClusterError),
    /// The instance types cannot be read.
    #[error(transparent)]
    Types(#[from] FileError),
    /// EC2 cannot be launched in.
    #[error(transparent)]
    Ec2(#[from] ec2::StartError),
    /// A port cannot be had.
    #[error("port {port} cannot be served: {reason}\n\nhint: choose another one with `{option}`")]
    Port {
        /// The option that names it.
        option: &'static str,
        /// The port.
        port: u16,
        /// Why.
        reason: String,
    },
    /// Agents cannot be told who they are.
    #[error(
        "`--agent-port` is for `--cloud aws` only: nothing says of a node of `--cloud kwok` which instance it is\n\nhint: leave \
         `--agent-port` and AGENT_PORT out"
    )]
    NoAgents,
    /// A task has broken, which none ever does.
    #[error("a task has ended: {0}\n\nhint: please report this with the log at {site}/issues", site = env!("CARGO_PKG_REPOSITORY"))]
    Broken(String),
}

/// Runs until `stop`.
///
/// # Errors
/// What keeps it from starting, or from going on.
pub async fn run(options: Options, stop: impl Future<Output = ()> + Send) -> Result<(), RunError> {
    let client = watch::connect_to_follow(options.context.as_deref()).await?;
    run_with(client, options, None, stop).await
}

/// The same with a client of one's own ([`crate::edge::Edge::new`] says what it must be like), and every write seen by
/// `witness`. Dropping it is a controller that is killed.
///
/// # Errors
/// What keeps it from starting, or from going on.
pub async fn run_with(
    client: Client,
    options: Options,
    witness: Option<Arc<dyn Witness>>,
    stop: impl Future<Output = ()> + Send,
) -> Result<(), RunError> {
    match &options.cloud {
        CloudOptions::Kwok { types } => {
            let types = types.as_deref().map(kwok::read).transpose()?.unwrap_or_else(kwok::instance_types);
            let cloud = Kwok::new(client.clone(), Catalogue::new(types));
            run_in(client, cloud, options, witness, stop).await
        }
        #[cfg(feature = "ec2")]
        CloudOptions::Aws(of_cloud) => {
            let cloud = ec2::Ec2::connect(client.clone(), ec2::Options::clone(of_cloud)).await?;
            run_in(client, cloud, options, witness, stop).await
        }
        #[cfg(not(feature = "ec2"))]
        CloudOptions::Aws(_) => Err(ec2::StartError::NotBuilt.into()),
    }
}

/// Tells what [`run`] would do, until `stop`: it takes no Lease, writes nothing, and needs no right but to read.
///
/// # Errors
/// What keeps it from starting, or from going on.
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
        // Its classes are resolved, and profiles and templates made, on the way to the first launch.
        CloudOptions::Aws(_) => Err(ec2::StartError::WritesNothing.into()),
    }
}

async fn observe_in<P: Provider>(
    client: Client,
    cloud: P,
    options: Options,
    tell: impl FnMut(&Report) + Send,
    stop: impl Future<Output = ()> + Send,
) -> Result<(), RunError> {
    let (picture, mut following) = watch::follow(&client, options.reads_services);
    let metrics = Metrics::new(&picture, |registry| cloud.register(registry));
    // Nobody holds the gate: whatever tried to write would be stopped there.
    let (_, fence) = Fence::closed();
    let (qps, burst) = options.pace;
    let recorder = Recorder::new(client.clone(), Pace::new(qps, burst), "dry run");
    let edge = Edge::new(client, cloud.clone(), fence, Pace::new(qps, burst), recorder);
    let desk = Desk::new(picture, cloud, edge, Settings::of(&options, false), metrics);
    tokio::select! {
        () = stop => Ok(()),
        () = dry_run::observe(desk, tell) => Ok(()),
        broken = following.ended() => {
            Err(RunError::Broken(broken.map_or_else(|| "nothing is followed".to_owned(), |it| it.to_string())))
        }
    }
}

/// The same in a cloud of one's own, whatever the options say of one.
///
/// # Errors
/// What keeps it from starting, or from going on.
pub async fn run_in<P: Provider>(
    client: Client,
    cloud: P,
    options: Options,
    witness: Option<Arc<dyn Witness>>,
    stop: impl Future<Output = ()> + Send,
) -> Result<(), RunError> {
    let served = options.agents.as_ref().map(|of| cloud.vouches().map(|cloud| (of, cloud)).ok_or(RunError::NoAgents));
    let to_serve = served.transpose()?;
    let ((qps, burst), namespace, lease) = (options.pace, options.namespace.clone(), options.lease.clone());
    let identity = identity();
    let (picture, mut following) = watch::follow(&client, options.reads_services);
    let metrics = Metrics::new(&picture, |registry| cloud.register(registry));
    let served = serve::serve((options.metrics_port, options.health_port), metrics.clone(), picture.clone())?;
    tracing::info!(metrics = %served.metrics, health = %served.health, identity, "started");
    let provider = cloud.clone();
    let knowledge = agents::Knowledge {
        types: Arc::new(move |class| provider.types(class)),
        settings: options.snapshot.clone(),
        choices: options.disruption,
    };
    let (gate, mut fence) = Fence::closed();
    // Messages do not stand in the way of writes.
    let recorder = Recorder::new(client.clone(), Pace::new(qps.div_ceil(4), burst.div_ceil(4)), &identity);
    let edge = Edge::new(client.clone(), cloud.clone(), fence.clone(), Pace::new(qps, burst), recorder);
    let witnesses = Arc::new(Both(metrics.clone(), witness));
    let nominates = options.nominates && honours_nominations(&client).await;
    let settings = Settings::of(&options, nominates);
    let desk = Desk::new(picture.clone(), cloud, edge.seen_by(witnesses), settings, metrics.clone());
    let held = lease.clone().map(|name| (Api::namespaced(client.clone(), &namespace), name));
    let (counter, mut orders) = orders::counter(Arc::clone(&desk), fence.clone(), held);
    let mut of_agents = None;
    if let Some((of, cloud)) = to_serve {
        let (client, namespace) = (client.clone(), namespace.clone());
        let (refusals, boots, orders) = (metrics.refusals_of_agents(), metrics.boots(), Arc::new(counter));
        let fence = fence.clone();
        let place =
            agents::Place { picture, client, namespace, cloud, refusals, boots, knowledge, orders, fence, clock: now };
        of_agents = Some(serve::agents(of, place)?);
    }

    let (stopping, stopped) = channel::channel(false);
    // A set, so that it ends with us if we are dropped.
    let mut candidate = JoinSet::new();
    let mut asking = JoinSet::new();
    let needed = needed_by(P::CLOUD, lease.is_some(), options.agents.is_some());
    asking.spawn(permissions::check(client.clone(), needed, lease.clone(), namespace.clone(), metrics.clone()));
    match lease {
        Some(name) => drop(candidate.spawn(Candidate::new(client, &namespace, &name, &identity).stand(gate, stopped))),
        None => {
            gate.open();
            // The gate lives as long as nobody is told to stop.
            candidate.spawn(async move {
                let mut stopped = stopped;
                let _ = stopped.wait_for(|stop| *stop).await;
                drop(gate);
            });
        }
    }
    let leading = async {
        loop {
            if !fence.opened().await {
                std::future::pending::<()>().await;
            }
            metrics.leads(true);
            let mut watched = fence.clone();
            tokio::select! {
                broken = leader::lead(Arc::clone(&desk), &mut orders) => return broken,
                () = watched.closes() => metrics.leads(false),
            }
        }
    };
    let agents_ended = async {
        match &mut of_agents {
            Some(served) => served.ended().await,
            None => std::future::pending().await,
        }
    };
    let broken = tokio::select! {
        () = stop => None,
        broken = agents_ended => Some(broken),
        broken = leading => Some(broken.to_string()),
        broken = following.ended() => Some(broken.map_or_else(|| "nothing is followed".to_owned(), |it| it.to_string())),
    };
    // What was being looked at has been dropped: nothing more is written, and the lease can go.
    let _ = stopping.send(true);
    while candidate.join_next().await.is_some() {}
    tracing::info!("stopped");
    broken.map_or(Ok(()), |why| Err(RunError::Broken(why)))
}

/// Two witnesses of the same writes.
struct Both(Metrics, Option<Arc<dyn Witness>>);

impl Witness for Both {
    fn before<'a>(&'a self, write: &'a crate::step::Write) -> Pause<'a> {
        match &self.1 {
            Some(other) => other.before(write),
            None => self.0.before(write),
        }
    }

    fn after<'a>(&'a self, write: &'a crate::step::Write, fate: &'a crate::edge::Fate) -> Pause<'a> {
        Box::pin(async move {
            self.0.after(write, fate).await;
            if let Some(other) = &self.1 {
                other.after(write, fate).await;
            }
        })
    }
}

/// Whether kube-scheduler takes `status.nominatedNodeName` from us (KEP-5278).
async fn honours_nominations(client: &Client) -> bool {
    match client.apiserver_version().await {
        Ok(version) => {
            let minor: String = version.minor.chars().take_while(char::is_ascii_digit).collect();
            version.major != "1" || minor.parse().is_ok_and(|minor: u32| minor >= NOMINATIONS_SINCE)
        }
        Err(error) => {
            tracing::warn!(%error, "the version of the API server is not known: pods are not told of their nodes");
            false
        }
    }
}

/// `<host name>_<random>`, as Karpenter's replicas call themselves.
fn identity() -> String {
    let host = std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
    // The standard library draws the keys of its hash maps at random.
    format!("{}_{:016x}", host.trim(), RandomState::new().hash_one(std::process::id()))
}

/// The moment at the edge.
#[expect(clippy::disallowed_methods, reason = "the edge: decisions are given the moment")]
fn now() -> Timestamp {
    Timestamp::now()
}
