//! Rules of EC2NodeClass.

use super::Rule;

/// Requires that `amiFamily` is the family of the alias or `Custom`.
macro_rules! alias_family {
    ($family:literal, $alias:literal) => {
        (
            concat!(
                "!has(self.amiFamily) || !self.amiSelectorTerms.exists(x, has(x.alias) && x.alias.find('^[^@]+') == '",
                $alias,
                "') || self.amiFamily in ['Custom', '",
                $family,
                "']"
            ),
            concat!(
                "`amiFamily` must be `",
                $family,
                "` or `Custom`, or absent, with an alias of the family `",
                $alias,
                "`"
            ),
        )
    };
}

/// `spec` of an EC2NodeClass.
pub(crate) const NODE_CLASS: &[Rule] = &[
    ("has(self.role) != has(self.instanceProfile)", "exactly one of `role` and `instanceProfile` must be set"),
    alias_family!("AL2", "al2"),
    alias_family!("AL2023", "al2023"),
    alias_family!("Bottlerocket", "bottlerocket"),
    alias_family!("Windows2019", "windows2019"),
    alias_family!("Windows2022", "windows2022"),
    alias_family!("Windows2025", "windows2025"),
    (
        "self.amiSelectorTerms.exists(x, has(x.alias)) ? true : has(self.amiFamily)",
        "`amiFamily` must be set when no term of `amiSelectorTerms` has an `alias`",
    ),
];

/// `tags` of a selector term.
pub(crate) const SELECTOR_TAGS: &[Rule] = &[(
    "self.all(k, k != '' && self[k] != '')",
    "`tags` may have neither an empty key nor an empty value: use `*` for any value",
)];

/// `subnetSelectorTerms`.
pub(crate) const SUBNET_TERMS: &[Rule] = &[
    ("self.size() != 0", "`subnetSelectorTerms` may not be empty"),
    ("self.all(x, has(x.tags) || has(x.id))", "each term of `subnetSelectorTerms` needs `tags` or `id`"),
    ("!self.all(x, has(x.id) && has(x.tags))", "`id` may not be combined with `tags` in `subnetSelectorTerms`"),
];

/// `securityGroupSelectorTerms`.
pub(crate) const SECURITY_GROUP_TERMS: &[Rule] = &[
    ("self.size() != 0", "`securityGroupSelectorTerms` may not be empty"),
    (
        "self.all(x, has(x.tags) || has(x.id) || has(x.name))",
        "each term of `securityGroupSelectorTerms` needs `tags`, `id` or `name`",
    ),
    (
        "!self.all(x, has(x.id) && (has(x.tags) || has(x.name)))",
        "`id` may not be combined with `tags` or `name` in `securityGroupSelectorTerms`",
    ),
    (
        "!self.all(x, has(x.name) && (has(x.tags) || has(x.id)))",
        "`name` may not be combined with `tags` or `id` in `securityGroupSelectorTerms`",
    ),
];

/// `capacityReservationSelectorTerms`.
pub(crate) const CAPACITY_RESERVATION_TERMS: &[Rule] = &[
    (
        "self.all(x, has(x.tags) || has(x.id) || has(x.instanceMatchCriteria))",
        "each term of `capacityReservationSelectorTerms` needs `tags`, `id` or `instanceMatchCriteria`",
    ),
    (
        "!self.all(x, has(x.id) && (has(x.tags) || has(x.ownerID) || has(x.instanceMatchCriteria)))",
        "`id` may not be combined with other fields in `capacityReservationSelectorTerms`",
    ),
];

/// `amiSelectorTerms`.
pub(crate) const AMI_TERMS: &[Rule] = &[
    (
        "self.all(x, has(x.tags) || has(x.id) || has(x.name) || has(x.alias) || has(x.ssmParameter))",
        "each term of `amiSelectorTerms` needs `tags`, `id`, `name`, `alias` or `ssmParameter`",
    ),
    (
        "!self.exists(x, has(x.id) && (has(x.alias) || has(x.tags) || has(x.name) || has(x.owner)))",
        "`id` may not be combined with `alias`, `tags`, `name` or `owner` in a term of `amiSelectorTerms`",
    ),
    (
        "!self.exists(x, has(x.alias) && (has(x.id) || has(x.tags) || has(x.name) || has(x.owner)))",
        "`alias` may not be combined with `id`, `tags`, `name` or `owner` in a term of `amiSelectorTerms`",
    ),
    (
        "self.size() == 1 || !self.exists(x, has(x.alias))",
        "a term with an `alias` must be the only one of `amiSelectorTerms`",
    ),
];

