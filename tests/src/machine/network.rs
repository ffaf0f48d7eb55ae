//! The wires: a network namespace for the world, one for each machine, and a pair of interfaces between the two.
//!
//! ```text
//!   world                                    machine
//!   lo  192.0.2.1/32        API server       eth0  its private address /32
//!       169.254.169.254/32  metadata           │   default via 192.0.2.1
//!   m4 ───────────────────────────────────────┘
//!   route <private address>  dev m4
//!   route <its pods>         dev m4
//! ```
//! The world is a router, not a switch: a machine can have whatever address EC2 gave it, from any subnet, and a packet
//! of a pod has one hop more than one of the node, which is what the hop limit of the metadata service counts.

use std::net::{Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use tokio::net::{TcpListener, TcpStream, UnixDatagram};

use super::{command, door};
use crate::error::Result;
use crate::ledger::{Ledger, Thing};

/// Where the API server listens and what machines route through. Of the range for documentation, so that no VPC of a
/// test contains it.
pub const GATEWAY: Ipv4Addr = Ipv4Addr::new(192, 0, 2, 1);
/// Where EC2 serves metadata.
pub const METADATA: Ipv4Addr = Ipv4Addr::new(169, 254, 169, 254);

/// The namespace routes; and many datagrams may wait in a socket made in it, for journald throws away what does not fit
/// (`voice.rs`).
const SETTINGS: &str = "echo 1 >/proc/sys/net/ipv4/ip_forward; echo 8192 >/proc/sys/net/unix/max_dgram_qlen";

/// The network namespace of a world.
#[derive(Debug)]
pub struct Fabric {
    ledger: Arc<Ledger>,
    namespace: String,
    entry: u64,
}

/// The network namespace of one machine, wired to the world's.
#[derive(Debug)]
pub struct Wire {
    ledger: Arc<Ledger>,
    world: String,
    namespace: String,
    link: String,
    entry: u64,
}

/// The part of the network that is one machine's.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Addresses {
    /// Its private address.
    pub private: Ipv4Addr,
    /// The network that its pods get addresses from, as `10.244.3.0/24`.
    pub pods: String,
}

impl Fabric {
    /// Makes the namespace of the ledger's world.
    ///
    /// # Errors
    /// When `ip` fails, as it does without root.
    pub async fn create(ledger: &Arc<Ledger>) -> Result<Self> {
        let namespace = format!("{}-world", ledger.number());
        let entry = ledger.make(Thing::NetworkNamespace { name: namespace.clone() })?;
        let fabric = Self { ledger: Arc::clone(ledger), namespace, entry };
        command::run("ip", ["netns", "add", &fabric.namespace]).await?;
        let setup = format!("link set lo up\naddr add {GATEWAY}/32 dev lo\naddr add {METADATA}/32 dev lo\n");
        command::feed("ip", ["-n", &fabric.namespace, "-batch", "-"], &setup).await?;
        command::run("ip", ["netns", "exec", &fabric.namespace, "sh", "-ec", SETTINGS]).await?;
        Ok(fabric)
    }

    /// Its name, as `ip netns exec` takes it.
    pub fn namespace(&self) -> &str {
        &self.namespace
    }

    /// The file that stands for it.
    pub fn path(&self) -> PathBuf {
        path_of(&self.namespace)
    }

