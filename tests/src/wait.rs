//! Waiting for a condition with a deadline.
//!
//! ```text
//!  object ──► watch: initial list, then every change ──► condition true ──► the object
//!                                                    └── deadline ───────► what was seen last
//!  server that starts ──► asked again until it answers, as long as its process lives
//! ```
//!
//! Conditions on the cluster are watched, never polled: a test sees every version that the API server sends, so a state
//! that lasts for a millisecond is not missed, and nothing waits longer than the cluster needs.

use std::fmt::Debug;
use std::future::Future;
use std::pin::pin;
use std::time::Duration;

use futures::TryStreamExt;
use kube::runtime::watcher::{Config, Event, watcher};
use kube::{Api, Resource, ResourceExt};
use serde::Serialize;
use serde::de::DeserializeOwned;
use tokio::time::{Instant, timeout_at};

use crate::error::{Error, Result};

/// How long to wait between two questions to a server that does not answer yet. There is nothing to watch at that time.
const AGAIN: Duration = Duration::from_millis(20);

/// What a watch is limited to.
#[derive(Debug, Clone, Default)]
pub struct Selection {
    labels: Option<String>,
    fields: Option<String>,
}

impl Selection {
    /// Everything of the kind.
    pub fn all() -> Self {
        Self::default()
    }

    /// One object.
    pub fn named(name: &str) -> Self {
        Self { fields: Some(format!("metadata.name={name}")), ..Self::default() }
    }

    /// Objects with these labels, as `app=web,tier!=front`.
    pub fn labelled(selector: &str) -> Self {
        Self { labels: Some(selector.to_owned()), ..Self::default() }
    }
}

/// Watches the object `name` until `holds` says yes to it, and gives it back.
///
/// # Errors
/// [`Error::Deadline`] with `what` and the last version that was seen.
pub async fn until<K>(
    api: Api<K>,
    name: &str,
    most: Duration,
    what: &str,
    mut holds: impl FnMut(&K) -> bool,
) -> Result<K>
where
    K: Resource + Clone + DeserializeOwned + Serialize + Debug + Send + 'static,
{
    let found = until_all(api, Selection::named(name), most, what, |objects| objects.iter().any(&mut holds)).await?;
    found.into_iter().next().ok_or_else(|| Error::Deadline {
        what: what.to_owned(),
        waited: most,
        seen: "nothing".into(),
    })
}

/// Watches the selected objects until `holds` says yes to all of them together, by name, and gives them back.
///
/// # Errors
/// [`Error::Deadline`] with `what` and what was there at the end.
pub async fn until_all<K>(
    api: Api<K>,
    selection: Selection,
    most: Duration,
    what: &str,
    mut holds: impl FnMut(&[K]) -> bool,
) -> Result<Vec<K>>
where
    K: Resource + Clone + DeserializeOwned + Serialize + Debug + Send + 'static,
{
    let end = Instant::now() + most;
    let config = Config { label_selector: selection.labels, field_selector: selection.fields, ..Config::default() };
    let mut events = pin!(watcher(api, config));
    let mut seen: Vec<K> = Vec::new();
    let mut listing: Vec<K> = Vec::new();
    let mut trouble = None;
    loop {
        let Ok(event) = timeout_at(end, events.try_next()).await else { break };
        match event {
            // Nothing is known yet: that nothing is there would be a guess.
            Ok(Some(Event::Init)) => {
                listing.clear();
                continue;
            }
            Ok(Some(Event::InitApply(object))) => {
                put(&mut listing, object);
                continue;
            }
            Ok(Some(Event::InitDone)) => seen = std::mem::take(&mut listing),
            Ok(Some(Event::Apply(object))) => put(&mut seen, object),
            Ok(Some(Event::Delete(object))) => seen.retain(|other| !is_same(other, &object)),
            Ok(None) => break,
            // The watcher starts again by itself; what went wrong is only of interest if the deadline passes.
            Err(error) => {
                trouble = Some(error.to_string());
                continue;
            }
        }
        if listing.is_empty() && holds(&seen) {
            return Ok(seen);
        }
    }
    let seen = trouble.unwrap_or_else(|| shown(seen));
    Err(Error::Deadline { what: what.to_owned(), waited: most, seen })
}

/// Watches until the object `name` is there no more.
///
/// # Errors
/// [`Error::Deadline`] with its last version.
pub async fn until_gone<K>(api: Api<K>, name: &str, most: Duration) -> Result<()>
where
    K: Resource + Clone + DeserializeOwned + Serialize + Debug + Send + 'static,
{
    let what = format!("`{name}` is gone");
    until_all(api, Selection::named(name), most, &what, <[K]>::is_empty).await.map(|_| ())
}

/// Makes sure that `holds` says yes to the selected objects for all of `span`, through every change. For the few tests
/// that must show that nothing happens: they take as long as they say.
///
/// # Errors
/// [`Error::Deadline`] with the state in which it did not hold.
pub async fn stays<K>(
    api: Api<K>,
    selection: Selection,
    span: Duration,
    what: &str,
    mut holds: impl FnMut(&[K]) -> bool,
) -> Result<()>
where
    K: Resource + Clone + DeserializeOwned + Serialize + Debug + Send + 'static,
{
    // A watch that never came about proves nothing.
    let mut looked = false;
    let result = until_all(api, selection, span, what, |objects| {
        looked = true;
        !holds(objects)
    });
    match result.await {
        Ok(broken) => Err(Error::Deadline { what: format!("it stays so: {what}"), waited: span, seen: shown(broken) }),
        Err(error) if looked && error.is_deadline() => Ok(()),
        Err(error) => Err(error),
    }
}

/// Asks a server that starts until it answers. `ask` gives `Ok(None)` for "not yet" and an error when there is no hope.
///
/// # Errors
/// [`Error::Deadline`], or the error of `ask`.
pub async fn until_some<T, F>(what: &str, most: Duration, mut ask: impl FnMut() -> F) -> Result<T>
where
    F: Future<Output = Result<Option<T>>>,
{
    let end = Instant::now() + most;
    loop {
        if let Some(answer) = ask().await? {
            return Ok(answer);
        }
        if Instant::now() + AGAIN >= end {
            return Err(Error::Deadline { what: what.to_owned(), waited: most, seen: "no answer".to_owned() });
        }
        tokio::time::sleep(AGAIN).await;
    }
}

/// As kubectl shows them with `-o json`, without who wrote which field.
fn shown<K: Resource + Serialize>(mut objects: Vec<K>) -> String {
    for object in &mut objects {
        object.meta_mut().managed_fields = None;
    }
    serde_json::to_string_pretty(&objects).unwrap_or_else(|error| error.to_string())
}

/// By namespace and name, so that what a condition sees does not depend on the order of events.
fn put<K: Resource>(objects: &mut Vec<K>, object: K) {
    let key = |object: &K| (object.namespace(), object.name_any());
    match objects.binary_search_by_key(&key(&object), key) {
        Ok(index) => objects[index] = object,
        Err(index) => objects.insert(index, object),
    }
}

fn is_same<K: Resource>(one: &K, other: &K) -> bool {
    one.namespace() == other.namespace() && one.name_any() == other.name_any()
}
