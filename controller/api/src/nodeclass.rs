//! EC2NodeClass: the settings of nodes that are specific to EC2.

mod devices;
mod ignored;
mod kubelet;
mod network;
mod selectors;
mod status;

use std::collections::BTreeMap;
use std::fmt;

use kube::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

pub use self::devices::{BlockDevice, BlockDeviceMapping, InstanceStorePolicy, VolumeType};
pub use self::ignored::IgnoredTerm;
pub use self::kubelet::KubeletSettings;
pub use self::network::{
    ConnectionTracking, CpuOptions, EnclaveOptions, InterfaceType, MetadataOptions, NetworkInterface, Toggle,
    TokenState,
};
pub use self::selectors::{
    AmiSelectorTerm, CapacityReservationSelectorTerm, InstanceMatchCriteria, PlacementGroupSelector,
    SecurityGroupSelectorTerm, SubnetSelectorTerm,
};
pub use self::status::{
    Ami, AmiRequirement, CapacityReservation, Ec2NodeClassStatus, ReservationState, ReservationType, SecurityGroup,
    Subnet,
};

use crate::rules::{self, cel};

/// Launch settings of EC2 instances for a NodePool.
#[derive(CustomResource, Debug, Clone, PartialEq, Default, Serialize, Deserialize, JsonSchema)]
#[kube(
    group = "karpenter.k8s.aws",
    version = "v1",
    kind = "EC2NodeClass",
    root = "Ec2NodeClass",
    plural = "ec2nodeclasses",
    singular = "ec2nodeclass",
    doc = "How EC2 instances are launched: networks, images, disks and the settings of their kubelet.",
    category = "karpenter",
    shortname = "ec2nc",
    shortname = "ec2ncs",
    status = "Ec2NodeClassStatus",
    derive = "PartialEq",
    derive = "Default",
    printcolumn = r#"{"name": "Ready", "type": "string", "jsonPath": ".status.conditions[?(@.type==\"Ready\")].status"}"#,
    printcolumn = r#"{"name": "Age", "type": "date", "jsonPath": ".metadata.creationTimestamp"}"#,
    printcolumn = r#"{"name": "Role", "type": "string", "jsonPath": ".spec.role", "priority": 1}"#
)]
#[serde(rename_all = "camelCase")]
#[schemars(extend("x-kubernetes-validations" = cel(rules::NODE_CLASS)))]
pub struct Ec2NodeClassSpec {
    /// Subnets that instances may be launched in: the union of what the terms select.
    #[schemars(length(max = 30), extend("x-kubernetes-validations" = cel(rules::SUBNET_TERMS)))]
    pub subnet_selector_terms: Vec<SubnetSelectorTerm>,
    /// Security groups of the instances: the union of what the terms select.
    #[schemars(length(max = 30), extend("x-kubernetes-validations" = cel(rules::SECURITY_GROUP_TERMS)))]
    pub security_group_selector_terms: Vec<SecurityGroupSelectorTerm>,
    /// Capacity reservations that instances may be launched into: the union of what the terms select.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 30))]
    #[schemars(extend("x-kubernetes-validations" = cel(rules::CAPACITY_RESERVATION_TERMS)))]
    pub capacity_reservation_selector_terms: Vec<CapacityReservationSelectorTerm>,
    /// Placement group that instances are launched into.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub placement_group_selector: Option<PlacementGroupSelector>,
    /// Assigns a public IPv4 address to instances; absent means the setting of the subnet.
    #[serde(default, rename = "associatePublicIPAddress", skip_serializing_if = "Option::is_none")]
    pub associate_public_ip_address: Option<bool>,
    /// Number of address prefixes that the primary network interface gets.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0))]
    pub ip_prefix_count: Option<i32>,
    /// Machine images: the union of what the terms select, newest first.
    #[schemars(length(min = 1, max = 30), extend("x-kubernetes-validations" = cel(rules::AMI_TERMS)))]
    pub ami_selector_terms: Vec<AmiSelectorTerm>,
    /// Family of the images, which decides the format of user data; absent means that of the alias.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ami_family: Option<AmiFamily>,
    /// User data that is merged with what the family needs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub user_data: Option<String>,
    /// IAM role of the instances; an instance profile is made for it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("x-kubernetes-validations" = cel(rules::ROLE)))]
    pub role: Option<String>,
    /// Instance profile of the instances, if it exists already.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("x-kubernetes-validations" = cel(rules::INSTANCE_PROFILE)))]
    pub instance_profile: Option<String>,
    /// Tags of everything that is made in EC2 for a node.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    #[schemars(extend("x-kubernetes-validations" = cel(rules::TAGS)))]
    pub tags: BTreeMap<String, String>,
    /// Settings of the kubelet.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub kubelet: Option<KubeletSettings>,
    /// Disks of the instances; absent is what the family needs.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 50))]
    #[schemars(extend("x-kubernetes-validations" = cel(rules::BLOCK_DEVICES)))]
    pub block_device_mappings: Vec<BlockDeviceMapping>,
    /// Policy for the local disks of an instance type.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub instance_store_policy: Option<InstanceStorePolicy>,
    /// Network interfaces of the instances; absent is one.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 150))]
    #[schemars(extend("x-kubernetes-validations" = cel(rules::NETWORK_INTERFACES)))]
    pub network_interfaces: Vec<NetworkInterface>,
    /// Enables detailed monitoring: metrics of instances every minute.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub detailed_monitoring: Option<bool>,
    /// Access of instances to their metadata service.
    #[serde(default)]
    pub metadata_options: MetadataOptions,
    /// Timeouts of idle tracked connections. Requires an instance type on the Nitro hypervisor.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub connection_tracking: Option<ConnectionTracking>,
    /// Handed to EC2 as it is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub context: Option<String>,
    /// Settings of the processor.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cpu_options: Option<CpuOptions>,
    /// Nitro Enclaves.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub enclave_options: Option<EnclaveOptions>,
}

