//! Registration of the node: taints, labels, name, provider ID.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Map, Value};

use crate::finding::{Findings, Severity};
use crate::input::BootstrapInput;
use crate::kubelet::arguments::Parsed;
use crate::kubelet::labels::is_dns_name;
use crate::kubelet::taints::{self, Taint};
use crate::parsed::{ParsedBootstrap, Stated};
use crate::place::Place;
use crate::verdicts;

const FLAG: &str = "register-with-taints";
const FIELD: &str = "registerWithTaints";

/// Returns the taints in effect: those of the last flag if there is one, else those of the configuration.
pub(crate) fn effective_taints(
    bootstrap: &ParsedBootstrap,
    parsed: &Parsed,
    config: &Map<String, Value>,
) -> Vec<Taint> {
    if let Some(settings) = &bootstrap.settings {
        return settings.taints.clone();
    }
    let mut taints = match parsed.last(FLAG) {
        Some(given) => taints::flag_value(&given.value).unwrap_or_default(),
        None => taints_of(config.get(FIELD)).into_iter().filter(|taint| taint.check().is_ok()).collect(),
    };
    taints.sort();
    taints.dedup();
    taints
}

/// Returns the taints of the configuration, valid or not.
fn taints_of(field: Option<&Value>) -> Vec<Taint> {
    let text = |taint: &Value, key: &str| taint.get(key).and_then(Value::as_str).unwrap_or_default().to_owned();
    let items = field.and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default();
    let taint = |it: &Value| Taint { key: text(it, "key"), value: text(it, "value"), effect: text(it, "effect") };
    items.iter().filter(|it| it.is_object()).map(taint).collect()
}

/// Returns the labels in effect: those of all flags together.
pub(crate) fn effective_labels(bootstrap: &ParsedBootstrap, parsed: &Parsed) -> BTreeMap<String, String> {
    match &bootstrap.settings {
        Some(settings) => settings.labels.iter().map(|(key, value, _)| (key.clone(), value.clone())).collect(),
        // A label that only the node can resolve is not known yet.
        None => {
            let is_open = |index: usize| bootstrap.arguments.get(index).is_some_and(|argument| argument.is_open);
            let known = |pair: &&str| !pair.contains(['$', '`', '%']);
            let mut of_flags = Parsed { given: parsed.all("node-labels").cloned().collect(), ..Parsed::default() };
            for given in of_flags.given.iter_mut().filter(|given| is_open(given.index)) {
                given.value = given.value.split(',').filter(known).collect::<Vec<_>>().join(",");
            }
            of_flags.map("node-labels")
        }
    }
}

/// Judges taints and labels against the requirements.
pub(crate) fn check(
    input: &BootstrapInput,
    bootstrap: &ParsedBootstrap,
    parsed: &Parsed,
    config: &Map<String, Value>,
    findings: &mut Findings,
) {
    let effective = effective_taints(bootstrap, parsed, config);
    configured_taints(bootstrap, parsed, config, findings);
    let replaced = replaced_taints(bootstrap, parsed, config, &effective, findings);
    let mut required = input.required_taints.clone();
    // A document that sets the taint without effect was meant to have it.
    let lost = bootstrap.lost_taints.iter().chain(&replaced);
    required.extend(lost.clone().map(|(taint, _)| taint).filter(|taint| taint.key == taints::UNREGISTERED).cloned());
    required.sort();
    required.dedup();
    let has_open = bootstrap.arguments.iter().any(|argument| argument.is_open && !argument.text.starts_with('-'));
    // The value of an open flag may contain any taint.
    let is_open =
        has_open || parsed.last(FLAG).is_some_and(|it| bootstrap.arguments.get(it.index).is_some_and(|it| it.is_open));
    for taint in required.iter().filter(|taint| !effective.contains(taint)) {
        let at = bootstrap.lost_taints.iter().chain(&replaced).find(|(other, _)| other == taint);
        let flag = parsed.last(FLAG).and_then(|given| bootstrap.arguments.get(given.index));
        let (place, text) = match (at, flag) {
            (Some((_, place)), _) => (place.clone(), taint.to_string()),
            (None, Some(argument)) => (argument.place.clone(), argument.text.clone()),
            (None, None) => (nowhere(input), String::new()),
        };
        let severity = if is_open { Severity::Warning } else { Severity::Error };
        let message = format!("required taint {taint} is not in effect");
        findings.add_as(severity, &verdicts::KA07, message, place, text);
    }
    let labels = effective_labels(bootstrap, parsed);
    for label in &input.required_labels {
        let is_there =
            labels.get(&label.key).is_some_and(|value| label.value.as_ref().is_none_or(|wanted| wanted == value));
        if !is_there {
            let value = label.value.as_ref().map(|value| format!("={value}")).unwrap_or_default();
            let message = format!("required label {}{value} is not in effect", label.key);
            let severity = if has_open { Severity::Warning } else { Severity::Error };
            findings.add_as(severity, &verdicts::KA35, message, nowhere(input), "");
        }
    }
}

