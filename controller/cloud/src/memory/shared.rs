//! Thread-safe handle to the in-memory cloud.

use std::collections::BTreeMap;
use std::fmt;
use std::future::{Future, ready};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use jiff::Timestamp;

use super::Memory;
use crate::Cloud;
use crate::error::{CloudError, LaunchError};
use crate::instance::Instance;
use crate::launch::{LaunchRequest, Launched};

/// [`Memory`] behind a mutex, with a clock that its creator passes in. Every call returns immediately.
#[derive(Clone)]
pub struct Shared {
    /// Locked for the duration of one call.
    memory: Arc<Mutex<Memory>>,
    clock: Arc<dyn Fn() -> Timestamp + Send + Sync>,
}

// === impl Shared ===

impl Shared {
    /// Wraps `memory` and reads the time from `clock`.
    pub fn new(memory: Memory, clock: impl Fn() -> Timestamp + Send + Sync + 'static) -> Self {
        Self { memory: Arc::new(Mutex::new(memory)), clock: Arc::new(clock) }
    }

    /// Locks the cloud, to set faults and to inspect its record. Calls block until the guard is dropped.
    pub fn lock(&self) -> MutexGuard<'_, Memory> {
        self.memory.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn call<T>(&self, call: impl FnOnce(&mut Memory, Timestamp) -> T) -> T {
        call(&mut self.lock(), (self.clock)())
    }
}

impl fmt::Debug for Shared {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Shared").field(&*self.lock()).finish()
    }
}

impl Cloud for Shared {
    fn launch(&self, request: &LaunchRequest) -> impl Future<Output = Result<Launched, LaunchError>> + Send {
        ready(self.call(|memory, now| memory.launch(request, now)))
    }

    fn get(&self, provider_id: &str) -> impl Future<Output = Result<Instance, CloudError>> + Send {
        ready(self.call(|memory, now| memory.get(provider_id, now)))
    }

    fn list(&self) -> impl Future<Output = Result<Vec<Instance>, CloudError>> + Send {
        ready(self.call(Memory::list))
    }

    fn console(&self, provider_id: &str) -> impl Future<Output = Result<Option<String>, CloudError>> + Send {
        ready(self.call(|memory, now| memory.console(provider_id, now)))
    }

    fn terminate(&self, provider_id: &str) -> impl Future<Output = Result<(), CloudError>> + Send {
        ready(self.call(|memory, now| memory.terminate(provider_id, now)))
    }

    fn reboot(&self, provider_id: &str) -> impl Future<Output = Result<(), CloudError>> + Send {
        ready(self.call(|memory, now| memory.reboot(provider_id, now)))
    }

    fn tag(
        &self,
        provider_id: &str,
        tags: &BTreeMap<String, String>,
    ) -> impl Future<Output = Result<(), CloudError>> + Send {
        ready(self.call(|memory, now| memory.tag(provider_id, tags, now)))
    }
}
