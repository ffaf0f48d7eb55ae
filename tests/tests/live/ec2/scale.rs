//! Large numbers; run by hand, figures in `README.md`:
//! `cargo test -p muster-tests --test live -- --ignored --nocapture ec2::scale`.

use std::time::Instant;

use crate::ec2::sdk::Fixture;

#[tokio::test]
#[ignore = "the scale tier: a minute on an idle machine"]
async fn five_hundred_instances() {
    let world = Fixture::start().await;
    let mut lap = Instant::now();
    let mut show = |what: &str| {
        println!("{what}: {:.2} s", lap.elapsed().as_secs_f64());
        lap = Instant::now();
    };
    for _ in 0..20 {
        world.launch("m5.large/us-east-1a").await;
    }
    show("20 fleets of one, one after another");
    let fleet = world.fleet(&["m5.large/us-east-1a", "m5.large/us-east-1b"], 48);
    let fleets = (0..10).map(|_| {
        let fleet = fleet.clone();
        tokio::spawn(async move { fleet.send().await.instances()[0].instance_ids().len() })
    });
    let mut launched = 20;
    for fleet in fleets.collect::<Vec<_>>() {
        launched += fleet.await.unwrap();
    }
    assert_eq!((launched, world.ec2.running().len()), (500, 500));
    show("10 fleets of 48 at once");
    let pages = world.client.describe_instances().max_results(1000).into_paginator().items().send();
    let reservations = pages.collect::<Result<Vec<_>, _>>().await.unwrap();
    assert_eq!(reservations.iter().map(|reservation| reservation.instances().len()).sum::<usize>(), 500);
    show("500 described");
    let types = world.client.describe_instance_types().into_paginator().items().send();
    assert!(types.collect::<Result<Vec<_>, _>>().await.unwrap().len() > 1000);
    show("all instance types described");
    let ids = world.ec2.running().iter().map(|instance| instance.id.clone()).collect::<Vec<_>>();
    for some in ids.chunks(100) {
        world.client.terminate_instances().set_instance_ids(Some(some.to_vec())).send().await.unwrap();
    }
    assert!(world.ec2.running().is_empty());
    show("500 terminated, 100 a call");
}
