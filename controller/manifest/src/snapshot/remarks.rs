//! Likely mistakes in pod manifests that are independent of the node: missing requests, or an image for machines that
//! the pod does not select. None of them prevents scheduling, so none is a reason of the engine.

use std::collections::BTreeMap;
use std::sync::Arc;

use muster_scheduling::labels::{ARCH, OS, WINDOWS_BUILD};
use muster_scheduling::model::{PodSpec, Problem, Requirement, Requirements, Resource};

use crate::{PodTemplate, TellingImage};

/// Remark on a pod.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Remark {
    /// Stable name: `MissingRequests`, `TinyMemory`, `WindowsImage`, `ImageArchitecture`, `SpreadSelector`.
    pub reason: &'static str,
    /// Problem, in one line.
    pub message: String,
    /// Suggested fix.
    pub hint: String,
}

/// The remarks on the pending pods of a snapshot.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Remarks {
    /// Remarks on images and on amounts of memory, by pending pod: those that are printed before planning.
    printed: BTreeMap<usize, Vec<Remark>>,
}

/// Maximum number of remarks that are printed before planning.
const TOLD: usize = 10;

/// Request of memory in bytes below which a wrong suffix is likely.
const LEAST_MEMORY: i64 = 64 << 10;

impl Remarks {
    /// Creates the remarks on pending pods and their templates.
    pub(super) fn new(problem: &Problem, templates: &[(usize, Arc<PodTemplate>)]) -> Self {
        let on_images = templates.iter().filter_map(|(pod, template)| {
            let spec = problem.spec_of(*pod);
            let images = template.containers.iter().filter_map(|container| container.image.as_ref());
            let mut remarks: Vec<Remark> = images.filter_map(|image| on_image(problem, spec, image)).collect();
            remarks.sort();
            remarks.dedup();
            (!remarks.is_empty()).then_some((*pod, remarks))
        });
        let mut printed: BTreeMap<usize, Vec<Remark>> = on_images.collect();
        for pod in 0..problem.pods.len() {
            if let Some(remark) = on_memory(problem.spec_of(pod)) {
                printed.entry(pod).or_default().push(remark);
            }
        }
        Self { printed }
    }

    /// Returns true if a remark on this pending pod is printed before planning.
    pub(super) fn is_printed(&self, pod: usize) -> bool {
        self.printed.contains_key(&pod)
    }

    /// Returns all remarks on a pending pod.
    pub fn on(&self, problem: &Problem, pod: usize) -> Vec<Remark> {
        let own = self.printed.get(&pod).into_iter().flatten().cloned();
        let spec = problem.spec_of(pod);
        own.chain(on_requests(spec)).chain(on_spreads(spec)).collect()
    }

    /// Returns one warning for each remark that is printed, with the affected pods.
    pub(super) fn warnings(&self, problem: &Problem) -> Vec<String> {
        let mut pods_by_remark: BTreeMap<&Remark, Vec<usize>> = BTreeMap::new();
        for (pod, remarks) in &self.printed {
            remarks.iter().for_each(|remark| pods_by_remark.entry(remark).or_default().push(*pod));
        }
        let mut found: Vec<(&Remark, Vec<usize>)> = pods_by_remark.into_iter().collect();
        found.sort_by_key(|(remark, pods)| (pods.first().copied(), *remark));
        let line = |(remark, pods): &(&Remark, Vec<usize>)| {
            let first = pods.first().map(|pod| &*problem.pods[*pod].name).unwrap_or_default();
            let more = if pods.len() > 1 { format!(" and {} more", pods.len() - 1) } else { String::new() };
            format!("Pod `{first}`{more}: {}: {}", remark.message, remark.hint)
        };
        let mut lines: Vec<String> = found.iter().take(TOLD).map(line).collect();
        if found.len() > TOLD {
            lines.push(format!("{} more warnings about pods", found.len() - TOLD));
        }
        lines
    }
}

/// Pods without requests take no room in a plan, which becomes a problem once they run.
fn on_requests(spec: &PodSpec) -> Option<Remark> {
    let lacks = |resource| spec.requests.get(&resource) <= 0;
    let missing = match (lacks(Resource::Cpu), lacks(Resource::Memory)) {
        (true, true) => "neither cpu nor memory",
        (true, false) => "no cpu",
        (false, true) => "no memory",
        (false, false) => return None,
    };
    Some(Remark {
        reason: "MissingRequests",
        message: format!("the pod requests {missing}"),
        hint:
            "set resources.requests of its containers to what they use: what is not requested is not counted on a node"
                .to_owned(),
    })
}

