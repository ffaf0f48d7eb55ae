//! Switching a machine on, and pulling its plug.

use std::fmt::Write as _;
use std::os::fd::AsRawFd;
use std::path::{Path, PathBuf};
use std::time::Duration;

use fs_err as fs;

use super::cgroups::Cgroups;
use super::console::Console;
use super::spec::Spec;
use crate::error::{Error, Result};
use crate::ledger::ProcessId;
use crate::process::{Program, Running, Signal, Spawner};

/// How long the kernel may take to end all processes of a machine.
const END: Duration = Duration::from_secs(10);

/// The process outside that stays for as long as the machine lives. Its only child is the machine's PID 1; when that
/// ends the kernel ends everything in the machine, and this process with it.
#[derive(Debug)]
pub(super) struct Power {
    running: Running,
    /// The mount namespace of a machine that was reset, which nobody else keeps between two boots.
    mounts: Option<fs::File>,
}

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
        Ok(Self { running: spawner.start(&program)?, mounts: None })
    }

    /// Resets it: everything that runs ends at once, and it boots again from its disk.
    pub(super) fn reset(&mut self, spawner: &Spawner, name: &str, namespace: &str, cgroups: &Cgroups) -> Result<()> {
        let Some(init) = self.init() else { return self.check() };
        let mounts = fs::File::open(format!("/proc/{}/ns/mnt", init.pid))?;
        self.off();
        let place = format!("/proc/{}/fd/{}", std::process::id(), mounts.as_raw_fd());
        self.mounts = Some(mounts);
        let program = Program::new(name, "/bin/sh")
            .arg("-c")
            .arg(include_str!("reset.sh"))
            .in_network(namespace)
            .env("CGROUP", cgroups.name())
            .env("MOUNTS", place)
            .env("INSIDE", include_str!("reboot.sh"));
        self.running = spawner.start(&program)?;
        Ok(())
    }

    /// The machine's PID 1, by its number outside. None before the namespaces are made and after the end.
    pub(super) fn init(&self) -> Option<ProcessId> {
        let pid = self.running.id().pid;
        let children = fs::read_to_string(format!("/proc/{pid}/task/{pid}/children")).ok()?;
        ProcessId::of(children.split_ascii_whitespace().next()?.parse().ok()?)
    }

    /// Whether it still runs.
    pub(super) fn check(&mut self) -> Result<()> {
        self.running.check()
    }

    /// Ends everything in the machine at once.
    pub(super) fn off(&mut self) {
        // First the inside: the process outside then ends after the last one of the machine, not before.
        if let Some(init) = self.init()
            && init.signal(Signal::SIGKILL)
        {
            self.running.id().wait_end(END);
        }
        self.running.kill();
        self.mounts = None;
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
