//! Arguments of `muster run`: Karpenter's options under their names, each with its environment variable, and Muster's
//! own.

use std::path::PathBuf;

use clap::builder::{PossibleValue, PossibleValuesParser, TypedValueParser};
use clap::{Args, ValueEnum};

use super::{MinValuesPolicy, PaybackArguments, PreferencePolicy};

/// Clouds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum CloudName {
    /// EC2 instances
    Aws,
    /// Nodes that are objects only, and that KWOK brings to life
    Kwok,
}

/// Output format of `--dry-run`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum ReportFormat {
    /// For people
    Text,
    /// For programs: a document a line
    Json,
}

/// Returns the parser of booleans: Go's `strconv.ParseBool`, by which Karpenter reads them, also takes `1`, `t`, `0`
/// and `f`.
pub(super) fn boolean() -> impl TypedValueParser<Value = bool> {
    let words = [PossibleValue::new("true").aliases(["1", "t"]), PossibleValue::new("false").aliases(["0", "f"])];
    PossibleValuesParser::new(words).map(|word| matches!(word.to_ascii_lowercase().as_str(), "true" | "1" | "t"))
}

/// `muster run`.
#[derive(Debug, Args)]
pub(crate) struct RunArguments {
    /// Cloud in which nodes are launched
    #[arg(long, env = "MUSTER_CLOUD", value_enum, ignore_case = true, value_name = "CLOUD", default_value = "aws")]
    pub(crate) cloud: CloudName,
    /// Tell what would be done, and do nothing: beside Karpenter, with no Lease and no right but to read. The log goes
    /// to stderr
    #[arg(long)]
    pub(crate) dry_run: bool,
    /// With `--dry-run`: how it is told
    #[arg(
        short,
        long,
        value_enum,
        ignore_case = true,
        value_name = "FORMAT",
        default_value = "text",
        requires = "dry_run"
    )]
    pub(crate) output: ReportFormat,
    /// The context of the kubeconfig [default: its current one; in a pod, the service account]
    #[arg(long, value_name = "NAME")]
    pub(crate) context: Option<String>,
    /// With `--cloud kwok`: Karpenter's file of instance types, instead of the 144 of its rule
    #[arg(long, env = "INSTANCE_TYPES_FILE_PATH", value_name = "FILE")]
    pub(crate) instance_types_file_path: Option<PathBuf>,
    /// EC2, with `--cloud aws`
    #[command(flatten)]
    pub(crate) ec2: Ec2Arguments,
    /// Time without new pods after which all waiting pods are scheduled together
    #[arg(long, env = "BATCH_IDLE_DURATION", value_name = "DURATION", default_value = "1s")]
    pub(crate) batch_idle_duration: String,
    /// Maximum time from the first waiting pod until all are scheduled
    #[arg(long, env = "BATCH_MAX_DURATION", value_name = "DURATION", default_value = "10s")]
    pub(crate) batch_max_duration: String,
    /// Decide about a pod when its scheduler has marked it `Unschedulable`, and not before, as Karpenter does
    #[arg(long, env = "WAIT_FOR_UNSCHEDULABLE_MARK", value_name = "BOOL", value_parser = boolean(), ignore_case = true, hide_possible_values = true, num_args = 0..=1, require_equals = true, default_value = "false", default_missing_value = "true")]
    pub(crate) wait_for_unschedulable_mark: bool,
    /// Do not tell pods which coming node is meant for them (`status.nominatedNodeName`, from Kubernetes 1.35 on):
    /// their scheduler spreads them in its own way, and what then fits nowhere is bought again
    #[arg(long, env = "DISABLE_NOMINATIONS", value_name = "BOOL", value_parser = boolean(), ignore_case = true, hide_possible_values = true, num_args = 0..=1, require_equals = true, default_value = "false", default_missing_value = "true")]
    pub(crate) disable_nominations: bool,
    /// Launch no more nodes than this in any minute
    #[arg(long, env = "MAX_LAUNCHES_PER_MINUTE", value_name = "COUNT")]
    pub(crate) max_launches_per_minute: Option<u32>,
    /// Launch nothing that would make all nodes together cost more than this, in USD per hour. Nodes that are being
    /// drained count until they are gone, and those without a known price as the dearest that they may be
    #[arg(long, env = "MAX_HOURLY_PRICE", value_name = "USD")]
    pub(crate) max_hourly_price: Option<f64>,
    /// Savings that consolidation must make
    #[command(flatten)]
    pub(crate) payback: PaybackArguments,
    /// Preferences and `minValues`
    #[command(flatten)]
    pub(crate) policies: PolicyArguments,
    /// A KubeSchedulerConfiguration, for the cluster's default topology spread
    #[arg(long, env = "SCHEDULER_CONFIG", value_name = "FILE")]
    pub(crate) scheduler_config: Option<PathBuf>,
    /// Karpenter's feature gates, such as `ReservedCapacity=false`
    #[arg(long, env = "FEATURE_GATES", value_name = "GATES", value_delimiter = ',')]
    pub(crate) feature_gates: Vec<String>,
    /// Karpenter's feature gates of AWS, such as `NodeClassCEL=true`
    #[arg(long, env = "AWS_FEATURE_GATES", value_name = "GATES", value_delimiter = ',')]
    pub(crate) aws_feature_gates: Vec<String>,
    /// Launch no nodes for pods with claims of dynamic resources. With `false` they are launched if their devices are
    /// known: by the gates `DRANVIDIAGPU` and `DRAEFA`, or from other nodes of the type
    #[arg(long, env = "IGNORE_DRA_REQUESTS", value_name = "BOOL", value_parser = boolean(), ignore_case = true, hide_possible_values = true, num_args = 0..=1, require_equals = true, default_value = "true", default_missing_value = "true")]
    pub(crate) ignore_dra_requests: bool,
    /// With the gate `NodeRepair`: repair as Karpenter did before 1.15, at once, without regard to budgets and
    /// replacements
    #[arg(long, env = "LEGACY_NODE_REPAIR", value_name = "BOOL", value_parser = boolean(), ignore_case = true, hide_possible_values = true, num_args = 0..=1, require_equals = true, default_value = "false", default_missing_value = "true")]
    pub(crate) legacy_node_repair: bool,
    /// Requests a second to the API server
    #[arg(long, env = "KUBE_CLIENT_QPS", value_name = "COUNT", default_value = "200")]
    pub(crate) kube_client_qps: u32,
    /// Requests at once after a rest
    #[arg(long, env = "KUBE_CLIENT_BURST", value_name = "COUNT", default_value = "300")]
    pub(crate) kube_client_burst: u32,
    /// Port of `/metrics`
    #[arg(long, env = "METRICS_PORT", value_name = "PORT", default_value = "8080")]
    pub(crate) metrics_port: u16,
    /// Port of `/healthz` and `/readyz`
    #[arg(long, env = "HEALTH_PROBE_PORT", value_name = "PORT", default_value = "8081")]
    pub(crate) health_probe_port: u16,
    /// Agents of nodes
    #[command(flatten)]
    pub(crate) agents: AgentArguments,
    /// Leader election
    #[command(flatten)]
    pub(crate) lease: LeaseArguments,
    /// The log
    #[command(flatten)]
    pub(crate) log: LogArguments,
    /// Options of Karpenter that have no effect
    #[command(flatten)]
    pub(crate) ineffective: IneffectiveArguments,
}

