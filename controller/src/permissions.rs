//! What the controller may do in a cluster: the one table that the chart's roles are made from, and that is checked at
//! start.
//!
//! Reading follows from [`crate::watch`], writing from [`crate::step::Write`]: a kind or a write that is new is in the table
//! by itself, or does not compile.

use std::collections::{BTreeMap, BTreeSet};

use k8s_openapi::api::rbac::v1::PolicyRule;

use crate::step::Write;
use crate::watch::kinds::{RESOURCE_SLICES, RESOURCES, SERVICES};

/// Where something is allowed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Place {
    /// Everywhere.
    Cluster,
    /// In the namespace of the lease.
    LeaseNamespace,
    /// In the namespace of the cluster's name server.
    KubeSystem,
}

/// Which cloud needs it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum For {
    /// Each.
    Any,
    /// EC2.
    Aws,
    /// Nodes that KWOK brings to life.
    Kwok,
}

/// One verb on one resource.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Permission {
    /// Where it is needed.
    pub place: Place,
    /// Who needs it.
    pub cloud: For,
    /// API group; empty for the core group.
    pub group: &'static str,
    /// Plural, with the subresource.
    pub resource: &'static str,
    /// Name of the object, where it is always the same.
    pub name: Option<&'static str>,
    /// As RBAC names it.
    pub verb: &'static str,
}

const KARPENTER: &str = "karpenter.sh";
const AWS: &str = "karpenter.k8s.aws";
const KWOK: &str = "karpenter.kwok.sh";
const COORDINATION: &str = "coordination.k8s.io";

/// The lease that Karpenter stands for election with: with the same one, both never act at once.
pub const LEASE: &str = "karpenter-leader-election";

const fn of(group: &'static str, resource: &'static str, verb: &'static str) -> Permission {
    Permission { place: Place::Cluster, cloud: For::Any, group, resource, name: None, verb }
}

impl Permission {
    const fn on(self, cloud: For) -> Self {
        Self { cloud, ..self }
    }

    const fn at(self, place: Place, name: Option<&'static str>) -> Self {
        Self { place, name, ..self }
    }
}

/// What no watch and no [`Write`] stands for.
const OTHERS: [Permission; 9] = [
    // A claim that blocks the deletion of its pool, and a Node that blocks that of its claim, say so in their owners.
    of(KARPENTER, "nodepools/finalizers", "update"),
    of(KARPENTER, "nodeclaims/finalizers", "update"),
    // An instance of that cloud is a Node.
    of("", "nodes", "create").on(For::Kwok),
    of("", "nodes/status", "patch").on(For::Kwok),
    of(COORDINATION, "leases", "create").at(Place::LeaseNamespace, None),
    of(COORDINATION, "leases", "get").at(Place::LeaseNamespace, Some(LEASE)),
    of(COORDINATION, "leases", "update").at(Place::LeaseNamespace, Some(LEASE)),
    of(COORDINATION, "leases", "patch").at(Place::LeaseNamespace, Some(LEASE)),
    // Its address is what the kubelets of new nodes are told.
    of("", "services", "get").at(Place::KubeSystem, Some("kube-dns")),
];

/// What a write needs.
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
        Kind::Nominate => const { &[of("", "pods/status", "patch")] },
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
    Nominate,
    Evict,
    DeletePod,
    Cloud,
    Event,
}

impl Kind {
    const ALL: [Self; 16] = [
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
        Self::Nominate,
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
            Write::Nominate { .. } => Self::Nominate,
            Write::Evict(_) => Self::Evict,
            Write::DeletePod { .. } => Self::DeletePod,
            Write::Cloud(_) => Self::Cloud,
            Write::Event(_) => Self::Event,
        }
    }
}

/// What `write` needs of the API server.
#[must_use]
pub fn of_write(write: &Write) -> &'static [Permission] {
    needed(&Kind::of(write))
}

/// All of them, sorted, each once.
#[must_use]
pub fn all() -> Vec<Permission> {
    let read = RESOURCES.iter().chain([&SERVICES, &RESOURCE_SLICES]);
    let read = read.flat_map(|one| ["list", "watch"].map(|verb| of(one.group().0, one.plural, verb)));
    let written = Kind::ALL.iter().flat_map(needed).copied();
    // A Node, a claim or a class is looked at once more before it is written to, or to see whether it is there.
    let looked_at = [of("", "nodes", "get"), of(KARPENTER, "nodeclaims", "get"), of(KWOK, "kwoknodeclasses", "get")];
    let all: BTreeSet<Permission> = read.chain(written).chain(looked_at).chain(OTHERS).collect();
    all.into_iter().collect()
}

