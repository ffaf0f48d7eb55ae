//! Devices: from the bus to the Node, link by link, so that the first broken one is named.
//!
//! ```text
//!  catalogue (data) ─┐
//!  Sightings ────────┼──► chain ──► links, first broken ──► finding
//!  wanted ───────────┘
//!
//!  on the bus ─► driver ─► device file ─► plugin registered ─► healthy ─► Node.status.allocatable
//! ```

pub mod catalogue;
pub mod chain;
