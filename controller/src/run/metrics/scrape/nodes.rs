//! Resources of nodes, and what pods use of them.

use std::collections::BTreeMap;
use std::sync::Arc;

use muster_api::Quantities;
use muster_api::labels;
use muster_manifest::{Container, PodResources, PodTemplate, effective_requests};
use muster_scheduling::model::{Resource, Resources};
use muster_stages::node::Node;
use muster_stages::state::LivePod;
use rustc_hash::FxHashMap;

use super::{LeftOut, MOST_OBJECTS, Scrape, family, in_units, resource_type};
use crate::run::metrics::catalogue::{self as names, Metric};
use crate::run::metrics::observed::between;
use crate::run::metrics::page::{Page, Rendered};

/// A node with its sums.
struct Sums {
    labels: Rendered,
    age: f64,
    allocatable: Resources,
    overhead: Resources,
    requests: Resources,
    limits: Resources,
    daemon_requests: Resources,
    daemon_limits: Resources,
}

/// A metric, and its part of the sums.
type Family = (&'static Metric, fn(&Sums) -> &Resources);

/// Requests and limits by template, which pods share: computed once for each.
#[derive(Default)]
struct Templates(FxHashMap<*const PodTemplate, (Resources, Resources)>);

impl Templates {
    /// Returns the requests and limits of a pod.
    fn of<'t>(&'t mut self, pod: &'t LivePod) -> (&'t Resources, &'t Resources) {
        let template = &pod.pod.template;
        let (requests, limits) = self.0.entry(Arc::as_ptr(template)).or_insert_with(|| {
            let overhead = template.overhead.as_ref();
            let limited = |one: &Container| Container { requests: one.limits.clone(), ..one.clone() };
            let containers: Vec<Container> = template.containers.iter().map(limited).collect();
            let of_pod = template.resources.as_ref();
            let limits = of_pod.map(|one| PodResources { requests: one.limits.clone(), limits: Resources::new() });
            let requests = effective_requests(&template.containers, of_pod, overhead);
            (requests, effective_requests(&containers, limits.as_ref(), overhead))
        });
        (pod.pod.granted.as_ref().unwrap_or(requests), limits)
    }
}

pub(super) fn write(scrape: &Scrape<'_>, page: &mut Page, left_out: &mut LeftOut) {
    let mut templates = Templates::default();
    let all: Vec<Sums> =
        scrape.cluster.nodes().take(MOST_OBJECTS).map(|node| Sums::new(scrape, node, &mut templates)).collect();
    let more = scrape.cluster.nodes().len().saturating_sub(MOST_OBJECTS);
    if more > 0 {
        left_out.insert(names::NODES_ALLOCATABLE.name, more as u64);
    }
    let families: [Family; 6] = [
        (&names::NODES_ALLOCATABLE, |node| &node.allocatable),
        (&names::NODES_POD_REQUESTS, |node| &node.requests),
        (&names::NODES_POD_LIMITS, |node| &node.limits),
        (&names::NODES_DAEMON_REQUESTS, |node| &node.daemon_requests),
        (&names::NODES_DAEMON_LIMITS, |node| &node.daemon_limits),
        (&names::NODES_SYSTEM_OVERHEAD, |node| &node.overhead),
    ];
    let mut resources: BTreeMap<Resource, Rendered> = BTreeMap::new();
    for (metric, of) in families {
        if all.iter().all(|node| of(node).is_empty()) {
            continue;
        }
        page.declare(metric);
        for node in &all {
            for (resource, amount) in of(node).iter() {
                if !resources.contains_key(resource) {
                    let name = resource_type(resource.name());
                    resources.insert(resource.clone(), Rendered::new([("resource_type", name.as_str())]));
                }
                let Some(label) = resources.get(resource) else { continue };
                page.sample(metric, "", &[&node.labels, label], in_units(resource, amount));
            }
        }
    }
    family(page, &names::NODES_CURRENT_LIFETIME, all.iter().map(|node| (node.labels.clone(), node.age)));
    utilization(&all, page);
}

/// Writes the share of all nodes' resources that pods request.
fn utilization(all: &[Sums], page: &mut Page) {
    let (mut there, mut requested) = (Resources::new(), Resources::new());
    for node in all {
        there.add(&node.allocatable);
        requested.add(&node.requests);
    }
    let shares = there.iter().filter(|(_, amount)| *amount > 0).map(|(resource, amount)| {
        let label = Rendered::new([("resource_type", resource_type(resource.name()).as_str())]);
        (label, 100.0 * requested.get(resource) as f64 / amount as f64)
    });
    family(page, &names::CLUSTER_UTILIZATION, shares);
}

impl Sums {
    fn new(scrape: &Scrape<'_>, node: &Node, templates: &mut Templates) -> Self {
        let name = node.metadata.name.as_deref().unwrap_or_default();
        let status = node.status.as_ref();
        let allocatable = amounts(status.and_then(|status| status.allocatable.as_ref()));
        let mut overhead = amounts(status.and_then(|status| status.capacity.as_ref()));
        overhead.subtract(&allocatable);
        let created = node.metadata.creation_timestamp.as_ref().map_or(scrape.now, |time| time.0);
        let mut sums = Self {
            labels: labels_of(scrape, node, name),
            age: between(created, scrape.now).as_secs_f64(),
            allocatable,
            overhead,
            requests: Resources::new(),
            limits: Resources::new(),
            daemon_requests: Resources::new(),
            daemon_limits: Resources::new(),
        };
        for pod in scrape.cluster.pods_on(name).filter(|pod| !pod.pod.terminal) {
            let (requests, limits) = templates.of(pod);
            sums.requests.add(requests);
            sums.limits.add(limits);
            if pod.is_daemon {
                sums.daemon_requests.add(requests);
                sums.daemon_limits.add(limits);
            }
        }
        sums
    }
}

/// Returns the labels of a node.
fn labels_of(scrape: &Scrape<'_>, node: &Node, name: &str) -> Rendered {
    let of_node = node.metadata.labels.as_ref();
    let known = labels::WELL_KNOWN.iter().filter(|key| !key.starts_with(labels::KWOK_GROUP)).filter_map(|key| {
        let value = of_node?.get(*key)?;
        Some((key.rsplit('/').next().unwrap_or(key).replace('-', "_"), value.as_str()))
    });
    let known: Vec<(String, &str)> = known.collect();
    let managed = if scrape.cluster.claim_of(node).is_some() { "true" } else { "false" };
    let own = [("managed", managed), ("node_name", name)];
    Rendered::new(known.iter().map(|(key, value)| (key.as_str(), *value)).chain(own))
}

fn amounts(quantities: Option<&Quantities>) -> Resources {
    let all = quantities.into_iter().flat_map(Quantities::iter);
    all.filter_map(|(name, amount)| {
        let resource = Resource::new(name);
        let amount = muster_aws::quantity::parse(&resource, &amount.0).ok()?;
        Some((resource, amount))
    })
    .collect()
}
