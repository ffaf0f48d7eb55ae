//! The stages, one rule each: what is seen, what is to be written, in words.

mod capacity_block;
mod demote;
pub(crate) mod fixture;
mod garbage;
mod interruption;
mod launch;
mod liveness;
mod node;
mod reboot;
mod terminate;
mod verdict;

use self::fixture::{Fixture, at};

/// A rule: in prose, what is unusual, when it is looked at, and the step in words.
type Rule = (&'static str, fn(&mut Fixture), i64, &'static [&'static str]);

fn check(rules: &[Rule]) {
    for (rule, unusual, second, expected) in rules {
        let mut fixture = Fixture::new();
        unusual(&mut fixture);
        let step = fixture.decide(at(*second));
        assert_eq!(fixture::in_words(&step), *expected, "{rule}");
    }
}
