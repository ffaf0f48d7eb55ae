//! Bundles of logs: one at a time, at most one a minute, always of the fault that was named last.

use std::path::PathBuf;
use std::time::Duration;

use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio::time::sleep;

use super::log;
use crate::publish::bundle;
use crate::report::Report;

/// Faults may come and go by the second; what the journal says of them is the same.
const BETWEEN: Duration = Duration::from_secs(60);

/// Starts to write them; whoever sends a report asks for one of it.
pub(super) fn spawn(parts: &mut JoinSet<Result<(), String>>, folder: PathBuf) -> watch::Sender<Option<Report>> {
    let (asked_tx, asked_rx) = watch::channel(None);
    parts.spawn(write(folder, asked_rx));
    asked_tx
}

async fn write(folder: PathBuf, mut asked_rx: watch::Receiver<Option<Report>>) -> Result<(), String> {
    loop {
        asked_rx.changed().await.map_err(|_| "the agent is ending".to_owned())?;
        let Some(report) = asked_rx.borrow_and_update().clone() else { continue };
        // A bundle that cannot be written is no reason to end.
        if let Err(error) = bundle::write(&folder, &report).await {
            log(&format!("the bundle cannot be written: {error}"));
        }
        sleep(BETWEEN).await;
    }
}
