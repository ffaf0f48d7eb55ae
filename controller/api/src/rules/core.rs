//! Rules of the kinds in `karpenter.sh` and of CapacityBuffer.

use super::Rule;

/// Labels that describe the instance type or name the NodeClass.
macro_rules! type_labels {
    () => {
        concat!(
            "'karpenter.k8s.aws/ec2nodeclass', ",
            "'karpenter.k8s.aws/instance-accelerator-count', ",
            "'karpenter.k8s.aws/instance-accelerator-manufacturer', ",
            "'karpenter.k8s.aws/instance-accelerator-name', ",
            "'karpenter.k8s.aws/instance-capability-flex', ",
            "'karpenter.k8s.aws/instance-category', ",
            "'karpenter.k8s.aws/instance-cpu', ",
            "'karpenter.k8s.aws/instance-cpu-manufacturer', ",
            "'karpenter.k8s.aws/instance-cpu-sustained-clock-speed-mhz', ",
            "'karpenter.k8s.aws/instance-ebs-bandwidth', ",
            "'karpenter.k8s.aws/instance-encryption-in-transit-supported', ",
            "'karpenter.k8s.aws/instance-family', ",
            "'karpenter.k8s.aws/instance-generation', ",
            "'karpenter.k8s.aws/instance-gpu-count', ",
            "'karpenter.k8s.aws/instance-gpu-manufacturer', ",
            "'karpenter.k8s.aws/instance-gpu-memory', ",
            "'karpenter.k8s.aws/instance-gpu-name', ",
            "'karpenter.k8s.aws/instance-hypervisor', ",
            "'karpenter.k8s.aws/instance-local-nvme', ",
            "'karpenter.k8s.aws/instance-memory', ",
            "'karpenter.k8s.aws/instance-network-bandwidth', ",
            "'karpenter.k8s.aws/instance-size'"
        )
    };
}

/// Labels in the domain `karpenter.k8s.aws` that NodePools and NodeClaims may constrain.
macro_rules! aws_labels {
    () => {
        concat!(
            "[",
            "'karpenter.k8s.aws/capacity-reservation-id', ",
            "'karpenter.k8s.aws/capacity-reservation-interruptible', ",
            "'karpenter.k8s.aws/capacity-reservation-type', ",
            type_labels!(),
            ", ",
            "'karpenter.k8s.aws/instance-tenancy', ",
            "'karpenter.k8s.aws/placement-group-id', ",
            "'karpenter.k8s.aws/placement-group-partition'",
            "]"
        )
    };
}

/// Labels that NodeOverlays may constrain, which apply before tenancy, reservation and placement are chosen.
macro_rules! aws_overlay_labels {
    () => {
        concat!("[", type_labels!(), "]")
    };
}

/// Requires that a label key in the domain `karpenter.sh` is a known one.
macro_rules! core_domain {
    ($key:literal) => {
        (
            concat!(
                $key,
                " in ['karpenter.sh/capacity-type', 'karpenter.sh/nodepool'] || !",
                $key,
                ".find('^([^/]+)').endsWith('karpenter.sh')"
            ),
            "labels in the domain `karpenter.sh` are reserved, except `karpenter.sh/capacity-type`",
        )
    };
}

macro_rules! aws_domain {
    ($key:literal, $allowed:expr) => {
        (
            concat!($key, " in ", $allowed, " || !", $key, ".find('^([^/]+)').endsWith('karpenter.k8s.aws')"),
            "labels in the domain `karpenter.k8s.aws` are reserved, except the well-known ones",
        )
    };
}

const NO_HOSTNAME_KEY: Rule =
    ("self != 'kubernetes.io/hostname'", "label `kubernetes.io/hostname` is reserved: a new node has no name yet");

/// `key` of a requirement of a NodeClaim.
pub(crate) const CLAIM_REQUIREMENT_KEY: &[Rule] =
    &[core_domain!("self"), NO_HOSTNAME_KEY, aws_domain!("self", aws_labels!())];

/// `key` of a requirement of a NodePool.
pub(crate) const POOL_REQUIREMENT_KEY: &[Rule] = &[
    core_domain!("self"),
    ("self != 'karpenter.sh/nodepool'", "label `karpenter.sh/nodepool` is reserved: a pool's nodes carry its own name"),
    NO_HOSTNAME_KEY,
    aws_domain!("self", aws_labels!()),
];

/// `key` of a requirement of a NodeOverlay.
pub(crate) const OVERLAY_REQUIREMENT_KEY: &[Rule] =
    &[core_domain!("self"), NO_HOSTNAME_KEY, aws_domain!("self", aws_overlay_labels!())];

const IN_HAS_VALUES: Rule =
    ("self.all(x, x.operator == 'In' ? x.values.size() != 0 : true)", "`values` may not be empty with operator `In`");

