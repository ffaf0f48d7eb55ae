//! Notices of the cloud about instances: messages of its queue, failed status checks and scheduled events.
//!
//! ```text
//!   queue (every replica) ──► ClaimFacts ──► condition Interrupted ──► leader ─┬─ driver: offering avoided, hurry
//!   status (leader) ─────────────▲                                             ├─ disruption: replacement first
//!                                                                              └─ lifecycle: deleted if time is short
//! ```
//!
//! A message is deleted once its notice is in the API server. So a replica that is killed before loses nothing, and one
//! that is killed in between hears it again and finds it recorded.

mod queue;
mod status;

pub(super) use self::queue::follow;
pub(super) use self::status::poll;
