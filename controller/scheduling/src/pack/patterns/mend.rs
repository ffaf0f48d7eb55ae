//! Repair of contents: a grid that is not exact, and rules that the dynamic program does not know, leave contents that
//! do not fit.

use super::knapsack::Item;
use crate::compile::HostRuleId;

/// Returns true if the node has room for a content that breaks no rule.
pub(super) fn holds(room: &[i32], items: &[Item<'_>], content: &[(usize, u32)]) -> bool {
    let together = |(rule, limit): (HostRuleId, u32)| {
        let held = content.iter().filter(|(item, _)| items[*item].apart.is_some_and(|(other, _)| other == rule));
        held.map(|&(_, count)| count).sum::<u32>() <= limit
    };
    let asked = |column: usize| -> i64 {
        content.iter().map(|&(item, count)| i64::from(items[item].sizes[column]) * i64::from(count)).sum()
    };
    content.iter().all(|&(item, count)| count <= items[item].most && items[item].apart.is_none_or(together))
        && room.iter().enumerate().all(|(column, &room)| asked(column) <= i64::from(room.max(0)))
}

/// Repairs a content: removes units that exceed the exact amounts or the rules, adds units that still fit, and
/// exchanges units one for one while that increases the value.
pub(super) fn mend(room: &[i32], items: &[Item<'_>], counts: &mut [u32]) {
    let mut held = Held::new(room, items, counts);
    while let Some(least) = held.least_of_too_much() {
        held.put(least, -1);
    }
    held.top_up();
    for _ in 0..MOST_EXCHANGES {
        let Some((out, into)) = held.best_exchange() else { break };
        held.put(out, -1);
        held.put(into, 1);
        held.top_up();
    }
}

/// Maximum number of exchanges; more than two are rare.
const MOST_EXCHANGES: usize = 8;

/// Content being repaired.
struct Held<'a> {
    items: &'a [Item<'a>],
    counts: &'a mut [u32],
    /// Room left by column; negative if exceeded.
    left: Vec<i64>,
    /// Items by value per share of the room that they take, highest first.
    order: Vec<usize>,
}

impl<'a> Held<'a> {
    fn new(room: &[i32], items: &'a [Item<'a>], counts: &'a mut [u32]) -> Self {
        let share = |item: &Item<'_>| {
            let each = item.sizes.iter().zip(room).filter(|(_, room)| **room > 0);
            each.map(|(&size, &room)| f64::from(size) / f64::from(room)).fold(1e-9, f64::max)
        };
        let worth: Vec<f64> = items.iter().map(|item| item.value / share(item)).collect();
        let mut order: Vec<usize> = (0..items.len()).collect();
        order.sort_by(|&a, &b| worth[b].total_cmp(&worth[a]).then(a.cmp(&b)));
        let mut left: Vec<i64> = room.iter().map(|&room| i64::from(room)).collect();
        for (item, &count) in items.iter().zip(&*counts) {
            left.iter_mut().zip(item.sizes).for_each(|(left, &size)| *left -= i64::from(size) * i64::from(count));
        }
        Self { items, counts, left, order }
    }

    fn put(&mut self, item: usize, times: i32) {
        self.counts[item] = self.counts[item].saturating_add_signed(times);
        self.left
            .iter_mut()
            .zip(self.items[item].sizes)
            .for_each(|(left, &size)| *left -= i64::from(size) * i64::from(times));
    }

    /// Returns the number of units held that share a rule with `item`.
    fn together(&self, item: usize) -> u32 {
        let Some((rule, _)) = self.items[item].apart else { return 0 };
        let shares = |other: &Item<'_>| other.apart.is_some_and(|(one, _)| one == rule);
        self.items.iter().zip(&*self.counts).filter(|(other, _)| shares(other)).map(|(_, &count)| count).sum()
    }

    /// Returns the least valuable item among those that exceed the room or a rule.
    fn least_of_too_much(&self) -> Option<usize> {
        let too_much = |&item: &usize| {
            let one = &self.items[item];
            let overdrawn = one.sizes.iter().zip(&self.left).any(|(&size, &left)| size > 0 && left < 0);
            let crowded = one.apart.is_some_and(|(_, limit)| self.together(item) > limit);
            self.counts[item] > 0 && (overdrawn || crowded || self.counts[item] > one.most)
        };
        self.order.iter().rev().copied().find(too_much)
    }

    fn top_up(&mut self) {
        for at in 0..self.order.len() {
            let item = self.order[at];
            let one = &self.items[item];
            while self.counts[item] < one.most
                && one.sizes.iter().zip(&self.left).all(|(&size, &left)| size == 0 || i64::from(size) <= left)
                && one.apart.is_none_or(|(_, limit)| self.together(item) < limit)
            {
                self.put(item, 1);
            }
        }
    }

    /// Returns the pair of items (out, in) whose exchange gains the most.
    fn best_exchange(&self) -> Option<(usize, usize)> {
        let mut best: Option<(usize, usize)> = None;
        let mut most = 1e-9;
        for out in (0..self.items.len()).filter(|&item| self.counts[item] > 0) {
            let freed = &self.items[out];
            for (into, one) in self.items.iter().enumerate() {
                let gain = one.value - freed.value;
                let mut columns = one.sizes.iter().zip(freed.sizes).zip(&self.left);
                if gain > most * one.value.max(1e-12)
                    && self.counts[into] < one.most
                    && columns.all(|((&size, &free), &left)| size == 0 || i64::from(size) <= left + i64::from(free))
                    && one.apart.is_none_or(|(rule, limit)| {
                        let leaves = freed.apart.is_some_and(|(other, _)| other == rule);
                        self.together(into) < limit + u32::from(leaves)
                    })
                {
                    most = gain / one.value.max(1e-12);
                    best = Some((out, into));
                }
            }
        }
        best
    }
}
