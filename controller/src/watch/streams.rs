//! Watches of all kinds: list, then watch.
//!
//! ```text
//!  list, page by page ──► watch from there on ──┬─► connection ends: watch from the last version on
//!        ▲                                      └─► 410, version too old: list again
//!        └── 404, kind does not exist: retry later, in case it is installed
//! ```
//!
//! An object is removed only if a delete event reports it or a new list lacks it: nothing is removed because the API
//! server is unreachable.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use backon::{BackoffBuilder, ExponentialBackoff, ExponentialBuilder};
use futures::AsyncBufReadExt;
use kube::Client;
use muster_stages::state::{Changed, Cluster, Kind};
use serde::Deserialize;
use serde_json::value::RawValue;
use tokio::task::{JoinError, JoinSet};
use tokio::time::{Instant, sleep, timeout};

use super::cluster_cache::ClusterCache;
use super::error::root_cause;
use super::health::WatchState;
use super::kinds::{DEVICES, RESOURCE_SLICES, RESOURCES, Resource, SELECTING, TEMPLATES};

/// Page size: the number of objects that `kubectl` requests.
const PAGE: u32 = 500;
/// Number of objects of a page that are applied before readers get the lock.
const AT_A_TIME: usize = 32;
/// Timeout of a page: a server that takes longer for 500 objects is considered unresponsive.
const PAGE_DEADLINE: Duration = Duration::from_secs(60);
/// Timeout of a silent watch: the API server sends a bookmark every minute, so the connection is lost without it.
const SILENCE: Duration = Duration::from_secs(100);
/// Delay after all available events are applied: thousands of objects that change one by one are then applied by the
/// dozen with a fraction of the wake-ups, and no decision is made faster than that anyway.
const GATHER: Duration = Duration::from_millis(20);
/// Corresponding delay for pods, which arrive in bursts and are decided about a second later.
const GATHER_PODS: Duration = Duration::from_millis(50);
/// Minimum interval between two such delays: the reading task hands over received data in pieces, and reading them must
/// not be delayed.
const BETWEEN: Duration = Duration::from_millis(5);
/// Duration of a watch and maximum random addition, in seconds; as in client-go, so that not all watches end at once.
const WATCH: (u64, u64) = (300, 300);
/// Retry interval for a kind that the cluster does not have.
const UNKNOWN: Duration = Duration::from_secs(15);
/// Minimum and maximum backoff after a failure. Short enough to resume within seconds after the API server was
/// unavailable for a minute.
const WAIT: (Duration, Duration) = (Duration::from_millis(250), Duration::from_secs(8));

/// Watch tasks that keep the cluster cache current, one per kind. Dropping it ends them.
#[derive(Debug)]
pub struct Following {
    tasks: JoinSet<()>,
}

/// Kinds that are watched only where they are needed.
#[derive(Debug, Clone, Copy, Default)]
pub struct Extras {
    /// True for Services and owners of pods: the default topology spread of a scheduler configuration uses their
    /// selectors.
    pub selecting: bool,
    /// True for PodTemplates and workloads: CapacityBuffers refer to them.
    pub templates: bool,
    /// True for DeviceClasses and claims: nodes are launched for pods with claims.
    pub devices: bool,
}

/// Watches all kinds that decisions about pods and nodes depend on, and `extras`. `client` must not have a read timeout
/// ([`super::connect_to_follow`]).
#[must_use]
pub fn follow(client: &Client, extras: Extras) -> (ClusterCache, Following) {
    let Extras { selecting, templates, devices } = extras;
    let mut resources: Vec<&Resource> = RESOURCES.iter().chain([&RESOURCE_SLICES]).collect();
    resources.extend(if selecting { SELECTING } else { &[] });
    resources.extend(if devices { DEVICES } else { &[] });
    // Some kinds serve both purposes.
    let more = if templates { TEMPLATES } else { &[] };
    resources.extend(more.iter().filter(|one| !selecting || !SELECTING.contains(one)));
    let cluster_cache = ClusterCache::new(resources.iter().map(|resource| resource.kind));
    let mut tasks = JoinSet::new();
    for resource in resources {
        let stream = Stream { resource: *resource, client: client.clone(), cluster_cache: cluster_cache.clone() };
        tasks.spawn(stream.run());
    }
    (cluster_cache, Following { tasks })
}

/// Reason why a request returned no data.
enum Failed {
    /// The resource version, or the continue token, is too old.
    Expired,
    /// The cluster does not have the kind.
    Unknown,
    /// Another error, as a message.
    Other(String),
}

