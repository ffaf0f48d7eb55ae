//! The hardware that a machine shows: the files in which Linux describes it, bound over the host's.
//!
//! The kubelet (cAdvisor) counts processors in `/sys/devices/system/cpu` and reads the memory from `/proc/meminfo`, so a
//! machine has the capacity of its instance type although it shares the host's. What it uses is real.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use super::files::Files;
use crate::error::{Error, Result};

/// What an instance type has.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Shape {
    /// vCPUs; two to a core.
    pub cpus: u32,
    /// Memory as the kernel counts it (`MemTotal`), in MiB: less than the type's, of which firmware takes a part.
    pub memory_mib: u64,
    /// The root volume in GiB.
    pub disk_gib: u64,
    /// Swap in MiB, in use from the start. EC2's images have none.
    pub swap_mib: u64,
    /// How many pods the image's table allows the type (`eni-max-pods.txt`).
    pub max_pods: u32,
    /// The PCI bus: functions as `(vendor, device, class)`, in hexadecimal as Linux writes them, which no driver has. Empty is the
    /// host's bus.
    pub pci: Vec<(String, String, String)>,
    /// Kernel settings below `/proc/sys`, as `vm/overcommit_memory`, beside those of [`KERNEL`].
    pub kernel: BTreeMap<String, String>,
}

/// The kernel settings that a kubelet checks and sets, with the values that the EKS images give them
/// (`/etc/sysctl.d/99-amazon.conf`, and the kernel's defaults).
pub const KERNEL: [(&str, &str); 6] = [
    ("kernel/keys/root_maxbytes", "25000000"),
    ("kernel/keys/root_maxkeys", "1000000"),
    ("kernel/panic", "10"),
    ("kernel/panic_on_oops", "1"),
    ("vm/overcommit_memory", "1"),
    ("vm/panic_on_oom", "0"),
];

impl Default for Shape {
    /// An `m5.large`.
    fn default() -> Self {
        Self {
            cpus: 2,
            memory_mib: 7_700,
            disk_gib: 20,
            swap_mib: 0,
            max_pods: 29,
            pci: Vec::new(),
            kernel: BTreeMap::new(),
        }
    }
}

impl Shape {
    /// What EC2 says of an instance type. A sixteenth of the memory is left to firmware and kernel.
    ///
    /// # Errors
    /// When no region has such a type.
    pub fn of_type(name: &str) -> Result<Self> {
        let unknown = |why: String| Error::Missing { what: why, hint: "give a type that EC2 offers".to_owned() };
        let ec2 = muster_aws::Ec2::embedded().map_err(|error| unknown(error.to_string()))?;
        let mut types = ec2.regions().iter().flat_map(|region| ec2.types(region)).map(|(facts, _)| facts);
        let facts = types.find(|facts| *facts.name == *name);
        let facts = facts.ok_or_else(|| unknown(format!("there is no instance type `{name}`")))?;
        let network = &facts.network;
        // As in the table of EKS's images: an address of each interface is its own, and two pods have none.
        let max_pods = network.default_interfaces() * network.ipv4_per_interface.saturating_sub(1) + 2;
        Ok(Self { cpus: facts.vcpus, memory_mib: facts.memory_mib / 16 * 15, max_pods, ..Self::default() })
    }