/// Less memory than any process needs was probably meant with another suffix: `512m` is half a byte.
fn on_memory(spec: &PodSpec) -> Option<Remark> {
    let bytes = spec.requests.get(&Resource::Memory);
    (bytes > 0 && bytes < LEAST_MEMORY).then(|| Remark {
        reason: "TinyMemory",
        message: format!("the pod requests {bytes} {} of memory", if bytes == 1 { "byte" } else { "bytes" }),
        hint: "write memory with `Mi` or `Gi`, such as `512Mi`: the suffix `m` means thousandths of a byte".to_owned(),
    })
}

/// A spread that does not select its own pod has no effect: usually its selector was copied.
fn on_spreads(spec: &PodSpec) -> Option<Remark> {
    let spread = spec.spread.iter().find(|spread| !spread.selector.matches(&spec.labels))?;
    let key = &spread.topology_key;
    Some(Remark {
        reason: "SpreadSelector",
        message: format!(
            "the pod's own labels do not match the labelSelector of its spread over {key}, so it does not count"
        ),
        hint: "let the labelSelector of the spread match the labels of the pod".to_owned(),
    })
}

/// Returns the pod's requirement on the label `key`, once for each of its node affinity terms.
fn required<'s>(spec: &'s PodSpec, key: &'s str) -> impl Iterator<Item = Option<&'s Requirement>> {
    let terms: &[Requirements] = &spec.node_terms;
    let alone = terms.is_empty().then(|| spec.node_selector.get(key));
    let with = terms.iter().map(move |term| spec.node_selector.get(key).or_else(|| term.get(key)));
    alone.into_iter().chain(with)
}

fn on_image(problem: &Problem, spec: &PodSpec, image: &TellingImage) -> Option<Remark> {
    if image.windows {
        return on_windows(spec, &image.name);
    }
    on_architecture(problem, spec, &image.name, image.architecture?)
}

fn on_windows(spec: &PodSpec, image: &str) -> Option<Remark> {
    let built = required(spec, WINDOWS_BUILD).all(|build| build.is_some());
    let selects = |os: Option<&Requirement>| os.is_some_and(|os| os.has("windows") && !os.has("linux"));
    if built || required(spec, OS).all(selects) {
        return None;
    }
    let message = match required(spec, OS).flatten().find(|os| os.is_finite()) {
        Some(os) => format!("image `{image}` is for Windows, and the pod selects {OS} {os}"),
        None => format!(
            "image `{image}` is for Windows, and the pod selects no operating system, so Linux nodes count for it"
        ),
    };
    let hint =
        format!("add `nodeSelector: {{{OS}: windows}}` to the pod, and tolerations for the taints of Windows nodes");
    Some(Remark { reason: "WindowsImage", message, hint })
}

fn on_architecture(problem: &Problem, spec: &PodSpec, image: &str, architecture: &str) -> Option<Remark> {
    let other = |requirement: Option<&Requirement>| match requirement {
        Some(wanted) => !wanted.has(architecture) || (wanted.is_finite() && wanted.values().count() > 1),
        None => launches_other(problem, architecture),
    };
    if !required(spec, ARCH).any(other) {
        return None;
    }
    let message = match required(spec, ARCH).flatten().next() {
        Some(wanted) => format!("image `{image}` is for {architecture}, and the pod selects {ARCH} {wanted}"),
        None => format!(
            "image `{image}` is for {architecture}, and the pod selects no architecture, while nodes may have another"
        ),
    };
    let hint =
        format!("select `{ARCH}: {architecture}`, or use an image that is built for every architecture of the nodes");
    Some(Remark { reason: "ImageArchitecture", message, hint })
}

/// Returns true if a pool may launch a node of another architecture.
fn launches_other(problem: &Problem, architecture: &str) -> bool {
    problem.pools.iter().any(|pool| {
        let wanted = pool.requirements.get(ARCH);
        let allowed = |value: &Arc<str>| &**value != architecture && wanted.is_none_or(|wanted| wanted.has(value));
        let types = problem.catalogues.get(pool.catalogue).into_iter().flat_map(|types| types.iter());
        let candidates = types.filter(|it| pool.requirements.intersects(&it.requirements));
        candidates.filter_map(|it| it.requirements.get(ARCH)).any(|it| it.is_finite() && it.values().any(allowed))
    })
}
