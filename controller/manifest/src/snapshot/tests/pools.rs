//! Pools: what is used of their limits, what static ones lack, which are ready.

use std::cell::RefCell;

use muster_scheduling::model::PoolState;

use super::*;

fn pool(name: &str, spec: &str, template: &str) -> String {
    format!(
        "{{apiVersion: karpenter.sh/v1, kind: NodePool, metadata: {{name: {name}}}, spec: {{{spec}template: {{{template}spec: {{requirements: [{{key: karpenter.sh/capacity-type, operator: In, values: [spot, on-demand], minValues: 2}}], nodeClassRef: {{group: karpenter.k8s.aws, kind: EC2NodeClass, name: d}}}}}}}}}}\n---\n"
    )
}

#[test]
fn a_pool_knows_the_labels_of_its_nodes() {
    let text =
        pool("g", "weight: 7, limits: {cpu: 10, nodes: 3}, ", "metadata: {labels: {team: x}, annotations: {a: b}}, ");
    let snapshot = snapshot(&text);
    let pool = &snapshot.problem.pools[0];
    assert_eq!((&*pool.name, pool.weight, &pool.state), ("g", 7, &PoolState::Ready));
    for (key, value) in [("team", "x"), ("karpenter.sh/nodepool", "g"), ("karpenter.k8s.aws/ec2nodeclass", "d")] {
        assert_eq!(pool.requirements.single(key), Some(value));
        assert_eq!(pool.labels.get(key).map(|it| &**it), Some(value));
    }
    assert_eq!(pool.requirements.get("karpenter.sh/capacity-type").unwrap().min_values, Some(2));
    assert_eq!(pool.annotations.get("a").map(|it| &**it), Some("b"));
    assert_eq!(amounts(pool.limits.as_ref().unwrap()), "cpu=10000 nodes=3");
    assert_eq!((amounts(&pool.usage), pool.missing_replicas), ("nodes=0".to_owned(), None));
}

#[test]
fn usage_counts_nodes_claims_and_what_is_being_deleted() {
    let node = |name: &str, meta: &str| {
        format!(
            "{{apiVersion: v1, kind: Node, metadata: {{name: {name}, labels: {{karpenter.sh/nodepool: g}}{meta}}}, status: {{capacity: {{cpu: 2}}}}}}\n---\n"
        )
    };
    let claim = "{apiVersion: karpenter.sh/v1, kind: NodeClaim, metadata: {name: k, labels: {karpenter.sh/nodepool: g}}, spec: {requirements: [], nodeClassRef: {group: karpenter.k8s.aws, kind: EC2NodeClass, name: d}}, status: {capacity: {cpu: 8}, allocatable: {cpu: 7}}}\n---\n";
    let text = [
        pool("g", "limits: {cpu: 10}, ", ""),
        node("a", ""),
        node("b", ", deletionTimestamp: '2026-01-01T00:00:00Z'"),
        claim.to_owned(),
    ]
    .concat();
    assert_eq!(amounts(&snapshot(&text).problem.pools[0].usage), "cpu=12000 nodes=3");
    let fixed = [
        pool("g", "replicas: 5, ", ""),
        node("a", ""),
        node("b", ", deletionTimestamp: '2026-01-01T00:00:00Z'"),
        claim.to_owned(),
    ]
    .concat();
    assert_eq!(snapshot(&fixed).problem.pools[0].missing_replicas, Some(3));
    let limited = [
        pool("g", "replicas: 5, limits: {nodes: 4}, ", ""),
        node("a", ""),
        node("b", ", deletionTimestamp: '2026-01-01T00:00:00Z'"),
        claim.to_owned(),
    ]
    .concat();
    assert_eq!(snapshot(&limited).problem.pools[0].missing_replicas, Some(1));
}

