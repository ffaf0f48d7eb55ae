//! Command line arguments. Only [`super::settings`] reads these types; the rest of the program uses its settings.

pub(crate) mod iam_policy;
mod run;

use std::path::PathBuf;

use clap::{Args, Parser, Subcommand, ValueEnum};
use clap_complete::Shell;

use self::iam_policy::IamPolicyArguments;
pub(crate) use self::run::RunArguments;
#[cfg(feature = "cluster")]
pub(crate) use self::run::{
    AgentArguments, CloudName, Ec2Arguments, IneffectiveArguments, LeaseArguments, LogArguments, PolicyArguments,
    ReportFormat,
};

/// The command line of `muster`.
#[derive(Debug, Parser)]
#[command(
    name = "muster",
    version,
    about = "A Karpenter-compatible node autoscaler for EKS",
    long_about = "Muster launches the cheapest nodes for the pods that do not fit on existing ones, from the NodePool and \
                  EC2NodeClass objects that Karpenter uses.\n\n`run` is the controller. The other commands \
                  work on manifests in files, or on what a live cluster holds (`--cluster`): they need no AWS account, and \
                  write nothing anywhere.",
    after_help = "Exit codes: 0 success; 1 the answer is \"no\"; 2 bad input or usage; 3 a cluster, cloud or machine failed.",
    subcommand_required = true,
    arg_required_else_help = true,
    disable_help_subcommand = true,
    max_term_width = 110
)]
pub(crate) struct Arguments {
    #[command(subcommand)]
    pub(crate) command: Command,
}

/// The commands, in the order of the help.
#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Pack the pending pods onto existing nodes, then onto the cheapest new ones
    ///
    /// Nothing is written anywhere: the plan is what the controller would launch now. It is checked by a validator that
    /// shares no code with the packer before it is shown, and comes with a proven lower bound of its price.
    Plan(PlanArguments),
    /// Decide which nodes go, why, and where their pods go
    ///
    /// Nothing is written anywhere: these are the commands that the controller would issue now, in their order, and
    /// what keeps each other managed node. Every command is checked by a validator that shares no code with the
    /// decision.
    Disrupt(DisruptArguments),
    /// Say why one pod or one node is as it is
    ///
    /// For a pod: why it is pending, or where it goes. For a node, planned or existing: what it holds, why it is the
    /// type that it is, and, if it was launched from a NodePool, what keeps it or takes it away.
    Explain(ExplainArguments),
    /// Show each node: how far it has come, and what its agent says
    ///
    /// Each NodeClaim with its Node, and each Node that no NodeClaim stands for; what needs somebody first. A node
    /// whose agent has found what is wrong comes with the cause and the fix.
    Nodes(NodesArguments),
    /// List what agents have found that keeps nodes from being any, also of nodes that are gone; of one, print its logs
    ///
    /// The verdicts that stand at NodeClaims, the last of those that were given up for theirs, which the controller
    /// keeps with the logs that their agents sent, and the NodeClasses with which nothing is launched for it.
    Verdicts(VerdictsArguments),
    /// Play a day of a cluster in virtual time, and say what it costs
    ///
    /// An embedded cluster (a scheduler that places pods as kube-scheduler's default profile would, workload
    /// controllers, kubelets) and an embedded cloud (latencies, capacity that runs out, spot interruptions, machines
    /// that never join) play the workloads of the input; what decides is what runs live. Without a script, load rises
    /// over noon and falls in the evening, and what may go wrong does, once each. Exit code 1 means that a rule was
    /// broken that must always hold.
    Simulate(SimulateArguments),
    /// List the instance types in use, with capacity, overhead and prices
    ///
    /// With `-o json` or `-o yaml` in the form that `--catalog` reads back: `muster types --prices live -o yaml` keeps
    /// the prices of now in a file. Types whose price is not known are listed and never launched.
    Types(TypesArguments),
    /// Rewrite manifests of v1alpha5 and v1beta1 as v1
    ///
    /// Provisioner, AWSNodeTemplate and Machine, and NodePool, EC2NodeClass and NodeClaim of v1beta1; every other
    /// object is printed as it is. What v1 cannot say, or says otherwise, is noted on stderr. Exit code 1 means that v1
    /// would refuse an object until what is noted is mended.
    Convert(ConvertArguments),
    /// Run the controller
    ///
    /// Follows the cluster, launches nodes for pods that wait, and takes nodes away that are deleted or not worth their
    /// price. Several replicas may run: the one that holds the Lease writes. Options and variables of the environment
    /// are Karpenter's where it has them.
    Run(Box<RunArguments>),
    /// Print the CustomResourceDefinitions
    Crds(CrdsArguments),
    /// Print the least that the controller must be allowed in AWS
    ///
    /// As an IAM policy, made from the one table of the calls that the program makes. What is made carries the
    /// cluster's tags from the first moment, and nothing without them may be changed or ended.
    IamPolicy(IamPolicyArguments),
    /// Print the completion script of a shell
    Completions(CompletionsArguments),
}

