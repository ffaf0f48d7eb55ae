//! `status.json`: whoever reads it sees a whole report, the old one or the new one.

use std::io::{self, Write};
use std::path::{Path, PathBuf};

use fs_err as fs;

use crate::report::Report;

/// Name of the file in the agent's folder.
pub const FILE: &str = "status.json";

/// Where it is.
#[must_use]
pub fn path(folder: &Path) -> PathBuf {
    folder.join(FILE)
}

/// Replaces the file.
///
/// # Errors
/// It cannot be written.
pub fn write(folder: &Path, report: &Report) -> io::Result<()> {
    replace(&path(folder), &serde_json::to_vec_pretty(report).map_err(io::Error::from)?, 0o644)
}

/// Reads it.
///
/// # Errors
/// It is not there, or not a report.
pub fn read(folder: &Path) -> io::Result<Report> {
    Ok(serde_json::from_slice(&fs::read(path(folder))?)?)
}

#[cfg(unix)]
fn allow(file: &std::fs::File, mode: u32) -> io::Result<()> {
    file.set_permissions(std::os::unix::fs::PermissionsExt::from_mode(mode))
}

/// The folder says who may read what is in it.
#[cfg(not(unix))]
fn allow(_: &std::fs::File, _: u32) -> io::Result<()> {
    Ok(())
}

/// Makes sure that names in a folder last. Windows has no such thing for folders.
#[cfg(unix)]
fn keep(folder: &Path) -> io::Result<()> {
    fs::File::open(folder)?.sync_all()
}

#[cfg(not(unix))]
fn keep(_: &Path) -> io::Result<()> {
    Ok(())
}

/// Replaces a file by another content, so that nobody ever sees a part of it, not even after a loss of power: the content
/// is on the disk before its name is.
///
/// # Errors
/// It cannot be written.
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
