//! Broken rules between pods.

use super::*;

#[test]
fn rules_between_pods() {
    for (key, promise) in [(HOSTNAME, Promise::AntiAffinity), (ZONE, Promise::AntiAffinity)] {
        let mut problem = problem(&[pod(), pod()]);
        let plan = plan(&problem);
        problem.specs[0].anti_affinity.push(term(key));
        breaks(&problem, &plan, promise);
    }
    let mut problem = problem(&[pod(), pod()]);
    let plan = plan(&problem);
    problem.specs[0].spread.push(spread(HOSTNAME));
    breaks(&problem, &plan, Promise::Spread);
    problem.specs[0].spread = vec![spread(ZONE)];
    breaks(&problem, &plan, Promise::Spread);
    breaks(&problem, &plan, Promise::Pinned);
    problem.specs[0].spread = vec![spread("example.com/rack")];
    breaks(&problem, &plan, Promise::Spread);
}

#[test]
fn min_domains() {
    let mut problem =
        problem(&[PodSpec { spread: vec![spread(ZONE)], ..pod() }, PodSpec { spread: vec![spread(ZONE)], ..pod() }]);
    let plan = plan(&problem);
    assert_eq!(plan.new_nodes.len(), 2);
    problem.specs[0].spread[0].min_domains = Some(3);
    assert_eq!(validate(&problem, &Options::default(), &plan), []);
    problem.specs[0].spread[0].max_skew = 0;
    breaks(&problem, &plan, Promise::Spread);
}

#[test]
fn bound_pods_repel_too() {
    let mut good = problem(&[pod()]);
    let repelling = good.intern(PodSpec { anti_affinity: vec![term(HOSTNAME)], ..plain(1, amounts(100, 1)) });
    good.nodes.push(node("n0"));
    let plan = plan(&good);
    let bound = |counts| BoundPod { name: "default/b".into(), spec: repelling, counts, planned: false, daemon: false };
    good.nodes[0].bound = vec![bound(false)];
    assert_eq!(validate(&good, &Options::default(), &plan), [], "a pod that ends repels nobody");
    good.nodes[0].bound = vec![bound(true)];
    breaks(&good, &plan, Promise::AntiAffinity);
}

#[test]
fn affinity_needs_somebody_to_follow() {
    let mut problem = problem(&[pod(), plain(1, amounts(1000, 1))]);
    problem.specs[1].affinity.push(term(HOSTNAME));
    let mut plan = plan(&problem);
    assert_eq!(plan.new_nodes.len(), 1);
    let mut apart = plan.new_nodes[0].clone();
    (plan.new_nodes[0].pods, apart.pods) = (vec![0], vec![1]);
    plan.new_nodes.push(apart);
    breaks(&problem, &plan, Promise::Affinity);
}

#[test]
fn only_one_domain_starts_an_affinity() {
    let spec = PodSpec { affinity: vec![term(HOSTNAME)], ..pod() };
    let problem = problem(&[spec.clone(), spec]);
    let mut plan = plan(&problem);
    let mut apart = plan.new_nodes[0].clone();
    (plan.new_nodes[0].pods, apart.pods) = (vec![0], vec![1]);
    plan.new_nodes.push(apart);
    breaks(&problem, &plan, Promise::Affinity);
}
