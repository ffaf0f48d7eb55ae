//! Checks of the machine: swap, cgroups, kernel settings, disks, ports, files.

use std::collections::{BTreeMap, BTreeSet};

use muster_bootstrap::finding::{Finding, Severity};
use muster_bootstrap::place::Source;
use muster_bootstrap::report::Effective;
use muster_bootstrap::verdicts::{self, Verdict};
use serde_json::Value;

use super::Facts;

/// State of the machine.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Machine {
    /// Host name.
    pub host_name: String,
    /// Boot ID, from `/proc/sys/kernel/random/boot_id`.
    pub boot_id: String,
    /// Content of `/proc/swaps`.
    pub swaps: String,
    /// True if `/sys/fs/cgroup` is cgroup v2, or the platform has no cgroups.
    pub has_unified_cgroups: bool,
    /// Values of the kernel settings below `/proc/sys` in [`KERNEL`] and [`INOTIFY`].
    pub kernel: BTreeMap<String, String>,
    /// Disks by a path on them.
    pub disks: BTreeMap<String, Disk>,
    /// Listening TCP ports.
    pub ports: BTreeSet<u16>,
    /// Content of `/etc/containerd/config.toml`.
    pub containerd_config: Option<String>,
    /// Version of containerd, such as `2.0.5`.
    pub containerd_version: Option<String>,
    /// Uptime in seconds.
    pub uptime: u64,
    /// Number of NUMA nodes.
    pub numa_nodes: usize,
    /// Names of the top-level cgroups, such as `system.slice`.
    pub control_groups: BTreeSet<String>,
    /// State of each network interface in systemd-networkd: `configured`, `configuring`, `failed`, `unmanaged`.
    pub links: BTreeMap<String, String>,
    /// Bootstrap programs that exist but cannot be executed, with the reason.
    pub refused: BTreeMap<String, String>,
    /// The image's table of maximum pods per instance type (AL2).
    pub pod_table: Option<String>,
}

/// Size of a disk, in bytes.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Disk {
    /// Total.
    pub size: u64,
    /// Free for root.
    pub free: u64,
}

/// Settings that a kubelet requires with `protectKernelDefaults`.
/// Source: k8s.io/kubernetes, pkg/kubelet/cm/container_manager_linux.go, setupKernelTunables.
pub const KERNEL: [(&str, &str); 6] = [
    ("vm/overcommit_memory", "1"),
    ("vm/panic_on_oom", "0"),
    ("kernel/panic", "10"),
    ("kernel/panic_on_oops", "1"),
    ("kernel/keys/root_maxkeys", "1000000"),
    ("kernel/keys/root_maxbytes", "25000000"),
];

/// Maximum number of NUMA nodes that the topology manager supports without a policy option.
/// Source: k8s.io/kubernetes, pkg/kubelet/cm/topologymanager, defaultMaxAllowableNUMANodes.
const NUMA_NODES: u64 = 8;

/// Time that nodeadm's boot hook waits for interfaces, in seconds.
const LINKS_COME_IN: u64 = 60;

/// Kernel setting that limits inotify instances. A kubelet and its containers may exhaust fewer than 512. Linux
/// defaults to 128.
pub const INOTIFY: &str = "fs/inotify/max_user_instances";
const FEW_INSTANCES: u64 = 512;

/// Paths whose disks need free space.
pub const DISKS: [&str; 2] = ["/var/lib/kubelet", "/var/lib/containerd"];
/// Free space below which even the kubelet's own files may not fit, in bytes.
const NOTHING_LEFT: u64 = 32 << 20;

