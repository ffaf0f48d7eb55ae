//! Who sees every call pass.

use std::future::Future;
use std::pin::Pin;

use crate::refusal::{self, Meaning};

/// A moment to wait for, boxed.
pub type Pause<'a> = Pin<Box<dyn Future<Output = ()> + Send + 'a>>;

/// Sees every try of every call pass: metrics count here, and tests stop the controller here.
pub trait Witness: Send + Sync {
    /// Right before `operation`, such as `ec2:CreateFleet`, is sent. The call waits for it.
    fn before<'a>(&'a self, operation: &'static str) -> Pause<'a>;

    /// Right after it. Whoever called waits for it.
    fn after<'a>(&'a self, operation: &'static str, ended: Ended<'a>) -> Pause<'a>;
}

/// How a try ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ended<'a> {
    /// AWS did what it was asked.
    Answered,
    /// AWS did not.
    Refused {
        /// Its code, such as `UnauthorizedOperation`.
        code: &'a str,
        /// Its words.
        message: &'a str,
    },
    /// There was no answer: it may have been done.
    Unanswered,
}

// === impl Ended ===

impl Ended<'_> {
    /// Whether the controller may not do it.
    #[must_use]
    pub fn is_unauthorized(self) -> bool {
        match self {
            Self::Refused { code, message } => refusal::meaning(code, message, None) == Meaning::Unauthorized,
            Self::Answered | Self::Unanswered => false,
        }
    }
}
