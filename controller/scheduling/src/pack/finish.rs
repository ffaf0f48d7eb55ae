//! From a draft to a plan: requirements, launch alternatives, prices, reasons.

use std::sync::Arc;

use fixedbitset::FixedBitSet;

use super::Draft;
use super::construct::Opened;
use super::groups::Grouped;
use crate::compile::{Compiled, fits};
use crate::model::{Operator, Requirement, Requirements, Resources};
use crate::solution::{NewNode, Reason, Solution, Unschedulable};

/// Types that one launch may name; EC2 and Karpenter take no more.
const MOST_ALTERNATIVES: usize = 600;

/// Writes the plan out.
pub(crate) fn write(compiled: &Compiled<'_>, grouped: &Grouped, draft: Draft) -> Solution {
    let mut solution = Solution::default();
    let mut writer = Writer { compiled, grouped, by_price: price_order(compiled) };
    for opened in &draft.opened {
        solution.new_nodes.push(writer.node(opened));
    }
    for (node, units) in draft.existing {
        let mut pods: Vec<usize> = units.iter().flat_map(|unit| grouped.pods(unit)).map(|&pod| pod as usize).collect();
        pods.sort_unstable();
        solution.existing.push((node, pods));
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

/// Shapes by their least price.
fn price_order(compiled: &Compiled<'_>) -> Vec<usize> {
    let mut order: Vec<usize> = (0..compiled.shapes.len()).collect();
    let price = |shape: usize| compiled.shapes[shape].cheapest;
    order.sort_by(|&a, &b| price(a).total_cmp(&price(b)).then(a.cmp(&b)));
    order
}

struct Writer<'a> {
    compiled: &'a Compiled<'a>,
    grouped: &'a Grouped,
    by_price: Vec<usize>,
}

impl Writer<'_> {
    fn node(&mut self, opened: &Opened) -> NewNode {
        let compiled = self.compiled;
        let pool = compiled.shapes[opened.shape].pool;
        let mut pods: Vec<usize> =
            opened.units.iter().flat_map(|unit| self.grouped.pods(unit)).map(|&pod| pod as usize).collect();
        pods.sort_unstable();
        let mut specs: Vec<usize> = pods.iter().map(|&pod| compiled.problem.pods[pod].spec).collect();
        specs.sort_unstable();
        specs.dedup();
        let mut requests = Resources::new();
        for &pod in &pods {
            requests.add(&compiled.problem.spec_of(pod).requests);
        }
        let requirements = self.requirements(opened, pool, &specs);
        let alternatives = self.alternatives(opened, pool, &pods, &specs, &requirements);
        let (instance_type, offering, price) = alternatives.first().copied().unwrap_or((
            compiled.shapes[opened.shape].instance_type,
            0,
            opened.price,
        ));
        NewNode {
            pool,
            pods,
            instance_type,
            offering,
            price,
            alternatives: alternatives.iter().map(|&(instance_type, ..)| instance_type).collect(),
            requirements,
            requests,
            min_values_relaxed: None,
        }
    }

    /// The pool's requirements and the pods', and one value of each label that a rule between pods is about.
    fn requirements(&self, opened: &Opened, pool: usize, specs: &[usize]) -> Requirements {
        let compiled = self.compiled;
        let mut requirements = compiled.pools[pool].requirements.clone();
        for &spec in specs {
            let spec = &compiled.problem.specs[spec];
            requirements.add_all(&spec.node_selector);
            // Of several terms, the one that holds here.
            let holds = |term: &&Requirements| {
                compiled.cells.dimensions.iter().enumerate().all(|(at, dimension)| {
                    term.get(&dimension.key).is_none_or(|wanted| match compiled.cells.value(opened.cell, at) {
                        Some(value) => wanted.has(value),
                        None => wanted.allows_absence(),
                    })
                })
            };
            for terms in [&spec.node_terms, &spec.volume_terms] {
                if let Some(term) = terms.iter().find(holds) {
                    requirements.add_all(term);
                }
            }
        }
        let pinned = self.pinned_dimensions(&opened.units);
        for dimension in pinned.ones() {
            if let Some(value) = compiled.cells.value(opened.cell, dimension) {
                let key = Arc::clone(&compiled.cells.dimensions[dimension].key);
                requirements.add(key, Requirement::new(Operator::In, [value]));
            }
        }
        requirements
    }

    /// Dimensions that some domain rule of these units is about: the launch must not decide them again.
    fn pinned_dimensions(&self, units: &[u32]) -> FixedBitSet {
        let mut pinned = FixedBitSet::with_capacity(self.compiled.cells.dimensions.len());
        for unit in units {
            for &pod in self.grouped.pods(unit) {
                let spec = self.compiled.problem.pods[pod as usize].spec;
                if let Some(dimensions) = self.grouped.pinned_of_spec.get(spec) {
                    pinned.union_with(dimensions);
                }
            }
        }
        pinned
    }

    /// Every type that holds the node and has an offering that its requirements allow, cheapest first.
    fn alternatives(
        &self,
        opened: &Opened,
        pool: usize,
        pods: &[usize],
        specs: &[usize],
        requirements: &Requirements,
    ) -> Vec<(usize, usize, f64)> {
        let compiled = self.compiled;
        let mut sizes = vec![0_i32; compiled.columns.width()];
        for &pod in pods {
            let class = compiled.class_of_spec[compiled.problem.pods[pod].spec] as usize;
            sizes.iter_mut().zip(compiled.request(class)).for_each(|(sum, &size)| *sum += size);
        }
        let types = &compiled.problem.catalogues[compiled.problem.pools[pool].catalogue];
        let mut signatures: Vec<u32> =
            specs.iter().map(|&spec| compiled.classes[compiled.class_of_spec[spec] as usize].signature).collect();
        signatures.sort_unstable();
        signatures.dedup();
        let mut found: Vec<(usize, usize, f64)> = Vec::new();
        for &shape in &self.by_price {
            let one = &compiled.shapes[shape];
            if one.pool != pool || !fits(&sizes, &one.room) {
                continue;
            }
            let admitted = signatures.iter().all(|&signature| {
                compiled.admits[signature as usize].iter().any(|set| set.contains(shape))
            });
            if !admitted {
                continue;
            }
            let instance_type = &types[one.instance_type];
            let mut cheapest: Option<(usize, f64)> = None;
            for (number, offering) in instance_type.offerings.iter().enumerate() {
                let Some(price) = offering.price.filter(|_| offering.launchable()) else { continue };
                if offering.capacity_type() == Some("reserved") && opened.reserved != Some(number) {
                    continue;
                }
                if !requirements.intersects(&offering.requirements) {
                    continue;
                }
                let spot = |number: usize| instance_type.offerings[number].capacity_type() == Some("spot");
                let better = cheapest.is_none_or(|(other, least)| {
                    price < least || (price == least && spot(number) && !spot(other))
                });
                if better {
                    cheapest = Some((number, price));
                }
            }
            if let Some((offering, price)) = cheapest {
                found.push((one.instance_type, offering, price));
            }
            if found.len() >= MOST_ALTERNATIVES {
                break;
            }
        }
        found.sort_by(|a, b| a.2.total_cmp(&b.2));
        found
    }
}
