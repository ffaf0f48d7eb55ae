//! Selectors that nothing meets: what was mistyped, and what the pool would have to allow.

use super::fixture::{FAMILY, World, app, instance_type, pool, requires, values};
use super::{case, check};
use crate::labels;
use crate::model::{Operator, PodSpec, Requirement};
use crate::solution::Reason;

/// Lets the pod select nodes by a label.
fn selects(key: &'static str, wanted: &'static str) -> impl Fn(&mut World, &mut PodSpec) {
    move |_, spec| spec.node_selector = requires(&[(key, &[wanted])])
}

#[test]
fn unknown_labels() {
    case(
        "typo",
        selects("zone", "a"),
        Reason::UnknownLabel,
        [
            "label \"zone\" does not have known values (typo of \"topology.kubernetes.io/zone\"?)",
            "the nearest known label is \"topology.kubernetes.io/zone\"",
            "select by \"topology.kubernetes.io/zone\" instead of \"zone\"",
        ],
    );
    case(
        "letters",
        selects("karpenter.k8s.aws/instnace-famly", "m"),
        Reason::UnknownLabel,
        [
            "label \"karpenter.k8s.aws/instnace-famly\" does not have known values (typo of \"karpenter.k8s.aws/instance-family\"?)",
            "the nearest known label is \"karpenter.k8s.aws/instance-family\"",
            "select by \"karpenter.k8s.aws/instance-family\" instead of \"karpenter.k8s.aws/instnace-famly\"",
        ],
    );
    case(
        "unknown",
        selects("example.com/disk-kind", "ssd"),
        Reason::UnknownLabel,
        [
            "label \"example.com/disk-kind\" does not have known values",
            "",
            "add \"example.com/disk-kind\" to spec.template.metadata.labels of nodepool \"general\"",
        ],
    );
}

#[test]
fn requirements_that_cannot_be_met() {
    let disjoint = |world: &mut World, spec: &mut PodSpec| {
        world.pool().requirements.add(labels::CAPACITY_TYPE, values(&["on-demand"]));
        spec.node_selector = requires(&[(labels::CAPACITY_TYPE, &["ondemand"])]);
    };
    case(
        "disjoint",
        disjoint,
        Reason::IncompatibleRequirements,
        [
            "key karpenter.sh/capacity-type, In [ondemand] not in In [on-demand]",
            "\"on-demand\" is the nearest value to \"ondemand\", which does not exist",
            "write \"on-demand\" instead of \"ondemand\" for karpenter.sh/capacity-type in the pod's node selector",
        ],
    );
    case(
        "no type",
        selects(labels::ARCH, "arm64"),
        Reason::IncompatibleRequirements,
        [
            "no instance type met all requirements, key kubernetes.io/arch, In [arm64] not in In [amd64]",
            "known values are amd64",
            "ask for a value of kubernetes.io/arch that exists in the pod's node selector",
        ],
    );
    let contradiction = |_: &mut World, spec: &mut PodSpec| {
        spec.node_selector = requires(&[(labels::ZONE, &["a"])]);
        spec.node_terms = vec![requires(&[(labels::ZONE, &["b"])])];
    };
    case(
        "itself",
        contradiction,
        Reason::IncompatibleRequirements,
        [
            "key topology.kubernetes.io/zone, In [b] not in In [a]",
            "",
            "the pod's node selector and node affinity contradict each other",
        ],
    );
    let both = |world: &mut World, spec: &mut PodSpec| {
        world.problem.catalogues[0].edit(|types| types[1].requirements.add(FAMILY, Requirement::none()));
        world.problem.catalogues[0].edit(|types| types.push(instance_type("c.large", 8, 16, 0.3)));
        spec.node_selector = requires(&[(FAMILY, &["c"]), (labels::INSTANCE_TYPE, &["m.small"])]);
    };
    case(
        "together",
        both,
        Reason::IncompatibleRequirements,
        [
            "no instance type met all requirements, each can be met but not together",
            "m.small misses karpenter.k8s.aws/instance-family",
            "loosen what the pod asks of karpenter.k8s.aws/instance-family",
        ],
    );
}

