//! The kubelet's interpretation of its arguments and its configuration.
//!
//! ```text
//!  argv ──► arguments ──► flags of this version, values of their types ──┐
//!  config.json, *.conf ──► config: fields of this version, merged ───────┴──► taints, labels, max pods, node name
//!
//!  spec.kubelet of an EC2NodeClass ──► class: faults, expressions
//! ```

pub mod arguments;
mod cel_parser;
pub mod class;
pub mod config;
pub mod expression;
pub mod flags;
pub mod gates;
pub mod instance;
pub mod labels;
pub(crate) mod limits;
pub mod schema;
pub mod taints;
pub mod version;

#[cfg(test)]
mod tests;
