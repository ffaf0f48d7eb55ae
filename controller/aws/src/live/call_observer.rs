//! Observer of all calls.

use std::future::Future;
use std::pin::Pin;
use std::time::Duration;

use crate::error_codes::{self, Meaning};

/// A boxed future that the call waits for.
pub type Pause<'a> = Pin<Box<dyn Future<Output = ()> + Send + 'a>>;

/// Observes every attempt of every call: metrics count calls here, and tests stop the controller here.
pub trait CallObserver: Send + Sync {
    /// Runs right before `operation`, such as `ec2:CreateFleet`, is sent. The call waits for it.
    fn before<'a>(&'a self, operation: &'static str) -> Pause<'a>;

    /// Runs right after it. The caller waits for it.
    fn after<'a>(&'a self, operation: &'static str, ended: Ended<'a>) -> Pause<'a>;

    /// Runs when requests of this kind, such as `describe_instances`, are sent as one call, which the first of them has
    /// waited for.
    fn batched(&self, _batcher: &'static str, _requests: usize, _waited: Duration) {}

    /// Runs when a launch template with user data of this size is made for an EC2NodeClass.
    fn templated(&self, _class: &str, _user_data_bytes: usize) {}
}

/// Result of an attempt.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ended<'a> {
    /// AWS returned a successful response.
    Answered,
    /// AWS returned an error.
    Refused {
        /// Error code, such as `UnauthorizedOperation`.
        code: &'a str,
        /// Error message.
        message: &'a str,
    },
    /// There was no response: the call may have taken effect.
    Unanswered,
}

// === impl Ended ===

impl Ended<'_> {
    /// Returns true if the controller is not authorized for the call.
    #[must_use]
    pub fn is_unauthorized(self) -> bool {
        match self {
            Self::Refused { code, message } => error_codes::meaning(code, message, None) == Meaning::Unauthorized,
            Self::Answered | Self::Unanswered => false,
        }
    }
}
