//! Capacity that Nodes report, which replaces the computed values for later nodes.
//!
//! ```text
//!   EC2's facts, the class ──► computed ──► Bounds
//!                                 │            │
//!   Node: capacity, allocatable ──┼──► Said ──► judge ─┬─ accepted ─► minimum; second lowest of two instances ─┐
//!                                 │                    │              if below the computed value              │
//!                                 │                    └─ rejected ─► reported once                            │
//!                                 └──► InstanceType ◄────────── apply ◄────────────────────────────────────────┘
//! ```
//!
//! The kubelet writes the status of its Node, so a compromised machine can write any value. The values affect later
//! purchases, and are accepted only within [`Bounds`]: at most what another source states for the machine, and not so
//! little that it could more than double the number of nodes. A value below the computed one shrinks all other nodes of
//! the type, so it counts only if two instances report it, and not against most of those that were heard: what liars
//! have said is taken back by the nodes that come after them.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;

use muster_scheduling::model::{InstanceType, Resource, Resources};

use crate::capacity::{self, MIB};
use crate::facts::InstanceTypeFacts;

/// Learned resources. Devices are reported by their plugins at any time, and keep the values of EC2.
pub const RESOURCES: [Resource; 4] = [Resource::Cpu, Resource::Memory, Resource::EphemeralStorage, Resource::Pods];

/// Divisor of the computed value for the minimum that is accepted. Half of the CPUs are left by a kernel without
/// hyperthreads (`nosmt`), half of the memory by large huge page reservations: a correct Node may report that. It also
/// bounds the cost of a false value: with half of the room per node, twice as many nodes are launched.
const LEAST_PART: i64 = 2;
/// Maximum number of builds; the oldest is forgotten first. Enough for the images of a hundred classes over ten
/// releases. Builds of running nodes are learned again when they are reconciled.
const BUILDS: usize = 1000;

/// Inputs besides the type that determine the capacity of a machine: machines of one build and one type are equal.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Build {
    /// ID of the image.
    pub image: String,
    /// [Hash](crate::discovery::class_hash) of the launch settings of the class: family, kubelet, volumes, user data,
    /// and more.
    pub class: String,
    /// True if prefix delegation is enabled, which is an annotation of the class and not part of the hash.
    pub prefix_delegation: bool,
}

/// Values reported by a Node: the [`RESOURCES`] that it has, in millicores and base units.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Said {
    /// `status.capacity`.
    pub capacity: Resources,
    /// `status.allocatable`.
    pub allocatable: Resources,
}

/// Capacity and allocatable quantity of one resource.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Room {
    /// Capacity, in millicores or base units.
    pub capacity: i64,
    /// Allocatable quantity, in the same unit; at most the capacity.
    pub allocatable: i64,
}

/// Reason why a reported value is rejected.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Doubt {
    /// The machine does not have as much.
    TooMuch,
    /// More is allocatable than the capacity.
    Contradiction,
    /// More than half of the computed value is missing.
    TooLittle,
}

/// Accepted range of the values of Nodes of one type and build.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Bounds(Vec<Bound>);

#[derive(Debug, Clone, PartialEq, Eq)]
struct Bound {
    resource: Resource,
    /// Maximum capacity.
    most: i64,
    least: Room,
    computed: Room,
}

/// Learned capacities. They depend on the reported values but not on their order, up to the maximum number of builds.
#[derive(Debug, Clone, Default)]
pub struct Learned {
    by_build: BTreeMap<Build, BTreeMap<Arc<str>, Known>>,
    /// Builds in the order of their first report.
    order: VecDeque<Build>,
    edition: u64,
}

/// Maximum number of instances whose values are compared. They are those with the first IDs, which AWS draws, so that
/// the order of reports does not matter.
const SAMPLE: usize = 32;
/// Divisor of the middle value for the distance at which lower values are outliers. Nodes of one build differ by a few
/// MiB.
const OUTLIER_PART: i64 = 50;

/// State of a type in a build.
#[derive(Debug, Clone)]
struct Known {
    bounds: Bounds,
    heard: BTreeMap<Resource, Heard>,
    doubted: BTreeSet<(Resource, Doubt)>,
}

