use super::super::plan::Plan;
use super::*;

fn at(seconds: i64) -> Timestamp {
    Timestamp::from_second(seconds).unwrap()
}

#[test]
fn third_fruitless_launch_holds_the_set_for_longer_and_longer() {
    let (mut fruitless, set) = (Fruitless::default(), Arc::from("shop/ReplicaSet/web"));
    assert_eq!(fruitless.allowed(&set, at(0)), Allowed::All);
    for (claim, expected) in [("a", Allowed::One), ("b", Allowed::One), ("c", Allowed::NothingUntil(at(600)))] {
        fruitless.note_unused(&set, claim, at(0));
        fruitless.note_unused(&set, claim, at(0));
        assert_eq!(fruitless.allowed(&set, at(0)), expected, "{claim}");
    }
    assert_eq!((fruitless.held(at(0)), fruitless.held(at(600))), (1, 0));
    assert_eq!(fruitless.allowed(&set, at(600)), Allowed::One, "it is tried again");
    fruitless.note_unused(&set, "d", at(700));
    assert_eq!(fruitless.allowed(&set, at(700)), Allowed::NothingUntil(at(1900)));
    for claim in 0..20 {
        fruitless.note_unused(&set, &format!("e{claim}"), at(2000));
    }
    assert_eq!(
        fruitless.allowed(&set, at(2000)),
        Allowed::NothingUntil(at(4400)),
        "nodes of one launch hold them once"
    );
    fruitless.note_unused(&set, "f", at(5000));
    fruitless.note_unused(&set, "g", at(9000));
    assert_eq!(fruitless.allowed(&set, at(9000)), Allowed::NothingUntil(at(12600)), "an hour at most");
    assert_eq!(fruitless.of(&set), Some((26, "g")));
    assert_eq!(fruitless.allowed("shop/ReplicaSet/other", at(200)), Allowed::All);
    fruitless.note_bound(&set, at(9100));
    assert_eq!(fruitless.allowed(&set, at(9100)), Allowed::All);
}

#[test]
fn pod_that_loses_its_turn_among_many_that_are_bound_is_no_evidence() {
    let (mut fruitless, set) = launched(4);
    for claim in ["b", "c", "d"] {
        fruitless.note_unused(&set, claim, at(60));
    }
    assert_eq!(fruitless.allowed(&set, at(60)), Allowed::All, "`a` has got its pod since all of them were launched");
    fruitless.note_launched("later", BTreeSet::from([Arc::clone(&set)]), at(70));
    fruitless.note_unused(&set, "later", at(120));
    assert_eq!(fruitless.allowed(&set, at(120)), Allowed::One);
}

#[test]
fn what_is_forgotten_during_a_round_stays_forgotten_after_it() {
    let (mut plan, set) = (Plan::default(), Arc::from("shop/ReplicaSet/web"));
    let note = |plan: &mut Plan, second: i64| {
        ["a", "b", "c"].iter().for_each(|claim| plan.fruitless.note_unused(&set, claim, at(second)));
    };
    note(&mut plan, 0);
    let decided = plan.clone();
    plan.forget_fruitless();
    plan.succeed(decided);
    assert_eq!(plan.held_sets(at(0)), 0);
    let mut decided = plan.clone();
    note(&mut decided, 10);
    plan.succeed(decided);
    assert_eq!(plan.held_sets(at(10)), 1, "the next round starts after the change");
}

#[test]
fn daemons_that_change_all_the_time_reset_the_record_once_in_ten_minutes() {
    let (mut fruitless, set) = (Fruitless::default(), Arc::from("shop/ReplicaSet/web"));
    let note = |fruitless: &mut Fruitless, second: i64| {
        ["a", "b", "c"].iter().for_each(|claim| fruitless.note_unused(&set, claim, at(second)));
    };
    note(&mut fruitless, 0);
    fruitless.note_daemons(at(5));
    assert_eq!(fruitless.allowed(&set, at(5)), Allowed::All);
    note(&mut fruitless, 10);
    for second in (15..600).step_by(5) {
        fruitless.note_daemons(at(second));
    }
    assert_eq!(fruitless.allowed(&set, at(600)), Allowed::NothingUntil(at(610)));
    fruitless.reset_if_due(at(604));
    assert_eq!(fruitless.allowed(&set, at(604)), Allowed::NothingUntil(at(610)));
    fruitless.reset_if_due(at(605));
    assert_eq!(fruitless.allowed(&set, at(605)), Allowed::All, "the change is not forgotten");
}

#[test]
fn memory_is_bounded() {
    let mut fruitless = Fruitless::default();
    for number in 0..MOST_SETS + 5 {
        fruitless.note_unused(&Arc::from(format!("set {number}")), "a", at(i64::try_from(number).unwrap()));
    }
    assert_eq!(fruitless.sets.len(), MOST_SETS);
    assert_eq!(fruitless.allowed("set 0", at(0)), Allowed::All, "the oldest are forgotten");
}

fn launched(count: usize) -> (Fruitless, Arc<str>) {
    let (mut fruitless, set) = (Fruitless::default(), Arc::from("shop/ReplicaSet/web"));
    for claim in ["a", "b", "c", "d", "e"].into_iter().take(count) {
        fruitless.note_launched(claim, BTreeSet::from([Arc::clone(&set)]), at(0));
        fruitless.observe(claim, Sight::Launched, at(10));
        fruitless.note_bound(&set, at(10));
    }
    (fruitless, set)
}

