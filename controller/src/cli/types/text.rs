//! Text of instance types.

use std::collections::BTreeSet;

use muster_scheduling::model::{InstanceType, Offering, Resource};

use super::super::grid::{Grid, Side};
use super::super::palette::Palette;
use super::super::quantity::brief;

/// Resources that are not listed as devices.
const USUAL: [Resource; 4] = [Resource::Cpu, Resource::Memory, Resource::EphemeralStorage, Resource::Pods];

/// Extended resources that nearly every type has.
const ORDINARY: [&str; 2] = ["vpc.amazonaws.com/pod-eni", "vpc.amazonaws.com/PrivateIPv4Address"];

/// Formats `types` in their order.
pub(super) fn render(types: &[InstanceType], price_source: &str, palette: Palette) -> String {
    let mut grid = Grid::new([
        ("INSTANCE TYPE", Side::Left),
        ("ARCH", Side::Left),
        ("CPU", Side::Right),
        ("MEMORY", Side::Right),
        ("PODS", Side::Right),
        ("FOR PODS: CPU", Side::Right),
        ("MEMORY", Side::Right),
        ("$/HOUR FROM", Side::Right),
        ("CAPACITY", Side::Left),
        ("ZONES", Side::Right),
        ("DEVICES", Side::Left),
    ]);
    for instance_type in types {
        let allocatable = instance_type.allocatable();
        let capacity = |resource: &Resource| brief(resource, instance_type.capacity.get(resource));
        grid.push([
            instance_type.name.to_string(),
            instance_type.requirements.single("kubernetes.io/arch").unwrap_or("any").to_owned(),
            capacity(&Resource::Cpu),
            capacity(&Resource::Memory),
            capacity(&Resource::Pods),
            brief(&Resource::Cpu, allocatable.get(&Resource::Cpu)),
            brief(&Resource::Memory, allocatable.get(&Resource::Memory)),
            cheapest(instance_type),
            available(instance_type, Offering::capacity_type).into_iter().collect::<Vec<_>>().join(","),
            available(instance_type, Offering::zone).len().to_string(),
            devices(instance_type),
        ]);
    }
    let count = types.len();
    let plural = if count == 1 { "" } else { "s" };
    let unknown = types.iter().filter(|it| !it.offerings.iter().any(Offering::launchable)).count();
    let mut text = grid.render(palette);
    text.push('\n');
    text.push_str(&palette.strong(format!("{count} instance type{plural}")));
    if unknown > 0 {
        text.push_str(&format!(", {unknown} of them never launched (no price, or nothing available)"));
    }
    text.push('\n');
    text.push_str(&palette.faint(format!("Prices: {price_source}.")));
    text.push('\n');
    text
}

fn cheapest(instance_type: &InstanceType) -> String {
    let launchable = instance_type.offerings.iter().filter(|offering| offering.launchable());
    let cheapest = launchable.filter_map(|offering| offering.price).min_by(f64::total_cmp);
    cheapest.map_or_else(|| "-".to_owned(), |price| format!("{price:.4}"))
}

fn available<'a>(
    instance_type: &'a InstanceType,
    label: impl Fn(&'a Offering) -> Option<&'a str>,
) -> BTreeSet<&'a str> {
    instance_type.offerings.iter().filter(|offering| offering.available).filter_map(label).collect()
}

fn devices(instance_type: &InstanceType) -> String {
    let entries = instance_type.capacity.iter();
    let devices = entries
        .filter(|(resource, amount)| *amount > 0 && !USUAL.contains(resource) && !ORDINARY.contains(&resource.name()));
    devices.map(|(resource, amount)| format!("{} {amount}", resource.name())).collect::<Vec<_>>().join(", ")
}