/// `muster plan`.
#[derive(Debug, Args)]
pub(crate) struct PlanArguments {
    #[command(flatten)]
    pub(crate) input: InputArguments,
    #[command(flatten)]
    pub(crate) packing: PackingArguments,
    /// Exit with 1 if a pod cannot be scheduled
    #[arg(long)]
    pub(crate) strict: bool,
    #[command(flatten)]
    pub(crate) output: OutputArguments,
}

/// `muster disrupt`.
#[derive(Debug, Args)]
pub(crate) struct DisruptArguments {
    #[command(flatten)]
    pub(crate) input: InputArguments,
    #[command(flatten)]
    pub(crate) packing: PackingArguments,
    #[command(flatten)]
    pub(crate) moment: MomentArguments,
    /// Only what cannot wait, and then the first voluntary command, as one pass of Karpenter's loop
    #[arg(long)]
    pub(crate) first: bool,
    #[command(flatten)]
    pub(crate) price: MovePriceArguments,
    /// Capacity that was refused lately, into which nothing is moved: `TYPE`, `TYPE/ZONE` or `TYPE/ZONE/CAPACITY-TYPE`,
    /// a part that is `*` standing for any; or `@FILE` with one on each line; repeatable
    #[arg(long = "refused", value_name = "OFFERING")]
    pub(crate) refused: Vec<String>,
    #[command(flatten)]
    pub(crate) output: OutputArguments,
}

/// The price of a move.
#[derive(Debug, Args)]
pub(crate) struct MovePriceArguments {
    /// USD per hour that moving one pod must save; 0 moves pods for any saving
    #[arg(long, env = "MOVE_PRICE", value_name = "USD/H", default_value = "0.0005")]
    pub(crate) move_price: String,
}

/// The price of a move, and the time in which it is paid back.
#[derive(Debug, Args)]
pub(crate) struct PaybackArguments {
    #[command(flatten)]
    pub(crate) price: MovePriceArguments,
    /// Time in which a launch pays for itself: until then consolidation leaves the node alone, unless its load falls
    #[arg(long, env = "CONSOLIDATION_PAYBACK", value_name = "DURATION", default_value = "1h")]
    pub(crate) consolidation_payback: String,
}

/// `muster simulate`.
#[derive(Debug, Args)]
pub(crate) struct SimulateArguments {
    /// Manifests of what there is when the day begins: a file, a directory, or `-` for stdin; YAML or JSON; repeatable.
    /// Nodes and NodeClaims are left out: the day makes its own
    #[arg(short = 'f', long = "file", value_name = "PATH", required = true)]
    pub(crate) files: Vec<PathBuf>,
    #[command(flatten)]
    pub(crate) catalogue: CatalogueArguments,
    #[command(flatten)]
    pub(crate) packing: PackingArguments,
    /// Script of the day: a `Simulation` of muster.dev/v1; YAML or JSON, `-` for stdin [default: a day with a bit
    /// of everything]
    #[arg(long, value_name = "FILE")]
    pub(crate) script: Option<PathBuf>,
    /// Seed of everything that the script leaves open: latencies, which node is reclaimed
    #[arg(long, value_name = "N", default_value_t = 0)]
    pub(crate) seed: u64,
    /// Print the script, be it the default one, and play nothing: a place to begin a script of your own
    #[arg(long)]
    pub(crate) print_script: bool,
    /// Do not play the day again as a Karpenter-like policy would
    #[arg(long)]
    pub(crate) no_comparison: bool,
    #[command(flatten)]
    pub(crate) payback: PaybackArguments,
    #[command(flatten)]
    pub(crate) output: OutputArguments,
}

/// Time for which a question is answered.
#[derive(Debug, Args)]
pub(crate) struct MomentArguments {
    /// The moment that the question is about, in RFC 3339, such as `2026-11-21T09:30:00Z` [default: now]
    #[arg(long, value_name = "TIME")]
    pub(crate) now: Option<String>,
}

