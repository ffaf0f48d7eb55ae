//! Archive of failing nodes ([`muster_stages::archive`]): at most one record per node and minute, logs of a few at
//! once, and never before their conditions.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use futures::future::join_all;
use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::core::v1::ConfigMap;
use kube::api::{ObjectMeta, PostParams};
use kube::{Api, Client};
use muster_gateway::{Unavailable, Wanted};
use muster_stages::archive::{Place, Record, SLOTS, cleaned, place, slot};
use tokio::time::timeout;

use super::FIELD_MANAGER;

/// Maximum number of nodes of this replica that are sending logs. A thousand that fail for one reason need not all send
/// them.
const AT_ONCE: usize = 4;
/// Timeout for the logs of a node: an agent collects them in half of it. Also the minimum interval between records of a
/// node, so that one that reports ever new verdicts does not cause more writes.
const PATIENCE: SignedDuration = SignedDuration::from_secs(60);
/// Maximum number of records of this replica that wait to be written. More than there are slots would only overwrite
/// each other.
const WAITING: usize = SLOTS;
/// Timeout of writing a record, including the wait for its turn and retries.
const LONGEST: Duration = Duration::from_secs(10);
/// Maximum number of attempts to write a slot that other replicas write too.
const TRIES: usize = 8;

/// Writes records to the slots.
pub(super) struct Records {
    maps: Api<ConfigMap>,
    /// Held briefly, never across an await.
    asked: Mutex<Asked>,
    /// Held during a read and write: those of one replica do not conflict.
    turn: tokio::sync::Mutex<()>,
}

/// Nodes with a record in the last [`PATIENCE`], by instance ID.
#[derive(Debug, Default)]
struct Asked(BTreeMap<String, (Timestamp, Stage)>);

/// State of a node's record.
#[derive(Debug)]
enum Stage {
    /// Its record is being written.
    Keeping,
    /// Its logs, which belong to this record, were requested.
    Asked(Box<Record>),
    /// Nothing more is expected.
    Done,
}

impl Asked {
    /// Marks a record of an instance as being written; returns false if one was written within the last minute, or too
    /// many others are being written.
    fn begin(&mut self, instance: &str, now: Timestamp) -> bool {
        self.forget_old(now);
        let waiting = self.0.values().filter(|(_, stage)| matches!(stage, Stage::Keeping)).count();
        if waiting >= WAITING || self.0.contains_key(instance) {
            return false;
        }
        self.0.insert(instance.to_owned(), (now, Stage::Keeping));
        true
    }

    /// Marks the record that was begun at `now` as written. Returns true if the missing logs are to be requested: not
    /// if too many other nodes are sending theirs.
    fn kept(&mut self, instance: &str, lacks_logs: Option<Record>, now: Timestamp) -> bool {
        self.forget_old(now);
        let on_their_way = self.0.values().filter(|(_, stage)| matches!(stage, Stage::Asked(_))).count();
        let lacks_logs = lacks_logs.filter(|_| on_their_way < AT_ONCE);
        let is_asked = lacks_logs.is_some();
        let stage = lacks_logs.map_or(Stage::Done, |record| Stage::Asked(Box::new(record)));
        self.0.insert(instance.to_owned(), (now, stage));
        is_asked
    }

    /// Forgets the record of an instance that could not be written, so that it can be retried at once.
    fn failed(&mut self, instance: &str) {
        self.0.remove(instance);
    }

    /// Returns the record that an instance's logs belong to, if they were requested. They are accepted once; its minute
    /// continues.
    fn end(&mut self, instance: &str) -> Option<Record> {
        let (_, stage) = self.0.get_mut(instance)?;
        match std::mem::replace(stage, Stage::Done) {
            Stage::Asked(record) => Some(*record),
            other => {
                *stage = other;
                None
            }
        }
    }

    fn forget_old(&mut self, now: Timestamp) {
        self.0.retain(|_, (at, _)| now.duration_since(*at) < PATIENCE);
    }
}

impl Records {
    pub(super) fn new(client: &Client, namespace: &str) -> Self {
        Self {
            maps: Api::namespaced(client.clone(), namespace),
            asked: Mutex::default(),
            turn: tokio::sync::Mutex::default(),
        }
    }

    /// Writes a record of an instance, and returns whether its logs are wanted.
    pub(super) async fn note(&self, instance: &str, record: Record, now: Timestamp) -> Wanted {
        if !self.asked().begin(instance, now) {
            return Wanted::AskAgain;
        }
        match self.keep(&record, None).await {
            Ok(is_wanted) => {
                let is_asked = self.asked().kept(instance, is_wanted.then_some(record), now);
                if is_asked { Wanted::Yes } else { Wanted::No }
            }
            Err(error) => {
                tracing::warn!(%error, instance, "the verdict on a node is not kept beyond its NodeClaim");
                self.asked().failed(instance);
                Wanted::AskAgain
            }
        }
    }

    /// Writes the logs of an instance, if they were requested.
    pub(super) async fn bundle(&self, instance: &str, content: &[u8]) {
        let asked = self.asked().end(instance);
        let Some(record) = asked else {
            tracing::debug!(instance, bytes = content.len(), "a log bundle that was not requested is discarded");
            return;
        };
        if let Err(error) = self.keep(&record, Some(cleaned(content))).await {
            tracing::warn!(%error, instance, "the log bundle of a node is not kept");
        }
    }

