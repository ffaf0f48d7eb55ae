//! What is about to go wrong.

use std::collections::{BTreeMap, VecDeque};

use super::record::Operation;
use crate::error::CloudError;

/// What happens to one call.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Fault {
    /// Nothing is done, and this is the answer. What earlier calls did stands.
    Refuse(CloudError),
    /// This is what comes of a launch, unless something came of its token before; else like [`Fault::Refuse`].
    Fail(CloudError),
    /// It is done, but the answer is lost: the caller learns of [`CloudError::Transient`].
    LoseAnswer,
}

/// Faults that wait for the next calls of each operation, first in, first out.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Faults(BTreeMap<Operation, VecDeque<Fault>>);

// === impl Faults ===

impl Faults {
    /// Lets the next call of `operation` that has no fault yet meet this one.
    pub fn push(&mut self, operation: Operation, fault: Fault) {
        self.0.entry(operation).or_default().push_back(fault);
    }

    /// The fault of this call, which is then over.
    pub(super) fn take(&mut self, operation: Operation) -> Option<Fault> {
        self.0.get_mut(&operation)?.pop_front()
    }

    /// Whether nothing is about to go wrong.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.values().all(VecDeque::is_empty)
    }
}
