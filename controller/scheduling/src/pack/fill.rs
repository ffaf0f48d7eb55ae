//! Filling one node: again and again the kind that keeps what is left of the node on its diagonal.
//!
//! The gain of a pod is `Σ_r w_r (2·room_r·size_r − size_r²) / capacity_r²`, the fall of the squared norm of the room:
//! large pods go first, and a resource that runs short makes its users expensive. Small pods stay for the end, where they
//! finish nodes.

use crate::compile::HostRule;

use super::stock::Stock;

/// What may be put on the node being filled.
pub(crate) struct Site<'a> {
    pub(crate) room: &'a [i32],
    /// Weight of each column.
    pub(crate) weights: &'a [f32],
    pub(crate) cell: usize,
    /// Whether a kind may be there at all.
    pub(crate) admitted: &'a dyn Fn(u32) -> bool,
    /// Kinds for which such a node may be opened; the rest only tops it up. `None`: all.
    pub(crate) openers: Option<&'a dyn Fn(u32) -> bool>,
    /// Host rules of which an owner goes first, if one fits.
    pub(crate) critical: &'a [u32],
    /// Value of one unit, by kind: decides which owner of a critical rule goes first.
    pub(crate) values: &'a [f64],
}

/// Content of a node: lots and how many units of each.
pub(crate) type Content = Vec<(u32, u32)>;

/// Buffers that are reused from fill to fill.
pub(crate) struct Filler<'a> {
    rules: &'a [HostRule],
    owners: Vec<i32>,
    targets: Vec<i32>,
    touched: Vec<u32>,
    room: Vec<i32>,
    alive: Vec<u32>,
    /// `sizes[column][position in alive]`.
    sizes: Vec<Vec<i32>>,
    floats: Vec<Vec<f32>>,
    square: Vec<f32>,
    score: Vec<f32>,
    cursor: Vec<u32>,
    used: Vec<u32>,
    used_lots: Vec<u32>,
    /// Kinds considered over all fills; what budgets count.
    pub(crate) work: u64,
}

impl<'a> Filler<'a> {
    pub(crate) fn new(rules: &'a [HostRule], stock: &Stock, width: usize) -> Self {
        Self {
            rules,
            owners: vec![0; rules.len()],
            targets: vec![0; rules.len()],
            touched: Vec::new(),
            room: Vec::new(),
            alive: Vec::new(),
            sizes: vec![Vec::new(); width],
            floats: vec![Vec::new(); width],
            square: Vec::new(),
            score: Vec::new(),
            cursor: vec![0; stock.kinds.len()],
            used: vec![0; stock.lots.len()],
            used_lots: Vec::new(),
            work: 0,
        }
    }

    /// Counts a pod that is on the node already.
    pub(crate) fn preload(&mut self, owns: &[u32], targets: &[(u32, i32)]) {
        for &rule in owns {
            if self.rules[rule as usize].symmetric {
                self.touched.push(rule);
                self.owners[rule as usize] += 1;
            }
        }
        for &(rule, count) in targets {
            self.touched.push(rule);
            self.targets[rule as usize] += count;
        }
    }

    /// Fills `site` from `stock`, which is not changed. `kinds` are those worth looking at, ascending.
    pub(crate) fn fill(&mut self, stock: &Stock, site: &Site<'_>, kinds: &[u32]) -> Content {
        self.room.clear();
        self.room.extend_from_slice(site.room);
        for &rule in site.critical {
            self.place_owner(stock, site, kinds, rule);
        }
        match site.openers {
            None => self.fill_from(stock, site, kinds, &|_| true),
            Some(openers) => {
                self.fill_from(stock, site, kinds, openers);
                if !self.used_lots.is_empty() {
                    self.fill_from(stock, site, kinds, &|kind| !openers(kind));
                }
            }
        }
        let content = self.used_lots.iter().map(|&lot| (lot, self.used[lot as usize])).collect();
        self.reset();
        content
    }

    fn reset(&mut self) {
        for rule in self.touched.drain(..) {
            self.owners[rule as usize] = 0;
            self.targets[rule as usize] = 0;
        }
        for lot in self.used_lots.drain(..) {
            self.used[lot as usize] = 0;
        }
    }

    /// Places the dearest owner of a critical rule that fits.
    fn place_owner(&mut self, stock: &Stock, site: &Site<'_>, kinds: &[u32], rule: u32) {
        let mut best: Option<(f64, u32)> = None;
        for &kind in kinds {
            let opens = site.openers.is_none_or(|openers| openers(kind));
            if !opens || !(site.admitted)(kind) || !self.has_room(&stock.kinds[kind as usize].sizes) {
                continue;
            }
            if best.is_some_and(|(value, _)| value >= site.values[kind as usize]) {
                continue;
            }
            let owner = stock.lots_at[site.cell][kind as usize].iter().copied().find(|&lot| {
                let owns = &stock.rulesets[stock.lots[lot as usize].ruleset as usize].owns;
                owns.contains(&rule) && self.available(stock, lot)
            });
            if let Some(lot) = owner {
                best = Some((site.values[kind as usize], lot));
            }
        }
        if let Some((_, lot)) = best {
            self.place(stock, lot);
        }
    }

    fn has_room(&self, sizes: &[i32]) -> bool {
        sizes.iter().zip(&self.room).all(|(&size, &room)| size <= room || size == 0)
    }

    fn available(&self, stock: &Stock, lot: u32) -> bool {
        let one = &stock.lots[lot as usize];
        one.left() > self.used[lot as usize] as usize && !self.blocked(stock, lot)
    }

