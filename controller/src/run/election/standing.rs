//! Part of a replica in the election, from its start to its shutdown.

use tokio::sync::watch;
use tokio::task::JoinSet;

use super::Candidate;
use crate::edge::Gate;

/// A replica that stands for election, or leads because it is the only one.
pub(in crate::run) struct Standing {
    /// A set, so that its task is aborted if this is dropped.
    task: JoinSet<()>,
    stopping: watch::Sender<bool>,
    is_of_muster: watch::Receiver<bool>,
}

impl Standing {
    /// Stands for election as `candidate`. A single replica, which is none, opens the gate until it ends.
    pub(in crate::run) fn new(candidate: Option<Candidate>, gate: Gate) -> Self {
        let (stopping, mut stopped) = watch::channel(false);
        let mut task = JoinSet::new();
        let is_of_muster = match candidate {
            Some(candidate) => {
                let is_of_muster = candidate.is_of_muster();
                task.spawn(candidate.stand(gate, stopped));
                is_of_muster
            }
            None => {
                gate.open();
                task.spawn(async move {
                    let _ = stopped.wait_for(|stop| *stop).await;
                    drop(gate);
                });
                watch::channel(true).1
            }
        };
        Self { task, stopping, is_of_muster }
    }

    /// Returns a channel that is true while the leader is a replica of Muster.
    pub(in crate::run) fn is_of_muster(&self) -> watch::Receiver<bool> {
        self.is_of_muster.clone()
    }

    /// Ends the candidacy, and releases the lease.
    pub(in crate::run) async fn end(mut self) {
        let _ = self.stopping.send(true);
        while self.task.join_next().await.is_some() {}
    }
}