#[test]
fn pools_of_one_class_share_their_types() {
    let class = "{apiVersion: karpenter.k8s.aws/v1, kind: EC2NodeClass, metadata: {name: d}, spec: {role: r, amiSelectorTerms: [{alias: al2023@latest}], subnetSelectorTerms: [{id: subnet-0123456789abcdef0}], securityGroupSelectorTerms: [{id: sg-0123456789abcdef0}]}}\n---\n";
    let other = pool("other", "", "").replace("name: d}", "name: absent}");
    let text = [pool("a", "", ""), pool("b", "", ""), other, class.to_owned()].concat();
    let manifests = read_text("input", &text).unwrap();
    let asked = RefCell::new(Vec::new());
    let types = |class: Option<&NodeClass>| -> Catalogue {
        asked.borrow_mut().push(class.map(|class| format!("{} {}", class.kind, class.name)));
        Catalogue::default()
    };
    let snapshot = assemble(&manifests, &Settings::default(), &types).unwrap();
    assert_eq!(snapshot.problem.pools.iter().map(|pool| pool.catalogue).collect::<Vec<_>>(), [0, 0, 1]);
    assert_eq!(asked.into_inner(), [Some("EC2NodeClass d".to_owned()), None]);
}

#[test]
fn a_pool_that_may_not_launch_says_why() {
    let condition = "status: {conditions: [{type: Ready, status: 'False', reason: NodeClassNotReady, message: no subnets, lastTransitionTime: '2026-01-01T00:00:00Z'}]}, ";
    let text = pool("g", "", "").replacen("spec: {", &format!("{condition}spec: {{"), 1);
    let snapshot = snapshot(&text);
    let reason = "its condition Ready is False (NodeClassNotReady: no subnets)";
    assert_eq!(snapshot.problem.pools[0].state, PoolState::NotReady(reason.to_owned()));
    assert_eq!(snapshot.warnings, [format!("NodePool `g` cannot launch nodes: {reason}")]);
    let deleting = pool("g", "", "").replace("name: g}", "name: g, deletionTimestamp: '2026-01-01T00:00:00Z'}");
    assert!(super::snapshot(&deleting).problem.pools.is_empty());
}

#[test]
fn all_buffers_together_have_a_bound() {
    let template = "{apiVersion: v1, kind: PodTemplate, metadata: {name: t}, template: {spec: {containers: [{name: c, resources: {requests: {cpu: 500m}}}]}}}\n---\n";
    let buffer = |name: &str, replicas: u32| {
        format!(
            "{{apiVersion: autoscaling.x-k8s.io/v1beta1, kind: CapacityBuffer, metadata: {{name: {name}}}, spec: {{podTemplateRef: {{name: t}}, replicas: {replicas}}}}}\n---\n"
        )
    };
    let text = [buffer("a", 60_000), buffer("b", 60_000), buffer("c", 1), template.to_owned()].concat();
    let snapshot = snapshot(&text);
    assert_eq!(snapshot.problem.pods.len(), 100_000);
    let warning = |name: &str, count: u32, wanted: u32| {
        format!(
            "CapacityBuffer `default/{name}` keeps room for {count} of {wanted} pods: all buffers together have at most 100000"
        )
    };
    assert_eq!(snapshot.warnings, [warning("b", 40_000, 60_000), warning("c", 0, 1)]);
}

#[test]
fn buffers_are_pods_of_the_lowest_priority_behind_all_others() {
    let workload = "{apiVersion: apps/v1, kind: Deployment, metadata: {name: w}, spec: {replicas: 5, template: {spec: {containers: [{name: c, resources: {requests: {cpu: 1}}}]}}}}\n---\n";
    let template = "{apiVersion: v1, kind: PodTemplate, metadata: {name: t}, template: {spec: {containers: [{name: c, resources: {requests: {cpu: 500m}}}]}}}\n---\n";
    let buffer = |spec: &str| {
        format!(
            "{{apiVersion: autoscaling.x-k8s.io/v1beta1, kind: CapacityBuffer, metadata: {{name: b}}, spec: {{{spec}}}}}\n---\n"
        )
    };
    let scalable = "scalableRef: {apiGroup: apps, kind: Deployment, name: w}";
    for (spec, expected) in [
        ("podTemplateRef: {name: t}, replicas: 2".to_owned(), 2),
        ("podTemplateRef: {name: t}, limits: {cpu: 2}".to_owned(), 4),
        ("podTemplateRef: {name: t}, replicas: 9, limits: {cpu: 2, memory: 1}".to_owned(), 4),
        (format!("{scalable}, percentage: 25"), 2),
        (format!("{scalable}, percentage: 25, replicas: 3"), 3),
        (format!("{scalable}, percentage: 100, limits: {{cpu: 3}}"), 3),
    ] {
        let snapshot = snapshot(&[&buffer(&spec), workload, template].concat());
        let pods = &snapshot.problem.pods[5..];
        assert_eq!(pods.len(), expected, "{spec}");
        assert_eq!(&*pods[0].name, "default/b-buffer-0");
        assert!(pods.iter().all(|pod| snapshot.problem.specs[pod.spec].priority == i32::MIN));
    }
    let lost = snapshot(&buffer("podTemplateRef: {name: t}, replicas: 2"));
    assert_eq!(
        lost.warnings,
        ["CapacityBuffer `default/b` keeps no room: PodTemplate `default/t` is not in the input"]
    );
    let lost = |spec: &str| snapshot(&[&buffer(spec), workload].concat()).buffers.remove(0).pods;
    assert_eq!(lost("scalableRef: {kind: Job, name: w}, replicas: 2"), Err(Unresolved::Unsupported("Job".into())));
    let unsupported = Err(Unresolved::Unsupported("Deployment.example.com".into()));
    assert_eq!(lost("scalableRef: {apiGroup: example.com, kind: Deployment, name: w}, replicas: 2"), unsupported);
    let missing = Unresolved::NoWorkload("StatefulSet".into(), "default/w".into());
    assert_eq!(lost("scalableRef: {apiGroup: apps, kind: StatefulSet, name: w}, replicas: 2"), Err(missing));
    assert_eq!(lost("replicas: 2"), Err(Unresolved::NoReference));
}

