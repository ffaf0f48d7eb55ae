//! Instance types and the zones that offer them, from EC2.

use std::collections::BTreeMap;
use std::sync::Arc;

use aws_sdk_ec2::types::{
    ArchitectureType, EbsOptimizedSupport, EnaSupport, EphemeralNvmeSupport, Filter, InstanceTypeInfo, LocationType,
    NetworkInfo, NitroEnclavesSupport, UsageClassType,
};
use muster_cloud::CloudError;

use super::caller::Caller;
use super::connection::Connection;
use crate::embedded::Ec2;
use crate::facts::{
    Accelerator, Architecture, EbsFacts, Gpu, InstanceStorage, InstanceTypeFacts, NetworkFacts, NeuronDevice,
    PlacementStrategy, Processor, UsageClasses,
};
use crate::rate_limits::Family;

/// Returns all types of the region that Kubernetes can run on, with their zones.
pub(super) async fn instance_types(aws: &Connection, caller: &Caller) -> Result<Vec<InstanceTypeFacts>, CloudError> {
    let (described, zones) = futures::try_join!(described(aws, caller), offered(aws, caller))?;
    let known = known_figures();
    let mut types: Vec<InstanceTypeFacts> =
        described.iter().filter_map(|info| facts(info, zones.get(info.instance_type()?.as_str()), &known)).collect();
    types.sort_by(|a, b| a.name.cmp(&b.name));
    types.dedup_by(|a, b| a.name == b.name);
    Ok(types)
}

async fn described(aws: &Connection, caller: &Caller) -> Result<Vec<InstanceTypeInfo>, CloudError> {
    let filter = |name: &str, values: &[&str]| {
        let values = values.iter().map(|value| (*value).to_owned()).collect();
        Filter::builder().name(name).set_values(Some(values)).build()
    };
    let filters = vec![
        filter("supported-virtualization-type", &["hvm"]),
        filter("processor-info.supported-architecture", &["x86_64", "arm64"]),
    ];
    let mut all = Vec::new();
    let mut token: Option<String> = None;
    loop {
        let page = caller
            .call(Family::DescribeEc2, "ec2:DescribeInstanceTypes", || {
                aws.ec2
                    .describe_instance_types()
                    .set_filters(Some(filters.clone()))
                    .max_results(100)
                    .set_next_token(token.clone())
                    .send()
            })
            .await
            .map_err(|failure| failure.into_error("instance types"))?;
        all.extend_from_slice(page.instance_types());
        token = page.next_token().filter(|token| !token.is_empty()).map(str::to_owned);
        if token.is_none() {
            return Ok(all);
        }
    }
}

/// Returns the zones by type, sorted.
async fn offered(aws: &Connection, caller: &Caller) -> Result<BTreeMap<String, Vec<Arc<str>>>, CloudError> {
    let mut all: BTreeMap<String, Vec<Arc<str>>> = BTreeMap::new();
    let mut token: Option<String> = None;
    loop {
        let page = caller
            .call(Family::DescribeEc2, "ec2:DescribeInstanceTypeOfferings", || {
                aws.ec2
                    .describe_instance_type_offerings()
                    .location_type(LocationType::AvailabilityZone)
                    .max_results(1000)
                    .set_next_token(token.clone())
                    .send()
            })
            .await
            .map_err(|failure| failure.into_error("offerings of instance types"))?;
        for offering in page.instance_type_offerings() {
            if let (Some(name), Some(zone)) = (offering.instance_type(), offering.location()) {
                all.entry(name.as_str().to_owned()).or_default().push(zone.into());
            }
        }
        token = page.next_token().filter(|token| !token.is_empty()).map(str::to_owned);
        if token.is_none() {
            break;
        }
    }
    for zones in all.values_mut() {
        zones.sort_unstable();
        zones.dedup();
    }
    Ok(all)
}

/// The two figures that calls do not return: branch interfaces, and the bandwidth that EC2's documentation states.
type Figures = BTreeMap<Arc<str>, (u32, Option<u64>)>;

fn known_figures() -> Figures {
    let Ok(ec2) = Ec2::embedded() else { return Figures::new() };
    let of_regions = ec2.regions().iter().flat_map(|region| ec2.types(region));
    of_regions.map(|(facts, _)| (facts.name, (facts.network.branch_interfaces, facts.network.baseline_mbps))).collect()
}

fn count(number: Option<i32>) -> u32 {
    number.and_then(|number| u32::try_from(number).ok()).unwrap_or(0)
}

fn count64(number: Option<i64>) -> u64 {
    number.and_then(|number| u64::try_from(number).ok()).unwrap_or(0)
}

