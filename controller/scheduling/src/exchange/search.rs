//! Search for the exchange that repairs a node, from the smallest to larger ones.

use super::table::Table;

/// Maximum number of exchanges that one call checks: enough for hundreds of nodes, in a fraction of a second.
const MOST_LOOKS: usize = 4_000_000;

/// Pods, each with the seat that it leaves and the seat that it moves to.
type Trade = Vec<(usize, usize, usize)>;

/// Repairs all seats that can be repaired. Returns the moves, in order.
pub(super) fn mend(table: &mut Table<'_>) -> Trade {
    let mut looks = MOST_LOOKS;
    let mut done = Vec::new();
    for seat in 0..table.seats.len() {
        if !table.is_short(seat) {
            continue;
        }
        let found = Search { table, short: seat, looks: &mut looks }.trade();
        for (pod, from, to) in found.iter().flatten() {
            table.shift(*pod, *from, *to);
        }
        done.extend(found.unwrap_or_default());
    }
    done
}

struct Search<'t, 'a> {
    table: &'t Table<'a>,
    /// The seat to repair.
    short: usize,
    looks: &'t mut usize,
}

impl Search<'_, '_> {
    fn trade(&mut self) -> Option<Trade> {
        let here = self.table.different(self.short);
        let ones: Vec<Vec<usize>> = here.iter().map(|pod| vec![*pod]).collect();
        let twos = pairs(self.table, self.short);
        self.between(&ones, 0)
            .or_else(|| self.between(&ones, 1))
            .or_else(|| self.between(&twos, 0))
            .or_else(|| self.chain(&here))
            .or_else(|| self.between(&ones, 2))
            .or_else(|| self.pass_on(&here))
            .or_else(|| self.between(&twos, 1))
            .or_else(|| self.ring(&here))
            .or_else(|| self.between(&twos, 2))
    }

    /// Counts one check; returns false if no more are allowed.
    const fn look(&mut self) -> bool {
        *self.looks = self.looks.saturating_sub(1);
        *self.looks > 0
    }

    /// Exchanges some of `give` for `count` pods of another seat.
    fn between(&mut self, give: &[Vec<usize>], count: usize) -> Option<Trade> {
        let (table, short) = (self.table, self.short);
        // Pods that are given away must free enough even without any coming back.
        let give: Vec<&Vec<usize>> = give.iter().filter(|gone| table.holds(short, gone, &[])).collect();
        for other in self.others() {
            let take: Vec<Vec<usize>> = match count {
                0 => vec![Vec::new()],
                1 => table.different(other).into_iter().map(|pod| vec![pod]).collect(),
                _ => pairs(table, other),
            };
            let comes = |pods: &Vec<usize>| pods.iter().all(|pod| table.may_go(*pod, other, short));
            let take: Vec<&Vec<usize>> = take.iter().filter(|pods| comes(pods)).collect();
            for gone in &give {
                if !gone.iter().all(|pod| table.may_go(*pod, short, other)) {
                    continue;
                }
                for come in &take {
                    if !self.look() {
                        return None;
                    }
                    if table.holds(short, gone, come) && table.holds(other, come, gone) {
                        let gone = gone.iter().map(|pod| (*pod, short, other));
                        return Some(gone.chain(come.iter().map(|pod| (*pod, other, short))).collect());
                    }
                }
            }
        }
        None
    }

    /// Moves one pod to a seat where another pod makes room by moving to a third seat.
    fn chain(&mut self, here: &[usize]) -> Option<Trade> {
        let (table, short) = (self.table, self.short);
        for gone in here.iter().copied().filter(|pod| table.holds(short, &[*pod], &[])) {
            for middle in self.others().filter(|middle| table.may_go(gone, short, *middle)) {
                for passed in table.different(middle) {
                    if !self.look() {
                        return None;
                    }
                    if !table.holds(middle, &[passed], &[gone]) {
                        continue;
                    }
                    let last = self.others().filter(|last| *last != middle && table.may_go(passed, middle, *last));
                    if let Some(last) = last.into_iter().find(|last| table.holds(*last, &[], &[passed])) {
                        return Some(vec![(gone, short, middle), (passed, middle, last)]);
                    }
                }
            }
        }
        None
    }

    /// Exchanges one pod for one of another seat, from which a second pod moves to a third seat.
    fn pass_on(&mut self, here: &[usize]) -> Option<Trade> {
        let (table, short) = (self.table, self.short);
        for gone in here.iter().copied().filter(|pod| table.holds(short, &[*pod], &[])) {
            for middle in self.others().filter(|middle| table.may_go(gone, short, *middle)) {
                let there = table.different(middle);
                let come = there.iter().copied().filter(|pod| table.may_go(*pod, middle, short));
                let come: Vec<usize> = come.filter(|pod| table.holds(short, &[gone], &[*pod])).collect();
                for come in come {
                    for passed in there.iter().copied().filter(|pod| *pod != come) {
                        if !self.look() {
                            return None;
                        }
                        if !table.holds(middle, &[come, passed], &[gone]) {
                            continue;
                        }
                        let mut last = self.others().filter(|last| *last != middle);
                        let last =
                            last.find(|last| table.holds(*last, &[], &[passed]) && table.may_go(passed, middle, *last));
                        if let Some(last) = last {
                            return Some(vec![(gone, short, middle), (come, middle, short), (passed, middle, last)]);
                        }
                    }
                }
            }
        }
        None
    }

    /// Moves one pod to a second seat, one from there to a third seat, and one from there back.
    fn ring(&mut self, here: &[usize]) -> Option<Trade> {
        let (table, short) = (self.table, self.short);
        for gone in here.iter().copied().filter(|pod| table.holds(short, &[*pod], &[])) {
            for last in self.others() {
                let come = table.different(last).into_iter();
                let come: Vec<usize> = come
                    .filter(|pod| table.may_go(*pod, last, short) && table.holds(short, &[gone], &[*pod]))
                    .collect();
                if come.is_empty() {
                    continue;
                }
                for middle in self.others().filter(|middle| *middle != last && table.may_go(gone, short, *middle)) {
                    let passed = table.different(middle).into_iter();
                    for passed in passed.filter(|pod| table.may_go(*pod, middle, last)) {
                        if !self.look() {
                            return None;
                        }
                        if !table.holds(middle, &[passed], &[gone]) {
                            continue;
                        }
                        if let Some(come) = come.iter().find(|come| table.holds(last, &[**come], &[passed])) {
                            return Some(vec![(gone, short, middle), (passed, middle, last), (*come, last, short)]);
                        }
                    }
                }
            }
        }
        None
    }

    fn others(&self) -> impl Iterator<Item = usize> + use<> {
        let short = self.short;
        (0..self.table.seats.len()).filter(move |seat| *seat != short)
    }
}

/// Returns pairs of pods of a seat: one per pair of specs, and two of one spec if it has two.
fn pairs(table: &Table<'_>, seat: usize) -> Vec<Vec<usize>> {
    let different = table.different(seat);
    let mut pairs = Vec::new();
    for (at, one) in different.iter().enumerate() {
        if let Some(twin) = table.twin(seat, *one) {
            pairs.push(vec![*one, twin]);
        }
        pairs.extend(different[at + 1..].iter().map(|other| vec![*one, *other]));
    }
    pairs
}
