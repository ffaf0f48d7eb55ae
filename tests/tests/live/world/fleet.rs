//! From `CreateFleet` to a Ready Node, and from `TerminateInstances` to nothing.

use std::time::{Duration, Instant};

use k8s_openapi::api::core::v1::Node as KubeNode;
use kube::{Api, ResourceExt};
use muster_tests::instances::user_data::{self, NodeConfig};
use muster_tests::instances::{Becomes, Bridge};
use muster_tests::machine::Image;
use muster_tests::snapshot::is_ready;
use muster_tests::wait::{self, Selection};
use muster_tests::{Ground, OnSite, on_site, on_site_for};

use super::MOST;
use crate::world::launch::{Launches, is_of};

/// Launches `times` machines, one after the other. Gives how long each took to be Ready and to be gone.
async fn one_after_the_other(case: &OnSite, times: usize) -> (Vec<Duration>, Vec<Duration>) {
    let (site, ec2, cluster) = (case.site(), case.ec2().await.unwrap(), case.cluster().unwrap());
    let bridge = Bridge::start(site, ec2, |_| Becomes::Machine(Image::Al2023));
    let user_data = user_data::al2023(cluster, &NodeConfig::default()).unwrap();
    let launches = Launches::prepare(ec2, &user_data).await;
    let nodes: Api<KubeNode> = Api::all(cluster.client());
    let (mut ready, mut gone) = (Vec::new(), Vec::new());
    for _ in 0..times {
        let start = Instant::now();
        let id = launches.one("machine").await;
        let is_there = |nodes: &[KubeNode]| nodes.iter().any(|node| is_of(node, &id) && is_ready(node));
        let found = wait::until_all(nodes.clone(), Selection::all(), MOST, "the node is Ready", is_there).await;
        ready.push(start.elapsed());
        let node = bridge.node(&id, MOST).await.unwrap();
        let found = found.unwrap_or_else(|error| panic!("{error}\n{}", node.machine.journal().tail(40)));
        let found = found.iter().find(|node| is_of(node, &id)).unwrap();
        assert_eq!(found.name_any(), node.served.instance.host_name);
        let zone = &node.served.instance.zone;
        assert_eq!(found.spec.as_ref().unwrap().provider_id.as_deref(), Some(format!("aws:///{zone}/{id}").as_str()));
        assert_eq!(found.status.as_ref().unwrap().capacity.as_ref().unwrap()["cpu"].0, "4", "of an m5.xlarge");
        drop(node);

        let start = Instant::now();
        launches.terminate(&id).await;
        bridge.gone(&id, MOST).await.unwrap();
        gone.push(start.elapsed());
        wait::until_gone(nodes.clone(), &found.name_any(), MOST).await.unwrap();
    }
    launches.clean_up().await;
    (ready, gone)
}

#[test]
fn a_fleet_joins_and_what_is_terminated_is_gone() {
    on_site("fleet", Ground::Cluster, async |case| {
        let (ready, gone) = one_after_the_other(case, 1).await;
        println!("Ready {:?} after CreateFleet was called, gone {:?} after TerminateInstances was", ready[0], gone[0]);
    });
}

#[test]
#[ignore = "scale"]
fn nine_fleets_one_after_the_other() {
    on_site_for(MOST * 9, "fleets", Ground::Cluster, async |case| {
        let (mut ready, mut gone) = one_after_the_other(case, 9).await;
        ready.sort();
        gone.sort();
        println!("CreateFleet to Ready: median {:?}, {:?} to {:?}", ready[4], ready[0], ready[8]);
        println!("TerminateInstances to gone: median {:?}, {:?} to {:?}", gone[4], gone[0], gone[8]);
    });
}
