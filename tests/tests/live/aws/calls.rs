//! How many calls it takes.

use std::collections::BTreeMap;
use std::time::Instant;

use muster_aws::live::Ec2Cloud;
use muster_cloud::{Cloud, CloudError, LaunchError};

use crate::aws::fixture::{CONTROLLER, World, request};

const POOLS: [&str; 3] = ["m5.large/us-east-1a", "m5.large/us-east-1b", "m5.xlarge/us-east-1a"];

/// Launches, looks at, tags and ends so many instances, all at once each time, and says what was called how often.
async fn calls(world: &World, count: usize) -> BTreeMap<String, usize> {
    let before = world.ec2.calls().by(CONTROLLER).len();
    let launches = (0..count).map(|number| {
        let cloud = world.cloud.clone();
        tokio::spawn(async move {
            let request = request(&format!("c{number}"), 1, &POOLS);
            loop {
                match cloud.launch(&request).await {
                    // So many come first that this one comes back, as a NodeClaim does.
                    Err(LaunchError { error: CloudError::Queued { again, .. }, .. }) => tokio::time::sleep(again).await,
                    other => return other,
                }
            }
        })
    });
    let mut ids = Vec::new();
    for launch in launches.collect::<Vec<_>>() {
        ids.push(launch.await.unwrap().unwrap().instance.provider_id);
    }
    ids.sort();
    ids.dedup();
    assert_eq!((ids.len(), world.ec2.running().len()), (count, count));
    of_each(world, &ids, |cloud, id| async move { drop(cloud.get(&id).await.unwrap()) }).await;
    of_each(world, &ids, |cloud, id| async move {
        let tags = BTreeMap::from([("Name".to_owned(), id.clone())]);
        while let Err(error) = cloud.tag(&id, &tags).await {
            tokio::time::sleep(error.turn().unwrap()).await;
        }
    })
    .await;
    of_each(world, &ids, |cloud, id| async move { cloud.terminate(&id).await.unwrap() }).await;
    assert!(world.ec2.running().is_empty());
    let mut counts = BTreeMap::new();
    for call in &world.ec2.calls().by(CONTROLLER).0[before..] {
        *counts.entry(call.action.clone()).or_default() += 1;
    }
    counts
}

/// Does the same to all instances at once.
async fn of_each<F>(world: &World, ids: &[String], what: impl Fn(Ec2Cloud, String) -> F)
where
    F: Future<Output = ()> + Send + 'static,
{
    let tasks: Vec<_> = ids.iter().map(|id| tokio::spawn(what(world.cloud.clone(), id.clone()))).collect();
    for task in tasks {
        task.await.unwrap();
    }
}

#[tokio::test]
async fn thirty_launches_are_thirty_fleets_and_one_of_everything_else() {
    let world = World::start().await;
    let counts = calls(&world, 30).await;
    let count = |action: &str| counts.get(action).copied().unwrap_or(0);
    assert_eq!((count("CreateFleet"), count("CreateLaunchTemplate"), count("CreateTags")), (30, 2, 30), "{counts:?}");
    // One while the machine is idle; a busy one may pause longer than the batch waits.
    assert!((1..=5).contains(&count("DescribeInstances")), "{counts:?}");
    assert!((1..=5).contains(&count("TerminateInstances")), "{counts:?}");
    assert_eq!(counts.len(), 5, "{counts:?}");
}

#[tokio::test]
#[ignore = "the scale tier: some minutes, as EC2's limits go"]
async fn a_thousand_launches() {
    let world = World::start().await;
    let start = Instant::now();
    let counts = calls(&world, 1000).await;
    println!("{counts:?}, {} in all, in {:.0} s", counts.values().sum::<usize>(), start.elapsed().as_secs_f64());
}
