//! Command-line arguments, as clap parses them. Only modules of [`super`] use these types.

use std::path::PathBuf;

use clap::{Args, Parser, Subcommand, ValueEnum};
use muster_bootstrap::Family;
use muster_bootstrap::input::{Arch, RequiredLabel};
use muster_bootstrap::kubelet::taints::{Taint, TaintFault};
use muster_bootstrap::kubelet::version::Minor;

/// The command line of `muster-agent`.
#[derive(Debug, Parser)]
#[command(
    name = "muster-agent",
    version,
    about = "Finds out why a node does not join its cluster, and says what to do",
    long_about = "muster-agent finds out why a node will not join its cluster, and says what to do.",
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

/// The commands.
#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Say what a node would do with this user data, before any node exists
    ///
    /// Follows the user data through every program that reads it on the node, and prints what is wrong with it and what
    /// the kubelet will be told. Only what is given is judged; nothing is written and nothing is asked over the
    /// network. Exit code 1 means that a node with it would not join, or join wrong.
    Validate(ValidateArguments),
    /// Watch over this node from before its kubelet starts until it takes pods, and after
    ///
    /// The service of the image (systemd's unit, or a Windows service): checks the node before its kubelet starts, runs
    /// the bootstrap or watches the image's own, and names what is wrong. It ends when it is told to.
    Run(RunArguments),
    /// Say where this node stands: its stages with their times, and what is wrong
    ///
    /// Prints the report of the service. Exit code 1 means that something is wrong which keeps the node from taking
    /// pods.
    Status(StatusArguments),
    /// Install or take away the agent's service on Windows
    ///
    /// On Windows only; on Linux the unit of the package does it. `install` sets the service up to start with the
    /// machine, before the kubelet, as `muster-agent run` with the options that are given here; it does not start it. A
    /// service that is installed is changed. `uninstall` stops it and takes it away. Both want the rights of an
    /// administrator.
    Service(ServiceArguments),
    /// Ask the service whether the kubelet may start
    ///
    /// For the kubelet's unit, right before the kubelet starts. Exit code 100 means that it must not. Whatever else
    /// goes wrong, the exit code is 0: a node is not lost because its agent is.
    Gate(GateArguments),
}

/// `muster-agent service`.
#[derive(Debug, Args)]
pub(crate) struct ServiceArguments {
    /// Command
    #[arg(value_enum, ignore_case = true, value_name = "ACTION")]
    pub(crate) action: ServiceAction,
    #[command(flatten)]
    pub(crate) run: RunArguments,
}

/// Action on the service.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum ServiceAction {
    /// Set it up
    Install,
    /// Stop it and take it away
    Uninstall,
}

/// `muster-agent run`.
#[derive(Debug, Args)]
pub(crate) struct RunArguments {
    /// Report, and hold nothing back, whatever the node's configuration says
    #[arg(long)]
    pub(crate) report_only: bool,
    /// The folder of the socket and the status
    #[arg(long, value_name = "FOLDER", default_value = RUN_FOLDER)]
    pub(crate) run_dir: PathBuf,
    /// The folder of the log bundle
    #[arg(long, value_name = "FOLDER", default_value = LOG_FOLDER)]
    pub(crate) log_dir: PathBuf,
    /// The folder of the keys that a controller knows the node by
    #[arg(long, value_name = "FOLDER", default_value = STATE_FOLDER)]
    pub(crate) state_dir: PathBuf,
    /// URL of instance metadata
    #[arg(
        long,
        value_name = "URL",
        env = "AWS_EC2_METADATA_SERVICE_ENDPOINT",
        default_value = "http://169.254.169.254"
    )]
    pub(crate) metadata_endpoint: String,
}

