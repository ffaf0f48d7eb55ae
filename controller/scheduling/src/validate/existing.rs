//! Checks of pods on existing nodes.

use std::collections::BTreeSet;

use super::specs::{Specs, add_row};
use super::violation::{Findings, Place, Promise};
use crate::model::{Attachment, HostPort, Node, PodSpec};
use crate::solution::Solution;

/// Checks every existing node with pods of the plan.
pub(crate) fn check(specs: &Specs<'_>, solution: &Solution, findings: &mut Findings) {
    for (number, pods) in &solution.existing {
        check_node(specs, *number, pods, findings);
    }
}

fn check_node(specs: &Specs<'_>, number: usize, pods: &[usize], findings: &mut Findings) {
    let problem = specs.problem;
    let node = &problem.nodes[number];
    let place = Place::Existing(number);
    if node.deleting {
        findings.note(place, Promise::Deleting, "it takes no pods");
    }
    let mut kinds: Vec<usize> = pods.iter().map(|&pod| problem.pods[pod].spec).collect();
    let mut asked = vec![0; specs.resources.len()];
    kinds.iter().for_each(|&spec| add_row(&mut asked, specs.request(spec)));
    let room = room(specs, node);
    for ((resource, asked), room) in specs.resources.iter().zip(&asked).zip(&room) {
        if asked > room && *asked > 0 {
            findings.note(place, Promise::Resources, format!("{resource}: {asked} of {room} left"));
        }
    }
    if let Some(port) = taken_twice(
        pods.iter().map(|&pod| problem.spec_of(pod)),
        node.bound.iter().flat_map(|bound| &problem.specs[bound.spec].host_ports),
    ) {
        findings.note(place, Promise::HostPorts, format!("port {} is taken twice", port.port));
    }
    check_volumes(specs, node, place, &kinds, findings);
    kinds.sort_unstable();
    kinds.dedup();
    for spec in kinds {
        if let Some(taint) = specs.repelled_by(specs.tolerance_id(spec), &node.taints) {
            findings.note(place, Promise::Taints, format!("taint {} is not tolerated", taint.key));
        }
        if !specs.suits(specs.placement_id(spec), node) {
            findings.note(place, Promise::Requirements, format!("spec {spec} wants other labels"));
        }
    }
}

/// Returns the room for pods: allocatable minus bound pods and future daemons, never below zero.
pub(crate) fn room(specs: &Specs<'_>, node: &Node) -> Vec<i64> {
    let mut taken = specs.row(&node.daemon_requests);
    node.bound.iter().for_each(|bound| add_row(&mut taken, specs.request(bound.spec)));
    let room = specs.row(&node.allocatable).into_iter().zip(taken);
    room.map(|(all, taken)| all.saturating_sub(taken).max(0)).collect()
}

/// Returns the first port that two of `specs`, or one of them and `others`, use.
pub(crate) fn taken_twice<'a>(
    specs: impl Iterator<Item = &'a PodSpec>,
    others: impl Iterator<Item = &'a HostPort>,
) -> Option<HostPort> {
    let asking: Vec<&PodSpec> = specs.filter(|spec| !spec.host_ports.is_empty()).collect();
    if asking.is_empty() {
        return None;
    }
    let mut taken: Vec<HostPort> = others.copied().collect();
    for spec in asking {
        let conflict = spec.host_ports.iter().find(|port| taken.iter().any(|taken| port.conflicts(taken)));
        if let Some(port) = conflict {
            return Some(*port);
        }
        taken.extend(&spec.host_ports);
    }
    None
}

fn check_volumes(specs: &Specs<'_>, node: &Node, place: Place, kinds: &[usize], findings: &mut Findings) {
    if node.attach_limits.is_empty() {
        return;
    }
    let attached = |spec: &usize| specs.problem.specs[*spec].attachments.iter();
    let of_pods = node.bound.iter().flat_map(|bound| attached(&bound.spec));
    let there: BTreeSet<(&str, &str)> = node.attached.iter().chain(of_pods).map(name).collect();
    let asked: BTreeSet<(&str, &str)> = kinds.iter().flat_map(attached).map(name).collect();
    for (driver, limit) in &node.attach_limits {
        let of_driver = |(of, _): &&(&str, &str)| *of == &**driver;
        let new = asked.difference(&there).filter(of_driver).count();
        let left = (*limit as usize).saturating_sub(there.iter().filter(of_driver).count());
        if new > left {
            findings.note(place, Promise::AttachLimits, format!("{driver}: {new} volumes of {left} left"));
        }
    }
}

fn name(attachment: &Attachment) -> (&str, &str) {
    (&attachment.driver, &attachment.claim)
}
