//! Pods in the wrong place.

use super::*;

#[test]
fn indices() {
    let problem = problem(&[pod()]);
    let good = plan(&problem);
    for spoil in [
        |plan: &mut Solution| plan.new_nodes[0].pool = 7,
        |plan: &mut Solution| plan.new_nodes[0].pods = vec![9],
        |plan: &mut Solution| plan.new_nodes[0].instance_type = 5,
        |plan: &mut Solution| plan.new_nodes[0].offering = 5,
        |plan: &mut Solution| plan.new_nodes[0].alternatives = [4].into(),
        |plan: &mut Solution| plan.existing = vec![(0, Vec::new())],
    ] {
        let mut plan = good.clone();
        spoil(&mut plan);
        breaks(&problem, &plan, Promise::Index);
    }
}

#[test]
fn pods_missing_or_twice() {
    let problem = problem(&[pod(), pod()]);
    let mut missing = plan(&problem);
    missing.new_nodes[0].pods.pop();
    breaks(&problem, &missing, Promise::Once);
    let mut twice = plan(&problem);
    twice.new_nodes.push(twice.new_nodes[0].clone());
    breaks(&problem, &twice, Promise::Once);
}

#[test]
fn refused_pods() {
    let mut problem = problem(&[pod()]);
    let plan = plan(&problem);
    problem.specs[0].refusal = Some(Refusal::Volume { why: "no such claim".into(), fix: String::new() });
    breaks(&problem, &plan, Promise::Refusal);
}

#[test]
fn existing_nodes() {
    let mut spec = pod();
    spec.host_ports.push(HostPort { ip: [0, 0, 0, 0].into(), port: 80, protocol: Protocol::Tcp });
    spec.attachments.push(Attachment { driver: "ebs".into(), claim: "a".into() });
    spec.node_selector.add(ZONE, one_of(["zone-a"]));
    let mut good = problem(&[spec]);
    good.nodes.push(node("n0"));
    let plan = plan(&good);
    assert_eq!(plan.existing, [(0, vec![0])]);
    let spoilt = |spoil: &dyn Fn(&mut Node)| {
        let mut problem = good.clone();
        spoil(&mut problem.nodes[0]);
        problem
    };
    let bound = BoundPod { name: "default/b".into(), spec: 0, counts: true, planned: false, daemon: false };
    let taint = Taint { key: "t".into(), value: "".into(), effect: Effect::NoExecute };
    breaks(&spoilt(&|node| node.deleting = true), &plan, Promise::Deleting);
    breaks(&spoilt(&|node| node.taints.push(taint.clone())), &plan, Promise::Taints);
    breaks(&spoilt(&|node| node.labels.set(ZONE, "zone-b")), &plan, Promise::Requirements);
    breaks(&spoilt(&|node| node.allocatable = amounts(900, 5)), &plan, Promise::Resources);
    breaks(&spoilt(&|node| node.daemon_requests = amounts(1500, 1)), &plan, Promise::Resources);
    breaks(&spoilt(&|node| node.bound.push(bound.clone())), &plan, Promise::HostPorts);
    breaks(&spoilt(&|node| node.attach_limits = vec![("ebs".into(), 0)]), &plan, Promise::AttachLimits);
}
