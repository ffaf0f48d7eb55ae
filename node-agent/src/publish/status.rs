//! `status.json`, replaced atomically, so that readers see either the old or the new report.

use std::io::{self, Write};
use std::path::{Path, PathBuf};

use fs_err as fs;

use crate::report::Report;

/// Name of the file in the agent's folder.
pub const FILE: &str = "status.json";

/// Returns the path of the file.
#[must_use]
pub fn path(folder: &Path) -> PathBuf {
    folder.join(FILE)
}

/// Replaces the file.
///
/// # Errors
/// The file cannot be written.
pub fn write(folder: &Path, report: &Report) -> io::Result<()> {
    replace(&path(folder), &serde_json::to_vec_pretty(report).map_err(io::Error::from)?, 0o644)
}

/// Reads the file.
///
/// # Errors
/// The file does not exist, or is not a report.
pub fn read(folder: &Path) -> io::Result<Report> {
    Ok(serde_json::from_slice(&fs::read(path(folder))?)?)
}

#[cfg(unix)]
fn allow(file: &std::fs::File, mode: u32) -> io::Result<()> {
    file.set_permissions(std::os::unix::fs::PermissionsExt::from_mode(mode))
}

/// On Windows, the folder's permissions apply.
#[cfg(not(unix))]
fn allow(_: &std::fs::File, _: u32) -> io::Result<()> {
    Ok(())
}

/// Syncs the folder, so that a rename in it is durable. Windows has no equivalent.
#[cfg(unix)]
fn keep(folder: &Path) -> io::Result<()> {
    fs::File::open(folder)?.sync_all()
}

#[cfg(not(unix))]
fn keep(_: &Path) -> io::Result<()> {
    Ok(())
}

/// Replaces a file atomically. Its content is synced before the rename, so that even after a power loss it is never
/// partial.
///
/// # Errors
/// The file cannot be written.
pub fn replace(path: &Path, content: &[u8], mode: u32) -> io::Result<()> {
    let folder = path.parent().unwrap_or(Path::new("/"));
    fs::create_dir_all(folder)?;
    let mut file = tempfile::NamedTempFile::new_in(folder)?;
    file.write_all(content)?;
    allow(file.as_file(), mode)?;
    file.as_file().sync_all()?;
    file.persist(path).map_err(|error| error.error)?;
    keep(folder)
}
