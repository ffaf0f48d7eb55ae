//! An undisturbed run, from any write of which disturbed ones begin: what comes before that write is played once.

use super::edge::Blow;
use super::world::World;

pub(crate) struct Rehearsal {
    /// The world at the end.
    pub(crate) end: World,
    /// The world before each moment at which something was written, in order.
    moments: Vec<World>,
    until: u64,
}

impl Rehearsal {
    /// Plays until that second.
    pub(crate) fn of(mut world: World, until: u64) -> Self {
        let mut moments = vec![world.clone()];
        let mut before = world.clone();
        while world.advance(until) {
            if world.edge.writes > before.edge.writes {
                moments.push(before);
            }
            before = world.clone();
        }
        if world.edge.writes > before.edge.writes {
            moments.push(before);
        }
        Self { end: world, moments, until }
    }

    /// Plays on from the moment of that write, which meets the blow.
    pub(crate) fn with(&self, write: usize, blow: Blow, downtime: u64) -> World {
        let next = self.moments.partition_point(|world| world.edge.writes <= write);
        let mut world = self.moments[next - 1].clone();
        world.edge.blows.insert(write, blow);
        world.downtime = downtime;
        world.run(self.until);
        world
    }
}
