//! A real Kubernetes control plane, from nothing to ready in seconds.
//!
//! ```text
//!  Options ──► ControlPlane::start ──► pki ──► etcd ◄── kube-apiserver ◄── kube-scheduler
//!                    │                            socket       ▲      ◄──── kube-controller-manager
//!                    │ owns the processes                      │
//!                    ▼                                         │
//!                 Cluster ── client, kubeconfig, kubectl, identities, bootstrap token
//!                    ▲
//!  MUSTER_TEST_KUBECONFIG: somebody else's cluster instead
//! ```
//!
//! [`ControlPlane`] is the servers, and ends them; [`Cluster`] is what a test uses, in this process or in another one.
//! Several control planes run side by side, in one world or in many.

mod access;
mod etcd;
mod kubeconfig;
mod kwok;
mod options;
mod pki;
pub(crate) mod ports;
mod servers;
mod slow;
mod wire;

pub use access::{Cluster, Identity, OwnPlace, Place};
pub use etcd::Contents;
pub use kwok::{Kwok, fake_node};
pub use options::{Network, Options};
pub use slow::{Delays, SlowServer};
pub use wire::Wire;

use std::net::{IpAddr, Ipv4Addr};
use std::path::{Path, PathBuf};
use std::time::Duration;

use fs_err as fs;
use futures::try_join;
use jiff::Timestamp;

use self::etcd::Etcd;
use self::kubeconfig::Proof;
use self::pki::Pki;
use self::servers::Layout;
use crate::error::Result;
use crate::process::{Program, Running, Spawner};
use crate::wait;

/// Replaces our control plane by the cluster of this kubeconfig. The user's own `KUBECONFIG` is never looked at.
pub const GIVEN: &str = "MUSTER_TEST_KUBECONFIG";

/// The API server's port in a namespace of its own, where nobody else listens: the one that everyone expects.
const PORT: u16 = 6443;

/// The first address of the range of services: what pods know the API server by.
const SERVICE: Ipv4Addr = Ipv4Addr::new(10, 96, 0, 1);

/// How long a start may take. Seconds on an idle machine; this is for one that builds on all cores.
const START: Duration = Duration::from_secs(120);

/// How long a server may take to end by itself. What it holds is thrown away, and its logs are written line by line, so
/// nothing is lost if it is killed: an API server waits for connections that its clients, us among them, keep open.
const END: Duration = Duration::from_millis(500);

/// The servers of a cluster. Dropping it ends them.
#[derive(Debug)]
pub struct ControlPlane {
    cluster: Cluster,
    /// In the order in which they end: the API server before its etcd, or it waits for it.
    servers: Vec<Running>,
    /// The API server's place among them.
    api_server_at: usize,
    etcd_socket: PathBuf,
    /// What the API server was started with, and by whom.
    api_server: (Program, Spawner),
}

