//! Resources become columns of small integers.
//!
//! A column counts in the greatest common divisor of all requests in it (5 m of cpu, 64 Mi of memory), so that 32 bits
//! hold every amount exactly; room is rounded down, which loses nothing since requests are multiples.

use rustc_hash::FxHashMap;
use smallvec::SmallVec;

use std::sync::Arc;

use crate::model::{Node, PodSpec, Resource, Resources};

/// The resources that some pod asks for. Column 0 is cpu, 1 memory, 2 pods; the rest follow in the order of their names.
/// Behind them, the CSI drivers of which some existing node can attach only so many volumes.
#[derive(Debug, Clone)]
pub(crate) struct Columns {
    resources: Vec<Resource>,
    units: Vec<i64>,
    drivers: Vec<Arc<str>>,
}

pub(crate) const CPU: usize = 0;
pub(crate) const MEMORY: usize = 1;

/// The largest amount of a column. Sums of a node's requests stay below twice this.
const LARGEST: i64 = 1 << 30;

impl Columns {
    pub(crate) fn new<'a>(specs: impl Iterator<Item = &'a PodSpec> + Clone, nodes: &[Node]) -> Self {
        let requests = specs.clone().map(|spec| &spec.requests);
        let attached = specs.flat_map(|spec| &spec.attachments).map(|attachment| &attachment.driver);
        let limited =
            |driver: &&Arc<str>| nodes.iter().flat_map(|node| &node.attach_limits).any(|(known, _)| known == *driver);
        let mut drivers: Vec<Arc<str>> = attached.filter(limited).cloned().collect();
        drivers.sort();
        drivers.dedup();
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
        let mut units = vec![0; resources.len()];
        let mut largest = vec![0; resources.len()];
        for request in requests {
            for (column, resource) in resources.iter().enumerate() {
                let amount = request.get(resource).max(0);
                units[column] = gcd(units[column], amount);
                largest[column] = amount.max(largest[column]);
            }
        }
        for (unit, &largest) in units.iter_mut().zip(&largest) {
            // Amounts without a useful common divisor are rounded up to a billionth of the largest.
            *unit = (*unit).max(1).max(largest / LARGEST + 1);
        }
        Self { resources, units, drivers }
    }

    /// How many amounts make one vector.
    pub(crate) fn width(&self) -> usize {
        self.resources.len() + self.drivers.len()
    }

    /// CSI drivers with a column, and the column.
    pub(crate) fn drivers(&self) -> impl Iterator<Item = (&Arc<str>, usize)> {
        self.drivers.iter().zip(self.resources.len()..)
    }

    /// What a pod takes, rounded up. A volume that pods share is counted for each of them.
    pub(crate) fn sizes(&self, spec: &PodSpec) -> Vec<i32> {
        let amounts = self.resources.iter().zip(&self.units);
        let amounts = amounts.map(|(resource, &unit)| clamp(-(-spec.requests.get(resource).max(0)).div_euclid(unit)));
        let volumes = |driver: &Arc<str>| spec.attachments.iter().filter(|one| one.driver == *driver).count() as i32;
        amounts.chain(self.drivers.iter().map(volumes)).collect()
    }

    /// What a node has, rounded down; negative if it is overdrawn. Drivers that it names no limit for have none.
    pub(crate) fn room(&self, allocatable: &Resources, attach_limits: &[(Arc<str>, u32)]) -> Vec<i32> {
        let amounts = self.resources.iter().zip(&self.units);
        let amounts = amounts.map(|(resource, &unit)| clamp(allocatable.get(resource).div_euclid(unit)));
        let limit = |driver: &Arc<str>| {
            let known = attach_limits.iter().find(|(known, _)| known == driver);
            known.map_or(LARGEST as i32, |&(_, limit)| clamp(i64::from(limit)))
        };
        amounts.chain(self.drivers.iter().map(limit)).collect()
    }

    /// Where the resources of these columns are in rows over `resources`, which are sorted.
    pub(crate) fn of_resources(&self, resources: &[Resource]) -> Places {
        Places(self.resources.iter().map(|resource| resources.binary_search(resource).ok()).collect())
    }

    /// The room of a node that is still to be launched: `left` in column order, any number of volumes.
    pub(crate) fn unlimited_room(&self, left: &[i64]) -> Vec<i32> {
        let amounts = left.iter().zip(&self.units).map(|(left, &unit)| clamp(left.div_euclid(unit)));
        amounts.chain(self.drivers.iter().map(|_| LARGEST as i32)).collect()
    }

    /// `requests` as exact amounts, millicores or base units.
    pub(crate) fn amounts(&self, requests: &Resources) -> Vec<i64> {
        let volumes = self.drivers.iter().map(|_| 0);
        self.resources.iter().map(|resource| requests.get(resource)).chain(volumes).collect()
    }

    /// The resources of exact amounts; what is zero is left out.
    pub(crate) fn resources(&self, amounts: &[i64]) -> Resources {
        let named = self.resources.iter().cloned().zip(amounts.iter().copied());
        named.filter(|&(_, amount)| amount != 0).collect()
    }
}

/// Where columns are in the rows of a catalogue; what it does not have is nowhere.
pub(crate) struct Places(SmallVec<[Option<usize>; 8]>);

impl Places {
    /// The amounts of a row, in column order.
    pub(crate) fn pick(&self, row: &[i64]) -> SmallVec<[i64; 8]> {
        self.0.iter().map(|place| place.map_or(0, |at| row[at])).collect()
    }
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

/// Whether `sizes` fit into `room`. A column that is not asked for may be overdrawn.
#[inline]
pub(crate) fn fits(sizes: &[i32], room: &[i32]) -> bool {
    sizes.iter().zip(room).all(|(&wanted, &left)| wanted <= left || wanted == 0)
}
