//! All that instances of one world need to become nodes, started in the right order.

use std::net::Ipv4Addr;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use jiff::SignedDuration;

use super::authenticator::{self, Authenticator};
use super::cloud::CloudController;
use crate::cluster::{Cluster, Contents, ControlPlane, Network, Options};
use crate::error::{Error, Result};
use crate::imds::proof::RoleCredentials;
use crate::imds::{Authority, Instance, Metadata, Role, Served};
use crate::machine::{Fabric, GATEWAY, Image, Machine, Machines, Spec};
use crate::process::{Running, Summary};
use crate::world::{World, needs_root};

/// The cluster's name, for which tokens are made.
pub const CLUSTER: &str = "muster";

/// The network of a world with what answers in it. Dropping it ends all.
#[derive(Debug)]
pub struct Site {
    machines: Machines,
    metadata: Metadata,
    authenticator: Authenticator,
    cloud: Option<CloudController>,
    cluster: Option<Cluster>,
    plane: Option<Mutex<ControlPlane>>,
    fabric: Arc<Fabric>,
    world: World,
    /// How far the clocks of its servers are ahead of the machines'.
    ahead: SignedDuration,
    next: AtomicU32,
}

/// Part of a site with a cluster that outlives a test: all in which no runtime of a test has a share. Machines and
/// instances are numbered on, as their logs stay. Dropping it ends all.
#[derive(Debug)]
pub(crate) struct Vacant {
    plane: Mutex<ControlPlane>,
    machines: Machines,
    authority: Authority,
    fabric: Arc<Fabric>,
    world: World,
    next: AtomicU32,
}

/// A machine and its metadata. Clones are the same machine; the last one that is dropped pulls its plug.
#[derive(Debug, Clone)]
pub struct Node {
    /// The machine.
    pub machine: Arc<Machine>,
    /// What its metadata service says, and what a test changes of it.
    pub served: Arc<Served>,
}

impl Site {
    /// A network with metadata, without a cluster. `owner` says in a word who it is for.
    ///
    /// # Errors
    /// When it cannot be made, as without root.
    pub async fn open(owner: &str) -> Result<Self> {
        Self::open_ahead(owner, SignedDuration::ZERO).await
    }

    async fn open_ahead(owner: &str, ahead: SignedDuration) -> Result<Self> {
        needs_root()?;
        let world = World::open(owner)?;
        let fabric = Arc::new(Fabric::create(world.ledger()).await?);
        let authority = Authority::create(world.folder().join("identity"))?;
        let metadata = Metadata::start(&fabric, authority).await?;
        let authenticator = Authenticator::start(&fabric, CLUSTER, ahead).await?;
        let folder = world.folder().join("machines");
        let machines = Machines::new(world.spawner().clone(), Arc::clone(&fabric), folder);
        let next = AtomicU32::new(10);
        Ok(Self {
            machines,
            metadata,
            authenticator,
            cloud: None,
            cluster: None,
            plane: None,
            fabric,
            world,
            ahead,
            next,
        })
    }

    /// Makes the cluster what it was, and starts metadata, authenticator and cloud controller where there were some before.
    ///
    /// # Errors
    /// When a server has ended, and as [`ControlPlane::set_back`]; when an address is still taken. All has ended then.
    pub(crate) async fn reopen(mut vacant: Vacant, contents: &mut Contents) -> Result<Self> {
        let (cluster, metadata, authenticator) = match vacant.begin(contents).await {
            Ok(begun) => begun,
            Err(error) => return Err(vacant.close().err().unwrap_or(error)),
        };
        let Vacant { plane, machines, authority: _, fabric, world, next } = vacant;
        let cloud = Some(CloudController::start(cluster.client()));
        let (cluster, plane, ahead) = (Some(cluster), Some(plane), SignedDuration::ZERO);
        Ok(Self { machines, metadata, authenticator, cloud, cluster, plane, fabric, world, ahead, next })
    }