    /// Adds the files to `files`, below `shape/`. Gives what of them is bound where.
    pub(super) fn furnish(&self, files: &mut Files) -> Result<Vec<(PathBuf, PathBuf)>> {
        let mut binds = Vec::new();
        let mut bind = |from: &str, at: &str| binds.push((Path::new("shape").join(from), PathBuf::from(at)));
        for (name, text) in [("meminfo", self.meminfo()), ("swaps", self.swaps()), ("cpuinfo", self.cpuinfo())] {
            files.put(format!("shape/{name}"), &text)?;
            bind(name, &format!("/proc/{name}"));
        }
        // Without a topology: the kubelet would put it into its cpuset, which the host's cannot hold.
        let all = format!("0-{}\n", self.cpus.saturating_sub(1));
        for list in ["online", "possible", "present"] {
            files.put(format!("shape/cpu/{list}"), &all)?;
        }
        (0..self.cpus).try_for_each(|cpu| files.folder(format!("shape/cpu/cpu{cpu}")))?;
        files.folder("shape/node")?;
        bind("cpu", "/sys/devices/system/cpu");
        bind("node", "/sys/devices/system/node");
        for (slot, (vendor, device, class)) in self.pci.iter().enumerate() {
            for (name, value) in [("vendor", vendor), ("device", device), ("class", class)] {
                files.put(format!("shape/pci/0000:00:{slot:02x}.0/{name}"), &format!("0x{value}\n"))?;
            }
        }
        if !self.pci.is_empty() {
            bind("pci", "/sys/bus/pci/devices");
        }
        let defaults = KERNEL.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned()));
        let mut settings: BTreeMap<String, String> = defaults.collect();
        settings.extend(self.kernel.clone());
        for (name, value) in settings {
            files.put(format!("shape/kernel/{name}"), &format!("{value}\n"))?;
            bind(&format!("kernel/{name}"), &format!("/proc/sys/{name}"));
        }
        Ok(binds)
    }

    fn meminfo(&self) -> String {
        let (total, swap) = (self.memory_mib * 1024, self.swap_mib * 1024);
        let (free, half) = (total / 10 * 9, total / 2);
        let mut text = String::new();
        for (name, value) in [
            ("MemTotal", total),
            ("MemFree", free),
            ("MemAvailable", free),
            ("Buffers", 0),
            ("Cached", total / 20),
            ("SwapCached", 0),
            ("Active", total / 20),
            ("Inactive", total / 20),
            ("SwapTotal", swap),
            ("SwapFree", swap),
            ("Shmem", 0),
            ("Slab", total / 100),
            ("SReclaimable", total / 100),
            ("CommitLimit", half),
            ("Committed_AS", total / 20),
            ("Hugepagesize", 2048),
        ] {
            let label = format!("{name}:");
            let _infallible = writeln!(text, "{label:<15} {value:>8} kB");
        }
        text.push_str(
            "HugePages_Total:       0\nHugePages_Free:        0\nHugePages_Rsvd:        0\nHugePages_Surp:        0\n",
        );
        text
    }

    fn swaps(&self) -> String {
        let mut text = "Filename\t\t\t\tType\t\tSize\t\tUsed\t\tPriority\n".to_owned();
        if self.swap_mib > 0 {
            let _infallible =
                writeln!(text, "/swapfile                               file\t\t{}\t\t0\t\t-2", self.swap_mib * 1024);
        }
        text
    }

    fn cpuinfo(&self) -> String {
        let cores = self.cpus.div_ceil(2);
        (0..self.cpus).fold(String::new(), |mut text, cpu| {
            let _infallible = write!(
                text,
                "processor\t: {cpu}\nvendor_id\t: GenuineIntel\ncpu family\t: 6\nmodel\t\t: 85\n\
                 model name\t: Intel(R) Xeon(R) Platinum 8175M CPU @ 2.50GHz\ncpu MHz\t\t: 2500.000\n\
                 physical id\t: 0\nsiblings\t: {}\ncore id\t\t: {}\ncpu cores\t: {cores}\n\n",
                self.cpus,
                cpu / 2,
            );
            text
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_type_is_as_ec2_says() {
        let shape = Shape::of_type("m5.large").unwrap();
        assert_eq!((shape.cpus, shape.memory_mib, shape.max_pods), (2, 7_680, 29));
        let error = Shape::of_type("m5.tiny").unwrap_err();
        assert!(error.to_string().starts_with("there is no instance type `m5.tiny`"), "{error}");
    }

    #[test]
    fn the_files_describe_the_type() {
        let kernel = BTreeMap::from([("vm/overcommit_memory".to_owned(), "0".to_owned())]);
        let shape = Shape {
            cpus: 96,
            memory_mib: 380_000,
            disk_gib: 100,
            swap_mib: 512,
            max_pods: 737,
            kernel,
            ..Shape::default()
        };
        let mut files = Files::new();
        let binds = shape.furnish(&mut files).unwrap();
        let folder = tempfile::tempdir().unwrap();
        tar::Archive::new(files.pack().unwrap().as_slice()).unpack(folder.path()).unwrap();
        let read = |name: &str| std::fs::read_to_string(folder.path().join("shape").join(name)).unwrap();
        assert!(read("meminfo").starts_with("MemTotal:       389120000 kB\n"), "{}", read("meminfo"));
        assert!(read("meminfo").contains("SwapTotal:        524288 kB\n"));
        assert_eq!(read("cpu/online"), "0-95\n");
        assert!(folder.path().join("shape/cpu/cpu95").is_dir());
        assert_eq!(read("kernel/vm/overcommit_memory"), "0\n", "the test's value, not the image's");
        assert_eq!(read("kernel/kernel/panic"), "10\n");
        assert_eq!(binds.len(), 5 + KERNEL.len());
        assert_eq!(read("swaps").lines().count(), 2);
    }
}
