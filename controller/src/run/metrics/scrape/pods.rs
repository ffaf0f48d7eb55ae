//! Pods: their state, and how long they wait.

use std::borrow::Cow;
use std::collections::BTreeMap;

use jiff::Timestamp;
use muster_api::labels;
use muster_manifest::PodTemplate;
use muster_scheduling::model::{Requirement, Requirements};
use muster_stages::state::{Cluster, LivePod};

use super::{LeftOut, MOST_OBJECTS, Scrape, family};
use crate::run::metrics::catalogue::{self as names, Metric, PROVISIONER};
use crate::run::metrics::observed::{PodTimes, between};
use crate::run::metrics::page::{Page, Rendered};

/// Maximum number of pods whose state is told.
const MOST_PODS: usize = 25_000;
/// Maximum number of zones that pods are counted by: any pod can name one.
const MOST_ZONES: usize = 100;

/// A metric of the time since something, and that time.
type Since = (&'static Metric, fn(&PodTimes) -> Option<Timestamp>);

/// Numbers of pods by namespace that may have series: all, or an equal share of each namespace where there are too
/// many.
struct Shares<'n> {
    limit: usize,
    used: BTreeMap<&'n str, usize>,
    left_out: u64,
}

impl<'n> Shares<'n> {
    fn new(namespaces: impl Iterator<Item = &'n str>, most: usize) -> Self {
        let mut counts: BTreeMap<&str, usize> = BTreeMap::new();
        namespaces.for_each(|namespace| *counts.entry(namespace).or_default() += 1);
        let mut sorted: Vec<usize> = counts.into_values().collect();
        sorted.sort_unstable();
        let (mut rest, mut limit) = (most, usize::MAX);
        for (at, count) in sorted.iter().enumerate() {
            let share = rest / (sorted.len() - at);
            if *count > share {
                limit = share;
                break;
            }
            rest -= count;
        }
        Self { limit, used: BTreeMap::new(), left_out: 0 }
    }

    fn admits(&mut self, namespace: &'n str) -> bool {
        let used = self.used.entry(namespace).or_default();
        *used += 1;
        let is_admitted = *used <= self.limit;
        self.left_out += u64::from(!is_admitted);
        is_admitted
    }

    fn conclude(self, metric: &Metric, left_out: &mut LeftOut) {
        if self.left_out > 0 {
            left_out.insert(metric.name, self.left_out);
        }
    }
}

pub(super) fn write(scrape: &Scrape<'_>, page: &mut Page, left_out: &mut LeftOut) {
    state(scrape.cluster, page, left_out);
    waiting(scrape, page, left_out);
    zones(scrape.cluster, page);
}

fn state(cluster: &Cluster, page: &mut Page, left_out: &mut LeftOut) {
    let mut shares = Shares::new(cluster.pods().map(|pod| &*pod.pod.namespace), MOST_PODS);
    let metric = &names::PODS_STATE;
    let mut of_nodes: BTreeMap<&str, Rendered> = BTreeMap::new();
    let none = Rendered::default();
    if cluster.pods().len() > 0 {
        page.declare(metric);
    }
    for pod in cluster.pods().filter(|pod| shares.admits(&pod.pod.namespace)) {
        let of_node =
            pod.pod.node.as_deref().map(|node| &*of_nodes.entry(node).or_insert_with(|| of_node(cluster, node)));
        page.sample(metric, "", &[&of_pod(pod), of_node.unwrap_or(&none)], 1.0);
    }
    shares.conclude(metric, left_out);
}

fn of_pod(pod: &LivePod) -> Rendered {
    let owner = pod.pod.owner.as_ref().map(|owner| format!("{}/{}", owner.kind, owner.name)).unwrap_or_default();
    let word = |is: bool| if is { "true" } else { "false" };
    Rendered::new([
        ("name", &*pod.pod.name),
        ("namespace", &*pod.pod.namespace),
        ("owner", owner.as_str()),
        ("scheduled", word(pod.pod.node.is_some())),
        ("phase", pod.phase.name()),
        ("ready", word(pod.pod.ready)),
    ])
}

