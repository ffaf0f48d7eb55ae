//! Launches that cannot be, or are not what they say.

use super::*;

#[test]
fn pools_that_may_not_launch() {
    let mut problem = problem(&[pod()]);
    let plan = plan(&problem);
    problem.pools[0].state = PoolState::NotReady("its class is gone".into());
    breaks(&problem, &plan, Promise::Pool);
}

#[test]
fn static_pools() {
    let mut problem = problem(&[pod()]);
    let mut plan = plan(&problem);
    problem.pools[0].missing_replicas = Some(1);
    breaks(&problem, &plan, Promise::Replicas);
    plan.new_nodes[0].pods.clear();
    plan.new_nodes.push(plan.new_nodes[0].clone());
    breaks(&problem, &plan, Promise::Replicas);
    problem.pools[0].missing_replicas = None;
    breaks(&problem, &plan, Promise::Replicas);
}

#[test]
fn pool_taints() {
    let mut problem = problem(&[pod()]);
    let plan = plan(&problem);
    let taint = |effect| Taint { key: "t".into(), value: "".into(), effect };
    problem.pools[0].startup_taints.push(taint(Effect::NoSchedule));
    problem.pools[0].taints.push(taint(Effect::PreferNoSchedule));
    assert_eq!(validate(&problem, &Options::default(), &plan), []);
    problem.pools[0].taints.push(taint(Effect::NoSchedule));
    breaks(&problem, &plan, Promise::Taints);
}

#[test]
fn requirements_of_pods_and_pools() {
    let mut spec = pod();
    spec.node_selector.add(ZONE, one_of(["zone-b"]));
    let problem = problem(&[spec]);
    let mut loose = plan(&problem);
    Arc::make_mut(&mut loose.new_nodes[0].requirements).remove(ZONE);
    breaks(&problem, &loose, Promise::Requirements);
    let mut foreign = plan(&problem);
    Arc::make_mut(&mut foreign.new_nodes[0].requirements).remove(NODE_POOL);
    breaks(&problem, &foreign, Promise::Requirements);
    let mut elsewhere = plan(&problem);
    elsewhere.new_nodes[0].offering = 0;
    breaks(&problem, &elsewhere, Promise::Launchable);
}

#[test]
fn volumes_and_terms_need_one_alternative() {
    let mut spec = pod();
    spec.volume_terms = ["zone-a", "zone-b"].map(|zone| [(ZONE, one_of([zone]))].into_iter().collect()).to_vec();
    let problem = problem(&[spec]);
    let mut plan = plan(&problem);
    Arc::make_mut(&mut plan.new_nodes[0].requirements).remove(ZONE);
    breaks(&problem, &plan, Promise::Requirements);
}

#[test]
fn labels_that_nothing_defines() {
    let mut problem = problem(&[pod()]);
    let plan = plan(&problem);
    problem.specs[0].node_selector.add("example.com/unknown", one_of(["x"]));
    breaks(&problem, &plan, Promise::KnownLabels);
    problem.specs[0].node_selector.remove("example.com/unknown");
    problem.specs[0].node_selector.add(HOSTNAME, one_of(["n0"]));
    breaks(&problem, &plan, Promise::Requirements);
}

#[test]
fn alternatives() {
    let problem = problem(&[pod(), pod()]);
    let good = plan(&problem);
    assert_eq!(*good.new_nodes[0].alternatives, [0, 1]);
    let spoilt = |alternatives: &[usize]| {
        let mut plan = good.clone();
        plan.new_nodes[0].alternatives = alternatives.into();
        plan
    };
    for alternatives in [&[][..], &[1], &[1, 0], &[0, 1, 1]] {
        breaks(&problem, &spoilt(alternatives), Promise::Alternatives);
    }
    breaks(&problem, &spoilt(&vec![0; 601]), Promise::Alternatives);
    let mut narrow = good.clone();
    Arc::make_mut(&mut narrow.new_nodes[0].requirements).add(INSTANCE_TYPE, one_of(["small"]));
    breaks(&problem, &narrow, Promise::Launchable);
}

#[test]
fn every_alternative_holds_pods_and_daemons() {
    let mut problem = problem(&[pod(), pod()]);
    let daemon = problem.intern(plain(9, amounts(100, 1)));
    let plan = plan(&problem);
    problem.daemons.push(DaemonSet { name: "kube-system/agent".into(), spec: daemon });
    breaks(&problem, &plan, Promise::Resources);
    breaks(&problem, &plan, Promise::Requests);
    problem.specs[daemon].node_selector.add(INSTANCE_TYPE, one_of(["large"]));
    assert_eq!(validate(&problem, &Options::default(), &plan), [], "no daemon on small nodes");
}