pub(super) fn check(facts: &Facts, effective: &Effective) -> Vec<Finding> {
    let machine = &facts.machine;
    let settings = &effective.kubelet_settings;
    let is = |name: &str, default: bool| settings.get(name).and_then(Value::as_bool).unwrap_or(default);
    let at = |source: &str, text: &str| (Source::whole(source).anywhere(), text.to_owned());
    let new = |verdict, message: &str, (place, text): (muster_bootstrap::place::Place, String)| {
        Finding::new(verdict, message, Some((place, &text)))
    };
    let mut found = Vec::new();
    if let Some(line) = machine.swaps.lines().nth(1).filter(|_| is("failSwapOn", true)) {
        let text = line.split_whitespace().collect::<Vec<_>>().join(" ");
        found.push(new(&verdicts::KA17, "swap is on, and the kubelet refuses that", at("/proc/swaps", &text)));
    }
    if !machine.has_unified_cgroups {
        let is_accepted = !settings.get("failCgroupV1").and_then(Value::as_bool).unwrap_or(true)
            || effective.flags.get("fail-cgroupv1").is_some_and(|it| it == "false");
        let is_new = facts.flags.version.is_some_and(|it| it.0 >= 35);
        let finding = new(&verdicts::KA18, "control groups are of version 1", at("/sys/fs/cgroup", "tmpfs"));
        // Until the kubelet's configuration is written, it is unknown if the configuration accepts cgroup v1.
        let is_fatal = is_new && !is_accepted && facts.command.is_some();
        found.push(finding.with_severity(if is_fatal { Severity::Error } else { Severity::Info }));
    }
    if is("protectKernelDefaults", false) {
        for (name, expected) in KERNEL {
            if let Some(actual) = machine.kernel.get(name).filter(|actual| actual.as_str() != expected) {
                let message = format!("{} is {actual}, the kubelet wants {expected}", name.replace('/', "."));
                found.push(new(&verdicts::KA19, &message, at(&format!("/proc/sys/{name}"), actual)));
            }
        }
    }
    if let Some(instances) = machine.kernel.get(INOTIFY).and_then(|it| it.parse::<u64>().ok())
        && instances < FEW_INSTANCES
    {
        let message = format!("a user may have {instances} inotify instances only");
        let finding = new(&verdicts::KA27, &message, at("/proc/sys/fs/inotify/max_user_instances", ""));
        found.push(finding.with_severity(Severity::Info));
    }
    for (path, disk) in &machine.disks {
        let percent = disk.free.saturating_mul(100).checked_div(disk.size).unwrap_or(100);
        let text = format!("{} MiB of {} MiB free", disk.free >> 20, disk.size >> 20);
        if disk.free < NOTHING_LEFT {
            let finding = new(&verdicts::CR11, &format!("the disk of `{path}` is full"), at(path, &text));
            // The kubelet of a joined node frees space by itself, so holding it back would not help.
            let severity = if facts.has_joined { Severity::Warning } else { Severity::Error };
            found.push(finding.with_severity(severity));
        } else if percent < 10 {
            let finding =
                new(&verdicts::CR11, &format!("{percent} % of the disk of `{path}` are free"), at(path, &text));
            found.push(finding.with_severity(Severity::Warning));
        }
    }
    if !facts.is_kubelet_active {
        let port = |name: &str, default: u64| settings.get(name).and_then(Value::as_u64).unwrap_or(default);
        for number in [port("port", 10_250), port("healthzPort", 10_248)] {
            if u16::try_from(number).is_ok_and(|number| machine.ports.contains(&number)) {
                let message = format!("port {number} is already in use");
                found.push(new(&verdicts::KA26, &message, at("/proc/net/tcp", &format!("port {number}"))));
            }
        }
    }
    topology(facts, effective, &mut found);
    reserved_groups(facts, effective, &mut found);
    links(machine, &mut found);
    programs(facts, effective, &mut found);
    for path in facts.missing.iter().filter(|_| facts.is_bootstrapped) {
        let is_of_names = settings.get("resolvConf").and_then(Value::as_str) == Some(path.as_str());
        let verdict = if is_of_names { &verdicts::KA32 } else { &verdicts::KA23 };
        found.push(new(verdict, &format!("`{path}` is not there"), at("the kubelet's arguments", path)));
    }
    found
}

fn one(verdict: &'static Verdict, message: &str, source: &str, text: &str) -> Finding {
    Finding::new(verdict, message, Some((Source::whole(source).anywhere(), text)))
}

fn topology(facts: &Facts, effective: &Effective, found: &mut Vec<Finding>) {
    let settings = &effective.kubelet_settings;
    let policy = settings.get("topologyManagerPolicy").and_then(Value::as_str).unwrap_or("none");
    let allowed = settings.get("topologyManagerPolicyOptions").and_then(|it| it.get("max-allowable-numa-nodes"));
    let allowed = allowed.and_then(|it| it.as_u64().or_else(|| it.as_str()?.parse().ok())).unwrap_or(NUMA_NODES);
    let there = facts.machine.numa_nodes as u64;
    if policy != "none" && there > allowed {
        let message = format!("{there} NUMA nodes, and topology manager policy `{policy}` takes {allowed}");
        let fix = format!("set `topologyManagerPolicyOptions: {{max-allowable-numa-nodes: \"{there}\"}}`");
        found.push(one(&verdicts::KA21, &message, "/sys/devices/system/node", &there.to_string()).with_fix(&fix));
    }
}

