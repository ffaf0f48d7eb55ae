//! The arguments of the kubelet, one by one.

use crate::finding::{Findings, Severity};
use crate::kubelet::arguments::{ArgumentFaultKind, FlagSet, Parsed, boolean};
use crate::kubelet::version::Minor;
use crate::kubelet::{flags, gates, labels, taints};
use crate::parsed::ParsedBootstrap;
use crate::verdicts;

/// Judges every argument.
pub(crate) fn check(bootstrap: &ParsedBootstrap, parsed: &Parsed, set: &FlagSet, findings: &mut Findings) {
    // The kubelet exits at the first fault; hundreds of them do not help the reader.
    const MOST: usize = 300;
    for fault in parsed.faults.iter().take(MOST) {
        let Some(argument) = bootstrap.arguments.get(fault.index) else { continue };
        let (place, text) = (argument.place.clone(), argument.text.as_str());
        let name = &fault.name;
        match &fault.kind {
            ArgumentFaultKind::Gone { since, instead } => {
                let message = format!("flag `--{name}` was removed in {since}");
                match instead.filter(|instead| !instead.starts_with("nothing")) {
                    Some(instead) => {
                        let fix = format!("replace the flag by {instead}");
                        findings.add_with_fix(&verdicts::KA01, message, &fix, place, text);
                    }
                    None => findings.add(&verdicts::KA01, message, place, text),
                }
            }
            ArgumentFaultKind::Unknown => {
                let meant = flags::nearest(name, set.version).map(|it| format!("; did you mean `--{it}`?"));
                let message = format!("no kubelet has flag `--{name}`{}", meant.unwrap_or_default());
                findings.add(&verdicts::KA02, message, place, text);
            }
            ArgumentFaultKind::NotYet { since } => {
                let fix = format!("remove the flag, or use a kubelet of {since} or later");
                let message = format!("flag `--{name}` is available from {since}");
                findings.add_with_fix(&verdicts::KA02, message, &fix, place, text);
            }
            ArgumentFaultKind::NotInBinary => {
                findings.add(&verdicts::KA02, format!("this kubelet has no flag `--{name}`"), place, text);
            }
            ArgumentFaultKind::OneDash => {
                let fix = format!("write it with two dashes: `--{name}`");
                findings.add_with_fix(&verdicts::KA02, format!("flag `-{name}` has one dash"), &fix, place, text);
            }
            ArgumentFaultKind::Positional if argument.is_open => {}
            ArgumentFaultKind::Positional => {
                findings.add(&verdicts::KA04, format!("`{text}` is not a flag"), place, text);
            }
            ArgumentFaultKind::NoValue => {
                findings.add(&verdicts::KA33, format!("flag `--{name}` needs a value"), place, text);
            }
            ArgumentFaultKind::Value(reason) if name == "register-with-taints" => {
                findings.add(&verdicts::KA03, format!("`--{name}` is refused: {reason}"), place, text);
            }
            ArgumentFaultKind::Value(reason) => {
                findings.add(&verdicts::KA33, format!("the value of `--{name}` is refused: {reason}"), place, text);
            }
            ArgumentFaultKind::Label(label) => {
                let reason = labels::length_fault(label).map(|reason| format!(": {reason}")).unwrap_or_default();
                findings.add(&verdicts::KA06, format!("`{label}` is not a valid label{reason}"), place, text);
            }
        }
    }
    // Without a version, it is unknown whether the kubelet is old enough.
    if set.version.is_none() && set.of_binary.is_none() {
        for given in &parsed.given {
            let (Some(since), Some(argument)) = (flags::removed_in(&given.name), bootstrap.arguments.get(given.index))
            else {
                continue;
            };
            let message = format!("flag `--{}` was removed in {since}", given.name);
            findings.add_as(Severity::Warning, &verdicts::KA01, message, argument.place.clone(), &argument.text);
        }
    }
    without_effect(bootstrap, parsed, findings);
    restricted_labels(bootstrap, parsed, findings);
    feature_gates(bootstrap, parsed, set.version, findings);
    if let Some(given) = parsed.last("cloud-provider").filter(|given| !matches!(given.value.as_str(), "external" | ""))
        && let Some(argument) = bootstrap.arguments.get(given.index).filter(|argument| !argument.is_open)
    {
        let message = format!("`--cloud-provider={}` is refused", given.value);
        findings.add(&verdicts::KA16, message, argument.place.clone(), &argument.text);
    }
}

