//! What Nodes report of their machines, in place of what is computed while there is none.
//!
//! ```text
//!   EC2's facts, the class ──► computed ──► Bounds
//!                                 │            │
//!   Node: capacity, allocatable ──┼──► Said ──► judge ─┬─ believed ──► the least of it ─┐
//!                                 │                    └─ doubted ───► told once        │
//!                                 └──► InstanceType ◄────────── apply ◄─────────────────┘
//! ```
//!
//! A Node's status is written by its kubelet, so a machine that is not ours any more writes what it likes there. What it says of itself
//! decides what is bought next, and is believed within [`Bounds`] only: not more than somebody else says that the machine has, and
//! not so little that it could cost more than twice the nodes.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;

use muster_scheduling::model::{InstanceType, Resource, Resources};

use crate::capacity::{self, MIB};
use crate::facts::InstanceTypeFacts;

/// What is learned. Devices are what their plugins say, at any time, and are left as EC2 describes them.
pub const RESOURCES: [Resource; 4] = [Resource::Cpu, Resource::Memory, Resource::EphemeralStorage, Resource::Pods];

/// Less than one part in so many of what was computed is doubted. Half of the processors are left by a kernel without hyperthreads
/// (`nosmt`), half of the memory by generous huge pages: an honest Node may say that. And it is the most that a lie may cost, as with
/// half of the room on each node there are twice as many.
const LEAST_PART: i64 = 2;
/// Builds that are known at most, of which the oldest is forgotten first: the images of a hundred classes for ten releases. Those
/// that nodes still run are learned again when they are looked at.
const BUILDS: usize = 1000;

/// What decides, beside its type, what a machine has: machines of one build and one type are the same.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Build {
    /// ID of its image.
    pub image: String,
    /// [Hash](crate::discovery::class_hash) of what the class launched it with: family, kubelet, volumes, user data, and more.
    pub class: String,
    /// Whether prefixes are handed out, which an annotation of the class says, and no hash.
    pub prefix_delegation: bool,
}

/// What a Node says: [`RESOURCES`] as far as it has them, in millicores and base units.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Said {
    /// `status.capacity`.
    pub capacity: Resources,
    /// `status.allocatable`.
    pub allocatable: Resources,
}

/// Of one resource, what the machine has and what of it pods may use.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Room {
    /// Capacity, in millicores or base units.
    pub capacity: i64,
    /// Allocatable, likewise; at most the capacity.
    pub allocatable: i64,
}

/// Why what a Node says of a resource is not believed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Doubt {
    /// The machine does not have as much.
    TooMuch,
    /// Pods could use more than there is.
    Contradiction,
    /// Half of it or more would be missing.
    TooLittle,
}

/// What is believed of the Nodes of one type and build.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Bounds(Vec<Bound>);

#[derive(Debug, Clone, PartialEq, Eq)]
struct Bound {
    resource: Resource,
    /// The largest capacity.
    most: i64,
    least: Room,
}

/// What has been learned. It is a function of what was heard, in any order, as long as there are not too many builds.
#[derive(Debug, Clone, Default)]
pub struct Learned {
    by_build: BTreeMap<Build, BTreeMap<Arc<str>, Known>>,
    /// The builds, in the order in which they came.
    order: VecDeque<Build>,
    edition: u64,
}

/// What is known of a type in a build.
#[derive(Debug, Clone)]
struct Known {
    bounds: Bounds,
    rooms: BTreeMap<Resource, Room>,
    doubted: BTreeSet<(Resource, Doubt)>,
}

// === impl Doubt ===

impl Doubt {
    /// One word, as a metric has it.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::TooMuch => "too_much",
            Self::Contradiction => "contradiction",
            Self::TooLittle => "too_little",
        }
    }
}

// === impl Bounds ===

impl Bounds {
    /// For a type as EC2 describes it, of which so much was `computed` for the build.
    ///
    /// More than was computed is believed as far as somebody else says it than the Node: of processors and memory EC2, which only
    /// does not say how much of the memory the hypervisor keeps. Of volumes and pods it is we who say how much there is.
    #[must_use]
    pub fn of(facts: &InstanceTypeFacts, computed: &InstanceType) -> Self {
        let allocatable = computed.allocatable();
        let bound = |resource: Resource| {
            let capacity = computed.capacity.get(&resource);
            let most = match resource {
                Resource::Cpu => capacity::millicores(facts),
                Resource::Memory => i64::try_from(facts.memory_mib).unwrap_or(i64::MAX).saturating_mul(MIB),
                _ => capacity,
            };
            let least = Room { capacity: capacity / LEAST_PART, allocatable: allocatable.get(&resource) / LEAST_PART };
            Bound { resource, most, least }
        };
        Self(RESOURCES.into_iter().map(bound).collect())
    }

