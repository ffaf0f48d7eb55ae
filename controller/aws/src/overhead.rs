//! Resources that the kubelet withholds from pods: kube-reserved, system-reserved and the hard eviction threshold.

use muster_scheduling::model::{Resource, Resources};

use crate::capacity::{self, MIB, kubelet};
use crate::class::{ClassSettings, Threshold};
use crate::facts::InstanceTypeFacts;

/// Memory reserved per pod and per node in MiB (amazon-eks-ami's bootstrap, Bottlerocket's pull request 1388).
const MEMORY_PER_POD_MIB: i64 = 11;
const MEMORY_PER_NODE_MIB: i64 = 255;
/// Ephemeral storage reserved for the kubelet in MiB.
const RESERVED_STORAGE_MIB: i64 = 1024;
/// The kubelet's default for `memory.available` in MiB.
const EVICTION_MEMORY_MIB: i64 = 100;
/// The kubelet's default for `nodefs.available` in percent.
const EVICTION_STORAGE_PERCENT: f64 = 10.0;
/// Reserved share of each range of CPU: from, to (millicores), and the share in hundredths of a percent.
const CPU_SLICES: [(i64, i64, i64); 4] = [(0, 1000, 600), (1000, 2000, 100), (2000, 4000, 50), (4000, i64::MAX, 25)];

/// Returns the total overhead of a type.
pub(crate) fn of_type(facts: &InstanceTypeFacts, class: &ClassSettings) -> Resources {
    let mut overhead = kube_reserved(facts, class);
    let mut system = class.kubelet.system_reserved.clone();
    kubelet::reserve(facts, class, &class.kubelet.expressions.system_reserved, &mut system);
    overhead.add(&system);
    overhead.add(&eviction_threshold(facts, class));
    overhead
}

fn kube_reserved(facts: &InstanceTypeFacts, class: &ClassSettings) -> Resources {
    // Reserved interfaces and prefixes do not count for the first case: the images compute it from the type's own
    // limit.
    let pods = if class.ami_family.reserves_memory_by_interfaces() {
        capacity::interface_pods(facts, 0, 1)
    } else {
        capacity::pods(facts, class)
    };
    let memory = pods.saturating_mul(MEMORY_PER_POD_MIB).saturating_add(MEMORY_PER_NODE_MIB);
    let mut reserved = Resources::new();
    reserved.set(Resource::Cpu, reserved_millicores(capacity::millicores(facts)));
    reserved.set(Resource::Memory, memory.saturating_mul(MIB));
    reserved.set(Resource::EphemeralStorage, RESERVED_STORAGE_MIB * MIB);
    for (resource, amount) in class.kubelet.kube_reserved.iter() {
        reserved.set(resource.clone(), amount);
    }
    kubelet::reserve(facts, class, &class.kubelet.expressions.kube_reserved, &mut reserved);
    reserved
}

/// Returns 60m for 1 vCPU, 70m for 2, 80m for 4, 90m for 8.
fn reserved_millicores(millicores: i64) -> i64 {
    let kept = CPU_SLICES.iter().map(|&(from, to, share)| (millicores.min(to) - from).max(0) * share / 10_000);
    kept.sum()
}

fn eviction_threshold(facts: &InstanceTypeFacts, class: &ClassSettings) -> Resources {
    let kubelet = &class.kubelet;
    let storage = capacity::ephemeral_storage(facts, class);
    let hard_memory = Threshold::Amount(EVICTION_MEMORY_MIB * MIB);
    let hard_storage = Threshold::Percent(EVICTION_STORAGE_PERCENT);
    // A soft threshold alone replaces the kubelet's default, as with Karpenter; of two the greater counts.
    let kept = |hard: Option<Threshold>, soft: Option<Threshold>, default: Threshold, capacity: i64| {
        let given = hard.into_iter().chain(soft).map(|threshold| threshold.of(capacity)).max();
        given.unwrap_or_else(|| default.of(capacity))
    };
    let memory = capacity::memory(facts, class);
    Resources::from_iter([
        (Resource::Memory, kept(kubelet.eviction_memory, kubelet.soft_eviction_memory, hard_memory, memory)),
        (
            Resource::EphemeralStorage,
            kept(kubelet.eviction_storage, kubelet.soft_eviction_storage, hard_storage, storage),
        ),
    ])
}

impl Threshold {
    /// Returns the bytes of `capacity` that the threshold keeps free.
    fn of(self, capacity: i64) -> i64 {
        match self {
            Self::Amount(bytes) => bytes,
            // The kubelet treats 100 % as "no threshold".
            Self::Percent(100.0) => 0,
            Self::Percent(percent) => (capacity as f64 / 100.0 * percent).ceil() as i64,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{Threshold, reserved_millicores};

    #[test]
    fn kube_reserved_cpu_is_the_documented_table() {
        for (vcpus, kept) in
            [(1, 60), (2, 70), (4, 80), (8, 90), (16, 110), (36, 160), (48, 190), (96, 310), (192, 550)]
        {
            assert_eq!(reserved_millicores(vcpus * 1000), kept, "{vcpus} vCPU");
        }
    }

    #[test]
    fn thresholds() {
        assert_eq!(Threshold::Percent(10.0).of(21_474_836_480), 2_147_483_648);
        assert_eq!(Threshold::Percent(100.0).of(1 << 40), 0, "100 % switches it off");
        assert_eq!(Threshold::Percent(1.0).of(101), 2, "rounded up");
        assert_eq!(Threshold::Amount(7).of(1), 7);
    }
}
