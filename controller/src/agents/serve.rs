//! Both ports: agents and operators over TLS, health in plaintext.

use std::convert::Infallible;
use std::net::{SocketAddr, TcpListener};
use std::str::FromStr;
use std::sync::Arc;
use std::thread::{self, JoinHandle};
use std::time::Duration;
use std::{fmt, io};

use jiff::{SignedDuration, Timestamp};
use kube::Client;
use muster_gateway::{Gateway, Limits, Refusals};
use muster_link::Policy;
use muster_proto::answer::Statuses;
use tokio::runtime::Builder;
use tokio::sync::{oneshot, watch};
use tokio::time::sleep;

use super::boot::Boots;
use super::counter::Counter;
use super::keeper::Keeper;
use super::keys::Keys;
use super::operators::{Knowledge, OperatorService};
use super::records::Records;
use super::rows::Roster;
use super::sources::Live;
use super::vouch::{ClusterIdentity, Reachable, Vouch};
use super::{Options, files, health};
use crate::edge::Fence;
use crate::facts::ClaimFacts;
use crate::watch::ClusterCache;

/// Maximum age of an instance at its first enrolment: the limit for becoming a Node, and as long again for a late
/// agent.
const ENROL_WITHIN: SignedDuration = SignedDuration::from_mins(30);
/// Pause before the cloud is asked again for the account.
const RETRY: Duration = Duration::from_secs(10);

/// Address at which nodes reach the controller: `host:port`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Address(String);

/// Error: the text is not an address.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("it is not `host:port`")]
pub struct AddressFault;

impl FromStr for Address {
    type Err = AddressFault;

    fn from_str(text: &str) -> Result<Self, AddressFault> {
        let (host, port) = text.rsplit_once(':').ok_or(AddressFault)?;
        port.parse::<u16>().ok().filter(|port| *port > 0).ok_or(AddressFault)?;
        let is_ipv6 = |text: &str| text.parse::<std::net::Ipv6Addr>().is_ok();
        let is_name = |text: &str| {
            let is_inner = |byte: u8| byte.is_ascii_alphanumeric() || b"-._".contains(&byte);
            !text.is_empty() && text.bytes().all(is_inner)
        };
        let is_host = match host.strip_prefix('[').and_then(|host| host.strip_suffix(']')) {
            Some(inner) => is_ipv6(inner),
            None => is_name(host),
        };
        is_host.then(|| Self(text.to_owned())).ok_or(AddressFault)
    }
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// Server of both ports, which stops when this is dropped.
pub(crate) struct Served {
    /// Address for agents.
    pub(crate) agents: SocketAddr,
    /// Address of health.
    pub(crate) health: SocketAddr,
    /// Receives the reason when a part of it has ended.
    ended: oneshot::Receiver<String>,
    /// Stops the server when it is dropped; no message is sent.
    stop: Option<oneshot::Sender<Infallible>>,
    thread: Option<JoinHandle<()>>,
}

/// Dependencies of the server on the rest of the controller.
pub(crate) struct Place {
    pub(crate) cluster_cache: ClusterCache,
    pub(crate) facts: Arc<ClaimFacts>,
    pub(crate) client: Client,
    pub(crate) namespace: String,
    pub(crate) cloud: Arc<dyn Vouch>,
    pub(crate) refusals: Refusals,
    pub(crate) boots: Boots,
    pub(crate) knowledge: Knowledge,
    pub(crate) orders: Arc<dyn Counter>,
    pub(crate) fence: Fence,
    pub(crate) clock: fn() -> Timestamp,
}

impl Served {
    /// Starts serving: health at once, agents as soon as there are keys. It has a thread of its own, so that thousands
    /// of handshakes do not delay decisions, and planning a large cluster does not delay handshakes.
    ///
    /// # Errors
    /// A listener has no address, or the runtime or the thread cannot be created.
    pub(crate) fn start(
        options: &Options,
        (agents, health): (TcpListener, TcpListener),
        place: Place,
    ) -> io::Result<Self> {
        let addresses = (agents.local_addr()?, health.local_addr()?);
        let runtime = Builder::new_current_thread().enable_all().build()?;
        let (stop, stopped) = oneshot::channel::<Infallible>();
        let (ended_tx, ended) = oneshot::channel();
        let options = options.clone();
        let serve = move || {
            let why = runtime.block_on(async {
                tokio::select! {
                    why = both(options, agents, health, place) => Some(why),
                    _ = stopped => None,
                }
            });
            // Pending DNS lookups are not waited for.
            runtime.shutdown_background();
            if let Some(why) = why {
                // Not received if the rest has ended at the same time.
                let _ = ended_tx.send(why);
            }
        };
        let thread = thread::Builder::new().name("agents".to_owned()).spawn(serve)?;
        Ok(Self { agents: addresses.0, health: addresses.1, ended, stop: Some(stop), thread: Some(thread) })
    }

