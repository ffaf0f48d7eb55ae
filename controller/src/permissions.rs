//! Permissions of the controller in a cluster: the single table from which the chart's roles are generated, and which
//! is checked at startup.
//!
//! Read permissions follow from [`crate::watch`], write permissions from [`muster_stages::step::Write`]: a new kind or
//! write is added to the table automatically or does not compile. The permissions of operators follow from the
//! gateway's rules.

use std::collections::{BTreeMap, BTreeSet};

use k8s_openapi::api::authorization::v1::ResourceAttributes;
use k8s_openapi::api::rbac::v1::PolicyRule;
use muster_gateway::Rule;
use muster_stages::archive::{SLOTS, slot};
use muster_stages::step::Write;

use crate::watch::kinds::{DEVICES, RESOURCE_SLICES, RESOURCES, SELECTING, TEMPLATES};

/// Name of the Secret with the keys of the server for agents.
pub(crate) const AGENTS_SECRET: &str = "muster-agents";

/// Scope of a permission.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Place {
    /// Cluster-wide.
    Cluster,
    /// The namespace of the Lease, which also holds the keys of the agent service and the records of failed nodes.
    LeaseNamespace,
    /// The namespace of the cluster's DNS service.
    KubeSystem,
}

/// Feature that needs a permission.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum For {
    /// Every configuration.
    Any,
    /// Launching on EC2.
    Aws,
    /// Launching nodes simulated by KWOK.
    Kwok,
    /// Serving agents, and operators along with them.
    Agents,
    /// Telling pods which coming node is meant for them.
    Nominations,
    /// Writing deletion costs to pods.
    DeletionCosts,
    /// Following kube-scheduler's configured default topology spread.
    DefaultSpread,
    /// Evaluating NodeOverlays (gate `NodeOverlay`).
    Overlays,
    /// Keeping the room of CapacityBuffers (gate `CapacityBuffer`).
    Buffers,
    /// Launching nodes for pods with claims of dynamic resources.
    Devices,
}

/// Configuration of a controller that decides which permissions it needs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Uses {
    /// Cloud: [`For::Aws`] or [`For::Kwok`].
    pub cloud: For,
    /// True if replicas elect a leader.
    pub elects: bool,
    /// True if agents are served.
    pub serves_agents: bool,
    /// True if nominations are written to pods.
    pub nominates: bool,
    /// True if deletion costs are written to pods.
    pub writes_deletion_costs: bool,
    /// True if Services and owners of pods are read for the default topology spread.
    pub reads_selectors: bool,
    /// True if NodeOverlays have an effect.
    pub overlays: bool,
    /// True if CapacityBuffers have an effect.
    pub buffers: bool,
    /// True if nodes are launched for pods with claims of dynamic resources.
    pub devices: bool,
}

/// Objects that a permission covers, by name.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Named {
    /// Objects of any name.
    Any,
    /// The object of this name.
    One(&'static str),
    /// The ConfigMaps that hold records of nodes ([`muster_stages::archive`]).
    Slots,
}

impl Named {
    /// Returns the RBAC `resourceNames`; none for objects of any name.
    fn names(self) -> Option<Vec<String>> {
        match self {
            Self::Any => None,
            Self::One(name) => Some(vec![name.to_owned()]),
            Self::Slots => Some((0..SLOTS).map(slot).collect()),
        }
    }
}

/// One verb on one resource.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Permission {
    /// Scope in which it is needed.
    pub place: Place,
    /// Feature that needs it.
    pub by: For,
    /// API group; empty for the core group.
    pub group: &'static str,
    /// Plural name, with the subresource.
    pub resource: &'static str,
    /// Objects that it covers.
    pub named: Named,
    /// RBAC verb.
    pub verb: &'static str,
}

const KARPENTER: &str = "karpenter.sh";
const AWS: &str = "karpenter.k8s.aws";
const KWOK: &str = "karpenter.kwok.sh";
const AUTOSCALING: &str = "autoscaling.x-k8s.io";
const COORDINATION: &str = "coordination.k8s.io";

/// Lease for Karpenter's leader election. Sharing it ensures that Karpenter and Muster never act at the same time.
pub const LEASE: &str = "karpenter-leader-election";

const fn of(group: &'static str, resource: &'static str, verb: &'static str) -> Permission {
    Permission { place: Place::Cluster, by: For::Any, group, resource, named: Named::Any, verb }
}

impl Permission {
    const fn on(self, by: For) -> Self {
        Self { by, ..self }
    }