const NUMERIC_HAS_ONE_NUMBER: Rule = (
    "self.all(x, x.operator in ['Gt', 'Lt', 'Gte', 'Lte'] ? (x.values.size() == 1 && int(x.values[0]) >= 0) : true)",
    "`values` must be one whole number, not negative, with operators `Gt`, `Lt`, `Gte` and `Lte`",
);

/// `requirements` of a NodePool or NodeClaim.
pub(crate) const CLAIM_REQUIREMENTS: &[Rule] = &[
    IN_HAS_VALUES,
    NUMERIC_HAS_ONE_NUMBER,
    (
        "self.all(x, (x.operator == 'In' && has(x.minValues)) ? x.values.size() >= x.minValues : true)",
        "`values` must have at least `minValues` entries with operator `In`",
    ),
];

/// `requirements` of a NodeOverlay.
pub(crate) const OVERLAY_REQUIREMENTS: &[Rule] = &[
    (
        "self.all(x, x.operator == 'NotIn' ? x.values.size() != 0 : true)",
        "`values` may not be empty with operator `NotIn`",
    ),
    IN_HAS_VALUES,
    NUMERIC_HAS_ONE_NUMBER,
];

/// `labels` of a NodePool's template.
pub(crate) const TEMPLATE_LABELS: &[Rule] = &[
    (
        "self.all(x, x in ['karpenter.sh/capacity-type', 'karpenter.sh/nodepool'] || !x.find('^([^/]+)').endsWith('karpenter.sh'))",
        "labels in the domain `karpenter.sh` are reserved, except `karpenter.sh/capacity-type`",
    ),
    (
        "self.all(x, x != 'karpenter.sh/nodepool')",
        "label `karpenter.sh/nodepool` is reserved: a pool's nodes carry its own name",
    ),
    (
        "self.all(x, x != 'kubernetes.io/hostname')",
        "label `kubernetes.io/hostname` is reserved: a new node has no name yet",
    ),
    (
        concat!("self.all(x, x in ", aws_labels!(), " || !x.find('^([^/]+)').endsWith('karpenter.k8s.aws'))"),
        "labels in the domain `karpenter.k8s.aws` are reserved, except the well-known ones",
    ),
];

/// `group` of a NodeClass reference.
pub(crate) const REFERENCE_GROUP: &[Rule] = &[("self != ''", "`group` may not be empty")];

/// `kind` of a NodeClass reference.
pub(crate) const REFERENCE_KIND: &[Rule] = &[("self != ''", "`kind` may not be empty")];

/// `name` of a NodeClass reference.
pub(crate) const REFERENCE_NAME: &[Rule] = &[("self != ''", "`name` may not be empty")];

/// `nodeClassRef` of a NodePool: a changed name is drift, a changed kind would be another cloud.
pub(crate) const POOL_REFERENCE: &[Rule] = &[
    ("self.group == oldSelf.group", "`nodeClassRef.group` cannot be changed"),
    ("self.kind == oldSelf.kind", "`nodeClassRef.kind` cannot be changed"),
];

/// `disruption.budgets` of a NodePool.
pub(crate) const BUDGETS: &[Rule] =
    &[("self.all(x, has(x.schedule) == has(x.duration))", "`schedule` and `duration` must be set together")];

/// `spec` of a NodePool.
pub(crate) const POOL: &[Rule] = &[
    (
        "has(self.replicas) == has(oldSelf.replicas)",
        "`replicas` can be neither added nor removed: a NodePool stays static or dynamic",
    ),
    (
        "!has(self.replicas) || !has(self.limits) || size(self.limits) == 0 || (size(self.limits) == 1 && 'nodes' in self.limits)",
        "`limits` may only have `nodes` when `replicas` is set",
    ),
    ("!has(self.replicas) || !has(self.weight)", "`weight` may not be set together with `replicas`"),
];

/// `spec` of a NodeClaim.
pub(crate) const CLAIM: &[Rule] = &[("self == oldSelf", "`spec` cannot be changed")];

/// `spec` of a NodeOverlay.
pub(crate) const OVERLAY: &[Rule] =
    &[("!has(self.price) || !has(self.priceAdjustment)", "`price` and `priceAdjustment` may not both be set")];

/// `capacity` of a NodeOverlay.
pub(crate) const OVERLAY_CAPACITY: &[Rule] = &[(
    "self.all(x, !(x in ['cpu', 'memory', 'ephemeral-storage', 'pods']))",
    "`capacity` may only have extended resources: not `cpu`, `memory`, `ephemeral-storage` or `pods`",
)];

/// `spec` of a CapacityBuffer.
pub(crate) const BUFFER: &[Rule] = &[
    (
        "!has(self.podTemplateRef) || has(self.replicas) || has(self.limits)",
        "`replicas` or `limits` must be set when `podTemplateRef` is",
    ),
    ("!(has(self.podTemplateRef) && has(self.scalableRef))", "`podTemplateRef` and `scalableRef` may not both be set"),
];