/// `alias` of an AMI selector term.
pub(crate) const AMI_ALIAS: &[Rule] = &[
    ("self.matches('^[a-zA-Z0-9]+@.+$')", "`alias` must have the form family@version"),
    (
        "self.split('@')[0] in ['al2', 'al2023', 'bottlerocket', 'windows2019', 'windows2022', 'windows2025']",
        "`alias` must be of the family al2, al2023, bottlerocket, windows2019, windows2022 or windows2025",
    ),
    (
        "self.split('@')[0] in ['windows2019', 'windows2022', 'windows2025'] ? self.split('@')[1] == 'latest' : true",
        "`alias` of a Windows family must have the version latest",
    ),
];

/// `placementGroupSelector`.
pub(crate) const PLACEMENT_GROUP: &[Rule] = &[
    ("has(self.name) || has(self.id)", "`placementGroupSelector` needs `name` or `id`"),
    ("!(has(self.name) && has(self.id))", "`name` and `id` may not both be set in `placementGroupSelector`"),
];

/// `role`.
pub(crate) const ROLE: &[Rule] = &[("self != ''", "`role` may not be empty")];

/// `instanceProfile`.
pub(crate) const INSTANCE_PROFILE: &[Rule] = &[("self != ''", "`instanceProfile` may not be empty")];

/// `tags`: those that the controller sets are reserved.
pub(crate) const TAGS: &[Rule] = &[
    ("self.all(k, k != '')", "`tags` may not have an empty key"),
    ("self.all(k, k != 'eks:eks-cluster-name')", "tag `eks:eks-cluster-name` is reserved"),
    (
        "self.all(k, !k.startsWith('kubernetes.io/cluster'))",
        "tags that begin with `kubernetes.io/cluster` are reserved",
    ),
    ("self.all(k, k != 'karpenter.sh/nodepool')", "tag `karpenter.sh/nodepool` is reserved"),
    ("self.all(k, k != 'karpenter.sh/nodeclaim')", "tag `karpenter.sh/nodeclaim` is reserved"),
    ("self.all(k, k != 'karpenter.k8s.aws/ec2nodeclass')", "tag `karpenter.k8s.aws/ec2nodeclass` is reserved"),
];

/// `blockDeviceMappings`.
pub(crate) const BLOCK_DEVICES: &[Rule] = &[(
    "self.filter(x, has(x.rootVolume) && x.rootVolume).size() <= 1",
    "at most one of `blockDeviceMappings` may have `rootVolume: true`",
)];

/// `ebs` of a block device.
pub(crate) const BLOCK_DEVICE: &[Rule] = &[
    ("has(self.snapshotID) || has(self.volumeSize)", "`ebs` needs `snapshotID` or `volumeSize`"),
    (
        "!has(self.volumeInitializationRate) || (has(self.snapshotID) && self.snapshotID != '')",
        "`volumeInitializationRate` needs a `snapshotID`",
    ),
];

/// `networkInterfaces`.
pub(crate) const NETWORK_INTERFACES: &[Rule] = &[
    (
        "self.size() == 0 || self.exists(x, x.networkCardIndex == 0 && x.deviceIndex == 0 && x.interfaceType == 'interface')",
        "`networkInterfaces` needs a primary one: card 0, device 0, type `interface`",
    ),
    (
        "self.all(x, self.filter(y, x.networkCardIndex == y.networkCardIndex && x.deviceIndex == y.deviceIndex).size() == 1 \
         && (x.interfaceType != 'efa-only' || self.filter(y, x.networkCardIndex == y.networkCardIndex && y.interfaceType == 'efa-only').size() == 1))",
        "`networkInterfaces` may have each pair of card and device once, and one `efa-only` interface per card",
    ),
];

/// `connectionTracking`.
pub(crate) const CONNECTION_TRACKING: &[Rule] = &[(
    "has(self.tcpEstablishedTimeout) || has(self.udpStreamTimeout) || has(self.udpTimeout)",
    "`connectionTracking` needs `tcpEstablishedTimeout`, `udpStreamTimeout` or `udpTimeout`",
)];