    const fn at(self, place: Place, named: Named) -> Self {
        Self { place, named, ..self }
    }

    /// Returns the namespace in which it is needed, given the namespace of the Lease; none if it is cluster-wide.
    #[must_use]
    pub const fn namespace<'n>(&self, namespace: &'n str) -> Option<&'n str> {
        match self.place {
            Place::Cluster => None,
            Place::LeaseNamespace => Some(namespace),
            Place::KubeSystem => Some("kube-system"),
        }
    }

    /// Returns the access reviews to send to the API server, one for each object name. `lease` replaces the chart's
    /// Lease name.
    #[must_use]
    pub fn questions(&self, namespace: &str, lease: Option<&str>) -> Vec<ResourceAttributes> {
        let (resource, subresource) =
            self.resource.split_once('/').map_or((self.resource, None), |(of, sub)| (of, Some(sub)));
        let of = |name: Option<String>| ResourceAttributes {
            group: Some(self.group.to_owned()),
            resource: Some(resource.to_owned()),
            subresource: subresource.map(str::to_owned),
            name,
            namespace: self.namespace(namespace).map(str::to_owned),
            verb: Some(self.verb.to_owned()),
            ..ResourceAttributes::default()
        };
        let named = |name: String| if name == LEASE { lease.map_or(name, str::to_owned) } else { name };
        match self.named.names() {
            None => vec![of(None)],
            Some(names) => names.into_iter().map(|name| of(Some(named(name)))).collect(),
        }
    }
}

/// Permissions that follow neither from a watch nor from a [`Write`].
const OTHERS: [Permission; 17] = [
    // A claim that blocks the deletion of its pool sets `blockOwnerDeletion` in its owner reference, as does a Node of
    // a claim.
    of(KARPENTER, "nodepools/finalizers", "update"),
    of(KARPENTER, "nodeclaims/finalizers", "update"),
    // An instance of the KWOK cloud is a Node.
    of("", "nodes", "create").on(For::Kwok),
    of("", "nodes/status", "patch").on(For::Kwok),
    of(COORDINATION, "leases", "create").at(Place::LeaseNamespace, Named::Any),
    of(COORDINATION, "leases", "get").at(Place::LeaseNamespace, Named::One(LEASE)),
    of(COORDINATION, "leases", "update").at(Place::LeaseNamespace, Named::One(LEASE)),
    of(COORDINATION, "leases", "patch").at(Place::LeaseNamespace, Named::One(LEASE)),
    // Its cluster IP is passed to the kubelets of new nodes.
    of("", "services", "get").at(Place::KubeSystem, Named::One("kube-dns")),
    // The keys of the agent service. RBAC cannot restrict `create` by name; an admission policy of the chart does, for
    // the names of `created`.
    of("", "secrets", "create").on(For::Agents).at(Place::LeaseNamespace, Named::Any),
    of("", "secrets", "get").on(For::Agents).at(Place::LeaseNamespace, Named::One(AGENTS_SECRET)),
    of("", "secrets", "update").on(For::Agents).at(Place::LeaseNamespace, Named::One(AGENTS_SECRET)),
    // Records of nodes that failed to join the cluster.
    of("", "configmaps", "create").on(For::Agents).at(Place::LeaseNamespace, Named::Any),
    of("", "configmaps", "get").on(For::Agents).at(Place::LeaseNamespace, Named::Slots),
    of("", "configmaps", "update").on(For::Agents).at(Place::LeaseNamespace, Named::Slots),
    // Authenticates operators by their tokens.
    of("authentication.k8s.io", "tokenreviews", "create").on(For::Agents),
    // Authorizes operators.
    of("authorization.k8s.io", "subjectaccessreviews", "create").on(For::Agents),
];

