//! The operator's choices, and why there is nothing to start with.

use std::time::Duration;

/// What the controller is told of EC2.
#[derive(Debug, Clone, PartialEq)]
pub struct Options {
    /// Name of the EKS cluster.
    pub cluster: String,
    /// URL of its API server as nodes see it; none asks EKS.
    pub endpoint: Option<String>,
    /// Certificate authority of its API server, base64 of PEM; none asks EKS.
    pub certificate_authority: Option<String>,
    /// Whether the VPC has no way out: prices are not asked for, and instance profiles are not removed.
    pub is_isolated: bool,
    /// Whether the version of Kubernetes is asked of EKS, and not of the API server.
    pub asks_eks_for_version: bool,
    /// Part of the memory that the hypervisor keeps.
    pub vm_memory_overhead: f64,
    /// Network interfaces of each instance that pods do not get.
    pub reserved_enis: u32,
    /// Whether a launch with each class is tried out before the first one.
    pub tries_launches: bool,
    /// How long what the selectors of a class have found is good for.
    pub look_up_every: Duration,
}

/// Why there is no EC2 to launch in. `Display` is the whole message, hint included.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum StartError {
    /// The program was built without it.
    #[error(
        "`--cloud aws` is not part of this build of the program\n\nhint: take the container image, or build with \
         `cargo build --release --package muster-controller --features ec2`"
    )]
    NotBuilt,
    /// Nobody says where.
    #[error("{0}")]
    NoRegion(String),
    /// What nodes have to know of their cluster is not to be had.
    #[error("{what} of the cluster `{cluster}` is not known: {reason}\n\nhint: {hint}")]
    Cluster {
        /// What is missing.
        what: &'static str,
        /// Name of the cluster.
        cluster: String,
        /// Why.
        reason: String,
        /// What to do.
        hint: &'static str,
    },
    /// The instance types are not to be had.
    #[error(
        "the instance types of `{region}` are not known: {reason}\n\nhint: allow ec2:DescribeInstanceTypes and \
         ec2:DescribeInstanceTypeOfferings (`muster iam-policy`), and check AWS_REGION"
    )]
    Types {
        /// The region.
        region: String,
        /// Why.
        reason: String,
    },
    /// What a class of EC2 refers to cannot be looked up without making some of it.
    #[error(
        "`--dry-run` is for `--cloud kwok` only\n\nhint: ask `muster plan --cluster` what would be launched, and \
         `muster disrupt -f` what would be taken away: neither writes anything"
    )]
    WritesNothing,
}

// === impl Options ===

impl Options {
    /// For the cluster of that name, with Karpenter's defaults.
    #[must_use]
    pub fn of(cluster: impl Into<String>) -> Self {
        Self {
            cluster: cluster.into(),
            endpoint: None,
            certificate_authority: None,
            is_isolated: false,
            asks_eks_for_version: false,
            vm_memory_overhead: 0.075,
            reserved_enis: 0,
            tries_launches: true,
            look_up_every: Duration::from_secs(60),
        }
    }
}

// === impl StartError ===

impl StartError {
    /// Whether it is the operator who has to say something else.
    #[must_use]
    pub const fn is_usage(&self) -> bool {
        matches!(self, Self::NotBuilt | Self::NoRegion(_) | Self::WritesNothing)
    }
}
