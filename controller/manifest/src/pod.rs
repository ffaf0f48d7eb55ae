//! Pods, and the templates from which workloads create them.

use std::sync::Arc;

use muster_scheduling::model::{
    HostPort, Labels, Operator, Requirement, Requirements, Resources, SpreadConstraint, Toleration,
};

use super::containers::{Container, PodResources, Stage, container, resources};
use super::field::{Decoded, Field};
use super::meta::{Meta, meta};
use super::placement::{self, Affinity};
use super::selector::toleration;
use super::volume::{Volume, volume};

/// Scheduling properties of a pod; pods with equal ones share one.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Default)]
pub struct PodTemplate {
    /// Labels.
    pub labels: Labels,
    /// Init containers in their order, then the others.
    pub containers: Vec<Container>,
    /// `spec.resources`.
    pub resources: Option<PodResources>,
    /// `spec.overhead`.
    pub overhead: Option<Resources>,
    /// `spec.runtimeClassName`.
    pub runtime_class: Option<Arc<str>>,
    /// `spec.nodeSelector`.
    pub node_selector: Requirements,
    /// `spec.affinity`.
    pub affinity: Affinity,
    /// `spec.tolerations`.
    pub tolerations: Vec<Toleration>,
    /// `spec.topologySpreadConstraints`.
    pub spread: Vec<SpreadConstraint>,
    /// Host ports.
    pub host_ports: Vec<HostPort>,
    /// Volumes that may constrain the node.
    pub volumes: Vec<Volume>,
    /// `spec.priority`.
    pub priority: Option<i32>,
    /// `spec.priorityClassName`.
    pub priority_class: Option<Arc<str>>,
    /// `spec.resourceClaims`.
    pub resource_claims: Vec<PodClaim>,
}

/// An entry of `spec.resourceClaims`.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct PodClaim {
    /// Name in the pod.
    pub name: Arc<str>,
    /// Name of the ResourceClaim, if it exists apart from the pod.
    pub claim: Option<Arc<str>>,
    /// Name of the ResourceClaimTemplate from which a claim is made for the pod.
    pub template: Option<Arc<str>>,
}

/// A pod of the input.
#[derive(Debug, Clone, PartialEq)]
pub struct Pod {
    /// Position in the input, in one sequence with workloads.
    pub sequence: usize,
    /// Namespace.
    pub namespace: Arc<str>,
    /// Name.
    pub name: Arc<str>,
    /// `namespace/name`.
    pub path: Arc<str>,
    /// Scheduling properties.
    pub template: Arc<PodTemplate>,
    /// Effective requests of the pod with the resources that the kubelet has allocated beyond its requests.
    pub granted: Option<Resources>,
    /// Names of the ResourceClaims that were made for the pod, by name in the pod.
    pub made_claims: Vec<(Arc<str>, Arc<str>)>,
    /// `spec.nodeName`.
    pub node: Option<Arc<str>>,
    /// `status.nominatedNodeName`.
    pub nominated_node: Option<Arc<str>>,
    /// Kind and name of its controller.
    pub owner: Option<super::meta::Owner>,
    /// True if it has scheduling gates.
    pub gated: bool,
    /// True if its phase is Succeeded or Failed.
    pub terminal: bool,
    /// True if it has a deletion timestamp.
    pub deleting: bool,
    /// True if its condition Ready is True.
    pub ready: bool,
    /// `status.startTime`, as written.
    pub started: Option<Arc<str>>,
    /// Annotations that disruption uses, and the one that marks a mirror pod.
    pub annotations: Labels,
    /// True if its spec cannot be read: what it needs is unknown. Such a pod is never planned. Its node is not
    /// disrupted voluntarily, and takes no other pods but those that tolerate every taint.
    pub is_unreadable: bool,
}

const POD_SPEC: &[&str] = &[
    "activeDeadlineSeconds",
    "affinity",
    "automountServiceAccountToken",
    "containers",
    "dnsConfig",
    "dnsPolicy",
    "enableServiceLinks",
    "ephemeralContainers",
    "evictionResponders",
    "hostAliases",
    "hostIPC",
    "hostNetwork",
    "hostPID",
    "hostUsers",
    "hostname",
    "hostnameOverride",
    "imagePullSecrets",
    "initContainers",
    "nodeName",
    "nodeSelector",
    "os",
    "overhead",
    "preemptionPolicy",
    "priority",
    "priorityClassName",
    "readinessGates",
    "resourceClaims",
    "resources",
    "restartPolicy",
    "runtimeClassName",
    "schedulerName",
    "schedulingGates",
    "schedulingGroup",
    "securityContext",
    "serviceAccount",
    "serviceAccountName",
    "setHostnameAsFQDN",
    "shareProcessNamespace",
    "subdomain",
    "terminationGracePeriodSeconds",
    "tolerations",
    "topologySpreadConstraints",
    "volumes",
    "workloadRef",
];

