//! Devices of EC2 instance types, as DRA drivers publish them.

/// Driver of NVIDIA GPUs.
pub const NVIDIA_DRIVER: &str = "gpu.nvidia.com";
/// Driver of network devices (DRANET).
pub const NETWORK_DRIVER: &str = "dra.net";

/// Devices of a node of an instance type.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TypeDevices {
    /// Product name of the GPUs.
    pub product: &'static str,
    /// Their architecture.
    pub architecture: &'static str,
    /// Their compute capability, a version.
    pub compute_capability: &'static str,
    /// Memory of each, in MiB.
    pub memory_mib: u32,
    /// Number of GPUs.
    pub gpus: u32,
    /// Number of EFA devices.
    pub efas: u32,
    /// Number of PCIe roots over which both are spread evenly, if it is known.
    pub roots: Option<u32>,
}

/// Returns the devices of an instance type, if the table has it.
#[must_use]
pub fn of_type(instance_type: &str) -> Option<TypeDevices> {
    rows()
        .find(|(family, size, _)| instance_type.split_once('.') == Some((*family, *size)))
        .map(|(.., devices)| devices)
}

fn rows() -> impl Iterator<Item = (&'static str, &'static str, TypeDevices)> {
    let lines = include_str!("../data/devices.tsv").lines().filter(|line| !line.starts_with('#'));
    lines.filter_map(row).flatten()
}

fn row(line: &'static str) -> Option<impl Iterator<Item = (&'static str, &'static str, TypeDevices)>> {
    let mut cells = line.split('\t');
    let (family, product, architecture) = (cells.next()?, cells.next()?, cells.next()?);
    let (compute_capability, memory_mib) = (cells.next()?, cells.next()?.parse().ok()?);
    let sizes = cells.next()?.split(' ');
    Some(sizes.filter_map(move |cell| {
        let (size, numbers) = cell.split_once(':')?;
        let mut numbers = numbers.split('/').map(str::parse);
        let (gpus, efas) = (numbers.next()?.ok()?, numbers.next()?.ok()?);
        let roots = numbers.next().transpose().ok()?;
        let devices = TypeDevices { product, architecture, compute_capability, memory_mib, gpus, efas, roots };
        Some((family, size, devices))
    }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_row_of_the_table_is_read() {
        let lines = include_str!("../data/devices.tsv").lines().filter(|line| !line.starts_with('#'));
        let cells: usize = lines.map(|line| line.rsplit('\t').next().unwrap().split(' ').count()).sum();
        assert_eq!((rows().count(), cells), (53, 53));
        for (family, size, devices) in rows() {
            let even = devices.roots.is_none_or(|roots| devices.gpus % roots == 0 && devices.efas % roots == 0);
            assert!(devices.gpus > 0 && devices.memory_mib > 1000 && even, "{family}.{size}");
        }
    }

    #[test]
    fn a_type_has_its_devices() {
        let p5 = of_type("p5.48xlarge").unwrap();
        assert_eq!((p5.product, p5.gpus, p5.efas, p5.roots), ("NVIDIA H100 80GB HBM3", 8, 32, Some(8)));
        assert_eq!(of_type("g6f.2xlarge").map(|one| (one.product, one.memory_mib)), Some(("NVIDIA L4-6Q", 5722)));
        assert_eq!(of_type("g6.medium"), None);
        assert_eq!(of_type("m7g.large"), None);
    }
}
