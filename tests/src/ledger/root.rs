//! Where the ledgers of this machine lie.

use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};

use fs_err as fs;

use crate::error::{Error, Result};

/// The folder that holds the ledgers of all worlds of this user.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Root(PathBuf);

impl Root {
    /// `/run/muster-world` for root, `$XDG_RUNTIME_DIR/muster-world` for others.
    ///
    /// # Errors
    /// When a user other than root has no `XDG_RUNTIME_DIR`.
    pub fn of_this_machine() -> Result<Self> {
        if nix::unistd::geteuid().is_root() {
            return Ok(Self(PathBuf::from("/run/muster-world")));
        }
        match std::env::var_os("XDG_RUNTIME_DIR") {
            Some(folder) => Ok(Self(Path::new(&folder).join("muster-world"))),
            None => Err(Error::Missing {
                what: "there is no place for the ledgers of worlds: `XDG_RUNTIME_DIR` is not set".to_owned(),
                hint: "set it to a folder that only you may read, or run as root".to_owned(),
            }),
        }
    }

    /// A folder of its own, for the tests of the ledger.
    pub fn at(folder: impl Into<PathBuf>) -> Self {
        Self(folder.into())
    }

    /// The folder.
    pub fn path(&self) -> &Path {
        &self.0
    }

    /// Holds the lock that opening and listing take, until the value is dropped.
    pub(super) fn lock(&self) -> Result<fs::File> {
        if !self.0.is_dir() {
            std::fs::DirBuilder::new().recursive(true).mode(0o700).create(&self.0)?;
        }
        let file = fs::OpenOptions::new().create(true).append(true).open(self.0.join("lock"))?;
        file.lock()?;
        Ok(file)
    }

    /// The lowest number that no world has, and its folder, which does not exist yet. Only under [`Self::lock`].
    pub(super) fn free_number(&self) -> Result<(String, PathBuf)> {
        let mut number = 1_u32;
        loop {
            let name = format!("w{number}");
            let folder = self.0.join(&name);
            if !folder.try_exists()? {
                return Ok((name, folder));
            }
            number += 1;
        }
    }

    /// The folders of all worlds, by number.
    pub(super) fn folders(&self) -> Result<Vec<PathBuf>> {
        let mut folders = Vec::new();
        for entry in fs::read_dir(&self.0)? {
            let entry = entry?;
            let name = entry.file_name();
            let number =
                name.to_str().and_then(|name| name.strip_prefix('w')).and_then(|rest| rest.parse::<u32>().ok());
            if let Some(number) = number {
                folders.push((number, entry.path()));
            }
        }
        folders.sort();
        Ok(folders.into_iter().map(|(_, path)| path).collect())
    }
}