/// Checks the cgroups of reserved resources. A slice appears with its first unit, so the check runs only when the
/// kubelet is about to start. With the systemd driver, the kubelet turns `/system` into `system.slice`, and limits only
/// existing cgroups.
fn reserved_groups(facts: &Facts, effective: &Effective, found: &mut Vec<Finding>) {
    let settings = &effective.kubelet_settings;
    let enforced = settings.get("enforceNodeAllocatable").and_then(Value::as_array);
    for (what, field) in [("system-reserved", "systemReservedCgroup"), ("kube-reserved", "kubeReservedCgroup")] {
        let is_enforced = enforced.into_iter().flatten().filter_map(Value::as_str).any(|it| it.starts_with(what));
        let Some(group) = settings
            .get(field)
            .and_then(Value::as_str)
            .filter(|it| is_enforced && !it.is_empty() && facts.is_bootstrapped)
        else {
            continue;
        };
        let Some(first) = group.trim_start_matches('/').split('/').next() else { continue };
        let names = [first.to_owned(), format!("{first}.slice")];
        if !names.iter().any(|name| facts.machine.control_groups.contains(name)) {
            let message = format!("`{what}` is to be enforced, and there is no control group `{group}`");
            found.push(one(&verdicts::KA22, &message, "/sys/fs/cgroup", &format!("{field}: {group}")));
        }
    }
}

fn links(machine: &Machine, found: &mut Vec<Finding>) {
    for (name, state) in &machine.links {
        let is_late = machine.uptime > LINKS_COME_IN && matches!(state.as_str(), "pending" | "configuring");
        if state == "failed" || is_late {
            let message = format!("interface `{name}` is {state}");
            let finding = one(&verdicts::NW10, &message, "systemd-networkd", &format!("{name}: {state}"));
            // The check of the API server connection shows if the node needs this interface.
            found.push(finding.with_severity(Severity::Warning));
        }
    }
}

fn programs(facts: &Facts, effective: &Effective, found: &mut Vec<Finding>) {
    for (path, why) in facts.machine.refused.iter().filter(|_| !facts.is_kubelet_active) {
        found.push(one(&verdicts::UD13, &format!("`{path}` cannot be executed"), path, why));
    }
    if let (Some(table), Some(instance)) = (&facts.machine.pod_table, facts.metadata.instance())
        && effective.needs_pod_table
        && facts.command.is_none()
        && !table.lines().any(|line| line.split_whitespace().next() == Some(instance.instance_type.as_str()))
    {
        let message = format!("the image's table of pods does not have `{}`", instance.instance_type);
        found.push(one(&verdicts::UD21, &message, POD_TABLE, ""));
    }
}

/// Table of bootstrap.sh.
pub const POD_TABLE: &str = "/etc/eks/eni-max-pods.txt";

/// Returns the ports of listening sockets in `/proc/net/tcp` or `/proc/net/tcp6`.
#[must_use]
pub fn listening(table: &str) -> BTreeSet<u16> {
    const LISTEN: &str = "0A";
    let port = |line: &str| {
        let mut columns = line.split_whitespace().skip(1);
        let local = columns.next()?;
        let state = columns.nth(1)?;
        let (_, port) = local.rsplit_once(':')?;
        (state == LISTEN).then(|| u16::from_str_radix(port, 16).ok())?
    };
    table.lines().skip(1).filter_map(port).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn listening_ports_are_read() {
        // Captured: `listen 127.0.0.1:10248`, a connection, `listen 127.0.0.1:631`.
        let table = "  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode\n   0: 0100007F:2808 00000000:0000 0A 00000000:00000000 00:00000000 00000000     0        0 21 1 0 100 0 0 10 0\n   1: 0100007F:2809 0100007F:2808 01 00000000:00000000 00:00000000 00000000     0        0 22 1 0 100 0 0 10 0\n   2: 0100007F:0277 00000000:0000 0A 00000000:00000000 00:00000000 00000000     0        0 23 1 0 100 0 0 10 0\n";
        assert_eq!(listening(table), BTreeSet::from([10_248, 631]));
        assert!(listening("nonsense\n\n:\n x y z\n").is_empty());
    }
}
