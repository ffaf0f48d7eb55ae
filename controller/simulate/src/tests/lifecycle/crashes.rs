//! The controller is killed before and after every single write, and every write meets a conflict; the end is the same.
//!
//! The points are counted in an undisturbed life, so that a write which is added is covered by itself.

use std::time::Duration;

use muster_cloud::CapacityType;

use super::life::{Deed, Life, NEVER, Story, only};
use super::rehearsal::{Disturbance, Rehearsal};
use crate::world::Habits;

/// Time at which everything has to be over, in seconds.
const END: u64 = 3600;

/// State compared at the end.
#[derive(Debug, PartialEq, Eq, Default)]
struct End {
    claims: usize,
    nodes: usize,
    alive: usize,
    launched: usize,
    let_go_too_early: usize,
}

fn stories() -> [(&'static str, Story); 8] {
    let create = || (0, Deed::Create("x"));
    let usual = Habits::default();
    let life = [create(), (3, Deed::Create("y")), (600, Deed::Delete("x")), (700, Deed::DeleteNodes)];
    let never_initialized = Habits { startup_taint: NEVER, ..usual };
    let held = Story {
        habits: Habits { detach: NEVER, ..usual },
        budget: Some(1_000_000),
        has_hold: true,
        has_stuck_pod: true,
        grace: Some(120),
        ..Story::of(life.clone())
    };
    [
        ("two claims live and die", Story::of(life)),
        ("deleted as soon as it is launched", Story::of([create(), (1, Deed::Delete("x"))])),
        ("deleted before it has registered", Story::of([create(), (15, Deed::Delete("x"))])),
        ("never joins", Story::without_nodes([create()])),
        ("never initialized", Story { habits: never_initialized, ..Story::of([create()]) }),
        ("ends while it starts", Story { dies: Some(5), ..Story::of([create()]) }),
        ("ends while it works", Story { dies: Some(300), ..Story::of([create()]) }),
        ("held by a budget, a pod and a volume until the grace period is over", held),
    ]
}

fn rehearse(story: Story) -> Rehearsal {
    let mut life = Life::new(story);
    // Two offerings are gone, so that launches are widened too.
    life.world.run_out(only("a", CapacityType::Spot), NEVER);
    life.world.run_out(only("b", CapacityType::Spot), NEVER);
    Rehearsal::of(&life, END)
}

fn end(life: &Life) -> End {
    End {
        claims: life.world.api.claims.values().count(),
        nodes: life.world.api.nodes.values().count(),
        alive: life.alive().len(),
        launched: life.launched().len(),
        let_go_too_early: life.let_go_too_early.len(),
    }
}

/// Disturbs every story at every write. Returns the number of disturbed lives.
fn disturb_everywhere(disturbance: Disturbance) -> usize {
    let mut points = 0;
    for (name, story) in stories() {
        let rehearsal = rehearse(story);
        let undisturbed = end(&rehearsal.end);
        let expected = End { launched: undisturbed.launched, ..End::default() };
        assert_eq!(undisturbed, expected, "{name}\n{}", rehearsal.end.diary());
        for (what, life) in rehearsal.disturbed(disturbance) {
            points += 1;
            let end = end(&life);
            // Who was away when the claim was deleted need not launch anything for it any more.
            let is_away = matches!(disturbance, Disturbance::Kill { downtime } if !downtime.is_zero());
            let launched = if is_away { end.launched.min(expected.launched) } else { expected.launched };
            assert_eq!(end, End { launched, ..End::default() }, "{name}: {what}\n{}", life.diary());
        }
    }
    points
}

#[test]
fn nothing_is_leaked_or_doubled_wherever_the_controller_stops() {
    let points = disturb_everywhere(Disturbance::Kill { downtime: Duration::ZERO });
    // The undisturbed lives have some two hundred writes; fewer would mean that they end early.
    assert!(points > 200, "{points} points");
}

#[test]
fn nor_if_it_is_away_for_a_while_and_things_go_on_without_it() {
    let points = disturb_everywhere(Disturbance::Kill { downtime: Duration::from_secs(20) });
    assert!(points > 200, "{points} points");
}

#[test]
fn nor_if_any_write_meets_a_conflict() {
    let points = disturb_everywhere(Disturbance::Conflict);
    assert!(points > 200, "{points} points");
}
