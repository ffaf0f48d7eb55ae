//! Watch of nodes. Changes are computed from what the reader was sent and the current rows, without a queue: a slow
//! reader gets the latest state of each row and never the states in between.

use std::any::Any;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::vec::IntoIter;

use futures::stream::{Stream, unfold};
use muster_proto::muster::{NodeChange, WatchResponse};
use prost_types::Struct;
use tokio::sync::watch;
use tokio::time::{Duration, Instant};
use tonic::Status;

/// Time that a reader has for one snapshot; one of 10,000 rows has some 10 MB. The snapshot is kept in memory for that
/// long.
const SLOWEST: Duration = Duration::from_mins(1);

/// Row of a node.
#[derive(Debug, Clone, PartialEq)]
pub struct Row {
    /// NodePool of the node.
    pub pool: Option<Arc<str>>,
    /// The row as a document, without fields that change with time alone.
    pub document: Struct,
}

/// Snapshot of all rows, by their keys.
pub type Rows = BTreeMap<Arc<str>, Arc<Row>>;

/// Change that is not sent yet.
type Change = (NodeChange, Arc<str>, Option<Arc<Row>>);

/// State of a watch between two answers.
struct Watched {
    rows: watch::Receiver<Option<Arc<Rows>>>,
    ending: watch::Receiver<bool>,
    /// Filter: only rows of this NodePool are sent.
    pool: Option<String>,
    /// Snapshot that the reader has once all of `untold` is sent.
    told: Arc<Rows>,
    untold: IntoIter<Change>,
    /// Start of sending `untold`.
    since: Instant,
    has_told_all: bool,
    /// Place of the watch, which is free once this is dropped.
    _place: Box<dyn Any + Send>,
}

/// Returns the answers of a watch until the connection is to end.
pub(crate) fn watched(
    rows: watch::Receiver<Option<Arc<Rows>>>,
    pool: Option<String>,
    ending: watch::Receiver<bool>,
    place: impl Send + 'static,
) -> impl Stream<Item = Result<WatchResponse, Status>> + Send {
    let told = Arc::new(Rows::new());
    let (untold, since) = (Vec::new().into_iter(), Instant::now());
    let begun = Watched { rows, ending, pool, told, untold, since, has_told_all: false, _place: Box::new(place) };
    unfold(Some(begun), |watched| async {
        let mut watched = watched?;
        Some(match watched.next().await {
            Ok(answer) => (Ok(answer), Some(watched)),
            Err(status) => (Err(status), None),
        })
    })
}

/// Returns the changes from `told` to `latest`: deleted rows first, then added and modified ones.
fn changes(told: &Rows, latest: &Rows, is_meant: impl Fn(&Row) -> bool) -> Vec<Change> {
    let before = |key: &Arc<str>| told.get(key).filter(|row| is_meant(row));
    let after = |key: &Arc<str>| latest.get(key).filter(|row| is_meant(row));
    let gone = told.iter().filter(|(key, row)| is_meant(row) && after(key).is_none());
    let gone = gone.map(|(key, row)| (NodeChange::Deleted, Arc::clone(key), Some(Arc::clone(row))));
    let there = latest.iter().filter(|(_, row)| is_meant(row)).filter_map(|(key, row)| {
        let change = match before(key) {
            None => NodeChange::Added,
            // Nearly all are the same `Arc`: the producer keeps rows that have not changed.
            Some(known) if Arc::ptr_eq(known, row) || known == row => return None,
            Some(_) => NodeChange::Modified,
        };
        Some((change, Arc::clone(key), Some(Arc::clone(row))))
    });
    gone.chain(there).collect()
}

// === impl Watched ===

impl Watched {
    async fn next(&mut self) -> Result<WatchResponse, Status> {
        loop {
            if *self.ending.borrow() {
                return Err(ended());
            }
            if let Some((change, key, row)) = self.untold.next() {
                if self.since.elapsed() > SLOWEST {
                    return Err(Status::resource_exhausted("you read too slowly: watch again"));
                }
                let node = row.map(|row| row.document.clone());
                return Ok(WatchResponse { change: change.into(), key: key.to_string(), node });
            }
            let latest = tokio::select! {
                latest = self.rows.wait_for(|rows| rows.as_ref().is_some_and(|rows| !Arc::ptr_eq(rows, &self.told))) => {
                    // The producer of the rows ends with the server.
                    latest.ok().and_then(|rows| rows.clone())
                }
                _ = self.ending.wait_for(|ending| *ending) => None,
            };
            let Some(latest) = latest else { return Err(ended()) };
            let is_meant = |row: &Row| self.pool.is_none() || row.pool.as_deref() == self.pool.as_deref();
            let mut untold = changes(&self.told, &latest, is_meant);
            if !std::mem::replace(&mut self.has_told_all, true) {
                untold.push((NodeChange::AllTold, Arc::from(""), None));
            }
            (self.told, self.untold, self.since) = (latest, untold.into_iter(), Instant::now());
        }
    }
}

fn ended() -> Status {
    Status::unavailable("the connection is to end: watch again")
}

#[cfg(test)]
mod tests {
    use std::pin::pin;

    use futures::StreamExt;
    use futures::future::FutureExt;
    use prost_types::{Value, value::Kind};
    use tokio::sync::Semaphore;
    use tonic::Code;

    use super::*;

    fn row(pool: &str, phase: &str) -> Arc<Row> {
        let value = Value { kind: Some(Kind::StringValue(phase.to_owned())) };
        Arc::new(Row { pool: Some(pool.into()), document: Struct { fields: [("phase".to_owned(), value)].into() } })
    }