#[test]
fn offerings_and_prices() {
    let mut problem = problem(&[pod()]);
    let good = plan(&problem);
    let mut lies = good.clone();
    lies.new_nodes[0].price = 0.05;
    breaks(&problem, &lies, Promise::Price);
    let mut dear = good.clone();
    dear.new_nodes[0].alternatives = [1, 0].into();
    (dear.new_nodes[0].instance_type, dear.new_nodes[0].price) = (1, 0.2);
    breaks(&problem, &dear, Promise::Price);
    problem.catalogues[0].edit(|types| types[0].offerings[0].available = false);
    breaks(&problem, &good, Promise::Launchable);
}

#[test]
fn requests_are_the_sum() {
    let problem = problem(&[pod()]);
    let mut plan = plan(&problem);
    plan.new_nodes[0].requests.set(Resource::Cpu, 1);
    breaks(&problem, &plan, Promise::Requests);
}

#[test]
fn host_ports_on_new_nodes() {
    let mut problem = problem(&[pod(), pod()]);
    let plan = plan(&problem);
    problem.specs[0].host_ports.push(HostPort { ip: [0, 0, 0, 0].into(), port: 80, protocol: Protocol::Tcp });
    breaks(&problem, &plan, Promise::HostPorts);
}

#[test]
fn min_values() {
    let mut problem = problem(&[pod()]);
    let mut plan = plan(&problem);
    let wanted = |count| Requirement::any().with_min_values(Some(count));
    problem.pools[0].requirements.add(INSTANCE_TYPE, wanted(2));
    Arc::make_mut(&mut plan.new_nodes[0].requirements).add(INSTANCE_TYPE, wanted(2));
    breaks(&problem, &plan, Promise::MinValues);
    plan.new_nodes[0].min_values_relaxed = Some(false);
    assert_eq!(validate(&problem, &Options::default(), &plan), []);
    problem.pools[0].requirements.add(INSTANCE_TYPE, wanted(3));
    breaks(&problem, &plan, Promise::MinValues);
    let lenient = Options { min_values: MinValuesPolicy::BestEffort, ..Options::default() };
    breaks_with(&problem, &lenient, &plan, Promise::MinValues);
    plan.new_nodes[0].min_values_relaxed = Some(true);
    assert_eq!(validate(&problem, &lenient, &plan), []);
}

#[test]
fn limits() {
    let mut problem = problem(&[pod()]);
    let plan = plan(&problem);
    let mut limited = |resource: Resource, limit| {
        problem.pools[0].limits = Some([(resource, limit)].into_iter().collect());
        breaks(&problem, &plan, Promise::Limits);
    };
    limited(Resource::Cpu, 1999);
    limited(Resource::Cpu, 3999); // the small type may be launched, the large alternative may not
    limited(Resource::new("nodes"), 0);
}

#[test]
fn reservations() {
    let reserved = |problem: &mut Problem| {
        let offering = Offering {
            requirements: [(ZONE, one_of(["zone-a"])), (CAPACITY_TYPE, one_of(["reserved"]))].into_iter().collect(),
            price: Some(0.0),
            available: true,
            reservation_capacity: 1,
        };
        problem.catalogues[0].edit(|types| {
            types[0].offerings.push(offering);
            types[0].requirements.remove(CAPACITY_TYPE);
        });
    };
    let mut alone = problem(&[pod()]);
    let dear = plan(&alone);
    reserved(&mut alone);
    breaks(&alone, &dear, Promise::Price);
    let mut two = problem(&[pod(), pod()]);
    reserved(&mut two);
    let mut overdrawn = plan(&two);
    let mut second = overdrawn.new_nodes[0].clone();
    second.pods = vec![overdrawn.new_nodes[0].pods.pop().expect("both pods are on the reserved node")];
    overdrawn.new_nodes.push(second);
    breaks(&two, &overdrawn, Promise::Reservations);
    let forbidden = Options { reserved_capacity: false, ..Options::default() };
    breaks_with(&two, &forbidden, &overdrawn, Promise::Launchable);
}

#[test]
fn heavier_pools_first() {
    let mut problem = problem(&[pod()]);
    let plan = plan(&problem);
    problem.pools.push(NodePool { weight: 10, ..pool("heavy") });
    breaks(&problem, &plan, Promise::Weights);
    problem.pools[1].limits = Some([(Resource::new("nodes"), 0)].into_iter().collect());
    assert_eq!(validate(&problem, &Options::default(), &plan), [], "the heavier pool has no room");
}
