//! Freshness of the watched kinds.

use std::time::Duration;

use muster_stages::state::Kind;
use tokio::time::Instant;

/// Freshness of a kind.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Health {
    /// The kind.
    pub kind: Kind,
    /// State of its watch.
    pub standing: WatchState,
    /// Time since the API server last sent data or a bookmark about it; in normal operation at most about a minute.
    /// None before the first response.
    pub silence: Option<Duration>,
    /// Message of the last error, if nothing was received since.
    pub trouble: Option<String>,
}

/// State of the watch of a kind.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum WatchState {
    /// Its objects have not all been listed yet.
    Listing,
    /// Its objects are watched.
    Following,
    /// The cluster does not have the kind. Objects seen earlier stay in the cache: deleting a CRD deletes its objects
    /// first, and the watch reports that.
    Unknown,
}

/// Data from which [`Health`] is derived.
#[derive(Debug, Default)]
pub(super) struct Vitals {
    pub(super) standing: Option<WatchState>,
    pub(super) last_word: Option<Instant>,
    pub(super) trouble: Option<String>,
}

impl Vitals {
    /// Returns the health at `now`.
    pub(super) fn health(&self, kind: Kind, now: Instant) -> Health {
        Health {
            kind,
            standing: self.standing.unwrap_or(WatchState::Listing),
            silence: self.last_word.map(|word| now.saturating_duration_since(word)),
            trouble: self.trouble.clone(),
        }
    }
}
