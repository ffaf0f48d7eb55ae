//! Refusals, counted by a stable code.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

/// Counts refusals. Clones share the counts.
#[derive(Debug, Clone, Default)]
pub struct Refusals(Arc<Mutex<BTreeMap<&'static str, u64>>>);

impl Refusals {
    pub(crate) fn count(&self, code: &'static str) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner).entry(code).or_default() += 1;
    }

    /// Returns the number of refusals of each code since the start.
    #[must_use]
    pub fn counted(&self) -> BTreeMap<&'static str, u64> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Returns the number of refusals of this code.
    #[must_use]
    pub fn of(&self, code: &str) -> u64 {
        self.counted().get(code).copied().unwrap_or_default()
    }
}
