//! Reasons for refusing a node. The controller logs and counts the code; the caller learns only whether to try again.

use crate::document::DocumentFault;
use crate::sts::{CallerFault, RoleFault};

/// Error codes of STS for evidence that has lapsed: credentials that the instance is about to renew, or the time of a
/// clock that is about to be set.
const LAPSED: [&str; 2] = ["ExpiredToken", "RequestExpired"];

/// Reason why a node is refused. The codes are stable because metrics count them. No text holds a secret, nor anything
/// that the caller could choose freely.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Refusal {
    /// The nonce was never given to this key, or was already used.
    #[error("the nonce is not one that this key was given, or was used before")]
    Nonce,
    /// The nonce has expired.
    #[error("the nonce has expired")]
    NonceExpired,
    /// The identity document is rejected.
    #[error(transparent)]
    Document(DocumentFault),
    /// The document is for an instance of another account or region.
    #[error("the instance is of another {0}")]
    Foreign(&'static str),
    /// The document is too old, or from the future, for a first enrolment.
    #[error("the instance was not launched lately")]
    NotLaunchedLately,
    /// No NodeClaim is known to have launched the instance; CreateFleet's answer may not be recorded yet.
    #[error("no NodeClaim was launched as this instance")]
    NotLaunchedHere,
    /// The NodeClaim is being deleted.
    #[error("the NodeClaim is being deleted")]
    Ending,
    /// The secret is not one of the launch's template.
    #[error("the launch token is not that of the launch template of this instance")]
    LaunchToken,
    /// The instance differs from what was launched.
    #[error("the instance's {field} is not what was launched, says {source_of_it}")]
    Differs {
        /// Field that differs.
        field: &'static str,
        /// Source of the field: `its identity document`, or `EC2`.
        source_of_it: &'static str,
    },
    /// The instance has enrolled with another key, and the caller does not prove that it holds that key.
    #[error("the instance has enrolled with another key before")]
    EnrolledBefore,
    /// The instance's Node accepts pods although it never enrolled: the caller may be one of them.
    #[error("the Node accepts pods already, although no agent has enrolled for it")]
    ReadyBefore,
    /// The proof of the role is missing.
    #[error("the proof of the role is missing")]
    NoRoleProof,
    /// The proof of the role is malformed.
    #[error(transparent)]
    RoleProof(#[from] RoleFault),
    /// STS does not identify the signer.
    #[error(transparent)]
    Caller(CallerFault),
    /// The signer is of another account or partition.
    #[error("the proof of the role is signed by another {0}")]
    ForeignCaller(&'static str),
    /// The role is not one that the NodeClass gives to instances.
    #[error("the role is none of the NodeClass")]
    Role,
    /// The signer is another session of the role.
    #[error("the proof of the role is not signed by this instance")]
    Session,
    /// EC2 does not know the instance, yet or any more.
    #[error("EC2 does not describe the instance")]
    NotDescribed,
    /// EC2 could not be asked.
    #[error("EC2 cannot be asked about the instance")]
    DescribeUnavailable,
    /// The instance is not running, as EC2 describes it.
    #[error("the instance does not run")]
    NotRunning,
    /// The connection does not come from an address of the instance.
    #[error("the connection does not come from the instance's address")]
    Address,
}

/// Advice to a refused caller.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Remedy {
    /// The same evidence will be refused again.
    None,
    /// Try again with a new nonce.
    TryAgain,
}

impl Refusal {
    /// Returns the stable code, a label of the metric.
    #[must_use]
    pub const fn code(&self) -> &'static str {
        match self {
            Self::Nonce => "NonceUnknown",
            Self::NonceExpired => "NonceExpired",
            Self::Document(DocumentFault::Signature(_)) => "DocumentForged",
            Self::Document(DocumentFault::Region(_)) => "DocumentRegionNotPinned",
            Self::Document(_) => "DocumentMalformed",
            Self::Foreign(_) => "DocumentForeign",
            Self::NotLaunchedLately => "DocumentOld",
            Self::NotLaunchedHere => "NotLaunchedHere",
            Self::Ending => "ClaimEnding",
            Self::LaunchToken => "LaunchTokenWrong",
            Self::Differs { .. } => "InstanceDiffers",
            Self::EnrolledBefore => "EnrolledBefore",
            Self::ReadyBefore => "ReadyBefore",
            Self::NoRoleProof => "RoleProofMissing",
            Self::RoleProof(_) => "RoleProofMalformed",
            Self::Caller(CallerFault::Refused(_)) => "RoleProofRefused",
            Self::Caller(CallerFault::Unavailable(_)) => "StsUnavailable",
            Self::Caller(CallerFault::Unreadable) => "StsUnreadable",
            Self::ForeignCaller(_) => "CallerForeign",
            Self::Role => "RoleUnexpected",
            Self::Session => "CallerIsAnotherInstance",
            Self::NotDescribed => "NotDescribed",
            Self::DescribeUnavailable => "Ec2Unavailable",
            Self::NotRunning => "NotRunning",
            Self::Address => "AddressDiffers",
        }
    }

    /// Returns the advice to the caller.
    #[must_use]
    pub fn remedy(&self) -> Remedy {
        match self {
            // CreateFleet's answer is recorded after the instance has begun to boot, and DescribeInstances lags further
            // behind. A nonce may have been given by a replica that has ended. At boot, a clock may be set after the
            // agent has started.
            Self::Nonce
            | Self::NonceExpired
            | Self::NotLaunchedHere
            | Self::NotDescribed
            | Self::DescribeUnavailable
            | Self::RoleProof(RoleFault::Time)
            | Self::Caller(CallerFault::Unavailable(_) | CallerFault::Unreadable) => Remedy::TryAgain,
            Self::Caller(CallerFault::Refused(code)) if LAPSED.contains(&code.as_str()) => Remedy::TryAgain,
            _ => Remedy::None,
        }
    }
}
