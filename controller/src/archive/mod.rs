//! What is kept of nodes that could not become any: the verdict and the last of their logs, after NodeClaim and instance are gone. Pure.
//!
//! ```text
//!   verdict of a node's agent ─► Record ─► place: which of the slots ─┐
//!                                            ▲                       ▼
//!              ConfigMaps muster-verdict-00 … muster-verdict-19 ◄── agents::records ◄── its log bundle, cleaned
//!                                            │
//!                                            └─► muster verdicts
//! ```
//!
//! The slots are all that there is: what is kept is bounded by construction, and whoever keeps it may read and change these objects
//! and no other (to make one, RBAC knows no names). A NodeClaim has one of them, whatever its node says and however often: it cannot take those of others.

mod place;
mod record;

pub use self::place::{Place, place};
pub use self::record::{BUNDLE, LONGEST_BUNDLE, Record, RecordLabel, SLOTS, cleaned, is_slot, slot};
