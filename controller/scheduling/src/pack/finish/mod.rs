//! Writes a draft as a solution: requirements, launch alternatives, prices, reasons.

mod launches;
mod limits;

use std::sync::Arc;

use super::construct::OpenedNode;
use super::groups::Grouped;
use super::{Draft, balance, existing_nodes};
use crate::compile::{Compiled, flexible};
use crate::model::MinValuesPolicy;
use crate::solution::{NewNode, Reason, Solution, Unschedulable};

use launches::Launches;

/// Returns the solution for `draft`. Nodes with too few launch alternatives for `minValues` are removed from the draft.
pub(crate) fn write(compiled: &Compiled<'_>, grouped: &Grouped, draft: &mut Draft) -> Solution {
    let mut solution = Solution::default();
    let mut writer = Writer::new(compiled, grouped);
    let counts_some = existing_nodes::counts_some_nodes(grouped);
    loop {
        solution.new_nodes = draft.opened.iter().map(|opened| writer.node(opened)).collect();
        limits::keep_planned(compiled, &draft.opened, &mut solution.new_nodes, counts_some);
        limits::keep(compiled, &draft.opened, &mut solution.new_nodes);
        if !keep_choice(compiled, draft, &mut solution.new_nodes) {
            break;
        }
        // Removing a node may break the spread of the rest, and frees limits for other nodes.
        balance::restore(compiled, grouped, draft);
    }
    for (node, units) in &draft.existing {
        let mut pods: Vec<usize> = units.iter().flat_map(|unit| grouped.pods(unit)).map(|&pod| pod as usize).collect();
        pods.sort_unstable();
        solution.existing.push((*node, pods));
    }
    let mut left: Vec<(usize, Option<Reason>)> = Vec::new();
    for (unit, reason) in &draft.left {
        left.extend(grouped.pods(unit).iter().map(|&pod| (pod as usize, *reason)));
    }
    for (pod, one) in compiled.problem.pods.iter().enumerate() {
        if compiled.problem.specs[one.spec].refusal.is_some() {
            left.push((pod, None));
        }
    }
    left.sort_unstable_by_key(|&(pod, _)| pod);
    solution.unschedulable = left
        .into_iter()
        .map(|(pod, reason)| Unschedulable {
            pod,
            reason: reason.unwrap_or(Reason::Resources),
            message: String::new(),
            pools: Vec::new(),
        })
        .collect();
    solution
}

/// Enforces the `minValues` of pools, or records on the node that they are not met. Returns true if a node was removed.
fn keep_choice(compiled: &Compiled<'_>, draft: &mut Draft, nodes: &mut Vec<NewNode>) -> bool {
    let problem = compiled.problem;
    let asked: Vec<_> = problem.pools.iter().map(flexible::asked).collect();
    if asked.iter().all(Vec::is_empty) {
        return false;
    }
    let mut dropped = vec![false; nodes.len()];
    for (node, dropped) in nodes.iter_mut().zip(&mut dropped).filter(|(node, _)| !asked[node.pool].is_empty()) {
        let types = &problem.catalogues[problem.pools[node.pool].catalogue];
        let alternatives = Arc::clone(&node.alternatives);
        let missed = flexible::first_miss(&asked[node.pool], alternatives.iter().map(|&one| &types[one])).is_some();
        node.min_values_relaxed = Some(missed);
        *dropped = missed && compiled.options.min_values == MinValuesPolicy::Strict;
    }
    spare(compiled, nodes, &mut dropped);
    let mut kept = dropped.iter();
    nodes.retain(|_| kept.next().is_none_or(|dropped| !dropped));
    let mut number = 0;
    let left = &mut draft.left;
    draft.opened.retain(|node| {
        let goes = dropped.get(number).copied().unwrap_or(false);
        number += 1;
        if goes {
            left.extend(node.units.iter().map(|&unit| (unit, Some(Reason::MinValues))));
        }
        !goes
    });
    dropped.contains(&true)
}

/// Keeps all but the last eighth of the nodes of a limited pool that would be removed: the limits that these free may
/// leave the others enough types.
fn spare(compiled: &Compiled<'_>, nodes: &[NewNode], dropped: &mut [bool]) {
    for pool in (0..compiled.problem.pools.len()).filter(|&pool| compiled.problem.pools[pool].limits.is_some()) {
        let missed: Vec<usize> = (0..nodes.len()).filter(|&node| dropped[node] && nodes[node].pool == pool).collect();
        let stay = missed.len() - missed.len().div_ceil(8);
        missed[..stay].iter().for_each(|&node| dropped[node] = false);
    }
}

struct Writer<'a> {
    compiled: &'a Compiled<'a>,
    grouped: &'a Grouped,
    launches: Launches<'a>,
    specs: Vec<u32>,
    sizes: Vec<i32>,
}

impl<'a> Writer<'a> {
    fn new(compiled: &'a Compiled<'a>, grouped: &'a Grouped) -> Self {
        let launches = Launches::new(compiled, grouped);
        Self { compiled, grouped, launches, specs: Vec::new(), sizes: Vec::new() }
    }

    fn node(&mut self, opened: &OpenedNode) -> NewNode {
        let compiled = self.compiled;
        let shape = &compiled.shapes[opened.shape];
        let mut pods: Vec<usize> =
            opened.units.iter().flat_map(|unit| self.grouped.pods(unit)).map(|&pod| pod as usize).collect();
        pods.sort_unstable();
        self.sizes.clear();
        self.sizes.resize(compiled.columns.width(), 0);
        let mut amounts = compiled.daemon_amounts(opened.shape);
        self.specs.clear();
        for &pod in &pods {
            let class = compiled.class_of(pod);
            self.sizes.iter_mut().zip(compiled.request(class)).for_each(|(sum, &size)| *sum += size);
            let own = compiled.amounts(class);
            amounts.iter_mut().zip(own).for_each(|(sum, &amount)| *sum = sum.saturating_add(amount));
            self.specs.push(compiled.problem.pods[pod].spec as u32);
        }
        self.specs.sort_unstable();
        let pattern = self.launches.pattern(opened, &self.specs);
        let launch = self.launches.launch(pattern, &self.sizes);
        let (instance_type, offering, price) = launch.first.unwrap_or_else(|| {
            let offering = shape.offering[opened.cell] as usize;
            (shape.instance_type, offering, opened.price)
        });
        NewNode {
            pool: shape.pool,
            pods,
            instance_type,
            offering,
            price,
            alternatives: Arc::clone(&launch.alternatives),
            requirements: Arc::clone(self.launches.requirements_of(pattern)),
            requests: compiled.columns.resources(&amounts),
            min_values_relaxed: None,
        }
    }
}
