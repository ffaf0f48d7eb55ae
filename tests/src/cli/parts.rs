//! What `up` starts, in order.

use std::sync::Arc;
use std::time::{Duration, Instant};

use crate::cluster::{Cluster, ControlPlane, Kwok, Options};
use crate::ec2::{Ec2, Moto};
use crate::error::Result;
use crate::instances::{Becomes, Bridge, Site};
use crate::process::{Running, Summary};
use crate::world::{World, cluster_in, needs_root};

use super::progress;

/// A world with all its parts.
#[derive(Debug)]
pub(super) struct Parts {
    pub(super) ground: Ground,
    pub(super) cluster: Cluster,
    kwok: Kwok,
    moto: Arc<Moto>,
    pub(super) ec2: Arc<Ec2>,
    /// How long each part took to start.
    pub(super) times: Vec<(&'static str, Duration)>,
}

/// What the cluster stands on.
#[derive(Debug)]
pub(super) enum Ground {
    /// The machine's loopback: without root, or with a cluster that was given. Instances never join.
    Loopback(World, Option<Box<ControlPlane>>),
    /// A network of its own with metadata, in which instances boot.
    Site(Arc<Site>, Bridge),
}

impl Parts {
    /// Starts everything, and says so as it goes. Without root only if `needs_site` does not ask for more.
    pub(super) async fn start(owner: &str, needs_site: bool) -> Result<Self> {
        let mut times = Vec::new();
        let is_given = Cluster::given().await?.is_some();
        if (needs_root().is_err() || is_given) && !needs_site {
            let world = timed(&mut times, "clean up and open", async { World::open(owner) }).await?;
            tell_of_swept(&world);
            let options = Options { audit: true, ..Options::default() };
            let (cluster, plane) = timed(&mut times, "control plane", cluster_in(&world, &options)).await?;
            let kwok = timed(&mut times, "KWOK", async { Kwok::start(world.spawner(), &cluster) }).await?;
            let moto = Arc::new(timed(&mut times, "moto", Moto::start(world.spawner())).await?);
            let ec2 = Arc::new(timed(&mut times, "EC2", Ec2::start(&moto)).await?);
            return Ok(Self { ground: Ground::Loopback(world, plane.map(Box::new)), cluster, kwok, moto, ec2, times });
        }
        let mut site = timed(&mut times, "network, metadata", Site::open(owner)).await?;
        tell_of_swept(site.world());
        timed(&mut times, "control plane", site.start_cluster()).await?;
        let cluster = site.cluster()?.clone();
        let kwok = timed(&mut times, "KWOK", async { Kwok::start(site.world().spawner(), &cluster) }).await?;
        let moto = Arc::new(timed(&mut times, "moto", Moto::start(site.world().spawner())).await?);
        let ec2 = Arc::new(timed(&mut times, "EC2", Ec2::start(&moto)).await?);
        let site = Arc::new(site);
        let bridge = Bridge::start(&site, &ec2, Becomes::of);
        Ok(Self { ground: Ground::Site(site, bridge), cluster, kwok, moto, ec2, times })
    }

    /// The world.
    pub(super) fn world(&self) -> &World {
        match &self.ground {
            Ground::Loopback(world, _) => world,
            Ground::Site(site, _) => site.world(),
        }
    }

    /// All servers.
    pub(super) fn servers(&self) -> Vec<Summary> {
        let mut servers = match &self.ground {
            Ground::Loopback(_, plane) => {
                plane.iter().flat_map(|plane| plane.servers()).map(Running::summary).collect()
            }
            Ground::Site(site, _) => site.servers(),
        };
        servers.push(self.kwok.server().summary());
        servers.extend(self.moto.summary());
        servers
    }

    /// Makes sure that every server runs.
    pub(super) fn check(&mut self) -> Result<()> {
        self.kwok.check()?;
        self.moto.check()?;
        match &mut self.ground {
            Ground::Loopback(_, plane) => plane.as_mut().map_or(Ok(()), |plane| plane.check()),
            Ground::Site(site, _) => site.check(),
        }
    }

    /// Ends the servers in their order and removes the rest.
    pub(super) async fn end(self) -> Result<()> {
        let Self { ground, cluster: _, kwok, moto, ec2, times: _ } = self;
        match ground {
            Ground::Loopback(world, plane) => {
                drop((ec2, moto, kwok, plane));
                world.close()
            }
            Ground::Site(site, bridge) => {
                let ended = bridge.end().await;
                drop((ec2, moto, kwok));
                let ledger = Arc::clone(site.world().ledger());
                match Arc::into_inner(site) {
                    Some(site) => site.close()?,
                    // A launch that was on its way still holds it: all that the ledger names goes.
                    None => ledger.close()?,
                }
                ended
            }
        }
    }
}

fn tell_of_swept(world: &World) {
    for swept in world.swept() {
        let owner = swept.owner.as_deref().unwrap_or("somebody");
        progress(&format!("  removed what world `{}` of {owner} had left: {} things", swept.number, swept.things));
        swept.problems.iter().for_each(|problem| progress(&format!("  still there: {problem}")));
    }
}

/// Runs one step and notes its time.
pub(super) async fn timed<T>(
    times: &mut Vec<(&'static str, Duration)>,
    name: &'static str,
    step: impl Future<Output = Result<T>>,
) -> Result<T> {
    let start = Instant::now();
    let value = step.await?;
    let taken = start.elapsed();
    progress(&format!("{name}: {:.1} s", taken.as_secs_f64()));
    times.push((name, taken));
    Ok(value)
}
