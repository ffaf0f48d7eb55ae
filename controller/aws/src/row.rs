//! A line of the embedded table, whose header names the columns.

use std::str::FromStr;
use std::sync::Arc;

use crate::facts::{
    Accelerator, Architecture, EbsFacts, Gpu, InstanceStorage, InstanceTypeFacts, NetworkFacts, NeuronDevice,
    PlacementStrategy, Processor, UsageClasses,
};

const COLUMNS: usize = 21;
/// Digits of the zones column, 6 bits each: `0` means that the type is not offered, `_` has all six bits set.
const DIGITS: &str = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz-_";

/// A type, its price, and its zones.
#[derive(Debug)]
pub(crate) struct Row {
    /// Without zones, which depend on the region.
    pub(crate) facts: InstanceTypeFacts,
    /// On-demand price in USD per hour.
    pub(crate) price: Option<f64>,
    zones: &'static str,
}

impl Row {
    /// Returns a bit mask of the zones of the region in `column` that offer the type.
    pub(crate) fn zones(&self, column: usize) -> usize {
        let digit = self.zones.as_bytes().get(column);
        digit.and_then(|digit| DIGITS.bytes().position(|known| known == *digit)).unwrap_or(0)
    }
}

/// Parses one line.
pub(crate) fn parse(line: &'static str) -> Result<Row, String> {
    let columns: Vec<&'static str> = line.split('\t').collect();
    let columns: [&'static str; COLUMNS] =
        columns.try_into().map_err(|columns: Vec<_>| format!("{} columns, expected {COLUMNS}", columns.len()))?;
    let [
        name,
        architecture,
        vcpus,
        memory,
        manufacturer,
        clock,
        features,
        hypervisor,
        flags,
        cards,
        ipv4,
        efa,
        ebs,
        storage,
        gpus,
        neuron,
        inference,
        price,
        branch,
        bandwidth,
        zones,
    ] = columns;
    let has = |flag: char| flags.contains(flag);
    let strategies =
        [('k', PlacementStrategy::Cluster), ('p', PlacementStrategy::Partition), ('r', PlacementStrategy::Spread)];
    let facts = InstanceTypeFacts {
        name: name.into(),
        architecture: Architecture::from_label(architecture).ok_or_else(|| format!("architecture `{architecture}`"))?,
        vcpus: number("vcpus", vcpus)?,
        memory_mib: number("memory-mib", memory)?,
        processor: Processor {
            manufacturer: manufacturer.into(),
            clock_mhz: optional("clock-mhz", clock)?,
            features: features.split(',').filter(|feature| !feature.is_empty()).map(Into::into).collect(),
        },
        hypervisor: hypervisor.into(),
        bare_metal: has('b'),
        nitro_enclaves: has('n'),
        usage: UsageClasses { on_demand: has('o'), spot: has('s'), capacity_block: has('c') },
        placement: strategies.into_iter().filter(|(flag, _)| has(*flag)).map(|(_, strategy)| strategy).collect(),
        network: NetworkFacts {
            interfaces_by_card: network_cards(cards)?,
            default_card: 0,
            ipv4_per_interface: number("ipv4-per-interface", ipv4)?,
            ena: has('a'),
            efa_interfaces: number("efa-interfaces", efa)?,
            encryption_in_transit: has('e'),
            branch_interfaces: optional("branch-interfaces", branch)?.unwrap_or(0),
            baseline_mbps: optional("network-mbps", bandwidth)?,
        },
        ebs: EbsFacts { bandwidth_mbps: optional("ebs-mbps", ebs)? },
        instance_storage: optional("storage-gb", storage)?.map(|total_gb| InstanceStorage { total_gb, nvme: has('v') }),
        gpus: devices(gpus, gpu)?,
        neuron_devices: devices(neuron, neuron_device)?,
        inference_accelerators: devices(inference, accelerator)?,
        zones: Vec::new(),
    };
    Ok(Row { facts, price: optional("usd-per-hour", price)?, zones })
}

fn number<N: FromStr>(column: &str, text: &str) -> Result<N, String> {
    text.parse().map_err(|_| format!("{column} `{text}`"))
}

fn optional<N: FromStr>(column: &str, text: &str) -> Result<Option<N>, String> {
    if text.is_empty() { Ok(None) } else { number(column, text).map(Some) }
}

/// Parses `8,7` or `32*2` (32 cards with 2 interfaces).
fn network_cards(text: &str) -> Result<Vec<u32>, String> {
    match text.split_once('*') {
        Some((cards, interfaces)) => Ok(vec![number("cards", interfaces)?; number("cards", cards)?]),
        None => text.split(',').map(|interfaces| number("cards", interfaces)).collect(),
    }
}

fn devices<T>(text: &str, parse: impl Fn([&str; 4]) -> Result<T, String>) -> Result<Vec<T>, String> {
    let entries = text.split(';').filter(|entry| !entry.is_empty());
    let four = |entry: &'_ str| -> Result<T, String> {
        let fields: Vec<&str> = entry.split(':').collect();
        parse(fields.try_into().map_err(|_| format!("device `{entry}`"))?)
    };
    entries.map(four).collect()
}

fn gpu([name, manufacturer, count, memory]: [&str; 4]) -> Result<Gpu, String> {
    let (count, memory_mib) = (number("gpus", count)?, number("gpus", memory)?);
    Ok(Gpu { name: name.into(), manufacturer: manufacturer.into(), count, memory_mib })
}

fn neuron_device([name, count, cores, memory]: [&str; 4]) -> Result<NeuronDevice, String> {
    let name: Arc<str> = name.into();
    let (count, cores) = (number("neuron", count)?, number("neuron", cores)?);
    Ok(NeuronDevice { name, count, cores, memory_mib: number("neuron", memory)? })
}

fn accelerator([name, manufacturer, count, memory]: [&str; 4]) -> Result<Accelerator, String> {
    let (count, memory_mib) = (number("inference", count)?, number("inference", memory)?);
    Ok(Accelerator { name: name.into(), manufacturer: manufacturer.into(), count, memory_mib })
}