    /// Returns all records in the order of their slots, with the bundles of those that `shows_bundle` selects.
    pub(super) async fn all(&self, shows_bundle: impl Fn(&Record) -> bool) -> kube::Result<Vec<ConfigMap>> {
        let mut all = Vec::new();
        for meta in self.metadata().await?.into_iter().flatten() {
            let is_shown = Record::read(&meta).is_some_and(|record| shows_bundle(&record));
            if let Some(name) = meta.name.as_deref().filter(|_| is_shown) {
                // The slot may hold another record by now: its record and bundle are returned as they are.
                all.extend(self.maps.get_opt(name).await?);
            } else {
                all.push(ConfigMap { metadata: meta, ..ConfigMap::default() });
            }
        }
        Ok(all)
    }

    /// Writes the record and its bundle to a slot. Returns true if a bundle is still wanted.
    async fn keep(&self, record: &Record, bundle: Option<String>) -> Result<bool, Unavailable> {
        let kept = timeout(LONGEST, async {
            let _turn = self.turn.lock().await;
            self.put(record, bundle).await
        });
        match kept.await {
            Ok(kept) => kept.map_err(|error| Unavailable(format!("the API server: {error}"))),
            Err(_) => Err(Unavailable(format!("the API server: no answer within {} s", LONGEST.as_secs()))),
        }
    }

    async fn put(&self, record: &Record, bundle: Option<String>) -> kube::Result<bool> {
        for _ in 0..TRIES {
            let seen = self.metadata().await?;
            let held: Vec<Option<Record>> = seen.iter().map(|meta| meta.as_ref().and_then(Record::read)).collect();
            let slot = match place(&held, record) {
                None | Some(Place::There { has_bundle: true, .. }) => return Ok(false),
                Some(Place::There { .. }) if bundle.is_none() => return Ok(true),
                Some(Place::There { slot, .. } | Place::At { slot }) => slot,
            };
            let version = seen.get(slot).and_then(|meta| meta.as_ref()?.resource_version.clone());
            match self.write(&record.written(slot, bundle.clone(), version)).await {
                Ok(()) => return Ok(bundle.is_none()),
                // Another replica has written it: it is read again.
                Err(kube::Error::Api(status)) if matches!(status.code, 404 | 409) => {}
                Err(error) => return Err(error),
            }
        }
        // All slots are taken by other failing nodes.
        Ok(false)
    }

    /// Returns the metadata of the slots in order, which is everything but the bundles; `None` for a missing ConfigMap.
    async fn metadata(&self) -> kube::Result<Vec<Option<ObjectMeta>>> {
        let names: Vec<String> = (0..SLOTS).map(slot).collect();
        let all = join_all(names.iter().map(|name| self.maps.get_metadata_opt(name))).await;
        all.into_iter().map(|found| found.map(|object| object.map(|object| object.metadata))).collect()
    }

    async fn write(&self, wanted: &ConfigMap) -> kube::Result<()> {
        let parameters = PostParams { field_manager: Some(FIELD_MANAGER.to_owned()), ..PostParams::default() };
        let name = wanted.metadata.name.as_deref().unwrap_or_default();
        match wanted.metadata.resource_version {
            Some(_) => self.maps.replace(name, &parameters, wanted).await.map(drop),
            None => self.maps.create(&parameters, wanted).await.map(drop),
        }
    }

    fn asked(&self) -> MutexGuard<'_, Asked> {
        self.asked.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(second: i64) -> Timestamp {
        Timestamp::from_second(second).unwrap()
    }

    /// Records the instance at that second, without logs. Returns whether they are requested; `None` if it may not be
    /// recorded.
    fn note(asked: &mut Asked, instance: &str, second: i64) -> Option<bool> {
        let may = asked.begin(instance, at(second));
        may.then(|| asked.kept(instance, Some(Record::default()), at(second)))
    }

    #[test]
    fn all_are_recorded_and_few_asked_for_logs_at_a_time() {
        let mut asked = Asked::default();
        assert!((0..AT_ONCE).all(|index| note(&mut asked, &format!("i-{index}"), 0) == Some(true)));
        assert_eq!(note(&mut asked, "i-more", 1), Some(false), "its verdict is kept without logs");
        assert!(asked.end("i-more").is_none(), "nobody asked it");
        assert!(asked.end("i-1").is_some() && asked.end("i-1").is_none(), "each answer is one");
        assert_eq!(note(&mut asked, "i-next", 2), Some(true), "one has answered");
        assert_eq!(note(&mut asked, "i-late", 60), Some(true), "the first have been waited for long enough");
        assert!(asked.end("i-0").is_none());
    }

    #[test]
    fn of_one_node_something_is_kept_once_a_minute_whatever_it_says_and_sends() {
        let mut asked = Asked::default();
        let mut kept = Vec::new();
        for second in 0..180 {
            kept.extend(note(&mut asked, "i-0", second).map(|_| second));
            // It sends its logs at once, several times.
            let bundles = (0..3).filter(|_| asked.end("i-0").is_some()).count();
            assert_eq!(bundles, usize::from(kept.last() == Some(&second)));
        }
        assert_eq!(kept, [0, 60, 120]);
    }

    #[test]
    fn what_could_not_be_kept_is_tried_again_and_those_that_wait_are_few() {
        let mut asked = Asked::default();
        assert!((0..WAITING).all(|index| asked.begin(&format!("i-{index}"), at(0))));
        assert!(!asked.begin("i-more", at(1)) && !asked.begin("i-0", at(1)));
        asked.failed("i-0");
        assert!(asked.begin("i-0", at(1)), "at once");
        assert!(!asked.kept("i-1", None, at(0)), "its logs are there");
        assert!(asked.begin("i-more", at(1)));
    }
}
