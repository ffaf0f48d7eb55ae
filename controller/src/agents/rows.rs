//! Who is there, for those who watch: made once for all of them, as often as the picture changes, and only while somebody does.

use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use muster_gateway::{Row, Rows};
use tokio::sync::{Notify, watch};
use tokio::time::sleep;

use super::operators::structure;
use crate::cli;
use crate::roster;
use crate::watch::Picture;

/// Between two looks: what changes meanwhile is one change. A look at 10,000 nodes takes some tenths of a second of a core.
const SPACING: Duration = Duration::from_millis(500);

/// Keeps rows up.
pub(super) struct Roster {
    picture: Picture,
    /// None as long as nobody has asked.
    rows: watch::Sender<Option<Arc<Rows>>>,
    /// Somebody has begun to watch.
    wanted: Notify,
}

impl Roster {
    pub(super) fn new(picture: Picture) -> Self {
        Self { picture, rows: watch::Sender::new(None), wanted: Notify::new() }
    }

    /// The rows from now on; nothing until they have been made.
    pub(super) fn watch(&self) -> watch::Receiver<Option<Arc<Rows>>> {
        let rows = self.rows.subscribe();
        // One permit is kept if nobody waits just now.
        self.wanted.notify_one();
        rows
    }

    /// Keeps them up for as long as this is not dropped.
    pub(super) async fn keep(&self) -> Infallible {
        let mut revised = self.picture.revised();
        loop {
            if self.rows.receiver_count() == 0 {
                // What nobody keeps up is not shown to the next one.
                self.rows.send_replace(None);
                self.wanted.notified().await;
                continue;
            }
            revised.mark_unchanged();
            let (picture, before) = (self.picture.clone(), self.rows.borrow().clone());
            // Connections need this thread.
            match tokio::task::spawn_blocking(move || look(&picture, before.as_deref())).await {
                Ok(rows) => drop(self.rows.send_replace(Some(Arc::new(rows)))),
                Err(error) => tracing::error!(%error, "it cannot be said who is there"),
            }
            sleep(SPACING).await;
            tokio::select! {
                // The picture lives as long as this.
                _ = revised.changed() => {}
                // Whoever comes now has what there is.
                () = self.wanted.notified() => {}
            }
        }
    }
}

/// All rows as they are. Those that are as they were `before` are the same: who has been told less keeps little for itself.
fn look(picture: &Picture, before: Option<&Rows>) -> Rows {
    let manifests = picture.glance().nodes_and_claims();
    let row = |member: &roster::Member| {
        let key: Arc<str> = match (&member.claim, &member.node) {
            (Some(claim), _) => format!("nodeclaim/{claim}").into(),
            (None, node) => format!("node/{}", node.as_ref().unwrap_or(&member.name)).into(),
        };
        let document = structure(cli::row(member)?);
        let row = Row { pool: member.pool.clone(), document };
        let known = before.and_then(|before| before.get(&key)).filter(|known| ***known == row);
        let row = known.map_or_else(|| Arc::new(row), Arc::clone);
        Some((key, row))
    };
    roster::members(&manifests).iter().filter_map(row).collect()
}
