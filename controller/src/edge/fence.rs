//! Nothing is written without the lease.

use std::future::Future;
use std::time::Duration;

use tokio::sync::watch;
use tokio::time::Instant;

/// Far enough: nobody holds a lease for so long without renewing it.
const FOREVER: Duration = Duration::from_secs(30 * 365 * 24 * 3600);

/// Until when this process may write. Who elects the leader holds the [`Gate`] to it.
#[derive(Debug, Clone)]
pub struct Fence(watch::Receiver<Option<Instant>>);

/// Opens and closes a [`Fence`]. Dropping it closes it for good.
#[derive(Debug)]
pub struct Gate(watch::Sender<Option<Instant>>);

// === impl Fence ===

impl Fence {
    /// A closed one.
    #[must_use]
    pub fn closed() -> (Gate, Self) {
        let (gate, fence) = watch::channel(None);
        (Gate(gate), Self(fence))
    }

    /// Whether this process may write now.
    #[must_use]
    pub fn is_open(&self) -> bool {
        self.until().is_some()
    }

    /// Does the work unless, and for as long as, this process may write; nothing if it may not, or not long enough. What
    /// was sent by then may have been done. Work that outlasts a lease goes on if that is renewed meanwhile.
    pub async fn keep<T>(&self, work: impl Future<Output = T>) -> Option<T> {
        let mut fence = self.clone();
        tokio::select! {
            // First: whoever was starved past the lease must not begin the next part of the work.
            biased;
            () = fence.closes() => None,
            done = work => Some(done),
        }
    }

    /// Waits until it is open, or `false` if it never will be.
    pub async fn opened(&mut self) -> bool {
        self.0.wait_for(|until| until.is_some_and(|until| now() < until)).await.is_ok()
    }

    /// Waits until it is closed: because somebody said so, or because nobody prolonged it.
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
    /// Writes may be made until then.
    pub fn open_until(&self, moment: Instant) {
        self.0.send_replace(Some(moment));
    }

    /// For a process that need not be elected.
    pub fn open(&self) {
        self.0.send_replace(Some(now() + FOREVER));
    }

    /// No writes any more.
    pub fn close(&self) {
        self.0.send_replace(None);
    }
}

/// The clock of the lease: it never goes back, and it goes on while the process is starved.
fn now() -> Instant {
    Instant::now()
}
