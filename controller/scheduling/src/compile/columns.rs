//! Resources as columns of small integers.
//!
//! The unit of a column is the greatest common divisor of all requests in it (5 m of cpu, 64 Mi of memory), so that 32
//! bits hold every request exactly; room is rounded down, which loses nothing since requests are multiples of the unit.
//!
//! If the divisor is too small (VerticalPodAutoscaler recommends single bytes), the unit is a billionth of the
//! largest node: a plan rounds requests up, so that pods which fit in units fit on the node; a bound rounds them down,
//! so that it holds for every plan.

use rustc_hash::{FxHashMap, FxHashSet};
use smallvec::SmallVec;

use std::sync::Arc;

use super::volumes::VolumeColumns;
use crate::model::{Attachment, PodSpec, Problem, Resource, Resources, UNLIMITED};

/// The resources that pods request. Column 0 is cpu, 1 memory, 2 pods; the others follow in the order of their names,
/// and then those of volumes.
#[derive(Debug, Clone)]
pub(crate) struct Columns {
    resources: Vec<Resource>,
    units: Vec<i64>,
    volumes: VolumeColumns,
}

pub(crate) const CPU: usize = 0;
pub(crate) const MEMORY: usize = 1;

/// Maximum room in a column. Sums of a node's requests stay below twice this.
const LARGEST: i64 = 1 << 30;
/// Size that exceeds any room.
const TOO_LARGE: i64 = LARGEST + 1;

/// Rounding of requests that are not multiples of a column's unit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Rounding {
    /// Pods that fit in units fit on the node.
    Up,
    /// Pods that do not fit in units do not fit on the node.
    Down,
}

impl Columns {
    /// Creates the columns of `problem`; `used` are the specs of pending pods with their number of pods.
    pub(crate) fn new<'a>(
        problem: &Problem,
        used: impl Iterator<Item = (&'a PodSpec, usize)> + Clone,
        rounding: Rounding,
    ) -> Self {
        let requests = used.clone().map(|(spec, _)| &spec.requests);
        let volumes = VolumeColumns::new(problem, used.clone(), rounding == Rounding::Down);
        let mut resources = vec![Resource::Cpu, Resource::Memory, Resource::Pods];
        let mut others = Vec::new();
        for request in requests.clone() {
            for (resource, amount) in request.iter() {
                if amount > 0 && !resources.contains(resource) && !others.contains(resource) {
                    others.push(resource.clone());
                }
            }
        }
        others.sort();
        resources.append(&mut others);
        let units = resources.iter().map(|resource| unit(problem, resource, used.clone())).collect();
        Self { resources, units, volumes }
    }

    /// Returns the number of columns.
    pub(crate) fn width(&self) -> usize {
        self.resources.len() + self.volumes.len()
    }

    /// Returns the CSI drivers that have a column, with its index.
    pub(crate) fn drivers(&self) -> impl Iterator<Item = (&Arc<str>, usize)> {
        self.volumes.drivers().iter().zip(self.resources.len()..)
    }

    /// Returns the sizes of a pod.
    pub(crate) fn sizes(&self, spec: &PodSpec, rounding: Rounding) -> Vec<i32> {
        let amounts = self.resources.iter().zip(&self.units);
        let amounts = amounts.map(|(resource, &unit)| {
            let asked = spec.requests.get(resource).max(0);
            let size = match rounding {
                Rounding::Up => -(-asked).div_euclid(unit),
                Rounding::Down => asked.div_euclid(unit),
            };
            size.min(TOO_LARGE) as i32
        });
        amounts.chain(self.volumes.sizes(spec)).collect()
    }

    /// Returns the room of a node to which volumes are `attached`, rounded down; negative if it is overcommitted.
    /// Drivers without a limit are unlimited.
    pub(crate) fn room(
        &self,
        allocatable: &Resources,
        attach_limits: &[(Arc<str>, u32)],
        attached: &FxHashSet<&Attachment>,
    ) -> Vec<i32> {
        let amounts = self.resources.iter().zip(&self.units);
        let amounts = amounts.map(|(resource, &unit)| clamp(allocatable.get(resource).div_euclid(unit)));
        let limit = |driver: &Arc<str>| {
            let known = attach_limits.iter().find(|(known, _)| known == driver);
            known.map(|&(_, limit)| i64::from(limit))
        };
        amounts.chain(self.volumes.room(limit, attached).into_iter().map(clamp)).collect()
    }

