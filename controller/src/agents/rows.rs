//! Rows of all nodes for watches: computed once for all of them, when the cache changes, and only while there are
//! watches.

use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use muster_gateway::{Row, Rows};
use muster_stages::roster;
use serde_json::Value;
use tokio::sync::{Notify, watch};
use tokio::time::sleep;

use super::operators::structure;
use crate::watch::ClusterCache;

/// Minimum interval between updates; changes in between are combined. For 10,000 nodes an update takes some tenths of a
/// second of a core.
const SPACING: Duration = Duration::from_millis(500);

/// Keeps the rows up to date.
pub(super) struct Roster {
    cluster_cache: ClusterCache,
    /// Returns the row of a member.
    document: fn(&roster::Member) -> Option<Value>,
    /// `None` until the first watch.
    rows: watch::Sender<Option<Arc<Rows>>>,
    /// Signals a new watch.
    wanted: Notify,
}

impl Roster {
    pub(super) fn new(cluster_cache: ClusterCache, document: fn(&roster::Member) -> Option<Value>) -> Self {
        Self { cluster_cache, document, rows: watch::Sender::new(None), wanted: Notify::new() }
    }

    /// Watches the rows; `None` until they are computed.
    pub(super) fn watch(&self) -> watch::Receiver<Option<Arc<Rows>>> {
        let rows = self.rows.subscribe();
        // One permit is kept if the task is not waiting just now.
        self.wanted.notify_one();
        rows
    }

    /// Keeps the rows up to date until it is dropped.
    pub(super) async fn keep(&self) -> Infallible {
        let mut revised = self.cluster_cache.revised();
        loop {
            if self.rows.receiver_count() == 0 {
                // Outdated rows are not shown to the next watch.
                self.rows.send_replace(None);
                self.wanted.notified().await;
                continue;
            }
            revised.mark_unchanged();
            let (cluster_cache, before) = (self.cluster_cache.clone(), self.rows.borrow().clone());
            let document = self.document;
            // Connections need this thread.
            match tokio::task::spawn_blocking(move || look(&cluster_cache, before.as_deref(), document)).await {
                Ok(rows) => drop(self.rows.send_replace(Some(Arc::new(rows)))),
                Err(error) => tracing::error!(%error, "the rows of nodes cannot be computed"),
            }
            sleep(SPACING).await;
            tokio::select! {
                // The cache lives as long as this.
                _ = revised.changed() => {}
                // A new watch gets the current rows.
                () = self.wanted.notified() => {}
            }
        }
    }
}

/// Computes all rows. Unchanged ones share the `Arc` of `before`, so that slow readers hold little memory of their own.
fn look(cluster_cache: &ClusterCache, before: Option<&Rows>, document: fn(&roster::Member) -> Option<Value>) -> Rows {
    let manifests = cluster_cache.read().nodes_and_claims();
    let row = |member: &roster::Member| {
        let key: Arc<str> = match (&member.claim, &member.node) {
            (Some(claim), _) => format!("nodeclaim/{claim}").into(),
            (None, node) => format!("node/{}", node.as_ref().unwrap_or(&member.name)).into(),
        };
        let document = structure(document(member)?);
        let row = Row { pool: member.pool.clone(), document };
        let known = before.and_then(|before| before.get(&key)).filter(|known| ***known == row);
        let row = known.map_or_else(|| Arc::new(row), Arc::clone);
        Some((key, row))
    };
    roster::members(&manifests).iter().filter_map(row).collect()
}
