//! Keeps what [`crate::archive`] says of nodes that cannot become any: at most a few at once, and none of it in the way of their
//! conditions.

use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};

use futures::future::join_all;
use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::core::v1::ConfigMap;
use kube::api::{ObjectMeta, PostParams};
use kube::{Api, Client};

use super::FIELD_MANAGER;
use crate::archive::{Place, Record, SLOTS, cleaned, place, slot};

/// Nodes of this replica whose logs are on their way at once. A thousand that fail for one reason need not all tell it.
const AT_ONCE: usize = 4;
/// How long the logs of one are waited for: an agent has collected them in half of it.
const PATIENCE: SignedDuration = SignedDuration::from_secs(60);
/// Looks and writes until a slot that other replicas write to as well has been written to.
const TRIES: usize = 8;

/// Writes to the slots.
pub(super) struct Records {
    maps: Api<ConfigMap>,
    /// Held for moments, never while anything is awaited.
    asked: Mutex<Asked>,
}

/// Whose logs have been asked for, by instance.
#[derive(Debug, Default)]
struct Asked(BTreeMap<String, (Timestamp, Record)>);

/// A slot as it was seen.
struct Seen {
    record: Option<Record>,
    /// The version of the object, if there is one.
    version: Option<String>,
}

impl Asked {
    /// Takes note that the logs of an instance are asked for; not if they are already, or those of too many others.
    fn begin(&mut self, instance: &str, record: &Record, now: Timestamp) -> bool {
        self.0.retain(|_, (at, _)| now.duration_since(*at) < PATIENCE);
        if self.0.len() >= AT_ONCE || self.0.contains_key(instance) {
            return false;
        }
        self.0.insert(instance.to_owned(), (now, record.clone()));
        true
    }

    /// What the logs of an instance are about, if they were asked for.
    fn end(&mut self, instance: &str) -> Option<Record> {
        self.0.remove(instance).map(|(_, record)| record)
    }
}

impl Records {
    pub(super) fn new(client: &Client, namespace: &str) -> Self {
        Self { maps: Api::namespaced(client.clone(), namespace), asked: Mutex::default() }
    }

    /// Keeps a record of an instance, and says whether its logs are wanted.
    pub(super) async fn note(&self, instance: &str, record: Record, now: Timestamp) -> bool {
        let begun = self.asked.lock().unwrap_or_else(PoisonError::into_inner).begin(instance, &record, now);
        if !begun {
            return false;
        }
        let is_wanted = match self.keep(&record, None).await {
            Ok(is_wanted) => is_wanted,
            Err(error) => {
                tracing::warn!(%error, instance, "the verdict on a node is not kept beyond its NodeClaim");
                false
            }
        };
        if !is_wanted {
            self.asked.lock().unwrap_or_else(PoisonError::into_inner).end(instance);
        }
        is_wanted
    }

    /// Keeps the logs of an instance, if they were asked for.
    pub(super) async fn bundle(&self, instance: &str, content: &[u8]) {
        let asked = self.asked.lock().unwrap_or_else(PoisonError::into_inner).end(instance);
        let Some(record) = asked else {
            tracing::debug!(instance, bytes = content.len(), "a log bundle that nobody asked for is not kept");
            return;
        };
        if let Err(error) = self.keep(&record, Some(cleaned(content))).await {
            tracing::warn!(%error, instance, "the log bundle of a node is not kept");
        }
    }

    /// Has a slot hold the record, and the bundle if there is one. Whether its bundle is still wanted.
    async fn keep(&self, record: &Record, bundle: Option<String>) -> kube::Result<bool> {
        for _ in 0..TRIES {
            let seen = self.look().await?;
            let held: Vec<Option<Record>> = seen.iter().map(|one| one.record.clone()).collect();
            let slot = match place(&held, record) {
                None | Some(Place::There { has_bundle: true, .. }) => return Ok(false),
                Some(Place::There { .. }) if bundle.is_none() => return Ok(true),
                Some(Place::There { slot, .. } | Place::At { slot }) => slot,
            };
            let version = seen.get(slot).and_then(|one| one.version.clone());
            match self.write(&record.written(slot, bundle.clone(), version)).await {
                Ok(()) => return Ok(bundle.is_none()),
                // Another replica has written there: it is looked at again.
                Err(kube::Error::Api(status)) if matches!(status.code, 404 | 409) => {}
                Err(error) => return Err(error),
            }
        }
        // So many fail at once that others have all the places.
        Ok(false)
    }

    /// All that is kept, in the order of the slots; without bundles, unless they are wanted.
    pub(super) async fn all(&self, has_bundles: bool) -> kube::Result<Vec<ConfigMap>> {
        let names: Vec<String> = (0..SLOTS).map(slot).collect();
        let read = async |name: &String| match has_bundles {
            true => self.maps.get_opt(name).await,
            false => {
                let found = self.maps.get_metadata_opt(name).await?;
                Ok(found.map(|object| ConfigMap { metadata: object.metadata, ..ConfigMap::default() }))
            }
        };
        let all = join_all(names.iter().map(read)).await;
        all.into_iter().filter_map(Result::transpose).collect()
    }

    /// What the slots hold, without their bundles.
    async fn look(&self) -> kube::Result<Vec<Seen>> {
        let names: Vec<String> = (0..SLOTS).map(slot).collect();
        let all = join_all(names.iter().map(|name| self.maps.get_metadata_opt(name))).await;
        let seen = |found: kube::Result<Option<_>>| {
            let meta: Option<ObjectMeta> =
                found?.map(|object: kube::core::PartialObjectMeta<ConfigMap>| object.metadata);
            let record = meta.as_ref().and_then(Record::read);
            Ok(Seen { record, version: meta.and_then(|meta| meta.resource_version) })
        };
        all.into_iter().map(seen).collect()
    }

    async fn write(&self, wanted: &ConfigMap) -> kube::Result<()> {
        let parameters = PostParams { field_manager: Some(FIELD_MANAGER.to_owned()), ..PostParams::default() };
        let name = wanted.metadata.name.as_deref().unwrap_or_default();
        match wanted.metadata.resource_version {
            Some(_) => self.maps.replace(name, &parameters, wanted).await.map(drop),
            None => self.maps.create(&parameters, wanted).await.map(drop),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn logs_are_asked_for_once_and_of_few_at_a_time() {
        let at = |second| Timestamp::from_second(second).unwrap();
        let (mut asked, record) = (Asked::default(), Record::default());
        assert!(asked.begin("i-0", &record, at(0)) && !asked.begin("i-0", &record, at(1)));
        assert!((1..AT_ONCE).all(|index| asked.begin(&format!("i-{index}"), &record, at(10))));
        assert!(!asked.begin("i-more", &record, at(59)));
        assert!(asked.end("i-1").is_some() && asked.end("i-1").is_none(), "each answer is one");
        assert!(asked.begin("i-more", &record, at(59)));
        assert!(asked.begin("i-late", &record, at(60)), "the first has been waited for long enough");
        assert!(asked.end("i-0").is_none());
    }
}