/// Returns the permissions that a write needs.
fn needed(write: &Kind) -> &'static [Permission] {
    match write {
        Kind::CreateClaim => const { &[of(KARPENTER, "nodeclaims", "create")] },
        Kind::ClaimMeta => const { &[of(KARPENTER, "nodeclaims", "patch")] },
        Kind::ClaimStatus => const { &[of(KARPENTER, "nodeclaims/status", "patch")] },
        Kind::DeleteClaim => const { &[of(KARPENTER, "nodeclaims", "delete")] },
        Kind::Node => const { &[of("", "nodes", "patch")] },
        Kind::DeleteNode => const { &[of("", "nodes", "delete")] },
        Kind::ClassMeta => {
            const { &[of(AWS, "ec2nodeclasses", "patch").on(For::Aws), of(KWOK, "kwoknodeclasses", "patch").on(For::Kwok)] }
        }
        Kind::ClassStatus => const { &[of(AWS, "ec2nodeclasses/status", "patch").on(For::Aws)] },
        Kind::ClassCondition => {
            const {
                &[
                    of(AWS, "ec2nodeclasses/status", "patch").on(For::Aws),
                    of(KWOK, "kwoknodeclasses/status", "patch").on(For::Kwok),
                ]
            }
        }
        Kind::PoolMeta => const { &[of(KARPENTER, "nodepools", "patch")] },
        Kind::PoolStatus => const { &[of(KARPENTER, "nodepools/status", "patch")] },
        Kind::OverlayStatus => const { &[of(KARPENTER, "nodeoverlays/status", "patch").on(For::Overlays)] },
        Kind::BufferStatus => const { &[of(AUTOSCALING, "capacitybuffers/status", "patch").on(For::Buffers)] },
        Kind::Nominate => const { &[of("", "pods/status", "patch").on(For::Nominations)] },
        Kind::PodDeletionCost => const { &[of("", "pods", "patch").on(For::DeletionCosts)] },
        Kind::Evict => const { &[of("", "pods/eviction", "create")] },
        Kind::DeletePod => const { &[of("", "pods", "delete")] },
        Kind::Cloud => &[],
        Kind::Event => const { &[of("", "events", "create"), of("", "events", "patch")] },
    }
}

/// The kinds of [`Write`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Kind {
    CreateClaim,
    ClaimMeta,
    ClaimStatus,
    DeleteClaim,
    Node,
    DeleteNode,
    ClassMeta,
    ClassCondition,
    ClassStatus,
    PoolMeta,
    PoolStatus,
    OverlayStatus,
    BufferStatus,
    Nominate,
    PodDeletionCost,
    Evict,
    DeletePod,
    Cloud,
    Event,
}

impl Kind {
    const ALL: [Self; 19] = [
        Self::CreateClaim,
        Self::ClaimMeta,
        Self::ClaimStatus,
        Self::DeleteClaim,
        Self::Node,
        Self::DeleteNode,
        Self::ClassMeta,
        Self::ClassCondition,
        Self::ClassStatus,
        Self::PoolMeta,
        Self::PoolStatus,
        Self::OverlayStatus,
        Self::BufferStatus,
        Self::Nominate,
        Self::PodDeletionCost,
        Self::Evict,
        Self::DeletePod,
        Self::Cloud,
        Self::Event,
    ];

    const fn of(write: &Write) -> Self {
        match write {
            Write::CreateClaim(_) => Self::CreateClaim,
            Write::ClaimMeta { .. } => Self::ClaimMeta,
            Write::ClaimStatus { .. } => Self::ClaimStatus,
            Write::DeleteClaim { .. } => Self::DeleteClaim,
            Write::Node { .. } => Self::Node,
            Write::DeleteNode { .. } => Self::DeleteNode,
            Write::ClassMeta(_) => Self::ClassMeta,
            Write::ClassCondition(_) => Self::ClassCondition,
            Write::ClassStatus(_) => Self::ClassStatus,
            Write::PoolMeta { .. } => Self::PoolMeta,
            Write::PoolStatus { .. } => Self::PoolStatus,
            Write::OverlayStatus { .. } => Self::OverlayStatus,
            Write::BufferStatus { .. } => Self::BufferStatus,
            Write::Nominate { .. } => Self::Nominate,
            Write::PodDeletionCost { .. } => Self::PodDeletionCost,
            Write::Evict(_) => Self::Evict,
            Write::DeletePod { .. } => Self::DeletePod,
            Write::Cloud(_) => Self::Cloud,
            Write::Event(_) => Self::Event,
        }
    }
}

/// Returns the API server permissions that `write` needs.
#[must_use]
pub fn of_write(write: &Write) -> &'static [Permission] {
    needed(&Kind::of(write))
}

