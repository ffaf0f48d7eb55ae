//! Watcher of systemd's units and the journal.

use std::time::Duration;

use tokio::sync::{mpsc, watch};
use tokio::time::{sleep, timeout};

use super::{Known, Observed, Outcome, send};
use crate::boot_state::Observation;
use crate::probes::journal::Journal;
use crate::probes::systemd;
use crate::publish::socket::Asked;

/// Interval between reads of the units. A journal line of systemd triggers a read at once.
const UNITS: Duration = Duration::from_secs(10);

/// Follows units and journal. The gate in the kubelet's unit requests admission, so it is not requested here.
pub(super) async fn follow(observed: Observed, _: watch::Receiver<Known>, _: mpsc::Sender<Asked>) -> Outcome {
    loop {
        // Without `journalctl`, units are still followed.
        let mut journal = Journal::follow().ok();
        loop {
            if let Some(units) = systemd::units().await {
                send(&observed, Observation::Units(units)).await?;
            }
            let mut has_news = false;
            let pause = sleep(UNITS);
            tokio::pin!(pause);
            while !has_news {
                let line = async {
                    match &mut journal {
                        Some(journal) => journal.next().await,
                        None => std::future::pending().await,
                    }
                };
                tokio::select! {
                    line = line => match line {
                        Some(line) => {
                            has_news = line.is_of_systemd;
                            send(&observed, Observation::Line(line)).await?;
                        }
                        None => {
                            journal = None;
                        }
                    },
                    () = &mut pause => has_news = true,
                }
            }
            if journal.is_none() {
                break;
            }
            // systemd logs several lines per change.
            while let Some(Ok(Some(line))) = match &mut journal {
                Some(journal) => Some(timeout(Duration::from_millis(50), journal.next()).await),
                None => None,
            } {
                send(&observed, Observation::Line(line)).await?;
            }
        }
    }
}
