//! Nodes are taken away, and the controller is killed before and after every single write: each ends as if it had not
//! been.

use std::time::Duration;

use muster_scheduling::disrupt::Cause;
use muster_stages::disruption::is_marked;

use super::invariants::tainted;
use super::life::{Deed, Life, NEVER, Story};
use super::rehearsal::{Disturbance, Rehearsal};
use crate::controller::Wish;
use crate::world::Meant;

/// Time at which everything has to be over, in seconds: usually, and where a machine never joins.
const END: (u64, u64) = (900, 1500);
/// Times between which the nodes are wanted gone, every ten seconds.
const WANTED: (u64, u64) = (300, 500);
/// End of these attempts where all of them fail: a few show as much as twenty.
const WANTED_IN_VAIN: u64 = 330;

/// State compared at the end.
#[derive(Debug, PartialEq, Eq, Default)]
struct End {
    /// Claims that were there before.
    stay: Vec<String>,
    replacements: usize,
    nodes: usize,
    alive: usize,
    marked: usize,
    tainted: usize,
    let_go_too_early: usize,
}

struct Disruption {
    name: &'static str,
    wish: Wish,
    until: u64,
    deeds: Vec<(u64, Deed)>,
    over: u64,
    /// Claims that stay, and the number of those that were launched and stay.
    end: (&'static [&'static str], usize),
}

fn disruptions() -> Vec<Disruption> {
    let both: &[&str] = &["x", "y"];
    let wish = |cause, claims, launches| Wish { cause, claims, launches };
    let hold = |second| vec![(second, Deed::DoNotDisrupt("y"))];
    let sell_out = || vec![(290, Deed::SellOut(Meant::default()))];
    let all = |name, wish, deeds, end| Disruption { name, wish, until: WANTED.1, deeds, over: END.0, end };
    let never_joins =
        |name, wish, end| Disruption { over: END.1, ..all(name, wish, vec![(290, Deed::JoinAfter(NEVER))], end) };
    let in_vain = |name, wish, deeds, end| Disruption { until: WANTED_IN_VAIN, ..all(name, wish, deeds, end) };
    vec![
        all("two are replaced by one", wish(Cause::Underutilized, both, 1), vec![], (&[], 1)),
        all("one is replaced by two", wish(Cause::Drifted, &["x"], 2), vec![], (&["y"], 2)),
        all("two go for nothing", wish(Cause::Empty, both, 0), vec![], (&[], 0)),
        all("somebody objects while it is waited", wish(Cause::Drifted, &["y"], 1), hold(320), (both, 0)),
        all("one of two falls out", wish(Cause::Underutilized, both, 1), hold(320), (&["y"], 1)),
        all("an operator pauses it", wish(Cause::Drifted, both, 2), vec![(320, Deed::Pause)], (both, 0)),
        never_joins("what takes its place never joins", wish(Cause::Underutilized, both, 1), (both, 0)),
        in_vain("what takes its place cannot be bought", wish(Cause::Drifted, both, 1), sell_out(), (both, 0)),
        all("an old one asks to stay", wish(Cause::Expired, &["y"], 1), hold(310), (&["x"], 1)),
        never_joins("the cloud does not wait", wish(Cause::Interrupted, &["x"], 1), (&["y"], 0)),
        all(
            "a broken one goes although nothing can be bought",
            wish(Cause::Broken, &["x"], 1),
            sell_out(),
            (&["y"], 0),
        ),
    ]
}

fn end(life: &Life) -> End {
    let (api, own) = (&life.world.api, |name: &&String| ["x", "y"].contains(&name.as_str()));
    let names = || api.claims.iter().map(|(path, _)| &path.name);
    End {
        stay: names().filter(own).cloned().collect(),
        replacements: names().filter(|name| !own(name)).count(),
        nodes: api.nodes.values().count(),
        alive: life.alive().len(),
        marked: api.claims.values().filter(|claim| is_marked(claim)).count(),
        tainted: tainted(&life.world).len(),
        let_go_too_early: life.let_go_too_early.len(),
    }
}

/// Disturbs every disruption at every write. Returns the number of disturbed lives.
fn disturb_everywhere(disturbance: Disturbance) -> usize {
    let mut points = 0;
    let mut before = Life::new(Story::of([(0, Deed::Create("x")), (0, Deed::Create("y"))]));
    before.run(WANTED.0 - 20);
    for Disruption { name, wish, until, deeds, over, end: (stay, replacements) } in disruptions() {
        let count = stay.len() + replacements;
        let stay = stay.iter().map(|name| (*name).to_owned()).collect();
        let expected = End { stay, replacements, nodes: count, alive: count, ..End::default() };
        let mut life = before.killed_in(before.world.clone(), Duration::ZERO);
        life.plan(deeds);
        life.plan((WANTED.0..until).step_by(10).map(|second| (second, Deed::Begin(wish.clone()))));
        let rehearsal = Rehearsal::of(&life, over);
        assert_eq!(end(&rehearsal.end), expected, "{name}\n{}", rehearsal.end.diary());
        for (what, life) in rehearsal.disturbed(disturbance) {
            points += 1;
            assert_eq!(end(&life), expected, "{name}: {what}\n{}", life.diary());
        }
    }
    points
}

#[test]
fn a_disruption_ends_the_same_wherever_the_controller_stops() {
    let points = disturb_everywhere(Disturbance::Kill { downtime: Duration::ZERO });
    assert!(points > 200, "{points} points");
}

#[test]
fn nor_does_it_matter_that_it_is_away_for_a_while() {
    let points = disturb_everywhere(Disturbance::Kill { downtime: Duration::from_secs(20) });
    assert!(points > 200, "{points} points");
}

#[test]
fn nor_that_any_write_meets_a_conflict() {
    let points = disturb_everywhere(Disturbance::Conflict);
    assert!(points > 200, "{points} points");
}
