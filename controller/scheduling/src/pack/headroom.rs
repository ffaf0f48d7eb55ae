//! Remaining pool limits while nodes are opened.

use std::rc::Rc;

use crate::compile::Compiled;
use crate::model::Resource;

/// Amounts left of pool limits.
#[derive(Debug, Clone)]
pub(crate) struct Headroom {
    /// Amount left of each limited resource, by pool; `None` if the pool has no limits.
    left: Vec<Option<Vec<i64>>>,
    /// Amount that a node uses of each resource that its pool limits, by shape.
    uses: Rc<[Vec<i64>]>,
}

impl Headroom {
    pub(crate) fn new(compiled: &Compiled<'_>) -> Self {
        let pools = &compiled.problem.pools;
        let left = pools
            .iter()
            .map(|pool| {
                let limits = pool.limits.as_ref()?;
                Some(limits.iter().map(|(name, limit)| limit.saturating_sub(pool.usage.get(name))).collect())
            })
            .collect();
        let uses = (0..compiled.shapes.len())
            .map(|shape| {
                let limits = pools[compiled.shapes[shape].pool].limits.iter();
                limits.flat_map(|limits| limits.iter()).map(|(name, _)| use_of(compiled, shape, name)).collect()
            })
            .collect();
        Self { left, uses }
    }

    /// Returns true if any pool has limits.
    pub(crate) fn binds(&self) -> bool {
        self.left.iter().any(Option::is_some)
    }

    /// Returns true if any `nodes` more nodes of the shapes `among` stay within the limits.
    pub(crate) fn allows_any(&self, compiled: &Compiled<'_>, among: &[usize], nodes: usize) -> bool {
        !self.binds() || among.iter().all(|&shape| self.times(compiled, shape) >= nodes)
    }

    /// Returns true if one more node of this shape stays within its pool's limits.
    pub(crate) fn allows(&self, compiled: &Compiled<'_>, shape: usize) -> bool {
        self.times(compiled, shape) > 0
    }

    /// Returns the number of further nodes of this shape that stay within its pool's limits.
    pub(crate) fn times(&self, compiled: &Compiled<'_>, shape: usize) -> usize {
        let Some(left) = &self.left[compiled.shapes[shape].pool] else { return usize::MAX };
        let times = left.iter().zip(&self.uses[shape]).map(|(&left, &each)| match each {
            ..=0 if left < 0 => 0,
            ..=0 => i64::MAX,
            _ => (left / each).max(0),
        });
        times.min().map_or(usize::MAX, |times| usize::try_from(times).unwrap_or(usize::MAX))
    }

    /// Adds the amounts of one node of this shape back to its pool's limits.
    pub(crate) fn refund(&mut self, compiled: &Compiled<'_>, shape: usize) {
        if let Some(left) = &mut self.left[compiled.shapes[shape].pool] {
            let uses = &self.uses[shape];
            left.iter_mut().zip(uses).for_each(|(left, &each)| *left = left.saturating_add(each));
        }
    }

    /// Subtracts the amounts of `times` nodes of this shape from its pool's limits.
    pub(crate) fn spend(&mut self, compiled: &Compiled<'_>, shape: usize, times: usize) {
        if let Some(left) = &mut self.left[compiled.shapes[shape].pool] {
            let spent = |each: i64| each.saturating_mul(i64::try_from(times).unwrap_or(i64::MAX));
            let uses = &self.uses[shape];
            left.iter_mut().zip(uses).for_each(|(left, &each)| *left = left.saturating_sub(spent(each)));
        }
    }

    /// Subtracts the largest amount of each resource that a node of one of `shapes`, all of one pool, can use.
    pub(crate) fn spend_most(&mut self, compiled: &Compiled<'_>, shapes: impl Iterator<Item = usize>) {
        let mut most: Option<(usize, Vec<i64>)> = None;
        for shape in shapes {
            let uses = &self.uses[shape];
            match &mut most {
                Some((_, most)) => most.iter_mut().zip(uses).for_each(|(most, &each)| *most = each.max(*most)),
                None => most = Some((compiled.shapes[shape].pool, uses.clone())),
            }
        }
        if let Some((pool, most)) = most
            && let Some(left) = &mut self.left[pool]
        {
            left.iter_mut().zip(most).for_each(|(left, each)| *left = left.saturating_sub(each));
        }
    }
}

fn use_of(compiled: &Compiled<'_>, shape: usize, resource: &Resource) -> i64 {
    let one = &compiled.shapes[shape];
    let catalogue = compiled.problem.pools[one.pool].catalogue;
    compiled.problem.catalogues[catalogue][one.instance_type].capacity.against_limit(resource)
}