/// Families of machine images: how they start and what they need in their user data.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema)]
pub enum AmiFamily {
    /// Amazon Linux 2: a shell script runs `bootstrap.sh`.
    #[serde(rename = "AL2")]
    Al2,
    /// Amazon Linux 2023: `nodeadm` reads a NodeConfig.
    #[serde(rename = "AL2023")]
    Al2023,
    /// Bottlerocket: settings in TOML.
    Bottlerocket,
    /// Anything else: the user data is left alone.
    Custom,
    /// Windows Server 2019: a PowerShell script.
    Windows2019,
    /// Windows Server 2022: a PowerShell script.
    Windows2022,
    /// Windows Server 2025: a PowerShell script.
    Windows2025,
}

// === impl Ec2NodeClassSpec ===

impl Ec2NodeClassSpec {
    /// Returns the effective AMI family: `amiFamily` if set, else the family of the alias.
    #[must_use]
    pub fn resolved_ami_family(&self) -> Option<AmiFamily> {
        self.ami_family.or_else(|| {
            let (family, _version) =
                self.ami_selector_terms.iter().find_map(|term| term.alias.as_deref()?.split_once('@'))?;
            AmiFamily::from_alias(family)
        })
    }
}

// === impl AmiFamily ===

impl AmiFamily {
    /// Returns the family for the part of an alias before the `@`.
    #[must_use]
    pub fn from_alias(family: &str) -> Option<Self> {
        match family {
            "al2" => Some(Self::Al2),
            "al2023" => Some(Self::Al2023),
            "bottlerocket" => Some(Self::Bottlerocket),
            "windows2019" => Some(Self::Windows2019),
            "windows2022" => Some(Self::Windows2022),
            "windows2025" => Some(Self::Windows2025),
            _ => None,
        }
    }

    /// Returns the name of the family in manifests.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Al2 => "AL2",
            Self::Al2023 => "AL2023",
            Self::Bottlerocket => "Bottlerocket",
            Self::Custom => "Custom",
            Self::Windows2019 => "Windows2019",
            Self::Windows2022 => "Windows2022",
            Self::Windows2025 => "Windows2025",
        }
    }

    /// Returns true if the images run Windows.
    #[must_use]
    pub const fn is_windows(self) -> bool {
        matches!(self, Self::Windows2019 | Self::Windows2022 | Self::Windows2025)
    }
}

impl fmt::Display for AmiFamily {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}