#[test]
fn node_that_refuses_its_pods_counts_although_they_were_bound() {
    let (mut fruitless, set) = launched(3);
    ["a", "b", "c"].iter().for_each(|claim| fruitless.note_refusing(&set, claim, at(80)));
    fruitless.note_bound(&set, at(10));
    assert_eq!(fruitless.allowed(&set, at(80)), Allowed::NothingUntil(at(680)));
    assert_eq!(fruitless.suspects().len(), 3);
    fruitless.note_taking(&set, "b");
    assert_eq!(fruitless.allowed(&set, at(80)), Allowed::One, "one of them takes pods after all");
    fruitless.age(at(640));
    assert_eq!(fruitless.suspects().len(), 2, "what refuses is looked at for as long as it is remembered");
    fruitless.age(at(80 + 7200));
    assert_eq!(fruitless, Fruitless::default());
}

#[test]
fn few_nodes_that_refuse_among_many_that_take_the_set_are_no_reason() {
    let (mut fruitless, set) = launched(5);
    ["a", "b", "c"].iter().for_each(|claim| fruitless.note_refusing(&set, claim, at(80)));
    fruitless.note_takers(&set, 3);
    assert_eq!(fruitless.allowed(&set, at(80)), Allowed::All);
    fruitless.note_takers(&set, 2);
    assert_eq!(fruitless.allowed(&set, at(80)), Allowed::NothingUntil(at(680)));
}

#[test]
fn node_is_lost_if_somebody_deletes_it_as_soon_as_it_has_come() {
    let lost = |sights: &[(Sight, i64)]| {
        let mut fruitless = Fruitless::default();
        fruitless.note_launched("a", BTreeSet::from([Arc::from("set")]), at(0));
        sights.iter().for_each(|(sight, seconds)| fruitless.observe("a", *sight, at(*seconds)));
        fruitless.suspects().into_values().any(|lost| lost.is_some())
    };
    assert!(lost(&[(Sight::Launched, 30), (Sight::Gone, 60)]));
    assert!(!lost(&[(Sight::Launched, 30), (Sight::Gone, 200)]), "its life was no short one");
    assert!(!lost(&[(Sight::Coming, 30), (Sight::Gone, 60)]), "a cloud without capacity says nothing of the plan");
    assert!(!lost(&[(Sight::Launched, 30), (Sight::TakenAway, 40), (Sight::Gone, 60)]));
}

/// Three nodes of a set, deleted by another actor.
fn deleted() -> (Fruitless, Arc<str>) {
    let (mut fruitless, set) = launched(3);
    ["a", "b", "c"].iter().for_each(|claim| fruitless.observe(claim, Sight::Gone, at(60)));
    (fruitless, set)
}

/// Launches allowed at `now` if a pod of the set waits.
fn waiting(fruitless: &mut Fruitless, set: &Arc<str>, now: i64) -> Allowed {
    for ((_, claim), lost) in fruitless.suspects() {
        lost.into_iter().for_each(|lost| fruitless.note_lost(set, &claim, lost, at(now)));
    }
    fruitless.allowed(set, at(now))
}

#[test]
fn deletions_hold_a_set_whose_pods_are_replaced() {
    let (mut fruitless, set) = deleted();
    let live = BTreeSet::from([Arc::clone(&set)]);
    fruitless.note_live(&live, at(60));
    fruitless.note_live(&BTreeSet::new(), at(61));
    fruitless.note_live(&live, at(62));
    assert_eq!(waiting(&mut fruitless, &set, 62), Allowed::NothingUntil(at(662)), "the pod was away for a second");
}

#[test]
fn deletions_of_nodes_of_a_set_without_pods_do_not_count() {
    let (mut fruitless, set) = deleted();
    fruitless.note_live(&BTreeSet::new(), at(60));
    assert_eq!(waiting(&mut fruitless, &set, 61), Allowed::All);
}

#[test]
fn deletions_are_forgotten_when_the_set_is_scaled_down_for_a_while() {
    let (mut fruitless, set) = deleted();
    let live = BTreeSet::from([Arc::clone(&set)]);
    fruitless.note_live(&live, at(60));
    assert_eq!(waiting(&mut fruitless, &set, 61), Allowed::NothingUntil(at(661)));
    let decided = fruitless.clone();
    fruitless.note_live(&BTreeSet::new(), at(62));
    fruitless.note_live(&live, at(70));
    assert_eq!(waiting(&mut fruitless, &set, 70), Allowed::All);
    let (mut decided, observed) = (decided, fruitless);
    decided.add_observed(&observed);
    assert_eq!(waiting(&mut decided, &set, 70), Allowed::All, "a round that began before does not bring them back");
}

#[test]
fn an_end_long_ago_excuses_no_later_deletion() {
    let (mut fruitless, set) = deleted();
    fruitless.note_live(&BTreeSet::new(), at(60));
    fruitless.age(at(1000));
    for claim in ["d", "e", "f"] {
        fruitless.note_launched(claim, BTreeSet::from([Arc::clone(&set)]), at(1000));
        fruitless.observe(claim, Sight::Launched, at(1010));
        fruitless.observe(claim, Sight::Gone, at(1060));
    }
    fruitless.note_live(&BTreeSet::from([Arc::clone(&set)]), at(1060));
    assert_eq!(waiting(&mut fruitless, &set, 1061), Allowed::NothingUntil(at(1661)));
}