fn nowhere(input: &BootstrapInput) -> Place {
    match (&input.user_data, &input.environment_file, input.kubelet_config.first()) {
        (Some(user_data), ..) => user_data.anywhere(),
        (None, Some(file), _) | (None, None, Some(file)) => Place { source: file.name.as_str().into(), line: None },
        (None, None, None) => Place { source: "input".into(), line: None },
    }
}

/// Reports taints of the configuration that the kubelet or the API server refuses. Taints that a flag replaces are not
/// checked, because they are never read.
fn configured_taints(
    bootstrap: &ParsedBootstrap,
    parsed: &Parsed,
    config: &Map<String, Value>,
    findings: &mut Findings,
) {
    if parsed.last(FLAG).is_some() {
        return;
    }
    let mut seen = BTreeSet::new();
    let items = config.get(FIELD).and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default();
    for (index, item) in items.iter().enumerate() {
        let Some(taint) = taints_of(Some(&Value::Array(vec![item.clone()]))).pop() else { continue };
        let place = item_place(bootstrap, index);
        let shown = || format!("{FIELD}: {taint}");
        if item.get("timeAdded").is_some_and(|time| !time.is_null()) {
            let message = format!("taint {taint} of {FIELD} has `timeAdded`, which only the API server sets");
            let fix = "remove `timeAdded`";
            findings.add_with_fix(&verdicts::KA14, message, fix, place.clone(), shown());
        }
        let is_second = !seen.insert((taint.key.clone(), taint.effect.clone()));
        if let Err(fault) = taint.check() {
            findings.add(&verdicts::KA03, fault.to_string(), place, shown());
        } else if is_second {
            let message = format!("a taint of key `{}` and effect {} occurs twice", taint.key, taint.effect);
            let fix = "keep one taint of each key and effect: the API server refuses a Node with two";
            findings.add_with_fix(&verdicts::KA03, message, fix, place, shown());
        }
    }
}

/// Returns the location of a list item.
fn item_place(bootstrap: &ParsedBootstrap, index: usize) -> Place {
    let of_layer = |layer: &crate::kubelet::config::Layer| {
        let list = layer.tree.get(FIELD)?;
        let line = list.items().get(index).map_or(list.line, |item| item.line);
        (line > 0).then(|| layer.source.at(line))
    };
    // A list replaces the one of an earlier layer.
    let last = bootstrap.layers.iter().rev().find(|layer| layer.tree.get(FIELD).is_some());
    last.and_then(of_layer).unwrap_or_else(|| field_place(bootstrap))
}

fn field_place(bootstrap: &ParsedBootstrap) -> Place {
    let of_layer =
        |layer: &crate::kubelet::config::Layer| layer.tree.entry(FIELD).map(|(line, _)| layer.source.at(line));
    bootstrap.layers.iter().rev().find_map(of_layer).unwrap_or_else(|| Place { source: "kubelet".into(), line: None })
}

/// Returns the taints of replaced lists that are not in effect, and reports them.
fn replaced_taints(
    bootstrap: &ParsedBootstrap,
    parsed: &Parsed,
    config: &Map<String, Value>,
    effective: &[Taint],
    findings: &mut Findings,
) -> Vec<(Taint, Place)> {
    let Some(last) = parsed.last(FLAG) else { return Vec::new() };
    let Some(winner) = bootstrap.arguments.get(last.index) else { return Vec::new() };
    let mut replaced = Vec::new();
    for given in parsed.all(FLAG).filter(|given| given.index != last.index) {
        let Some(argument) = bootstrap.arguments.get(given.index) else { continue };
        let taints = taints::flag_value(&given.value).unwrap_or_default();
        replaced.extend(taints.into_iter().map(|taint| (taint, argument.place.clone())));
    }
    replaced.extend(taints_of(config.get(FIELD)).into_iter().map(|taint| (taint, field_place(bootstrap))));
    replaced.retain(|(taint, _)| !effective.contains(taint));
    if !replaced.is_empty() && !winner.is_open {
        let lost = replaced.iter().map(|(taint, _)| format!("`{taint}`")).collect::<Vec<_>>().join(", ");
        let message = format!("the last `--{FLAG}` replaces {lost}");
        findings.add(&verdicts::KA08, message, winner.place.clone(), &winner.text);
    }
    replaced
}

/// Returns the node name that the document sets, and reports a name that is not valid or not unique.
pub(crate) fn name(bootstrap: &ParsedBootstrap, parsed: &Parsed, findings: &mut Findings) -> Option<String> {
    let of_flag = parsed.last("hostname-override").and_then(|given| {
        let argument = bootstrap.arguments.get(given.index).filter(|argument| !argument.is_open)?;
        Some(Stated { text: given.value.clone(), place: argument.place.clone() })
    });
    let stated = of_flag.or_else(|| bootstrap.settings.as_ref()?.hostname.clone())?;
    // The kubelet trims the name and converts it to lower case.
    let name = stated.text.trim().to_lowercase();
    if !is_dns_name(&name) {
        findings.add(&verdicts::AU08, format!("`{name}` is not a valid name for a Node"), stated.place, &stated.text);
    } else if !bootstrap.is_of_one_machine {
        // The environment file of one machine names that machine; user data is shared by many machines.
        findings.add(&verdicts::AU05, format!("every node would be named `{name}`"), stated.place, &stated.text);
    }
    Some(name)
}
