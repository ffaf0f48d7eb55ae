//! Status of CapacityBuffers.
//!
//! ```text
//!   LiveBuffer, BufferOutcome of the last round ─┬─► template, replicas    ReadyForProvisioning
//!                                                └─► places of its pods    Provisioning
//! ```

use std::collections::BTreeMap;

use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use muster_api::CapacityBuffer;
use muster_api::capacitybuffer::{CapacityBufferStatus, PodTemplateReference};
use muster_api::conditions::{capacitybuffer, reason};
use muster_manifest::snapshot::Unresolved;
use muster_scheduling::Reason;

use crate::lifecycle::conditions::{Status, at, set};
use crate::provision::{BufferOutcome, BufferPlaces};
use crate::state::{Cluster, LiveBuffer};
use crate::step::{Step, Write};

#[cfg(test)]
mod tests;

/// Maximum number of statuses that one step writes: anyone who may create buffers in one namespace may create many.
/// Namespaces take turns.
const AT_ONCE: usize = 100;

/// Returns the writes about the buffers of `cluster`; `outcomes` are those of the last round. Buffers that the round
/// did not see in their current form are left alone: the next round follows.
#[must_use]
pub fn decide(cluster: &Cluster, outcomes: &[BufferOutcome], now: Timestamp) -> Step {
    let by_path: BTreeMap<&str, &BufferOutcome> = outcomes.iter().map(|one| (&*one.buffer.path, one)).collect();
    let mut turns: BTreeMap<&str, usize> = BTreeMap::new();
    let mut writes = Vec::new();
    for (path, buffer) in cluster.buffers() {
        let meta = &buffer.typed.metadata;
        if meta.deletion_timestamp.is_some() {
            continue;
        }
        let outcome = by_path.get(path).copied().filter(|one| one.buffer.generation == meta.generation);
        let Some(status) = judge(cluster, path, buffer, outcome, now) else { continue };
        if buffer.typed.status.as_ref() == Some(&status) {
            continue;
        }
        let namespace = path.split_once('/').map_or("", |(namespace, _)| namespace);
        let turn = turns.entry(namespace).or_default();
        *turn += 1;
        writes.push((*turn, Write::BufferStatus { path: path.to_owned(), status: Box::new(status) }));
    }
    writes.sort_by_key(|(turn, _)| *turn);
    let has_more = writes.len() > AT_ONCE;
    let step = Step::act(writes.into_iter().take(AT_ONCE).map(|(_, write)| write));
    if has_more { step.or_sooner(Some(now)) } else { step }
}

/// Returns the desired status; `None` if the buffer has not been resolved yet.
fn judge(
    cluster: &Cluster,
    path: &str,
    buffer: &LiveBuffer,
    outcome: Option<&BufferOutcome>,
    now: Timestamp,
) -> Option<CapacityBufferStatus> {
    let LiveBuffer { typed, refusal, .. } = buffer;
    let mut status = typed.status.clone().unwrap_or_default();
    let condition = |kind: &str, is: Status, reason: &str, message: &str| -> Condition {
        at(kind, is, reason, message, typed.metadata.generation, now)
    };
    let resolved = match (refusal, outcome.map(|outcome| &outcome.buffer.pods)) {
        (Some(refusal), _) => Err((reason::RESOLUTION_FAILED, refusal.clone())),
        (None, Some(Err(why))) => Err(unresolved(why)),
        (None, Some(Ok(count))) => Ok(*count),
        (None, None) => return None,
    };
    status.provisioning_strategy.clone_from(&typed.spec.provisioning_strategy);
    status.pod_template_ref = None;
    status.pod_template_generation = None;
    status.replicas = None;
    let ready = capacitybuffer::READY_FOR_PROVISIONING;
    match &resolved {
        Ok(count) => {
            status.replicas = Some(i32::try_from(*count).unwrap_or(i32::MAX));
            let template = template_of(typed).map(|name| (name, path.split_once('/').map_or("", |(of, _)| of)));
            if let Some((name, namespace)) = template {
                status.pod_template_ref = Some(PodTemplateReference { name: name.to_owned() });
                status.pod_template_generation = cluster.generation_of_template(&format!("{namespace}/{name}"));
            }
            let message = "Pod template resolved successfully";
            set(&mut status.conditions, condition(ready, Status::True, reason::RESOLVED, message));
        }
        Err((why, message)) => set(&mut status.conditions, condition(ready, Status::False, why, message)),
    }
    let places = outcome.map(|outcome| &outcome.places);
    let (is, why, message) = provisioning(resolved.ok(), places.unwrap_or(&BufferPlaces::default()));
    set(&mut status.conditions, condition(capacitybuffer::PROVISIONING, is, why, &message));
    Some(status)
}

fn template_of(buffer: &CapacityBuffer) -> Option<&str> {
    buffer.spec.pod_template_ref.as_ref().map(|reference| reference.name.as_str())
}

/// Returns reason and message for a buffer that keeps no room.
fn unresolved(why: &Unresolved) -> (&'static str, String) {
    match why {
        Unresolved::NoReference => {
            (reason::RESOLUTION_FAILED, "Neither podTemplateRef nor scalableRef is set".to_owned())
        }
        Unresolved::NoTemplate(path) => {
            (reason::POD_TEMPLATE_NOT_FOUND, format!("PodTemplate `{path}` does not exist"))
        }
        Unresolved::NoWorkload(kind, path) => {
            (reason::SCALABLE_REF_NOT_FOUND, format!("{kind} `{path}` does not exist"))
        }
        Unresolved::Unsupported(_) => (reason::RESOLUTION_FAILED, why.to_string()),
    }
}

/// Returns the condition Provisioning: true once all pods have room on nodes that are ready.
fn provisioning(count: Option<u32>, places: &BufferPlaces) -> (Status, &'static str, String) {
    let Some(count) = count else {
        return (Status::False, reason::NOT_READY_FOR_PROVISIONING, "Buffer is not ReadyForProvisioning".to_owned());
    };
    if count == 0 {
        return (Status::False, reason::BUFFER_EMPTY, "Buffer has zero desired replicas".to_owned());
    }
    let BufferPlaces { existing: _, coming, failed, why } = places;
    if *coming == 0 && *failed == 0 {
        let message = format!("All {count} virtual pods fit on existing capacity");
        return (Status::True, reason::FITS_EXISTING_CAPACITY, message);
    }
    let mut message = format!("{coming}/{count} virtual pods required new capacity, {failed} failed");
    let mut reason = reason::REQUIRES_NEW_CAPACITY;
    if let Some((word, text)) = why.as_ref().filter(|_| *failed > 0) {
        message.push_str(": ");
        message.push_str(text);
        if !may_pass(word) {
            reason = reason::INFEASIBLE;
        }
    }
    (Status::False, reason, message)
}

/// Returns true if a pod that is refused for this reason may find room later although neither it, nor a NodePool, nor a
/// type of the cloud changes.
fn may_pass(reason: &str) -> bool {
    let of_engine = [Reason::Limits, Reason::Reserved, Reason::NoOffering, Reason::NoNodePool, Reason::TooComplex];
    let of_cloud = ["Capped", "InvalidPlan", reason::LAUNCHES_STOPPED, reason::LAUNCHES_HELD];
    of_engine.iter().any(|one| one.name() == reason) || of_cloud.contains(&reason)
}
