//! What `up` starts, in order, and what it shows of it.

use std::sync::Arc;
use std::time::{Duration, Instant};

use crate::cluster::{Cluster, ControlPlane, Kwok, Options};
use crate::ec2::{Ec2, Moto};
use crate::error::Result;
use crate::world::{World, cluster_in};

use super::progress;

/// A world with all its parts.
#[derive(Debug)]
pub(super) struct Parts {
    pub(super) world: World,
    pub(super) cluster: Cluster,
    pub(super) plane: Option<ControlPlane>,
    pub(super) kwok: Kwok,
    pub(super) moto: Arc<Moto>,
    pub(super) ec2: Ec2,
    /// How long each part took to start.
    pub(super) times: Vec<(&'static str, Duration)>,
}

impl Parts {
    /// Starts everything, and says so as it goes.
    pub(super) async fn start(owner: &str) -> Result<Self> {
        let mut times = Vec::new();
        let world = timed(&mut times, "clean up and open", async { World::open(owner) }).await?;
        for swept in world.swept() {
            let owner = swept.owner.as_deref().unwrap_or("somebody");
            progress(&format!("  removed what world `{}` of {owner} had left: {} things", swept.number, swept.things));
            swept.problems.iter().for_each(|problem| progress(&format!("  still there: {problem}")));
        }
        let options = Options { audit: true, ..Options::default() };
        let (cluster, plane) = timed(&mut times, "control plane", cluster_in(&world, &options)).await?;
        let kwok = timed(&mut times, "KWOK", async { Kwok::start(world.spawner(), &cluster) }).await?;
        let moto = Arc::new(timed(&mut times, "moto", Moto::start(world.spawner())).await?);
        let ec2 = timed(&mut times, "EC2", Ec2::start(&moto)).await?;
        Ok(Self { world, cluster, plane, kwok, moto, ec2, times })
    }

    /// Makes sure that every server runs.
    pub(super) fn check(&mut self) -> Result<()> {
        self.kwok.check()?;
        self.moto.check()?;
        self.plane.as_mut().map_or(Ok(()), ControlPlane::check)
    }

    /// Ends the servers in their order and removes the rest.
    pub(super) fn end(self) -> Result<()> {
        let Self { world, cluster: _, plane, kwok, moto, ec2, times: _ } = self;
        drop(ec2);
        drop(moto);
        drop(kwok);
        drop(plane);
        world.close()
    }
}

/// Runs one step and notes its time.
async fn timed<T>(
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
