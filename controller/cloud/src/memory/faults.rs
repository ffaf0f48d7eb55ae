//! Injected faults.

use std::collections::{BTreeMap, VecDeque};

use super::record::Operation;
use crate::error::CloudError;

/// Outcome that is injected into one call.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Fault {
    /// Nothing is done, and the call returns this error. The effects of earlier calls remain.
    Refuse(CloudError),
    /// This error becomes the outcome of the launch, unless its token already has an outcome; for other operations like
    /// [`Fault::Refuse`].
    Fail(CloudError),
    /// The call takes effect, but its response is lost: the caller gets [`CloudError::Transient`].
    LoseAnswer,
}

/// Queues of faults for the next calls of each operation, first in, first out.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Faults(BTreeMap<Operation, VecDeque<Fault>>);

// === impl Faults ===

impl Faults {
    /// Queues a fault for the next call of `operation` that has none yet.
    pub fn push(&mut self, operation: Operation, fault: Fault) {
        self.0.entry(operation).or_default().push_back(fault);
    }

    /// Removes and returns the fault for the current call.
    pub(super) fn take(&mut self, operation: Operation) -> Option<Fault> {
        self.0.get_mut(&operation)?.pop_front()
    }

    /// Returns true if no fault is queued.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.values().all(VecDeque::is_empty)
    }
}
