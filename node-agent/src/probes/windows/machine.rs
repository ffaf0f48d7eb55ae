//! The machine: registry, disks, ports, programs.

use std::collections::{BTreeMap, BTreeSet};
use std::net::{Ipv4Addr, SocketAddr, TcpStream};
use std::path::Path;
use std::time::Duration;

use fs_err as fs;
use muster_bootstrap::Family;
use windows_registry::LOCAL_MACHINE;

use crate::devices::chain::Sightings;
use crate::preflight::machine::{Disk, Machine};
use crate::probes::kubeconfig::TokenProgram;

/// The image's kubelet.
pub const KUBELET: &str = r"C:\Program Files\kubernetes\kubelet.exe";
/// The program that gives a node its token, where the bootstrap has not said so yet.
pub const TOKEN_PROGRAM: TokenProgram =
    TokenProgram::Authenticator(r"C:\Program Files\Amazon\EKS\aws-iam-authenticator.exe");
const SCRIPT: &str = r"C:\Program Files\Amazon\EKS\Start-EKSBootstrap.ps1";
/// Paths that must have room: where kubelet and containerd keep theirs.
const DISK: &str = r"C:\";
/// Ports of the kubelet.
const PORTS: [u16; 2] = [10_248, 10_250];
/// A port of this machine answers at once. Windows would try one that is closed for two seconds.
const ANSWERS_IN: Duration = Duration::from_millis(50);

/// The boot, as Nodes name it.
/// Source: k8s.io/kubernetes, pkg/kubelet/winstats/perfcounter_nodestats_windows.go, getBootID.
#[must_use]
pub fn boot_id() -> String {
    let key =
        LOCAL_MACHINE.open(r"SYSTEM\CurrentControlSet\Control\Session Manager\Memory Management\PrefetchParameters");
    key.and_then(|key| key.get_u32("BootId")).map(|it| it.to_string()).unwrap_or_default()
}

/// The image's note on its kubelet: there is none.
#[must_use]
pub fn kubelet_version() -> Option<String> {
    None
}

/// What systemd would put for a specifier: there is no systemd.
#[must_use]
pub fn specifier(_: char) -> Option<String> {
    None
}

/// Reads what there is. What cannot be read is left out.
#[must_use]
pub fn read(ports: BTreeSet<u16>) -> Machine {
    Machine {
        host_name: gethostname::gethostname().to_string_lossy().into_owned(),
        boot_id: boot_id(),
        has_unified_cgroups: true,
        disks: disk().map(|disk| (DISK.to_owned(), disk)).into_iter().collect(),
        ports,
        containerd_config: fs::read_to_string(r"C:\Program Files\containerd\config.toml").ok(),
        ..Machine::default()
    }
}

/// Those of the ports that the kubelet needs on which somebody listens.
#[must_use]
pub fn ports() -> BTreeSet<u16> {
    PORTS.into_iter().filter(|port| is_open(*port)).collect()
}

fn disk() -> Option<Disk> {
    let room = fs4::statvfs(DISK).ok()?;
    Some(Disk { size: room.total_space(), free: room.available_space() })
}

fn is_open(port: u16) -> bool {
    TcpStream::connect_timeout(&SocketAddr::from((Ipv4Addr::LOCALHOST, port)), ANSWERS_IN).is_ok()
}

/// The family of the image, by the script that starts its nodes and the build of Windows.
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

/// The hardware's part of the chains, which is not looked at on this platform.
#[must_use]
pub fn hardware() -> Sightings {
    Sightings { has_no_view: true, ..Sightings::default() }
}

/// Whether the kubelet's socket for device plugins is there: never asked, for nothing is known of plugins.
#[must_use]
pub fn has_plugin_registry() -> bool {
    false
}

/// Of these paths, those that are not there.
#[must_use]
pub fn missing(paths: &[String]) -> Vec<String> {
    paths
        .iter()
        .map(Path::new)
        .filter(|path| path.is_absolute() && !path.exists())
        .map(|it| it.display().to_string())
        .collect()
}

/// The files of a folder that end so, in the order of their names, with their texts.
#[must_use]
pub fn texts_in(folder: &str, ending: &str) -> BTreeMap<String, String> {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    let paths = entries.map(|entry| entry.path().to_string_lossy().into_owned()).filter(|path| path.ends_with(ending));
    paths.filter_map(|path| Some((path.clone(), fs::read_to_string(&path).ok()?))).collect()
}
