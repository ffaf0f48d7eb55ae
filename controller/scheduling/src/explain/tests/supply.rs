//! Offerings, limits and flexibility; nodes that exist.

use std::collections::BTreeSet;

use super::case;
use super::fixture::{GI, World, amounts, app, node, requires, taint};
use crate::explain::unschedulable;
use crate::labels;
use crate::model::{Attachment, ClosedZone, PodSpec, Requirement, Requirements};
use crate::solution::Reason;

#[test]
fn offerings() {
    let spot = |_: &mut World, spec: &mut PodSpec| {
        spec.node_selector = requires(&[(labels::ZONE, &["b"]), (labels::CAPACITY_TYPE, &["spot"])]);
    };
    case(
        "no spot in b",
        spot,
        Reason::NoOffering,
        [
            "no instance type has the required offering, m.small m.large would hold the pod, and none is offered in b (spot)",
            "m.small can be bought in a (spot) at $0.0500 an hour",
            "allow topology.kubernetes.io/zone In [a]",
        ],
    );
    let gone = |world: &mut World, _: &mut PodSpec| {
        world.problem.catalogues[0].edit(|types| {
            types.iter_mut().flat_map(|it| &mut it.offerings).for_each(|it| it.available = false);
        });
    };
    case(
        "no capacity",
        gone,
        Reason::NoOffering,
        [
            "no instance type has the required offering, none of m.small m.large is available there now",
            "",
            "wait for capacity, or allow more instance types",
        ],
    );
    let half_gone = |world: &mut World, _: &mut PodSpec| {
        world.problem.catalogues[0].edit(|types| {
            types[0].offerings.iter_mut().for_each(|it| it.available = false);
            types[1].offerings.iter_mut().for_each(|it| it.price = None);
        });
    };
    case(
        "no capacity of what has a price",
        half_gone,
        Reason::NoOffering,
        [
            "no instance type has the required offering, none of m.small is available there now, and no price is known for m.large",
            "",
            "wait for capacity, or allow more instance types",
        ],
    );
}

#[test]
fn a_zone_in_which_nothing_is_launched_is_named() {
    let shifted = |world: &mut World, spec: &mut PodSpec| {
        world.problem.catalogues[0].edit(|types| {
            for offering in types.iter_mut().flat_map(|it| &mut it.offerings) {
                let id = if offering.zone() == Some("b") { "az2" } else { "az1" };
                offering.requirements.add_all(&requires(&[(labels::ZONE_ID, &[id])]));
            }
        });
        world.problem.catalogues[0].close_zones(&BTreeSet::from(["az2".into()]));
        world.problem.closed_zones =
            vec![ClosedZone { id: "az2".into(), why: "is shifted away until 2026-11-26T18:00:00Z".into() }];
        spec.node_selector = requires(&[(labels::ZONE, &["b"])]);
    };
    case(
        "shifted away",
        shifted,
        Reason::NoOffering,
        [
            "no instance type has the required offering, none of m.small m.large is available there now: zone `b` (az2) is shifted away until 2026-11-26T18:00:00Z",
            "m.small can be bought in a (spot) at $0.0500 an hour",
            "allow topology.kubernetes.io/zone In [a]",
        ],
    );
    let alone = |world: &mut World, spec: &mut PodSpec| {
        shifted(world, spec);
        world.problem.catalogues[0].edit(|types| {
            types.iter_mut().for_each(|it| it.offerings.retain(|offering| offering.zone() == Some("b")));
        });
    };
    case(
        "the only zone is shifted away",
        alone,
        Reason::NoOffering,
        [
            "no instance type has the required offering, none of m.small m.large is available there now: zone `b` (az2) is shifted away until 2026-11-26T18:00:00Z",
            "",
            "wait until the zone can be used again, or allow other zones",
        ],
    );
}

#[test]
fn reservations() {
    let reserved = |world: &mut World, spec: &mut PodSpec| {
        let kind = requires(&[(labels::ZONE, &["a"]), (labels::CAPACITY_TYPE, &["reserved"])]);
        world.problem.catalogues[0].edit(|types| {
            let offering = &mut types[0].offerings[0];
            (offering.requirements, offering.reservation_capacity) = (kind, 1);
        });
        let other = world.pod(app("other", 100, GI));
        world.launch(0, 0, vec![other]);
        spec.node_selector = requires(&[(labels::CAPACITY_TYPE, &["reserved"])]);
    };
    case(
        "reservation",
        reserved,
        Reason::Reserved,
        [
            "no instance type has the required offering, the reserved capacity of m.small in a (reserved) is used up (1 of 1 taken by this plan)",
            "m.small can be bought in a (spot) at $0.0500 an hour",
            "allow karpenter.sh/capacity-type In [spot]",
        ],
    );
    let shared = |world: &mut World, spec: &mut PodSpec| {
        let id = (labels::CAPACITY_RESERVATION_ID, &["cr-1"][..]);
        let kind = requires(&[(labels::ZONE, &["a"]), (labels::CAPACITY_TYPE, &["reserved"]), id]);
        world.problem.catalogues[0].edit(|types| {
            for offering in types.iter_mut().map(|it| &mut it.offerings[0]) {
                (offering.requirements, offering.reservation_capacity) = (kind.clone(), 1);
            }
        });
        let other = world.pod(app("other", 100, GI));
        world.launch(0, 0, vec![other]);
        spec.requests = app("web", 3_000, GI).requests;
        spec.node_selector = requires(&[(labels::CAPACITY_TYPE, &["reserved"])]);
    };
    case(
        "reservation of several types",
        shared,
        Reason::Reserved,
        [
            "no instance type has the required offering, the reserved capacity of m.large in a (reserved) is used up (1 of 1 taken by this plan)",
            "m.large can be bought in a (spot) at $0.2000 an hour",
            "allow karpenter.sh/capacity-type In [spot]",
        ],
    );
}

