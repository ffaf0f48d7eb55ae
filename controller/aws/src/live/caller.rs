//! Common path of all calls: rate limits, retries, and errors that name the call.

use std::error::Error;
use std::fmt;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::Duration;

use aws_sdk_ec2::error::{ProvideErrorMetadata, SdkError};
use jiff::Timestamp;
use muster_cloud::CloudError;

use super::call_observer::{CallObserver, Ended};
use crate::error_codes::{self, Meaning};
use crate::rate_limits::{Budgets, Family};

/// Clock that the creator of the cloud passes in.
pub type Clock = Arc<dyn Fn() -> Timestamp + Send + Sync>;

/// Maximum number of attempts on failures of AWS and lost responses, and on throttling.
const TRIES: u32 = 3;
const TRIES_IF_THROTTLED: u32 = 6;
/// Base of the exponential backoff after a failure of AWS: the first wait is twice as long.
const WAIT: Duration = Duration::from_millis(100);

/// Makes calls with rate limits and retries.
pub(super) struct Caller {
    pub(super) clock: Clock,
    /// Locked for a few instructions, never across an await.
    budgets: Mutex<Budgets>,
    observer: OnceLock<Arc<dyn CallObserver>>,
}

/// A failed call.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Failure {
    /// Operation, such as `ec2:CreateFleet`.
    pub(super) operation: &'static str,
    /// Error code of AWS; empty if there was no response.
    pub(super) code: String,
    /// Error message of AWS, or the reason why there was no response.
    pub(super) message: String,
    /// Time until the next attempt, if the call is queued and was not sent.
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

    /// Returns the failure of a call that was not sent because of the rate limit.
    fn too_many(operation: &'static str, turn: Duration) -> Self {
        let message = "too many calls wait for their turn".to_owned();
        Self { operation, code: "RequestLimitExceeded".to_owned(), message, turn: Some(turn) }
    }

    pub(super) fn meaning(&self) -> Meaning {
        error_codes::meaning(&self.code, &self.message, None)
    }

    /// Converts the failure to an error of the cloud. `about` is the object of the call.
    pub(super) fn into_error(self, about: &str) -> CloudError {
        if let Some(again) = self.turn {
            let operation = self.operation.rsplit(':').next().unwrap_or(self.operation).to_owned();
            return CloudError::Queued { operation, again };
        }
        if self.code.is_empty() {
            return CloudError::Transient { message: format!("{}: no answer: {}", self.operation, self.message) };
        }
        error_codes::cloud_error(self.operation, &self.code, &self.message, about)
    }
}

/// Formats an error and its causes, without the content of the request.
pub(super) fn causes(error: &dyn Error) -> String {
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
        Self { clock, budgets: Mutex::default(), observer: OnceLock::new() }
    }

    /// Sets the witness of every attempt; only the first invocation has an effect.
    pub(super) fn seen_by(&self, observer: Arc<dyn CallObserver>) {
        let _ = self.observer.set(observer);
    }

    /// Returns the witness, if there is one.
    pub(super) fn observer(&self) -> Option<&dyn CallObserver> {
        self.observer.get().map(|observer| &**observer)
    }

    pub(super) fn now(&self) -> Timestamp {
        (self.clock)()
    }

    pub(super) fn budgets<T>(&self, change: impl FnOnce(&mut Budgets, Timestamp) -> T) -> T {
        let now = self.now();
        change(&mut self.budgets.lock().unwrap_or_else(PoisonError::into_inner), now)
    }

    /// Calls until there is a response, or a failure that is final. The call must be idempotent.
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

    /// Calls like [`Self::call`], for one of many callers: if the rate limit is exceeded, `who` is queued and gets the
    /// time of its next attempt.
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
                // An error from AWS takes precedence over the estimated limit.
                Err(turn) => return Err(refused.unwrap_or_else(|| Failure::too_many(operation, turn))),
            };
            if !wait.is_zero() {
                tokio::time::sleep(wait).await;
            }
            if let Some(observer) = self.observer.get() {
                observer.before(operation).await;
            }
            let sent = self.now();
            let asked = ask().await.map_err(|error| (Failure::of(operation, &error), error));
            if let Some(observer) = self.observer.get() {
                let ended = match &asked {
                    Ok(_) => Ended::Answered,
                    Err((Failure { code, .. }, _)) if code.is_empty() => Ended::Unanswered,
                    Err((failure, _)) => Ended::Refused { code: &failure.code, message: &failure.message },
                };
                observer.after(operation, ended).await;
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

/// Returns true if a retry may succeed: AWS did not respond, or reported a server error.
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