/// The rules of a role for what is needed at a place, by a cloud or by each.
#[must_use]
pub fn rules(place: Place, cloud: For) -> Vec<PolicyRule> {
    let mut verbs: BTreeMap<(&str, &str, Option<&str>), Vec<String>> = BTreeMap::new();
    for one in all().into_iter().filter(|one| one.place == place && one.cloud == cloud) {
        verbs.entry((one.group, one.resource, one.name)).or_default().push(one.verb.to_owned());
    }
    // Resources with the same verbs share a rule.
    let mut rules: BTreeMap<Alike<'_>, Vec<String>> = BTreeMap::new();
    for ((group, resource, name), verbs) in verbs {
        rules.entry((group, verbs, name)).or_default().push(resource.to_owned());
    }
    let rule = |((group, verbs, name), resources): (Alike<'_>, Vec<String>)| PolicyRule {
        api_groups: Some(vec![group.to_owned()]),
        resources: Some(resources),
        resource_names: name.map(|name| vec![name.to_owned()]),
        verbs,
        non_resource_urls: None,
    };
    rules.into_iter().map(rule).collect()
}

/// Group, verbs and name of what stands in one rule.
type Alike<'a> = (&'a str, Vec<String>, Option<&'a str>);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_kind_of_write_is_in_the_table_once() {
        let listed: BTreeSet<Kind> = Kind::ALL.into_iter().collect();
        assert_eq!(listed.len(), Kind::ALL.len());
        // `Kind::of` and `needed` are total; whoever adds a kind finds the third place here.
        assert_eq!(Kind::ALL.last(), Some(&Kind::Event));
        assert_eq!(Kind::ALL.len() - 1, Kind::Event as usize);
    }

    #[test]
    fn nothing_is_allowed_that_is_not_needed() {
        let all = all();
        assert!(all.iter().all(|one| one.verb != "*" && one.resource != "*" && one.group != "*"));
        assert!(!all.iter().any(|one| one.resource == "secrets"), "a controller of nodes reads no secrets");
        let deleted: BTreeSet<&str> = all.iter().filter(|one| one.verb == "delete").map(|one| one.resource).collect();
        assert_eq!(deleted, BTreeSet::from(["nodeclaims", "nodes", "pods"]));
    }

    #[test]
    fn the_roles_of_the_chart_are_those_of_the_table() {
        let block = |place, cloud| -> String {
            let text = serde_saphyr::to_string(&rules(place, cloud)).unwrap();
            text.lines().map(|line| format!("  {line}\n")).collect()
        };
        let head = |kind: &str, suffix: &str, namespace: &str| {
            let namespace = if namespace.is_empty() { String::new() } else { format!("  namespace: {namespace}\n") };
            let api = "apiVersion: rbac.authorization.k8s.io/v1";
            let metadata = format!("{{{{- include \"muster.metadata\" (list \"{suffix}\" .) | nindent 2 }}}}");
            format!("{api}\nkind: {kind}\nmetadata:\n{namespace}  {metadata}\nrules:\n")
        };
        let current = [
            "# Written by a test of muster-controller from src/permissions.rs. Edit that.\n".to_owned(),
            head("ClusterRole", "", ""),
            block(Place::Cluster, For::Any),
            "  {{- if eq .Values.settings.cloud \"aws\" }}\n".to_owned(),
            block(Place::Cluster, For::Aws),
            "  {{- else }}\n".to_owned(),
            block(Place::Cluster, For::Kwok),
            "  {{- end }}\n  {{- with .Values.additionalClusterRoleRules }}\n  {{- toYaml . | nindent 2 }}\n  {{- end }}\n"
                .to_owned(),
            format!("---\n{}", head("Role", "-lease", "{{ include \"muster.leaseNamespace\" . }}")),
            block(Place::LeaseNamespace, For::Any),
            format!("---\n{}", head("Role", "-dns", "kube-system")),
            block(Place::KubeSystem, For::Any),
        ]
        .concat();
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../charts/muster/templates/roles.yaml");
        if std::fs::read_to_string(path).unwrap_or_default() != current {
            std::fs::write(path, current).unwrap();
            panic!(
                "the roles of the chart were out of date and have been written anew: look at the difference and commit it"
            );
        }
    }
}
