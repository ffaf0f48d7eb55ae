//! Why a node is not admitted. The controller logs and counts the code; the caller learns only whether to try again.

use crate::document::DocumentFault;
use crate::sts::{CallerFault, RoleFault};

/// Why a node is not admitted. The codes are stable: people count them. No text holds a secret, nor anything that the caller
/// could choose freely.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Refusal {
    /// The nonce was never given to this key, or is taken already.
    #[error("the nonce is not one that this key was given, or was used before")]
    Nonce,
    /// It has expired.
    #[error("the nonce has expired")]
    NonceExpired,
    /// The document does not count.
    #[error(transparent)]
    Document(DocumentFault),
    /// The document is about an instance of another account or region.
    #[error("the instance is of another {0}")]
    Foreign(&'static str),
    /// The document was made too long ago, or in the future, for an instance that enrols for the first time.
    #[error("the instance was not launched lately")]
    NotLaunchedLately,
    /// No launch of this controller is known to have made the instance; CreateFleet's answer may not be written down yet.
    #[error("no NodeClaim was launched as this instance")]
    NotLaunchedHere,
    /// The NodeClaim is being deleted.
    #[error("the NodeClaim is being deleted")]
    Ending,
    /// The secret is not one of the launch's template.
    #[error("the launch token is not that of the launch template of this instance")]
    LaunchToken,
    /// The instance is not what was launched.
    #[error("the instance's {field} is not what was launched, says {source_of_it}")]
    Differs {
        /// What of it.
        field: &'static str,
        /// `its identity document`, or `EC2`.
        source_of_it: &'static str,
    },
    /// The instance has enrolled with another key, and the caller does not prove to be who did.
    #[error("the instance has enrolled with another key before")]
    EnrolledBefore,
    /// The instance's Node takes pods although it never enrolled: one of them may be who comes.
    #[error("the Node takes pods already, and nobody has enrolled for it")]
    ReadyBefore,
    /// There is no proof of the role.
    #[error("the proof of the role is missing")]
    NoRoleProof,
    /// The proof of the role cannot be one.
    #[error(transparent)]
    RoleProof(#[from] RoleFault),
    /// STS does not say who signed.
    #[error(transparent)]
    Caller(CallerFault),
    /// Another account or partition signed.
    #[error("the proof of the role is signed by another {0}")]
    ForeignCaller(&'static str),
    /// The role is none that the class gives to instances.
    #[error("the role is none of the NodeClass")]
    Role,
    /// Another session of the role signed.
    #[error("the proof of the role is not signed by this instance")]
    Session,
    /// EC2 does not know the instance, yet or any more.
    #[error("EC2 does not describe the instance")]
    NotDescribed,
    /// EC2 could not be asked.
    #[error("EC2 cannot be asked about the instance")]
    DescribeUnavailable,
    /// EC2 says that it does not run.
    #[error("the instance does not run")]
    NotRunning,
    /// The connection comes from elsewhere.
    #[error("the connection does not come from the instance's address")]
    Address,
}

/// What the caller may do about it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Remedy {
    /// Nothing: the same evidence will be refused again.
    None,
    /// Try again with a new nonce.
    TryAgain,
}

impl Refusal {
    /// The stable code: the label of the metric.
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

    /// What the caller may do about it.
    #[must_use]
    pub const fn remedy(&self) -> Remedy {
        match self {
            // The answer of CreateFleet is written after the instance has begun to boot, and DescribeInstances learns of it later
            // still; a nonce may have been given by a replica that has ended.
            Self::Nonce
            | Self::NonceExpired
            | Self::NotLaunchedHere
            | Self::NotDescribed
            | Self::DescribeUnavailable
            | Self::Caller(CallerFault::Unavailable(_) | CallerFault::Unreadable) => Remedy::TryAgain,
            _ => Remedy::None,
        }
    }
}
