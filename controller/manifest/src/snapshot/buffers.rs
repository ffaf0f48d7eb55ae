//! CapacityBuffers: virtual pods that reserve room for future pods.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::sync::Arc;

use muster_scheduling::model::{Pod, Resource, Resources, SpecId};

use super::devices;
use super::resolve::{PodIdentity, Resolver};
use crate::{BufferSource, CapacityBuffer, Manifests, PodTemplate, Workload};

/// Number of virtual pods of a CapacityBuffer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ResolvedBuffer {
    /// `namespace/name` of the buffer.
    pub path: Arc<str>,
    /// `metadata.generation` of the buffer.
    pub generation: Option<i64>,
    /// The number, or the reason why the buffer keeps no room.
    pub pods: Result<u32, Unresolved>,
}

/// Reason why a CapacityBuffer keeps no room.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Unresolved {
    /// It names neither a PodTemplate nor a workload.
    NoReference,
    /// The PodTemplate (`namespace/name`) does not exist.
    NoTemplate(Arc<str>),
    /// The workload (kind, and `namespace/name`) does not exist.
    NoWorkload(Arc<str>, Arc<str>),
    /// It names an object of another kind.
    Unsupported(Arc<str>),
}

impl fmt::Display for Unresolved {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoReference => write!(f, "it names neither a PodTemplate nor a workload"),
            Self::NoTemplate(path) => write!(f, "PodTemplate `{path}` is not in the input"),
            Self::NoWorkload(kind, path) => write!(f, "{kind} `{path}` is not in the input"),
            Self::Unsupported(kind) => write!(
                f,
                "`scalableRef` names an object of kind `{kind}`, and may name a Deployment, a StatefulSet or a ReplicaSet"
            ),
        }
    }
}

/// Pod template of a buffer.
struct Model<'m> {
    template: &'m Arc<PodTemplate>,
    /// Replicas of the workload, if the buffer references one.
    replicas: Option<u32>,
}

/// Kinds that `scalableRef` may name, all of the group `apps`.
const SCALABLE: [&str; 3] = ["Deployment", "StatefulSet", "ReplicaSet"];

/// Maximum number of pods of all buffers together: anyone who may create buffers in one namespace may create many.
const MOST_PODS: u32 = 100_000;

/// Adds one warning if the input has CapacityBuffers, which keep no room.
pub(super) fn warn_without_gate(manifests: &Manifests, warnings: &mut Vec<String>) {
    let count = manifests.capacity_buffers.len();
    if count > 0 {
        let buffers =
            if count == 1 { "1 CapacityBuffer keeps".to_owned() } else { format!("{count} CapacityBuffers keep") };
        warnings.push(format!(
            "{buffers} no room: the feature gate `CapacityBuffer` is off; turn it on with `CapacityBuffer=true`"
        ));
    }
}

/// Appends the pods of the buffers to `pending`: real pods are placed first. Returns the buffers in the order of the
/// input.
pub(super) fn append(
    manifests: &Manifests,
    pending: &mut Vec<Pod>,
    resolver: &mut Resolver<'_>,
    warnings: &mut Vec<String>,
) -> Vec<ResolvedBuffer> {
    let buffers: Vec<&CapacityBuffer> = manifests.capacity_buffers.iter().filter(|it| !it.meta.deleting).collect();
    if buffers.is_empty() {
        return Vec::new();
    }
    let workloads = workloads(manifests);
    let wanted: Vec<Result<(u32, SpecId), Unresolved>> =
        buffers.iter().map(|buffer| wanted(manifests, &workloads, buffer, resolver)).collect();
    let counts = wanted.iter().map(|wanted| wanted.as_ref().map_or(0, |(count, _)| *count));
    let counts = shares(&buffers.iter().map(|buffer| &*buffer.meta.namespace).zip(counts).collect::<Vec<_>>());
    let mut resolved = Vec::with_capacity(buffers.len());
    let taken: BTreeSet<&str> =
        manifests.pods.iter().map(|pod| &*pod.path).filter(|path| path.contains("-buffer-")).collect();
    for ((buffer, wanted), count) in buffers.into_iter().zip(wanted).zip(counts) {
        let path = buffer.meta.path();
        let pods = match wanted {
            Err(reason) => {
                warnings.push(format!("CapacityBuffer `{path}` keeps no room: {reason}"));
                Err(reason)
            }
            Ok((wanted, spec)) => {
                if count < wanted {
                    warnings.push(format!(
                        "CapacityBuffer `{path}` keeps room for {count} of {wanted} pods: all buffers together have at most {MOST_PODS}"
                    ));
                }
                // The name of a real pod would make it that pod.
                let names = (0_u32..).map(|number| format!("{path}-buffer-{number}"));
                let names = names.filter(|name| !taken.contains(name.as_str()));
                let count_of = usize::try_from(count).unwrap_or(usize::MAX);
                pending.extend(names.take(count_of).map(|name| Pod { name: name.into(), spec }));
                Ok(count)
            }
        };
        resolved.push(ResolvedBuffer { path, generation: buffer.generation, pods });
    }
    resolved
}