/// Accepted values of instances for a resource.
#[derive(Debug, Clone, Default)]
struct Heard {
    capacity: Least,
    allocatable: Least,
}

/// The two lowest values of different instances, counting the minimum of each instance. It does not grow with the
/// number of instances, and does not depend on the order of reports.
#[derive(Debug, Clone, Default)]
struct Least {
    two: [Option<(i64, Arc<str>)>; 2],
    /// Minimum of each instance, of at most [`SAMPLE`] instances.
    sample: BTreeMap<Arc<str>, i64>,
}

// === impl Doubt ===

impl Doubt {
    /// Returns the value for a metric label.
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
    /// Returns the bounds for a type as EC2 describes it and its `computed` values for the build.
    ///
    /// A value above the computed one is accepted only up to what another source than the Node states: EC2 for CPUs and
    /// memory, of which the hypervisor keeps an unknown part. For volumes and pods the computed value is the limit.
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

    /// Accepts or rejects each resource. Resources that the Node does not report are skipped.
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
    /// Rounds down to MiB, as in the computed values: the memory that a kernel leaves differs by some KiB between
    /// boots.
    fn whole(self, resource: &Resource) -> Self {
        let unit = if matches!(resource, Resource::Memory | Resource::EphemeralStorage) { MIB } else { 1 };
        let whole = |amount: i64| amount - amount % unit;
        Self { capacity: whole(self.capacity), allocatable: whole(self.allocatable) }
    }
}

// === impl Least ===

impl Least {
    fn add(&mut self, amount: i64, instance: &Arc<str>) {
        let Self { two: [first, second], sample } = self;
        let least = sample.entry(Arc::clone(instance)).or_insert(amount);
        *least = amount.min(*least);
        if sample.len() > SAMPLE {
            sample.pop_last();
        }
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

    /// Returns the value that replaces the `computed` one: the lowest. A value below the computed one counts only if a
    /// second instance confirms it and it is not an outlier; a single one still prevents a higher value.
    fn counts(&self, computed: i64) -> i64 {
        let said = |at: usize| self.two[at].as_ref().map_or(i64::MAX, |(amount, _)| *amount);
        said(0).max(computed.min(said(1).max(self.least_of_most())))
    }

    /// Returns the lowest value that is not an outlier: not far below the middle one.
    fn least_of_most(&self) -> i64 {
        let mut said: Vec<i64> = self.sample.values().copied().collect();
        said.sort_unstable();
        let middle = said.get(said.len() / 2).copied().unwrap_or_default();
        let least = middle - middle / OUTLIER_PART;
        said.into_iter().find(|amount| *amount >= least).unwrap_or_default()
    }
}

// === impl Known ===

impl Known {
    /// Returns the effective values of a resource, if any were accepted.
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
    /// Records the values of an instance's Node. `bounds` returns the bounds of its type and build, and is called on
    /// the first report; `None` if the type does not exist. Returns the rejections that are new.
    ///
    /// The lowest of several Nodes counts, so the order of reports does not matter, and pods that fit have fit on each
    /// of them. Of values below the computed one the second lowest counts: two instances confirm it.
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

    /// Applies the learned values to a type that was computed for `build`.
    pub fn apply(&self, build: &Build, computed: &mut InstanceType) {
        let Some(known) = self.by_build.get(build).and_then(|types| types.get(&computed.name)) else { return };
        for resource in known.heard.keys() {
            let Some(room) = known.room(resource) else { continue };
            computed.capacity.set(resource.clone(), room.capacity);
            computed.overhead.set(resource.clone(), room.capacity - room.allocatable);
        }
    }

    /// Returns a counter that grows whenever the result of [`Self::apply`] changes.
    #[must_use]
    pub const fn edition(&self) -> u64 {
        self.edition
    }

    /// Returns the number of pairs of type and build with accepted values.
    #[must_use]
    pub fn count(&self) -> usize {
        self.by_build.values().flat_map(BTreeMap::values).filter(|known| !known.heard.is_empty()).count()
    }
}

#[cfg(test)]
mod tests;
