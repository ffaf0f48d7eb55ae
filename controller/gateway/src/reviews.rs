//! Which tokens the API server is asked about, and how often.
//!
//! Anybody who reaches the port can come with tokens. Those that turn out to be unknown, or of users who may not call,
//! cost the address that they come from. What is left of a flood from many addresses is limited for all strangers
//! together, apart from addresses from which a user was allowed lately. A token that was allowed is asked about again
//! only after some seconds.

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use muster_link::KeyHash;
use tokio::sync::{Semaphore, SemaphorePermit};
use tokio::time::Instant;

use crate::access::Verb;
use crate::arrivals::source;
use crate::bucket::{Bucket, Rate};
use crate::limits::Limits;

/// Maximum number of concurrent TokenReviews, for strangers and again for known addresses.
const REVIEWS: usize = 8;
/// Time for which an allowed call is not asked about again. A right that was taken away ends after it.
const REMEMBERED: Duration = Duration::from_secs(10);
/// Time for which an address is known after a user was allowed from it.
const KNOWN: Duration = Duration::from_secs(10 * 60);
/// Maximum number of remembered calls, and of addresses.
const MOST: usize = 16_384;
/// Interval at which old entries are forgotten.
const FORGET: Duration = Duration::from_secs(1);

/// Reviews of this replica.
pub(crate) struct Reviews {
    of_strangers: Semaphore,
    of_known: Semaphore,
    /// For strangers together, and again for known addresses together.
    all: Rate,
    unknown: Rate,
    /// Locked briefly, never across an await.
    state: Mutex<State>,
}

struct State {
    strangers: Bucket,
    known: Bucket,
    sources: HashMap<IpAddr, Source>,
    allowed: HashMap<KeyHash, (String, Instant)>,
    forgotten_at: Instant,
}

struct Source {
    unknown: Bucket,
    known_until: Option<Instant>,
}

/// Review that may be made now.
pub(crate) struct Turn<'r> {
    reviews: &'r Reviews,
    source: IpAddr,
    /// True once the caller was found to be allowed, or nothing was found out.
    is_free: bool,
    _permit: SemaphorePermit<'r>,
}

/// Returns the key of a remembered call. The token itself is not kept.
pub(crate) fn call_of(token: &str, verb: Verb, path: &str) -> KeyHash {
    KeyHash::of(format!("{token}\0{}\0{path}", verb.name()).as_bytes())
}

