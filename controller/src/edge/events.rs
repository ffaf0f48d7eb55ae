//! Kubernetes events, deduplicated.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use http::Request;
use jiff::Timestamp;
use kube::Client;
use muster_api::events;
use muster_cloud::after;
use muster_stages::step::{Event, EventType};
use serde::Deserialize;
use serde_json::json;
use tokio::time::timeout;

use super::fate::{Fate, root_cause};
use super::pace::Pace;

/// Time for which the same event is not published again: Karpenter's value.
const SAME: Duration = Duration::from_secs(120);
/// The same for events about states that last: Karpenter's value.
const SAME_STATE: Duration = Duration::from_secs(15 * 60);
/// Reasons of such events.
const STATES: [&str; 2] = [events::UNCONSOLIDATABLE, events::NODE_REPAIR_BLOCKED];
/// Maximum number of events remembered; beyond it the expired ones, or else the oldest, are forgotten and may be
/// published again.
const MOST: usize = 10_000;
/// Timeout of publishing one event.
const LONGEST: Duration = Duration::from_secs(2);
/// Rate limits of events of which there may be thousands at once: reason, per second, burst, and whether each namespace
/// has a limit of its own, so that pods of one do not silence those of others. The first is Karpenter's. What is not
/// admitted is decided again, and published later if it still holds.
const LIMITS: [(&str, f64, f64, bool); 7] = [
    (events::NOMINATED, 5.0, 10.0, false),
    (events::UNCONSOLIDATABLE, 5.0, 50.0, false),
    (events::DISRUPTION_BLOCKED, 5.0, 50.0, false),
    (events::EVICTED, 5.0, 50.0, true),
    (events::INVALID_DO_NOT_DISRUPT_ANNOTATION, 1.0, 10.0, true),
    (events::DO_NOT_DISRUPT_UNTIL, 1.0, 10.0, true),
    (events::DO_NOT_DISRUPT_GRACE_PERIOD_ELAPSED, 1.0, 10.0, true),
];
/// Maximum number of rate limits remembered; beyond it those that are not in use are forgotten.
const MOST_LIMITS: usize = 1000;
/// Maximum length of a message that the API server accepts, in bytes.
const LONGEST_MESSAGE: usize = 1024;
/// Component that reports events.
const COMPONENT: &str = "muster";

/// Publishes events as Karpenter does: of `v1`, with a counter for repetitions.
#[derive(Clone)]
pub struct Recorder {
    client: Client,
    pace: Arc<Pace>,
    /// Name of this replica.
    instance: String,
    /// Locked briefly, never across an `await`.
    told: Arc<Mutex<RecentEvents>>,
}

/// Recently published events.
#[derive(Debug, Default)]
struct RecentEvents {
    /// Time until which an event is not published again.
    when: BTreeMap<u64, Timestamp>,
    /// Remaining tokens of the rate limits, by reason and namespace, and the time of that value.
    tokens: BTreeMap<(&'static str, String), (f64, Timestamp)>,
}

/// The existing event.
#[derive(Deserialize)]
struct There {
    #[serde(default)]
    count: Option<i64>,
}

// === impl Recorder ===

impl Recorder {
    /// Creates a recorder for the replica with this name.
    #[must_use]
    pub fn new(client: Client, pace: Pace, instance: &str) -> Self {
        Self { client, pace: Arc::new(pace), instance: instance.to_owned(), told: Arc::default() }
    }

    /// Publishes an event, unless the same was published or refused within the last two minutes.
    pub(crate) async fn publish(&self, event: &Event, now: Timestamp) -> Fate {
        let hash = hash_of(event);
        // Before it is sent, so that it is not sent twice at the same time.
        if !self.told().admits(event, hash, now) {
            return Fate::Done;
        }
        let sent = async {
            self.pace.turn().await;
            self.send(event, hash, now).await
        };
        let fate = match timeout(LONGEST, sent).await {
            Ok(Ok(())) => Fate::Done,
            Ok(Err(kube::Error::Api(status))) => match status.code {
                404 => Fate::Gone,
                429 | 500.. => Fate::Unavailable(status.message.clone()),
                _ => Fate::Refused(status.message.clone()),
            },
            Ok(Err(error)) => Fate::Unavailable(root_cause(&error)),
            Err(_) => Fate::Unavailable("no answer in time".to_owned()),
        };
        if matches!(fate, Fate::Unavailable(_)) {
            self.told().when.remove(&hash);
        }
        fate
    }

    /// Returns true if the same event was not published within the time in which it is not published again.
    pub(super) fn is_news(&self, event: &Event, now: Timestamp) -> bool {
        self.told().when.get(&hash_of(event)).is_none_or(|until| now >= *until)
    }

    fn told(&self) -> MutexGuard<'_, RecentEvents> {
        self.told.lock().unwrap_or_else(PoisonError::into_inner)
    }