    /// Ends all but what can be [reopened](Self::reopen): with clocks that are right.
    ///
    /// # Errors
    /// When there is no cluster.
    pub(crate) fn vacate(self) -> Result<Vacant> {
        let Self { machines, metadata, authenticator, cloud, cluster: _, plane, fabric, world, ahead: _, next } = self;
        drop((cloud, authenticator));
        let authority = metadata.authority().clone();
        Ok(Vacant { plane: plane.ok_or_else(no_cluster)?, machines, authority, fabric, world, next })
    }

    /// With a control plane in the network, and a cloud controller beside it.
    ///
    /// # Errors
    /// As [`Self::open`] and [`ControlPlane::start`].
    pub async fn with_cluster(owner: &str) -> Result<Self> {
        Self::with_cluster_ahead(owner, SignedDuration::ZERO).await
    }

    /// As [`Self::with_cluster`], of which every clock is `ahead` of the machines' (behind, if negative): a machine has no
    /// clock of its own, so one that is wrong shows in what others say. Metadata and the API server's certificate have
    /// dates that are off, and kubelets' tokens are older or newer than the authenticator's clock allows.
    ///
    /// # Errors
    /// As [`Self::with_cluster`].
    pub async fn with_cluster_ahead(owner: &str, ahead: SignedDuration) -> Result<Self> {
        let mut site = Self::open_ahead(owner, ahead).await?;
        site.start_cluster().await?;
        Ok(site)
    }

    /// Starts a control plane in the network, and a cloud controller beside it.
    ///
    /// # Errors
    /// As [`ControlPlane::start`].
    pub async fn start_cluster(&mut self) -> Result<()> {
        let network = Network::Namespace { name: self.fabric.namespace().to_owned(), address: GATEWAY };
        let token_webhook = Some(authenticator::url());
        let options = Options { network, token_webhook, ahead: self.ahead, audit: true, ..Options::default() };
        let plane = self.world.control_plane(&options).await?;
        self.cloud = Some(CloudController::start(plane.cluster().client()));
        self.cluster = Some(plane.cluster().clone());
        self.plane = Some(Mutex::new(plane));
        Ok(())
    }

    /// The servers of the control plane, if there is one.
    pub fn servers(&self) -> Vec<Summary> {
        let Some(plane) = &self.plane else { return Vec::new() };
        let plane = plane.lock().unwrap_or_else(PoisonError::into_inner);
        plane.servers().iter().map(Running::summary).collect()
    }

    /// Returns the objects of its cluster, once the servers have made what they make by themselves.
    ///
    /// # Errors
    /// As [`ControlPlane::contents`]; when there is no cluster.
    pub(crate) async fn contents(&mut self) -> Result<Contents> {
        let plane = self.plane.as_mut().ok_or_else(no_cluster)?;
        plane.get_mut().unwrap_or_else(PoisonError::into_inner).contents().await
    }

    /// Makes sure that all servers run.
    ///
    /// # Errors
    /// [`crate::Error::Ended`] with the last lines of the first that does not.
    pub fn check(&self) -> Result<()> {
        let Some(plane) = &self.plane else { return Ok(()) };
        plane.lock().unwrap_or_else(PoisonError::into_inner).check()
    }

    /// The cluster.
    ///
    /// # Errors
    /// When there is none.
    pub fn cluster(&self) -> Result<&Cluster> {
        self.cluster.as_ref().ok_or_else(no_cluster)
    }

    /// The network.
    pub fn fabric(&self) -> &Arc<Fabric> {
        &self.fabric
    }

    /// The metadata service.
    pub fn metadata(&self) -> &Metadata {
        &self.metadata
    }

    /// Who lets nodes into the cluster.
    pub fn authenticator(&self) -> &Authenticator {
        &self.authenticator
    }

    /// The world.
    pub fn world(&self) -> &World {
        &self.world
    }