impl Reviews {
    pub(crate) fn new(limits: &Limits, now: Instant) -> Self {
        let per_second = limits.reviews_per_second;
        let all = Rate::new(per_second, Duration::from_secs(1) / per_second.max(1));
        Self {
            of_strangers: Semaphore::new(REVIEWS),
            of_known: Semaphore::new(REVIEWS),
            all,
            unknown: limits.unknown_tokens,
            state: Mutex::new(State {
                strangers: Bucket::full(all, now),
                known: Bucket::full(all, now),
                sources: HashMap::new(),
                allowed: HashMap::new(),
                forgotten_at: now,
            }),
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the user of a call that was allowed moments ago.
    pub(crate) fn remembered(&self, call: &KeyHash, now: Instant) -> Option<String> {
        let state = self.lock();
        state.allowed.get(call).filter(|(_, until)| now < *until).map(|(user, _)| user.clone())
    }

    /// Begins a review for a client.
    ///
    /// # Errors
    /// A limit is reached; the code of the refusal.
    pub(crate) fn begin(&self, from: IpAddr, now: Instant) -> Result<Turn<'_>, &'static str> {
        let source = source(from);
        let mut state = self.lock();
        let State { strangers, known, sources, allowed, forgotten_at } = &mut *state;
        if now.saturating_duration_since(*forgotten_at) >= FORGET {
            *forgotten_at = now;
            sources.retain(|_, it| {
                it.known_until.is_some_and(|until| now < until) || !it.unknown.is_full(self.unknown, now)
            });
            allowed.retain(|_, (_, until)| now < *until);
        }
        if sources.len() >= MOST && !sources.contains_key(&source) {
            return Err("TooManyReviews");
        }
        let new = || Source { unknown: Bucket::full(self.unknown, now), known_until: None };
        let own = sources.entry(source).or_insert_with(new);
        // Many users may share an address (a port that is forwarded): one of them does not shut out the others.
        let is_known = own.known_until.is_some_and(|until| now < until);
        if !own.unknown.take(self.unknown, now) && !is_known {
            return Err("TooManyUnknownTokens");
        }
        let (bucket, permits) = if is_known { (known, &self.of_known) } else { (strangers, &self.of_strangers) };
        let permit = permits.try_acquire().ok().filter(|_| bucket.take(self.all, now));
        let Some(permit) = permit else {
            own.unknown.give_back(self.unknown);
            return Err("TooManyReviews");
        };
        Ok(Turn { reviews: self, source, is_free: false, _permit: permit })
    }
}

impl Turn<'_> {
    /// Notes that the user is allowed to make the call.
    pub(crate) fn allowed(mut self, call: KeyHash, user: &str, now: Instant) {
        self.is_free = true;
        let mut state = self.reviews.lock();
        if let Some(own) = state.sources.get_mut(&self.source) {
            own.known_until = Some(now + KNOWN);
        }
        if state.allowed.len() < MOST {
            state.allowed.insert(call, (user.to_owned(), now + REMEMBERED));
        }
    }

    /// Notes that the API server has not answered, which is not the caller's fault.
    pub(crate) fn unanswered(mut self) {
        self.is_free = true;
    }
}

impl Drop for Turn<'_> {
    fn drop(&mut self) {
        if self.is_free
            && let Some(own) = self.reviews.lock().sources.get_mut(&self.source)
        {
            own.unknown.give_back(self.reviews.unknown);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    fn at(last: u8) -> IpAddr {
        [10, 0, 0, last].into()
    }

    fn limits(reviews_per_second: u32) -> Limits {
        Limits { reviews_per_second, unknown_tokens: Rate::new(3, SECOND), ..Limits::default() }
    }

    #[test]
    fn unknown_tokens_cost_the_address_that_they_come_from() {
        let start = Instant::now();
        let reviews = Reviews::new(&limits(100), start);
        let unknown = |from: u8, now: Instant| reviews.begin(at(from), now).map(drop).err();
        assert!((0..3).all(|_| unknown(1, start).is_none()));
        assert_eq!(unknown(1, start), Some("TooManyUnknownTokens"));
        assert_eq!(unknown(2, start), None, "another address");
        assert_eq!((unknown(1, start + SECOND), unknown(1, start + SECOND)), (None, Some("TooManyUnknownTokens")));
        // Who is allowed, or not answered, pays nothing.
        for _ in 0..20 {
            reviews.begin(at(3), start).unwrap().allowed(call_of("t", Verb::Get, "/a"), "ann", start);
            reviews.begin(at(4), start).unwrap().unanswered();
        }
    }

    #[test]
    fn strangers_of_many_addresses_leave_those_who_were_known_before_their_reviews() {
        let start = Instant::now();
        let reviews = Reviews::new(&limits(20), start);
        reviews.begin(at(1), start).unwrap().allowed(call_of("t", Verb::Get, "/a"), "ann", start);
        let flood = (10..200).filter(|from| reviews.begin(at(*from), start).is_ok()).count();
        assert_eq!(flood, 19);
        assert!(reviews.begin(at(200), start).is_err());
        assert!(reviews.begin(at(1), start).is_ok(), "ann's address has its own");
        let later = start + KNOWN;
        let flood = (10..200).filter(|from| reviews.begin(at(*from), later).is_ok()).count();
        assert_eq!((flood, reviews.begin(at(1), later).is_ok()), (20, false), "known for a while");
    }

    #[test]
    fn an_allowed_call_is_remembered_for_seconds_and_no_other() {
        let start = Instant::now();
        let reviews = Reviews::new(&limits(20), start);
        reviews.begin(at(1), start).unwrap().allowed(call_of("t", Verb::Get, "/a"), "ann", start);
        let user = |token, verb, path, now| reviews.remembered(&call_of(token, verb, path), now);
        assert_eq!(user("t", Verb::Get, "/a", start).as_deref(), Some("ann"));
        for (token, verb, path) in [("u", Verb::Get, "/a"), ("t", Verb::Post, "/a"), ("t", Verb::Get, "/b")] {
            assert_eq!(user(token, verb, path, start), None);
        }
        assert_eq!(user("t", Verb::Get, "/a", start + REMEMBERED), None);
    }
}
