//! Preflights, made one at a time on request.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;

use tokio::sync::{Notify, mpsc};

use super::parts::{Ended, Part, Parts};
use crate::preflight::Facts;
use crate::probes::gather::Gatherer;

/// Facts of a preflight, with the time of its start.
pub(super) struct Made {
    pub(super) facts: Facts,
    pub(super) began: Instant,
}

/// Handle to request preflights. Requests made during a preflight are merged.
#[derive(Default, Clone)]
pub(super) struct Rounds {
    asked: Arc<Notify>,
    is_start_expected: Arc<AtomicBool>,
}

impl Rounds {
    /// Requests a preflight.
    pub(super) fn go(&self) {
        self.asked.notify_one();
    }

    /// Records that the kubelet is about to start, so that missing files will not be written any more.
    pub(super) fn expect_a_start(&self) {
        self.is_start_expected.store(true, Ordering::Relaxed);
    }
}

/// Starts the task that makes preflights.
pub(super) fn spawn(parts: &mut Parts, endpoint: String, made_tx: mpsc::Sender<Made>) -> Rounds {
    let rounds = Rounds::default();
    parts.spawn(Part::Preflights, make(Gatherer::new(endpoint), rounds.clone(), made_tx));
    rounds
}

/// Collector of the facts of a preflight.
trait Gather {
    /// Collects the facts. `is_start_expected` is true if missing files will not be written any more.
    fn gather(&mut self, is_start_expected: bool) -> impl Future<Output = Facts> + Send;
}

impl Gather for Gatherer {
    fn gather(&mut self, is_start_expected: bool) -> impl Future<Output = Facts> + Send {
        Self::gather(self, is_start_expected)
    }
}

async fn make(mut gatherer: impl Gather, rounds: Rounds, made_tx: mpsc::Sender<Made>) -> Result<(), Ended> {
    loop {
        rounds.asked.notified().await;
        let began = Instant::now();
        let facts = gatherer.gather(rounds.is_start_expected.load(Ordering::Relaxed)).await;
        made_tx.send(Made { facts, began }).await.map_err(|_| Ended::Ending)?;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::preflight::tests::healthy;

    /// Requests more preflights during the first one.
    struct Busy {
        rounds: Rounds,
        expected: mpsc::UnboundedSender<bool>,
        has_gathered: bool,
    }

    impl Gather for Busy {
        async fn gather(&mut self, is_start_expected: bool) -> Facts {
            self.expected.send(is_start_expected).unwrap();
            if !self.has_gathered {
                self.rounds.expect_a_start();
                self.rounds.go();
                self.rounds.go();
            }
            self.has_gathered = true;
            healthy()
        }
    }

    #[tokio::test]
    async fn those_that_are_asked_for_while_one_is_made_are_one() {
        let mut parts = Parts::default();
        let rounds = Rounds::default();
        let (made_tx, mut made_rx) = mpsc::channel(1);
        let (expected, mut seen) = mpsc::unbounded_channel();
        parts.spawn(
            Part::Preflights,
            make(Busy { rounds: rounds.clone(), expected, has_gathered: false }, rounds.clone(), made_tx),
        );
        rounds.go();
        let first = made_rx.recv().await.unwrap();
        let second = made_rx.recv().await.unwrap();
        // The second was requested during the first, whose facts may be too old for the request.
        assert!(second.began > first.began);
        // The next one has no receiver, so it is the last. It is the third: requests were merged.
        drop(made_rx);
        rounds.go();
        assert!(matches!(parts.ended().await, Some((Part::Preflights, Ended::Ending))));
        let mut all = Vec::new();
        while let Some(is_start_expected) = seen.recv().await {
            all.push(is_start_expected);
        }
        assert_eq!(all, [false, true, true]);
    }
}