/// `muster explain`.
#[derive(Debug, Args)]
pub(crate) struct ExplainArguments {
    /// Which kind of object
    #[arg(value_enum, ignore_case = true, value_name = "KIND")]
    pub(crate) kind: SubjectKind,
    /// `NAMESPACE/NAME` of the pod (without a namespace: `default`), or the name of the node
    #[arg(value_name = "NAME")]
    pub(crate) name: String,
    #[command(flatten)]
    pub(crate) input: InputArguments,
    /// Of an existing node: where its pods would go if it were gone, and what would be launched
    #[arg(long)]
    pub(crate) if_removed: bool,
    #[command(flatten)]
    pub(crate) packing: PackingArguments,
    #[command(flatten)]
    pub(crate) moment: MomentArguments,
    #[command(flatten)]
    pub(crate) output: OutputArguments,
}

/// `muster nodes`.
#[derive(Debug, Args)]
pub(crate) struct NodesArguments {
    /// Manifests with Nodes and NodeClaims: a file, a directory, or `-` for stdin; YAML or JSON; repeatable
    #[arg(short = 'f', long = "file", value_name = "PATH", required_unless_present = "cluster")]
    pub(crate) files: Vec<PathBuf>,
    #[command(flatten)]
    pub(crate) cluster: ClusterArguments,
    /// Only nodes of this NodePool; repeatable
    #[arg(long = "node-pool", value_name = "NAME")]
    pub(crate) pools: Vec<String>,
    /// More columns in the table: NodeClaim, NodeClass, zone, age and instance
    #[arg(long)]
    pub(crate) wide: bool,
    #[command(flatten)]
    pub(crate) moment: MomentArguments,
    #[command(flatten)]
    pub(crate) output: OutputArguments,
}

/// `muster verdicts`.
#[derive(Debug, Args)]
pub(crate) struct VerdictsArguments {
    /// A NodeClaim or a node: print all that is known of it, and its logs
    #[arg(value_name = "NAME")]
    pub(crate) name: Option<String>,
    /// Manifests with NodeClaims, NodeClasses and the ConfigMaps that the controller keeps: a file, a directory, or `-`
    /// for stdin; YAML or JSON; repeatable
    #[arg(short = 'f', long = "file", value_name = "PATH", required_unless_present = "cluster")]
    pub(crate) files: Vec<PathBuf>,
    #[command(flatten)]
    pub(crate) cluster: ClusterArguments,
    /// The controller's namespace, for users who may not list ConfigMaps in all of them [default: all]
    #[arg(short = 'n', long, value_name = "NAME", requires = "cluster")]
    pub(crate) namespace: Option<String>,
    #[command(flatten)]
    pub(crate) moment: MomentArguments,
    #[command(flatten)]
    pub(crate) output: OutputArguments,
}

/// `muster types`.
#[derive(Debug, Args)]
pub(crate) struct TypesArguments {
    /// A file or directory with an EC2NodeClass, whose AMI family, kubelet settings and block devices decide capacity
    /// and overhead; `-` is stdin. Default: AL2023 and no kubelet settings
    #[arg(short = 'f', long = "file", value_name = "PATH")]
    pub(crate) files: Vec<PathBuf>,
    #[command(flatten)]
    pub(crate) cluster: ClusterArguments,
    /// Which NodeClass, where there are several
    #[arg(long, value_name = "NAME")]
    pub(crate) node_class: Option<String>,
    #[command(flatten)]
    pub(crate) catalogue: CatalogueArguments,
    /// Only types whose name matches, such as `m7g.*`; repeatable, any may match
    #[arg(long = "name", value_name = "GLOB")]
    pub(crate) names: Vec<String>,
    #[command(flatten)]
    pub(crate) output: OutputArguments,
}

/// `muster convert`.
#[derive(Debug, Args)]
pub(crate) struct ConvertArguments {
    /// Manifests: a file, a directory, or `-` for stdin; YAML or JSON; repeatable
    #[arg(short = 'f', long = "file", value_name = "PATH", required = true)]
    pub(crate) files: Vec<PathBuf>,
    /// Format of the result: the objects, or a document with objects and notes
    #[arg(short = 'o', long = "output", value_enum, ignore_case = true, value_name = "FORMAT", default_value = "yaml")]
    pub(crate) output: ConversionFormat,
}

/// Output format of `muster convert`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum ConversionFormat {
    /// The objects, as `kubectl apply -f -` takes them
    Yaml,
    /// One document with the objects and the notes
    Json,
}

/// `muster crds`.
#[derive(Debug, Args)]
pub(crate) struct CrdsArguments {
    /// Format of the output [default: table on a terminal, else yaml]
    #[arg(short = 'o', long = "output", value_enum, ignore_case = true, value_name = "FORMAT")]
    pub(crate) output: Option<OutputFormat>,
}