/// Annotations of pods that are kept; others may be large and are not used.
const KEPT_ANNOTATIONS: [&str; 4] = [
    "karpenter.sh/do-not-disrupt",
    "karpenter.sh/disruption-cost",
    "controller.kubernetes.io/pod-deletion-cost",
    "kubernetes.io/config.mirror",
];

/// Reads the spec of a pod or of a template with these labels.
fn pod_spec(spec: &Field<'_>, labels: Labels) -> Decoded<PodTemplate> {
    spec.only(POD_SPEC);
    let host_network = spec.read("hostNetwork", |value| value.boolean())?.unwrap_or(false);
    let mut host_ports = Vec::new();
    let mut all = Vec::new();
    for (key, stage) in [("initContainers", Stage::Init), ("containers", Stage::Main)] {
        let list = if stage == Stage::Main { Some(spec.require(key)?) } else { spec.get(key)? };
        let Some(list) = list else { continue };
        list.items(|item| {
            let (container, ports) = container(&item, stage, host_network)?;
            // Ordinary init containers have ended before the pod's ports are used.
            if container.stage != Stage::Init {
                host_ports.extend(ports);
            }
            all.push(container);
            Ok(())
        })?;
        if stage == Stage::Main && !all.iter().any(|container| container.stage == Stage::Main) {
            return Err(list.fault("is empty", "add at least one container"));
        }
    }
    host_ports.sort();
    host_ports.dedup();
    let affinity = spec.read_or_default("affinity", |affinity| placement::affinity(affinity, &labels))?;
    Ok(PodTemplate {
        containers: all,
        resources: spec.read("resources", resources)?,
        overhead: spec.read("overhead", |amounts| amounts.quantities())?,
        runtime_class: spec.shared_at("runtimeClassName")?,
        node_selector: spec.read_or_default("nodeSelector", node_selector)?,
        affinity,
        tolerations: spec.list("tolerations", toleration)?,
        spread: spec.list("topologySpreadConstraints", |field| placement::spread(field, &labels))?,
        host_ports,
        volumes: spec.list("volumes", volume)?.into_iter().flatten().collect(),
        priority: spec.read("priority", |priority| priority.int32())?,
        priority_class: spec.shared_at("priorityClassName")?,
        resource_claims: spec.list("resourceClaims", |claim| {
            let (existing, template) =
                (claim.shared_at("resourceClaimName")?, claim.shared_at("resourceClaimTemplateName")?);
            Ok(PodClaim { name: claim.require("name")?.shared()?, claim: existing, template })
        })?,
        labels,
    })
}

/// Reads `nodeSelector`: every label must have its value.
fn node_selector(field: Field<'_>) -> Decoded<Requirements> {
    let labels = field.labels()?;
    let one = |value: &Arc<str>| Requirement::new(Operator::In, [Arc::clone(value)]);
    Ok(labels.iter().map(|(key, value)| (Arc::clone(key), one(value))).collect())
}

/// Reads `template` of a workload, or `PodTemplate.template`.
pub(crate) fn template(field: Field<'_>) -> Decoded<PodTemplate> {
    field.only(&["metadata", "spec"]);
    let labels = field.read("metadata", |meta| meta.read("labels", |labels| labels.labels()))?.flatten();
    pod_spec(&field.require("spec")?, labels.unwrap_or_default())
}

/// Decodes a pod; its template is not shared yet.
pub(crate) fn pod(object: &Field<'_>) -> Decoded<(Pod, PodTemplate)> {
    object.only(&["apiVersion", "kind", "metadata", "spec", "status"]);
    let meta = meta(object, true)?;
    let path = meta.path();
    let Meta { namespace, name, labels, annotations, owner, deleting, .. } = meta;
    let spec = object.require("spec")?;
    let template = pod_spec(&spec, labels)?;
    let pod = Pod {
        sequence: 0,
        namespace,
        name,
        path,
        template: Arc::default(),
        granted: None,
        made_claims: Vec::new(),
        node: spec.shared_at("nodeName")?,
        nominated_node: None,
        owner,
        gated: spec.read("schedulingGates", |gates| gates.items(|_| Ok(())))?.is_some_and(|gates| !gates.is_empty()),
        terminal: false,
        deleting,
        ready: false,
        started: None,
        annotations: annotations.iter().filter(|(key, _)| KEPT_ANNOTATIONS.contains(&&***key)).map(own).collect(),
        is_unreadable: false,
    };
    let pod = match object.get("status")? {
        Some(status) => with_status(pod, &spec, &status, &template)?,
        None => pod,
    };
    Ok((pod, template))
}

