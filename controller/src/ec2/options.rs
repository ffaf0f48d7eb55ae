//! Options of the EC2 provider, and errors at startup.

use std::time::Duration;

use muster_aws::AwsFeatureGates;

/// Usual interval between questions about zonal shifts: Karpenter's.
pub const ZONAL_SHIFTS_EVERY: Duration = Duration::from_secs(30);

/// Configuration of the EC2 provider.
#[derive(Debug, Clone, PartialEq)]
pub struct Options {
    /// Name of the EKS cluster.
    pub cluster: String,
    /// URL of its API server as nodes reach it; none reads it from EKS.
    pub endpoint: Option<String>,
    /// Certificate authority of its API server, base64 of PEM; none reads it from EKS.
    pub certificate_authority: Option<String>,
    /// True if the VPC has no internet access: prices are not updated, and instance profiles are not removed.
    pub is_isolated: bool,
    /// True if the Kubernetes version is read from EKS instead of the API server.
    pub asks_eks_for_version: bool,
    /// Fraction of memory that the hypervisor reserves.
    pub vm_memory_overhead: f64,
    /// Number of network interfaces per instance that are not available to pods.
    pub reserved_enis: u32,
    /// True if a trial launch validates each class before its first launch.
    pub tries_launches: bool,
    /// Feature gates of AWS.
    pub gates: AwsFeatureGates,
    /// Interval between lookups of the selectors of a class.
    pub look_up_every: Duration,
    /// Name of the interruption queue, if there is one.
    pub queue: Option<String>,
    /// Interval between questions about zonal shifts; none does not heed them.
    pub zonal_shifts_every: Option<Duration>,
    /// True if nothing may be created or changed in AWS: the status of classes is computed, and not tried out.
    pub only_reads: bool,
}

/// Error that prevents the EC2 provider from starting. `Display` has the whole message, including a hint.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum StartError {
    /// The program was built without the feature `ec2`.
    #[error(
        "`--cloud aws` is not part of this build of the program\n\nhint: take the container image, or build with \
         `cargo build --release --package muster-controller --features ec2`"
    )]
    NotBuilt,
    /// The AWS region is not configured.
    #[error("{0}")]
    NoRegion(String),
    /// Configuration of the cluster that nodes need is not available.
    #[error("{what} of the cluster `{cluster}` is not known: {reason}\n\nhint: {hint}")]
    Cluster {
        /// The missing value.
        what: &'static str,
        /// Name of the cluster.
        cluster: String,
        /// The cause.
        reason: String,
        /// Suggested fix.
        hint: &'static str,
    },
    /// The instance types cannot be read.
    #[error(
        "the instance types of `{region}` are not known: {reason}\n\nhint: allow ec2:DescribeInstanceTypes and \
         ec2:DescribeInstanceTypeOfferings (`muster iam-policy`), and check AWS_REGION"
    )]
    Types {
        /// The region.
        region: String,
        /// The cause.
        reason: String,
    },
    /// The cluster is not registered with ARC, so that there are no zonal shifts of it.
    #[error(
        "`--enable-zonal-shift`: the cluster `{cluster}` is not registered with the Application Recovery Controller (ARC)\n\n\
         hint: `aws eks update-cluster-config --name {cluster} --zonal-shift-config enabled=true`, or leave \
         `--enable-zonal-shift` and ENABLE_ZONAL_SHIFT out"
    )]
    NotRegistered {
        /// Name of the cluster.
        cluster: String,
    },
    /// The zonal shifts of the cluster may not be read.
    #[error(
        "`--enable-zonal-shift`: the zonal shifts of the cluster `{cluster}` cannot be read: {reason}\n\nhint: allow \
         arc-zonal-shift:GetManagedResource (`muster iam-policy`)"
    )]
    ZonalShifts {
        /// Name of the cluster.
        cluster: String,
        /// The cause.
        reason: String,
    },
}

// === impl Options ===

impl Options {
    /// Returns the options for the cluster of that name, with Karpenter's defaults.
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
            gates: AwsFeatureGates::default(),
            look_up_every: Duration::from_secs(60),
            queue: None,
            zonal_shifts_every: None,
            only_reads: false,
        }
    }
}

// === impl StartError ===

impl StartError {
    /// Returns true if the operator must change the command or configuration.
    #[must_use]
    pub const fn is_usage(&self) -> bool {
        matches!(self, Self::NotBuilt | Self::NoRegion(_) | Self::NotRegistered { .. })
    }
}
