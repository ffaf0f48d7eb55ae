//! Writer of log bundles: one at a time, at most one per minute, for the latest fault.

use std::path::PathBuf;
use std::time::Duration;

use tokio::sync::watch;
use tokio::time::sleep;

use super::parts::{Ended, Part, Parts};
use crate::publish::bundle;
use crate::report::Report;

/// Minimum interval between bundles. Faults may change by the second, but the logs are nearly the same.
const BETWEEN: Duration = Duration::from_secs(60);

/// Starts the writer. A bundle is written for the last report sent to it.
pub(super) fn spawn(parts: &mut Parts, folder: PathBuf) -> watch::Sender<Option<Report>> {
    let (asked_tx, asked_rx) = watch::channel(None);
    parts.spawn(Part::Bundles, write(folder, asked_rx));
    asked_tx
}

async fn write(folder: PathBuf, mut asked_rx: watch::Receiver<Option<Report>>) -> Result<(), Ended> {
    loop {
        asked_rx.changed().await.map_err(|_| Ended::Ending)?;
        let Some(report) = asked_rx.borrow_and_update().clone() else { continue };
        // A bundle that cannot be written must not end the agent.
        if let Err(error) = bundle::write(&folder, &report).await {
            tracing::warn!("the bundle cannot be written: {error}");
        }
        sleep(BETWEEN).await;
    }
}