/// Options of EC2.
#[derive(Debug, Args)]
pub(crate) struct Ec2Arguments {
    /// With `--cloud aws`: name of the EKS cluster
    #[arg(long, env = "CLUSTER_NAME", value_name = "NAME")]
    pub(crate) cluster_name: Option<String>,
    /// With `--cloud aws`: URL of the API server, as nodes see it [default: EKS is asked]
    #[arg(long, env = "CLUSTER_ENDPOINT", value_name = "URL")]
    pub(crate) cluster_endpoint: Option<String>,
    /// With `--cloud aws`: certificate authority of the API server, base64 of PEM [default: EKS is asked]
    #[arg(long, env = "CLUSTER_CA_BUNDLE", value_name = "BASE64")]
    pub(crate) cluster_ca_bundle: Option<String>,
    /// With `--cloud aws`: the VPC has no way out, so no prices are asked for and no instance profiles are removed
    #[arg(long, env = "ISOLATED_VPC", value_name = "BOOL", value_parser = boolean(), ignore_case = true, hide_possible_values = true, num_args = 0..=1, require_equals = true, default_value = "false", default_missing_value = "true")]
    pub(crate) isolated_vpc: bool,
    /// With `--cloud aws`: ask EKS for the version of Kubernetes, and not the API server
    #[arg(long, env = "EKS_CONTROL_PLANE", value_name = "BOOL", value_parser = boolean(), ignore_case = true, hide_possible_values = true, num_args = 0..=1, require_equals = true, default_value = "false", default_missing_value = "true")]
    pub(crate) eks_control_plane: bool,
    /// With `--cloud aws`: part of the memory of instances that their hypervisor keeps
    #[arg(long, env = "VM_MEMORY_OVERHEAD_PERCENT", value_name = "FRACTION", default_value = "0.075")]
    pub(crate) vm_memory_overhead_percent: f64,
    /// With `--cloud aws`: network interfaces of each instance that pods do not get
    #[arg(long, env = "RESERVED_ENIS", value_name = "COUNT", default_value = "0")]
    pub(crate) reserved_enis: u32,
    /// With `--cloud aws`: do not try a launch out before the first one with a class
    #[arg(long, env = "DISABLE_DRY_RUN", value_name = "BOOL", value_parser = boolean(), ignore_case = true, hide_possible_values = true, num_args = 0..=1, require_equals = true, default_value = "false", default_missing_value = "true")]
    pub(crate) disable_dry_run: bool,
    /// With `--cloud aws`: how long images that were found are good for; whatever a class selects is looked up
    /// together, at the shortest of the three intervals
    #[arg(long, env = "AMI_REFRESH_INTERVAL", value_name = "DURATION", default_value = "1m")]
    pub(crate) ami_refresh_interval: String,
    /// With `--cloud aws`: how long subnets that were found are good for
    #[arg(long, env = "SUBNET_REFRESH_INTERVAL", value_name = "DURATION", default_value = "1m")]
    pub(crate) subnet_refresh_interval: String,
    /// With `--cloud aws`: how long security groups that were found are good for
    #[arg(long, env = "SECURITY_GROUP_REFRESH_INTERVAL", value_name = "DURATION", default_value = "1m")]
    pub(crate) security_group_refresh_interval: String,
    /// SQS queue from which notices of interruption are read, by its name; empty for none
    #[arg(long, env = "INTERRUPTION_QUEUE", value_name = "NAME", default_value = "")]
    pub(crate) interruption_queue: String,
    /// With `--cloud aws`: launch nothing in zones that traffic of the cluster is shifted away from (ARC zonal shift
    /// and autoshift); the cluster must be registered with ARC
    #[arg(long, env = "ENABLE_ZONAL_SHIFT", value_name = "BOOL", value_parser = boolean(), ignore_case = true, hide_possible_values = true, num_args = 0..=1, require_equals = true, default_value = "false", default_missing_value = "true")]
    pub(crate) enable_zonal_shift: bool,
}

