//! The catalogue file: what `--catalog FILE` reads and `muster types -o json|yaml` writes.
//!
//! [`write()`] and [`read`] are exact inverses for what this crate resolves: quantities are integers, prices are printed with
//! all their digits.

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
