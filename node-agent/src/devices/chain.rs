//! Chain of checks of one resource, with its first broken link.

use std::collections::BTreeMap;

use jiff::SignedDuration;
use muster_bootstrap::finding::{Finding, Severity};
use muster_bootstrap::kubelet::instance::Figures;
use muster_bootstrap::place::Source;
use muster_bootstrap::verdicts::{self, Verdict};

use super::catalogue::{self, Function};
use crate::patience::{PATIENCE_WITH_DRIVERS, PATIENCE_WITH_PODS};
use crate::report::{Link, Resource};

/// Device state observed on the node. `None` means not known yet.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Sightings {
    /// True if the platform exposes neither the PCI bus nor device files nor plugins, so that only the Node shows
    /// devices.
    pub has_no_view: bool,
    /// All functions on the PCI bus.
    pub functions: Vec<Function>,
    /// File names below `/dev` and its folders, such as `infiniband/uverbs0`.
    pub files: Vec<String>,
    /// Instance type, such as `m5.large`, if known.
    pub instance_type: Option<String>,
    /// True if the kubelet's socket for device plugins exists; `None` while the kubelet does not run.
    pub registry: Option<bool>,
    /// Healthy devices per resource, from the PodResources API; `None` while the kubelet does not serve it.
    pub healthy: Option<BTreeMap<String, u64>>,
    /// The Node's capacity. A resource whose plugin is gone stays there with 0 until the kubelet restarts.
    pub capacity: Option<BTreeMap<String, u64>>,
    /// The Node's allocatable resources; `None` before the Node exists.
    pub allocatable: Option<BTreeMap<String, u64>>,
}

/// A link, the verdict if it is broken, and the observation behind it.
struct Step {
    name: &'static str,
    holds: Option<bool>,
    verdict: &'static Verdict,
    seen: String,
    /// Time for which it may be broken before that is a fault: what it depends on may come later.
    patience: SignedDuration,
}

/// Codes of links that may be missing when the kubelet starts, because the driver comes later.
pub const OF_DRIVERS: [&str; 2] = ["GP01", "GP11"];

/// Returns true if both links wait for the same: while a driver is loaded, now one of its links is broken and now the
/// other.
#[must_use]
pub fn is_alike(one: &str, other: &str) -> bool {
    let is_of_driver = |link: &str| matches!(link, "driver" | "file");
    one == other || is_of_driver(one) && is_of_driver(other)
}

/// Checks the chain of a resource of which `wanted` are needed. Returns it with a finding if a link is broken;
/// `lasted` is the time for which a link has been the broken one.
#[must_use]
pub fn follow(
    name: &str,
    wanted: u64,
    sightings: &Sightings,
    lasted: impl Fn(&str) -> SignedDuration,
) -> (Resource, Option<Finding>) {
    let allocatable = sightings.allocatable.as_ref().map(|all| all.get(name).copied().unwrap_or(0));
    let mut steps = Vec::new();
    let resource = catalogue::find(name);
    let hardware = resource.and_then(|it| it.hardware.as_ref());
    if let Some(hardware) = hardware.filter(|_| !sightings.has_no_view) {
        let on_bus: Vec<&Function> = sightings.functions.iter().filter(|it| hardware.is(it)).collect();
        let driven = on_bus.iter().filter(|it| it.driver.as_deref() == Some(hardware.driver)).count();
        let files = sightings.files.iter().filter(|file| hardware.is_file(file)).count();
        // Emulated devices (in a test, by a hypervisor) have only a device file and no PCI function.
        let has_any = !on_bus.is_empty() || files > 0;
        steps.push(Step {
            name: "bus",
            holds: Some(has_any),
            verdict: &verdicts::GP17,
            seen: format!("{} on the PCI bus", on_bus.len()),
            patience: SignedDuration::ZERO,
        });
        steps.push(Step {
            name: "driver",
            holds: Some(files > 0 || (has_any && driven > 0)),
            verdict: &verdicts::GP01,
            seen: format!("{driven} of {} have driver `{}`", on_bus.len(), hardware.driver),
            patience: PATIENCE_WITH_DRIVERS,
        });
        steps.push(Step {
            name: "file",
            holds: Some(files > 0),
            verdict: &verdicts::GP11,
            seen: format!("{files} files /dev/{}*", hardware.file.trim_end_matches("[0-9]")),
            patience: PATIENCE_WITH_DRIVERS,
        });
    }
    let is_of_control_plane = resource.is_some_and(|it| it.hardware.is_none());
    if is_of_control_plane {
        steps.extend(predicted(name, wanted, sightings.instance_type.as_deref()));
    } else if !sightings.has_no_view {
        plugin(name, wanted, sightings, &mut steps);
    }
    steps.push(Step {
        name: "node",
        holds: allocatable.map(|number| number >= wanted),
        verdict: node_verdict(name),
        seen: allocatable.map_or_else(|| "no Node yet".to_owned(), |number| format!("{number} allocatable")),
        patience: PATIENCE_WITH_PODS,
    });
    // If the Node offers enough, the resource works, even if a link was not recognized.
    let is_offered = allocatable.is_some_and(|number| number >= wanted);
    let broken = steps.iter().find(|step| step.holds == Some(false)).filter(|_| !is_offered);
    let finding = broken.map(|step| {
        let place = Source::whole(format!("devices, {}", step.name)).anywhere();
        let message = format!("`{name}`: {wanted} wanted, {}", step.seen);
        let finding = Finding::new(step.verdict, &message, Some((place, &step.seen)));
        if lasted(step.name) < step.patience { finding.with_severity(Severity::Info) } else { finding }
    });
    let links = steps
        .iter()
        .map(|step| Link { name: step.name.to_owned(), holds: step.holds, seen: step.seen.clone() })
        .collect();
    let broken = broken.map(|step| step.name.to_owned());
    (Resource { name: name.to_owned(), wanted, allocatable, broken, links }, finding)
}