/// Returns all permissions, sorted and without duplicates.
#[must_use]
pub fn all() -> Vec<Permission> {
    let read = RESOURCES.iter().chain([&RESOURCE_SLICES]).map(|one| (one, For::Any));
    let read = read.chain(SELECTING.iter().map(|one| (one, For::DefaultSpread)));
    let read = read.chain(TEMPLATES.iter().map(|one| (one, For::Buffers)));
    let read = read.chain(DEVICES.iter().map(|one| (one, For::Devices)));
    let read = read.flat_map(|(one, by)| ["list", "watch"].map(|verb| of(one.group().0, one.plural, verb).on(by)));
    let written = Kind::ALL.iter().flat_map(needed).copied();
    // A Node, claim or class is read again before it is written to, or to check that it exists.
    let looked_at =
        [of("", "nodes", "get"), of(KARPENTER, "nodeclaims", "get"), of(KWOK, "kwoknodeclasses", "get").on(For::Kwok)];
    let all: BTreeSet<Permission> = read.chain(written).chain(looked_at).chain(OTHERS).collect();
    all.into_iter().collect()
}

/// Returns the permissions that a controller of this configuration needs.
#[must_use]
pub fn needed_by(uses: Uses) -> Vec<Permission> {
    let is_needed = |one: &Permission| match (one.by, one.place) {
        (For::Agents, _) => uses.serves_agents,
        (For::Nominations, _) => uses.nominates,
        (For::DeletionCosts, _) => uses.writes_deletion_costs,
        (For::DefaultSpread, _) => uses.reads_selectors,
        (For::Overlays, _) => uses.overlays,
        (For::Buffers, _) => uses.buffers,
        (For::Devices, _) => uses.devices,
        (_, Place::LeaseNamespace) => uses.elects,
        // Only kubelets need the address of the DNS service, and KWOK nodes have none.
        (_, Place::KubeSystem) => uses.cloud == For::Aws,
        (by, Place::Cluster) => by == For::Any || by == uses.cloud,
    };
    all().into_iter().filter(is_needed).collect()
}

/// Returns the names of the Secrets and of the ConfigMaps that the controller creates.
#[must_use]
pub fn created() -> (Vec<String>, Vec<String>) {
    let names = |named: Named| named.names().unwrap_or_default();
    (names(Named::One(AGENTS_SECRET)), names(Named::Slots))
}

/// Returns the rules of a role for a scope and a feature.
#[must_use]
pub fn rules(place: Place, by: For) -> Vec<PolicyRule> {
    let mut verbs: BTreeMap<(&str, &str, Named), Vec<String>> = BTreeMap::new();
    for one in all().into_iter().filter(|one| one.place == place && one.by == by) {
        verbs.entry((one.group, one.resource, one.named)).or_default().push(one.verb.to_owned());
    }
    // Resources with the same verbs share a rule.
    let mut rules: BTreeMap<Alike<'_>, Vec<String>> = BTreeMap::new();
    for ((group, resource, named), verbs) in verbs {
        rules.entry((group, verbs, named)).or_default().push(resource.to_owned());
    }
    let rule = |((group, verbs, named), resources): (Alike<'_>, Vec<String>)| PolicyRule {
        api_groups: Some(vec![group.to_owned()]),
        resources: Some(resources),
        resource_names: named.names(),
        verbs,
        non_resource_urls: None,
    };
    rules.into_iter().map(rule).collect()
}

/// Group, verbs and names that one rule shares.
type Alike<'a> = (&'a str, Vec<String>, Named);

/// Returns the roles for operators, keyed by the gRPC service that they may call, such as `diagnosis`: all its RPCs,
/// and the paths that describe how to call them.
#[must_use]
pub fn of_operators() -> BTreeMap<String, Vec<PolicyRule>> {
    let mut roles: BTreeMap<String, BTreeMap<&str, Vec<String>>> = BTreeMap::new();
    let mut of_all = Vec::new();
    for (path, rule) in muster_gateway::rules() {
        let Rule::Operator(verb) = rule else { continue };
        let service = path.split('/').nth(1).unwrap_or_default();
        match service.strip_prefix("muster.v1.") {
            Some(own) => {
                let role = roles.entry(own.to_ascii_lowercase()).or_default();
                role.entry(verb.name()).or_default().push(path.to_owned());
            }
            None => of_all.push((verb.name(), path.to_owned())),
        }
    }
    let rules = |mut by_verb: BTreeMap<&str, Vec<String>>| {
        for (verb, path) in of_all.clone() {
            by_verb.entry(verb).or_default().push(path);
        }
        let rule = |(verb, mut paths): (&str, Vec<String>)| {
            paths.sort_unstable();
            PolicyRule { non_resource_urls: Some(paths), verbs: vec![verb.to_owned()], ..PolicyRule::default() }
        };
        by_verb.into_iter().map(rule).collect()
    };
    roles.into_iter().map(|(service, by_verb)| (service, rules(by_verb))).collect()
}

#[cfg(test)]
mod tests;