#[test]
fn a_value_that_exists_is_not_called_a_typing_error() {
    let other = |world: &mut World, spec: &mut PodSpec| {
        world.pool().requirements.add(labels::ZONE, values(&["a"]));
        spec.node_selector = requires(&[(labels::ZONE, &["b"])]);
    };
    case(
        "zone of the catalogue",
        other,
        Reason::IncompatibleRequirements,
        [
            "key topology.kubernetes.io/zone, In [b] not in In [a]",
            "",
            "let the requirement topology.kubernetes.io/zone of nodepool \"general\" allow In [b], or change the pod's selector",
        ],
    );
    let family = |world: &mut World, spec: &mut PodSpec| {
        world.problem.catalogues[0].edit(|types| types.push(instance_type("c.large", 8, 16, 0.3)));
        world.pool().requirements.add(FAMILY, values(&["m"]));
        spec.node_selector = requires(&[(labels::INSTANCE_TYPE, &["c.large"])]);
    };
    case(
        "type that the pool leaves out",
        family,
        Reason::IncompatibleRequirements,
        [
            "no instance type met all requirements, key node.kubernetes.io/instance-type, In [c.large] not in In [m.large m.small]",
            "c.large would hold it, excluded by karpenter.k8s.aws/instance-family",
            "let nodepool \"general\" allow karpenter.k8s.aws/instance-family In [c]",
        ],
    );
}

#[test]
fn bounds_are_shown_as_they_were_written() {
    const CPU: &str = "karpenter.k8s.aws/instance-cpu";
    let more = |world: &mut World, spec: &mut PodSpec| {
        world.problem.catalogues[0].edit(|types| {
            types[0].requirements.add(CPU, values(&["2"]));
            types[1].requirements.add(CPU, values(&["8"]));
        });
        spec.node_selector = [(CPU, Requirement::new(Operator::Gt, ["31"]))].into_iter().collect();
    };
    case(
        "more cores than there are",
        more,
        Reason::IncompatibleRequirements,
        [
            "no instance type met all requirements, key karpenter.k8s.aws/instance-cpu, Gt [31] not in In [2 8]",
            "the nearest value is 8",
            "ask for a value of karpenter.k8s.aws/instance-cpu that exists in the pod's node selector",
        ],
    );
}

#[test]
fn labels_of_every_pool_are_known() {
    let with_team = |selected: &'static str| {
        let mut world = World::new();
        let mut payments = pool("payments", 0);
        payments.requirements.add("example.com/team", values(&["payments"]));
        world.problem.pools.push(payments);
        let mut spec = app("web", 500, 0);
        spec.node_selector = requires(&[(selected, &["payments"])]);
        (world, spec)
    };
    let (mut world, spec) = with_team("exmaple.com/team");
    check(
        "typo of another pool's label",
        &mut world,
        spec,
        Reason::UnknownLabel,
        [
            "label \"exmaple.com/team\" does not have known values (typo of \"example.com/team\"?)",
            "the nearest known label is \"example.com/team\"",
            "select by \"example.com/team\" instead of \"exmaple.com/team\"",
        ],
    );
    let (mut world, mut spec) = with_team("example.com/team");
    spec.requests = app("web", 9_000, 0).requests;
    let pod = world.pod(spec);
    let answer = crate::explain::unschedulable(&world.problem, &world.options, &world.solution, pod);
    assert_eq!(answer.reason, Reason::Resources, "{answer:?}");
    let refused = &answer.pools[0];
    assert_eq!(
        (refused.nearest.as_deref(), refused.hint.as_deref()),
        (
            Some("nodepool \"payments\" gives its nodes this label"),
            Some(
                "add \"example.com/team\" to spec.template.metadata.labels of nodepool \"general\", if its nodes are to take \
                 such pods too"
            )
        )
    );
}
