//! From the smallest exchange to larger ones, until one mends the node.

use super::table::Table;

/// How many exchanges are looked at for one call: a second's part of what a packer does, and enough for hundreds of nodes.
const MOST_LOOKS: usize = 4_000_000;

/// Pods with the seats that they leave and come to.
type Trade = Vec<(usize, usize, usize)>;

/// Mends what can be mended. Returns what was done, in order.
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
    /// The seat that is to be mended.
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

    /// Whether this may still be looked at.
    const fn look(&mut self) -> bool {
        *self.looks = self.looks.saturating_sub(1);
        *self.looks > 0
    }

    /// Some of `give` for `count` pods of another seat.
    fn between(&mut self, give: &[Vec<usize>], count: usize) -> Option<Trade> {
        let (table, short) = (self.table, self.short);
        // Who takes nothing back must leave enough; who gets something must leave more.
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

    /// One for whom another one makes room by going to a third seat.
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

    /// One for one of another seat, from which a second one goes to a third seat.
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

    /// The same, and somebody of the third seat comes in return.
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

/// Pairs of pods of a seat, one for each two specs; two of one spec where there are two.
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