/// Returns the prediction for a resource that the control plane writes to the Node, from the limits of the instance
/// type; `None` if they are unknown.
fn predicted(name: &str, wanted: u64, instance_type: Option<&str>) -> Option<Step> {
    let instance_type = instance_type?;
    let figures = Figures::of(instance_type)?;
    let (number, verdict, what) = match name {
        "vpc.amazonaws.com/pod-eni" => (figures.branches?, &verdicts::CN09, "branch interfaces"),
        _ => (figures.windows_addresses(), &verdicts::WN02, "addresses, without prefixes"),
    };
    let number = u64::try_from(number).unwrap_or(0);
    // Prefix delegation adds addresses, so only branch interfaces are known to be too few.
    let holds = number >= wanted || verdict.code != verdicts::CN09.code;
    let seen = format!("{instance_type} can have {number} {what}");
    Some(Step { name: "type", holds: Some(holds), verdict, seen, patience: SignedDuration::ZERO })
}

/// Adds the links from the plugin's registration to its healthy devices.
fn plugin(name: &str, wanted: u64, sightings: &Sightings, steps: &mut Vec<Step>) {
    steps.push(Step {
        name: "registry",
        holds: sightings.registry,
        verdict: &verdicts::GP13,
        seen: match sightings.registry {
            Some(true) => "the kubelet's socket is there".to_owned(),
            Some(false) => "the kubelet's socket is not there".to_owned(),
            None => "the kubelet does not run yet".to_owned(),
        },
        patience: SignedDuration::ZERO,
    });
    let healthy = sightings.healthy.as_ref().map(|all| all.get(name).copied().unwrap_or(0));
    let capacity = sightings.capacity.as_ref().and_then(|all| all.get(name).copied());
    let is_registered = healthy.map(|number| number > 0 || capacity.is_some());
    // A plugin offers the same devices under another name.
    let other = sightings.healthy.iter().flatten().find(|(other, number)| {
        **number > 0
            && *other != name
            && catalogue::find(name).is_some_and(|it| it.is_alias(other) || it.name == *other)
    });
    steps.push(Step {
        name: "registered",
        holds: is_registered.map(|it| it && !(healthy == Some(0) && other.is_some())),
        verdict: match other {
            Some((other, _)) if other.starts_with("nvidia.com/mig-") => &verdicts::GP08,
            Some(_) => &verdicts::GP07,
            None => &verdicts::GP16,
        },
        seen: match (is_registered, other) {
            (None, _) => "the kubelet does not say yet".to_owned(),
            (Some(false), Some((other, number))) => format!("the node offers {number} `{other}` instead"),
            (Some(false), None) => "no plugin has registered it".to_owned(),
            (Some(true), _) => "a plugin has registered it".to_owned(),
        },
        patience: if other.is_none() { PATIENCE_WITH_PODS } else { SignedDuration::ZERO },
    });
    let has_some = healthy.is_some_and(|number| number > 0);
    steps.push(Step {
        name: "healthy",
        holds: healthy.map(|number| number >= wanted),
        verdict: if has_some { &verdicts::GP06 } else { &verdicts::GP12 },
        seen: healthy.map_or_else(|| "not known yet".to_owned(), |number| format!("{number} healthy")),
        // After a restart of the kubelet there is none until the plugin has registered again.
        patience: if has_some { SignedDuration::ZERO } else { PATIENCE_WITH_PODS },
    });
}

