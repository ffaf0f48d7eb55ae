//! Preflights, made one after the other whenever somebody asks for one.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use tokio::sync::{Notify, mpsc};
use tokio::task::JoinSet;
use tokio::time::Instant;

use crate::preflight::Facts;
use crate::probes::gather::Gatherer;

/// What a preflight found out, and when it began.
pub(super) struct Made {
    pub(super) facts: Facts,
    pub(super) began: Instant,
}

/// Who asks for preflights. Those that are asked for while one is made are one.
#[derive(Default, Clone)]
pub(super) struct Rounds {
    asked: Arc<Notify>,
    is_start_expected: Arc<AtomicBool>,
}

impl Rounds {
    /// Asks for one.
    pub(super) fn go(&self) {
        self.asked.notify_one();
    }

    /// The kubelet is about to start: what is missing from now on will not come.
    pub(super) fn expect_a_start(&self) {
        self.is_start_expected.store(true, Ordering::Relaxed);
    }
}

/// Starts to make them.
pub(super) fn spawn(parts: &mut JoinSet<Result<(), String>>, endpoint: String, made_tx: mpsc::Sender<Made>) -> Rounds {
    let rounds = Rounds::default();
    parts.spawn(make(endpoint, rounds.clone(), made_tx));
    rounds
}

async fn make(endpoint: String, rounds: Rounds, made_tx: mpsc::Sender<Made>) -> Result<(), String> {
    let mut gatherer = Gatherer::new(endpoint);
    loop {
        rounds.asked.notified().await;
        let began = Instant::now();
        let facts = gatherer.gather(rounds.is_start_expected.load(Ordering::Relaxed)).await;
        made_tx.send(Made { facts, began }).await.map_err(|_| "the agent is ending".to_owned())?;
    }
}