#[test]
fn limits_and_flexibility() {
    let flexible = |world: &mut World, spec: &mut PodSpec| {
        world.pool().requirements.add(labels::INSTANCE_TYPE, Requirement::any().with_min_values(Some(2)));
        spec.requests = app("web", 3_000, GI).requests;
    };
    case(
        "minValues",
        flexible,
        Reason::MinValues,
        [
            "minValues requirement is not met for label(s) (label(s)=[node.kubernetes.io/instance-type]): 1 of 2 values left",
            "types that hold the pod have node.kubernetes.io/instance-type [m.large]",
            "lower minValues of node.kubernetes.io/instance-type in nodepool \"general\" to 1, or loosen the pod",
        ],
    );
    let limited = |world: &mut World, spec: &mut PodSpec| {
        world.pool().limits = Some(amounts(&[("cpu", 10_000)]));
        world.pool().usage = amounts(&[("cpu", 2_000)]);
        let other = world.pod(app("other", 100, GI));
        world.launch(0, 0, vec![other]);
        spec.requests = app("web", 3_000, GI).requests;
    };
    case(
        "limit",
        limited,
        Reason::Limits,
        [
            "all available instance types exceed limits for nodepool: \"general\" (cpu limit 10, used 4)",
            "m.large, the smallest type that fits, needs 8 of cpu",
            "raise spec.limits.cpu of nodepool \"general\" to 12 or more",
        ],
    );
    let counted = |world: &mut World, _: &mut PodSpec| {
        world.pool().limits = Some(amounts(&[("nodes", 3)]));
        world.pool().usage = amounts(&[("nodes", 3)]);
    };
    case(
        "node limit",
        counted,
        Reason::Limits,
        [
            "node limits have been exhausted for nodepool \"general\" (limit 3, used 3)",
            "",
            "raise spec.limits.nodes of nodepool \"general\" to 4 or more",
        ],
    );
}

/// The line of a pod for which the nodes that exist matter.
fn line(prepare: impl FnOnce(&mut World, &mut PodSpec)) -> (Reason, String) {
    let mut world = World::new();
    let mut spec = app("web", 500, GI);
    spec.node_selector = requires(&[(labels::HOSTNAME, &["ip-1"])]);
    prepare(&mut world, &mut spec);
    let pod = world.pod(spec);
    let answer = unschedulable(&world.problem, &world.options, &world.solution, pod);
    (answer.reason, answer.message)
}

#[test]
fn hostnames_and_existing_nodes() {
    let on = |mut change: Box<dyn FnMut(&mut crate::model::Node)>| {
        line(|world, _| {
            let mut named = node("ip-1");
            change(&mut named);
            world.node(named, []);
        })
    };
    assert_eq!(
        line(|_, _| {}),
        (Reason::IncompatibleRequirements, "the pod selects hostname ip-1, and no node has it".to_owned())
    );
    assert_eq!(
        on(Box::new(|node| node.taints.push(taint("team", "ml")))),
        (
            Reason::Taints,
            "the pod may only go to node \"ip-1\": did not tolerate taint (taint=team=ml:NoSchedule)".to_owned()
        )
    );
    assert_eq!(
        on(Box::new(|node| node.allocatable = amounts(&[("cpu", 300), ("memory", GI), ("pods", 9)]))),
        (
            Reason::Resources,
            "the pod may only go to node \"ip-1\": exceeds node resources, cpu: 500m requested, 300m free, 200m of cpu short"
                .to_owned()
        )
    );
    let volumes = line(|world, spec| {
        let mut named = node("ip-1");
        named.attach_limits.push(("ebs.csi.aws.com".into(), 0));
        world.node(named, []);
        spec.attachments.push(Attachment { driver: "ebs.csi.aws.com".into(), claim: "default/data".into() });
    });
    assert_eq!(
        volumes,
        (
            Reason::VolumeLimit,
            "the pod may only go to node \"ip-1\": would exceed volume limit, ebs.csi.aws.com can attach 0 more volumes there"
                .to_owned()
        )
    );
    let alone = line(|world, spec| {
        world.problem.pools.clear();
        spec.node_selector = Requirements::new();
        world.node(node("ip-1"), [app("big", 3_800, GI)]);
    });
    assert_eq!(
        alone,
        (
            Reason::NoNodePool,
            "there is no nodepool; nearest existing node \"ip-1\": exceeds node resources, cpu: 500m requested, 200m free"
                .to_owned()
        )
    );
}