    /// Returns the indices of these columns in rows over `resources`, which are sorted.
    pub(crate) fn of_resources(&self, resources: &[Resource]) -> Places {
        let place = |resource: &Resource| resources.binary_search(resource).ok();
        let limits = self.volumes.drivers().iter().map(|driver| place(&Resource::attachable(driver)));
        Places { resources: self.resources.iter().map(place).collect(), limits: limits.collect() }
    }

    /// Returns the room of a node yet to be launched, from [`Places::pick`] less the requests of daemons.
    pub(crate) fn empty_room(&self, left: &[i64]) -> Vec<i32> {
        let (left, limits) = left.split_at(self.resources.len().min(left.len()));
        let amounts = left.iter().zip(&self.units).map(|(left, &unit)| clamp(left.div_euclid(unit)));
        let limit = |driver: &Arc<str>| {
            let at = self.volumes.drivers().iter().position(|known| known == driver)?;
            limits.get(at).copied().filter(|&limit| limit < UNLIMITED)
        };
        amounts.chain(self.volumes.room(limit, &FxHashSet::default()).into_iter().map(clamp)).collect()
    }

    /// Returns `requests` as exact amounts, in millicores or base units.
    pub(crate) fn amounts(&self, requests: &Resources) -> Vec<i64> {
        let volumes = std::iter::repeat_n(0, self.volumes.len());
        self.resources.iter().map(|resource| requests.get(resource)).chain(volumes).collect()
    }

    /// Returns exact amounts as resources, without those that are zero.
    pub(crate) fn resources(&self, amounts: &[i64]) -> Resources {
        let named = self.resources.iter().cloned().zip(amounts.iter().copied());
        named.filter(|&(_, amount)| amount != 0).collect()
    }
}

/// Indices of columns in the rows of a catalogue; `None` for a resource that the catalogue does not have.
pub(crate) struct Places {
    resources: SmallVec<[Option<usize>; 8]>,
    /// Attach limits, by driver.
    limits: SmallVec<[Option<usize>; 2]>,
}

impl Places {
    /// Returns the amounts of a row by resource, then the attach limits by driver.
    pub(crate) fn pick(&self, row: &[i64]) -> SmallVec<[i64; 8]> {
        let amounts = self.resources.iter().map(|place| place.map_or(0, |at| row[at]));
        amounts.chain(self.limits.iter().map(|place| place.map_or(UNLIMITED, |at| row[at]))).collect()
    }
}

/// Returns the unit in which amounts of `resource` are counted.
fn unit<'a>(problem: &Problem, resource: &Resource, used: impl Iterator<Item = (&'a PodSpec, usize)>) -> i64 {
    let of_types = problem.pools.iter().filter_map(|pool| problem.catalogues.get(pool.catalogue));
    let of_types = of_types.map(|types| types.most(resource));
    let of_nodes = problem.nodes.iter().map(|node| node.allocatable.get(resource));
    let most = of_types.chain(of_nodes).max().unwrap_or(0);
    let (mut divisor, mut all) = (0, 0_i64);
    // Requests that fit no node must not make the others inexact.
    for (amount, pods) in used.map(|(spec, pods)| (spec.requests.get(resource), pods)) {
        if (1..=most).contains(&amount) {
            divisor = gcd(divisor, amount);
            all = all.saturating_add(amount.saturating_mul(i64::try_from(pods).unwrap_or(i64::MAX)));
        }
    }
    // Room beyond the sum of all requests need not be resolved.
    divisor.max(most.min(all) / LARGEST + 1)
}

fn clamp(amount: i64) -> i32 {
    amount.clamp(-LARGEST, LARGEST) as i32
}

fn gcd(mut a: i64, mut b: i64) -> i64 {
    while b != 0 {
        (a, b) = (b, a % b);
    }
    a
}

/// Distinct request vectors.
#[derive(Debug, Clone, Default)]
pub(crate) struct Vectors {
    sizes: Vec<i32>,
    ids: FxHashMap<Vec<i32>, u32>,
}

impl Vectors {
    pub(crate) fn intern(&mut self, vector: Vec<i32>) -> u32 {
        if let Some(&id) = self.ids.get(&vector) {
            return id;
        }
        let id = self.ids.len() as u32;
        self.sizes.extend_from_slice(&vector);
        self.ids.insert(vector, id);
        id
    }

    pub(crate) fn get(&self, id: u32, width: usize) -> &[i32] {
        &self.sizes[id as usize * width..][..width]
    }
}

/// Returns true if `sizes` fit into `room`. A column with size zero may be overcommitted.
#[inline]
pub(crate) fn fits(sizes: &[i32], room: &[i32]) -> bool {
    sizes.iter().zip(room).all(|(&wanted, &left)| wanted <= left || wanted == 0)
}
