//! Custom resources of Muster: types, schemas and names, and validation without an API server.
//!
//! ```text
//!   nodepool  nodeclaim  nodeoverlay  (kwok)nodeclass  capacitybuffer      rules, patterns
//!       └─────────┴───────────┼─────────────┴────────────────┘       (CEL and regular expressions)
//!                             │ schemars                                   │
//!                             ▼                                            │
//!                        crds() ◄──────────────────────────────────────────┘
//!                             │ one schema, two consumers
//!              ┌──────────────┴───────────────┐
//!              ▼                              ▼
//!      kube-apiserver               validation::check(manifest)
//!      (muster crds)                errors, unknown fields, defaulted object
//!
//!   labels  taints  annotations  conditions  events  resources: all names, defined once
//!   hash: detects whether a NodeClaim still matches its NodePool's template
//!   likeness: suggestions for unknown names
//! ```
//!
//! The kinds are those of Karpenter 1.15 and accept its manifests unchanged. Nothing here does I/O or reads a clock.

mod crds;
mod patterns;
mod rules;
mod schema;
mod table;

pub mod annotations;
pub mod attachments;
pub mod capacitybuffer;
pub mod conditions;
mod decode;
pub mod devices;
pub mod duration;
pub mod events;
pub mod hash;
pub mod kwoknodeclass;
pub mod labels;
pub mod likeness;
pub mod nodeclaim;
pub mod nodeclass;
pub mod nodeoverlay;
pub mod nodepool;
mod quantities;
pub mod requirement;
pub mod resources;
pub mod taints;
pub mod validation;

pub use self::capacitybuffer::{CapacityBuffer, CapacityBufferSpec};
pub use self::crds::crds;
pub use self::decode::{DecodeError, decode};
pub use self::duration::{DurationError, GoDurationError, Lifetime, Span, go_duration};
pub use self::kwoknodeclass::{KwokNodeClass, KwokNodeClassSpec};
pub use self::nodeclaim::{NodeClaim, NodeClaimSpec, NodeClassReference};
pub use self::nodeclass::{Ec2NodeClass, Ec2NodeClassSpec};
pub use self::nodeoverlay::{NodeOverlay, NodeOverlaySpec};
pub use self::nodepool::{NodePool, NodePoolSpec};
pub use self::quantities::Quantities;
pub use self::requirement::{Operator, Requirement};
