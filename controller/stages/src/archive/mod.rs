//! Records of nodes that failed to join the cluster: the verdict and the end of their logs, kept after NodeClaim and
//! instance are gone. Pure.
//!
//! ```text
//!   verdict of a node's agent ─► Record ─► place: which of the slots ─┐
//!                                            ▲                       ▼
//!              ConfigMaps muster-verdict-00 … muster-verdict-19 ◄── agents::records ◄── its log bundle, cleaned
//!                                            │
//!                                            └─► muster verdicts
//! ```
//!
//! The number of slots is fixed, which bounds storage, and the writer has access to these objects only (RBAC cannot
//! restrict `create` by name). A NodeClaim occupies one slot, whatever its node reports and however often: it cannot
//! take the slots of others.

mod place;
mod record;

pub use self::place::{Place, place};
pub use self::record::{BUNDLE, LONGEST_BUNDLE, Record, RecordLabel, SLOTS, cleaned, is_slot, slot};
