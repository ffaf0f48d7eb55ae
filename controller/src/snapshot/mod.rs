//! From the objects of a cluster to the problem that the engine solves.
//!
//! ```text
//!  Manifests ──► expand   workloads to pods        ──► sort      pending, bound, or nowhere ──┐
//!                buffers  virtual pods                                                        ├──► sort::release ──► Problem
//!                resolve  template to PodSpec  (volumes, default_spread)  ──► nodes, pools ───┘     (nominations for which no
//!                                                                                                    room is left are pending)
//!                disruption  what nodes, pods and pools say about being disrupted ──────────────► Custody
//! ```
//!
//! Whatever refers to another object (a claim, a class, a namespace) is resolved here, once per distinct template.

use muster_scheduling::model::{Catalogue, Problem};

use crate::manifest::{DefaultSpread, InputError, Manifests, NodeClass};

mod buffers;
mod default_spread;
mod disruption;
mod expand;
mod gates;
mod nodes;
mod overlays;
mod pools;
mod remarks;
mod repair;
mod resolve;
mod sort;
#[cfg(test)]
mod tests;
mod unusable;
mod volumes;

pub use disruption::Custody;
pub use gates::FeatureGates;
pub use nodes::runs_on;
pub use remarks::{Remark, Remarks};

/// The instance types of a NodeClass, or of the default class if it is not in the input (`None`). With `--catalog` the
/// answer does not depend on the class.
pub type Types<'a> = dyn Fn(Option<&NodeClass>) -> Catalogue + 'a;

/// The operator's choices that shape a snapshot.
#[derive(Debug, Clone, Default)]
pub struct Settings {
    /// `--feature-gates`.
    pub gates: FeatureGates,
    /// `--scheduler-config`.
    pub default_spread: DefaultSpread,
}

/// A cluster as the engine sees it.
#[derive(Debug)]
pub struct Snapshot {
    /// What is to be solved.
    pub problem: Problem,
    /// What is known about disrupting its nodes.
    pub custody: Custody,
    /// What will surprise the authors of pending pods.
    pub remarks: Remarks,
    /// One line each: for stderr.
    pub warnings: Vec<String>,
}

/// Puts the objects of the input together.
///
/// # Errors
/// What only shows when the objects are put together. Whatever concerns single pods, pools or claims is no error: it
/// becomes a reason in the plan, or a warning.
pub fn assemble(manifests: &Manifests, settings: &Settings, types: &Types<'_>) -> Result<Snapshot, InputError> {
    // The gates are for the engine and for disruption: overlays, buffers and static pools act when they are in the input.
    let Settings { gates: _, default_spread } = settings;
    let mut problem = Problem::default();
    let mut warnings = Vec::new();
    let resolver = &mut resolve::Resolver::new(manifests, default_spread, &mut problem);
    let roots = expand::Roots::new(manifests);
    let mut guards = disruption::Guards::new(manifests);
    let sort::Sorted { pending, telling, mut bound } = sort::Sorted::new(manifests, &roots, resolver, &mut guards);
    let daemons = nodes::daemons(manifests, resolver);
    let pending = buffers::append(manifests, pending, resolver, &mut warnings);
    warnings.append(&mut resolver.warnings());
    problem.pods = pending;
    problem.nodes = nodes::nodes(manifests, &bound, &daemons, &problem, &mut warnings);
    sort::release(&mut bound, &mut problem);
    problem.daemons = daemons.into_iter().map(|daemon| daemon.model).collect();
    pools::append(manifests, types, &mut problem, &mut warnings);
    overlays::apply(manifests, &mut problem, &mut warnings);
    let remarks = Remarks::new(&problem, &telling);
    warnings.append(&mut remarks.warnings(&problem));
    let custody = disruption::custody(manifests, &problem, bound, guards, &mut warnings);
    Ok(Snapshot { problem, custody, remarks, warnings })
}
