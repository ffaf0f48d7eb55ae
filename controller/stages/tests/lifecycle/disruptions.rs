//! Nodes are taken away, and the controller stops before and after every single write: each ends as if it had not.

use muster_api::conditions::nodeclaim;
use muster_api::{NodeClaim, taints};
use muster_scheduling::disrupt::Cause;
use muster_stages::disruption::{is_marked, mark_of};
use muster_stages::lifecycle::is_true;

use super::edge::Blow;
use super::orders::Wish;
use super::rehearsal::Rehearsal;
use super::world::{Deed, Habits, World};

/// When everything has to be over, in seconds.
const END: u64 = 1500;
/// When the nodes are to go; until when somebody wants that.
const WANTED: (u64, u64) = (300, 500);

/// What is compared at the end.
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

struct Story {
    name: &'static str,
    wish: Wish,
    deeds: Vec<(u64, Deed)>,
    /// Claims that stay, and how many were launched and stay.
    end: (&'static [&'static str], usize),
}

fn stories() -> Vec<Story> {
    let both: &[&str] = &["x", "y"];
    let wish = |cause, claims, launches| Wish { seconds: WANTED, cause, claims, launches };
    let hold = |second| vec![(second, Deed::DisruptionBlocker("y"))];
    let never = Habits { joins: None, ..Habits::default() };
    let story = |name, wish, deeds, end| Story { name, wish, deeds, end };
    vec![
        story("two are replaced by one", wish(Cause::Underutilized, both, 1), vec![], (&[], 1)),
        story("one is replaced by two", wish(Cause::Drifted, &["x"], 2), vec![], (&["y"], 2)),
        story("two go for nothing", wish(Cause::Empty, both, 0), vec![], (&[], 0)),
        story("somebody objects while it is waited", wish(Cause::Drifted, &["y"], 1), hold(320), (both, 0)),
        story("one of two falls out", wish(Cause::Underutilized, both, 1), hold(320), (&["y"], 1)),
        story("an operator pauses it", wish(Cause::Drifted, both, 2), vec![(320, Deed::Pause)], (both, 0)),
        story(
            "what takes its place never joins",
            wish(Cause::Underutilized, both, 1),
            vec![(290, Deed::Behave(Box::new(never.clone())))],
            (both, 0),
        ),
        story(
            "what takes its place cannot be bought",
            wish(Cause::Drifted, both, 1),
            vec![(290, Deed::SellOut)],
            (both, 0),
        ),
        story("an old one asks to stay", wish(Cause::Expired, &["y"], 1), hold(310), (&["x"], 1)),
        story(
            "the cloud does not wait",
            wish(Cause::Interrupted, &["x"], 1),
            vec![(290, Deed::Behave(Box::new(never)))],
            (&["y"], 0),
        ),
        story(
            "a broken one goes although nothing can be bought",
            wish(Cause::Broken, &["x"], 1),
            vec![(290, Deed::SellOut)],
            (&["y"], 0),
        ),
    ]
}

/// What must hold of commands at every moment.
pub(crate) fn check(world: &World) {
    let claims = &world.api.claims;
    for claim in claims.values().filter(|claim| claim.metadata.deletion_timestamp.is_some()) {
        let Some(mark) = mark_of(claim).filter(|mark| !mark.cause.forceful()) else { continue };
        for name in &mark.replacements {
            let is_up = claims.get(name).is_some_and(|one| is_true(one, nodeclaim::INITIALIZED));
            assert!(is_up, "{:?} goes before {name} is up\n{}", claim.metadata.name, world.diary());
        }
    }
    for node in tainted(world) {
        let is_its =
            |claim: &&NodeClaim| claim.status.as_ref().is_some_and(|status| status.node_name.as_ref() == Some(&node));
        let explained = |claim: &NodeClaim| is_marked(claim) || claim.metadata.deletion_timestamp.is_some();
        let claim = claims.values().find(is_its);
        assert!(claim.is_some_and(explained), "nothing explains the taint of {node}\n{}", world.diary());
    }
}

fn tainted(world: &World) -> Vec<String> {
    let nodes = world.api.nodes.values().filter(|node| {
        let all = node.spec.as_ref().and_then(|spec| spec.taints.as_deref()).unwrap_or_default();
        all.iter().any(|taint| taint.key == taints::DISRUPTED)
    });
    nodes.filter_map(|node| node.metadata.name.clone()).collect()
}

fn rehearse(story: &Story) -> Rehearsal {
    let mut world = World::new();
    world.deeds = vec![(0, Deed::Create("x")), (0, Deed::Create("y"))];
    world.deeds.extend(story.deeds.clone());
    world.edge.wishes = vec![story.wish.clone()];
    Rehearsal::of(world, END)
}

fn end(world: &World) -> End {
    let own = |name: &&String| ["x", "y"].contains(&name.as_str());
    End {
        stay: world.api.claims.keys().filter(own).cloned().collect(),
        replacements: world.api.claims.keys().filter(|name| !own(name)).count(),
        nodes: world.api.nodes.len(),
        alive: world.alive().len(),
        marked: world.api.claims.values().filter(|claim| is_marked(claim)).count(),
        tainted: tainted(world).len(),
        let_go_too_early: world.let_go_too_early.len(),
    }
}

/// Every write of every story meets every blow; how many that were.
fn blow_everywhere(blows: &[Blow], downtime: u64) -> usize {
    let mut points = 0;
    for story in stories() {
        let name = story.name;
        let (stay, replacements) = story.end;
        let count = stay.len() + replacements;
        let stay = stay.iter().map(|name| (*name).to_owned()).collect();
        let expected = End { stay, replacements, nodes: count, alive: count, ..End::default() };
        let rehearsal = rehearse(&story);
        let undisturbed = &rehearsal.end;
        assert_eq!(end(undisturbed), expected, "{name}\n{}", undisturbed.diary());
        let is_before = |one: &&super::edge::Entry| one.at < super::world::at(WANTED.0);
        let first = undisturbed.edge.diary.iter().filter(is_before).count();
        for write in first..undisturbed.edge.writes {
            for blow in blows {
                points += 1;
                let world = rehearsal.with(write, *blow, downtime);
                assert_eq!(end(&world), expected, "{name}: {blow:?} write {write}\n{}", world.diary());
                let is_killed = *blow != Blow::Meddle;
                assert_eq!(world.restarts, usize::from(is_killed), "{name}: {blow:?} write {write}: the blow falls");
            }
        }
    }
    points
}

#[test]
fn a_disruption_ends_the_same_wherever_the_controller_stops() {
    let points = blow_everywhere(&[Blow::Before, Blow::After, Blow::Meddle], 0);
    assert!(points > 600, "{points} points");
}

#[test]
fn nor_does_it_matter_that_it_is_away_for_a_while() {
    let points = blow_everywhere(&[Blow::Before, Blow::After], 20);
    assert!(points > 400, "{points} points");
}
