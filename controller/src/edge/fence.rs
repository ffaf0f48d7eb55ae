//! Guard that allows writes only while the lease is held.

use std::future::Future;
use std::time::Duration;

use tokio::sync::watch;
use tokio::time::Instant;

/// Practically unlimited: thirty years.
const FOREVER: Duration = Duration::from_secs(30 * 365 * 24 * 3600);

/// Time until which this process may write. The leader election holds its [`Gate`].
#[derive(Debug, Clone)]
pub struct Fence(watch::Receiver<Option<Instant>>);

/// Opens and closes a [`Fence`]. Dropping it closes the fence permanently.
#[derive(Debug)]
pub struct Gate(watch::Sender<Option<Instant>>);

// === impl Fence ===

impl Fence {
    /// Returns a closed fence and its gate.
    #[must_use]
    pub fn closed() -> (Gate, Self) {
        let (gate, fence) = watch::channel(None);
        (Gate(gate), Self(fence))
    }

    /// Returns true if this process may write now.
    #[must_use]
    pub fn is_open(&self) -> bool {
        self.until().is_some()
    }

    /// Runs `work` while this process may write. Returns `None` if it may not, or if the fence closes before the work
    /// is done; requests that were sent by then may have been executed. Work continues across a renewal of the lease.
    pub async fn keep<T>(&self, work: impl Future<Output = T>) -> Option<T> {
        let mut fence = self.clone();
        tokio::select! {
            // First: a process that was suspended beyond the lease must not begin the next part of the work.
            biased;
            () = fence.closes() => None,
            done = work => Some(done),
        }
    }

    /// Waits until the fence is open. Returns false if it never will be.
    pub async fn opened(&mut self) -> bool {
        self.0.wait_for(|until| until.is_some_and(|until| now() < until)).await.is_ok()
    }

    /// Waits until the fence is closed, explicitly or by expiry.
    pub async fn closes(&mut self) {
        loop {
            let Some(until) = self.until() else { return };
            tokio::select! {
                () = tokio::time::sleep_until(until) => {}
                changed = self.0.changed() => if changed.is_err() { return },
            }
        }
    }

    fn until(&self) -> Option<Instant> {
        let is_orphaned = self.0.has_changed().is_err();
        let until = *self.0.borrow();
        until.filter(|until| !is_orphaned && now() < *until)
    }
}

// === impl Gate ===

impl Gate {
    /// Opens the fence until `moment`.
    pub fn open_until(&self, moment: Instant) {
        self.0.send_replace(Some(moment));
    }

    /// Opens the fence without limit, for a process without leader election.
    pub fn open(&self) {
        self.0.send_replace(Some(now() + FOREVER));
    }

    /// Closes the fence.
    pub fn close(&self) {
        self.0.send_replace(None);
    }
}

/// Returns the time of the monotonic clock, which advances while the process is suspended by the scheduler.
fn now() -> Instant {
    Instant::now()
}
