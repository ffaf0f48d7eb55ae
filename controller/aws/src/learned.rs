//! What Nodes report of their machines, in place of what is computed while there is none.
//!
//! ```text
//!   EC2's facts, the class ──► computed ──► Bounds
//!                                 │            │
//!   Node: capacity, allocatable ──┼──► Said ──► judge ─┬─ believed ──► the least of it, of two instances if it is ─┐
//!                                 │                    │               less than was computed                     │
//!                                 │                    └─ doubted ───► told once                                   │
//!                                 └──► InstanceType ◄────────── apply ◄────────────────────────────────────────────┘
//! ```
//!
//! A Node's status is written by its kubelet, so a machine that is not ours any more writes what it likes there. What it says of itself
//! decides what is bought next, and is believed within [`Bounds`] only: not more than somebody else says that the machine has, and
//! not so little that it could cost more than twice the nodes. And what is less than was computed makes all others of its type smaller,
//! so it counts when two instances say so.

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
    computed: Room,
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
    heard: BTreeMap<Resource, Heard>,
    doubted: BTreeSet<(Resource, Doubt)>,
}

/// What instances have said of a resource, as far as it is believed.
#[derive(Debug, Clone, Default)]
struct Heard {
    capacity: Least,
    allocatable: Least,
}

/// Of what each instance has said at least of one figure, the two least, and whose they are. It does not grow with instances, and does
/// not depend on the order in which they are heard.
#[derive(Debug, Clone, Default)]
struct Least([Option<(i64, Arc<str>)>; 2]);

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
            let computed = Room { capacity, allocatable: allocatable.get(&resource) };
            let part = |amount: i64| amount / LEAST_PART;
            let least = Room { capacity: part(computed.capacity), allocatable: part(computed.allocatable) };
            Bound { resource, most, least, computed }
        };
        Self(RESOURCES.into_iter().map(bound).collect())
    }

    /// Which of it is believed, resource by resource. What the Node does not say is not there.
    pub fn judge(&self, said: &Said) -> impl Iterator<Item = (&Resource, Result<Room, Doubt>)> {
        self.0.iter().filter_map(|Bound { resource, most, least, computed: _ }| {
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

    fn computed(&self, resource: &Resource) -> Option<Room> {
        self.0.iter().find(|bound| bound.resource == *resource).map(|bound| bound.computed)
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
}

// === impl Least ===

impl Least {
    fn add(&mut self, amount: i64, instance: &Arc<str>) {
        let Self([first, second]) = self;
        let said = |one: &Option<(i64, Arc<str>)>| one.as_ref().map_or(i64::MAX, |(amount, _)| *amount);
        let is_its = |one: &Option<(i64, Arc<str>)>| one.as_ref().is_some_and(|(_, of)| of == instance);
        let new = Some((amount, Arc::clone(instance)));
        if is_its(first) {
            if amount < said(first) {
                *first = new;
            }
        } else if amount < said(first) {
            *second = std::mem::replace(first, new);
        } else if amount < said(second) {
            *second = new;
        }
    }

    /// What counts instead of what was `computed`: the least; but what is less than that from two instances only, and from one alone it
    /// is no reason to believe anybody who says more.
    fn counts(&self, computed: i64) -> i64 {
        let said = |at: usize| self.0[at].as_ref().map_or(i64::MAX, |(amount, _)| *amount);
        said(0).max(computed.min(said(1)))
    }
}

// === impl Known ===

impl Known {
    /// What counts of a resource, if anything has been heard of it.
    fn room(&self, resource: &Resource) -> Option<Room> {
        let (Heard { capacity, allocatable }, computed) = (self.heard.get(resource)?, self.bounds.computed(resource)?);
        Some(Room {
            capacity: capacity.counts(computed.capacity),
            allocatable: allocatable.counts(computed.allocatable),
        })
    }
}

// === impl Learned ===

impl Learned {
    /// Takes in what the Node of an instance says. `bounds` are those of its type and build, asked for when nobody has spoken of them before; none if
    /// there is no such type. Gives what is doubted and was not doubted before.
    ///
    /// Of several Nodes the least counts, so that the order in which they are heard does not matter, and what fits was seen to fit on
    /// each of them. Of what is less than was computed it is the least but one: two say that there is no more.
    pub fn hear(
        &mut self,
        build: &Build,
        instance_type: &str,
        instance: &str,
        said: &Said,
        bounds: impl FnOnce() -> Option<Bounds>,
    ) -> Vec<(Resource, Doubt)> {
        if !self.by_build.get(build).is_some_and(|types| types.contains_key(instance_type)) {
            let Some(bounds) = bounds() else { return Vec::new() };
            let known = Known { bounds, heard: BTreeMap::new(), doubted: BTreeSet::new() };
            self.add(build, instance_type.into(), known);
        }
        let known = self.by_build.get_mut(build).and_then(|types| types.get_mut(instance_type));
        let Some(known) = known else { return Vec::new() };
        let judged: Vec<(Resource, Result<Room, Doubt>)> =
            known.bounds.judge(said).map(|(resource, judged)| (resource.clone(), judged)).collect();
        let (instance, mut news) = (Arc::from(instance), Vec::new());
        for (resource, judged) in judged {
            match judged {
                Ok(room) => {
                    let before = known.room(&resource);
                    let heard = known.heard.entry(resource.clone()).or_default();
                    heard.capacity.add(room.capacity, &instance);
                    heard.allocatable.add(room.allocatable, &instance);
                    if known.room(&resource) != before {
                        self.edition += 1;
                    }
                }
                Err(doubt) => {
                    if known.doubted.insert((resource.clone(), doubt)) {
                        news.push((resource, doubt));
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
        let Some(known) = self.by_build.get(build).and_then(|types| types.get(&computed.name)) else { return };
        for resource in known.heard.keys() {
            let Some(room) = known.room(resource) else { continue };
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
        self.by_build.values().flat_map(BTreeMap::values).filter(|known| !known.heard.is_empty()).count()
    }
}

#[cfg(test)]
mod tests;