/// `muster-agent status`.
#[derive(Debug, Args)]
pub(crate) struct StatusArguments {
    /// The folder of the service
    #[arg(long, value_name = "FOLDER", default_value = RUN_FOLDER)]
    pub(crate) run_dir: PathBuf,
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

/// `muster-agent gate`.
#[derive(Debug, Args)]
pub(crate) struct GateArguments {
    /// The folder of the service
    #[arg(long, value_name = "FOLDER", default_value = RUN_FOLDER)]
    pub(crate) run_dir: PathBuf,
}

const RUN_FOLDER: &str = if cfg!(windows) { r"C:\ProgramData\Muster" } else { "/run/muster" };
const LOG_FOLDER: &str = if cfg!(windows) { r"C:\ProgramData\Muster\logs" } else { "/var/log/muster" };
const STATE_FOLDER: &str = if cfg!(windows) { r"C:\ProgramData\Muster\state" } else { "/var/lib/muster" };

/// `muster-agent validate`.
#[derive(Debug, Args)]
pub(crate) struct ValidateArguments {
    /// User data as the instance gets it; `-` is stdin
    #[arg(long, value_name = "FILE", conflicts_with = "file")]
    pub(crate) user_data: Option<PathBuf>,
    /// A manifest with an EC2NodeClass: the user data that Muster and Karpenter make of it is judged; `-` is stdin
    #[arg(short = 'f', long, value_name = "PATH")]
    pub(crate) file: Option<PathBuf>,
    /// AL2, AL2023, Bottlerocket, Windows2019, Windows2022, Windows2025 or Custom [default: read off the document]
    #[arg(long, value_name = "FAMILY", value_parser = family)]
    pub(crate) ami_family: Option<Family>,
    /// The version of the kubelet, such as `1.34`
    #[arg(long, value_name = "VERSION", value_parser = version)]
    pub(crate) kubelet_version: Option<Minor>,
    /// A kubelet, which is asked for its version and its flags (`--version`, `--help`)
    #[arg(long, value_name = "PATH")]
    pub(crate) kubelet: Option<PathBuf>,
    /// The architecture of the instances: amd64 or arm64
    #[arg(long, value_name = "ARCH", value_parser = arch)]
    pub(crate) arch: Option<Arch>,
    /// A taint that must be in effect, such as `karpenter.sh/unregistered:NoExecute`; repeatable
    #[arg(long = "require-taint", value_name = "TAINT", value_parser = taint)]
    pub(crate) require_taints: Vec<Taint>,
    /// A label that must be in effect: `key` or `key=value`; repeatable
    #[arg(long = "require-label", value_name = "LABEL", value_parser = label)]
    pub(crate) require_labels: Vec<RequiredLabel>,
    /// The environment file of kubelet.service; it counts instead of the one that the user data leads to
    #[arg(long, value_name = "FILE")]
    pub(crate) env_file: Option<PathBuf>,
    /// A file of the kubelet's configuration; repeatable, drop-ins after the file
    #[arg(long, value_name = "FILE")]
    pub(crate) kubelet_config: Vec<PathBuf>,
    /// The type of the instances, such as `m5.large`: addresses for pods and drivers are judged against it
    #[arg(long, value_name = "TYPE")]
    pub(crate) instance_type: Option<String>,
    /// Judge this machine too, as an image under construction
    #[arg(long)]
    pub(crate) image: bool,
    /// Touch nothing but the files named
    #[arg(long, conflicts_with = "image")]
    pub(crate) offline: bool,
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

/// Formats of results.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum OutputFormat {
    /// For people
    Table,
    /// For programs
    Json,
}

/// Reason why the value of an option is refused.
#[derive(Debug, thiserror::Error)]
enum ValueFault {
    #[error("no such AMI family; there are {}", Family::ALL.map(Family::name).join(", "))]
    Family,
    #[error("write a version such as 1.34 or v1.34.2")]
    Version,
    #[error("write amd64 or arm64")]
    Arch,
    #[error(transparent)]
    Taint(#[from] TaintFault),
    #[error("write `key` or `key=value` as labels are written")]
    Label,
}

fn family(text: &str) -> Result<Family, ValueFault> {
    text.parse().map_err(|_| ValueFault::Family)
}

fn version(text: &str) -> Result<Minor, ValueFault> {
    text.parse().map_err(|_| ValueFault::Version)
}

fn arch(text: &str) -> Result<Arch, ValueFault> {
    text.parse().map_err(|_| ValueFault::Arch)
}

fn taint(text: &str) -> Result<Taint, ValueFault> {
    Ok(text.parse()?)
}

fn label(text: &str) -> Result<RequiredLabel, ValueFault> {
    text.parse().map_err(|_| ValueFault::Label)
}
