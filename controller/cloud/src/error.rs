//! What a cloud answers when it does not do what it is asked, and what follows from that.

use std::fmt::Write as _;
use std::time::Duration;

use muster_api::conditions::reason;

use crate::launch::{Refusal, Refused};

/// Offerings that a message names before it counts the rest.
const NAMED: usize = 3;

/// Why a cloud has not done what it was asked.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum CloudError {
    /// Every offering of the request was tried, and none could be had.
    #[error("none of the {} offerings that were tried could be had: {}", refused.len(), named(refused))]
    NoCapacity {
        /// What was tried, in the order of the request.
        refused: Vec<Refused>,
    },
    /// Too many calls. Nothing was done.
    #[error("the cloud limits the rate of {operation}")]
    Throttled {
        /// Operation whose limit was met, such as `CreateFleet`.
        operation: String,
    },
    /// It was not asked: others come first, so that the cloud's limit is kept.
    #[error("waits for its turn: the rate of {operation} is limited")]
    Queued {
        /// Operation whose turn it is not yet, such as `CreateFleet`.
        operation: String,
        /// In how long to ask again.
        again: Duration,
    },
    /// The controller may not do it.
    #[error("not authorized to perform {action}: {message}")]
    Unauthorized {
        /// Action that is missing, such as `ec2:RunInstances`.
        action: String,
        /// The cloud's words, decoded where it encodes them.
        message: String,
    },
    /// The launch template went away between looking it up and using it.
    #[error("the launch template is gone")]
    TemplateGone,
    /// There is no such thing (any more).
    #[error("`{what}` does not exist")]
    NotFound {
        /// What was asked for.
        what: String,
    },
    /// The class asks for something that the cloud refuses, today and tomorrow.
    #[error("{message}")]
    BadClass {
        /// Reason for conditions, such as `InvalidAMIID`.
        reason: String,
        /// The cloud's words.
        message: String,
    },
    /// The account is not allowed more, whatever is asked for.
    #[error("{message}")]
    AccountLimit {
        /// Reason for conditions, such as `FleetQuotaExceeded`.
        reason: String,
        /// The cloud's words.
        message: String,
    },
    /// The cloud failed, or its answer was lost: it may have been done.
    #[error("{message}")]
    Transient {
        /// What is known.
        message: String,
    },
}

/// A launch that has not been had.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{error}")]
pub struct LaunchError {
    /// Why.
    pub error: CloudError,
    /// Whether this is what came of the token, so that the next attempt needs another one.
    ///
    /// EC2: an answer of CreateFleet that lists errors and no instance. Not so an error of the request itself
    /// (`UnauthorizedOperation`, `RequestLimitExceeded`): an earlier request with the same token, whose answer was lost,
    /// may have launched something, and the same token finds it.
    pub is_outcome: bool,
}

/// What an error means.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Reaction {
    /// Whether the next attempt has to wait. What was refused for want of capacity does not: it tries something else.
    pub waits: bool,
    /// Whether the next attempt has to leave out what was refused; the claim ends when nothing is left.
    pub widens: bool,
    /// Whether the class is at fault, so that the breaker counts it.
    pub blames_class: bool,
}

/// The first few of what was refused, then how many more.
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
    /// What came of the token: asking with it again gives the same.
    #[must_use]
    pub const fn outcome(error: CloudError) -> Self {
        Self { error, is_outcome: true }
    }

    /// The request failed, and what became of earlier ones with its token is not known.
    #[must_use]
    pub const fn of_request(error: CloudError) -> Self {
        Self { error, is_outcome: false }
    }
}

// === impl CloudError ===

impl CloudError {
    /// Reason for a condition, in the words of Karpenter where it has one.
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

    /// What follows for the claim that was to be launched.
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

    /// If others come first: in how long to ask again.
    #[must_use]
    pub const fn turn(&self) -> Option<Duration> {
        match self {
            Self::Queued { again, .. } => Some(*again),
            _ => None,
        }
    }

    /// Whether there is no such thing (any more).
    #[must_use]
    pub const fn is_not_found(&self) -> bool {
        matches!(self, Self::NotFound { .. })
    }

    /// What was tried and could not be had.
    #[must_use]
    pub fn refused(&self) -> &[Refused] {
        match self {
            Self::NoCapacity { refused } => refused,
            _ => &[],
        }
    }
}
