//! Files that a machine gets at its boot, packed into one: they are unpacked into its own disk, which is memory and goes
//! with it, so that hundreds of small files are neither written to the host's disk nor removed from it.

use std::path::Path;

use fs_err as fs;
use tar::{Builder, EntryType, Header};

use crate::error::Result;

/// An archive in the making. Paths are relative to the machine's disk, not to its root.
pub(super) struct Files(Builder<Vec<u8>>);

impl Files {
    /// An empty one.
    pub(super) fn new() -> Self {
        Self(Builder::new(Vec::new()))
    }

    /// Adds a file.
    pub(super) fn put(&mut self, path: impl AsRef<Path>, text: &str) -> Result<()> {
        self.put_bytes(path, text.as_bytes(), 0o644)
    }

    /// Adds a file of any content.
    pub(super) fn put_bytes(&mut self, path: impl AsRef<Path>, bytes: &[u8], mode: u32) -> Result<()> {
        Ok(self.0.append_data(&mut header(EntryType::Regular, bytes.len() as u64, mode), path, bytes)?)
    }

    /// Adds an empty folder.
    pub(super) fn folder(&mut self, path: impl AsRef<Path>) -> Result<()> {
        Ok(self.0.append_data(&mut header(EntryType::Directory, 0, 0o755), path, std::io::empty())?)
    }

    /// Adds a symbolic link.
    pub(super) fn link(&mut self, path: impl AsRef<Path>, target: &str) -> Result<()> {
        Ok(self.0.append_link(&mut header(EntryType::Symlink, 0, 0o777), path, target)?)
    }

    /// The archive.
    pub(super) fn pack(self) -> Result<Vec<u8>> {
        Ok(self.0.into_inner()?)
    }

    /// Writes the archive.
    pub(super) fn write(self, path: &Path) -> Result<()> {
        Ok(fs::write(path, self.pack()?)?)
    }
}

/// Without a time, so that the same files give the same bytes.
fn header(kind: EntryType, size: u64, mode: u32) -> Header {
    let mut header = Header::new_gnu();
    header.set_entry_type(kind);
    header.set_size(size);
    header.set_mode(mode);
    header
}