impl ControlPlane {
    /// Starts the servers, with all their files in `folder`/NAME, and waits until pods can be created: the API server is
    /// ready, and the controllers have made the first service account.
    ///
    /// # Errors
    /// [`crate::Error::Missing`] when set-up has not run; [`crate::Error::Ended`] with the last lines of a server that
    /// ended; what the API server answered.
    pub async fn start(spawner: &Spawner, folder: &Path, options: &Options) -> Result<Self> {
        let folder = folder.join(&options.name);
        fs::create_dir_all(&folder)?;
        let address = options.network.address();
        let addresses = [address, IpAddr::V4(Ipv4Addr::LOCALHOST), IpAddr::V4(SERVICE)];
        let pki = Pki::create(&folder.join("pki"), &addresses)?;
        let made = (!options.ahead.is_zero()).then(|| Timestamp::now().saturating_add(options.ahead)).transpose();
        let dated = made.ok().flatten().map(|made| pki.dated(&addresses, made)).transpose()?;
        let outside = ports::free(spawner.ledger().number())?;
        let port = if options.network.namespace().is_some() { PORT } else { outside };
        let layout = Layout { folder: &folder, logs: spawner.logs(), pki: &pki, dated, options, port };

        let etcd = spawner.start(&layout.etcd()?)?;
        let program = layout.api_server()?;
        let mut api_server = spawner.start(&program)?;
        let relay = layout.relay(outside).map(|relay| spawner.start(&relay)).transpose()?;

        let inside = format!("https://{address}:{port}");
        let user = |name: &str, user: &str, group| -> Result<PathBuf> {
            let path = folder.join(format!("{name}.kubeconfig"));
            let pair = pki.client(name, user, group)?;
            kubeconfig::write(&path, &inside, &pki.ca(), &Proof::Certificate(&pair))?;
            Ok(path)
        };
        let scheduler = layout.scheduler(&user("scheduler", "system:kube-scheduler", None)?)?;
        let controllers = layout.controllers(&user("controllers", "system:kube-controller-manager", None)?)?;
        let cluster = Cluster::new(&folder, &pki, &format!("https://127.0.0.1:{outside}"), &inside).await?;

        let mut servers = vec![];
        answers(&cluster, &mut api_server).await?;
        if options.has_controllers {
            servers.push(spawner.start(&controllers)?);
            servers.push(spawner.start(&scheduler)?);
        }
        let api_server_at = servers.len();
        servers.extend([api_server, etcd]);
        servers.extend(relay);
        let etcd_socket = layout.etcd_socket();
        let plane = Self { cluster, servers, api_server_at, etcd_socket, api_server: (program, spawner.clone()) };
        let pods = async {
            match options.has_controllers {
                true => plane.cluster.can_create_pods("default").await,
                false => Ok(()),
            }
        };
        try_join!(plane.cluster.admit_nodes(), pods)?;
        Ok(plane)
    }

    /// What a test uses.
    pub fn cluster(&self) -> &Cluster {
        &self.cluster
    }

    /// Returns the objects in its etcd, once the servers have made what they make by themselves.
    ///
    /// # Errors
    /// [`crate::Error::Deadline`] if they do not come to rest.
    pub async fn contents(&self) -> Result<Contents> {
        Etcd::at(&self.etcd_socket).await?.contents().await
    }

    /// Makes the objects in its etcd what they were, and waits until they stay so.
    ///
    /// # Errors
    /// [`crate::Error::Deadline`] if a server goes on writing, [`crate::Error::Missing`] if a definition or a namespace
    /// was changed.
    pub async fn set_back(&self, contents: &mut Contents) -> Result<()> {
        Etcd::at(&self.etcd_socket).await?.set_back(contents).await
    }

    /// Its servers, with their processes and logs.
    pub fn servers(&self) -> &[Running] {
        &self.servers
    }

    /// Makes sure that all servers run.
    ///
    /// # Errors
    /// [`crate::Error::Ended`] with the last lines of the first that does not.
    pub fn check(&mut self) -> Result<()> {
        self.servers.iter_mut().try_for_each(Running::check)
    }

    /// Kills the API server. All else runs on, and what it has been told is in etcd.
    pub fn kill_api_server(&mut self) {
        self.servers[self.api_server_at].kill();
    }

    /// Starts the API server once more, and waits until it is ready.
    ///
    /// # Errors
    /// As [`Self::start`].
    pub async fn revive_api_server(&mut self) -> Result<()> {
        let (program, spawner) = &self.api_server;
        let server = &mut self.servers[self.api_server_at];
        *server = spawner.start(program)?;
        answers(&self.cluster, server).await
    }

    /// Ends the servers, the API server before its etcd.
    pub fn end(&mut self) {
        for server in &mut self.servers {
            server.end(END);
        }
    }
}

impl Drop for ControlPlane {
    /// A vector drops its members in order too, but kills them: an API server that is asked closes its audit log.
    fn drop(&mut self) {
        self.end();
    }
}

/// Waits for `/readyz`, as long as the server lives.
async fn answers(cluster: &Cluster, api_server: &mut Running) -> Result<()> {
    wait::until_some("the API server is ready", START, || {
        let lives = api_server.check();
        async move {
            lives?;
            Ok(cluster.is_ready().await.then_some(()))
        }
    })
    .await
}
