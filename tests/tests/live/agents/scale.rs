//! Ten thousand agents, and what they cost. The figures are those of an optimised `muster` and an optimised test; API server,
//! etcd, the emulated EC2 and the agents themselves take their share of the same machine.

use std::collections::BTreeMap;
use std::ops::Range;
use std::time::Duration;

use muster_tests::agents::checks::{self, percentile};
use muster_tests::agents::{Agents, Claim, Flood, make_ready};
use muster_tests::meter::{Meter, Taken, counted};
use muster_tests::replica::Replica;
use muster_tests::wait;
use nix::sys::resource::{Resource, getrlimit, setrlimit};
use tokio::time::{Instant, sleep};

use super::FAULT;
use super::ground::Ground;

/// How long any part may take before the test gives up.
pub(crate) const MOST: Duration = Duration::from_secs(600);
/// How long nothing is done, to see what that costs.
const IDLE: Duration = Duration::from_secs(60);
/// What is to be calm before that has as long to become so: a node is looked at again thirty seconds after it has changed.
pub(crate) const CALM: Duration = Duration::from_secs(60);
/// How long an agent lets a fault stand before it says that it is the end of the node.
const STANDS: Duration = Duration::from_secs(3);

/// What was to be held and was not: all of it is measured before the test fails.
#[derive(Default)]
pub(crate) struct Missed(pub(crate) Vec<String>);

impl Missed {
    pub(crate) fn at_most(&mut self, what: &str, is: f64, most: f64) {
        if is > most {
            self.0.push(format!("{what}: {is:.2}, and not {most} at most"));
        }
    }

    /// Half a core, and 600 MB.
    fn small(&mut self, what: &str, taken: &Taken) {
        self.at_most(&format!("{what}, cores"), taken.cores(), 0.5);
        self.at_most(&format!("{what}, MiB"), f64::from(u32::try_from(taken.peak).unwrap()), 572.0);
    }
}

/// How many agents; `MUSTER_AGENTS` has another number.
fn count() -> usize {
    std::env::var("MUSTER_AGENTS").ok().and_then(|text| text.parse().ok()).unwrap_or(10_000)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "scale: a quarter of an hour, and its figures are those of an optimised program"]
async fn ten_thousand() {
    may_open_many();
    let (count, mut missed) = (count(), Missed::default());
    let ground = Ground::new("agents", u32::try_from(count).unwrap()).await;
    let mut controller = ground.controller("muster").await;
    let begun = Meter::of(&controller).await.unwrap();
    println!("the controller has {} MiB with {count} NodeClaims and no agent", begun.read().unwrap().now);

    let start = Instant::now();
    let mut agents = ground.agents().await;
    println!("evidence of all: {:.1} s", start.elapsed().as_secs_f64());
    enrol(&ground, &mut agents, &controller, &mut missed).await;
    do_nothing("nothing was to be done", &controller, &mut missed).await;

    for (from, broken, most) in [(0, count / 50, 2.0), (count / 50, count / 10, 8.0)] {
        let slowest = verdicts(&ground, &agents, &controller, from..from + broken).await;
        missed.at_most(&format!("seconds until {broken} verdicts are there, p99"), slowest.as_secs_f64(), most);
    }

    ask_for_checks(&ground, &controller).await;
    break_in_a_flood(&ground, &agents, &controller).await;

    let controller = restart(&ground, &agents, &mut controller, &mut missed).await;
    do_nothing("nothing was to be done after a restart", &controller, &mut missed).await;
    assert_eq!(ground.claims.count(|claim| claim.is_ending), 0);
    assert!(missed.0.is_empty(), "{:#?}", missed.0);
}

/// All agents come, and all Nodes become ready.
async fn enrol(ground: &Ground, agents: &mut Agents, controller: &Replica, missed: &mut Missed) {
    let (claims, count) = (&ground.claims, agents.len());
    let meter = Meter::from_now(controller).unwrap();
    let start = Instant::now();
    agents.start();
    claims.until("all have enrolled", count, MOST, |claim| claim.has_enrolled).await.unwrap();
    missed.at_most("seconds until all have enrolled", start.elapsed().as_secs_f64(), 120.0);
    say("all have enrolled", start, &meter.read().unwrap());
    claims.until("all agents are ready", count, MOST, Claim::is_ready).await.unwrap();
    say("all agents are ready", start, &meter.read().unwrap());
    println!("  refused: {:?}", refused(controller).await);
    println!("  what went wrong last: {:?}", agents.faults(|heard| heard.faults > 0));

    let start = Instant::now();
    make_ready(&ground.client(), &ground.machines).await.unwrap();
    println!("all Nodes are Ready after {:.1} s", start.elapsed().as_secs_f64());
}

/// Nothing is done, which has to cost little.
async fn do_nothing(what: &str, controller: &Replica, missed: &mut Missed) {
    sleep(CALM).await;
    let meter = Meter::from_now(controller).unwrap();
    sleep(IDLE).await;
    let taken = meter.read().unwrap();
    say("nothing was to be done", Instant::now() - IDLE, &taken);
    missed.small(what, &taken);
}