fn node_verdict(name: &str) -> &'static Verdict {
    match name {
        "vpc.amazonaws.com/pod-eni" => &verdicts::CN08,
        "vpc.amazonaws.com/PrivateIPv4Address" => &verdicts::WN02,
        _ => &verdicts::CN15,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const GPU: &str = "nvidia.com/gpu";

    fn at_once(_: &str) -> SignedDuration {
        SignedDuration::ZERO
    }

    fn at_length(_: &str) -> SignedDuration {
        PATIENCE_WITH_DRIVERS
    }

    fn healthy_node() -> Sightings {
        let function = |driver: &str| Function {
            vendor: "10de".to_owned(),
            device: "20b0".to_owned(),
            class: "030200".to_owned(),
            driver: Some(driver.to_owned()),
        };
        let two = BTreeMap::from([(GPU.to_owned(), 2)]);
        Sightings {
            functions: vec![function("nvidia"), function("nvidia")],
            files: vec!["nvidia0".to_owned(), "nvidia1".to_owned(), "nvidiactl".to_owned()],
            instance_type: None,
            registry: Some(true),
            healthy: Some(two.clone()),
            capacity: Some(two.clone()),
            allocatable: Some(two),
            has_no_view: false,
        }
    }

    #[test]
    fn where_nothing_is_seen_the_node_alone_tells() {
        let unseen = Sightings { has_no_view: true, ..Sightings::default() };
        let (resource, finding) = follow(GPU, 2, &unseen, at_length);
        assert_eq!((resource.links.len(), resource.broken, finding), (1, None, None));
        let (resource, finding) =
            follow(GPU, 2, &Sightings { allocatable: Some(BTreeMap::new()), ..unseen }, at_length);
        assert_eq!((resource.broken.as_deref(), finding.unwrap().verdict.code), (Some("node"), "CN15"));
    }

    /// The broken link, the code and the severity, after `change` of a healthy node.
    fn after(change: impl FnOnce(&mut Sightings)) -> (Option<String>, Option<(&'static str, Severity)>) {
        let mut sightings = healthy_node();
        change(&mut sightings);
        let (resource, finding) = follow(GPU, 2, &sightings, at_length);
        (resource.broken, finding.map(|it| (it.verdict.code, it.severity)))
    }

    #[test]
    fn the_first_broken_link_is_named() {
        let none = || Some(BTreeMap::new());
        let of = |name: &str, number| Some(BTreeMap::from([(name.to_owned(), number)]));
        let broken = |link: &str, code, severity| (Some(link.to_owned()), Some((code, severity)));
        assert_eq!(after(|_| ()), (None, None));
        let bare = |it: &mut Sightings| {
            (it.functions, it.files) = (Vec::new(), Vec::new());
            (it.healthy, it.capacity, it.allocatable) = (none(), none(), none());
        };
        assert_eq!(after(bare), broken("bus", "GP17", Severity::Error));
        let undriven = |it: &mut Sightings| {
            it.files.clear();
            it.functions.iter_mut().for_each(|function| function.driver = None);
            it.allocatable = none();
        };
        assert_eq!(after(undriven), broken("driver", "GP01", Severity::Error));
        let fileless = |it: &mut Sightings| (it.files, it.allocatable) = (vec!["nvidiactl".to_owned()], none());
        assert_eq!(after(fileless), broken("file", "GP11", Severity::Error));
        let no_registry = |it: &mut Sightings| (it.registry, it.allocatable) = (Some(false), none());
        assert_eq!(after(no_registry), broken("registry", "GP13", Severity::Error));
        let unregistered = |it: &mut Sightings| (it.healthy, it.capacity, it.allocatable) = (none(), none(), none());
        assert_eq!(after(unregistered), broken("registered", "GP16", Severity::Warning));
        let shared = |it: &mut Sightings| {
            (it.healthy, it.capacity, it.allocatable) = (of("nvidia.com/gpu.shared", 8), none(), none());
        };
        assert_eq!(after(shared), broken("registered", "GP07", Severity::Error));
        let cut = |it: &mut Sightings| {
            (it.healthy, it.capacity, it.allocatable) = (of("nvidia.com/mig-1g.10gb", 7), none(), none());
        };
        assert_eq!(after(cut), broken("registered", "GP08", Severity::Error));
        let lost = |it: &mut Sightings| (it.healthy, it.allocatable) = (none(), of(GPU, 0));
        assert_eq!(after(lost), broken("healthy", "GP12", Severity::Error));
        let one_less = |it: &mut Sightings| (it.healthy, it.allocatable) = (of(GPU, 1), of(GPU, 1));
        assert_eq!(after(one_less), broken("healthy", "GP06", Severity::Error));
        assert_eq!(after(|it| it.allocatable = none()), broken("node", "CN15", Severity::Warning));
    }

    #[test]
    fn what_is_not_known_yet_is_no_fault() {
        let mut sightings = healthy_node();
        (sightings.registry, sightings.healthy, sightings.capacity, sightings.allocatable) = (None, None, None, None);
        let (resource, finding) = follow(GPU, 2, &sightings, at_length);
        assert_eq!((resource.broken, finding), (None, None));
    }

    #[test]
    fn the_control_plane_writes_what_no_plugin_offers() {
        let sightings = Sightings { allocatable: Some(BTreeMap::new()), ..healthy_node() };
        for (name, code) in [("vpc.amazonaws.com/pod-eni", "CN08"), ("vpc.amazonaws.com/PrivateIPv4Address", "WN02")] {
            let (resource, finding) = follow(name, 1, &sightings, at_length);
            assert_eq!(resource.links.len(), 1);
            assert_eq!(finding.unwrap().verdict.code, code);
        }
    }

    #[test]
    fn what_the_type_cannot_have_is_known_before_there_is_a_node() {
        let name = "vpc.amazonaws.com/pod-eni";
        let on = |instance_type: &str| {
            let instance_type = Some(instance_type.to_owned());
            follow(name, 1, &Sightings { instance_type, allocatable: None, ..healthy_node() }, at_once)
        };
        let (resource, finding) = on("t3.large");
        assert_eq!((resource.broken.as_deref(), finding.unwrap().verdict.code), (Some("type"), "CN09"));
        let (resource, finding) = on("m5.large");
        assert_eq!((resource.broken, finding), (None, None));
        assert_eq!(resource.links[0].seen, "m5.large can have 9 branch interfaces");
        assert_eq!(on("z99.large").0.links.len(), 1, "of a type that nobody knows nothing is predicted");
        let windows = Sightings { instance_type: Some("m5.large".to_owned()), allocatable: None, ..healthy_node() };
        let (resource, finding) = follow("vpc.amazonaws.com/PrivateIPv4Address", 1, &windows, at_once);
        assert_eq!(
            (resource.links[0].seen.as_str(), finding),
            ("m5.large can have 9 addresses, without prefixes", None)
        );
    }

    #[test]
    fn pods_are_given_time() {
        let sightings =
            Sightings { healthy: Some(BTreeMap::new()), capacity: None, allocatable: None, ..healthy_node() };
        let (_, finding) = follow(GPU, 2, &sightings, at_once);
        assert_eq!(finding.unwrap().severity, Severity::Info);
    }

    #[test]
    fn a_driver_and_a_plugin_are_given_time_and_hardware_is_not() {
        let early = |change: fn(&mut Sightings)| {
            let mut sightings = Sightings { allocatable: Some(BTreeMap::new()), ..healthy_node() };
            change(&mut sightings);
            let finding = follow(GPU, 2, &sightings, |_| PATIENCE_WITH_PODS - SignedDuration::from_secs(1)).1.unwrap();
            (finding.verdict.code, finding.severity)
        };
        let undriven = |it: &mut Sightings| {
            it.files.clear();
            it.functions.iter_mut().for_each(|function| function.driver = None);
        };
        assert_eq!(early(undriven), ("GP01", Severity::Info));
        assert_eq!(early(|it| it.files.clear()), ("GP11", Severity::Info));
        assert_eq!(early(|it| it.healthy = Some(BTreeMap::new())), ("GP12", Severity::Info));
        let one_less = |it: &mut Sightings| it.healthy = Some(BTreeMap::from([(GPU.to_owned(), 1)]));
        assert_eq!(early(one_less), ("GP06", Severity::Error));
        let bare = |it: &mut Sightings| (it.functions, it.files) = (Vec::new(), Vec::new());
        assert_eq!(early(bare), ("GP17", Severity::Error));
        // A driver may be compiled in a pod.
        let mut sightings = Sightings { allocatable: Some(BTreeMap::new()), ..healthy_node() };
        undriven(&mut sightings);
        let severity = |lasted| follow(GPU, 2, &sightings, |_| lasted).1.unwrap().severity;
        assert_eq!(severity(PATIENCE_WITH_PODS), Severity::Info);
        assert_eq!(severity(PATIENCE_WITH_DRIVERS), Severity::Error);
    }
}
