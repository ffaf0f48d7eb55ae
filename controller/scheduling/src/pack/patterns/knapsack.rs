//! Most valuable content of one node: a knapsack with two capacities, solved by dynamic programming over a grid.
//!
//! ```text
//!   best[m][c] = highest value of items that take at most m cells of memory and c cells of cpu together
//!   free item:    best[m][c] = max(best[m][c], best[m − mᵢ][c − cᵢ] + vᵢ)       rows in order: any number of units
//!   choice:       at most one of several items, each compared with the values before the choice
//! ```
//!
//! Requests are counted in the unit of their column, so grids of whole cores and gibibytes are exact. Larger capacities
//! are divided into [`CELLS`] cells and requests rounded to the nearest number of cells; errors of several pods cancel
//! out. Content that then does not fit is repaired with the exact amounts, which also decide the other columns.

use super::mend::{holds, mend};
use crate::compile::{CPU, HostRuleId, MEMORY};

/// Maximum number of cells of a scaled column.
const CELLS: i32 = 128;

/// Maximum capacity of a column that is not scaled.
pub(crate) const EXACT: i32 = 256;

/// Item that may be put on the node.
#[derive(Debug, Clone)]
pub(super) struct Item<'a> {
    /// Row, as an identifier for the caller.
    pub(super) row: u32,
    pub(super) sizes: &'a [i32],
    /// Value of one unit, in USD per hour.
    pub(super) value: f64,
    /// Maximum number of units.
    pub(super) most: u32,
    /// Rule that it shares with other items, and the number of units of these that one node may hold.
    pub(super) apart: Option<(HostRuleId, u32)>,
}

/// Maximum number of passes over a choice. Items of rules with a higher limit are free, and the sum is repaired.
const MOST_PASSES: u32 = 3;

/// One pass of the dynamic program.
enum Pass {
    /// Any number of units of an item.
    Any(usize),
    /// A fixed number of units of an item, or none.
    Bulk(usize, u32),
    /// At most one unit of one of these items.
    Choice(Vec<usize>),
}

/// Solver that reuses its buffers.
#[derive(Default)]
pub(super) struct Knapsack {
    best: Vec<f32>,
    before: Vec<f32>,
    /// By pass and cell: 0 if nothing was taken, else one plus the index of the item in the pass.
    took: Vec<u8>,
    /// Number of cells computed by all calls.
    pub(super) steps: usize,
}

/// Returns the number of cells of a capacity.
fn cells(room: i32) -> i32 {
    if room <= EXACT { room.max(0) } else { CELLS }
}

/// Returns the number of cells of a size, rounded to the nearest or, with `up`, up.
fn scaled(size: i32, room: i32, up: bool) -> usize {
    let cells = i64::from(cells(room));
    if size <= 0 || i64::from(room) == cells {
        return size.max(0) as usize;
    }
    let (size, room) = (i64::from(size) * cells, i64::from(room));
    (if up { (size + room - 1) / room } else { (2 * size + room) / (2 * room) }) as usize
}

impl Knapsack {
    /// Returns the number of cells of the grid of a node.
    pub(super) fn grid(room: &[i32]) -> usize {
        (cells(room[CPU]) as usize + 1) * (cells(room[MEMORY]) as usize + 1)
    }

    /// Returns true if the grid of a node is exact.
    pub(super) fn is_exact(room: &[i32]) -> bool {
        room[CPU] <= EXACT && room[MEMORY] <= EXACT
    }

    /// Returns the best content found for a node with this room, and the best with each item if its value is at least
    /// `least`. Each item must fit by itself. With `up`, sizes are rounded up.
    pub(super) fn fill(&mut self, room: &[i32], items: &[Item<'_>], up: bool, least: f64) -> Vec<Filling> {
        let grid = Grid { width: cells(room[CPU]) as usize + 1, height: cells(room[MEMORY]) as usize + 1 };
        let scale = |item: &Item<'_>| {
            let cores = scaled(item.sizes[CPU], room[CPU], up).min(grid.width - 1);
            let memory = scaled(item.sizes[MEMORY], room[MEMORY], up).min(grid.height - 1);
            (cores, memory)
        };
        let solved = self.solve(grid, items, items.iter().map(scale).collect());
        self.contents(&solved, (grid.width - 1, grid.height - 1), (room, least), items)
    }