/// Policies of packing.
#[derive(Debug, Args)]
pub(crate) struct PolicyArguments {
    /// Preferred affinity, anti-affinity and spread, and taints with `PreferNoSchedule`: honoured within limits, or not
    /// at all
    #[arg(
        long,
        env = "PREFERENCE_POLICY",
        value_enum,
        ignore_case = true,
        value_name = "POLICY",
        default_value = "respect"
    )]
    pub(crate) preference_policy: PreferencePolicy,
    /// USD per hour that a preference of weight 100 may cost for one pod; 0 honours what costs nothing
    #[arg(long, env = "PREFERENCE_PRICE", value_name = "USD/H", default_value = "0.0005")]
    pub(crate) preference_price: String,
    /// A `minValues` that cannot be met: launch nothing, or lower it and say so on the node
    #[arg(
        long,
        env = "MIN_VALUES_POLICY",
        value_enum,
        ignore_case = true,
        value_name = "POLICY",
        default_value = "strict"
    )]
    pub(crate) min_values_policy: MinValuesPolicy,
}

/// Options of the server for agents.
#[derive(Debug, Args)]
pub(crate) struct AgentArguments {
    /// With `--cloud aws`: where the agents of nodes are served, such as `9443`; without it nobody is, and nodes are
    /// judged by their Node objects alone
    #[arg(long, env = "AGENT_PORT", value_name = "PORT", requires = "agent_address")]
    pub(crate) agent_port: Option<u16>,
    /// With `--agent-port`: where nodes reach it, such as a load balancer's name. It must work before kube-proxy does
    #[arg(long, env = "AGENT_ADDRESS", value_name = "HOST:PORT")]
    pub(crate) agent_address: Option<String>,
    /// With `--agent-port`: where `grpc.health.v1` and reflection are served, without TLS
    #[arg(long, env = "AGENT_HEALTH_PORT", value_name = "PORT", default_value = "8082")]
    pub(crate) agent_health_port: u16,
    /// With `--agent-port`: certificates of instance identity documents beside those of AWS that are built in, for a
    /// region that is newer than this program: PEM, each under a line `# <region>`
    #[arg(long, env = "AGENT_IDENTITY_CERTIFICATES", value_name = "FILE")]
    pub(crate) agent_identity_certificates: Option<PathBuf>,
}

