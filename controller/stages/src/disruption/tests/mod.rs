//! The order of a disruption, one rule each: what is seen, what is to be written, in words.

mod fixture;
pub(super) mod planner;
mod savings;
mod taken_back;

use std::time::Duration;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use muster_api::{annotations, labels};
use muster_scheduling::disrupt::Cause;

use self::fixture::{Fixture, claim};
use super::{FirstSteps, Timing, cleanup, progress, running, start};
use crate::lifecycle::DisruptionBlocker;
use crate::lifecycle::tests::fixture::{at, in_words, resident};

/// A rule: in prose, what is unusual, when it is looked at, and the step in words.
type Rule = (&'static str, fn(&mut Fixture), i64, &'static [&'static str]);

/// `x` and `y` are to go, since second 1000, for `x-new`, which is coming up.
fn check(rules: &[Rule]) {
    for (rule, unusual, second, expected) in rules {
        let mut fixture = Fixture::waiting();
        unusual(&mut fixture);
        let step = fixture.look(|observed| progress(observed, at(*second)));
        assert_eq!(in_words(&step), *expected, "{rule}");
        assert_eq!(
            fixture.look(|observed| progress(observed, at(*second))),
            step,
            "{rule}: the same look gives the same step"
        );
    }
}

fn first(FirstSteps { begin, keep_away }: &FirstSteps) -> String {
    format!("{}\n\n{}", in_words(begin).join("\n"), in_words(keep_away).join("\n"))
}

#[test]
fn a_command_marks_then_launches_then_taints() {
    let mut fixture = Fixture::new();
    fixture.residents = vec![resident("web")];
    let steps = fixture.order(Cause::Underutilized, 1, |order| start(order, at(1000)));
    assert_eq!(steps.len(), 1);
    insta::assert_snapshot!(first(&steps[0]), @r#"
    claim x: muster.dev/disruption={"command":"wnxr3qmok3","cause":"Underutilized","method":"multi-node","since":"1970-01-01T00:16:40Z","candidates":2,"pods":1,"price":0.2,"cost":0.1,"replacements":["general-ur5k9kpazj"]}
    claim y: muster.dev/disruption={"command":"wnxr3qmok3","cause":"Underutilized","method":"multi-node","since":"1970-01-01T00:16:40Z","candidates":2,"pods":0,"price":0.2,"cost":0.1,"replacements":["general-ur5k9kpazj"]}
    create claim general-ur5k9kpazj: karpenter.sh/nodepool=general muster.dev/replaces=wnxr3qmok3
    event DisruptionLaunching about x: Underutilized: 1 node is launched before it goes, together with 1 other
    event DisruptionLaunching about y: Underutilized: 1 node is launched before it goes, together with 1 other

    node node-x: taints [karpenter.sh/disrupted]
    status: DisruptionReason=True Underutilized: Underutilized, Initialized=True, Launched=True, Registered=True
    node node-y: taints [karpenter.sh/disrupted]
    status: DisruptionReason=True Underutilized: Underutilized, Initialized=True, Launched=True, Registered=True
    "#);
}

#[test]
fn what_launches_nothing_is_as_many_commands_as_nodes() {
    let fixture = Fixture::new();
    let steps = fixture.order(Cause::Empty, 0, |order| start(order, at(1000)));
    assert_eq!(steps.len(), 2);
    insta::assert_snapshot!(first(&steps[1]), @r#"
    claim y: muster.dev/disruption={"command":"0geoovoszy","cause":"Empty","method":"multi-node","since":"1970-01-01T00:16:40Z","candidates":1,"pods":0,"price":0.2,"cost":0.0}

    node node-y: taints [karpenter.sh/disrupted]
    status: DisruptionReason=True Empty: Empty, Initialized=True, Launched=True, Registered=True
    "#);
}

#[test]
fn nothing_is_begun_twice() {
    let mut fixture = Fixture::new();
    fixture.claims[1]
        .claim
        .metadata
        .annotations
        .get_or_insert_default()
        .insert(annotations::DISRUPTION.to_owned(), "?".to_owned());
    assert_eq!(fixture.order(Cause::Drifted, 1, |order| start(order, at(1000))), [], "the launch is for both");
    let alone = fixture.order(Cause::Empty, 0, |order| start(order, at(1000)));
    assert_eq!(alone.len(), 1, "only `x` is free");
    fixture.claims[0].claim.metadata.deletion_timestamp = Some(Time(at(990)));
    assert_eq!(fixture.order(Cause::Empty, 0, |order| start(order, at(1000))), []);
}

#[test]
fn nothing_is_begun_that_would_be_taken_back_at_once() {
    let mut fixture = Fixture::new();
    fixture.annotate(0, annotations::DO_NOT_DISRUPT, "true");
    assert_eq!(fixture.order(Cause::Drifted, 1, |order| start(order, at(1000))), []);
    assert_eq!(fixture.order(Cause::Empty, 0, |order| start(order, at(1000))).len(), 1);
    assert_eq!(fixture.order(Cause::Expired, 1, |order| start(order, at(1000))).len(), 1, "its age does not ask");
    fixture.pause.disruption = true;
    assert_eq!(fixture.order(Cause::Expired, 1, |order| start(order, at(1000))), []);
}

#[test]
fn names_follow_from_the_command() {
    let mut fixture = Fixture::new();
    let name = |fixture: &Fixture, second: i64| {
        let steps = fixture.order(Cause::Drifted, 2, |order| start(order, at(second)));
        let names: Vec<String> = steps[0]
            .begin
            .writes
            .iter()
            .filter_map(|write| match write {
                crate::step::Write::CreateClaim(claim) => claim.metadata.name.clone(),
                _ => None,
            })
            .collect();
        names
    };
    let names = name(&fixture, 1000);
    assert_eq!(names, name(&fixture, 1000), "a repeated decision creates nothing twice");
    assert_ne!(names[0], names[1]);
    assert_ne!(names, name(&fixture, 1001), "a command that was taken back leaves claims behind that are still going");
    fixture.launch_pool = "p".repeat(70);
    assert!(name(&fixture, 1000)[0].len() == 63);
}

#[test]
fn the_way_to_the_end() {
    check(&[
        (
            "While a replacement comes up, no pod comes to the node.",
            |it| it.untaint(0),
            1001,
            &["node node-x: taints [karpenter.sh/disrupted]"],
        ),
        ("And it is waited for.", |_| {}, 1040, &["look again at 1600"]),
        (
            "As long as its pool gives it.",
            |it| it.annotate_pool(annotations::INITIALIZATION_TIMEOUT, "30m"),
            1040,
            &["look again at 2800"],
        ),
        (
            "When it is initialized, the claims are deleted.",
            |it| it.initialize(),
            1040,
            &[
                "event DisruptionTerminating about x: Underutilized",
                "delete claim x: underutilized",
                "event DisruptionTerminating about y: Underutilized",
                "delete claim y: underutilized",
            ],
        ),
        (
            "What a crash has left is done.",
            |it| {
                it.initialize();
                it.claims[0].claim.metadata.deletion_timestamp = Some(Time(at(1040)));
            },
            1041,
            &["event DisruptionTerminating about y: Underutilized", "delete claim y: underutilized"],
        ),
        (
            "Also if the first of them has gone.",
            |it| {
                it.initialize();
                it.claims.remove(0);
            },
            1041,
            &["event DisruptionTerminating about y: Underutilized", "delete claim y: underutilized"],
        ),
        (
            "And when all are leaving, nothing is left to do.",
            |it| {
                it.initialize();
                it.claims.iter_mut().for_each(|one| one.claim.metadata.deletion_timestamp = Some(Time(at(1040))));
            },
            1041,
            &[],
        ),
        (
            "A node without its taint gets it before anything else.",
            |it| {
                it.initialize();
                it.untaint(0);
            },
            1040,
            &["node node-x: taints [karpenter.sh/disrupted]"],
        ),
        (
            "A node that could not be tainted in time stays.",
            |it| {
                it.initialize();
                it.untaint(0);
            },
            1600,
            &[
                "event DisruptionTakenBack about x: the node is kept: the node could not be tainted in time",
                "event DisruptionTakenBack about y: the node is kept: the node could not be tainted in time",
                "delete claim x-new: disruption_taken_back",
                "status: Initialized=True, Launched=True, Registered=True",
                "claim x: -muster.dev/disruption",
                "node node-y: taints []",
                "status: Initialized=True, Launched=True, Registered=True",
                "claim y: -muster.dev/disruption",
            ],
        ),
        (
            "As long as somebody may still be writing, what is not there is waited for.",
            |it| it.replacement = None,
            1029,
            &["look again at 1030"],
        ),
    ]);
}

#[test]
fn taken_back() {
    const CLEARED: [&str; 6] = [
        "node node-x: taints []",
        "status: Initialized=True, Launched=True, Registered=True",
        "claim x: -muster.dev/disruption",
        "node node-y: taints []",
        "status: Initialized=True, Launched=True, Registered=True",
        "claim y: -muster.dev/disruption",
    ];
    let back = |unusual: fn(&mut Fixture), second: i64, why: &str, deletes: bool| {
        let mut fixture = Fixture::waiting();
        unusual(&mut fixture);
        let step = fixture.look(|observed| progress(observed, at(second)));
        let mut expected = vec![
            format!("event DisruptionTakenBack about x: the node is kept: {why}"),
            format!("event DisruptionTakenBack about y: the node is kept: {why}"),
        ];
        expected.extend(deletes.then(|| "delete claim x-new: disruption_taken_back".to_owned()));
        expected.extend(CLEARED.map(str::to_owned));
        assert_eq!(in_words(&step), expected);
    };
    back(|it| it.replacement = None, 1030, "replacement `x-new` does not exist", false);
    back(
        |it| {
            let claim = &mut it.replacement.as_mut().unwrap().claim;
            claim.metadata.deletion_timestamp = Some(Time(at(1003)));
            let conditions = &mut claim.status.as_mut().unwrap().conditions;
            let launched = conditions.iter_mut().find(|one| one.type_ == "Launched").unwrap();
            launched.message = "no capacity".to_owned();
        },
        1004,
        "replacement `x-new` failed (no capacity)",
        false,
    );
    back(|_| {}, 1600, "replacement `x-new` is not initialized in time", true);
    back(
        |it| it.replacement.as_mut().unwrap().residents = vec![resident("somebody")],
        1600,
        "replacement `x-new` is not initialized in time",
        false,
    );
    back(|it| it.pause.disruption = true, 1040, "an operator has set muster.dev/pause", true);
    back(|it| it.annotate_pool(annotations::PAUSE, "disruption"), 1040, "an operator has set muster.dev/pause", true);
}

#[test]
fn objections() {
    const ALONE: [&str; 3] = [
        "node node-y: taints []",
        "status: Initialized=True, Launched=True, Registered=True",
        "claim y: -muster.dev/disruption",
    ];
    let alone = |unusual: fn(&mut Fixture), why: &str| {
        let mut fixture = Fixture::waiting();
        unusual(&mut fixture);
        let step = fixture.look(|observed| progress(observed, at(1040)));
        let event = format!("event DisruptionTakenBack about y: the node is kept: {why}");
        let mut expected = vec![fixture.recounted(0, 1), event];
        expected.extend(ALONE.map(str::to_owned));
        assert_eq!(in_words(&step), expected);
        // The rest goes on, and ends.
        let mut fixture = Fixture::waiting();
        unusual(&mut fixture);
        fixture.written(&step, step.writes.len());
        fixture.initialize();
        let step = fixture.look(|observed| progress(observed, at(1041)));
        assert_eq!(in_words(&step)[1], "delete claim x: underutilized");
    };
    alone(
        |it| it.annotate(1, annotations::DO_NOT_DISRUPT, "true"),
        "it has the annotation karpenter.sh/do-not-disrupt",
    );
    alone(|it| it.claims[1].promised_to = Some("shop/web"), "pod `shop/web` is nominated to its node");
    alone(
        |it| {
            let mut pod = resident("web");
            pod.node = "node-y".to_owned();
            pod.hold = DisruptionBlocker::Until(at(1041));
            it.residents.push(pod);
        },
        "pod `shop/web` has the annotation karpenter.sh/do-not-disrupt",
    );
    alone(
        |it| {
            let mut pod = resident("web");
            pod.node = "node-y".to_owned();
            it.residents.push(pod);
        },
        "1 pod would have to move now, and 0 when the command was decided",
    );
}

#[test]
fn what_remains_must_pay_for_what_was_launched() {
    let mut fixture = Fixture::waiting();
    fixture.remark(0, |mark| mark.price = 0.05);
    fixture.annotate(1, annotations::DO_NOT_DISRUPT, "true");
    let step = fixture.look(|observed| progress(observed, at(1040)));
    let words = in_words(&step);
    assert!(words.contains(&"delete claim x-new: disruption_taken_back".to_owned()), "{words:?}");
    assert!(words.contains(&"claim x: -muster.dev/disruption".to_owned()), "{words:?}");
}

#[test]
fn a_node_that_is_leaving_keeps_its_replacement() {
    let mut fixture = Fixture::waiting();
    fixture.claims[0].claim.metadata.deletion_timestamp = Some(Time(at(1010)));
    let step = fixture.look(|observed| progress(observed, at(1600)));
    let words = in_words(&step);
    assert_eq!(
        words.first().unwrap(),
        "event DisruptionTakenBack about y: the node is kept: replacement `x-new` is not initialized in time"
    );
    assert!(!words.iter().any(|word| word.contains("x-new:")), "{words:?}");
}

#[test]
fn what_cannot_wait_hears_no_objection() {
    let objects = |it: &mut Fixture| {
        it.annotate(0, annotations::DO_NOT_DISRUPT, "true");
        it.claims[1].promised_to = Some("shop/web");
    };
    for (cause, until, given_up) in
        [(Cause::Expired, 1600, false), (Cause::Broken, 1300, true), (Cause::Interrupted, 1060, true)]
    {
        let mut fixture = Fixture::waiting();
        (0..2).for_each(|number| fixture.recause(number, cause));
        objects(&mut fixture);
        let step = fixture.look(|observed| progress(observed, at(1040)));
        assert_eq!(in_words(&step), [format!("look again at {until}")], "{cause:?}");
        let step = fixture.look(|observed| progress(observed, at(until)));
        assert!(in_words(&step).iter().any(|word| word.starts_with("delete claim y")), "{cause:?}: {step:?}");
        fixture.replacement.as_mut().unwrap().claim.metadata.deletion_timestamp = Some(Time(at(1003)));
        let step = fixture.look(|observed| progress(observed, at(1004)));
        let goes = in_words(&step).iter().any(|word| word.starts_with("delete claim y"));
        assert_eq!(goes, given_up, "{cause:?}: {step:?}");
    }
}

#[test]
fn an_unhealthy_node_waits_for_its_replacement_and_hears_its_operator_only() {
    let unhealthy = || {
        let mut fixture = Fixture::waiting();
        (0..2).for_each(|number| fixture.recause(number, Cause::Unhealthy));
        fixture
    };
    let mut fixture = unhealthy();
    fixture.annotate(0, annotations::DO_NOT_DISRUPT, "true");
    fixture.claims[1].promised_to = Some("shop/web");
    assert_eq!(in_words(&fixture.look(|observed| progress(observed, at(1040)))), ["look again at 1600"]);
    let words = in_words(&fixture.look(|observed| progress(observed, at(1600))));
    assert!(words.iter().all(|word| !word.starts_with("delete claim y:")), "it is given up: {words:?}");
    assert!(words.contains(&"claim y: -muster.dev/disruption".to_owned()), "{words:?}");

    let mut fixture = unhealthy();
    fixture.annotate(0, annotations::DO_NOT_REPAIR, "true");
    let words = in_words(&fixture.look(|observed| progress(observed, at(1040))));
    assert!(words.contains(&"claim x: -muster.dev/disruption".to_owned()), "{words:?}");

    let mut fixture = unhealthy();
    fixture.redrain(1, 600);
    fixture.initialize();
    let words = in_words(&fixture.look(|observed| progress(observed, at(1040))));
    let key = "karpenter.sh/nodeclaim-termination-timestamp";
    assert!(words.contains(&format!("claim x: {key}=1970-01-01T00:22:20Z")), "{words:?}");
    assert!(words.contains(&format!("claim y: {key}=1970-01-01T00:27:20Z")), "{words:?}");
}

#[test]
fn the_drain_of_a_broken_node_is_bounded() {
    let mut fixture = Fixture::waiting();
    (0..2).for_each(|number| fixture.recause(number, Cause::Broken));
    fixture.claims[1].claim.spec.termination_grace_period = Some(muster_api::Span::from_secs(60));
    fixture.initialize();
    let step = fixture.look(|observed| progress(observed, at(1040)));
    assert_eq!(
        in_words(&step),
        [
            "claim x: karpenter.sh/nodeclaim-termination-timestamp=1970-01-01T00:22:20Z",
            "event DisruptionTerminating about x: Unhealthy",
            "delete claim x: unhealthy",
            "claim y: karpenter.sh/nodeclaim-termination-timestamp=1970-01-01T00:18:20Z",
            "event DisruptionTerminating about y: Unhealthy",
            "delete claim y: unhealthy",
        ]
    );
}

#[test]
fn a_node_that_has_its_taint_goes_even_if_its_claim_could_not_be_told() {
    let mut fixture = Fixture::waiting();
    fixture.initialize();
    let conditions = &mut fixture.claims[0].claim.status.as_mut().unwrap().conditions;
    conditions.retain(|one| one.type_ != "DisruptionReason");
    let step = fixture.look(|observed| progress(observed, at(1600)));
    let deleted = in_words(&step).into_iter().filter(|word| word.starts_with("delete")).collect::<Vec<_>>();
    assert_eq!(deleted, ["delete claim x: underutilized", "delete claim y: underutilized"]);
}

#[test]
fn a_node_that_the_cloud_takes_back_does_not_wait_for_the_others() {
    let mut fixture = Fixture::waiting();
    fixture.judge(0, "Interrupted", 1100);
    assert_eq!(in_words(&fixture.look(|observed| progress(observed, at(1110)))), ["look again at 1160"]);
    let step = fixture.look(|observed| progress(observed, at(1160)));
    let message = "it is removed because its instance is interrupted; its replacement is not initialized yet";
    let about = |what: &str, message: &str| format!("event TerminatingOnInterruption about {what}: {message}");
    let delete = || "delete claim x: spot_interrupted".to_owned();
    assert_eq!(in_words(&step), [about("x", message), about("node-x", message), delete()]);
    // Nor for a taint that may be refused.
    fixture.untaint(0);
    let step = fixture.look(|observed| progress(observed, at(1160)));
    assert_eq!(in_words(&step), [about("x", message), about("node-x", message), delete()]);
    fixture.initialize();
    let step = fixture.look(|observed| progress(observed, at(1160)));
    let message = "it is removed because its instance is interrupted";
    assert_eq!(in_words(&step), [about("x", message), about("node-x", message), delete()]);
}

#[test]
fn maintenance_leaves_time_for_the_replacement_and_a_spot_interruption_a_minute() {
    for (reason, until, kind) in [
        ("ScheduledChange", 1600, "scheduled_change"),
        ("EventStatus", 1600, "event_status"),
        ("CapacityBlockEnding", 1300, "capacity_block_ending"),
        ("CapacityReservationInstanceInterrupted", 1060, "capacity_reservation_interrupted"),
        ("SpotInterrupted", 1060, "spot_interrupted"),
    ] {
        let mut fixture = Fixture::waiting();
        (0..2).for_each(|number| fixture.recause(number, Cause::Interrupted));
        (0..2).for_each(|number| fixture.interrupt(number, reason, 1000));
        let step = fixture.look(|observed| progress(observed, at(1040)));
        assert_eq!(in_words(&step), [format!("look again at {until}")], "{reason}");
        let words = in_words(&fixture.look(|observed| progress(observed, at(until))));
        assert!(words.contains(&format!("delete claim x: {kind}")), "{reason}: {words:?}");
        assert!(words[0].ends_with("interrupted; replacement `x-new` is not initialized in time"), "{words:?}");
    }
}

#[test]
fn marks_that_nobody_can_read_are_taken_off() {
    let mut fixture = Fixture::waiting();
    fixture.annotate_claim(0, annotations::DISRUPTION, "later");
    let claims: Vec<_> = fixture.claims.iter().map(|one| one.claim.clone()).collect();
    let running = running(&claims);
    assert_eq!(running.len(), 2, "{running:?}");
    let step = fixture.look(|observed| progress(observed, at(1040)));
    assert_eq!(in_words(&step).last().unwrap(), "claim x: -muster.dev/disruption");
}

#[test]
fn a_taint_that_nothing_explains_is_taken_off() {
    let mut fixture = Fixture::waiting();
    fixture.claims[0].claim.metadata.annotations = None;
    let step = |fixture: &Fixture, second: i64| cleanup(&fixture.candidate(0), Timing::default(), at(second));
    assert_eq!(in_words(&step(&fixture, 1010)), ["look again at 1030"], "its mark may be on its way");
    let words = in_words(&step(&fixture, 1030));
    assert_eq!(words[0], "node node-x: taints []");
    // Karpenter's taint says no moment.
    fixture.claims[0].node.spec.as_mut().unwrap().taints = Some(vec![muster_api::taints::disrupted()]);
    assert_eq!(in_words(&step(&fixture, 1001)), words);
    // Whoever is leaving keeps it.
    fixture.claims[0].claim.metadata.deletion_timestamp = Some(Time(at(1000)));
    assert_eq!(in_words(&step(&fixture, 1030)), [""; 0]);
    assert_eq!(in_words(&cleanup(&fixture.candidate(1), Timing::default(), at(1030))), [""; 0], "it has its mark");
}

#[test]
fn commands_are_told_apart() {
    let fixture = Fixture::waiting();
    let mut other = claim("z");
    other.metadata.annotations.get_or_insert_default().insert(annotations::REPLACES.to_owned(), "over".to_owned());
    other.metadata.labels.get_or_insert_default().insert(labels::NODEPOOL.to_owned(), "default".to_owned());
    let claims: Vec<_> = fixture
        .claims
        .iter()
        .map(|one| &one.claim)
        .chain(fixture.replacement.iter().map(|one| &one.claim))
        .chain([&other])
        .cloned()
        .collect();
    let running = running(&claims);
    let (candidates, replacements) = &running["command"];
    let names = |claims: &[&muster_api::NodeClaim]| -> Vec<String> {
        claims.iter().filter_map(|claim| claim.metadata.name.clone()).collect()
    };
    assert_eq!(
        (names(candidates), names(replacements)),
        (vec!["x".to_owned(), "y".to_owned()], vec!["x-new".to_owned()])
    );
    assert_eq!(running.len(), 1, "what was launched for a command that is over is a claim like any other");
    assert_eq!(Timing::default().settled, Duration::from_secs(30));
}
