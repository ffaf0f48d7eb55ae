//! Extended resources that the agent supports, from the table `data/resources.tsv`.

use std::sync::LazyLock;

/// An extended resource.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Resource {
    /// Resource name, such as `nvidia.com/gpu`.
    pub name: &'static str,
    /// Hardware behind the resource; `None` if the control plane writes it to the Node.
    pub hardware: Option<Hardware>,
    /// Other names under which a device plugin may offer the same devices. A name that ends in `-` is a prefix.
    pub aliases: Vec<&'static str>,
}

/// Hardware as it appears on Linux.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Hardware {
    /// PCI vendor ID, four hexadecimal digits.
    pub vendor: &'static str,
    /// PCI device IDs, `class:` with a prefix of the PCI class, or `*`.
    pub devices: Vec<&'static str>,
    /// Name of the kernel driver.
    pub driver: &'static str,
    /// Prefix of the device files below `/dev`; `[0-9]` at the end stands for a digit.
    pub file: &'static str,
    /// Prefix of the device plugin's socket.
    pub socket: &'static str,
}

/// A PCI function, from `/sys/bus/pci/devices`.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Function {
    /// Vendor ID, four hexadecimal digits.
    pub vendor: String,
    /// Device ID, four hexadecimal digits.
    pub device: String,
    /// Class, six hexadecimal digits.
    pub class: String,
    /// Name of the driver that is bound to it.
    pub driver: Option<String>,
}

static TABLE: LazyLock<Vec<Resource>> =
    LazyLock::new(|| include_str!("../../data/resources.tsv").lines().filter_map(parse).collect());

/// Returns all resources.
#[must_use]
pub fn all() -> &'static [Resource] {
    &TABLE
}

/// Returns the resource with this name or alias.
#[must_use]
pub fn find(name: &str) -> Option<&'static Resource> {
    all().iter().find(|it| it.name == name).or_else(|| all().iter().find(|it| it.is_alias(name)))
}

impl Resource {
    /// Returns true if `name` is an alias of the resource.
    #[must_use]
    pub fn is_alias(&self, name: &str) -> bool {
        self.aliases.iter().any(|alias| *alias == name || alias.ends_with('-') && name.starts_with(alias))
    }
}

impl Hardware {
    /// Returns true if a PCI function is of this hardware.
    #[must_use]
    pub fn is(&self, function: &Function) -> bool {
        let fits = |pattern: &&str| match pattern.strip_prefix("class:") {
            Some(class) => function.class.starts_with(class),
            None => *pattern == "*" || *pattern == function.device,
        };
        function.vendor == self.vendor && self.devices.iter().any(fits)
    }

    /// Returns true if a name below `/dev` is a device file of this hardware.
    #[must_use]
    pub fn is_file(&self, name: &str) -> bool {
        match self.file.strip_suffix("[0-9]") {
            Some(stem) => name.strip_prefix(stem).is_some_and(|rest| rest.starts_with(|it: char| it.is_ascii_digit())),
            None => name.starts_with(self.file),
        }
    }
}

fn parse(row: &'static str) -> Option<Resource> {
    if row.starts_with('#') {
        return None;
    }
    let columns: Vec<&'static str> = row.split('\t').collect();
    let [name, by, vendor, devices, driver, file, socket, aliases] = columns.as_slice() else { return None };
    let devices = devices.split(' ').collect();
    let hardware = (*by == "plugin").then_some(Hardware { vendor, devices, driver, file, socket });
    let aliases = aliases.split(' ').filter(|alias| *alias != "-").collect();
    Some(Resource { name, hardware, aliases })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_row_is_read() {
        let rows = include_str!("../../data/resources.tsv").lines().filter(|row| !row.starts_with('#')).count();
        assert_eq!(all().len(), rows);
    }

    #[test]
    fn devices_are_known_by_their_numbers_and_names() {
        let function = |vendor: &str, device: &str, class: &str| Function {
            vendor: vendor.to_owned(),
            device: device.to_owned(),
            class: class.to_owned(),
            driver: None,
        };
        let gpu = find("nvidia.com/mig-1g.10gb").unwrap();
        assert_eq!(gpu.name, "nvidia.com/gpu");
        let hardware = gpu.hardware.as_ref().unwrap();
        assert!(hardware.is(&function("10de", "20b0", "030200")));
        assert!(!hardware.is(&function("10de", "1af1", "068000")), "an NVSwitch is no GPU");
        assert!(!hardware.is(&function("1d0f", "20b0", "030200")));
        assert!(hardware.is_file("nvidia0") && !hardware.is_file("nvidiactl"));
        let efa = find("vpc.amazonaws.com/efa").unwrap().hardware.as_ref().unwrap();
        assert!(efa.is(&function("1d0f", "efa2", "020000")) && !efa.is(&function("1d0f", "ec20", "020000")));
        assert!(find("vpc.amazonaws.com/pod-eni").unwrap().hardware.is_none());
        assert_eq!(find("cpu"), None);
    }
}
