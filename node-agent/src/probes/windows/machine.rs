//! Reads the machine's state: registry, disks, ports, programs.

use std::collections::{BTreeMap, BTreeSet};
use std::net::{Ipv4Addr, SocketAddr, TcpStream};
use std::path::Path;
use std::time::Duration;

use fs_err as fs;
use muster_bootstrap::Family;
use sysinfo::{DiskRefreshKind, Disks, System};
use windows_registry::LOCAL_MACHINE;

use crate::devices::chain::Sightings;
use crate::preflight::machine::{Disk, Machine};
use crate::probes::kubeconfig::TokenProgram;

/// Path of the image's kubelet.
pub const KUBELET: &str = r"C:\Program Files\kubernetes\kubelet.exe";
/// Token program used until the bootstrap has written a kubeconfig.
pub const TOKEN_PROGRAM: TokenProgram =
    TokenProgram::Authenticator(r"C:\Program Files\Amazon\EKS\aws-iam-authenticator.exe");
const SCRIPT: &str = r"C:\Program Files\Amazon\EKS\Start-EKSBootstrap.ps1";
/// Disk with the data of kubelet and containerd.
const DISK: &str = r"C:\";
/// Ports of the kubelet.
const PORTS: [u16; 2] = [10_248, 10_250];
/// Timeout of a connection to a local port, which answers at once. Windows would retry a closed port for two seconds.
const ANSWERS_IN: Duration = Duration::from_millis(50);

/// Returns the boot ID, as in `Node.status.nodeInfo.bootID`.
/// Source: k8s.io/kubernetes, pkg/kubelet/winstats/perfcounter_nodestats_windows.go, getBootID.
#[must_use]
pub fn boot_id() -> String {
    let key =
        LOCAL_MACHINE.open(r"SYSTEM\CurrentControlSet\Control\Session Manager\Memory Management\PrefetchParameters");
    key.and_then(|key| key.get_u32("BootId")).map(|it| it.to_string()).unwrap_or_default()
}

/// Returns `None`: Windows images do not record the kubelet version.
#[must_use]
pub fn kubelet_version() -> Option<String> {
    None
}

/// Returns `None`: Windows has no systemd specifiers.
#[must_use]
pub fn specifier(_: char) -> Option<String> {
    None
}

/// Reads the machine's state. Unreadable parts are left empty.
#[must_use]
pub fn read(ports: BTreeSet<u16>) -> Machine {
    Machine {
        host_name: System::host_name().unwrap_or_default(),
        boot_id: boot_id(),
        has_unified_cgroups: true,
        disks: disk().map(|disk| (DISK.to_owned(), disk)).into_iter().collect(),
        ports,
        uptime: System::uptime().unwrap_or(0),
        containerd_config: fs::read_to_string(r"C:\Program Files\containerd\config.toml").ok(),
        ..Machine::default()
    }
}

/// Returns the kubelet's ports that are listening.
#[must_use]
pub fn ports() -> BTreeSet<u16> {
    PORTS.into_iter().filter(|port| is_open(*port)).collect()
}

fn disk() -> Option<Disk> {
    let disks = Disks::new_with_refreshed_list_specifics(DiskRefreshKind::nothing().with_storage()).ok()?;
    let disk = disks.iter().find(|disk| disk.mount_point() == Path::new(DISK))?;
    Some(Disk { size: disk.total_space(), free: disk.available_space() })
}

fn is_open(port: u16) -> bool {
    TcpStream::connect_timeout(&SocketAddr::from((Ipv4Addr::LOCALHOST, port)), ANSWERS_IN).is_ok()
}

/// Returns the AMI family, detected by the bootstrap script and the build number of Windows.
#[must_use]
pub fn family() -> Option<Family> {
    if !Path::new(SCRIPT).exists() {
        return None;
    }
    let version = LOCAL_MACHINE.open(r"SOFTWARE\Microsoft\Windows NT\CurrentVersion");
    let build = version.and_then(|key| key.get_string("CurrentBuildNumber")).unwrap_or_default();
    Some(match build.parse::<u32>().unwrap_or(0) {
        // Builds of Windows Server: 17763, 20348, 26100.
        17_763 => Family::Windows2019,
        26_100.. => Family::Windows2025,
        _ => Family::Windows2022,
    })
}

/// Returns the hardware part of the device chains, which is not available on this platform.
#[must_use]
pub fn hardware() -> Sightings {
    Sightings { has_no_view: true, ..Sightings::default() }
}

/// Returns false: device plugins are not supported on this platform.
#[must_use]
pub fn has_plugin_registry() -> bool {
    false
}

/// Returns the absolute paths that do not exist.
#[must_use]
pub fn missing(paths: &[String]) -> Vec<String> {
    paths
        .iter()
        .map(Path::new)
        .filter(|path| path.is_absolute() && !path.exists())
        .map(|it| it.display().to_string())
        .collect()
}

/// Returns path and text of the files in a folder with this ending, sorted by path.
#[must_use]
pub fn texts_in(folder: &str, ending: &str) -> BTreeMap<String, String> {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    let paths = entries.map(|entry| entry.path().to_string_lossy().into_owned()).filter(|path| path.ends_with(ending));
    paths.filter_map(|path| Some((path.clone(), fs::read_to_string(&path).ok()?))).collect()
}
