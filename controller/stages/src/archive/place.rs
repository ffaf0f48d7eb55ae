//! Choice of a record's slot, such that neither a NodeClass that fails repeatedly nor a node that reports ever-changing
//! verdicts evicts all other records.

use std::collections::BTreeMap;

use super::record::Record;

/// Slot for a record.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Place {
    /// The record is already stored there.
    There {
        /// The slot.
        slot: usize,
        /// True if it is stored with its bundle.
        has_bundle: bool,
    },
    /// The record is to be written there, into an empty slot or over an older record.
    At {
        /// The slot.
        slot: usize,
    },
}

/// Returns the slot for `record`: the one that already holds it, else the one with another record of the same
/// NodeClaim, else the first empty one, else the oldest record of the most frequent combination of pool and code. None
/// if `slots` is empty.
#[must_use]
pub fn place(slots: &[Option<Record>], record: &Record) -> Option<Place> {
    let held = || slots.iter().enumerate().filter_map(|(slot, held)| Some((slot, held.as_ref()?)));
    if let Some((slot, there)) = held().find(|(_, there)| there.is_same(record)) {
        return Some(Place::There { slot, has_bundle: there.bundle_bytes > 0 });
    }
    if let Some((slot, _)) = held().find(|(_, there)| there.uid == record.uid) {
        return Some(Place::At { slot });
    }
    if let Some(slot) = slots.iter().position(Option::is_none) {
        return Some(Place::At { slot });
    }
    let mut sizes: BTreeMap<_, usize> = BTreeMap::new();
    for (_, one) in held() {
        *sizes.entry(group(one)).or_default() += 1;
    }
    let crowd = |one: &Record| sizes.get(&group(one)).copied().unwrap_or_default();
    // The oldest record of the largest group; if all groups have the same size, the oldest of all.
    let slot = held().min_by_key(|(slot, one)| (std::cmp::Reverse(crowd(one)), one.at, *slot))?.0;
    Some(Place::At { slot })
}

/// Returns the key of records with a common cause.
fn group(record: &Record) -> (Option<&str>, &str) {
    (record.pool.as_deref(), &record.code)
}

#[cfg(test)]
mod tests {
    use jiff::Timestamp;

    use super::*;

    fn record(uid: &str, pool: &str, code: &str, second: i64) -> Record {
        Record {
            uid: uid.to_owned(),
            pool: Some(pool.to_owned()),
            code: code.to_owned(),
            at: Timestamp::from_second(second).ok(),
            ..Record::default()
        }
    }

    #[test]
    fn what_is_there_stays_there() {
        let first = record("1", "a", "KA07", 10);
        let with_bundle = Record { bundle_bytes: 5, ..first.clone() };
        let slots = [None, Some(first.clone())];
        assert_eq!(place(&slots, &first), Some(Place::There { slot: 1, has_bundle: false }));
        assert_eq!(place(&[Some(with_bundle)], &first), Some(Place::There { slot: 0, has_bundle: true }));
        assert_eq!(
            place(&slots, &record("2", "a", "KA07", 10)),
            Some(Place::At { slot: 0 }),
            "another NodeClaim is news"
        );
        assert_eq!(place(&[], &first), None);
    }

    #[test]
    fn a_node_has_one_place_whatever_it_says() {
        let others = ["2", "3"].map(|uid| Some(record(uid, "a", "KA07", 5)));
        let mut slots = [vec![Some(record("1", "a", "KA07", 10))], others.to_vec(), vec![None]].concat();
        for index in 0..100 {
            let new = record("1", "a", &format!("X{index}"), 20 + index);
            assert_eq!(place(&slots, &new), Some(Place::At { slot: 0 }));
            slots[0] = Some(new);
        }
        assert_eq!(slots[1..3], others);
        assert_eq!(slots[3], None);
    }

    #[test]
    fn the_oldest_of_those_that_are_most_goes() {
        let slots = [
            record("1", "a", "KA07", 1),
            record("2", "b", "GP01", 30),
            record("3", "b", "GP01", 20),
            record("4", "b", "GP01", 40),
        ]
        .map(Some);
        let new = record("5", "c", "UD12", 50);
        assert_eq!(place(&slots, &new), Some(Place::At { slot: 2 }), "not the oldest of all, which has no like");
        let each_once = [record("1", "a", "KA07", 9), record("2", "b", "GP01", 3)].map(Some);
        assert_eq!(place(&each_once, &new), Some(Place::At { slot: 1 }));
    }

    #[test]
    fn a_class_that_fails_for_ever_leaves_the_others_their_places() {
        let mut slots = vec![None; 4];
        let mut keep = |record: Record| match place(&slots, &record) {
            Some(Place::At { slot }) => slots[slot] = Some(record),
            other => panic!("{other:?}"),
        };
        keep(record("x", "gpu", "GP01", 0));
        for index in 1..100 {
            keep(record(&index.to_string(), "general", "KA07", index));
        }
        let mut kept: Vec<&str> = slots.iter().flatten().map(|one| one.uid.as_str()).collect();
        kept.sort_unstable();
        assert_eq!(kept, ["97", "98", "99", "x"]);
    }
}
