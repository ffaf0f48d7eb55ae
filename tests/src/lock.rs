//! Locks of tests.

use std::sync::{Mutex, MutexGuard, PoisonError};

/// Locks a mutex. A panic while it was locked has failed its test already.
pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