    async fn send(&self, event: &Event, hash: u64, now: Timestamp) -> kube::Result<()> {
        let about = &event.about;
        let namespace = about.namespace.as_deref().unwrap_or("default");
        // The name is a function of the content: an event published before a restart is counted up instead of created
        // again.
        let name = format!("{}.{hash:016x}", about.name);
        let events = format!("/api/v1/namespaces/{namespace}/events");
        let moment = seconds(now);
        let body = json!({
            "apiVersion": "v1", "kind": "Event",
            "metadata": {"name": name, "namespace": namespace},
            "involvedObject": {
                "apiVersion": api_version(&about.kind), "kind": about.kind, "namespace": about.namespace,
                "name": about.name, "uid": about.uid,
            },
            "reason": event.reason,
            "message": shortened(&event.message),
            "type": match event.kind { EventType::Normal => "Normal", EventType::Warning => "Warning" },
            "source": {"component": COMPONENT},
            "reportingComponent": COMPONENT,
            "reportingInstance": self.instance,
            "firstTimestamp": moment, "lastTimestamp": moment, "count": 1,
        });
        let post = Request::post(&events).header(http::header::CONTENT_TYPE, "application/json");
        let body = serde_json::to_vec(&body).map_err(kube::Error::SerdeError)?;
        match self.client.request_text(post.body(body).map_err(kube::Error::HttpError)?).await {
            Err(kube::Error::Api(status)) if status.code == 409 => {}
            answer => return answer.map(|_| ()),
        }
        let get = Request::get(format!("{events}/{name}")).body(Vec::new()).map_err(kube::Error::HttpError)?;
        let there: There = self.client.request(get).await?;
        let count = there.count.unwrap_or(1).saturating_add(1);
        let patch = Request::patch(format!("{events}/{name}"));
        let patch = patch.header(http::header::CONTENT_TYPE, "application/merge-patch+json");
        let body = serde_json::to_vec(&json!({"count": count, "lastTimestamp": moment}));
        let body = body.map_err(kube::Error::SerdeError)?;
        self.client.request_text(patch.body(body).map_err(kube::Error::HttpError)?).await.map(|_| ())
    }
}

// === impl RecentEvents ===

impl RecentEvents {
    fn admits(&mut self, event: &Event, hash: u64, now: Timestamp) -> bool {
        if self.when.get(&hash).is_some_and(|until| now < *until) || !self.is_within_limit(event, now) {
            return false;
        }
        if self.when.len() >= MOST {
            self.when.retain(|_, until| now < *until);
        }
        if self.when.len() >= MOST {
            let oldest = self.when.iter().min_by_key(|(_, until)| **until).map(|(hash, _)| *hash);
            oldest.and_then(|hash| self.when.remove(&hash));
        }
        let same = if STATES.contains(&event.reason) { SAME_STATE } else { SAME };
        self.when.insert(hash, after(now, same));
        true
    }

    fn is_within_limit(&mut self, event: &Event, now: Timestamp) -> bool {
        let Some((reason, per_second, burst, is_of_namespace)) =
            LIMITS.into_iter().find(|(reason, ..)| *reason == event.reason)
        else {
            return true;
        };
        let left_at = |(left, then): (f64, Timestamp)| {
            let passed = now.duration_since(then).as_secs_f64().max(0.0);
            (left + passed * per_second).min(burst)
        };
        let namespace = event.about.namespace.clone().filter(|_| is_of_namespace).unwrap_or_default();
        if self.tokens.len() >= MOST_LIMITS {
            self.tokens.retain(|(of, _), tokens| *of != reason || left_at(*tokens) < burst);
        }
        if self.tokens.len() >= MOST_LIMITS {
            self.tokens.clear();
        }
        let tokens = self.tokens.entry((reason, namespace)).or_insert((burst, now));
        let left = left_at(*tokens);
        let is_admitted = left >= 1.0;
        *tokens = (if is_admitted { left - 1.0 } else { left }, now);
        is_admitted
    }
}

/// The API stores whole seconds.
fn seconds(moment: Timestamp) -> String {
    Timestamp::from_second(moment.as_second()).unwrap_or(moment).to_string()
}

fn shortened(message: &str) -> &str {
    let mut end = message.len().min(LONGEST_MESSAGE);
    while !message.is_char_boundary(end) {
        end -= 1;
    }
    &message[..end]
}

fn api_version(kind: &str) -> &'static str {
    match kind {
        "NodeClaim" | "NodePool" => "karpenter.sh/v1",
        "NodeOverlay" => "karpenter.sh/v1alpha1",
        "EC2NodeClass" => "karpenter.k8s.aws/v1",
        "KWOKNodeClass" => "karpenter.kwok.sh/v1alpha1",
        _ => "v1",
    }
}

/// Returns the FNV-1a hash over the fields that identify an event, the same in every process.
fn hash_of(event: &Event) -> u64 {
    let Event { about, kind: _, reason, message } = event;
    let fields = [about.kind.as_str(), about.name.as_str(), about.uid.as_str(), reason, message.as_str()];
    fields
        .iter()
        .flat_map(|field| field.bytes().chain([0]))
        .fold(0xcbf2_9ce4_8422_2325, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3))
}

