//! Failures of a command, and their exit codes.

use std::io;

use muster_manifest::InputError;

#[cfg(feature = "cluster")]
use crate::run::RunError;
#[cfg(feature = "cluster")]
use crate::watch::ClusterError;

/// Reason why a command failed. `Display` is the whole message, with its hint.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Failure {
    /// The input or an option is invalid.
    #[error("{0}")]
    Usage(String),
    /// A manifest is invalid.
    #[error(transparent)]
    Input(#[from] InputError),
    /// A live cluster cannot be read.
    #[cfg(feature = "cluster")]
    #[error(transparent)]
    Cluster(#[from] ClusterError),
    /// AWS cannot be asked.
    #[cfg(feature = "ec2")]
    #[error("{0}")]
    Aws(String),
    /// The command ran, and its answer, already printed, is "no".
    #[error("{0}")]
    No(String),
    /// The validator rejected a plan. This is a bug of Muster, and the plan must not be used.
    #[error(
        "internal error: the plan failed its own validation, so it is not shown\n{}\n\nhint: please report this with the \
         input at {}/issues",
        .0.join("\n"),
        env!("CARGO_PKG_REPOSITORY")
    )]
    InvalidPlan(Vec<String>),
    /// The controller cannot start or continue.
    #[cfg(feature = "cluster")]
    #[error(transparent)]
    Run(#[from] RunError),
    /// A simulated day broke a rule that must always hold. This is a bug of Muster, already shown in the timeline.
    #[error(
        "{} that must always hold {} broken\n{}\n\nhint: please report this with the manifests, the script and the seed at \
         {}/issues",
        if .0.len() == 1 { "a rule".to_owned() } else { format!("{} rules", .0.len()) },
        if .0.len() == 1 { "was" } else { "were" },
        .0.join("\n"),
        env!("CARGO_PKG_REPOSITORY")
    )]
    BrokenRules(Vec<String>),
    /// An internal error.
    #[error("internal error: {0}\n\nhint: please report this at {site}/issues", site = env!("CARGO_PKG_REPOSITORY"))]
    Internal(String),
    /// A result could not be written.
    #[error("the result cannot be written: {0}")]
    Output(#[from] io::Error),
}

impl Failure {
    /// Returns the exit code by the contract of the command line.
    pub(crate) fn exit_code(&self) -> u8 {
        match self {
            Self::No(_) | Self::InvalidPlan(_) | Self::BrokenRules(_) | Self::Internal(_) => 1,
            Self::Usage(_) | Self::Input(_) => 2,
            Self::Output(_) => 3,
            #[cfg(feature = "ec2")]
            Self::Aws(_) => 3,
            #[cfg(feature = "cluster")]
            Self::Run(RunError::Broken(_)) => 1,
            #[cfg(feature = "cluster")]
            Self::Run(
                RunError::NoAgents
                | RunError::Traces(_)
                | RunError::Types(_)
                | RunError::Cluster(ClusterError::Kubeconfig { .. }),
            )
            | Self::Cluster(ClusterError::Kubeconfig { .. }) => 2,
            #[cfg(feature = "cluster")]
            Self::Run(RunError::Ec2(error)) if error.is_usage() => 2,
            // An invalid object comes from the cluster, not from the user's input.
            #[cfg(feature = "cluster")]
            Self::Cluster(ClusterError::Server { .. } | ClusterError::Object(_)) | Self::Run(_) => 3,
        }
    }

    /// Returns the failure of a build without the feature that `what` needs.
    #[cfg(not(feature = "ec2"))]
    pub(crate) fn left_out(what: &str, feature: &str) -> Self {
        let scope = if cfg!(feature = "cluster") { "works on files and clusters" } else { "works on files" };
        Self::Usage(format!(
            "this build of `muster` {scope}: it has no {what}\n\nhint: build it with `cargo build --release --bin \
             muster --features {feature}`"
        ))
    }

    /// Returns true if the reader of stdout has closed it (`muster plan … | head`), which is not an error.
    pub(crate) fn is_closed_pipe(&self) -> bool {
        matches!(self, Self::Output(error) if error.kind() == io::ErrorKind::BrokenPipe)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_violation_asks_for_a_report() {
        let failure = Failure::InvalidPlan(vec!["node general-0: cpu 2100m of 1930m".to_owned()]);
        assert_eq!(failure.exit_code(), 1);
        insta::assert_snapshot!(failure, @r"
        internal error: the plan failed its own validation, so it is not shown
        node general-0: cpu 2100m of 1930m

        hint: please report this with the input at https://github.com/muster-dev/muster/issues
        ");
    }

    #[test]
    fn a_closed_pipe_is_told_from_a_full_disk() {
        assert!(Failure::from(io::Error::from(io::ErrorKind::BrokenPipe)).is_closed_pipe());
        assert!(!Failure::from(io::Error::from(io::ErrorKind::StorageFull)).is_closed_pipe());
    }
}
