//! Resource quantities in the format of Kubernetes, and a shorter one for tables.

use std::collections::BTreeMap;

use muster_aws::quantity::format;
use muster_scheduling::model::{Resource, Resources};

/// Binary suffixes, largest first.
const BINARY: [(&str, i64); 4] = [("Ti", 1 << 40), ("Gi", 1 << 30), ("Mi", 1 << 20), ("Ki", 1 << 10)];

/// Formats all of `resources` by name, exactly (`1930m`, `3Gi`).
pub(crate) fn exact_map(resources: &Resources) -> BTreeMap<String, String> {
    resources.iter().map(|(resource, amount)| (resource.name().to_owned(), format(resource, amount))).collect()
}

/// Formats an amount for tables: cores with at most two decimals, bytes with at most one (`1.93`, `14.6Gi`).
pub(crate) fn brief(resource: &Resource, amount: i64) -> String {
    if *resource == Resource::Cpu {
        return decimals(amount as f64 / 1000.0, 2);
    }
    if !is_bytes(resource) {
        return amount.to_string();
    }
    let suffix = BINARY.iter().find(|(_, unit)| amount.saturating_abs() >= *unit);
    suffix.map_or_else(|| amount.to_string(), |(suffix, unit)| decimals(amount as f64 / *unit as f64, 1) + suffix)
}

fn is_bytes(resource: &Resource) -> bool {
    match resource {
        Resource::Memory | Resource::EphemeralStorage => true,
        Resource::Cpu | Resource::Pods => false,
        Resource::Other(name) => name.starts_with("hugepages-"),
    }
}

fn decimals(value: f64, places: usize) -> String {
    let text = format!("{value:.places$}");
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn brief_quantities_are_rounded() {
        assert_eq!(brief(&Resource::Cpu, 1930), "1.93");
        assert_eq!(brief(&Resource::Cpu, 4000), "4");
        assert_eq!(brief(&Resource::Memory, 15_676_000_000), "14.6Gi");
        assert_eq!(brief(&Resource::Memory, 0), "0");
        assert_eq!(brief(&Resource::Pods, 110), "110");
    }
}
