//! Nodes of this replica beyond their streams: who has one, and the rates that hold for a node whatever it opens.

use std::collections::HashMap;
use std::convert::Infallible;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use muster_link::Pins;
use tokio::sync::oneshot;
use tokio::sync::oneshot::error::TryRecvError;
use tokio::time::Instant;

use crate::bucket::{Bucket, Rate};

/// Rate of messages of a node. A boot has six phases, and a burst of findings is one report.
const MESSAGES: Rate = Rate::new(64, Duration::from_millis(500));
/// Rate of streams of a node: it has one, and opens another when its connection ends.
const STREAMS: Rate = Rate::new(8, Duration::from_secs(1));
/// Rate of reports of a node that are stored: each may be a write to the API server. With what else is written because
/// of a node (pins, records of its verdicts, their logs), it is less than one a second.
const REPORTS: Rate = Rate::new(16, Duration::from_secs(2));
/// Rate of news of whom a node believes: each is a write. They change with the CA of the controller.
const PINS: Rate = Rate::new(4, Duration::from_secs(60));
/// Interval at which nodes without a stream and with full buckets are forgotten.
const FORGET: Duration = Duration::from_secs(10);

/// Nodes of this replica, by instance ID. What a node may do is counted for the node: another stream or connection has
/// the same allowance.
#[derive(Debug, Clone)]
pub(crate) struct Streams(Arc<Mutex<State>>);

#[derive(Debug)]
struct State {
    nodes: HashMap<String, Known>,
    forgotten_at: Instant,
}

#[derive(Debug)]
struct Known {
    /// Held by the node's stream. Dropping it ends the stream.
    stream: Option<oneshot::Sender<Infallible>>,
    messages: Bucket,
    streams: Bucket,
    reports: Bucket,
    pins: Bucket,
    /// Pins that were passed on last.
    said: Option<Pins>,
}

/// Place of a node's stream. The next stream of the same node replaces it.
pub(crate) struct Place {
    streams: Streams,
    instance: String,
    /// Closed, without a message, when another stream has replaced this one.
    pub(crate) replaced: oneshot::Receiver<Infallible>,
}

impl Streams {
    pub(crate) fn new(now: Instant) -> Self {
        Self(Arc::new(Mutex::new(State { nodes: HashMap::new(), forgotten_at: now })))
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Gives a node's next stream its place; `None` if the node opens too many.
    pub(crate) fn take(&self, instance: &str, now: Instant) -> Option<Place> {
        let (held, replaced) = oneshot::channel();
        let mut state = self.lock();
        if now.saturating_duration_since(state.forgotten_at) >= FORGET {
            state.forgotten_at = now;
            state.nodes.retain(|_, known| known.stream.is_some() || !known.is_calm(now));
        }
        let known = state.nodes.entry(instance.to_owned()).or_insert_with(|| Known::new(now));
        if !known.streams.take(STREAMS, now) {
            return None;
        }
        // This drops the sender of the previous stream, which ends that stream.
        known.stream = Some(held);
        Some(Place { streams: self.clone(), instance: instance.to_owned(), replaced })
    }
}

impl Known {
    const fn new(now: Instant) -> Self {
        Self {
            stream: None,
            messages: Bucket::full(MESSAGES, now),
            streams: Bucket::full(STREAMS, now),
            reports: Bucket::full(REPORTS, now),
            pins: Bucket::full(PINS, now),
            said: None,
        }
    }

    /// Returns true if nothing is counted against the node.
    fn is_calm(&mut self, now: Instant) -> bool {
        self.messages.is_full(MESSAGES, now)
            && self.streams.is_full(STREAMS, now)
            && self.reports.is_full(REPORTS, now)
            && self.pins.is_full(PINS, now)
    }
}

impl Place {
    fn with<T>(&self, ask: impl FnOnce(&mut Known) -> T) -> Option<T> {
        self.streams.lock().nodes.get_mut(&self.instance).map(ask)
    }

    /// Counts a message; returns false if the node has sent too many.
    pub(crate) fn takes_message(&self, now: Instant) -> bool {
        self.with(|known| known.messages.take(MESSAGES, now)).unwrap_or(false)
    }

    /// Counts a report that is to be stored; returns false if it has to wait.
    pub(crate) fn takes_report(&self, now: Instant) -> bool {
        self.with(|known| known.reports.take(REPORTS, now)).unwrap_or(false)
    }

    /// Returns true if the pins may be passed on: they are those of last time, or have not changed often.
    pub(crate) fn takes_pins(&self, pins: &Pins, now: Instant) -> bool {
        let takes = |known: &mut Known| {
            // An agent that cannot be told of another CA has none to say.
            let is_no_news = pins.is_empty() || known.said.as_ref() == Some(pins);
            let is_few = is_no_news || known.pins.take(PINS, now);
            if is_few && !pins.is_empty() {
                known.said = Some(pins.clone());
            }
            is_few
        };
        self.with(takes).unwrap_or(false)
    }

    /// Interval after which a report or pins that had to wait are tried again.
    pub(crate) const fn again() -> Duration {
        REPORTS.every
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        // If this stream was replaced, the entry belongs to the new one.
        if self.replaced.try_recv() == Err(TryRecvError::Empty) {
            self.with(|known| known.stream = None);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_place_is_lost_to_the_next_and_leaves_nothing_behind() {
        let start = Instant::now();
        let streams = Streams::new(start);
        let mut first = streams.take("i-1", start).unwrap();
        let second = streams.take("i-1", start).unwrap();
        assert_eq!(first.replaced.try_recv(), Err(TryRecvError::Closed), "it was told");
        let has_stream = || streams.lock().nodes["i-1"].stream.is_some();
        drop(first);
        assert!(has_stream(), "the place is the second's");
        drop(second);
        assert!(!has_stream());
        let _other = streams.take("i-2", start + Duration::from_mins(10));
        assert_eq!(streams.lock().nodes.len(), 1, "it was forgotten");
    }

    #[test]
    fn the_allowance_is_the_nodes_and_not_the_streams() {
        let start = Instant::now();
        let streams = Streams::new(start);
        let place = streams.take("i-1", start).unwrap();
        assert!((0..MESSAGES.burst).all(|_| place.takes_message(start)));
        assert!((0..REPORTS.burst).all(|_| place.takes_report(start)));
        let pins = |name: u8| Pins::parse(&format!("{name:02x}").repeat(32));
        assert!((0..4).all(|name| place.takes_pins(&pins(name), start)));
        drop(place);
        let again = streams.take("i-1", start).unwrap();
        assert!(!again.takes_message(start) && !again.takes_report(start) && !again.takes_pins(&pins(7), start));
        assert!(again.takes_pins(&pins(3), start), "those of last time are no news");
        assert!((0..6).all(|_| streams.take("i-1", start).is_some()));
        assert!(streams.take("i-1", start).is_none() && streams.take("i-2", start).is_some());
        let later = start + REPORTS.every;
        let later_on = streams.take("i-1", later).unwrap();
        assert!(later_on.takes_message(later) && later_on.takes_report(later) && !later_on.takes_pins(&pins(7), later));
        assert!(later_on.takes_pins(&pins(7), start + PINS.every));
    }
}