fn facts(info: &InstanceTypeInfo, zones: Option<&Vec<Arc<str>>>, known: &Figures) -> Option<InstanceTypeFacts> {
    let name: Arc<str> = info.instance_type()?.as_str().into();
    let processor = info.processor_info()?;
    let architecture = processor.supported_architectures().iter().find_map(|architecture| match architecture {
        ArchitectureType::X8664 => Some(Architecture::Amd64),
        ArchitectureType::Arm64 => Some(Architecture::Arm64),
        _ => None,
    })?;
    let has = |class: &UsageClassType| info.supported_usage_classes().contains(class);
    let strategies = info.placement_group_info().map(|groups| groups.supported_strategies()).unwrap_or_default();
    let strategy = |name: &str| match name {
        "cluster" => Some(PlacementStrategy::Cluster),
        "partition" => Some(PlacementStrategy::Partition),
        "spread" => Some(PlacementStrategy::Spread),
        _ => None,
    };
    let storage = info.instance_storage_info().map(|storage| InstanceStorage {
        total_gb: count64(storage.total_size_in_gb()),
        nvme: storage.nvme_support().is_some_and(|nvme| *nvme != EphemeralNvmeSupport::Unsupported),
    });
    let ebs = info.ebs_info().filter(|ebs| ebs.ebs_optimized_support() == Some(&EbsOptimizedSupport::Default));
    let bandwidth = ebs.and_then(|ebs| ebs.ebs_optimized_info()?.maximum_bandwidth_in_mbps());
    let gpus = info.gpu_info().map(|gpus| gpus.gpus()).unwrap_or_default();
    let neurons = info.neuron_info().map(|neuron| neuron.neuron_devices()).unwrap_or_default();
    let accelerators = info.inference_accelerator_info().map(|info| info.accelerators()).unwrap_or_default();
    let text = |text: Option<&str>| -> Arc<str> { text.unwrap_or_default().into() };
    Some(InstanceTypeFacts {
        architecture,
        vcpus: count(info.v_cpu_info().and_then(|cpus| cpus.default_v_cpus())),
        memory_mib: count64(info.memory_info().and_then(|memory| memory.size_in_mib())),
        processor: Processor {
            manufacturer: text(processor.manufacturer()),
            clock_mhz: processor.sustained_clock_speed_in_ghz().map(megahertz),
            features: processor.supported_features().iter().map(|feature| feature.as_str().into()).collect(),
        },
        hypervisor: text(info.hypervisor().map(|hypervisor| hypervisor.as_str())),
        bare_metal: info.bare_metal() == Some(true),
        nitro_enclaves: info.nitro_enclaves_support() == Some(&NitroEnclavesSupport::Supported),
        usage: UsageClasses {
            on_demand: has(&UsageClassType::OnDemand),
            spot: has(&UsageClassType::Spot),
            capacity_block: has(&UsageClassType::CapacityBlock),
        },
        placement: strategies.iter().filter_map(|one| strategy(one.as_str())).collect(),
        network: network(info.network_info(), known.get(&name).copied().unwrap_or_default()),
        ebs: EbsFacts { bandwidth_mbps: bandwidth.and_then(|mbps| u64::try_from(mbps).ok()) },
        instance_storage: storage,
        gpus: gpus
            .iter()
            .map(|gpu| Gpu {
                name: text(gpu.name()),
                manufacturer: text(gpu.manufacturer()),
                count: count(gpu.count()),
                memory_mib: u64::from(count(gpu.memory_info().and_then(|memory| memory.size_in_mib()))),
            })
            .collect(),
        neuron_devices: neurons
            .iter()
            .map(|device| NeuronDevice {
                name: text(device.name()),
                count: count(device.count()),
                cores: count(device.core_info().and_then(|cores| cores.count())),
                memory_mib: u64::from(count(device.memory_info().and_then(|memory| memory.size_in_mib()))),
            })
            .collect(),
        inference_accelerators: accelerators
            .iter()
            .map(|device| Accelerator {
                name: text(device.name()),
                manufacturer: text(device.manufacturer()),
                count: count(device.count()),
                memory_mib: u64::from(count(device.memory_info().and_then(|memory| memory.size_in_mib()))),
            })
            .collect(),
        zones: zones.cloned().unwrap_or_default(),
        name,
    })
}

fn network(info: Option<&NetworkInfo>, (branch_interfaces, baseline_mbps): (u32, Option<u64>)) -> NetworkFacts {
    let Some(info) = info else { return NetworkFacts::default() };
    let mut cards: Vec<(i32, u32)> = info
        .network_cards()
        .iter()
        .map(|card| (card.network_card_index().unwrap_or(0), count(card.maximum_network_interfaces())))
        .collect();
    cards.sort_unstable();
    NetworkFacts {
        interfaces_by_card: cards.into_iter().map(|(_, interfaces)| interfaces).collect(),
        default_card: info.default_network_card_index().and_then(|index| usize::try_from(index).ok()).unwrap_or(0),
        ipv4_per_interface: count(info.ipv4_addresses_per_interface()),
        ena: info.ena_support().is_some_and(|ena| *ena != EnaSupport::Unsupported),
        efa_interfaces: count(info.efa_info().and_then(|efa| efa.maximum_efa_interfaces())),
        encryption_in_transit: info.encryption_in_transit_supported() == Some(true),
        branch_interfaces,
        baseline_mbps,
    }
}

fn megahertz(gigahertz: f64) -> u32 {
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "clamped to the range of u32")]
    let megahertz = (gigahertz * 1000.0).round().clamp(0.0, f64::from(u32::MAX)) as u32;
    megahertz
}
