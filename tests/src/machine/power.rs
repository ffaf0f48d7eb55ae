//! Switching a machine on, and pulling its plug.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::time::Duration;

use fs_err as fs;

use super::cgroups::Cgroups;
use super::console::Console;
use super::spec::Spec;
use crate::error::{Error, Result};
use crate::ledger::ProcessId;
use crate::process::{Program, Running, Spawner};

/// How long the kernel may take to end all processes of a machine.
const END: Duration = Duration::from_secs(10);

/// The process outside that stays for as long as the machine lives. Its only child is the machine's PID 1; when that
/// ends the kernel ends everything in the machine, and this process with it.
#[derive(Debug)]
pub(super) struct Power(Running);

impl Power {
    /// Boots. `binds` are `(from, at)` on top of the image.
    pub(super) fn on(spawner: &Spawner, spec: &Spec, parts: &Parts<'_>, binds: &[(PathBuf, PathBuf)]) -> Result<Self> {
        let folder = parts.folder;
        for mount_point in ["root", "disk"] {
            fs::create_dir(folder.join(mount_point))?;
        }
        fs::write(folder.join("binds"), lines(binds)?)?;
        let script = folder.join("boot.sh");
        fs::write(&script, include_str!("boot.sh"))?;
        let layers = spec.image.layers()?;
        let layers: Vec<_> = layers.iter().map(|layer| layer.to_string_lossy()).collect();
        let program = Program::new(parts.name, "/bin/sh")
            .arg(&script)
            .in_network(parts.namespace)
            .env("FOLDER", folder)
            .env("LAYERS", layers.join(" "))
            .env("CGROUP", parts.cgroups.name())
            .env("DISK", format!("{}g", spec.shape.disk_gib))
            .env("CONSOLE", parts.console.terminal());
        Ok(Self(spawner.start(&program)?))
    }

    /// The machine's PID 1, by its number outside. None before the namespaces are made and after the end.
    pub(super) fn init(&self) -> Option<ProcessId> {
        let pid = self.0.id().pid;
        let children = fs::read_to_string(format!("/proc/{pid}/task/{pid}/children")).ok()?;
        ProcessId::of(children.split_ascii_whitespace().next()?.parse().ok()?)
    }

    /// Whether it still runs.
    pub(super) fn check(&mut self) -> Result<()> {
        self.0.check()
    }

    /// Ends everything in the machine at once.
    pub(super) fn off(&mut self) {
        // First the inside: the process outside then ends after the last one of the machine, not before.
        if let Some(init) = self.init()
            && init.signal(rustix::process::Signal::KILL)
        {
            self.0.id().wait_end(END);
        }
        self.0.kill();
    }
}

/// What [`Power::on`] needs that was made before.
#[derive(Debug, Clone, Copy)]
pub(super) struct Parts<'a> {
    pub(super) name: &'a str,
    pub(super) folder: &'a Path,
    pub(super) namespace: &'a str,
    pub(super) cgroups: &'a Cgroups,
    pub(super) console: &'a Console,
}

/// One line for each bind, as `boot.sh` reads them.
fn lines(binds: &[(PathBuf, PathBuf)]) -> Result<String> {
    let mut text = String::new();
    for (from, at) in binds {
        if [from, at].iter().any(|path| path.to_string_lossy().contains(char::is_whitespace)) {
            return Err(Error::Missing {
                what: format!("`{}` has a blank in its path, which a machine cannot take", from.display()),
                hint: "set `MUSTER_WORLD_CACHE` and `TMPDIR` to folders without blanks".to_owned(),
            });
        }
        let _infallible = writeln!(text, "{} {}", from.display(), at.display());
    }
    Ok(text)
}