#[cfg(test)]
mod tests {
    use super::*;
    use muster_stages::step::Subject;

    fn event(name: &str, reason: &'static str) -> Event {
        let about = Subject { kind: "Pod".to_owned(), namespace: None, name: name.to_owned(), uid: name.to_owned() };
        Event { about, kind: EventType::Normal, reason, message: "x".to_owned() }
    }

    fn told(told: &mut RecentEvents, event: &Event, second: i64) -> bool {
        told.admits(event, hash_of(event), Timestamp::from_second(second).unwrap())
    }

    #[test]
    fn the_same_is_told_once_in_two_minutes() {
        let mut memory = RecentEvents::default();
        let one = event("a", "FailedScheduling");
        assert!(told(&mut memory, &one, 0));
        assert!(!told(&mut memory, &one, 119));
        assert!(told(&mut memory, &event("b", "FailedScheduling"), 119), "another pod");
        assert!(told(&mut memory, &one, 120));
    }

    #[test]
    fn the_oldest_is_forgotten_where_too_many_are_remembered() {
        let mut memory = RecentEvents::default();
        for number in 0..=MOST {
            assert!(told(&mut memory, &event(&number.to_string(), "FailedScheduling"), i64::from(number > 0)));
        }
        assert!(!told(&mut memory, &event("1", "FailedScheduling"), 2));
        assert!(told(&mut memory, &event("0", "FailedScheduling"), 2));
    }

    #[tokio::test]
    async fn what_could_not_be_published_is_published_when_it_is_told_again() {
        let codes = Arc::new(Mutex::new(vec![201_u16, 403, 503]));
        let rest = Arc::clone(&codes);
        let service = tower::service_fn(move |_: Request<kube::client::Body>| {
            let code = rest.lock().unwrap().pop().unwrap();
            let status = json!({"kind": "Status", "status": "Failure", "message": "words", "code": code});
            let body = kube::client::Body::from(status.to_string().into_bytes());
            std::future::ready(http::Response::builder().status(code).body(body))
        });
        let recorder = Recorder::new(Client::new(service, "default"), Pace::new(10, 10), "we");
        let (one, other, now) = (event("a", "FailedScheduling"), event("b", "FailedScheduling"), Timestamp::UNIX_EPOCH);
        assert_eq!(recorder.publish(&one, now).await, Fate::Unavailable("words".to_owned()));
        assert_eq!(recorder.publish(&other, now).await, Fate::Refused("words".to_owned()));
        assert_eq!(recorder.publish(&other, now).await, Fate::Done, "it would be refused again");
        assert_eq!(recorder.publish(&one, now).await, Fate::Done);
        assert!(codes.lock().unwrap().is_empty(), "it was sent");
        assert_eq!(recorder.publish(&one, now).await, Fate::Done, "it is not sent again");
    }

    #[test]
    fn a_state_that_lasts_is_told_less_often() {
        let mut memory = RecentEvents::default();
        let one = event("a", events::UNCONSOLIDATABLE);
        assert!(told(&mut memory, &one, 0));
        assert!(!told(&mut memory, &one, 899));
        assert!(told(&mut memory, &one, 900));
    }

    #[test]
    fn pods_of_one_namespace_do_not_silence_those_of_another() {
        let mut memory = RecentEvents::default();
        let of = |namespace: &str, number: usize| {
            let mut one = event(&number.to_string(), events::INVALID_DO_NOT_DISRUPT_ANNOTATION);
            one.about.namespace = Some(namespace.to_owned());
            one.about.uid = format!("{namespace}-{number}");
            one
        };
        assert_eq!((0..100).filter(|number| told(&mut memory, &of("crowd", *number), 0)).count(), 10);
        assert!(told(&mut memory, &of("other", 0), 0));
        assert!(told(&mut memory, &of("crowd", 50), 1), "it was not told before");
        for number in 0..3 * MOST_LIMITS {
            told(&mut memory, &of(&number.to_string(), 0), 2);
        }
        assert!(memory.tokens.len() <= MOST_LIMITS);
    }

    #[test]
    fn nominations_are_told_of_a_few_pods() {
        let mut memory = RecentEvents::default();
        let count = |memory: &mut RecentEvents, from: usize, second: i64| {
            (from..from + 100).filter(|n| told(memory, &event(&n.to_string(), events::NOMINATED), second)).count()
        };
        assert_eq!(count(&mut memory, 0, 0), 10);
        assert_eq!(count(&mut memory, 100, 1), 5);
    }

    #[test]
    fn a_message_is_cut_between_letters() {
        let long = "é".repeat(600);
        assert_eq!(shortened(&long).len(), 1024);
        assert_eq!(shortened("short"), "short");
    }
}
