//! Strangers who make handshakes as fast as they can, with keys that nobody knows, and what nodes feel of it.
//!
//! An address stands for what one pod has, and a network for what somebody with many addresses has: an IPv4 /24, which the
//! loopback of a machine has, and for which the limits are those of an IPv6 /64.

use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use fs_err as fs;
use muster_tests::agents::checks::percentile;
use muster_tests::agents::{Agents, Claim, make_ready};
use muster_tests::meter::Meter;
use muster_tests::replica::Replica;
use muster_tests::wait;
use rcgen::KeyPair;
use rustls::ClientConfig;
use tokio::io::AsyncReadExt;
use tokio::task::JoinSet;
use tokio::time::{Instant, MissedTickBehavior, interval, sleep};

use super::client::{config, open, shake, unknown};
use super::ground::Ground;
use super::scale::{CALM, MOST, Missed, may_open_many, refused, say, verdicts};

/// Nodes that are connected before the strangers come.
const CONNECTED: usize = 100;
/// Nodes that enrol at the same time, in each flood.
const NEW: usize = 200;
/// Handshakes that strangers begin, per second.
const RATE: u32 = 1_000;
/// Time for which they do.
const FLOOD: Duration = Duration::from_secs(60);
/// Time after which nodes enrol: places and allowances of strangers are used up by then.
const USED_UP: Duration = Duration::from_secs(5);
/// Keys of the strangers: made before, so that the test has time for handshakes.
const KEYS: usize = 64;
/// Descriptors that a program without strangers may have more than before: those of its clients.
const BESIDE: usize = 16;

/// A flood of strangers. It ends with the value.
struct Strangers {
    counted: Arc<Counted>,
    _tasks: JoinSet<()>,
}

#[derive(Debug, Default)]
struct Counted {
    begun: AtomicUsize,
    finished: AtomicUsize,
}

impl Strangers {
    /// Begins. Each holds its connection for as long as the other side does, if `holds`.
    fn start(to: SocketAddr, authority: &str, sources: u8, holds: bool) -> Self {
        let counted = Arc::<Counted>::default();
        let own = Arc::clone(&counted);
        let configs: Vec<Arc<ClientConfig>> = (0..KEYS)
            .map(|_| {
                let key = KeyPair::generate().unwrap();
                let chain = unknown(&key);
                config(authority, &key, chain)
            })
            .collect();
        let mut tasks = JoinSet::new();
        tasks.spawn(async move {
            let mut ticks = interval(Duration::from_secs(1) / RATE);
            ticks.set_missed_tick_behavior(MissedTickBehavior::Burst);
            let mut under_way = JoinSet::new();
            for number in 0_usize.. {
                ticks.tick().await;
                let (counted, config) = (Arc::clone(&own), Arc::clone(&configs[number % KEYS]));
                let last = u8::try_from(number % usize::from(sources)).unwrap() + 1;
                under_way.spawn(async move {
                    let Ok(stream) = open(Ipv4Addr::new(127, 201, 0, last), to).await else { return };
                    counted.begun.fetch_add(1, Ordering::Relaxed);
                    let Ok(mut stream) = shake(&config, stream).await else { return };
                    counted.finished.fetch_add(1, Ordering::Relaxed);
                    if holds {
                        let _until_it_ends = stream.read_to_end(&mut Vec::new()).await;
                    }
                });
                while under_way.try_join_next().is_some() {}
            }
        });
        Self { counted, _tasks: tasks }
    }

    /// Number of handshakes that were begun, and of those that were finished.
    fn counted(&self) -> (usize, usize) {
        (self.counted.begun.load(Ordering::Relaxed), self.counted.finished.load(Ordering::Relaxed))
    }
}

/// Number of open descriptors of the controller.
fn descriptors(controller: &Replica) -> usize {
    fs::read_dir(format!("/proc/{}/fd", controller.id().pid)).unwrap().count()
}

/// The next nodes enrol at the same time. How long that took, shortest first.
async fn enrolled(ground: &Ground, agents: &mut Agents, count: usize, all: usize) -> Vec<Duration> {
    let begun = Instant::now();
    agents.start_next(count);
    ground.claims.until("all have enrolled", all, MOST, |claim| claim.has_enrolled).await.unwrap();
    let heard = agents.heard();
    let moments = heard.iter().filter_map(|heard| heard.enrolled.filter(|at| *at >= begun));
    let mut took: Vec<Duration> = moments.map(|at| at - begun).collect();
    took.sort_unstable();
    took
}