async fn ask_for_checks(ground: &Ground, controller: &Replica) {
    let meter = Meter::from_now(controller).unwrap();
    let checked = checks::check(&ground.health(), 2000, Duration::from_secs(30)).await.unwrap();
    let taken = meter.read().unwrap();
    println!(
        "{} Checks in {:.1} s: {} refused, {:.0} µs of CPU each, p50 {:?}, p99 {:?}, at most {:?}",
        checked.took.len(),
        checked.wall.as_secs_f64(),
        checked.refused,
        taken.cpu * 1e6 / f64::from(u32::try_from(checked.took.len()).unwrap()),
        checked.within(0.5),
        checked.within(0.99),
        checked.within(1.0),
    );
    assert_eq!(checked.refused, 0);
}

async fn break_in_a_flood(ground: &Ground, agents: &Agents, controller: &Replica) {
    let flood = Flood::start(ground.address().parse().unwrap(), 200);
    sleep(Duration::from_secs(20)).await;
    let begun = Instant::now();
    let meter = Meter::from_now(controller).unwrap();
    verdicts(ground, agents, controller, 0..agents.len() / 50).await;
    println!("  in a flood: opened, reset, hung up on {:?}", flood.counted());
    say("  with a flood", begun, &meter.read().unwrap());
    println!("  refused: {:?}", refused(controller).await);
    drop(flood);
}

/// The first nodes of all break at the moment at which nobody listens any more, and the controller is started again.
async fn restart(ground: &Ground, agents: &Agents, controller: &mut Replica, missed: &mut Missed) -> Replica {
    let (claims, count) = (&ground.claims, agents.len());
    let broken = count / 50;
    let killed = Instant::now();
    agents.break_down(0..broken, FAULT);
    sleep(STANDS).await;
    let killed = killed + STANDS;
    controller.kill();
    let controller = ground.start("muster-again");
    let is_back = || async { Ok((agents.count(|heard| heard.has_followed_since(killed)) == count).then_some(())) };
    let back = wait::until_some("all are back", MOST, is_back).await;
    back.unwrap_or_else(|error| panic!("{error}: {:?}", agents.faults(|heard| !heard.has_followed_since(killed))));
    println!("all are back {:.1} s after the controller was killed", killed.elapsed().as_secs_f64());
    missed.at_most("seconds until all are back", killed.elapsed().as_secs_f64(), 60.0);
    claims.until("no verdict is lost", broken, MOST, |claim| claim.has_fault(FAULT)).await.unwrap();
    println!("all verdicts are at their NodeClaims {:.1} s after", killed.elapsed().as_secs_f64());
    println!("  refused: {:?}", refused(&controller).await);
    controller
}

/// These nodes break at once, and are mended at once. How long their verdicts took, but for one in a hundred.
pub(crate) async fn verdicts(
    ground: &Ground,
    agents: &Agents,
    controller: &Replica,
    numbers: Range<usize>,
) -> Duration {
    let (claims, count) = (&ground.claims, numbers.len());
    let meter = Meter::from_now(controller).unwrap();
    agents.break_down(numbers.clone(), FAULT);
    let told = Instant::now() + STANDS;
    claims.until("all have their verdict", count, MOST, |claim| claim.has_fault(FAULT)).await.unwrap();
    let taken = meter.read().unwrap();
    let of = |number| claims.get(&agents.machine(number).claim).unwrap().verdict_seen.duration_since(told);
    let mut took: Vec<Duration> = numbers.clone().map(of).collect();
    took.sort_unstable();
    println!(
        "{count} verdicts at once: p50 {:?}, p99 {:?}, at most {:?}; {:.2} CPU s",
        percentile(&took, 0.5),
        percentile(&took, 0.99),
        percentile(&took, 1.0),
        taken.cpu,
    );
    let start = Instant::now();
    agents.mend(numbers);
    claims.until("all are mended", 0, MOST, |claim| claim.has_fault(FAULT)).await.unwrap();
    println!("  mended after {:.1} s", start.elapsed().as_secs_f64());
    percentile(&took, 0.99)
}

pub(crate) fn say(what: &str, since: Instant, taken: &Taken) {
    println!(
        "{what} {:.1} s: {:.2} CPU s ({:.3} cores), {} MiB, at most {} MiB",
        since.elapsed().as_secs_f64(),
        taken.cpu,
        taken.cores(),
        taken.now,
        taken.peak,
    );
}

/// What the controller has refused, by its code.
pub(crate) async fn refused(controller: &Replica) -> BTreeMap<String, u64> {
    counted(controller, "muster_agent_refusals_total").await.unwrap()
}

/// Each agent is a connection of this process.
pub(crate) fn may_open_many() {
    let (_, hard) = getrlimit(Resource::RLIMIT_NOFILE).unwrap();
    setrlimit(Resource::RLIMIT_NOFILE, hard, hard).unwrap();
}