    /// A new instance with an address and a role of its own, for tests without EC2.
    pub fn instance(&self) -> Instance {
        let number = self.next.fetch_add(1, Ordering::Relaxed);
        let [_, _, high, low] = number.to_be_bytes();
        let mut instance = Instance::new(format!("i-0{number:016x}"), Ipv4Addr::new(10, 0, high, low));
        let credentials = RoleCredentials {
            access_key_id: format!("ASIA{number:016}"),
            secret_access_key: format!("secret of {number}"),
            token: format!("session of {number}"),
        };
        instance.role = Some(Role { name: "muster-node".to_owned(), credentials, is_mapped: true });
        instance
    }

    /// Boots `instance` with `image`, its role admitted to the cluster. `change` may alter the machine before.
    ///
    /// # Errors
    /// When the machine cannot be made.
    pub async fn boot(&self, instance: Instance, image: Image, change: impl FnOnce(&mut Spec)) -> Result<Node> {
        let mut spec = Spec::new(&instance.instance_id, instance.address, image);
        spec.host_name.clone_from(&instance.host_name);
        spec.instance_type.clone_from(&instance.instance_type);
        change(&mut spec);
        let plot = self.machines.plot(&spec);
        self.authenticator.admit(&instance);
        if let Some(cloud) = &self.cloud {
            cloud.learn(&instance);
        }
        let served = self.metadata.serve(instance, Some(plot.pods()))?;
        served.shift_clock(self.ahead);
        let machine = Arc::new(self.machines.boot(spec, plot).await?);
        Ok(Node { machine, served })
    }

    /// Pulls the plug of a node and ends its metadata. Its Node goes too, as EKS's cloud controller sees to it.
    ///
    /// # Errors
    /// When something of it resists.
    pub async fn terminate(&self, node: Node) -> Result<()> {
        let Node { machine, served } = node;
        machine.terminate().await?;
        self.authenticator.refuse(&served.instance.instance_id);
        self.metadata.forget(&served.instance.instance_id);
        self.forget(&served.instance.host_name).await
    }

    /// Lets the cloud controller delete the Node of an instance that is no more.
    pub(super) async fn forget(&self, node: &str) -> Result<()> {
        match &self.cloud {
            Some(cloud) => cloud.forget(node).await,
            None => Ok(()),
        }
    }

    /// Ends everything in its order.
    ///
    /// # Errors
    /// [`crate::Error::LeftBehind`] with what resisted.
    pub fn close(self) -> Result<()> {
        let Self { machines, metadata, authenticator, cloud, cluster: _, plane, fabric, world, .. } = self;
        drop((cloud, plane, authenticator, metadata, machines, fabric));
        world.close()
    }
}

impl Vacant {
    /// Sets back what the last test has changed, and starts what the next one has of its own.
    async fn begin(&mut self, contents: &mut Contents) -> Result<(Cluster, Metadata, Authenticator)> {
        let servers = self.plane.get_mut().unwrap_or_else(PoisonError::into_inner);
        servers.check()?;
        servers.set_back(contents).await?;
        self.fabric.give_back().await?;
        let cluster = Cluster::at(servers.cluster().place().clone()).await?;
        let metadata = Metadata::start(&self.fabric, self.authority.clone()).await?;
        let authenticator = Authenticator::start(&self.fabric, CLUSTER, SignedDuration::ZERO).await?;
        Ok((cluster, metadata, authenticator))
    }

    /// Ends everything in its order.
    ///
    /// # Errors
    /// As [`Site::close`].
    pub(crate) fn close(self) -> Result<()> {
        let Self { plane, machines, authority: _, fabric, world, next: _ } = self;
        drop((plane, machines, fabric));
        world.close()
    }
}

fn no_cluster() -> Error {
    Error::Missing { what: "this site has no cluster".to_owned(), hint: "open it with `Site::with_cluster`".to_owned() }
}
