//! Errors of a cloud, and how the controller reacts to them.

use std::fmt::Write as _;
use std::time::Duration;

use muster_api::conditions::reason;

use crate::launch::{Refusal, Refused};

/// Number of offerings that an error message names before it counts the rest.
const NAMED: usize = 3;

/// Reason why a call to the cloud failed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum CloudError {
    /// Every offering of the request was tried, and none was available.
    #[error("none of the {} offerings tried is available: {}", refused.len(), named(refused))]
    NoCapacity {
        /// Refused offerings, in the order of the request.
        refused: Vec<Refused>,
    },
    /// The cloud throttled the call. Nothing was done.
    #[error("the cloud limits the rate of {operation}")]
    Throttled {
        /// Throttled operation, such as `CreateFleet`.
        operation: String,
    },
    /// The call was not sent: it is queued behind others to stay within the cloud's rate limit.
    #[error("waits for its turn: the rate of {operation} is limited")]
    Queued {
        /// Rate-limited operation, such as `CreateFleet`.
        operation: String,
        /// Time to wait before the next attempt.
        again: Duration,
    },
    /// The controller is not authorized for the call.
    #[error("not authorized to perform {action}: {message}")]
    Unauthorized {
        /// Missing permission, such as `ec2:RunInstances`.
        action: String,
        /// Error message of the cloud, decoded if it was encoded.
        message: String,
    },
    /// The launch template was deleted between lookup and use.
    #[error("the launch template is gone")]
    TemplateGone,
    /// The object does not exist, or no longer exists.
    #[error("`{what}` does not exist")]
    NotFound {
        /// Identifier of the object.
        what: String,
    },
    /// The cloud rejects a setting of the NodeClass permanently.
    #[error("{message}")]
    BadClass {
        /// Reason for conditions, such as `InvalidAMIID`.
        reason: String,
        /// Error message of the cloud.
        message: String,
    },
    /// An account limit is reached, whatever the request contains.
    #[error("{message}")]
    AccountLimit {
        /// Reason for conditions, such as `FleetQuotaExceeded`.
        reason: String,
        /// Error message of the cloud.
        message: String,
    },
    /// The cloud failed, or its response was lost: the call may have taken effect.
    #[error("{message}")]
    Transient {
        /// Description of the failure.
        message: String,
    },
}

/// A failed launch.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{error}")]
pub struct LaunchError {
    /// Cause of the failure.
    pub error: CloudError,
    /// True if this is the final outcome of the token, so that the next attempt needs a new token.
    ///
    /// On EC2 this is a CreateFleet response that lists errors and no instance. An error of the request itself
    /// (`UnauthorizedOperation`, `RequestLimitExceeded`) is not an outcome: an earlier request with the same token,
    /// whose response was lost, may have launched an instance, and the same token finds it.
    pub is_outcome: bool,
}

/// Reaction of the controller to an error.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Reaction {
    /// True if the next attempt has to wait. An attempt refused for lack of capacity does not wait: it tries other
    /// offerings.
    pub waits: bool,
    /// True if the next attempt must exclude the refused offerings; the claim is deleted when no offering is left.
    pub widens: bool,
    /// True if the NodeClass is at fault, so that the circuit breaker counts the failure.
    pub blames_class: bool,
}

/// Formats the first few refused offerings and the number of the others.
fn named(refused: &[Refused]) -> String {
    let mut text = String::new();
    for (number, one) in refused.iter().take(NAMED).enumerate() {
        let _ = write!(text, "{}{one}", if number > 0 { "; " } else { "" });
    }
    if refused.len() > NAMED {
        let _ = write!(text, "; and {} more", refused.len() - NAMED);
    }
    text
}

// === impl LaunchError ===

impl LaunchError {
    /// Returns an error that is the final outcome of the token: a retry with the token returns the same error.
    #[must_use]
    pub const fn outcome(error: CloudError) -> Self {
        Self { error, is_outcome: true }
    }

    /// Returns an error of the request itself; the outcome of earlier requests with the same token is unknown.
    #[must_use]
    pub const fn of_request(error: CloudError) -> Self {
        Self { error, is_outcome: false }
    }
}

// === impl CloudError ===

impl CloudError {
    /// Returns the reason for a condition, the same as Karpenter's where Karpenter has one.
    #[must_use]
    pub fn reason(&self) -> &str {
        match self {
            Self::NoCapacity { refused } => match refused.first().map(|one| &one.refusal) {
                Some(Refusal::Addresses { .. }) => "InsufficientFreeAddressesInSubnet",
                Some(Refusal::SpotRole) => "SpotSLRCreationFailed",
                _ => "InsufficientCapacity",
            },
            Self::Throttled { .. } => reason::REQUEST_LIMIT_EXCEEDED,
            Self::Queued { .. } => reason::REQUEST_QUEUED,
            Self::Unauthorized { .. } => "Unauthorized",
            Self::TemplateGone => "LaunchTemplateNotFound",
            Self::NotFound { .. } => "NotFound",
            Self::BadClass { reason, .. } | Self::AccountLimit { reason, .. } => reason,
            Self::Transient { .. } => "InternalError",
        }
    }

    /// Returns the reaction for the claim that was to be launched.
    #[must_use]
    pub const fn reaction(&self) -> Reaction {
        let again = Reaction { waits: true, widens: false, blames_class: false };
        match self {
            Self::NoCapacity { .. } => Reaction { waits: false, widens: true, ..again },
            Self::Unauthorized { .. } | Self::BadClass { .. } => Reaction { blames_class: true, ..again },
            Self::Throttled { .. }
            | Self::Queued { .. }
            | Self::Transient { .. }
            | Self::TemplateGone
            | Self::NotFound { .. }
            | Self::AccountLimit { .. } => again,
        }
    }

    /// Returns the time to wait before the next attempt if the call is queued.
    #[must_use]
    pub const fn turn(&self) -> Option<Duration> {
        match self {
            Self::Queued { again, .. } => Some(*again),
            _ => None,
        }
    }

    /// Returns true if the object does not exist (any more).
    #[must_use]
    pub const fn is_not_found(&self) -> bool {
        matches!(self, Self::NotFound { .. })
    }

    /// Returns the offerings that were tried and refused.
    #[must_use]
    pub fn refused(&self) -> &[Refused] {
        match self {
            Self::NoCapacity { refused } => refused,
            _ => &[],
        }
    }
}