    /// Whether a rule keeps the lot off. Adding pods only tightens rules, so this stays true while the node is filled.
    fn blocked(&self, stock: &Stock, lot: u32) -> bool {
        let rules = &stock.rulesets[stock.lots[lot as usize].ruleset as usize];
        let own = |rule: u32| rules.targets.iter().find(|&&(one, _)| one == rule).map_or(0, |&(_, count)| count);
        rules.owns.iter().any(|&rule| self.targets[rule as usize] + own(rule) > self.rules[rule as usize].limit)
            || rules.targets.iter().any(|&(rule, count)| {
                self.owners[rule as usize] > 0 && self.targets[rule as usize] + count > self.rules[rule as usize].limit
            })
    }

    fn place(&mut self, stock: &Stock, lot: u32) {
        let one = &stock.lots[lot as usize];
        let kind = &stock.kinds[one.kind as usize];
        self.room.iter_mut().zip(&*kind.sizes).for_each(|(room, &size)| *room -= size);
        let rules = &stock.rulesets[one.ruleset as usize];
        for &rule in &rules.owns {
            self.touched.push(rule);
            self.owners[rule as usize] += 1;
        }
        for &(rule, count) in &rules.targets {
            self.touched.push(rule);
            self.targets[rule as usize] += count;
        }
        if self.used[lot as usize] == 0 {
            self.used_lots.push(lot);
        }
        self.used[lot as usize] += 1;
    }

    fn fill_from(&mut self, stock: &Stock, site: &Site<'_>, kinds: &[u32], among: &dyn Fn(u32) -> bool) {
        self.gather(stock, site, kinds, among);
        let width = site.room.len();
        let scale: Vec<f32> = (0..width)
            .map(|column| site.weights[column] / (site.room[column].max(1) as f32 * site.room[column].max(1) as f32))
            .collect();
        self.square.clear();
        self.square.resize(self.alive.len(), 0.0);
        for (column, floats) in self.floats.iter().enumerate() {
            self.square.iter_mut().zip(floats).for_each(|(sum, &size)| *sum += scale[column] * size * size);
        }
        while !self.alive.is_empty() {
            let Some(best) = self.best(&scale) else { break };
            let kind = self.alive[best];
            match self.next_lot(stock, site.cell, kind) {
                Some(lot) => self.place(stock, lot),
                None => self.forget(best),
            }
        }
    }

    /// Copies what fits into columns.
    fn gather(&mut self, stock: &Stock, site: &Site<'_>, kinds: &[u32], among: &dyn Fn(u32) -> bool) {
        self.alive.clear();
        self.sizes.iter_mut().for_each(Vec::clear);
        self.floats.iter_mut().for_each(Vec::clear);
        for &kind in kinds {
            let sizes = &stock.kinds[kind as usize].sizes;
            if stock.lots_at[site.cell][kind as usize].is_empty()
                || !self.has_room(sizes)
                || !(site.admitted)(kind)
                || !among(kind)
            {
                continue;
            }
            self.alive.push(kind);
            self.cursor[kind as usize] = 0;
            for (column, &size) in sizes.iter().enumerate() {
                self.sizes[column].push(size);
                self.floats[column].push(size as f32);
            }
        }
    }

    /// The position of the kind with the largest gain that fits; drops those that no longer do.
    fn best(&mut self, scale: &[f32]) -> Option<usize> {
        let count = self.alive.len();
        self.work += count as u64;
        self.score.clear();
        self.score.extend(self.square.iter().map(|square| -square));
        for (column, (floats, sizes)) in self.floats.iter().zip(&self.sizes).enumerate() {
            let factor = 2.0 * scale[column] * self.room[column].max(0) as f32;
            let room = self.room[column].max(0);
            for ((score, &float), &size) in self.score.iter_mut().zip(floats).zip(sizes) {
                let gain = *score + factor * float;
                *score = if size <= room { gain } else { f32::NEG_INFINITY };
            }
        }
        let mut best = None;
        let mut most = f32::NEG_INFINITY;
        let mut gone = 0;
        for (position, &score) in self.score.iter().enumerate() {
            if score > most {
                most = score;
                best = Some(position);
            }
            gone += usize::from(score == f32::NEG_INFINITY);
        }
        // What does not fit now never will: compact once it is worth the copying.
        if gone * 2 > count && best.is_some() {
            let chosen = best.map(|position| self.alive[position]);
            let mut to = 0;
            for from in 0..count {
                if self.score[from] > f32::NEG_INFINITY {
                    self.alive.swap(to, from);
                    self.square.swap(to, from);
                    self.sizes.iter_mut().for_each(|sizes| sizes.swap(to, from));
                    self.floats.iter_mut().for_each(|floats| floats.swap(to, from));
                    to += 1;
                }
            }
            self.truncate(to);
            return chosen.and_then(|kind| self.alive.iter().position(|&one| one == kind));
        }
        best
    }

    fn truncate(&mut self, to: usize) {
        self.alive.truncate(to);
        self.square.truncate(to);
        self.sizes.iter_mut().for_each(|sizes| sizes.truncate(to));
        self.floats.iter_mut().for_each(|floats| floats.truncate(to));
    }

    fn forget(&mut self, position: usize) {
        self.alive.remove(position);
        self.square.remove(position);
        self.sizes.iter_mut().for_each(|sizes| {
            sizes.remove(position);
        });
        self.floats.iter_mut().for_each(|floats| {
            floats.remove(position);
        });
    }

    /// The next lot of `kind` that has units left and that no rule keeps off.
    fn next_lot(&mut self, stock: &Stock, cell: usize, kind: u32) -> Option<u32> {
        let lots = &stock.lots_at[cell][kind as usize];
        loop {
            let cursor = self.cursor[kind as usize] as usize;
            let &lot = lots.get(cursor)?;
            if self.available(stock, lot) {
                return Some(lot);
            }
            self.cursor[kind as usize] += 1;
        }
    }
}