    /// Makes the namespace of machine `number` and the wire to it.
    ///
    /// # Errors
    /// When `ip` fails.
    pub async fn wire(&self, number: u32, addresses: &Addresses) -> Result<Wire> {
        let namespace = format!("{}-m{number}", self.ledger.number());
        let link = format!("m{number}");
        let entry = self.ledger.make(Thing::NetworkNamespace { name: namespace.clone() })?;
        let world = self.namespace.clone();
        let wire = Wire { ledger: Arc::clone(&self.ledger), world, namespace, link, entry };
        command::run("ip", ["netns", "add", &wire.namespace]).await?;
        let (namespace, link, Addresses { private, pods }) = (&wire.namespace, &wire.link, addresses);
        let ours = format!(
            "link add {link} type veth peer name eth0 netns {namespace}\nlink set {link} up\n\
             route replace {private}/32 dev {link} src {GATEWAY}\nroute replace {pods} via {private} dev {link} onlink src {GATEWAY}\n"
        );
        command::feed("ip", ["-n", &wire.world, "-batch", "-"], &ours).await?;
        let theirs = format!(
            "link set lo up\naddr add {private}/32 dev eth0\nlink set eth0 up\n\
             route add {GATEWAY} dev eth0 scope link\nroute add default via {GATEWAY}\n"
        );
        command::feed("ip", ["-n", namespace, "-batch", "-"], &theirs).await?;
        Ok(wire)
    }

    /// From now on nothing comes back from `address`, not even that there is no way to it.
    ///
    /// # Errors
    /// When `ip` fails.
    pub async fn swallow(&self, address: Ipv4Addr) -> Result<()> {
        let route = format!("{address}/32");
        command::run("ip", ["-n", &self.namespace, "route", "replace", "blackhole", &route]).await
    }

    /// Undoes each [`Self::swallow`].
    ///
    /// # Errors
    /// When `ip` fails.
    pub async fn give_back(&self) -> Result<()> {
        command::run("ip", ["-n", &self.namespace, "route", "flush", "type", "blackhole"]).await
    }

    /// A listening socket of this process in the namespace, for a server that machines can reach.
    ///
    /// # Errors
    /// When the address is not one of the namespace's, or is taken.
    pub async fn listen(&self, address: SocketAddr) -> Result<TcpListener> {
        door::listen(&self.namespace, address).await
    }

    /// A connection of this process from the namespace, as from a neighbour of the machines.
    ///
    /// # Errors
    /// When nobody listens there.
    pub async fn connect(&self, address: SocketAddr) -> Result<TcpStream> {
        door::connect(&self.namespace, address).await
    }

    /// A socket of this process for datagrams at `path`, with the long queue of the namespace.
    ///
    /// # Errors
    /// When the path is taken, or has more than 107 bytes.
    pub async fn receive(&self, path: &Path) -> Result<UnixDatagram> {
        door::receive(&self.namespace, path).await
    }

    /// Removes the namespace. The machines' must be gone.
    ///
    /// # Errors
    /// When it resists.
    pub fn remove(&self) -> Result<()> {
        self.ledger.remove(self.entry)
    }
}

impl Wire {
    /// The name of the machine's namespace.
    pub fn namespace(&self) -> &str {
        &self.namespace
    }

    /// The file that stands for the machine's namespace.
    pub fn path(&self) -> PathBuf {
        path_of(&self.namespace)
    }

    /// Takes the world's end of the wire down: to the machine, as if its network interface had failed.
    ///
    /// # Errors
    /// When `ip` fails.
    pub async fn cut(&self) -> Result<()> {
        command::run("ip", ["-n", &self.world, "link", "set", &self.link, "down"]).await
    }

    /// Undoes [`Self::cut`]. The routes went with the link, so they are laid again.
    ///
    /// # Errors
    /// When `ip` fails.
    pub async fn mend(&self, addresses: &Addresses) -> Result<()> {
        let (link, Addresses { private, pods }) = (&self.link, addresses);
        let lines = format!(
            "link set {link} up\nroute replace {private}/32 dev {link} src {GATEWAY}\n\
             route replace {pods} via {private} dev {link} onlink src {GATEWAY}\n"
        );
        command::feed("ip", ["-n", &self.world, "-batch", "-"], &lines).await
    }

    /// Removes the namespace, and with it both ends of the wire.
    ///
    /// # Errors
    /// When it resists.
    pub fn remove(&self) -> Result<()> {
        self.ledger.remove(self.entry)
    }
}

fn path_of(namespace: &str) -> PathBuf {
    PathBuf::from("/run/netns").join(namespace)
}
