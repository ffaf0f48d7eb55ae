//! What ten thousand must be able to do, by fifty.

use std::time::Duration;

use muster_tests::agents::{Claim, make_ready};

use super::FAULT;
use super::ground::Ground;

const COUNT: usize = 50;
/// Longest wait for a condition on a machine that builds on all cores.
const MOST: Duration = Duration::from_secs(60);

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_verdict_is_lost_with_the_controller() {
    let ground = Ground::new("agents", u32::try_from(COUNT).unwrap()).await;
    let claims = &ground.claims;
    let mut controller = ground.controller("muster").await;
    let mut agents = ground.agents().await;
    agents.start();
    claims.until("all have enrolled", COUNT, MOST, |claim| claim.has_enrolled).await.unwrap();
    claims.until("all agents are ready", COUNT, MOST, Claim::is_ready).await.unwrap();
    make_ready(&ground.client(), &ground.machines).await.unwrap();

    agents.break_down(0..COUNT, FAULT);
    claims.until("all have their verdict", COUNT, MOST, |claim| claim.has_fault(FAULT)).await.unwrap();

    // Some are mended, and others break, while nobody listens.
    agents.mend(0..COUNT);
    claims.until("all are mended", COUNT, MOST, Claim::is_ready).await.unwrap();
    let killed = tokio::time::Instant::now();
    controller.kill();
    agents.break_down(0..COUNT / 2, FAULT);
    let _controller = ground.controller("muster-again").await;
    let is_back = || async { Ok((agents.count(|heard| heard.has_followed_since(killed)) == COUNT).then_some(())) };
    muster_tests::wait::until_some("all are back", MOST, is_back).await.unwrap();
    claims.until("half have a verdict", COUNT / 2, MOST, |claim| claim.has_fault(FAULT)).await.unwrap();
    assert_eq!(claims.count(Claim::is_ready), COUNT / 2, "and half are well");
    // Whoever has a certificate needs no other one, and what happens to a node that takes pods is no reason to end it.
    assert_eq!(agents.count(|heard| heard.enrolled.is_some_and(|at| at > killed)), 0);
    assert_eq!(claims.count(|claim| claim.is_ending), 0);
}
