//! The controller stops before and after every single write, and every write meets a conflict; the end is the same.
//!
//! The points are counted in an undisturbed run, so that a write which is added is covered by itself.

use super::edge::Blow;
use super::rehearsal::Rehearsal;
use super::world::{Deed, Habits, World};

/// When everything has to be over, in seconds.
const END: u64 = 3600;

/// What is compared at the end.
#[derive(Debug, PartialEq, Eq, Default)]
struct End {
    claims: usize,
    nodes: usize,
    alive: usize,
    launched: usize,
    let_go_too_early: usize,
}

struct Story {
    name: &'static str,
    habits: Habits,
    deeds: Vec<(u64, Deed)>,
    grace: Option<u64>,
}

fn stories() -> Vec<Story> {
    let story = |name, habits, deeds| Story { name, habits, deeds, grace: None };
    let create = || (0, Deed::Create("x"));
    let usual = Habits::default;
    let life = vec![create(), (3, Deed::Create("y")), (600, Deed::Delete("x")), (700, Deed::DeleteNodes)];
    vec![
        story("two claims live and die", usual(), life.clone()),
        story("deleted as soon as it is launched", usual(), vec![create(), (1, Deed::Delete("x"))]),
        story("deleted before it has registered", usual(), vec![create(), (15, Deed::Delete("x"))]),
        story("never joins", Habits { joins: None, ..usual() }, vec![create()]),
        story("never initialized", Habits { startup: None, ..usual() }, vec![create()]),
        story("ends while it starts", Habits { dies: Some(5), ..usual() }, vec![create()]),
        story("ends while it works", Habits { dies: Some(300), ..usual() }, vec![create()]),
        Story {
            name: "held by a budget, a pod and a volume until the grace period is over",
            habits: Habits { budget: Some(1_000_000), has_hold: true, volume: None, has_stuck_pod: true, ..usual() },
            deeds: life,
            grace: Some(120),
        },
    ]
}

fn rehearse(story: &Story) -> Rehearsal {
    let mut world = World::new();
    world.habits = story.habits.clone();
    world.deeds = story.deeds.clone();
    world.grace = story.grace;
    // Two offerings are gone, so that launches are widened too.
    let gone: Vec<_> = world.offered.iter().take(2).map(|one| one.offering.clone()).collect();
    world.cloud.capacity.extend(gone.into_iter().map(|offering| (offering, 0)));
    Rehearsal::of(world, END)
}

fn end(world: &World) -> End {
    End {
        claims: world.api.claims.len(),
        nodes: world.api.nodes.len(),
        alive: world.alive().len(),
        launched: world.cloud.everything(world.now).len(),
        let_go_too_early: world.let_go_too_early.len(),
    }
}

/// Every write of every story meets every blow; how many that were.
fn blow_everywhere(blows: &[Blow], downtime: u64) -> usize {
    let mut points = 0;
    for story in stories() {
        let name = story.name;
        let rehearsal = rehearse(&story);
        let undisturbed = &rehearsal.end;
        let expected = end(undisturbed);
        let nothing = End { launched: expected.launched, ..End::default() };
        assert_eq!(expected, nothing, "{name}\n{}", undisturbed.diary());
        for write in 0..undisturbed.edge.writes {
            for blow in blows {
                points += 1;
                let world = rehearsal.with(write, *blow, downtime);
                // Who was away when the claim was deleted need not launch anything for it any more.
                let launched =
                    if downtime > 0 { end(&world).launched.min(expected.launched) } else { expected.launched };
                let expected = End { launched, ..End::default() };
                assert_eq!(end(&world), expected, "{name}: {blow:?} write {write}\n{}", world.diary());
                let is_killed = *blow != Blow::Meddle;
                assert_eq!(world.restarts, usize::from(is_killed), "{name}: {blow:?} write {write}: the blow falls");
            }
        }
    }
    points
}

#[test]
fn nothing_is_leaked_or_doubled_wherever_the_controller_stops() {
    let points = blow_everywhere(&[Blow::Before, Blow::After, Blow::Meddle], 0);
    // The undisturbed lives have some two hundred writes; fewer would mean that they end early.
    assert!(points > 400, "{points} points");
}

#[test]
fn nor_if_it_is_away_for_a_while_and_things_go_on_without_it() {
    let points = blow_everywhere(&[Blow::Before, Blow::After], 20);
    assert!(points > 250, "{points} points");
}
