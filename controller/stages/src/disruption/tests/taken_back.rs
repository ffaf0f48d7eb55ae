//! Releases of single nodes and rollbacks: what they leave, also if they are interrupted.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use muster_api::annotations;
use muster_scheduling::disrupt::Cause;

use super::fixture::Fixture;
use crate::disruption::progress;
use crate::lifecycle::tests::fixture::{at, in_words};
use crate::step::Step;

const GIVES_UP: &str = "delete claim x-new: disruption_taken_back";

fn look(fixture: &Fixture, second: i64) -> Step {
    fixture.look(|observed| progress(observed, at(second)))
}

/// Two of the three pay for the replacement, one does not; `x` has an objection.
fn objecting() -> Fixture {
    let mut fixture = Fixture::three();
    for (number, price) in [0.4, 0.3, 0.3].into_iter().enumerate() {
        fixture.remark(number, |mark| (mark.price, mark.cost) = (price, 0.55));
    }
    fixture.annotate(0, annotations::DO_NOT_DISRUPT, "true");
    fixture
}

#[test]
fn a_node_that_is_released_does_not_pay() {
    let mut fixture = objecting();
    let step = look(&fixture, 1040);
    let why = "the node is kept: it has the annotation karpenter.sh/do-not-disrupt";
    let expected = [
        fixture.recounted(1, 2),
        fixture.recounted(2, 2),
        format!("event DisruptionTakenBack about x: {why}"),
        "node node-x: taints []".to_owned(),
        "status: Initialized=True, Launched=True, Registered=True".to_owned(),
        "claim x: -muster.dev/disruption".to_owned(),
    ];
    assert_eq!(in_words(&step), expected);
    fixture.written(&step, step.writes.len());
    fixture.annotate(0, annotations::DO_NOT_DISRUPT, "true");
    let words = in_words(&look(&fixture, 1041));
    assert_eq!(words[..2], ["y", "z"].map(|name| format!("event DisruptionTakenBack about {name}: {why}")));
    assert_eq!(words[2], GIVES_UP);
}

#[test]
fn a_node_that_is_released_needs_no_replacement() {
    let mut fixture = Fixture::waiting();
    fixture.annotate(1, annotations::DO_NOT_DISRUPT, "true");
    let step = look(&fixture, 1040);
    fixture.written(&step, step.writes.len());
    assert_eq!(
        in_words(&look(&fixture, 1600)),
        [
            "event DisruptionTakenBack about x: the node is kept: replacement `x-new` is not initialized in time",
            GIVES_UP,
            "node node-x: taints []",
            "status: Initialized=True, Launched=True, Registered=True",
            "claim x: -muster.dev/disruption",
        ]
    );
}

#[test]
fn a_release_may_be_interrupted_at_any_write() {
    let step = look(&objecting(), 1040);
    let all = step.writes.len();
    for count in 0..=all {
        let interrupted = || {
            let mut fixture = objecting();
            fixture.written(&step, count);
            fixture
        };
        for still_objects in [true, false] {
            let mut fixture = interrupted();
            if !still_objects {
                fixture.claims.iter_mut().for_each(|one| one.node.metadata.annotations = None);
            }
            for _ in 0..all {
                let next = look(&fixture, 1041);
                fixture.written(&next, next.writes.len());
            }
            assert_eq!(in_words(&look(&fixture, 1041)), ["look again at 1600"], "{count} {still_objects}");
            let size = if still_objects || count == all { 2 } else { 3 };
            assert_eq!(fixture.sizes(), vec![size; size], "{count} {still_objects}");
        }
        let mut fixture = interrupted();
        let of_y = fixture.claims.len() - 2;
        fixture.annotate(of_y, annotations::DO_NOT_DISRUPT, "true");
        let words = in_words(&look(&fixture, 1041));
        assert!(words.contains(&GIVES_UP.to_owned()), "nobody passes for deleted: {count}: {words:?}");
    }
}

#[test]
fn the_end_of_a_drain_does_not_outlive_its_command() {
    let changes = |cause: Cause, is_leaving: bool| -> Vec<String> {
        let mut fixture = Fixture::waiting();
        (0..2).for_each(|number| fixture.recause(number, cause));
        fixture.annotate_claim(0, annotations::NODECLAIM_TERMINATION_TIMESTAMP, "1970-01-01T00:17:20Z");
        fixture.claims[0].claim.metadata.deletion_timestamp = is_leaving.then(|| Time(at(1030)));
        fixture.pause.disruption = true;
        in_words(&look(&fixture, 1040)).into_iter().filter(|word| word.starts_with("claim ")).collect()
    };
    let (of_x, of_y) = ("claim x: -muster.dev/disruption", "claim y: -muster.dev/disruption");
    for cause in [Cause::Unhealthy, Cause::Broken] {
        let both = "claim x: -karpenter.sh/nodeclaim-termination-timestamp -muster.dev/disruption";
        assert_eq!(changes(cause, false), [both, of_y], "{cause:?}");
        assert_eq!(changes(cause, true), [of_y], "{cause:?}: it is the end of a deletion under way");
    }
    assert_eq!(changes(Cause::Drifted, false), [of_x, of_y], "its command writes none");
}
