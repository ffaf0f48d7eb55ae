//! How well each kind is known at the moment.

use std::time::Duration;

use tokio::time::Instant;

use crate::state::Kind;

/// How well a kind is known.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Health {
    /// The kind.
    pub kind: Kind,
    /// Where it stands.
    pub standing: Standing,
    /// How long ago the API server last said anything about it; while all is well it does at least every minute or so.
    /// None before its first word.
    pub silence: Option<Duration>,
    /// What has gone wrong since the last word, for people.
    pub trouble: Option<String>,
}

/// Where a kind stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Standing {
    /// Its objects have not all been listed yet.
    Listing,
    /// Whatever happens to its objects is seen.
    Following,
    /// The cluster does not know the kind. Objects of it that were seen before are still in the picture: whoever takes a
    /// kind away takes its objects away first, and that is seen.
    Unknown,
}

/// What is kept for [`Health`].
#[derive(Debug, Default)]
pub(super) struct Vitals {
    pub(super) standing: Option<Standing>,
    pub(super) last_word: Option<Instant>,
    pub(super) trouble: Option<String>,
}

impl Vitals {
    /// Where it stands at that moment.
    pub(super) fn health(&self, kind: Kind, now: Instant) -> Health {
        Health {
            kind,
            standing: self.standing.unwrap_or(Standing::Listing),
            silence: self.last_word.map(|word| now.saturating_duration_since(word)),
            trouble: self.trouble.clone(),
        }
    }
}