/// `muster completions`.
#[derive(Debug, Args)]
pub(crate) struct CompletionsArguments {
    /// The shell
    #[arg(value_enum, ignore_case = true)]
    pub(crate) shell: Shell,
}

/// Sources of the cluster and the instance types.
#[derive(Debug, Args)]
pub(crate) struct InputArguments {
    /// Manifests: a file, a directory, or `-` for stdin; YAML or JSON; repeatable. With `--cluster`: on top of the
    /// cluster
    #[arg(short = 'f', long = "file", value_name = "PATH", required_unless_present = "cluster")]
    pub(crate) files: Vec<PathBuf>,
    #[command(flatten)]
    pub(crate) cluster: ClusterArguments,
    #[command(flatten)]
    pub(crate) catalogue: CatalogueArguments,
}

/// Live cluster to read.
#[derive(Debug, Args)]
pub(crate) struct ClusterArguments {
    /// Read the objects of a live cluster, as `kubectl` finds it; nothing is written there
    #[arg(long)]
    pub(crate) cluster: bool,
    /// The context of the kubeconfig [default: its current one]
    #[arg(long, value_name = "NAME", requires = "cluster")]
    pub(crate) context: Option<String>,
}

/// Source of the instance types.
#[derive(Debug, Args)]
pub(crate) struct CatalogueArguments {
    /// An instance catalogue that replaces the embedded one; JSON or YAML, `-` for stdin
    #[arg(long, value_name = "FILE")]
    pub(crate) catalog: Option<PathBuf>,
    /// The AWS region of the embedded catalogue's zones
    #[arg(long, default_value = "us-east-1")]
    pub(crate) region: String,
    /// Prices that replace those of the embedded catalogue: `live` asks AWS for those of the region; a file is a
    /// `PriceList` of muster.dev/v1, or what `aws ec2 describe-spot-price-history` or `aws pricing get-products` prints
    /// (JSON or YAML, `-` for stdin). Repeatable: a later one counts
    #[arg(long, value_name = "live|FILE")]
    pub(crate) prices: Vec<PathBuf>,
}

/// Settings of packing.
#[derive(Debug, Args)]
pub(crate) struct PackingArguments {
    /// Preferred affinity, anti-affinity and spread, and taints with `PreferNoSchedule`: honoured within limits, or not
    /// at all
    #[arg(long, value_enum, ignore_case = true, value_name = "POLICY", default_value = "respect")]
    pub(crate) preference_policy: PreferencePolicy,
    /// USD per hour that a preference of weight 100 may cost for one pod; 0 honours what costs nothing
    #[arg(long, value_name = "USD/H", default_value = "0.0005")]
    pub(crate) preference_price: String,
    /// A `minValues` that cannot be met: launch nothing, or lower it and say so on the node
    #[arg(long, value_enum, ignore_case = true, value_name = "POLICY", default_value = "strict")]
    pub(crate) min_values_policy: MinValuesPolicy,
    /// A KubeSchedulerConfiguration, for the cluster's default topology spread
    #[arg(long, value_name = "FILE")]
    pub(crate) scheduler_config: Option<PathBuf>,
    /// Karpenter's feature gates, such as `ReservedCapacity=false`
    #[arg(long, value_name = "GATES", value_delimiter = ',')]
    pub(crate) feature_gates: Vec<String>,
    /// Karpenter's feature gates of AWS, such as `RebootForRepair=true`
    #[arg(long, value_name = "GATES", value_delimiter = ',')]
    pub(crate) aws_feature_gates: Vec<String>,
}

/// Output format of results.
#[derive(Debug, Args)]
pub(crate) struct OutputArguments {
    /// Format of the result
    #[arg(
        short = 'o',
        long = "output",
        value_enum,
        ignore_case = true,
        value_name = "FORMAT",
        default_value = "table"
    )]
    pub(crate) output: OutputFormat,
}

/// Output formats.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum OutputFormat {
    /// For people
    Table,
    /// For programs
    Json,
    /// For programs
    Yaml,
}

/// Kind of object that `muster explain` explains.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum SubjectKind {
    /// A pod, pending or bound
    Pod,
    /// A node, planned or existing
    Node,
}

/// `--preference-policy`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum PreferencePolicy {
    /// Spread over zones unless that costs more than 0.5 %, three hosts for replicas that avoid each other, all others
    /// unless they cost more than `--preference-price`
    Respect,
    /// Never considered
    Ignore,
}

/// `--min-values-policy`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum MinValuesPolicy {
    /// The node is not launched
    Strict,
    /// The requirement is lowered, and the node says so
    // Karpenter and its chart write it as one word.
    #[value(alias = "BestEffort")]
    BestEffort,
}
