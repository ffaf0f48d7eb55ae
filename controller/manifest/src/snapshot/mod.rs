//! Conversion of a cluster's objects to the problem that the engine solves.
//!
//! ```text
//!  Manifests ─► expand   workloads to pods     ─► sort   pending, bound, or ignored ───┐
//!               buffers  virtual pods                                                  ├─► sort::release ─► Problem
//!               resolve  template to PodSpec (volumes, default_spread) ─► nodes, pools ┘   (nominated pods that
//!                                                                                         do not fit are pending)
//!               unlaunched, attach_limits  room of nodes to come, by the types that they may be ──► into the Problem
//!               devices  resource claims as resources of nodes, types and pods ──► into the Problem, before release
//!               disruption  constraints on disrupting nodes, pods and pools ─────────────────► ManagedNodes
//! ```
//!
//! References to other objects (claims, classes, namespaces) are resolved here, once per distinct template.

use muster_aws::AwsFeatureGates;
use muster_scheduling::model::{Catalogue, Problem};

use crate::{DefaultSpread, InputError, Manifests, NodeClass};

mod attach_limits;
mod buffers;
mod default_spread;
mod devices;
mod disruption;
mod drift;
mod eviction_cost;
mod expand;
mod gates;
mod in_flight;
mod mark;
mod nodes;
mod notices;
mod overlays;
mod pools;
mod remarks;
mod repair;
mod resolve;
mod selectors;
mod sort;
#[cfg(test)]
mod tests;
mod unlaunched;
mod unusable;
mod volumes;
mod zonal_shift;

pub use buffers::{ResolvedBuffer, Unresolved};
pub use disruption::ManagedNodes;
pub use eviction_cost::eviction_cost;
pub use gates::{FeatureGates, ParsedGates, parse_aws_gates};
pub use mark::Mark;
pub use nodes::runs_on;
pub use notices::Notice;
pub use overlays::OverlaidTypes;
pub use remarks::{Remark, Remarks};
pub use repair::{RepairPolicy, conditions_due};

/// Function that returns the instance types of a NodeClass, or of the default class if it is not in the input (`None`).
/// With `--catalog` the result does not depend on the class.
pub type Types<'a> = dyn Fn(Option<&NodeClass>) -> Catalogue + 'a;

/// Options that affect a snapshot.
#[derive(Debug, Clone, Default)]
pub struct Settings {
    /// `--feature-gates`.
    pub gates: FeatureGates,
    /// `--scheduler-config`.
    pub default_spread: DefaultSpread,
    /// `--legacy-node-repair`: nodes are repaired by the policies of Karpenter 1.14.
    pub legacy_node_repair: bool,
    /// `RebootForRepair` of `--aws-feature-gates`.
    pub reboot_for_repair: bool,
    /// Devices of resource claims.
    pub devices: DeviceSettings,
}

/// Options of dynamic resource allocation.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct DeviceSettings {
    /// Nodes are launched for pods with resource claims (`--ignore-dra-requests=false`).
    pub allocates: bool,
    /// `DRANVIDIAGPU` of `--aws-feature-gates`: the GPUs of EC2 instance types are known.
    pub nvidia: bool,
    /// `DRAEFA` of `--aws-feature-gates`: the network devices of EC2 instance types are known.
    pub efa: bool,
}

impl DeviceSettings {
    /// Returns the settings of these gates.
    #[must_use]
    pub const fn new(gates: AwsFeatureGates, allocates: bool) -> Self {
        Self { allocates, nvidia: gates.dra_nvidia_gpu, efa: gates.dra_efa }
    }

    /// Returns the settings of these gates where no other option says if nodes are launched for claims.
    #[must_use]
    pub const fn of_gates(gates: AwsFeatureGates) -> Self {
        Self::new(gates, gates.dra_nvidia_gpu || gates.dra_efa)
    }
}

// === impl Settings ===

impl Settings {
    /// Returns the policies by which nodes are repaired.
    #[must_use]
    pub const fn repair_policy(&self) -> RepairPolicy {
        RepairPolicy { is_legacy: self.legacy_node_repair, reboots: self.reboot_for_repair }
    }
}

/// A cluster as input of the engine.
#[derive(Debug)]
pub struct Snapshot {
    /// The scheduling problem.
    pub problem: Problem,
    /// Disruption constraints of its nodes.
    pub managed_nodes: ManagedNodes,
    /// Likely mistakes in the manifests of pending pods.
    pub remarks: Remarks,
    /// CapacityBuffers with the number of their pods, which are the last ones of the problem; empty if the gate is off.
    pub buffers: Vec<ResolvedBuffer>,
    /// Warnings for stderr, one line each.
    pub warnings: Vec<String>,
    /// Those of the warnings that are about one object, and remarks on pending pods.
    pub notices: Vec<Notice>,
}

/// Builds a snapshot from the objects of the input.
///
/// # Errors
/// Fails on errors that only appear when objects are combined. Errors of single pods, pools or claims are not returned:
/// they become reasons in the plan, or warnings.
pub fn assemble(manifests: &Manifests, settings: &Settings, types: &Types<'_>) -> Result<Snapshot, InputError> {
    // Other gates affect the engine and disruption only: static pools in the input always apply.
    let gates = &settings.gates;
    let mut problem = Problem::default();
    problem.closed_zones.clone_from(&manifests.observed.closed_zones);
    let mut warnings = Vec::new();
    let resolver = &mut resolve::Resolver::new(manifests, settings, &mut problem);
    let roots = expand::Roots::new(manifests);
    let mut guards = disruption::Guards::new(manifests, settings);
    let sort::Sorted { pending, telling, mut bound } = sort::Sorted::new(manifests, &roots, resolver, &mut guards);
    let daemons = nodes::daemons(manifests, resolver);
    let mut pending = pending;
    let buffers = if gates.capacity_buffer {
        buffers::append(manifests, &mut pending, resolver, &mut warnings)
    } else {
        buffers::warn_without_gate(manifests, &mut warnings);
        Vec::new()
    };
    warnings.append(&mut resolver.warnings());
    let claims = resolver.take_claims();
    problem.pods = pending;
    problem.nodes = nodes::nodes(manifests, &bound, &daemons, &mut warnings);
    sort::release(&mut bound, &mut problem);
    problem.daemons = daemons.into_iter().map(|daemon| daemon.model).collect();
    pools::append(manifests, types, &mut problem, &mut warnings);
    problem.take_reserved(&in_flight::reserved(&manifests.node_claims));
    let mut notices = if gates.node_overlay {
        overlays::apply(manifests, &mut problem, &mut warnings)
    } else {
        overlays::warn_without_gate(manifests, &mut warnings);
        Vec::new()
    };
    let unlaunched = unlaunched::find(manifests, &problem);
    unlaunched::apply(&unlaunched, &mut problem);
    warnings.extend(unlaunched::warnings(manifests, &problem));
    attach_limits::apply(manifests, &unlaunched, &mut problem);
    devices::apply(manifests, settings.devices, &claims, &mut bound, &mut problem);
    let remarks = Remarks::new(&problem, &telling);
    notices.append(&mut notices::on_pods(&remarks, &problem));
    notices.extend(guards.notices());
    warnings.append(&mut remarks.warnings(&problem));
    let managed_nodes = disruption::managed_nodes(manifests, &problem, bound, guards, &mut warnings);
    Ok(Snapshot { problem, managed_nodes, remarks, buffers, warnings, notices })
}