    /// Waits until a part of it has ended, which is always an error.
    pub(crate) async fn ended(&mut self) -> String {
        match (&mut self.ended).await {
            Ok(why) => why,
            Err(_) => "the thread that serves agents has panicked".to_owned(),
        }
    }
}

impl Drop for Served {
    /// Closes all connections and both ports.
    fn drop(&mut self) {
        drop(self.stop.take());
        if let Some(thread) = self.thread.take() {
            let _it_may_have_panicked = thread.join();
        }
    }
}

/// Serves agents and health; returns the reason why one of them has ended.
async fn both(options: Options, agents: TcpListener, plaintext: TcpListener, place: Place) -> String {
    let of_runtime = |listener| tokio::net::TcpListener::from_std(listener);
    let (agents, plaintext) = match (of_runtime(agents), of_runtime(plaintext)) {
        (Ok(agents), Ok(plaintext)) => (agents, plaintext),
        (Err(error), _) | (_, Err(error)) => return format!("a port cannot be served: {error}"),
    };
    let (statuses_tx, statuses) = watch::channel(health::statuses(health::ReplicaState::default()));
    let (serves_tx, serves) = watch::channel(false);
    let (cluster_cache, fence) = (place.cluster_cache.clone(), place.fence.clone());
    tokio::select! {
        ended = muster_gateway::health::serve(plaintext, statuses.clone(), std::future::pending()) => match ended {
            Ok(()) => "the health port has stopped".to_owned(),
            Err(error) => format!("the health port has stopped: {error}"),
        },
        why = serve(options, agents, place, (serves_tx, statuses.clone())) => why,
        never = health::keep(&cluster_cache, &fence, serves, &statuses_tx) => match never {},
    }
}

async fn serve(
    options: Options,
    listener: tokio::net::TcpListener,
    place: Place,
    (serves, statuses): (watch::Sender<bool>, watch::Receiver<Statuses>),
) -> String {
    let Options { address, certificates, rotation, documents, port: _, health_port: _ } = options;
    let Place { cluster_cache, facts, client, namespace, cloud, refusals, boots, knowledge, orders, fence: _, clock } =
        place;
    // An incomplete cache must not decide about enrolments.
    cluster_cache.synced().await;
    let keeper = Keeper::new(&client, &namespace, cluster_cache.clone(), rotation, clock);
    let keys = keeper.have().await;
    let ClusterIdentity { cluster, partition, account, region } = cluster_identity(&*cloud).await;
    let reachable = |Keys { authority, launch, .. }: &Keys| Reachable {
        address: address.to_string(),
        certificate_authority: authority.pinned().to_string(),
        key: launch.present.clone(),
        former_key: launch.former.clone(),
    };
    cloud.tell(reachable(&keys));
    let (authority_tx, authority) = watch::channel(Arc::clone(&keys.authority));
    if !certificates.regions().any(|known| known == region) {
        tracing::error!(
            region,
            "no node can enrol: no certificate of instance identity documents is known for this region"
        );
    }
    let records = Records::new(&client, &namespace);
    let roster = Arc::new(Roster::new(cluster_cache.clone(), documents.row));
    let rows = Arc::clone(&roster);
    let service = OperatorService {
        cluster_cache: cluster_cache.clone(),
        client: client.clone(),
        records,
        knowledge,
        documents,
        orders,
        roster,
        clock,
    };
    let live = Arc::new(Live::new(facts, &client, &namespace, Arc::clone(&cloud), boots, clock));
    let gateway = Gateway {
        operators: Arc::new(service),
        sources: Arc::clone(&live),
        authority,
        policy: Policy { cluster, partition, account, region, enrol_within: ENROL_WITHIN },
        certificates,
        limits: files::allow(Limits::default()),
        refusals,
        statuses,
        clock,
    };
    serves.send_replace(true);
    let keep = keeper.keep(keys, |keys| {
        authority_tx.send_replace(Arc::clone(&keys.authority));
        cloud.tell(reachable(keys));
    });
    tokio::select! {
        ended = muster_gateway::serve(gateway, listener, std::future::pending()) => match ended {
            Ok(()) => "the port for agents has stopped".to_owned(),
            Err(error) => format!("the port for agents has stopped: {error}"),
        },
        never = keep => match never {},
        never = rows.keep() => match never {},
        never = live.forget() => match never {},
    }
}

/// Asks until there is an answer: without its account the controller could admit nodes of any account.
async fn cluster_identity(cloud: &dyn Vouch) -> ClusterIdentity {
    let mut was_told = false;
    loop {
        match cloud.cluster_identity().await {
            Ok(cluster_identity) => return cluster_identity,
            Err(error) => {
                if !std::mem::replace(&mut was_told, true) {
                    tracing::error!(%error, "agents cannot be served yet: the AWS account is not known");
                }
                sleep(RETRY).await;
            }
        }
    }
}