fn own((key, value): (&Arc<str>, &Arc<str>)) -> (Arc<str>, Arc<str>) {
    (Arc::clone(key), Arc::clone(value))
}

fn with_status(mut pod: Pod, spec: &Field<'_>, status: &Field<'_>, template: &PodTemplate) -> Decoded<Pod> {
    let phase = status.shared_at("phase")?;
    pod.terminal = matches!(phase.as_deref(), Some("Succeeded" | "Failed"));
    pod.nominated_node = status.shared_at("nominatedNodeName")?;
    pod.started = status.shared_at("startTime")?;
    pod.ready = status
        .list("conditions", |condition| {
            Ok(condition.shared_at("type")?.as_deref() == Some("Ready")
                && condition.shared_at("status")?.as_deref() == Some("True"))
        })?
        .contains(&true);
    pod.granted = granted(spec, status, template)?;
    let made = status.list("resourceClaimStatuses", |claim| {
        Ok((claim.require("name")?.shared()?, claim.shared_at("resourceClaimName")?))
    })?;
    pod.made_claims = made.into_iter().filter_map(|(name, claim)| Some((name, claim?))).collect();
    Ok(pod)
}

/// Returns the effective requests during an in-place resize: the larger of the requested and the allocated resources,
/// or the allocated ones if the node can never grant what is requested.
fn granted(spec: &Field<'_>, status: &Field<'_>, template: &PodTemplate) -> Decoded<Option<Resources>> {
    let mut grants = Vec::new();
    for key in ["initContainerStatuses", "containerStatuses"] {
        grants.extend(status.list(key, |container| {
            let name = container.shared_at("name")?.unwrap_or_default();
            Ok((name, granted_by(&container)?))
        })?);
    }
    grants.retain(|(_, amounts)| !amounts.is_empty());
    let of_pod = granted_by(status)?;
    if grants.is_empty() && of_pod.is_empty() {
        return Ok(None);
    }
    let refused = is_infeasible(status)?;
    let grant = |requests: &mut Resources, amounts: &Resources| match refused {
        true => amounts.iter().for_each(|(resource, amount)| requests.set(resource.clone(), amount)),
        false => requests.raise_to(amounts),
    };
    let mut names = Vec::with_capacity(template.containers.len());
    for key in ["initContainers", "containers"] {
        names.extend(spec.list(key, |container| container.shared_at("name"))?);
    }
    let mut containers = template.containers.clone();
    for (container, name) in containers.iter_mut().zip(names) {
        let granted = grants.iter().find(|(granted, _)| Some(granted) == name.as_ref());
        // Ended init containers keep their status; only running containers are resized.
        if let Some((_, amounts)) = granted.filter(|_| container.stage != Stage::Init) {
            grant(&mut container.requests, amounts);
        }
    }
    let mut resources = template.resources.clone();
    if let Some(resources) = &mut resources {
        grant(&mut resources.requests, &of_pod);
    }
    let differs = containers != template.containers || resources != template.resources;
    Ok(differs
        .then(|| super::containers::effective_requests(&containers, resources.as_ref(), template.overhead.as_ref())))
}

/// Returns the larger of the allocated and the actual requests in the status of a container or pod.
fn granted_by(status: &Field<'_>) -> Decoded<Resources> {
    let mut amounts = status.read_or_default("allocatedResources", |amounts| amounts.quantities())?;
    let actual = status.read("resources", |actual| actual.read("requests", |amounts| amounts.quantities()))?;
    amounts.raise_to(&actual.flatten().unwrap_or_default());
    Ok(amounts)
}

/// Returns true if the kubelet has refused the resize for good.
fn is_infeasible(status: &Field<'_>) -> Decoded<bool> {
    let refusals = status.list("conditions", |condition| {
        let is = |key: &str, value: &str| -> Decoded<bool> { Ok(condition.shared_at(key)?.as_deref() == Some(value)) };
        Ok(is("type", "PodResizePending")? && is("status", "True")? && is("reason", "Infeasible")?)
    })?;
    Ok(refusals.contains(&true))
}