struct Stream {
    resource: Resource,
    client: Client,
    cluster_cache: ClusterCache,
}

/// A page of a list.
#[derive(Deserialize)]
struct Page<'a> {
    #[serde(default)]
    metadata: PageMeta,
    #[serde(borrow, default)]
    items: Option<Vec<&'a RawValue>>,
}

#[derive(Deserialize, Default)]
#[serde(rename_all = "camelCase")]
struct PageMeta {
    #[serde(default, rename = "continue")]
    after: Option<String>,
    #[serde(default)]
    resource_version: Option<String>,
}

/// A line of a watch.
#[derive(Deserialize)]
struct Line<'a> {
    #[serde(rename = "type")]
    event: &'a str,
    #[serde(borrow)]
    object: &'a RawValue,
}

/// Object of a line that is not an object of the watched kind: a bookmark or an error.
#[derive(Deserialize)]
struct Remark {
    #[serde(default)]
    metadata: PageMeta,
    #[serde(default)]
    code: Option<u16>,
    #[serde(default)]
    message: Option<String>,
}

// === impl Following ===

impl Following {
    /// Waits for a task to end. Tasks never end normally; one that panicked leaves the cache incomplete.
    pub async fn ended(&mut self) -> Option<JoinError> {
        self.tasks.join_next().await.and_then(Result::err)
    }
}

// === impl Stream ===

impl Stream {
    async fn run(self) {
        let mut waits = waits();
        loop {
            match self.list().await {
                Ok(version) => {
                    self.cluster_cache.set_status(self.resource.kind, WatchState::Following);
                    let listed = version.clone();
                    if self.watch(version).await == listed {
                        // The version has expired already: lists are expensive, so back off first.
                        sleep(next(&mut waits)).await;
                    } else {
                        waits = self::waits();
                    }
                }
                Err(Failed::Unknown) => {
                    self.cluster_cache.mark_seen(self.resource.kind);
                    self.cluster_cache.set_status(self.resource.kind, WatchState::Unknown);
                    sleep(jittered(UNKNOWN)).await;
                }
                // The list expired while it was read: start again after a backoff.
                Err(Failed::Expired) => sleep(next(&mut waits)).await,
                Err(Failed::Other(trouble)) => {
                    self.cluster_cache.trouble(self.resource.kind, trouble);
                    sleep(next(&mut waits)).await;
                }
            }
        }
    }

    /// Lists all objects, and removes those that no longer exist. Returns the version from which to watch.
    async fn list(&self) -> Result<String, Failed> {
        let kind = self.resource.kind;
        let mut paths: BTreeSet<Arc<str>> = BTreeSet::new();
        let mut after = String::new();
        loop {
            let request = request(self.resource.live_page(PAGE, &after))?;
            let text = timeout(PAGE_DEADLINE, self.client.request_text(request)).await;
            let text = text.map_err(|_| Failed::Other(format!("no answer within {} s", PAGE_DEADLINE.as_secs())))?;
            let text = text.map_err(|error| self.failed(&error))?;
            let page: Page<'_> = serde_json::from_str(&text).map_err(|error| nonsense(&error))?;
            self.cluster_cache.mark_seen(kind);
            for items in page.items.unwrap_or_default().chunks(AT_A_TIME) {
                self.cluster_cache.change(|cluster| (apply_page(cluster, kind, items, &mut paths), ()));
                tokio::task::yield_now().await;
            }
            let PageMeta { after: next, resource_version } = page.metadata;
            match next.filter(|token| !token.is_empty()) {
                Some(token) => after = token,
                None => {
                    self.cluster_cache.change(|cluster| (cluster.retain(kind, &paths), ()));
                    return Ok(resource_version.unwrap_or_default());
                }
            }
        }
    }

    /// Watches from `version` on until that version has expired. Returns the last version reached.
    async fn watch(&self, mut version: String) -> String {
        let mut waits = waits();
        loop {
            let before = version.clone();
            match self.watch_once(&mut version).await {
                Ok(()) => {}
                Err(Failed::Expired | Failed::Unknown) => return version,
                Err(Failed::Other(trouble)) => self.cluster_cache.trouble(self.resource.kind, trouble),
            }
            // Without a delay, a watch that returns nothing would be reopened in a tight loop.
            if before == version {
                sleep(next(&mut waits)).await;
            } else {
                waits = self::waits();
            }
        }
    }