/// Returns the number of pods that the buffer asks for, and their constraints.
fn wanted(
    manifests: &Manifests,
    workloads: &Workloads<'_>,
    buffer: &CapacityBuffer,
    resolver: &mut Resolver<'_>,
) -> Result<(u32, SpecId), Unresolved> {
    let model = model(manifests, workloads, buffer)?;
    let name = format!("{}-buffer", buffer.meta.name);
    let id = resolver.spec_id(&PodIdentity {
        namespace: &buffer.meta.namespace,
        name: &name,
        template: model.template,
        owner: None,
        claim_templates: &[],
        granted: None,
        made_claims: &[],
    });
    let mut spec = resolver.spec(id).clone();
    spec.priority = i32::MIN;
    spec.is_virtual = true;
    if let Some(claim) = model.template.resource_claims.first() {
        // Nobody makes claims for pods that do not exist.
        spec.refusal
            .get_or_insert_with(|| devices::refused(format!("resource claim `{}` of a CapacityBuffer", claim.name)));
    }
    Ok((count(buffer, &model, &spec.requests), resolver.intern(spec)))
}

/// Returns the number of pods of each buffer. If all of them want too many, namespaces share what there is: none gets
/// less than another that asks for more.
fn shares(wanted: &[(&str, u32)]) -> Vec<u32> {
    let mut by_namespace: BTreeMap<&str, u64> = BTreeMap::new();
    for (namespace, count) in wanted {
        *by_namespace.entry(namespace).or_default() += u64::from(*count);
    }
    let mut ascending: Vec<(&str, u64)> = by_namespace.iter().map(|(namespace, count)| (*namespace, *count)).collect();
    ascending.sort_by_key(|(_, count)| *count);
    let mut left = u64::from(MOST_PODS);
    for (number, (namespace, count)) in ascending.iter().enumerate() {
        let others = u64::try_from(ascending.len() - number).unwrap_or(u64::MAX);
        let share = (*count).min(left / others);
        left -= share;
        by_namespace.insert(namespace, share);
    }
    let mut shares = Vec::with_capacity(wanted.len());
    for (namespace, count) in wanted {
        let left = by_namespace.entry(namespace).or_default();
        let share = u64::from(*count).min(*left);
        *left -= share;
        shares.push(u32::try_from(share).unwrap_or(*count));
    }
    shares
}

/// Workloads by kind, namespace and name.
type Workloads<'m> = BTreeMap<(&'m str, &'m str, &'m str), &'m Workload>;

fn workloads(manifests: &Manifests) -> Workloads<'_> {
    let all = manifests.scaled.iter().chain(&manifests.workloads);
    all.map(|it| ((it.kind, &*it.meta.namespace, &*it.meta.name), it)).collect()
}

fn model<'m>(
    manifests: &'m Manifests,
    workloads: &Workloads<'m>,
    buffer: &CapacityBuffer,
) -> Result<Model<'m>, Unresolved> {
    let namespace = &buffer.meta.namespace;
    match &buffer.source {
        None => Err(Unresolved::NoReference),
        Some(BufferSource::Template(name)) => {
            let path: Arc<str> = format!("{namespace}/{name}").into();
            let template = manifests.pod_templates.get(&path).ok_or(Unresolved::NoTemplate(path))?;
            Ok(Model { template, replicas: None })
        }
        Some(BufferSource::Workload { group, kind, name }) => {
            if !group.as_deref().is_none_or(|group| group.is_empty() || group == "apps") {
                return Err(Unresolved::Unsupported(format!("{kind}.{}", group.as_deref().unwrap_or_default()).into()));
            }
            if !SCALABLE.contains(&&**kind) {
                return Err(Unresolved::Unsupported(Arc::clone(kind)));
            }
            let workload = workloads.get(&(&**kind, &**namespace, &**name)).copied();
            let missing = || Unresolved::NoWorkload(Arc::clone(kind), format!("{namespace}/{name}").into());
            let workload = workload.ok_or_else(missing)?;
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_namespace_takes_the_share_of_another() {
        assert_eq!(shares(&[("a", 3), ("b", 4)]), [3, 4]);
        let crowd = [("a", 90_000), ("b", 10), ("a", 90_000), ("c", 70_000)];
        assert_eq!(shares(&crowd), [49_995, 10, 0, 49_995]);
        assert_eq!(shares(&[("a", u32::MAX), ("a", u32::MAX)]), [100_000, 0]);
    }
}
