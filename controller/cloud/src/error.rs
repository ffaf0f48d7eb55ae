//! What a cloud answers when it does not do what it is asked, and what follows from that.

use std::fmt::Write as _;

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

/// Which token the next attempt of a launch takes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Attempt {
    /// The same: the outcome is not known, or the request did not come through.
    Same,
    /// A new one: this attempt is over.
    Next,
}

/// What an error means.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Reaction {
    /// Token of the next attempt.
    pub attempt: Attempt,
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
            Self::Throttled { .. } => "RequestLimitExceeded",
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
        let next = Reaction { attempt: Attempt::Next, waits: true, widens: false, blames_class: false };
        match self {
            Self::NoCapacity { .. } => Reaction { waits: false, widens: true, ..next },
            Self::Throttled { .. } | Self::Transient { .. } => Reaction { attempt: Attempt::Same, ..next },
            Self::Unauthorized { .. } | Self::BadClass { .. } => Reaction { blames_class: true, ..next },
            Self::TemplateGone | Self::NotFound { .. } | Self::AccountLimit { .. } => next,
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
