//! Reads the machine's state: `/proc`, `/sys`, disks, programs.

use std::collections::{BTreeMap, BTreeSet};
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;

use fs_err as fs;
use muster_bootstrap::Family;
use muster_bootstrap::image::program_version;
use nix::sys::statvfs::statvfs;
use sysinfo::System;

use super::kubeconfig::TokenProgram;
use crate::devices::catalogue::Function;
use crate::devices::chain::Sightings;
use crate::preflight::machine::{DISKS, Disk, INOTIFY, KERNEL, Machine, POD_TABLE, listening};

/// Path of the image's kubelet.
pub const KUBELET: &str = "/usr/bin/kubelet";
/// Token program used until the bootstrap has written a kubeconfig.
pub const TOKEN_PROGRAM: TokenProgram = TokenProgram::AwsCli;

/// Returns the boot ID, as in `Node.status.nodeInfo.bootID`. The kubelet reads the same file.
#[must_use]
pub fn boot_id() -> String {
    fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap_or_default().trim().to_owned()
}

/// Returns the kubelet version recorded in the image, if any.
#[must_use]
pub fn kubelet_version() -> Option<String> {
    fs::read_to_string("/etc/eks/kubelet-version.txt").ok()
}

/// Reads the machine's state. Unreadable parts are left empty.
#[must_use]
pub fn read(ports: BTreeSet<u16>) -> Machine {
    let setting = |name: &str| {
        let value = fs::read_to_string(format!("/proc/sys/{name}")).ok()?;
        Some((name.to_owned(), value.trim().to_owned()))
    };
    Machine {
        host_name: System::host_name().unwrap_or_default(),
        boot_id: boot_id(),
        // By hand: the line is the evidence, and the kubelet decides by it.
        swaps: fs::read_to_string("/proc/swaps").unwrap_or_default(),
        has_unified_cgroups: Path::new("/sys/fs/cgroup/cgroup.controllers").exists(),
        kernel: KERNEL.iter().map(|(name, _)| *name).chain([INOTIFY]).filter_map(setting).collect(),
        disks: DISKS.iter().filter_map(|path| Some(((*path).to_owned(), disk(path)?))).collect(),
        ports,
        containerd_config: fs::read_to_string("/etc/containerd/config.toml").ok(),
        uptime: System::uptime().unwrap_or(0),
        numa_nodes: names("/sys/devices/system/node").iter().filter(|it| is_numbered(it, "node")).count(),
        control_groups: control_groups(),
        links: links(),
        refused: refused(),
        pod_table: fs::read_to_string(POD_TABLE).ok(),
        containerd_version: containerd_version(),
    }
}

/// Returns the listening TCP ports.
#[must_use]
pub fn ports() -> BTreeSet<u16> {
    let all = ["/proc/net/tcp", "/proc/net/tcp6"].map(|path| fs::read_to_string(path).unwrap_or_default());
    all.iter().flat_map(|text| listening(text)).collect()
}

fn containerd_version() -> Option<String> {
    let text = fs::read_to_string("/etc/eks/containerd-version.txt").ok()?;
    program_version(&text).map(ToOwned::to_owned)
}

fn names(folder: &str) -> Vec<String> {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    entries.map(|entry| entry.file_name().to_string_lossy().into_owned()).collect()
}

fn is_numbered(name: &str, stem: &str) -> bool {
    name.strip_prefix(stem).is_some_and(|rest| rest.parse::<u32>().is_ok())
}

/// Returns the top-level cgroups of cgroup v2, or of the memory and CPU controllers of cgroup v1.
fn control_groups() -> BTreeSet<String> {
    ["/sys/fs/cgroup", "/sys/fs/cgroup/memory", "/sys/fs/cgroup/cpu"].into_iter().flat_map(names).collect()
}

/// Returns the network interfaces with their systemd-networkd state, which is in a file named after the interface
/// index.
fn links() -> BTreeMap<String, String> {
    let number = |name: &String| fs::read_to_string(format!("/sys/class/net/{name}/ifindex")).ok();
    let state = |name: &String| {
        let text = fs::read_to_string(format!("/run/systemd/netif/links/{}", number(name)?.trim())).ok()?;
        text.lines().find_map(|line| line.strip_prefix("ADMIN_STATE=")).map(ToOwned::to_owned)
    };
    names("/sys/class/net").into_iter().filter_map(|name| Some((name.clone(), state(&name)?))).collect()
}

/// Returns the bootstrap programs that systemd cannot execute, with the reason.
fn refused() -> BTreeMap<String, String> {
    ["/usr/bin/nodeadm", "/etc/eks/bootstrap.sh"]
        .into_iter()
        .filter_map(|path| Some((path.to_owned(), why_refused(Path::new(path))?)))
        .collect()
}

/// Returns the reason why an existing file cannot be executed; `None` if it can, or does not exist.
#[must_use]
pub fn why_refused(path: &Path) -> Option<String> {
    let mode = fs::metadata(path).ok()?.permissions().mode();
    if mode & 0o111 == 0 {
        return Some(format!("mode {:04o}", mode & 0o7777));
    }
    let is_enforcing = fs::read_to_string("/sys/fs/selinux/enforce").is_ok_and(|text| text.trim() == "1");
    let label = xattr::get_deref(path, "security.selinux").ok().flatten().filter(|_| is_enforcing)?;
    let label = String::from_utf8_lossy(&label).trim_end_matches('\0').to_owned();
    // SELinux labels of files copied from elsewhere, which systemd may not execute.
    let is_strange = ["user_home_t", "admin_home_t", "tmp_t", "user_tmp_t", "unlabeled_t", "default_t"]
        .iter()
        .any(|kind| label.split(':').nth(2) == Some(kind));
    is_strange.then(|| format!("SELinux is enforcing, label {label}"))
}

