//! Parsers of each family's documents. They produce [`ParsedBootstrap`](crate::parsed::ParsedBootstrap), and findings
//! on the way.

pub(crate) mod al2;
pub(crate) mod al2023;
pub(crate) mod bottlerocket;
pub(crate) mod environment_file;
pub(crate) mod windows;
