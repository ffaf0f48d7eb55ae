//! Resource requests of the containers of a pod.

use std::net::{IpAddr, Ipv4Addr};

use muster_scheduling::model::{HostPort, Protocol, Resource, Resources};

use super::field::{Decoded, Field};
use super::image::{TellingImage, telling};
use super::selector::unknown_word;

/// Time at which a container runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Stage {
    /// Before the others, one after another.
    Init,
    /// From its turn among the init containers to the end of the pod (`restartPolicy: Always`).
    Sidecar,
    /// In parallel with the other containers.
    Main,
}

/// Container with its resources.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Container {
    /// Time at which it runs.
    pub stage: Stage,
    /// `resources.requests`, including those that default to its limits.
    pub requests: Resources,
    /// `resources.limits`.
    pub limits: Resources,
    /// Its image, if the name implies a platform.
    pub image: Option<TellingImage>,
}

/// `spec.resources` of a pod.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Default)]
pub struct PodResources {
    /// `requests`.
    pub requests: Resources,
    /// `limits`.
    pub limits: Resources,
}

const CONTAINER: &[&str] = &[
    "args",
    "command",
    "env",
    "envFrom",
    "image",
    "imagePullPolicy",
    "lifecycle",
    "livenessProbe",
    "name",
    "ports",
    "readinessProbe",
    "resizePolicy",
    "resources",
    "restartPolicy",
    "restartPolicyRules",
    "securityContext",
    "startupProbe",
    "stdin",
    "stdinOnce",
    "terminationMessagePath",
    "terminationMessagePolicy",
    "tty",
    "volumeDevices",
    "volumeMounts",
    "workingDir",
];

/// Reads a container and its host ports; `stage` applies unless it has `restartPolicy: Always`.
pub(crate) fn container(field: &Field<'_>, stage: Stage, host_network: bool) -> Decoded<(Container, Vec<HostPort>)> {
    field.only(CONTAINER);
    let resources = field.read_or_default("resources", resources)?;
    let policy = field.shared_at("restartPolicy")?;
    let stage = match (stage, policy.as_deref()) {
        (Stage::Init, Some("Always")) => Stage::Sidecar,
        _ => stage,
    };
    let image = field.read("image", |image| image.text().map(telling))?.flatten();
    let mut container = Container { stage, requests: resources.requests, limits: resources.limits, image };
    container.default_requests();
    let ports = field.list("ports", |port| host_port(port, host_network))?.into_iter().flatten().collect();
    Ok((container, ports))
}

/// Reads `resources` of a container or pod.
pub(crate) fn resources(field: Field<'_>) -> Decoded<PodResources> {
    field.only(&["claims", "limits", "requests"]);
    Ok(PodResources {
        requests: field.read_or_default("requests", |amounts| amounts.quantities())?,
        limits: field.read_or_default("limits", |amounts| amounts.quantities())?,
    })
}

/// Returns the host port, if there is one. With `hostNetwork` the API server makes every port a host port.
fn host_port(field: Field<'_>, host_network: bool) -> Decoded<Option<HostPort>> {
    field.only(&["containerPort", "hostIP", "hostPort", "name", "protocol"]);
    let number = |port: Field<'_>| Ok(u16::try_from(port.integer(0, u16::MAX.into())?).unwrap_or_default());
    let host = field.read("hostPort", number)?.filter(|port| *port > 0);
    let own = field.read("containerPort", number)?.filter(|port| *port > 0);
    let Some(port) = host.or(own.filter(|_| host_network)) else { return Ok(None) };
    let ip = field.read("hostIP", |ip| match ip.text()? {
        "" => Ok(None),
        text => text.parse::<IpAddr>().map(Some).map_err(|_| {
            ip.fault(format!("`{}` is not an IP address", super::tree::shorten(text)), "write an IPv4 or IPv6 address")
        }),
    })?;
    let protocol = field.read("protocol", |protocol| match protocol.text()? {
        "" | "TCP" => Ok(Protocol::Tcp),
        "UDP" => Ok(Protocol::Udp),
        "SCTP" => Ok(Protocol::Sctp),
        other => Err(unknown_word(&protocol, other, &["TCP", "UDP", "SCTP"])),
    })?;
    Ok(Some(HostPort {
        ip: ip.flatten().unwrap_or(IpAddr::V4(Ipv4Addr::UNSPECIFIED)),
        port,
        protocol: protocol.unwrap_or(Protocol::Tcp),
    }))
}

// === impl Container ===

impl Container {
    /// Defaults requests to limits, like the API server.
    pub(crate) fn default_requests(&mut self) {
        for (resource, amount) in self.limits.iter() {
            if !self.requests.contains(resource) {
                self.requests.set(resource.clone(), amount);
            }
        }
    }
}

/// Returns the maximum that the containers need at any time of the pod's life, with `overhead` and the pod's slot.
pub fn effective_requests(
    containers: &[Container],
    pod: Option<&PodResources>,
    overhead: Option<&Resources>,
) -> Resources {
    let mut running = Resources::new();
    let mut sidecars = Resources::new();
    let mut initializing = Resources::new();
    for container in containers {
        match container.stage {
            Stage::Main => running.add(&container.requests),
            Stage::Sidecar => {
                running.add(&container.requests);
                sidecars.add(&container.requests);
                initializing.raise_to(&sidecars);
            }
            Stage::Init => {
                let mut step = sidecars.clone();
                step.add(&container.requests);
                initializing.raise_to(&step);
            }
        }
    }
    running.raise_to(&initializing);
    if let Some(pod) = pod {
        for (resource, amount) in pod_level_requests(pod, &running).iter() {
            running.set(resource.clone(), amount);
        }
    }
    if let Some(overhead) = overhead {
        running.add(overhead);
    }
    running.set(Resource::Pods, 1);
    running
}

/// Returns the pod-level requests, which replace the sum of the containers for the resources that they can set. A limit
/// without a request counts as one, unless the containers request that resource.
fn pod_level_requests(pod: &PodResources, containers: &Resources) -> Resources {
    let settable = |resource: &Resource| match resource {
        Resource::Cpu | Resource::Memory => true,
        Resource::Other(name) => name.starts_with("hugepages-"),
        Resource::EphemeralStorage | Resource::Pods => false,
    };
    let mut requests: Resources =
        pod.requests.iter().filter(|(resource, _)| settable(resource)).map(|(r, amount)| (r.clone(), amount)).collect();
    for (resource, amount) in pod.limits.iter().filter(|(resource, _)| settable(resource)) {
        if !pod.requests.contains(resource) && !containers.contains(resource) {
            requests.set(resource.clone(), amount);
        }
    }
    requests
}