    /// Applies the events of one connection, and updates `version`.
    async fn watch_once(&self, version: &mut String) -> Result<(), Failed> {
        let seconds = WATCH.0 + fastrand::u64(0..WATCH.1);
        let request = request(self.resource.watch(version, seconds))?;
        let opened = timeout(PAGE_DEADLINE, self.client.request_stream(request)).await;
        let opened = opened.map_err(|_| Failed::Other(format!("no answer within {} s", PAGE_DEADLINE.as_secs())))?;
        let mut lines = std::pin::pin!(opened.map_err(|error| self.failed(&error))?);
        self.cluster_cache.mark_seen(self.resource.kind);
        let mut line = Vec::new();
        let mut rested = Instant::now();
        loop {
            line.clear();
            let mut next = lines.read_until(b'\n', &mut line);
            let read = match futures::poll!(&mut next) {
                Poll::Ready(read) => read,
                Poll::Pending => {
                    if rested.elapsed() >= BETWEEN {
                        sleep(if self.resource.kind == Kind::Pod { GATHER_PODS } else { GATHER }).await;
                        rested = Instant::now();
                    }
                    let read = timeout(SILENCE, next).await;
                    read.map_err(|_| Failed::Other(format!("silent for {} s", SILENCE.as_secs())))?
                }
            };
            if read.map_err(|error| Failed::Other(root_cause(&error)))? == 0 || !line.ends_with(b"\n") {
                // The API server ends a watch at its timeout; an unterminated line was cut off.
                return Ok(());
            }
            self.take(&line, version)?;
        }
    }

    /// Applies one line.
    fn take(&self, line: &[u8], version: &mut String) -> Result<(), Failed> {
        let kind = self.resource.kind;
        let Line { event, object } = serde_json::from_slice(line).map_err(|error| nonsense(&error))?;
        self.cluster_cache.mark_seen(kind);
        let text = object.get();
        let reached = match event {
            "ADDED" | "MODIFIED" => self.cluster_cache.change(|cluster| cluster.apply_at(kind, text)),
            "DELETED" => self.cluster_cache.change(|cluster| cluster.remove_at(kind, text)),
            _ => {
                let remark: Remark = serde_json::from_str(text).map_err(|error| nonsense(&error))?;
                match (event, remark.code) {
                    ("ERROR", Some(410)) => return Err(Failed::Expired),
                    ("ERROR", _) => return Err(Failed::Other(remark.message.unwrap_or_default())),
                    _ => remark.metadata.resource_version,
                }
            }
        };
        if let Some(reached) = reached.filter(|reached| !reached.is_empty()) {
            *version = reached;
        }
        Ok(())
    }

    fn failed(&self, error: &kube::Error) -> Failed {
        match error {
            kube::Error::Api(status) if status.code == 410 => Failed::Expired,
            kube::Error::Api(status) if status.code == 404 && self.resource.optional => Failed::Unknown,
            kube::Error::Api(status) => Failed::Other(status.message.clone()),
            other => Failed::Other(root_cause(other)),
        }
    }
}

/// Applies objects of a list, and adds their paths to `paths`.
fn apply_page(cluster: &mut Cluster, kind: Kind, items: &[&RawValue], paths: &mut BTreeSet<Arc<str>>) -> Changed {
    let mut changed = Changed::default();
    for item in items {
        let (news, path) = cluster.apply_listed(kind, item.get());
        changed.merge(news);
        paths.insert(path);
    }
    changed
}

fn nonsense(error: &serde_json::Error) -> Failed {
    Failed::Other(format!("the answer was cut off, or makes no sense: {error}"))
}

fn request(path: String) -> Result<http::Request<Vec<u8>>, Failed> {
    // No compression is requested, because watches and pages are parsed as they are received.
    http::Request::get(path).body(Vec::new()).map_err(|error| Failed::Other(error.to_string()))
}

fn waits() -> ExponentialBackoff {
    ExponentialBuilder::new().with_min_delay(WAIT.0).with_max_delay(WAIT.1).without_max_times().with_jitter().build()
}

fn next(waits: &mut ExponentialBackoff) -> Duration {
    waits.next().unwrap_or(WAIT.1)
}

/// Adds up to 10%, so that replicas do not send requests at the same time.
fn jittered(duration: Duration) -> Duration {
    duration.mul_f64(1.0 + fastrand::f64() / 10.0)
}
