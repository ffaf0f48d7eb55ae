//! Computation of the status of an EC2NodeClass.
//!
//! ```text
//!  spec ─► wanted (pure) ─► Describe… (live) ─► Found ─► judge (pure) ─► status: subnets, groups, images, conditions
//!                                                           ▲
//!                                           bootstrap rules ┘ BootstrapValid
//! ```

mod bootstrap;
mod found;
mod hash;
pub mod images;
mod judge;
mod kubelet;
pub mod selectors;

pub use self::bootstrap::{bootstrap_findings, finding_text};
pub use self::found::{Found, FoundReservation, FoundSubnet, ImageError, Selected, Trial, TrialCall};
pub use self::hash::{HASH_VERSION, class_hash};
pub use self::judge::judge;
