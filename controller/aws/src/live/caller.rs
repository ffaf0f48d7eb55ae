//! One way to call: budget, retries, and an error that says what was called.

use std::error::Error;
use std::fmt;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::Duration;

use aws_sdk_ec2::error::{ProvideErrorMetadata, SdkError};
use jiff::Timestamp;
use muster_cloud::CloudError;

use super::witness::{Ended, Witness};
use crate::budget::{Budgets, Family};
use crate::refusal::{self, Meaning};

/// The clock of whoever made the cloud.
pub type Clock = Arc<dyn Fn() -> Timestamp + Send + Sync>;

/// How often a call is tried when AWS fails, or does not answer, and how often when it is refused for its rate.
const TRIES: u32 = 3;
const TRIES_IF_THROTTLED: u32 = 6;
/// First wait after a failure of AWS; it doubles.
const WAIT: Duration = Duration::from_millis(100);

/// Makes calls.
pub(super) struct Caller {
    pub(super) clock: Clock,
    /// Held for a few instructions, never across a wait.
    budgets: Mutex<Budgets>,
    witness: OnceLock<Arc<dyn Witness>>,
}

/// A call that came to nothing.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Failure {
    /// `ec2:CreateFleet`.
    pub(super) operation: &'static str,
    /// AWS's code; empty if there was no answer.
    pub(super) code: String,
    /// AWS's words, or why there was no answer.
    pub(super) message: String,
    /// If it was not sent because others come first: in how long to ask again.
    turn: Option<Duration>,
}

// === impl Failure ===

impl Failure {
    fn of<E: ProvideErrorMetadata + Error + 'static>(operation: &'static str, error: &SdkError<E>) -> Self {
        match error.code() {
            Some(code) => {
                let message = error.message().unwrap_or("no message").to_owned();
                Self { operation, code: code.to_owned(), message, turn: None }
            }
            None => Self { operation, code: String::new(), message: causes(error), turn: None },
        }
    }

    /// It was not sent: there are too many of its kind.
    fn too_many(operation: &'static str, turn: Duration) -> Self {
        let message = "too many calls wait for their turn".to_owned();
        Self { operation, code: "RequestLimitExceeded".to_owned(), message, turn: Some(turn) }
    }

    pub(super) fn meaning(&self) -> Meaning {
        refusal::meaning(&self.code, &self.message, None)
    }

    /// As the port has it. `about` is what was asked for.
    pub(super) fn into_error(self, about: &str) -> CloudError {
        if let Some(again) = self.turn {
            let operation = self.operation.rsplit(':').next().unwrap_or(self.operation).to_owned();
            return CloudError::Queued { operation, again };
        }
        if self.code.is_empty() {
            return CloudError::Transient { message: format!("{}: no answer: {}", self.operation, self.message) };
        }
        refusal::cloud_error(self.operation, &self.code, &self.message, about)
    }
}

/// An error and what it comes from, without what was sent.
fn causes(error: &dyn Error) -> String {
    let mut text = error.to_string();
    let mut next = error.source();
    while let Some(cause) = next {
        let cause_text = cause.to_string();
        if !text.contains(&cause_text) {
            text = format!("{text}: {cause_text}");
        }
        next = cause.source();
    }
    text
}

// === impl Caller ===

impl Caller {
    pub(super) fn new(clock: Clock) -> Self {
        Self { clock, budgets: Mutex::default(), witness: OnceLock::new() }
    }

    /// Has every try of every call seen; the first who asks for it stays.
    pub(super) fn seen_by(&self, witness: Arc<dyn Witness>) {
        let _ = self.witness.set(witness);
    }

    pub(super) fn now(&self) -> Timestamp {
        (self.clock)()
    }

    pub(super) fn budgets<T>(&self, change: impl FnOnce(&mut Budgets, Timestamp) -> T) -> T {
        let now = self.now();
        change(&mut self.budgets.lock().unwrap_or_else(PoisonError::into_inner), now)
    }

    /// Calls until there is an answer, or it is certain that there will be none. What is asked has to be idempotent.
    pub(super) async fn call<T, E, F>(
        &self,
        family: Family,
        operation: &'static str,
        ask: impl Fn() -> F,
    ) -> Result<T, Failure>
    where
        E: ProvideErrorMetadata + Error + 'static,
        F: Future<Output = Result<T, SdkError<E>>>,
    {
        self.call_in_turn(family, None, operation, ask).await
    }

    /// The same, for one of many: `who` has a place in the line if there are too many, and is told when to come again.
    pub(super) async fn call_in_turn<T, E, F>(
        &self,
        family: Family,
        who: Option<&str>,
        operation: &'static str,
        ask: impl Fn() -> F,
    ) -> Result<T, Failure>
    where
        E: ProvideErrorMetadata + Error + 'static,
        F: Future<Output = Result<T, SdkError<E>>>,
    {
        let mut tries = 0;
        let mut refusals = 0;
        let mut refused: Option<Failure> = None;
        loop {
            let wait = match self.budgets(|budgets, now| budgets.take(family, who, now)) {
                Ok(wait) => wait,
                // What AWS itself has said weighs more than what is believed of it.
                Err(turn) => return Err(refused.unwrap_or_else(|| Failure::too_many(operation, turn))),
            };
            if !wait.is_zero() {
                tokio::time::sleep(wait).await;
            }
            if let Some(witness) = self.witness.get() {
                witness.before(operation).await;
            }
            let sent = self.now();
            let asked = ask().await.map_err(|error| (Failure::of(operation, &error), error));
            if let Some(witness) = self.witness.get() {
                let ended = match &asked {
                    Ok(_) => Ended::Answered,
                    Err((Failure { code, .. }, _)) if code.is_empty() => Ended::Unanswered,
                    Err((failure, _)) => Ended::Refused { code: &failure.code, message: &failure.message },
                };
                witness.after(operation, ended).await;
            }
            let (failure, error) = match asked {
                Ok(answer) => {
                    self.budgets(|budgets, now| budgets.succeeded(family, now));
                    return Ok(answer);
                }
                Err(failed) => failed,
            };
            match failure.meaning() {
                Meaning::Throttled => {
                    self.budgets(|budgets, now| budgets.throttled(family, sent, now));
                    refusals += 1;
                    if refusals >= TRIES_IF_THROTTLED {
                        return Err(failure);
                    }
                    refused = Some(failure);
                }
                Meaning::Transient if is_passing(&error) => {
                    tries += 1;
                    if tries >= TRIES {
                        return Err(failure);
                    }
                    tokio::time::sleep(WAIT * 2_u32.pow(tries)).await;
                }
                _ => return Err(failure),
            }
        }
    }
}

/// Whether the same call may go through a moment later: AWS did not answer, or says that it is its own fault.
fn is_passing<E>(error: &SdkError<E>) -> bool {
    match error {
        SdkError::ServiceError(answer) => answer.raw().status().is_server_error(),
        SdkError::ConstructionFailure(_) => false,
        _ => true,
    }
}

impl fmt::Debug for Caller {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Caller").finish_non_exhaustive()
    }
}