    /// Like [`Knapsack::fill`] for several rooms with exact grids: the solution for the largest has those of all.
    pub(super) fn fill_all(&mut self, rooms: &[(&[i32], f64)], items: &[Item<'_>]) -> Vec<Vec<Filling>> {
        let most = |column: usize| rooms.iter().map(|(room, _)| room[column].max(0)).max().unwrap_or(0) as usize;
        let grid = Grid { width: most(CPU) + 1, height: most(MEMORY) + 1 };
        let sizes = |item: &Item<'_>| (item.sizes[CPU].max(0) as usize, item.sizes[MEMORY].max(0) as usize);
        let solved = self.solve(grid, items, items.iter().map(sizes).collect());
        let solved = Solved { is_exact: true, ..solved };
        let contents = |&(room, least): &(&[i32], f64)| {
            let at = (room[CPU].max(0) as usize, room[MEMORY].max(0) as usize);
            self.contents(&solved, at, (room, least), items)
        };
        rooms.iter().map(contents).collect()
    }

    fn solve(&mut self, grid: Grid, items: &[Item<'_>], mut scaled: Vec<(usize, usize)>) -> Solved {
        let Grid { width, height } = grid;
        // An item of size zero would be taken without end.
        scaled.iter_mut().filter(|size| **size == (0, 0)).for_each(|size| size.0 = 1.min(width - 1));
        let passes = passes(items, &scaled, width, height);
        let grid = width * height;
        self.best.clear();
        self.best.resize(grid, 0.0);
        self.took.clear();
        self.took.resize(passes.len() * grid, 0);
        for (number, pass) in passes.iter().enumerate() {
            let took = &mut self.took[number * grid..][..grid];
            match pass {
                &Pass::Any(item) => {
                    self.steps += grid;
                    any(&mut self.best, took, width, scaled[item], items[item].value as f32);
                }
                &Pass::Bulk(item, count) => {
                    self.steps += 2 * grid;
                    let (cores, memory) = scaled[item];
                    let size = (cores * count as usize, memory * count as usize);
                    self.before.clone_from(&self.best);
                    let table = Table { best: &mut self.best, before: &self.before, took, width };
                    once(table, size, items[item].value as f32 * count as f32, 1);
                }
                Pass::Choice(members) => {
                    self.steps += (members.len() + 1) * grid;
                    self.before.clone_from(&self.best);
                    for (mark, &item) in (1_u8..).zip(members) {
                        let value = items[item].value as f32;
                        let table = Table { best: &mut self.best, before: &self.before, took: &mut *took, width };
                        once(table, scaled[item], value, mark);
                    }
                }
            }
        }
        Solved { passes, scaled, width, grid, is_exact: false }
    }

    /// Returns the contents of the cell `at` of the last solution, repaired for `room`: the best one, and the best with
    /// each item that is worth at least `least`.
    fn contents(
        &self,
        solved: &Solved,
        (cores, memory): (usize, usize),
        (room, least): (&[i32], f64),
        items: &[Item<'_>],
    ) -> Vec<Filling> {
        let worth =
            |counts: &Filling| counts.iter().map(|&(item, count)| items[item].value * f64::from(count)).sum::<f64>();
        let mut found = vec![self.content(solved, memory * solved.width + cores, None, room, items)];
        for (item, &(width, height)) in solved.scaled.iter().enumerate() {
            if width > cores || height > memory {
                continue;
            }
            let at = (memory - height) * solved.width + cores - width;
            let most = items[item].value + f64::from(self.best[at]);
            if most >= least && found[0].iter().all(|&(other, _)| other != item) {
                let content = self.content(solved, at, Some(item), room, items);
                if worth(&content) >= least {
                    found.push(content);
                }
            }
        }
        found
    }

    /// Returns the content of the cell `at` of the last solution, with a unit of `item` if given, repaired for `room`.
    fn content(
        &self,
        solved: &Solved,
        mut at: usize,
        item: Option<usize>,
        room: &[i32],
        items: &[Item<'_>],
    ) -> Filling {
        let mut counts = vec![0_u32; items.len()];
        item.into_iter().for_each(|item| counts[item] += 1);
        for (number, pass) in solved.passes.iter().enumerate().rev() {
            let took = &self.took[number * solved.grid..][..solved.grid];
            loop {
                let mark = usize::from(took[at]);
                if mark == 0 {
                    break;
                }
                let (item, count) = match pass {
                    &Pass::Any(item) => (item, 1),
                    &Pass::Bulk(item, count) => (item, count),
                    Pass::Choice(members) => (members[mark - 1], 1),
                };
                counts[item] += count;
                let (cores, memory) = solved.scaled[item];
                at -= (memory * solved.width + cores) * count as usize;
                if !matches!(pass, Pass::Any(_)) {
                    break;
                }
            }
        }
        let filling = |counts: &[u32]| {
            (0..).zip(counts).filter(|(_, count)| **count > 0).map(|(item, &count)| (item, count)).collect()
        };
        let found: Filling = filling(&counts);
        if solved.is_exact && holds(room, items, &found) {
            return found;
        }
        mend(room, items, &mut counts);
        filling(&counts)
    }
}

/// Content of a node as items with the number of units of each.
pub(super) type Filling = Vec<(usize, u32)>;

/// Maximum number of units of an item that takes no cells.
const MOST_WITHOUT_CELLS: u32 = 1 << 12;

/// Number of cells of a grid in each direction.
#[derive(Debug, Clone, Copy)]
struct Grid {
    width: usize,
    height: usize,
}

/// Solution from which contents are read.
struct Solved {
    passes: Vec<Pass>,
    /// Sizes of the items, in cells of cpu and memory.
    scaled: Vec<(usize, usize)>,
    width: usize,
    /// Number of all cells.
    grid: usize,
    /// True if sizes are not scaled.
    is_exact: bool,
}

/// Returns the passes for some items: first choices, split so that their marks fit a byte, then the other items,
/// bounded ones in powers of two.
fn passes(items: &[Item<'_>], scaled: &[(usize, usize)], width: usize, height: usize) -> Vec<Pass> {
    let mut passes = Vec::new();
    let chosen = |item: &Item<'_>| item.apart.filter(|&(_, limit)| limit <= MOST_PASSES);
    let mut rules: Vec<(HostRuleId, u32)> = items.iter().filter_map(chosen).collect();
    rules.sort_unstable();
    rules.dedup();
    for rule in rules {
        let members: Vec<usize> = (0..items.len()).filter(|&item| items[item].apart == Some(rule)).collect();
        for some in members.chunks(usize::from(u8::MAX)) {
            passes.extend((0..rule.1).map(|_| Pass::Choice(some.to_vec())));
        }
    }
    for (number, item) in items.iter().enumerate().filter(|(_, item)| chosen(item).is_none()) {
        let (cores, memory) = scaled[number];
        let by = |room: usize, size: usize| (room - 1).checked_div(size).unwrap_or(usize::MAX);
        let holds = by(width, cores).min(by(height, memory)) as u32;
        // Nothing but a number bounds units that take no cells.
        let most = if cores + memory > 0 { item.most } else { item.most.min(MOST_WITHOUT_CELLS) };
        if most >= holds {
            passes.push(Pass::Any(number));
            continue;
        }
        let (mut left, mut bulk) = (most, 1);
        while left > 0 {
            passes.push(Pass::Bulk(number, bulk.min(left)));
            left -= bulk.min(left);
            bulk *= 2;
        }
    }
    passes
}

/// Tries any number of units of an item in all cells.
fn any(best: &mut [f32], took: &mut [u8], width: usize, (cores, memory): (usize, usize), value: f32) {
    let height = best.len() / width;
    for row in memory..height {
        if memory == 0 {
            let (best, took) = (&mut best[row * width..][..width], &mut took[row * width..][..width]);
            for at in cores..width {
                let offer = best[at - cores] + value;
                if offer > best[at] {
                    best[at] = offer;
                    took[at] = 1;
                }
            }
            continue;
        }
        let (below, from) = best.split_at_mut(row * width);
        let below = &below[(row - memory) * width..][..width - cores];
        offer(&mut from[cores..width], below, &mut took[row * width + cores..][..width - cores], value, 1);
    }
}

/// Values of all cells, and the marks of the items that improved them.
struct Table<'t> {
    best: &'t mut [f32],
    before: &'t [f32],
    took: &'t mut [u8],
    width: usize,
}

/// Tries one unit of an item of this size in all cells, on top of the values before.
fn once(table: Table<'_>, (cores, memory): (usize, usize), value: f32, mark: u8) {
    let Table { best, before, took, width } = table;
    if cores >= width {
        return;
    }
    for row in memory..best.len() / width {
        let before = &before[(row - memory) * width..][..width - cores];
        let at = row * width + cores;
        let length = width - cores;
        offer(&mut best[at..][..length], before, &mut took[at..][..length], value, mark);
    }
}

fn offer(best: &mut [f32], below: &[f32], took: &mut [u8], value: f32, mark: u8) {
    for ((best, below), took) in best.iter_mut().zip(below).zip(took) {
        let offer = below + value;
        let is_more = offer > *best;
        *best = if is_more { offer } else { *best };
        *took = if is_more { mark } else { *took };
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::compile::fits;

    /// Returns a deterministic pseudo-random number less than `below`.
    fn draw(state: &mut u64, below: u64) -> u64 {
        *state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (*state >> 33) % below
    }

    /// Returns the highest value of a node's content, by exhaustive search.
    fn most(room: &[i32], items: &[Item<'_>], from: usize, held: &mut Vec<(HostRuleId, u32)>) -> f64 {
        let Some(item) = items.get(from) else { return 0.0 };
        let mut best = most(room, items, from + 1, held);
        let mut left = room.to_vec();
        let (mut count, before) = (0, held.clone());
        while count < item.most && fits(item.sizes, &left) {
            if let Some((rule, limit)) = item.apart {
                let together = held.iter().filter(|(one, _)| *one == rule).map(|(_, count)| count).sum::<u32>();
                if together >= limit {
                    break;
                }
                held.push((rule, 1));
            }
            left.iter_mut().zip(item.sizes).for_each(|(left, &size)| *left -= size);
            count += 1;
            best = best.max(item.value * f64::from(count) + most(&left, items, from + 1, held));
        }
        *held = before;
        best
    }

    #[test]
    fn exact_grids_give_the_best_content() {
        let state = &mut 11;
        for _ in 0..300 {
            let room = [draw(state, 12) as i32 + 2, draw(state, 20) as i32 + 2, 9];
            let sizes: Vec<[i32; 3]> = (0..5)
                .map(|_| [draw(state, room[0] as u64) as i32 + 1, draw(state, room[1] as u64) as i32 + 1, 1])
                .collect();
            let mut items = Vec::new();
            for (row, sizes) in (0..).zip(&sizes) {
                let apart = (draw(state, 3) == 0).then(|| (index_vec::Idx::from_usize(draw(state, 2) as usize), 1));
                let most = draw(state, 4) as u32 + 1;
                items.push(Item { row, sizes, value: draw(state, 40) as f64 / 8.0 + 0.1, most, apart });
            }
            let content = Knapsack::default().fill(&room, &items, false, f64::INFINITY).swap_remove(0);
            let worth: f64 = content.iter().map(|&(item, count)| items[item].value * f64::from(count)).sum();
            let best = most(&room, &items, 0, &mut Vec::new());
            assert!((worth - best).abs() < 1e-3, "{worth} of {best}: {room:?} {items:?} {content:?}");
        }
    }

    /// Nothing but their number bounds units that take no cells.
    #[test]
    fn units_without_a_size_have_an_end() {
        let item = |row: u32, sizes, most| Item { row, sizes, value: 1.0, most, apart: None };
        for (most, expected) in [(7, vec![(0, 7), (1, 3)]), (u32::MAX, vec![(0, 99)])] {
            let items = [item(0, &[0, 0, 1], most), item(1, &[0, 3, 1], u32::MAX)];
            let contents = Knapsack::default().fill_all(&[(&[0, 10, 99], f64::INFINITY)], &items);
            let mut content = contents[0][0].clone();
            content.sort_unstable();
            assert_eq!(content, expected);
        }
    }

    #[test]
    fn coarse_grids_give_what_fits_and_is_close_to_the_best() {
        let state = &mut 12;
        let (mut reached, mut best) = (0.0, 0.0);
        for _ in 0..200 {
            let room = [15_900, 65_526, 40];
            let sizes: Vec<[i32; 3]> =
                (0..5).map(|_| [draw(state, 6_000) as i32 + 1_000, draw(state, 30_000) as i32 + 3_000, 1]).collect();
            let value = |sizes: &[i32]| f64::from(sizes[0]) + f64::from(sizes[1]) / 4.0;
            let items: Vec<Item<'_>> = (0..)
                .zip(&sizes)
                .map(|(row, sizes)| Item { row, sizes, value: value(sizes), most: 50, apart: None })
                .collect();
            let contents =
                [false, true].map(|up| Knapsack::default().fill(&room, &items, up, f64::INFINITY).swap_remove(0));
            let worth = contents.map(|content| {
                let mut sums = [0; 3];
                for &(item, count) in &content {
                    sums.iter_mut().zip(items[item].sizes).for_each(|(sum, &size)| *sum += size * count as i32);
                }
                assert!(fits(&sums, &room), "{sums:?}");
                content.iter().map(|&(item, count)| items[item].value * f64::from(count)).sum::<f64>()
            });
            reached += worth[0].max(worth[1]);
            best += most(&room, &items, 0, &mut Vec::new());
        }
        assert!(reached > 0.975 * best, "{:.4}", reached / best);
    }
}