/// Returns the value of a systemd specifier in the kubelet's unit; `None` for uncommon ones.
/// Source: systemd.unit(5), Specifiers.
#[must_use]
pub fn specifier(letter: char) -> Option<String> {
    let file = |path: &str| fs::read_to_string(path).ok().map(|text| text.trim().replace('-', ""));
    let release = |name: &str| {
        let text = fs::read_to_string("/etc/os-release").unwrap_or_default();
        let value = text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix('=')).unwrap_or_default();
        Some(value.trim_matches(['"', '\'']).to_owned())
    };
    let text = match letter {
        'n' => "kubelet.service",
        'N' | 'p' | 'P' | 'j' | 'J' => "kubelet",
        'i' | 'I' => "",
        't' => "/run",
        'S' => "/var/lib",
        'C' => "/var/cache",
        'L' => "/var/log",
        'E' => "/etc",
        'T' => "/tmp",
        'V' => "/var/tmp",
        'u' | 'g' => "root",
        'U' | 'G' => "0",
        'h' => "/root",
        'H' => return System::host_name().ok(),
        'l' => return specifier('H').and_then(|name| name.split('.').next().map(ToOwned::to_owned)),
        'v' => return System::kernel_version().ok(),
        'a' => return Some(std::env::consts::ARCH.replace('_', "-").replace("aarch64", "arm64")),
        'o' => return release("ID"),
        'w' => return release("VERSION_ID"),
        'W' => return release("VARIANT_ID"),
        'B' => return release("BUILD_ID"),
        'M' => return release("IMAGE_ID"),
        'A' => return release("IMAGE_VERSION"),
        'm' => return file("/etc/machine-id"),
        'b' => return file("/proc/sys/kernel/random/boot_id"),
        _ => return None,
    };
    Some(text.to_owned())
}

/// Returns the size of the disk that a path is on. One system call: a list of all disks asks each mount of each pod,
/// and hangs with a network file system that does not answer; nor does it say what is reserved for root.
fn disk(path: &str) -> Option<Disk> {
    let room = statvfs(path).ok()?;
    let bytes = |blocks: u64| blocks.saturating_mul(room.fragment_size());
    Some(Disk { size: bytes(room.blocks()), free: bytes(room.blocks_free()) })
}

/// Returns the AMI family, detected by the bootstrap program.
#[must_use]
pub fn family() -> Option<Family> {
    if Path::new("/usr/bin/nodeadm").exists() {
        Some(Family::Al2023)
    } else if Path::new("/etc/eks/bootstrap.sh").exists() {
        Some(Family::Al2)
    } else {
        None
    }
}

/// Returns the hardware part of the device chains: PCI bus and `/dev`.
#[must_use]
pub fn hardware() -> Sightings {
    Sightings { functions: functions(), files: files(), ..Sightings::default() }
}

fn functions() -> Vec<Function> {
    let Ok(folder) = fs::read_dir("/sys/bus/pci/devices") else { return Vec::new() };
    let mut found: Vec<Function> = folder
        .flatten()
        .map(|entry| {
            let number = |name: &str| {
                let text = fs::read_to_string(entry.path().join(name)).unwrap_or_default();
                text.trim().trim_start_matches("0x").to_owned()
            };
            let driver = fs::read_link(entry.path().join("driver")).ok();
            let driver = driver.and_then(|path| Some(path.file_name()?.to_string_lossy().into_owned()));
            Function { vendor: number("vendor"), device: number("device"), class: number("class"), driver }
        })
        .collect();
    found.sort();
    found
}

/// Returns names below `/dev`, and below the folders that device drivers use.
fn files() -> Vec<String> {
    let list = |folder: &str, prefix: &str| {
        let entries = fs::read_dir(folder).into_iter().flatten().flatten();
        entries.map(|entry| format!("{prefix}{}", entry.file_name().to_string_lossy())).collect::<Vec<_>>()
    };
    let mut files = list("/dev", "");
    files.extend(list("/dev/infiniband", "infiniband/"));
    files.extend(list("/dev/accel", "accel/"));
    files.sort();
    files
}

/// Returns true if the kubelet's socket for device plugins exists.
#[must_use]
pub fn has_plugin_registry() -> bool {
    Path::new("/var/lib/kubelet/device-plugins/kubelet.sock").exists()
}

/// Returns the absolute paths that do not exist.
#[must_use]
pub fn missing(paths: &[String]) -> Vec<String> {
    paths.iter().filter(|path| path.starts_with('/') && !Path::new(path).exists()).cloned().collect()
}

/// Returns path and text of the files in a folder with this ending, sorted by path.
#[must_use]
pub fn texts_in(folder: &str, ending: &str) -> BTreeMap<String, String> {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    let paths = entries.map(|entry| entry.path().to_string_lossy().into_owned()).filter(|path| path.ends_with(ending));
    paths.filter_map(|path| Some((path.clone(), fs::read_to_string(&path).ok()?))).collect()
}
