//! What may be typed.

use clap::{Args, Parser, Subcommand, ValueEnum};

/// A real cluster and a real EC2 on one machine, for the tests of Muster and for you.
#[derive(Debug, Parser)]
#[command(name = "muster-tests", version, max_term_width = 100)]
pub(super) struct Arguments {
    #[command(subcommand)]
    pub(super) command: Command,
}

#[derive(Debug, Subcommand)]
pub(super) enum Command {
    /// Start a world, say how to use it, and keep it until Ctrl-C or `down`
    Up(Up),
    /// End the worlds of `up`, and remove what dead ones left
    Down(Down),
    /// Show the worlds of this machine and what each has made
    Status(Shown),
    /// Say what this machine lacks, and the command that mends it
    Doctor(Shown),
    /// Hold the world that suites share, until the last of them ends
    #[command(hide = true)]
    Daemon {
        /// How its ledger names it
        owner: String,
    },
}

#[derive(Debug, Args)]
pub(super) struct Up {
    /// Prove each part with one real use, take everything down, and print how long that took
    #[arg(long)]
    pub(super) check: bool,
    /// Check so often, and print the median and the longest of each time
    #[arg(long, requires = "check", default_value_t = 1, value_name = "TIMES", value_parser = clap::value_parser!(u32).range(1..))]
    pub(super) repeat: u32,
    /// Show Muster at work on `examples/shop`: pods get nodes, nodes go with their pods, everything is taken down
    #[arg(long, conflicts_with_all = ["check", "machines", "output"])]
    pub(super) demo: bool,
    /// Launch so many machines, which join the cluster; needs root
    #[arg(long, default_value_t = 0, value_name = "COUNT", value_parser = clap::value_parser!(u32).range(..=100))]
    pub(super) machines: u32,
    #[command(flatten)]
    pub(super) output: Output,
}

#[derive(Debug, Args)]
pub(super) struct Down {
    /// Only these, as `w1`; also those of suites
    #[arg(value_name = "WORLD")]
    pub(super) worlds: Vec<String>,
}

#[derive(Debug, Args)]
pub(super) struct Shown {
    #[command(flatten)]
    pub(super) output: Output,
}

#[derive(Debug, Args)]
pub(super) struct Output {
    /// How to print the result [default: table]
    #[arg(short, long, value_enum, ignore_case = true, value_name = "FORMAT")]
    output: Option<Format>,
}

/// A form of the result.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(super) enum Format {
    /// For people
    Table,
    /// For programs
    Json,
}

impl Output {
    pub(super) fn resolve(self) -> Format {
        self.output.unwrap_or(Format::Table)
    }
}
