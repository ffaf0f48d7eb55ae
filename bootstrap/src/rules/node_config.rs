//! Values of a NodeConfig that nodeadm accepts without an error, and then drops or fails on.
//!
//! Source: nodeadm of awslabs/amazon-eks-ami, release v20260714: `api/v1alpha1`, `internal/{api,system,kubelet}`.

use crate::finding::{Findings, Severity};
use crate::kubelet::gates;
use crate::likeness;
use crate::place::line_text;
use crate::tree::Tree;
use crate::userdata::Part;
use crate::verdicts;

/// Feature gates of nodeadm. Source: `internal/api/featuregates.go`.
const GATES: [&str; 2] = ["InstanceIdNodeName", "FastImagePull"];
/// Strategies for local disks. nodeadm ignores case. Source: `internal/system/local_disk.go`.
const STRATEGIES: [&str; 3] = ["RAID0", "RAID10", "Mount"];
/// Mounts that can be disabled on local disks, case-sensitive.
const MOUNTS: [&str; 3] = ["Containerd", "PodLogs", "SOCI"];

/// Judges the values below `spec`.
pub(crate) fn check(spec: &Tree, part: &Part, findings: &mut Findings) {
    let shown = |line: usize| (part.source.at(line.max(1)), line_text(&part.text, line.max(1)));
    for (name, line, _) in spec.get("featureGates").map(Tree::entries).unwrap_or_default() {
        if GATES.contains(&name.as_str()) {
            continue;
        }
        let (place, text) = shown(*line);
        if gates::exists(name) {
            let message = format!("`{name}` is a feature gate of the kubelet, and nodeadm ignores it");
            let fix = "write it in `spec.kubelet.config.featureGates`";
            findings.add_with_fix(&verdicts::UD06, message, fix, place, text);
        } else {
            let meant = likeness::nearest(name, GATES).map(|it| format!("; did you mean `{it}`?")).unwrap_or_default();
            let severity = if meant.is_empty() { Severity::Warning } else { Severity::Error };
            let message = format!("nodeadm ignores feature gate `{name}`{meant}");
            findings.add_as(severity, &verdicts::UD06, message, place, text);
        }
    }
    let storage = spec.at(&["instance", "localStorage"]);
    if let Some((line, value)) = storage.and_then(|storage| storage.entry("strategy"))
        && let Some(strategy) = value.text().filter(|text| !text.is_empty())
        && !STRATEGIES.iter().any(|known| known.eq_ignore_ascii_case(strategy))
    {
        let (place, text) = shown(line);
        let message =
            format!("`{strategy}` is not a strategy for local disks; the strategies are {}", STRATEGIES.join(", "));
        findings.add(&verdicts::UD32, message, place, text);
    }
    for mount in storage.and_then(|storage| storage.get("disabledMounts")).map(Tree::items).unwrap_or_default() {
        let Some(name) = mount.text().filter(|name| !MOUNTS.contains(name)) else { continue };
        let message = format!("nodeadm does not know the mount `{name}`; there are {}", MOUNTS.join(", "));
        let fix = "write the name as it is documented; case counts";
        findings.add_with_fix_as(Severity::Warning, &verdicts::UD32, message, fix, shown(mount.line));
    }
    for server in spec.at(&["instance", "network", "nameservers"]).map(Tree::items).unwrap_or_default() {
        // systemd-resolved takes `address`, `address:port`, `address%interface` and `address#name`.
        let address = |text: &str| text.split(['#', '%']).next().unwrap_or_default().to_owned();
        let is_address =
            |text: &str| text.parse::<std::net::IpAddr>().is_ok() || text.parse::<std::net::SocketAddr>().is_ok();
        let Some(name) = server.text().filter(|name| !is_address(&address(name))) else { continue };
        let message = format!("`{name}` is not the address of a name server, and systemd-resolved ignores it");
        let fix = "write an IP address";
        findings.add_with_fix_as(Severity::Warning, &verdicts::UD32, message, fix, shown(server.line));
    }
    let kubelet = spec.get("kubelet");
    let expression = kubelet.and_then(|kubelet| kubelet.entry("maxPodsExpression"));
    if let Some((line, _)) = expression
        && kubelet.is_some_and(|kubelet| kubelet.at(&["config", "maxPods"]).is_some())
    {
        let (place, text) = shown(line);
        let message = "`maxPodsExpression` has no effect, because `kubelet.config.maxPods` is set";
        findings.add(&verdicts::KA30, message, place, text);
    }
    let cluster = spec.get("cluster");
    let text = |key: &str| cluster.and_then(|cluster| cluster.get(key)?.text()).unwrap_or_default();
    if let Some((line, value)) = cluster.and_then(|cluster| cluster.entry("enableOutpost"))
        && value.boolean() == Some(true)
        && text("id").is_empty()
    {
        let (place, text) = shown(line);
        let fix = "fill in `spec.cluster.id` (`aws eks describe-cluster --query cluster.id`)";
        findings.add_with_fix(&verdicts::UD07, "`spec.cluster.id` is missing, which Outposts need", fix, place, text);
    }
}

/// Reports the second document of a part: nodeadm's decoder stops at the second `---`.
pub(crate) fn second(line: usize, part: &Part, findings: &mut Findings) {
    let message = "nodeadm reads the first document of a part only, and this is the second";
    let fix = "give each NodeConfig a MIME part of its own, or make one document of them";
    findings.add_with_fix(&verdicts::UD06, message, fix, part.source.at(line), line_text(&part.text, line));
}