/// Options of leader election.
#[derive(Debug, Args)]
pub(crate) struct LeaseArguments {
    /// Write without holding the Lease: for a single replica
    #[arg(long, env = "DISABLE_LEADER_ELECTION", value_name = "BOOL", value_parser = boolean(), ignore_case = true, hide_possible_values = true, num_args = 0..=1, require_equals = true, default_value = "false", default_missing_value = "true")]
    pub(crate) disable_leader_election: bool,
    /// Name of the Lease. Karpenter's, so that the two never act together
    #[arg(long, env = "LEADER_ELECTION_NAME", value_name = "NAME", default_value = "karpenter-leader-election")]
    pub(crate) leader_election_name: String,
    /// Namespace of the Lease [default: `SYSTEM_NAMESPACE`, the pod's own, `kube-system`]
    #[arg(long, env = "LEADER_ELECTION_NAMESPACE", value_name = "NAMESPACE")]
    pub(crate) leader_election_namespace: Option<String>,
}

/// Options of the log.
#[derive(Debug, Args)]
pub(crate) struct LogArguments {
    /// `debug`, `info`, `warn`, `error`, or directives such as `info,muster_controller::run=debug`
    #[arg(long, env = "LOG_LEVEL", value_name = "LEVEL", default_value = "info")]
    pub(crate) log_level: String,
    /// Destinations of the log, separated by commas: `stdout`, `stderr` or files
    #[arg(long, env = "LOG_OUTPUT_PATHS", value_name = "PATH", default_value = "stdout")]
    pub(crate) log_output_paths: String,
}

/// Options of Karpenter that have no effect.
#[derive(Debug, Args)]
pub(crate) struct IneffectiveArguments {
    /// Karpenter's; has no effect: errors go where the log goes
    #[arg(long, env = "LOG_ERROR_OUTPUT_PATHS", value_name = "PATH", default_value = "stderr")]
    pub(crate) log_error_output_paths: String,
    /// Karpenter's; has no effect
    #[arg(long, env = "KARPENTER_SERVICE", value_name = "NAME", default_value = "")]
    pub(crate) karpenter_service: String,
    /// Karpenter's; has no effect: Muster has no garbage collector to limit
    #[arg(long, env = "MEMORY_LIMIT", value_name = "BYTES", default_value = "-1", allow_hyphen_values = true)]
    pub(crate) memory_limit: i64,
    /// Karpenter's; has no effect: one thread decides, and waiting costs none
    #[arg(long, env = "CPU_REQUESTS", value_name = "MILLICORES", default_value = "1000")]
    pub(crate) cpu_requests: u32,
    /// Karpenter's; has no effect: Muster serves no profile
    #[arg(long, env = "ENABLE_PROFILING", value_name = "BOOL", value_parser = boolean(), ignore_case = true, hide_possible_values = true, num_args = 0..=1, require_equals = true, default_value = "false", default_missing_value = "true")]
    pub(crate) enable_profiling: bool,
    /// Karpenter's; has no effect: replicas always follow the cluster before they lead
    #[arg(long, env = "DISABLE_CONTROLLER_WARMUP", value_name = "BOOL", value_parser = boolean(), ignore_case = true, hide_possible_values = true, num_args = 0..=1, require_equals = true, default_value = "true", default_missing_value = "true")]
    pub(crate) disable_controller_warmup: bool,
    /// Karpenter's; has no effect: what is observed of the cluster costs nothing until it is asked for
    #[arg(long, env = "DISABLE_CLUSTER_STATE_OBSERVABILITY", value_name = "BOOL", value_parser = boolean(), ignore_case = true, hide_possible_values = true, num_args = 0..=1, require_equals = true, default_value = "false", default_missing_value = "true")]
    pub(crate) disable_cluster_state_observability: bool,
}