#[test]
fn a_real_pod_is_not_taken_for_one_of_a_buffer() {
    let template =
        "{apiVersion: v1, kind: PodTemplate, metadata: {name: t}, template: {spec: {containers: [{name: c}]}}}\n---\n";
    let buffer = "{apiVersion: autoscaling.x-k8s.io/v1beta1, kind: CapacityBuffer, metadata: {name: b}, spec: {podTemplateRef: {name: t}, replicas: 2}}\n---\n";
    let snapshot = snapshot(&[template, buffer, &pod("b-buffer-0", "")].concat());
    assert_eq!(pending(&snapshot), ["default/b-buffer-0", "default/b-buffer-1", "default/b-buffer-2"]);
}

#[test]
fn overlays_that_come_to_nothing_are_warnings() {
    let overlay = "{apiVersion: karpenter.sh/v1alpha1, kind: NodeOverlay, metadata: {name: o}, spec: {weight: 3, priceAdjustment: '-10%', requirements: [{key: a, operator: Exists}]}}\n---\n";
    let snapshot = snapshot(&[overlay, &pool("g", "", "")].concat());
    assert_eq!(snapshot.warnings, ["NodeOverlay `o` matches no offering of any NodePool"]);
}

#[test]
fn the_same_input_gives_the_same_problem() {
    let text = [pod("a", "nodeSelector: {a: b}"), pod("b", ""), pool("g", "", "")].concat();
    let print = || {
        let problem = snapshot(&text).problem;
        format!("{:?} {:?} {:?} {:?}", problem.pods, problem.specs, problem.pools, problem.nodes)
    };
    assert_eq!(print(), print());
    assert_eq!(Resource::new("nodes").to_string(), "nodes");
}

#[test]
fn without_their_gates_overlays_and_buffers_have_no_effect() {
    let overlay = "{apiVersion: karpenter.sh/v1alpha1, kind: NodeOverlay, metadata: {name: o}, spec: {price: '1', requirements: []}}\n---\n";
    let buffer = "{apiVersion: autoscaling.x-k8s.io/v1beta1, kind: CapacityBuffer, metadata: {name: b}, spec: {podTemplateRef: {name: t}, replicas: 2}}\n---\n";
    let template =
        "{apiVersion: v1, kind: PodTemplate, metadata: {name: t}, template: {spec: {containers: [{name: c}]}}}";
    let manifests = read_text("input", &[overlay, buffer, template].concat()).unwrap();
    let snapshot = assemble(&manifests, &Settings::default(), &|_| Catalogue::default()).unwrap();
    assert!(snapshot.problem.pods.is_empty());
    assert_eq!(
        snapshot.warnings,
        [
            "1 CapacityBuffer keeps no room: the feature gate `CapacityBuffer` is off; turn it on with `CapacityBuffer=true`",
            "1 NodeOverlay has no effect: the feature gate `NodeOverlay` is off; turn it on with `NodeOverlay=true`",
        ]
    );
}
