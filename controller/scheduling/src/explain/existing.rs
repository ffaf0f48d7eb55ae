//! Checks of one pod against one existing node, in Karpenter's order.

use std::collections::BTreeSet;
use std::sync::Arc;

use rustc_hash::FxHashSet;

use super::census::{Census, alternatives, untolerated};
use super::finding::{Finding, Stage};
use super::topology::{self, Place, Rules};
use super::{judge, wording};
use crate::labels;
use crate::model::{Attachment, Conflict, Node, PodSpec, Requirements, of_driver};
use crate::solution::Reason;

/// Returns the pods on a node, bound ones and those that the plan adds: name and spec.
pub(super) fn pods_on<'c>(census: &Census<'c>, index: usize) -> impl Iterator<Item = (&'c Arc<str>, &'c PodSpec)> {
    let problem = census.problem;
    let bound = problem.nodes.get(index).map_or(&[][..], |node| &node.bound).iter().map(|pod| (&pod.name, pod.spec));
    let added = census.added(index).iter();
    let added = added.filter_map(|pod| problem.pods.get(*pod)).map(|pod| (&pod.name, pod.spec));
    bound.chain(added).filter_map(|(name, spec)| Some((name, problem.specs.get(spec)?)))
}

/// Returns the reason why the node does not take a pod of `spec`; `None` if there is none.
pub(super) fn refusal<'s>(census: &Census<'s>, index: usize, rules: &Rules<'s>) -> Option<Finding> {
    let spec = rules.spec;
    let node = census.problem.nodes.get(index)?;
    if node.deleting {
        return Some(Finding::new(Stage::Pool, Reason::Taints, "the node is being deleted".to_owned()));
    }
    if let Some(taint) = untolerated(&node.taints, spec) {
        return Some(judge::repelled(taint, spec));
    }
    let room = || {
        let free = census.free(index)?;
        let (resource, short) = spec.requests.first_shortage(free)?;
        let message = format!(
            "exceeds node resources, {resource}: {} requested, {} free",
            wording::amount(resource, spec.requests.get(resource)),
            wording::amount(resource, free.get(resource).max(0))
        );
        let short = format!("{} of {resource} short", wording::amount(resource, short));
        Some(Finding::new(Stage::Resources, Reason::Resources, message).near(short))
    };
    volume_limit(census, node, index, spec)
        .or_else(|| host_port(census, index, spec))
        .or_else(room)
        .or_else(|| labelled(node, rules))
        .or_else(|| {
            topology::narrow(census, Place::Node(index), rules, &mut Requirements::from_labels(&node.labels)).err()
        })
}

fn volume_limit<'s>(census: &Census<'s>, node: &Node, index: usize, spec: &'s PodSpec) -> Option<Finding> {
    if spec.attachments.is_empty() {
        return None;
    }
    let mut there = node.volumes(&census.problem.specs);
    there.extend(pods_on(census, index).flat_map(|(_, spec)| &spec.attachments));
    let new: FxHashSet<&Attachment> = spec.attachments.iter().filter(|volume| !there.contains(volume)).collect();
    node.attach_limits.iter().find_map(|(driver, limit)| {
        let wanted = of_driver(&new, driver);
        let left = (*limit as usize).saturating_sub(of_driver(&there, driver));
        (wanted > left).then(|| {
            let message = format!("would exceed volume limit, {driver} can attach {left} more volumes there");
            Finding::new(Stage::Volumes, Reason::VolumeLimit, message)
                .hint("move another pod with volumes off the node, or let this one go elsewhere".to_owned())
        })
    })
}

fn host_port(census: &Census<'_>, index: usize, spec: &PodSpec) -> Option<Finding> {
    let asks = !spec.host_ports.is_empty();
    pods_on(census, index).filter(|_| asks).find_map(|(name, other)| {
        let port = spec.host_ports.iter().find(|port| other.host_ports.iter().any(|taken| taken.conflicts(port)))?;
        let port = wording::port(port);
        let message = format!("checking host port usage, port {port} is taken by {name}");
        Some(
            Finding::new(Stage::HostPorts, Reason::HostPort, message).hint(format!("use another hostPort than {port}")),
        )
    })
}

/// Checks the node's labels against selector, affinity and volumes; an undefined label is a conflict here.
fn labelled(node: &Node, rules: &Rules<'_>) -> Option<Finding> {
    let mut there = Requirements::from_labels(&node.labels);
    there.add(labels::HOSTNAME, judge::only(node.labels.get(labels::HOSTNAME).unwrap_or(&node.name)));
    let finding = |conflict: Conflict| match conflict {
        Conflict::Unknown { key } => {
            let message = format!("label {key:?} does not have known values");
            Finding::new(Stage::Requirements, Reason::UnknownLabel, message)
        }
        Conflict::Disjoint { key, incoming, existing } => {
            judge::disjoint(Stage::Requirements, &key, &incoming, &existing)
        }
    };
    let mut first = None;
    let spec = rules.spec;
    for wanted in &rules.wanted {
        match there.first_conflict(wanted, |_| false) {
            None => {
                first = None;
                break;
            }
            conflict => first = first.or(conflict),
        }
    }
    if let Some(conflict) = first {
        return Some(finding(conflict));
    }
    let volumes = spec.volume_terms.iter().map(|volume| there.first_conflict(volume, |_| false));
    let conflict = volumes.collect::<Option<Vec<_>>>().filter(|_| !spec.volume_terms.is_empty())?.into_iter().next()?;
    Some(Finding { reason: Reason::Volume, stage: Stage::Volumes, ..finding(conflict) })
}

/// Returns the existing hosts that the pod's selector lists, if each of its alternatives lists some.
pub(super) fn named_hosts(spec: &PodSpec) -> Option<BTreeSet<Arc<str>>> {
    let hosts = |wanted: Requirements| {
        let host = wanted.get(labels::HOSTNAME).filter(|it| it.is_finite())?;
        Some(host.values().cloned().collect::<Vec<_>>())
    };
    let named: Option<Vec<_>> = alternatives(spec).map(hosts).collect();
    named.map(|hosts| hosts.into_iter().flatten().collect())
}

/// Returns true if `host` is the hostname of this node.
pub(super) fn answers_to(node: &Node, host: &str) -> bool {
    node.labels.get(labels::HOSTNAME).map_or(&*node.name == host, |label| &**label == host)
}