    fn rows<const N: usize>(all: [(&str, &str, &str); N]) -> Option<Arc<Rows>> {
        Some(Arc::new(all.map(|(key, pool, phase)| (key.into(), row(pool, phase))).into_iter().collect()))
    }

    fn shown(answer: &WatchResponse) -> String {
        let phase = answer.node.as_ref().and_then(|node| node.fields["phase"].kind.clone());
        let phase = match phase {
            Some(Kind::StringValue(text)) => text,
            _ => String::new(),
        };
        format!("{} {} {phase}", answer.change().as_str_name().trim_start_matches("NODE_CHANGE_"), answer.key)
    }

    struct Fixture {
        rows: watch::Sender<Option<Arc<Rows>>>,
        ending: watch::Sender<bool>,
        places: Arc<Semaphore>,
    }

    impl Fixture {
        fn new() -> Self {
            Self { rows: watch::channel(None).0, ending: watch::channel(false).0, places: Arc::new(Semaphore::new(1)) }
        }

        fn watched(&self, pool: Option<&str>) -> impl Stream<Item = Result<WatchResponse, Status>> + use<> {
            let place = Arc::clone(&self.places).try_acquire_owned().unwrap();
            watched(self.rows.subscribe(), pool.map(str::to_owned), self.ending.subscribe(), place)
        }
    }

    /// Returns all answers that are available without waiting.
    fn said(stream: &mut (impl Stream<Item = Result<WatchResponse, Status>> + Unpin)) -> Vec<String> {
        let mut all = Vec::new();
        while let Some(answer) = stream.next().now_or_never() {
            match answer {
                Some(Ok(answer)) => all.push(shown(&answer)),
                Some(Err(status)) => all.push(format!("{:?}", status.code())),
                None => break,
            }
        }
        all
    }

    #[tokio::test(start_paused = true)]
    async fn all_is_told_and_then_what_changes() {
        let ground = Fixture::new();
        let mut stream = pin!(ground.watched(None));
        assert_eq!(said(&mut stream), [""; 0], "nothing is known yet");
        ground.rows.send_replace(rows([("a", "p", "Ready"), ("b", "q", "Launched")]));
        assert_eq!(said(&mut stream), ["ADDED a Ready", "ADDED b Launched", "ALL_TOLD  "]);
        ground.rows.send_replace(rows([("b", "q", "Ready"), ("c", "p", "Launching")]));
        assert_eq!(said(&mut stream), ["DELETED a Ready", "MODIFIED b Ready", "ADDED c Launching"]);
        ground.rows.send_replace(rows([("b", "q", "Ready"), ("c", "p", "Launching")]));
        assert_eq!(said(&mut stream), [""; 0], "nothing has changed");
        ground.ending.send_replace(true);
        assert_eq!(said(&mut stream), ["Unavailable"]);
    }

    #[tokio::test(start_paused = true)]
    async fn the_very_row_that_was_told_is_not_looked_into() {
        let ground = Fixture::new();
        let mut stream = pin!(ground.watched(None));
        // NaN differs from itself: a comparison by value would send the row again.
        let value = Value { kind: Some(Kind::NumberValue(f64::NAN)) };
        let row = Arc::new(Row { pool: None, document: Struct { fields: [("phase".to_owned(), value)].into() } });
        let rows = || Some(Arc::new(Rows::from([(Arc::from("a"), Arc::clone(&row))])));
        ground.rows.send_replace(rows());
        assert_eq!(said(&mut stream), ["ADDED a ", "ALL_TOLD  "]);
        ground.rows.send_replace(rows());
        assert_eq!(said(&mut stream), [""; 0]);
    }

    #[tokio::test(start_paused = true)]
    async fn of_a_pool_only_its_own_are_told() {
        let ground = Fixture::new();
        let mut stream = pin!(ground.watched(Some("q")));
        ground.rows.send_replace(rows([("a", "p", "Ready")]));
        assert_eq!(said(&mut stream), ["ALL_TOLD  "]);
        ground.rows.send_replace(rows([("a", "q", "Ready")]));
        assert_eq!(said(&mut stream), ["ADDED a Ready"]);
        ground.rows.send_replace(rows([("a", "p", "Ready")]));
        assert_eq!(said(&mut stream), ["DELETED a Ready"]);
    }

    #[tokio::test(start_paused = true)]
    async fn who_reads_slowly_is_told_the_latest_and_then_ended() {
        let ground = Fixture::new();
        let mut stream = pin!(ground.watched(None));
        ground.rows.send_replace(rows([("a", "p", "Launching"), ("b", "p", "Launching")]));
        assert_eq!(shown(&stream.next().await.unwrap().unwrap()), "ADDED a Launching");
        for phase in ["Launched", "Registered", "Ready"] {
            ground.rows.send_replace(rows([("a", "p", phase), ("b", "p", phase)]));
        }
        assert_eq!(
            said(&mut stream),
            ["ADDED b Launching", "ALL_TOLD  ", "MODIFIED a Ready", "MODIFIED b Ready"],
            "what was between is never told"
        );
        ground.rows.send_replace(rows([]));
        assert_eq!(shown(&stream.next().await.unwrap().unwrap()), "DELETED a Ready");
        tokio::time::advance(SLOWEST * 2).await;
        assert_eq!(stream.next().await.unwrap().unwrap_err().code(), Code::ResourceExhausted);
        assert!(stream.next().await.is_none());
    }

    #[tokio::test(start_paused = true)]
    async fn a_place_is_free_when_its_watch_has_gone() {
        let ground = Fixture::new();
        let stream = ground.watched(None);
        assert_eq!(ground.places.available_permits(), 0);
        drop(stream);
        assert_eq!(ground.places.available_permits(), 1);
    }
}
