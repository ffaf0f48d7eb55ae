//! Why a pod is where it is, and why a node is what it is.

use super::fixture::{FAMILY, GI, World, app, instance_type, node, pool, requires, spread, taint, values};
use crate::explain::{self, PlacedOn};
use crate::labels;
use crate::model::Resource;

/// Two replicas on an m.large; a heavier pool is tainted; a daemon everywhere.
fn planned() -> World {
    let mut world = World::new();
    let mut tainted = pool("gpu", 10);
    tainted.taints.push(taint("gpu", ""));
    world.problem.pools.push(tainted);
    world.problem.catalogues[0].edit(|types| types.push(instance_type("c.large", 8, 4, 0.2)));
    world.pool().requirements.add(labels::CAPACITY_TYPE, values(&["on-demand"]));
    world.daemon(app("agent", 100, GI / 4));
    let mut web = app("web", 3_000, 4 * GI);
    web.node_selector = requires(&[(labels::ZONE, &["a"])]);
    web.spread.push(spread("web", labels::ZONE));
    let pods = vec![world.pod(web.clone()), world.pod(web)];
    world.launch(1, 0, pods);
    world
}

#[test]
fn a_pod_on_a_new_node() {
    let world = planned();
    let found = explain::placed(&world.problem, &world.options, &world.solution, 0).unwrap();
    assert_eq!(found.node, PlacedOn::New(0));
    assert_eq!(found.why_node, "on a new node with 1 other pod; there is no existing node");
    assert_eq!(found.why_pool, "nodepool \"general\" (weight 0) takes it; 1 tried before it do not");
    assert_eq!(found.refused.len(), 1);
    assert_eq!(found.refused[0].message, "did not tolerate taint (taint=gpu:NoSchedule)");
    let narrowed = &found.narrowed[0];
    assert_eq!((&*narrowed.key, &*narrowed.requirement, narrowed.source), (labels::ZONE, "In [a]", "node selector"));
    assert_eq!(found.shared_rules[0].rule, "must spread over topology.kubernetes.io/zone with maxSkew 1 (app=web)");
    assert_eq!(found.shared_rules[0].pods, [1]);
    let cheaper: Vec<(&str, &str)> = found.ruled_out.iter().map(|it| (&*it.instance_type, &*it.why)).collect();
    assert_eq!(
        cheaper,
        [("c.large", "lacks 5376Mi of memory for these pods"), ("m.small", "lacks 4200m of cpu for these pods")]
    );
    assert!(found.notes.is_empty());
}

#[test]
fn a_new_node() {
    let world = planned();
    let story = explain::node(&world.problem, &world.options, &world.solution, PlacedOn::New(0)).unwrap();
    assert_eq!(story.instance_type.as_deref(), Some("m.large"));
    assert_eq!((story.zone.as_deref(), story.capacity_type.as_deref()), (Some("a"), Some("on-demand")));
    let zone = story.requirements.iter().find(|it| &*it.key == labels::ZONE).unwrap();
    assert_eq!(zone.sources, ["node selector of default/pod-0 and 1 other"]);
    let kind = story.requirements.iter().find(|it| &*it.key == labels::CAPACITY_TYPE).unwrap();
    assert_eq!(kind.sources, ["nodepool \"general\""]);
    assert_eq!(story.binding, Some(Resource::Cpu));
    let cpu = &story.fill[0];
    assert_eq!((cpu.used, cpu.allocatable, cpu.permille), (6_000, 7_900, 759));
    assert_eq!(&*story.daemons[0].name, "kube-system/agent");
    let smaller = story.next_smaller.unwrap();
    assert_eq!((&*smaller.instance_type, smaller.lacks), ("c.large", Some((Resource::Memory, 5 * GI + GI / 4))));
    assert_eq!(story.pods.iter().map(|it| it.price).collect::<Vec<_>>(), [Some(0.2), Some(0.2)]);
}

#[test]
fn an_existing_node_and_its_pods() {
    let mut world = World::new();
    let mut standing = node("ip-1");
    standing.labels.set(labels::INSTANCE_TYPE, "m.large");
    standing.labels.set(labels::CAPACITY_TYPE, "on-demand");
    standing.labels.set(FAMILY, "m");
    let bound = app("old", 1_000, 3 * GI);
    world.node(standing, [bound]);
    let pod = world.pod(app("web", 1_000, GI));
    world.solution.existing.push((0, vec![pod]));
    let found = explain::placed(&world.problem, &world.options, &world.solution, pod).unwrap();
    assert_eq!(found.node, PlacedOn::Existing(0));
    assert_eq!(found.why_pool, "node \"ip-1\" belongs to nodepool \"general\"");
    let story = explain::node(&world.problem, &world.options, &world.solution, PlacedOn::Existing(0)).unwrap();
    assert_eq!((story.price, story.alternatives), (Some(0.4), 0));
    assert_eq!(story.fill.iter().map(|it| it.permille).collect::<Vec<_>>(), [500, 500, 100]);
    let shares: Vec<f64> = story.pods.iter().filter_map(|it| it.price).collect();
    assert!((shares[0] - 0.25).abs() < 1e-9 && (shares[1] - 0.15).abs() < 1e-9, "{shares:?}");
}

#[test]
fn what_is_nowhere_has_no_story() {
    let mut world = World::new();
    let pod = world.pod(app("web", 1_000, GI));
    assert_eq!(explain::placed(&world.problem, &world.options, &world.solution, pod), None);
    assert_eq!(explain::placed(&world.problem, &world.options, &world.solution, 7), None);
    assert_eq!(explain::node(&world.problem, &world.options, &world.solution, PlacedOn::New(0)), None);
    assert_eq!(explain::node(&world.problem, &world.options, &world.solution, PlacedOn::Existing(0)), None);
}
