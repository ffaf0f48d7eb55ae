//! `muster iam-policy`.

use clap::{Args, ValueEnum};

use super::OutputFormat;
use super::run::boolean;

/// `muster iam-policy`.
#[derive(Debug, Args)]
pub(crate) struct IamPolicyArguments {
    /// Name of the EKS cluster
    #[arg(long, env = "CLUSTER_NAME", value_name = "NAME")]
    pub(crate) cluster_name: String,
    /// The AWS region of the cluster
    #[arg(long, env = "AWS_REGION", value_name = "REGION")]
    pub(crate) region: String,
    /// The account, by its twelve digits; any, if it is not given
    #[arg(long, value_name = "ID", default_value = "*")]
    pub(crate) account: String,
    /// The partition: `aws`, `aws-cn`, `aws-eusc`, `aws-us-gov`, `aws-iso`, `aws-iso-b`, `aws-iso-e` or `aws-iso-f`
    /// [default: that of the region]
    #[arg(long, value_name = "NAME")]
    pub(crate) partition: Option<String>,
    /// Name of the role of nodes, or its ARN; `*` stands for any text [default: KarpenterNodeRole- and the cluster's
    /// name]
    #[arg(long, value_name = "ROLE")]
    pub(crate) node_role: Option<String>,
    /// Name of the interruption queue [default: the cluster's name]
    #[arg(long, env = "INTERRUPTION_QUEUE", value_name = "NAME")]
    pub(crate) interruption_queue: Option<String>,
    /// Zonal shifts are heeded: with the feature `zonal-shifts`
    #[arg(long, env = "ENABLE_ZONAL_SHIFT", value_name = "BOOL", value_parser = boolean(), ignore_case = true, hide_possible_values = true, num_args = 0..=1, require_equals = true, default_value = "false", default_missing_value = "true")]
    pub(crate) enable_zonal_shift: bool,
    /// Features besides launching and terminating instances; repeatable [default: all but console and zonal-shifts]
    #[arg(long = "feature", value_enum, ignore_case = true, value_name = "FEATURE", value_delimiter = ',')]
    pub(crate) features: Vec<PolicyFeature>,
    /// Only actions that change nothing: enough for `muster run --dry-run`
    #[arg(long)]
    pub(crate) read_only: bool,
    /// Format of the output [default: table on a terminal, else json]
    #[arg(short = 'o', long = "output", value_enum, ignore_case = true, value_name = "FORMAT")]
    pub(crate) output: Option<OutputFormat>,
}

/// Optional features of the controller that need permissions.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum PolicyFeature {
    /// Nothing else
    Core,
    /// Instance profiles of EC2NodeClasses with `spec.role`
    InstanceProfiles,
    /// `spec.capacityReservationSelectorTerms`
    CapacityReservations,
    /// `spec.placementGroupSelector`
    PlacementGroups,
    /// Current prices in place of the embedded ones
    Prices,
    /// The interruption queue
    Interruptions,
    /// Zonal shifts (`--enable-zonal-shift`)
    ZonalShifts,
    /// The console's last lines in the message of a node that never came; Karpenter does not ask for this
    Console,
}
