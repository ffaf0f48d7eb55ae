//! One case per reason, with the texts that operators read.

mod company;
mod fixture;
mod labels;
mod random;
mod stories;
mod supply;

use super::{Explainer, unschedulable};
use crate::labels::{ARCH, CAPACITY_TYPE};
use crate::model::{Effect, Operator, PodSpec, PoolState, Refusal, Requirement, Toleration};
use crate::solution::{PoolVerdict, Reason};
use fixture::{FAMILY, GI, World, amounts, app, instance_type, pool, taint, values};

/// What the first pool says of a pod: reason, message, nearest miss, hint.
fn check(case: &str, world: &mut World, spec: PodSpec, reason: Reason, texts: [&str; 3]) {
    let pod = world.pod(spec);
    let answer = unschedulable(&world.problem, &world.options, &world.solution, pod);
    let PoolVerdict { message, nearest, hint, reason: found, .. } = &answer.pools[0];
    let found_texts = [&**message, nearest.as_deref().unwrap_or(""), hint.as_deref().unwrap_or("")];
    assert_eq!((*found, found_texts), (reason, texts), "{case}");
    assert_eq!(answer.reason, reason, "{case}");
    assert!(!answer.message.contains('\n'), "{case}");
}

fn case(case: &str, prepare: impl FnOnce(&mut World, &mut PodSpec), reason: Reason, texts: [&str; 3]) {
    let mut world = World::new();
    let mut spec = app("web", 500, GI);
    prepare(&mut world, &mut spec);
    check(case, &mut world, spec, reason, texts);
}

#[test]
fn refusals() {
    let refused = |refusal| move |_: &mut World, spec: &mut PodSpec| spec.refusal = Some(refusal);
    case(
        "claims",
        refused(Refusal::DynamicResources { why: "claim gpu".into(), fix: "make it".into() }),
        Reason::DynamicResources,
        ["pod uses dynamic resource claims, claim gpu", "", "make it"],
    );
    case(
        "volume",
        refused(Refusal::Volume { why: "claim default/data does not exist".into(), fix: "create it".into() }),
        Reason::Volume,
        ["the pod's volumes cannot be attached, claim default/data does not exist", "", "create it"],
    );
    case(
        "fields",
        refused(Refusal::MatchFields("metadata.name".into())),
        Reason::IncompatibleRequirements,
        [
            "node affinity uses matchFields, which only an existing node can meet, metadata.name",
            "",
            "use matchExpressions on labels instead of matchFields",
        ],
    );
}

#[test]
fn pools_that_launch_nothing() {
    let not_ready = |world: &mut World, _: &mut PodSpec| world.pool().state = PoolState::NotReady("no subnets".into());
    case(
        "not ready",
        not_ready,
        Reason::NoNodePool,
        [
            "nodepool \"general\" is not ready: no subnets",
            "",
            "see the conditions of nodepool \"general\" and of its node class",
        ],
    );
    case(
        "static",
        |world, _| world.pool().missing_replicas = Some(1),
        Reason::NoNodePool,
        [
            "nodepool \"general\" is static, pods never open its nodes",
            "",
            "use a nodepool without spec.replicas for this pod",
        ],
    );
    case(
        "no types",
        |world, _| world.pool().requirements.add(ARCH, values(&["arm64"])),
        Reason::NoNodePool,
        [
            "nodepool requirements filtered out all available instance types, no type has kubernetes.io/arch In [arm64]",
            "",
            "change kubernetes.io/arch in spec.template.spec.requirements of nodepool \"general\"",
        ],
    );
    let elsewhere = |world: &mut World, _: &mut PodSpec| {
        let mut types = world.problem.catalogues[0].types().to_vec();
        types.iter_mut().flat_map(|it| &mut it.offerings).for_each(|offering| offering.available = false);
        types.iter_mut().for_each(|it| {
            it.requirements.add(CAPACITY_TYPE, Requirement::new(Operator::DoesNotExist, std::iter::empty::<&str>()))
        });
        world.problem.catalogues[0] = types.into();
        world.pool().requirements.add(CAPACITY_TYPE, values(&["spot"]));
    };
    case(
        "zones of another region",
        elsewhere,
        Reason::NoNodePool,
        [
            "nodepool requirements filtered out all available instance types, none of them is offered in the zones of its node class",
            "",
            "let the node class have subnets in zones of the region in use, or plan for another region",
        ],
    );
}

