//! The machine: `/proc`, `/sys`, disks, programs.

use std::collections::BTreeMap;
use std::path::Path;

use fs_err as fs;
use muster_bootstrap::Family;

use crate::devices::catalogue::Function;
use crate::devices::chain::Sightings;
use crate::preflight::machine::{DISKS, Disk, INOTIFY, KERNEL, Machine, listening};

/// Reads what there is. What cannot be read is left out.
#[must_use]
pub fn read() -> Machine {
    let text = |path: &str| fs::read_to_string(path).unwrap_or_default();
    let setting = |name: &str| {
        let value = fs::read_to_string(format!("/proc/sys/{name}")).ok()?;
        Some((name.to_owned(), value.trim().to_owned()))
    };
    let mut ports = listening(&text("/proc/net/tcp"));
    ports.extend(listening(&text("/proc/net/tcp6")));
    Machine {
        host_name: rustix::system::uname().nodename().to_string_lossy().into_owned(),
        boot_id: text("/proc/sys/kernel/random/boot_id").trim().to_owned(),
        swaps: text("/proc/swaps"),
        has_unified_cgroups: Path::new("/sys/fs/cgroup/cgroup.controllers").exists(),
        kernel: KERNEL.iter().map(|(name, _)| *name).chain([INOTIFY]).filter_map(setting).collect(),
        disks: DISKS.iter().filter_map(|path| Some(((*path).to_owned(), disk(path)?))).collect(),
        ports,
        containerd_config: fs::read_to_string("/etc/containerd/config.toml").ok(),
        containerd_version: fs::read_to_string("/etc/eks/containerd-version.txt").ok().map(version),
    }
}

fn disk(path: &str) -> Option<Disk> {
    let room = rustix::fs::statvfs(path).ok()?;
    Some(Disk { size: room.f_blocks.saturating_mul(room.f_frsize), free: room.f_bfree.saturating_mul(room.f_frsize) })
}

/// `containerd github.com/containerd/containerd/v2 2.0.5 …`, or `2.0.5`.
fn version(text: String) -> String {
    let is_version = |word: &&str| word.trim_start_matches('v').starts_with(|it: char| it.is_ascii_digit());
    text.split_whitespace().find(is_version).unwrap_or_default().trim_start_matches('v').to_owned()
}

/// The family of the image, by the programs that start its nodes.
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

/// The hardware's part of the chains: the PCI bus and `/dev`.
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

/// Names below `/dev`, and below the folders in which drivers of devices put theirs.
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

/// Whether the kubelet's socket for device plugins is there.
#[must_use]
pub fn has_plugin_registry() -> bool {
    Path::new("/var/lib/kubelet/device-plugins/kubelet.sock").exists()
}

/// Of these paths, those that are not there.
#[must_use]
pub fn missing(paths: &[String]) -> Vec<String> {
    paths.iter().filter(|path| path.starts_with('/') && !Path::new(path).exists()).cloned().collect()
}

/// The files of a folder that end so, in the order of their names, with their texts.
#[must_use]
pub fn texts_in(folder: &str, ending: &str) -> BTreeMap<String, String> {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    let paths = entries.map(|entry| entry.path().to_string_lossy().into_owned()).filter(|path| path.ends_with(ending));
    paths.filter_map(|path| Some((path.clone(), fs::read_to_string(&path).ok()?))).collect()
}