/// Nodes enrol and break while strangers come from so many addresses, and after them nothing is left. All nodes that
/// there are then: `all`.
async fn flooded(
    ground: &Ground,
    agents: &mut Agents,
    controller: &Replica,
    (sources, all): (u8, usize),
    missed: &mut Missed,
) {
    let (meter, open) = (Meter::from_now(controller).unwrap(), descriptors(controller));
    let idle = meter.read().unwrap().now;
    let begun = Instant::now();
    let (to, authority) = (ground.address().parse().unwrap(), ground.believed().await);
    let strangers = Strangers::start(to, &authority, sources, sources > 1);
    sleep(USED_UP).await;
    let took = enrolled(ground, agents, NEW, all).await;
    println!(
        "{sources} addresses: {} nodes enrolled: p50 {:?}, p99 {:?}, at most {:?}",
        took.len(),
        percentile(&took, 0.5),
        percentile(&took, 0.99),
        percentile(&took, 1.0),
    );
    missed.at_most("seconds until 200 have enrolled, p99", percentile(&took, 0.99).as_secs_f64(), 10.0);
    let slowest = verdicts(ground, agents, controller, 0..CONNECTED / 2).await;
    missed.at_most("seconds until verdicts of connected nodes are there, p99", slowest.as_secs_f64(), 3.0);
    sleep(FLOOD.saturating_sub(begun.elapsed())).await;
    let (begun_by, finished) = strangers.counted();
    let rate = begun_by as f64 / begun.elapsed().as_secs_f64();
    println!("  handshakes of strangers: {begun_by} begun, {rate:.0} a second; {finished} finished");
    assert!(rate >= 500.0, "{rate:.0} handshakes a second are no flood");
    println!("  refused: {:?}", refused(controller).await);
    let taken = meter.read().unwrap();
    say("  with a flood", begun, &taken);
    missed.at_most("MiB above idle", taken.peak.saturating_sub(idle) as f64, 244.0);
    drop(strangers);
    // Each new node has a connection.
    let most = open + NEW + BESIDE;
    let is_calm = || async { Ok((descriptors(controller) <= most).then_some(())) };
    let ended = Instant::now();
    wait::until_some("their connections are gone", MOST, is_calm).await.unwrap();
    println!(
        "  their connections are gone after {:.1} s; {} MiB",
        ended.elapsed().as_secs_f64(),
        meter.read().unwrap().now
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "scale: minutes, and its figures are those of an optimised program"]
async fn strangers_keep_no_node_away() {
    may_open_many();
    let (all, mut missed) = (CONNECTED + 2 * NEW, Missed::default());
    let ground = Ground::new("agents", u32::try_from(all).unwrap()).await;
    let mut controller = ground.controller("muster").await;
    let mut agents = ground.agents().await;
    let took = enrolled(&ground, &mut agents, CONNECTED, CONNECTED).await;
    println!("{CONNECTED} nodes enrolled without a flood: p99 {:?}", percentile(&took, 0.99));
    ground.claims.until("their agents are ready", CONNECTED, MOST, Claim::is_ready).await.unwrap();
    make_ready(&ground.client(), &ground.machines[..CONNECTED]).await.unwrap();
    sleep(CALM).await;
    flooded(&ground, &mut agents, &controller, (1, CONNECTED + NEW), &mut missed).await;
    flooded(&ground, &mut agents, &controller, (250, all), &mut missed).await;

    // A controller that knows no source of a node yet.
    let (to, authority) = (ground.address().parse().unwrap(), ground.believed().await);
    let _strangers = Strangers::start(to, &authority, 250, true);
    sleep(USED_UP).await;
    let killed = Instant::now();
    controller.kill();
    let controller = ground.start("muster-again");
    let is_back = || async { Ok((agents.count(|heard| heard.has_followed_since(killed)) == all).then_some(())) };
    let back = wait::until_some("all are back", MOST, is_back).await;
    back.unwrap_or_else(|error| panic!("{error}: {:?}", agents.faults(|heard| !heard.has_followed_since(killed))));
    println!("all {all} are back {:.1} s after the controller was killed in a flood", killed.elapsed().as_secs_f64());
    println!("  refused: {:?}", refused(&controller).await);
    assert_eq!(ground.claims.count(|claim| claim.is_ending), 0);
    assert!(missed.0.is_empty(), "{:#?}", missed.0);
}
