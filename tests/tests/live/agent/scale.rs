//! Many repetitions: the figures of the README. One machine at a time, so that they are the agent's and not the load's.

use std::time::{Duration, Instant};

use jiff::SignedDuration;
use muster_tests::{Ground, on_site_for};

use super::faults::{BLACK_HOLE, FAULTS};
use super::{after, before, healthy, table};

const HOURS: Duration = Duration::from_secs(2 * 3600);
/// Each fault.
const TIMES: usize = 5;
const BOOTS: usize = 50;

#[test]
#[ignore = "a quarter of an hour"]
fn every_fault_is_named_within_seconds_every_time() {
    const MOST: Duration = Duration::from_secs(5);
    on_site_for(HOURS, "times", Ground::Cluster, async |case| {
        let site = case.site();
        site.fabric().swallow(BLACK_HOLE.parse().unwrap()).await.unwrap();
        let mut all = Vec::new();
        for round in 1..=TIMES {
            let start = Instant::now();
            for fault in FAULTS {
                all.push(before::named(site, fault).await.unwrap());
            }
            all.extend(after::of_a_kubelet(site).await);
            all.extend(after::of_a_node(site).await);
            all.extend(after::of_devices(site).await);
            println!("round {round}: {:?}", start.elapsed());
        }
        println!("{}", table::of(&all));
        let late: Vec<_> = all.iter().filter(|took| took.after > MOST).collect();
        assert!(late.is_empty(), "{late:?}");
    });
}

#[test]
#[ignore = "minutes"]
fn a_clock_that_is_wrong_is_named_every_time() {
    on_site_for(HOURS, "clocks", Ground::ClusterAhead(before::AHEAD), async |case| {
        let mut all = Vec::new();
        for _ in 0..TIMES {
            all.push(before::named(case.site(), &before::CLOCK).await.unwrap());
        }
        println!("{}", table::of(&all));
    });
}

#[test]
#[ignore = "minutes"]
fn a_healthy_node_has_nothing_to_say_in_fifty_boots() {
    on_site_for(HOURS, "boots", Ground::Cluster, async |case| {
        let mut all = Vec::new();
        for number in 1..=BOOTS {
            let boot = healthy::joins(case.site()).await;
            println!("boot {number}: {boot:?}");
            all.push(boot);
        }
        let of = |what: fn(&healthy::Boot) -> SignedDuration| {
            let mut times: Vec<SignedDuration> = all.iter().map(what).collect();
            times.sort_unstable();
            format!("median {:#}, worst {:#}", times[times.len() / 2], times[times.len() - 1])
        };
        println!("preflight: {}", of(|it| it.preflight));
        println!("agent to a node that takes pods: {}", of(|it| it.whole));
        println!("kubelet's wait for the agent: {}", of(|it| it.gate));
        println!("resident: at most {} kB", all.iter().map(|it| it.resident).max().unwrap());
    });
}

#[test]
#[ignore = "a minute in which nothing happens"]
fn an_agent_with_nothing_to_do_does_nothing() {
    const MINUTE: Duration = Duration::from_secs(60);
    on_site_for(HOURS, "idle", Ground::Cluster, async |case| {
        let site = case.site();
        let node = healthy::boots(site).await;
        let pid = node.machine.run(["systemctl", "show", "-P", "MainPID", "muster-agent"]).await.unwrap();
        // With what it has started and waited for: `systemctl`, `journalctl`.
        let used = async || {
            let stat = node.machine.run(["cat", &format!("/proc/{}/stat", pid.trim())]).await.unwrap();
            let (_, fields) = stat.rsplit_once(") ").unwrap();
            let fields: Vec<&str> = fields.split(' ').collect();
            fields[11..15].iter().map(|ticks| ticks.parse::<u32>().unwrap()).sum::<u32>()
        };
        let before = used().await;
        tokio::time::sleep(MINUTE).await;
        // A tick is a hundredth of a second everywhere that Linux runs.
        let share = f64::from(used().await - before) / 100.0 / MINUTE.as_secs_f64();
        println!("{:.2} % of a core", share * 100.0);
        assert!(share < 0.01, "{share}");
        site.terminate(node).await.unwrap();
    });
}
