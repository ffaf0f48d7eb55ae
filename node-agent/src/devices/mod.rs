//! Checks of devices, link by link from the PCI bus to the Node, to find the first broken link.
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