#[test]
fn taints() {
    case(
        "taint",
        |world, _| world.pool().taints.push(taint("team", "ml")),
        Reason::Taints,
        [
            "did not tolerate taint (taint=team=ml:NoSchedule)",
            "",
            "add to the pod's tolerations: {key: team, operator: Equal, value: ml, effect: NoSchedule}",
        ],
    );
    let close = |world: &mut World, spec: &mut PodSpec| {
        world.pool().taints.push(taint("team", ""));
        let effect = Some(Effect::NoExecute);
        spec.tolerations.push(Toleration { key: Some("team".into()), value: None, effect });
    };
    case(
        "other effect",
        close,
        Reason::Taints,
        [
            "did not tolerate taint (taint=team:NoSchedule)",
            "the toleration team=*:NoExecute covers another value or effect",
            "add to the pod's tolerations: {key: team, operator: Exists, effect: NoSchedule}",
        ],
    );
}

#[test]
fn resources() {
    let asks = |cpu, memory| move |_: &mut World, spec: &mut PodSpec| spec.requests = app("web", cpu, memory).requests;
    case(
        "cpu",
        asks(9_000, GI),
        Reason::Resources,
        [
            "no instance type has enough resources, cpu: 9 requested, at most 7900m there",
            "m.large has 7900m of cpu, 1100m short",
            "request at most 7900m of cpu",
        ],
    );
    case(
        "mega",
        asks(2_000_000_000, GI),
        Reason::Resources,
        [
            "no instance type has enough resources (CPU request >= 1 Million, m vs M typo?), cpu: 2000000 requested, at most 7900m there",
            "m.large has 7900m of cpu, 1999992100m short",
            "write the cpu request with m, not M",
        ],
    );
    let gpu = |_: &mut World, spec: &mut PodSpec| spec.requests.add(&amounts(&[("nvidia.com/gpu", 1)]));
    case(
        "gpu",
        gpu,
        Reason::Resources,
        [
            "no instance type has enough resources, resource nvidia.com/gpu: 1 requested, none has any",
            "",
            "add a nodepool with types that have nvidia.com/gpu, or drop the request",
        ],
    );
    let excluded = |world: &mut World, spec: &mut PodSpec| {
        let mut g = instance_type("g.large", 8, 32, 1.0);
        g.capacity.add(&amounts(&[("nvidia.com/gpu", 1)]));
        world.problem.catalogues[0].edit(|types| types.push(g));
        world.pool().requirements.add(FAMILY, values(&["m"]));
        spec.requests.add(&amounts(&[("nvidia.com/gpu", 1)]));
    };
    case(
        "gpu of another family",
        excluded,
        Reason::Resources,
        [
            "no instance type has enough resources, resource nvidia.com/gpu: 1 requested, none has any",
            "g.large would hold it, excluded by karpenter.k8s.aws/instance-family",
            "let nodepool \"general\" allow karpenter.k8s.aws/instance-family In [g]",
        ],
    );
    let shape = |world: &mut World, spec: &mut PodSpec| {
        world.problem.catalogues[0].edit(|types| types[1] = instance_type("r.small", 1, 64, 0.2));
        spec.requests = app("web", 1_500, 5 * GI).requests;
    };
    case(
        "no type has all",
        shape,
        Reason::Resources,
        [
            "no instance type has enough resources, none has all of cpu 1500m, memory 5Gi, pods 1",
            "m.small is 2Gi of memory short",
            "request less, or allow more instance types in the nodepool and the pod's selector",
        ],
    );
    let daemon = |world: &mut World, spec: &mut PodSpec| {
        world.daemon(app("agent", 7_000, GI));
        spec.requests = app("web", 1_000, GI).requests;
    };
    case(
        "daemons count",
        daemon,
        Reason::Resources,
        [
            "no instance type has enough resources, cpu: 1 requested, at most 900m there",
            "m.large has 900m of cpu left by its daemons, 100m short",
            "request at most 900m of cpu",
        ],
    );
}

#[test]
fn the_pool_that_came_furthest_speaks() {
    let mut world = World::new();
    let mut tainted = pool("tainted", 50);
    tainted.taints.push(taint("team", "ml"));
    let mut closed = pool("closed", 10);
    closed.requirements.add(ARCH, Requirement::new(Operator::NotIn, ["amd64"]));
    world.problem.pools.extend([tainted, closed]);
    let mut spec = app("web", 9_000, 0);
    spec.requests.remove(&crate::model::Resource::Memory);
    let pod = world.pod(spec);
    let mut explainer = Explainer::new(&world.problem, &world.options, &world.solution);
    let answer = explainer.unschedulable(pod);
    assert_eq!(
        answer.message,
        "incompatible with nodepool \"general\", no instance type has enough resources, cpu: 9 requested, at most 7900m \
         there; 2 other nodepools: 1 NoNodePool, 1 Taints"
    );
    let order: Vec<&str> = answer.pools.iter().map(|verdict| &*verdict.pool).collect();
    assert_eq!(order, ["tainted", "closed", "general"]);
    assert_eq!(explainer.unschedulable(pod), answer);
    assert_eq!(explainer.unschedulable(99).message, "there is no such pod");
}
