//! CapacityBuffers: virtual pods that reserve room for future pods.

use std::sync::Arc;

use muster_scheduling::model::{Pod, Resource, Resources};

use super::resolve::{PodIdentity, Resolver};
use crate::{BufferSource, CapacityBuffer, Manifests, PodTemplate};

/// Pod template of a buffer.
struct Model<'m> {
    template: &'m Arc<PodTemplate>,
    /// Replicas of the workload, if the buffer references one.
    replicas: Option<u32>,
}

/// Maximum number of pods of all buffers together: anyone who may create buffers in one namespace may create many.
const MOST_PODS: u32 = 100_000;

/// Appends the pods of the buffers to `pending`: real pods are placed first.
pub(super) fn append(
    manifests: &Manifests,
    mut pending: Vec<Pod>,
    resolver: &mut Resolver<'_>,
    warnings: &mut Vec<String>,
) -> Vec<Pod> {
    let mut left = MOST_PODS;
    for buffer in manifests.capacity_buffers.iter().filter(|buffer| !buffer.meta.deleting) {
        let path = buffer.meta.path();
        let model = match model(manifests, buffer) {
            Ok(model) => model,
            Err(reason) => {
                warnings.push(format!("CapacityBuffer `{path}` keeps no room: {reason}"));
                continue;
            }
        };
        let name = format!("{}-buffer", buffer.meta.name);
        let id = resolver.spec_id(&PodIdentity {
            namespace: &buffer.meta.namespace,
            name: &name,
            template: model.template,
            owner: None,
            claim_templates: &[],
            granted: None,
        });
        let mut spec = resolver.spec(id).clone();
        spec.priority = i32::MIN;
        let wanted = count(buffer, &model, &spec.requests);
        let count = wanted.min(left);
        if count < wanted {
            warnings.push(format!(
                "CapacityBuffer `{path}` keeps room for {count} of {wanted} pods: all buffers together have at most {MOST_PODS}"
            ));
        }
        if count == 0 {
            continue;
        }
        left -= count;
        let id = resolver.intern(spec);
        pending.extend((0..count).map(|number| Pod { name: format!("{path}-buffer-{number}").into(), spec: id }));
    }
    pending
}

fn model<'m>(manifests: &'m Manifests, buffer: &CapacityBuffer) -> Result<Model<'m>, String> {
    let namespace = &buffer.meta.namespace;
    match &buffer.source {
        None => Err("it names neither a PodTemplate nor a workload".to_owned()),
        Some(BufferSource::Template(name)) => {
            let path: Arc<str> = format!("{namespace}/{name}").into();
            let template = manifests.pod_templates.get(&path);
            let template = template.ok_or_else(|| format!("PodTemplate `{path}` is not in the input"))?;
            Ok(Model { template, replicas: None })
        }
        Some(BufferSource::Workload(kind, name)) => {
            let named = |workload: &&crate::Workload| {
                *workload.kind == **kind && workload.meta.name == *name && workload.meta.namespace == *namespace
            };
            let workload = manifests.workloads.iter().find(named);
            let workload = workload.ok_or_else(|| format!("{kind} `{namespace}/{name}` is not in the input"))?;
            Ok(Model { template: &workload.template, replicas: Some(workload.replicas) })
        }
    }
}

/// Returns the number of pods, as in Karpenter: the larger of `replicas` and the percentage, bounded by the limits;
/// without both, as many as the limits allow.
fn count(buffer: &CapacityBuffer, model: &Model<'_>, requests: &Resources) -> u32 {
    let share = buffer.percentage.zip(model.replicas).map(|(percentage, replicas)| {
        let hundredths = u64::from(percentage) * u64::from(replicas);
        u32::try_from(hundredths.div_ceil(100)).unwrap_or(u32::MAX)
    });
    let wanted = buffer.replicas.max(share);
    let room = buffer.limits.as_ref().and_then(|limits| room(limits, requests));
    match (wanted, room) {
        (Some(wanted), Some(room)) => wanted.min(room),
        (Some(count), None) | (None, Some(count)) => count,
        (None, None) => 0,
    }
}

/// Returns the number of pods with these requests that fit the limits; `None` if no requested resource is limited.
fn room(limits: &Resources, requests: &Resources) -> Option<u32> {
    let of = |(resource, limit): (&Resource, i64)| {
        let request = requests.get(resource);
        (request > 0).then(|| u32::try_from(limit / request).unwrap_or(u32::MAX))
    };
    limits.iter().filter_map(of).min()
}