    /// Which of it is believed, resource by resource. What the Node does not say is not there.
    pub fn judge(&self, said: &Said) -> impl Iterator<Item = (&Resource, Result<Room, Doubt>)> {
        self.0.iter().filter_map(|Bound { resource, most, least }| {
            let is_said = said.capacity.contains(resource) && said.allocatable.contains(resource);
            let room = is_said
                .then(|| Room { capacity: said.capacity.get(resource), allocatable: said.allocatable.get(resource) })?;
            let judged = if room.capacity > *most {
                Err(Doubt::TooMuch)
            } else if room.allocatable > room.capacity {
                Err(Doubt::Contradiction)
            } else if room.capacity < least.capacity || room.allocatable < least.allocatable {
                Err(Doubt::TooLittle)
            } else {
                Ok(room.whole(resource))
            };
            Some((resource, judged))
        })
    }
}

// === impl Room ===

impl Room {
    /// In whole MiB, as what is computed: the memory that a kernel leaves differs by some KiB from boot to boot.
    fn whole(self, resource: &Resource) -> Self {
        let unit = if matches!(resource, Resource::Memory | Resource::EphemeralStorage) { MIB } else { 1 };
        let whole = |amount: i64| amount - amount % unit;
        Self { capacity: whole(self.capacity), allocatable: whole(self.allocatable) }
    }

    fn least(self, other: Self) -> Self {
        Self { capacity: self.capacity.min(other.capacity), allocatable: self.allocatable.min(other.allocatable) }
    }
}

// === impl Learned ===

impl Learned {
    /// Takes in what a Node says. `bounds` are those of its type and build, asked for when nobody has spoken of them before; none if
    /// there is no such type. Gives what is doubted and was not doubted before.
    ///
    /// Of several Nodes the least counts, so that the order in which they are heard does not matter, and what fits was seen to fit on
    /// each of them.
    pub fn hear(
        &mut self,
        build: &Build,
        instance_type: &str,
        said: &Said,
        bounds: impl FnOnce() -> Option<Bounds>,
    ) -> Vec<(Resource, Doubt)> {
        if !self.by_build.get(build).is_some_and(|types| types.contains_key(instance_type)) {
            let Some(bounds) = bounds() else { return Vec::new() };
            let known = Known { bounds, rooms: BTreeMap::new(), doubted: BTreeSet::new() };
            self.add(build, instance_type.into(), known);
        }
        let known = self.by_build.get_mut(build).and_then(|types| types.get_mut(instance_type));
        let Some(Known { bounds, rooms, doubted }) = known else { return Vec::new() };
        let mut news = Vec::new();
        for (resource, judged) in bounds.judge(said) {
            match judged {
                Ok(room) => {
                    let before = rooms.get(resource).copied();
                    let least = before.map_or(room, |before| before.least(room));
                    if before != Some(least) {
                        rooms.insert(resource.clone(), least);
                        self.edition += 1;
                    }
                }
                Err(doubt) => {
                    if doubted.insert((resource.clone(), doubt)) {
                        news.push((resource.clone(), doubt));
                    }
                }
            }
        }
        news
    }

    fn add(&mut self, build: &Build, instance_type: Arc<str>, known: Known) {
        if !self.by_build.contains_key(build) {
            self.order.push_back(build.clone());
        }
        self.by_build.entry(build.clone()).or_default().insert(instance_type, known);
        if self.order.len() > BUILDS
            && let Some(oldest) = self.order.pop_front()
        {
            self.by_build.remove(&oldest);
            self.edition += 1;
        }
    }

    /// Has a type that was computed for `build` have what its Nodes have said.
    pub fn apply(&self, build: &Build, computed: &mut InstanceType) {
        let known = self.by_build.get(build).and_then(|types| types.get(&computed.name));
        for (resource, room) in known.into_iter().flat_map(|known| &known.rooms) {
            computed.capacity.set(resource.clone(), room.capacity);
            computed.overhead.set(resource.clone(), room.capacity - room.allocatable);
        }
    }

    /// Grows whenever [`Self::apply`] says something else.
    #[must_use]
    pub const fn edition(&self) -> u64 {
        self.edition
    }

    /// Of how many pairs of type and build something was learned.
    #[must_use]
    pub fn count(&self) -> usize {
        self.by_build.values().flat_map(BTreeMap::values).filter(|known| !known.rooms.is_empty()).count()
    }
}

#[cfg(test)]
mod tests;
