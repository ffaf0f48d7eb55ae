//! The end of a capacity block: claims are told in time, and their nodes are empty before EC2 takes them.

use muster_api::labels;

use super::check;
use super::fixture::{Fixture, at, in_words};

const OF_CLAIM: &str = "event CapacityBlockEnding about x: the capacity block ends in less than an hour, and EC2 \
                        terminates its instances before";
const OF_NODE: &str = "event CapacityBlockEnding about node-1: the capacity block ends in less than an hour, and EC2 \
                       terminates its instances before";
const STATUS: &str = "status: Initialized=True, Interrupted=True CapacityBlockEnding: the capacity block ends in less \
                      than an hour, and EC2 terminates its instances before, Launched=True, Registered=True";

/// Nothing is due before the claim expires.
const EXPIRES: &str = "look again at 2595600";

/// Runs in a block that ends at minute 100.
fn in_block(it: &mut Fixture) {
    let reserved = [(labels::CAPACITY_TYPE, "reserved"), (labels::CAPACITY_RESERVATION_ID, "cr-1")];
    let reserved = reserved.map(|(key, value)| (key.to_owned(), value.to_owned()));
    it.claim.metadata.labels.get_or_insert_default().extend(reserved);
    it.class.block_ends = [("cr-1".to_owned(), at(100 * 60))].into();
}

#[test]
fn a_claim_is_told_fifty_minutes_before_its_block_ends() {
    check(&[
        (
            "There is time, and the end may be moved.",
            |it| {
                it.initialized();
                in_block(it);
            },
            1000,
            &["look again at 1060"],
        ),
        (
            "The notice is due within a minute.",
            |it| {
                it.initialized();
                in_block(it);
            },
            2990,
            &["look again at 3000"],
        ),
        (
            "It is recorded as a notice of the cloud.",
            |it| {
                it.initialized();
                in_block(it);
            },
            3000,
            &[OF_CLAIM, OF_NODE, STATUS],
        ),
        (
            "A reservation without an end, or that is no block, ends nothing.",
            |it| {
                it.initialized();
                in_block(it);
                it.class.block_ends.clear();
            },
            3000,
            &[EXPIRES],
        ),
        (
            "One that runs on demand by now stays.",
            |it| {
                it.initialized();
                in_block(it);
                let all = it.claim.metadata.labels.get_or_insert_default();
                all.insert(labels::CAPACITY_TYPE.to_owned(), "on-demand".to_owned());
            },
            3000,
            &[EXPIRES],
        ),
    ]);
}

#[test]
fn a_node_that_leaves_its_block_has_a_deadline() {
    let deadline = |second: i64| {
        let mut it = Fixture::new();
        it.leaving();
        in_block(&mut it);
        let step = it.decide(at(second));
        in_words(&step).into_iter().find(|word| word.starts_with("claim x"))
    };
    assert_eq!(deadline(1001), None, "there is time");
    let expected = "claim x: karpenter.sh/nodeclaim-termination-timestamp=1970-01-01T01:00:00Z";
    assert_eq!(deadline(3000).as_deref(), Some(expected), "forty minutes before the end");

    let mut it = Fixture::new();
    it.leaving();
    in_block(&mut it);
    it.annotate("karpenter.sh/nodeclaim-termination-timestamp", "1970-01-01T00:55:00Z");
    let words = in_words(&it.decide(at(3000)));
    assert!(!words.iter().any(|word| word.starts_with("claim x")), "an earlier deadline stays: {words:?}");
    it.annotate("karpenter.sh/nodeclaim-termination-timestamp", "1970-01-01T01:55:00Z");
    let words = in_words(&it.decide(at(3000)));
    assert!(words.contains(&expected.to_owned()), "a later one does not: {words:?}");
}
