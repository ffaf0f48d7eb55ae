//! Replicas of a spread take their places in the order in which they arrived.

use std::collections::BTreeMap;

use muster_api::labels;

use super::fixture::Cluster;
use super::gang::replica;

/// The zone of each pod, in the order in which they arrived.
fn zones(cluster: &Cluster) -> Vec<String> {
    let mut zone_of: BTreeMap<String, String> = BTreeMap::new();
    for claim in cluster.claims() {
        let zone = claim.spec.requirements.iter().find(|one| one.key == labels::ZONE).unwrap().values[0].clone();
        for pod in cluster.plan.placed_on(claim.metadata.name.as_deref().unwrap()) {
            zone_of.insert(pod.trim_start_matches("default/").to_owned(), zone.clone());
        }
    }
    cluster.arrived.iter().map(|pod| zone_of[pod].clone()).collect()
}

fn names(cluster: &Cluster) -> Vec<String> {
    cluster.claims().into_iter().filter_map(|claim| claim.metadata.name).collect()
}

#[test]
fn those_that_arrive_one_after_the_other_go_to_one_zone_after_the_other() {
    let mut claims = Vec::new();
    for arrived in ["uvwxyz", "zyxwvu", "uwyvxz", "vzuxwy"] {
        let mut cluster = Cluster::new();
        cluster.arrived = arrived.chars().map(String::from).collect();
        for name in "uvwxyz".chars() {
            cluster.add(replica(&name.to_string(), "900m"));
        }
        cluster.round(0);
        let zones = zones(&cluster);
        assert!(zones.chunks(2).all(|pair| pair[0] != pair[1]), "{arrived}: {zones:?}");
        claims.push(names(&cluster));
    }
    claims.dedup();
    assert_eq!(claims.len(), 1, "who does not know in which order they arrived comes to the same names: {claims:?}");
}

#[test]
fn nobody_who_is_not_spread_stands_in_for_another() {
    let places = |arrived: &[&str]| {
        let mut cluster = Cluster::new();
        cluster.arrived = arrived.iter().map(ToString::to_string).collect();
        for name in ["u", "v", "w", "x"] {
            let mut pod = replica(name, "1800m");
            pod["spec"].as_object_mut().unwrap().remove("topologySpreadConstraints");
            cluster.add(pod);
        }
        cluster.round(0);
        let on = |claim: &String| cluster.plan.placed_on(claim).map(str::to_owned).collect::<Vec<_>>();
        names(&cluster).iter().map(on).collect::<Vec<_>>()
    };
    assert_eq!(places(&["x", "w", "v", "u"]), places(&["u", "v", "w", "x"]));
}
