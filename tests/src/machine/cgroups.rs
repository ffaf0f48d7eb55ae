//! The control groups of a machine: one in every hierarchy of the host.

use std::path::Path;
use std::sync::Arc;

use fs_err as fs;

use crate::error::{Error, Result};
use crate::ledger::{Ledger, Thing};

const HIERARCHIES: &str = "/sys/fs/cgroup";

/// A group of the same name in every hierarchy.
#[derive(Debug)]
pub(super) struct Cgroups {
    ledger: Arc<Ledger>,
    name: String,
    entries: Vec<u64>,
}

impl Cgroups {
    /// Makes them.
    pub(super) fn create(ledger: &Arc<Ledger>, name: String) -> Result<Self> {
        if Path::new(HIERARCHIES).join("cgroup.controllers").exists() {
            return Err(Error::Missing {
                what: "this host has control groups of version 2 alone, on which machines were never tried".to_owned(),
                hint: "boot it with `systemd.unified_cgroup_hierarchy=0`".to_owned(),
            });
        }
        let mut cgroups = Self { ledger: Arc::clone(ledger), name, entries: Vec::new() };
        for hierarchy in fs::read_dir(HIERARCHIES)? {
            let hierarchy = hierarchy?.path();
            if hierarchy.is_dir() {
                cgroups.create_in(&hierarchy)?;
            }
        }
        Ok(cgroups)
    }

    fn create_in(&mut self, hierarchy: &Path) -> Result<()> {
        let path = hierarchy.join(&self.name);
        self.entries.push(self.ledger.make(Thing::Cgroup { path: path.clone() })?);
        fs::create_dir(&path)?;
        // Version 1: a group without processors and memory nodes takes no process.
        if hierarchy.ends_with("cpuset") {
            for file in ["cpuset.cpus", "cpuset.mems"] {
                fs::write(path.join(file), fs::read_to_string(hierarchy.join(file))?)?;
            }
        }
        Ok(())
    }

    /// Their name.
    pub(super) fn name(&self) -> &str {
        &self.name
    }

    /// Removes them. The machine's processes must have ended.
    pub(super) fn remove(&self) -> Result<()> {
        self.entries.iter().try_for_each(|entry| self.ledger.remove(*entry))
    }
}
