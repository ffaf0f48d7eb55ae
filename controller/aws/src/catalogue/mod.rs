//! Catalogue file, which `--catalog FILE` reads and `muster types -o json|yaml` writes.
//!
//! [`write()`] and [`read`] are exact inverses for the types that this crate resolves: quantities are integers, and
//! prices are printed with all their digits.

mod document;
mod error;
mod locate;
mod read;
mod write;

pub use error::{CatalogueError, Problem};
pub use read::read;
pub use write::{Format, write};

/// `apiVersion` of the file.
pub const API_VERSION: &str = "muster.dev/v1";
/// `kind` of the file.
pub const KIND: &str = "InstanceCatalog";

#[cfg(test)]
mod tests;
