//! Custom resources of Muster: their types, schemas and names, and their checks without an API server.
//!
//! ```text
//!   nodepool  nodeclaim  nodeoverlay  (kwok)nodeclass  capacitybuffer      rules, patterns
//!       └─────────┴───────────┼─────────────┴────────────────┘       (CEL and regular expressions)
//!                             │ schemars                                   │
//!                             ▼                                            │
//!                        crds() ◄──────────────────────────────────────────┘
//!                             │ one text, two readers
//!              ┌──────────────┴───────────────┐
//!              ▼                              ▼
//!      kube-apiserver               validation::check(manifest)
//!      (muster crds)                errors, unknown fields, defaulted object
//!
//!   labels  taints  annotations  conditions  events  resources: every name, once
//!   hash: what tells whether a NodeClaim is still of its NodePool's template
//!   likeness: what an unknown name may have been meant to be
//! ```
//!
//! The kinds are those of Karpenter 1.14 and read its manifests unchanged. Nothing here does I/O or looks at a clock.

mod crds;
mod patterns;
mod rules;
mod schema;
mod table;

pub mod annotations;
pub mod capacitybuffer;
pub mod conditions;
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
pub use self::duration::{DurationError, Lifetime, Span};
pub use self::kwoknodeclass::{KwokNodeClass, KwokNodeClassSpec};
pub use self::nodeclaim::{NodeClaim, NodeClaimSpec, NodeClassReference};
pub use self::nodeclass::{Ec2NodeClass, Ec2NodeClassSpec};
pub use self::nodeoverlay::{NodeOverlay, NodeOverlaySpec};
pub use self::nodepool::{NodePool, NodePoolSpec};
pub use self::quantities::Quantities;
pub use self::requirement::{Operator, Requirement};