/// Returns the labels that pods of a node share.
fn of_node(cluster: &Cluster, name: &str) -> Rendered {
    let node = cluster.node(name);
    let label = |key: &str| {
        let value = node.and_then(|node| node.metadata.labels.as_ref()?.get(key));
        value.map(String::as_str).unwrap_or_default()
    };
    let managed = if node.and_then(|node| cluster.claim_of(node)).is_some() { "true" } else { "false" };
    Rendered::new([
        ("node", name),
        ("nodepool", label(labels::NODEPOOL)),
        ("zone", label(labels::ZONE)),
        ("arch", label(labels::ARCH)),
        ("capacity_type", label(labels::CAPACITY_TYPE)),
        ("instance_type", label(labels::INSTANCE_TYPE)),
        ("managed", managed),
    ])
}

/// Writes how long pods wait, of those that have not been ready yet.
fn waiting(scrape: &Scrape<'_>, page: &mut Page, left_out: &mut LeftOut) {
    let mut shares = Shares::new(scrape.times.keys().map(|path| namespace_of(path)), MOST_OBJECTS);
    let told: Vec<(&str, &PodTimes)> = scrape
        .times
        .iter()
        .map(|(path, times)| (&**path, times))
        .filter(|(path, _)| shares.admits(namespace_of(path)))
        .collect();
    shares.conclude(&names::PODS_UNSTARTED_TIME, left_out);
    let since: [Since; 5] = [
        (&names::PODS_UNBOUND_TIME, |pod| (!pod.is_bound).then_some(pod.created)),
        (&names::PODS_UNSTARTED_TIME, |pod| Some(pod.created)),
        (&names::PODS_PROVISIONING_UNBOUND_TIME, |pod| pod.placed.filter(|_| !pod.is_bound)),
        (&names::PODS_PROVISIONING_UNSTARTED_TIME, |pod| pod.placed),
        (&names::PODS_UNDECIDED_TIME, |pod| (!pod.is_bound && pod.decided.is_none()).then_some(pod.seen)),
    ];
    for (metric, since) in since {
        family(
            page,
            metric,
            told.iter().filter_map(|(path, pod)| {
                let (namespace, name) = path.split_once('/')?;
                let resources = if metric.labels.len() > 2 { pod.dynamic_resources() } else { "" };
                let labels = [("name", name), ("namespace", namespace), ("dynamic_resources", resources)];
                Some((Rendered::new(labels), between(since(pod)?, scrape.now).as_secs_f64()))
            }),
        );
    }
}

fn namespace_of(path: &str) -> &str {
    path.split_once('/').map_or("", |(namespace, _)| namespace)
}

/// Writes the number of pods without a node, by the zone that they can be in.
fn zones(cluster: &Cluster, page: &mut Page) {
    let mut counts: BTreeMap<Cow<'_, str>, u64> = BTreeMap::new();
    for pod in cluster.unbound() {
        let zone = zone_of(&pod.pod.template);
        let is_known = counts.len() < MOST_ZONES || counts.contains_key(&zone);
        *counts.entry(if is_known { zone } else { Cow::Borrowed("flexible") }).or_default() += 1;
    }
    family(
        page,
        &names::SCHEDULER_PENDING_BY_ZONE,
        counts
            .iter()
            .map(|(zone, count)| (Rendered::new([("controller", PROVISIONER), ("zone", zone)]), *count as f64)),
    );
}

/// Returns the only zone that node selector and required node affinity leave, `none`, or `flexible`.
fn zone_of(template: &PodTemplate) -> Cow<'_, str> {
    let any = Requirement::any;
    let of = |requirements: &Requirements| requirements.get(labels::ZONE).cloned().unwrap_or_else(any);
    let selected = of(&template.node_selector);
    let terms: Vec<Requirement> =
        template.affinity.node_terms.iter().map(|term| of(term).intersection(&selected)).collect();
    let ways = if terms.is_empty() { vec![selected] } else { terms };
    let possible: Vec<&Requirement> =
        ways.iter().filter(|way| !(way.is_finite() && way.values().next().is_none())).collect();
    let Some(first) = possible.first() else { return Cow::Borrowed("none") };
    match first.single() {
        Some(zone) if possible.iter().all(|way| way.single() == Some(zone)) => Cow::Owned(zone.to_string()),
        _ => Cow::Borrowed("flexible"),
    }
}
