//! Limits of pools, while nodes are opened.

use std::rc::Rc;

use crate::compile::Compiled;
use crate::model::Resource;

/// What pool limits leave while nodes are opened.
#[derive(Debug, Clone)]
pub(crate) struct Headroom {
    /// By pool: the least amount left of each limited resource; `None` is without limits.
    left: Vec<Option<Vec<i64>>>,
    /// By shape: what a node takes of each resource that its pool limits.
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

    /// Whether any pool has limits.
    pub(crate) fn binds(&self) -> bool {
        self.left.iter().any(Option::is_some)
    }

    /// Whether no limit is reached by `nodes` more nodes of `among`, whichever they are.
    pub(crate) fn allows_any(&self, compiled: &Compiled<'_>, among: &[usize], nodes: usize) -> bool {
        !self.binds() || among.iter().all(|&shape| self.times(compiled, shape) >= nodes)
    }

    /// Whether one more node of this shape stays within its pool's limits.
    pub(crate) fn allows(&self, compiled: &Compiled<'_>, shape: usize) -> bool {
        self.times(compiled, shape) > 0
    }

    /// How many more nodes of this shape stay within its pool's limits.
    pub(crate) fn times(&self, compiled: &Compiled<'_>, shape: usize) -> usize {
        let Some(left) = &self.left[compiled.shapes[shape].pool] else { return usize::MAX };
        let times = left.iter().zip(&self.uses[shape]).map(|(&left, &each)| match each {
            ..=0 if left < 0 => 0,
            ..=0 => i64::MAX,
            _ => (left / each).max(0),
        });
        times.min().map_or(usize::MAX, |times| usize::try_from(times).unwrap_or(usize::MAX))
    }

    /// Takes one node of this shape back.
    pub(crate) fn refund(&mut self, compiled: &Compiled<'_>, shape: usize) {
        if let Some(left) = &mut self.left[compiled.shapes[shape].pool] {
            let uses = &self.uses[shape];
            left.iter_mut().zip(uses).for_each(|(left, &each)| *left = left.saturating_add(each));
        }
    }

    /// Counts `times` nodes of this shape.
    pub(crate) fn spend(&mut self, compiled: &Compiled<'_>, shape: usize, times: usize) {
        if let Some(left) = &mut self.left[compiled.shapes[shape].pool] {
            let spent = |each: i64| each.saturating_mul(i64::try_from(times).unwrap_or(i64::MAX));
            let uses = &self.uses[shape];
            left.iter_mut().zip(uses).for_each(|(left, &each)| *left = left.saturating_sub(spent(each)));
        }
    }

    /// Counts the most of each resource that a node of one of `shapes`, all of one pool, may take.
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
