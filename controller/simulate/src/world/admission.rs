//! Changes by the API server at pod creation: priority, defaults of LimitRanges, overhead, tolerations.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::{Container, Pod, PodSpec};
use k8s_openapi::apimachinery::pkg::api::resource::Quantity;
use kube::core::DynamicObject;
use muster_api::taints;
use serde::Deserialize;
use serde_json::Value;

use super::super::api::{Api, Path};
use super::workloads::tolerates;

/// Default time that a pod stays on an unreachable node, in seconds.
pub(crate) const PATIENCE: i64 = 300;

/// Applies admission to a pod.
pub(crate) fn admit(api: &Api, pod: &mut Pod) {
    let namespace = pod.metadata.namespace.clone().unwrap_or_default();
    let Some(spec) = pod.spec.as_mut() else { return };
    let class = spec.priority_class_name.clone().unwrap_or_default();
    let value = |class: &DynamicObject| i32::try_from(class.data.get("value")?.as_i64()?).ok();
    let classes = api.others.get("PriorityClass");
    let of_class = match class.as_str() {
        "system-node-critical" => Some(2_000_001_000),
        "system-cluster-critical" => Some(2_000_000_000),
        "" => {
            let all = classes.into_iter().flat_map(|store| store.values());
            let defaults = all.filter(|class| class.data.get("globalDefault").and_then(Value::as_bool) == Some(true));
            defaults.filter_map(value).min()
        }
        _ => classes.and_then(|store| store.get(&Path::bare(class))).and_then(value),
    };
    spec.priority = spec.priority.or(of_class);
    let runtime = spec.runtime_class_name.clone().map(Path::bare);
    let runtime = runtime.and_then(|path| api.others.get("RuntimeClass")?.get(&path));
    let overhead = runtime.and_then(|class| class.data.pointer("/overhead/podFixed"));
    spec.overhead = spec.overhead.take().or_else(|| overhead.and_then(|amounts| BTreeMap::deserialize(amounts).ok()));
    // The API server derives requests from a container's own limits before LimitRanges apply.
    for resources in containers(spec).filter_map(|container| container.resources.as_mut()) {
        if let Some(limits) = resources.limits.clone() {
            fill(resources.requests.get_or_insert_default(), &limits);
        }
    }
    for (path, range) in api.others.get("LimitRange").into_iter().flat_map(|store| store.iter()) {
        if path.namespace != namespace {
            continue;
        }
        let items = range.data.pointer("/spec/limits").and_then(Value::as_array);
        for item in items.into_iter().flatten() {
            if item.get("type").and_then(Value::as_str) != Some("Container") {
                continue;
            }
            let amounts = |key: &str| -> BTreeMap<String, Quantity> {
                item.get(key).and_then(|amounts| BTreeMap::deserialize(amounts).ok()).unwrap_or_default()
            };
            // The defaults of the API server for LimitRanges themselves.
            let (mut limits, mut requests) = (amounts("default"), amounts("defaultRequest"));
            fill(&mut limits, &amounts("max"));
            fill(&mut requests, &limits);
            fill(&mut requests, &amounts("min"));
            for container in containers(spec) {
                let resources = container.resources.get_or_insert_default();
                fill(resources.limits.get_or_insert_default(), &limits);
                fill(resources.requests.get_or_insert_default(), &requests);
            }
        }
    }
    let tolerations = spec.tolerations.get_or_insert_default();
    for key in [taints::NOT_READY, taints::UNREACHABLE] {
        let is_there = tolerations.iter().any(|one| {
            one.effect.as_deref().is_none_or(|effect| effect == taints::NO_EXECUTE)
                && one.key.as_deref().is_none_or(|own| own == key)
        });
        if !is_there {
            tolerations.push(tolerates(key, taints::NO_EXECUTE, Some(PATIENCE)));
        }
    }
}

/// Returns the init containers and the other containers.
fn containers(spec: &mut PodSpec) -> impl Iterator<Item = &mut Container> {
    spec.init_containers.iter_mut().flatten().chain(&mut spec.containers)
}

fn fill(amounts: &mut BTreeMap<String, Quantity>, source: &BTreeMap<String, Quantity>) {
    for (resource, amount) in source {
        amounts.entry(resource.clone()).or_insert_with(|| amount.clone());
    }
}