/// Reports values that the kubelet accepts and ignores.
fn without_effect(bootstrap: &ParsedBootstrap, parsed: &Parsed, findings: &mut Findings) {
    for given in &parsed.given {
        let Some(argument) = bootstrap.arguments.get(given.index).filter(|argument| !argument.is_open) else {
            continue;
        };
        let is_address = |text: &&str| text.trim().parse::<std::net::IpAddr>().is_ok();
        match given.name.as_str() {
            // Source: `ParseNodeIPArgument` of component-helpers: `Could not parse some node IP(s), ignoring them`.
            "node-ip" => {
                let Some(bad) = given.value.split(',').find(|it| !it.trim().is_empty() && !is_address(it)) else {
                    continue;
                };
                let message = format!("`{bad}` is not an IP address, so the kubelet ignores it");
                let fix = "write the address of the node, or remove the flag";
                let place = argument.place.clone();
                findings.add_with_fix_as(Severity::Warning, &verdicts::KA33, message, fix, (place, &argument.text));
            }
            "register-with-taints" => {
                let Some(taint) = given.value.split(',').find(|it| it.ends_with('-')) else { continue };
                if taints::flag_value(&given.value).is_err() {
                    continue;
                }
                let message = format!("`{taint}` has the form that removes a taint, so it sets none");
                let fix = "write the taint without the last `-`, or remove it";
                let place = argument.place.clone();
                findings.add_with_fix_as(Severity::Warning, &verdicts::KA03, message, fix, (place, &argument.text));
            }
            _ => {}
        }
    }
}

fn restricted_labels(bootstrap: &ParsedBootstrap, parsed: &Parsed, findings: &mut Findings) {
    let mut refuse = |key: &str, place, text: &str| {
        let message = format!("label `{key}` may not be set by a kubelet");
        findings.add(&verdicts::KA09, message, place, text);
    };
    for given in parsed.all("node-labels") {
        let Some(argument) = bootstrap.arguments.get(given.index) else { continue };
        for pair in given.value.split(',') {
            let key = pair.split('=').next().unwrap_or_default().trim();
            if labels::is_restricted(key) {
                refuse(key, argument.place.clone(), &argument.text);
            }
        }
    }
    for (key, value, place) in bootstrap.settings.iter().flat_map(|settings| &settings.labels) {
        if labels::is_restricted(key) {
            refuse(key, place.clone(), &format!("{key} = {value}"));
        }
    }
}

fn feature_gates(bootstrap: &ParsedBootstrap, parsed: &Parsed, version: Option<Minor>, findings: &mut Findings) {
    for given in parsed.all("feature-gates") {
        let Some(argument) = bootstrap.arguments.get(given.index).filter(|argument| !argument.is_open) else {
            continue;
        };
        for pair in given.value.split(',') {
            let Some((name, value)) = pair.split_once('=') else { continue };
            let Some(value) = boolean(value.trim()) else { continue };
            if let Some(fault) = gates::fault(name.trim(), value, version) {
                findings.add(&verdicts::KA10, gate_message(name.trim(), fault), argument.place.clone(), &argument.text);
            }
        }
    }
}

/// Describes the fault of a gate, for messages.
pub(crate) fn gate_message(name: &str, fault: gates::GateFault) -> String {
    match fault {
        gates::GateFault::Unknown => {
            let meant = gates::nearest(name).map(|it| format!("; did you mean `{it}`?")).unwrap_or_default();
            format!("no kubelet has feature gate `{name}`{meant}")
        }
        gates::GateFault::Gone { since } => format!("feature gate `{name}` was removed in {since}"),
        gates::GateFault::NotYet { since } => format!("feature gate `{name}` is available from {since}"),
        gates::GateFault::Locked { to } => format!("feature gate `{name}` is locked to {to}"),
    }
}
