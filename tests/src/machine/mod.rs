//! Node machines: an EC2 instance as a set of namespaces in which real systemd boots an image.
//!
//! ```text
//!   Spec ──► Machines::boot ──► Machine
//!              │                  run, journal, console      look at it
//!              ├ Wire             cut, mend                  network namespace, one wire to the world
//!              ├ Cgroups                                     a group in every hierarchy
//!              ├ Shape, seed      files bound or laid over   processors, memory, swap, kernel, names
//!              ├ Console          serial console             a terminal that writes a file
//!              ├ Voice            the journal, `READY=1`     two sockets in the machine's /run
//!              └ Power            reset, terminate                  boot.sh ─► systemd, PID 1 of its own namespace
//! ```
//!
//! Everything is written down in the ledger before it is made. Mounts are made in the machine's own namespace and its
//! disk is memory, so the kernel removes both when the last process ends; control groups, network namespaces and one
//! folder remain to be removed by us. The host's sysctls, clock, modules and devices are out of a machine's reach.

mod cgroups;
mod command;
mod console;
mod devices;
mod door;
mod faults;
mod files;
mod guest;
mod image;
mod inside;
mod network;
mod pod_image;
mod power;
mod programs;
mod record;
mod seed;
mod shape;
mod spec;
mod voice;

pub use devices::{Device, Inventory};
pub use image::Image;
pub use network::{Addresses, Fabric, GATEWAY, METADATA, Wire};
pub use pod_image::{BUSYBOX, PAUSE};
pub use record::Record;
pub use shape::{KERNEL, Shape};
pub use spec::Spec;

use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::process::Output;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use fs_err as fs;

use self::cgroups::Cgroups;
use self::console::Console;
use self::files::Files;
use self::power::{Parts, Power};
use self::voice::Voice;
use crate::error::{Error, Result};
use crate::ledger::{ProcessId, Thing};
use crate::process::Spawner;

/// Where machines of one world come from.
#[derive(Debug)]
pub struct Machines {
    spawner: Spawner,
    fabric: Arc<Fabric>,
    /// Each machine has a folder in it.
    folder: PathBuf,
    next: AtomicU32,
}

/// A machine's number in its world, and its addresses.
#[derive(Debug)]
pub struct Plot {
    number: u32,
    addresses: Addresses,
}

/// A machine that runs. Dropping it pulls its plug.
#[derive(Debug)]
pub struct Machine {
    spec: Spec,
    addresses: Addresses,
    power: Mutex<Power>,
    console: Console,
    voice: Voice,
    wire: Wire,
    cgroups: Cgroups,
    spawner: Spawner,
    folder: u64,
    gone: AtomicBool,
}

impl Machines {
    /// Machines of the world whose processes `spawner` starts, on the network `fabric`. `folder` must not have a long
    /// path: sockets lie below it, and their paths have at most 107 bytes.
    pub fn new(spawner: Spawner, fabric: Arc<Fabric>, folder: impl Into<PathBuf>) -> Self {
        Self { spawner, fabric, folder: folder.into(), next: AtomicU32::new(1) }
    }

    /// The place of the next machine: known before it boots, so that its metadata can be.
    pub fn plot(&self, spec: &Spec) -> Plot {
        let number = self.next.fetch_add(1, Ordering::Relaxed);
        Plot { number, addresses: spec.addresses(number) }
    }

    /// Boots a machine. It is on its way when this returns; [`Machine::booted`] waits.
    ///
    /// # Errors
    /// When a part of it cannot be made, as without root. What was made stays in the ledger.
    pub async fn boot(&self, spec: Spec, plot: Plot) -> Result<Machine> {
        let Plot { number, addresses } = plot;
        // What a test can have wrong, before anything is made.
        spec.image.layers()?;
        let ledger = Arc::clone(self.spawner.ledger());
        let name = format!("{}-m{number}", ledger.number());
        let folder = self.folder.join(format!("m{number}"));
        let entry = ledger.make(Thing::Folder { path: folder.clone() })?;
        fs::create_dir_all(&folder)?;

        let logs = self.spawner.logs();
        let console = Console::open(logs.join(format!("{}.console", spec.instance_id)))?;
        let voice = Voice::listen(&self.fabric, &folder, logs.join(format!("{}.journal", spec.instance_id))).await?;
        let binds = self.furnish(&spec, &addresses, &folder)?;
        let cgroups = Cgroups::create(&ledger, name.clone())?;
        let wire = self.fabric.wire(number, &addresses).await?;
        let parts = Parts {
            name: &spec.instance_id,
            folder: &folder,
            namespace: wire.namespace(),
            cgroups: &cgroups,
            console: &console,
        };
        let power = Power::on(&self.spawner, &spec, &parts, &binds)?;
        let (spawner, power, gone) = (self.spawner.clone(), Mutex::new(power), AtomicBool::new(false));
        Ok(Machine { spec, addresses, power, console, voice, wire, cgroups, spawner, folder: entry, gone })
    }

    /// Writes the files of a machine; gives what is bound where.
    fn furnish(&self, spec: &Spec, addresses: &Addresses, folder: &Path) -> Result<Vec<(PathBuf, PathBuf)>> {
        let mut files = Files::new();
        seed::furnish(spec, &addresses.pods, &mut files)?;
        let disk = folder.join("disk");
        let shape = spec.shape.furnish(&mut files)?;
        files.write(&folder.join("files.tar"))?;
        let mut binds: Vec<_> = shape.into_iter().map(|(from, at)| (disk.join(from), at)).collect();
        binds.push((folder.join("notify"), PathBuf::from("/run/host/notify")));
        binds.push((folder.join("syslog"), PathBuf::from("/run/systemd/journal/syslog")));
        binds.extend(programs::of(spec, &self.folder)?);
        binds.extend(spec.files.iter().cloned());
        Ok(binds)
    }
}

impl Plot {
    /// The network of its pods, as `100.64.1.0/24`.
    pub fn pods(&self) -> &str {
        &self.addresses.pods
    }
}

impl Machine {
    /// What was booted.
    pub fn spec(&self) -> &Spec {
        &self.spec
    }

    /// Its part of the network.
    pub fn addresses(&self) -> &Addresses {
        &self.addresses
    }

    /// The serial console.
    pub fn console(&self) -> &Record {
        self.console.record()
    }

    /// The journal, all units.
    pub fn journal(&self) -> &Record {
        self.voice.journal()
    }

    /// Its PID 1, by its number outside: `nsenter --all --target PID` leads in. None when it does not run.
    pub fn pid(&self) -> Option<i32> {
        self.power().init().map(|init| init.pid)
    }

    /// Waits until systemd has reached its default target.
    ///
    /// # Errors
    /// [`Error::Deadline`] with the end of the console; [`Error::Ended`] when the machine ended instead.
    pub async fn booted(&self, deadline: Duration) -> Result<()> {
        let mut ready = self.voice.ready();
        let reached = tokio::time::timeout(deadline, ready.wait_for(|ready| *ready)).await;
        self.power().check()?;
        if reached.is_ok() {
            return Ok(());
        }
        let what = format!("`{}` has booted", self.spec.instance_id);
        Err(Error::Deadline { what, waited: deadline, seen: self.console().tail(20) })
    }

    /// Runs a short command inside, which must succeed, and gives what it wrote to stdout.
    ///
    /// # Errors
    /// [`Error::Command`] with what it wrote to stderr.
    pub async fn run<A: AsRef<OsStr>>(&self, words: impl IntoIterator<Item = A>) -> Result<String> {
        inside::run(self.init()?, words, "").await
    }

    /// Runs a short command inside with `input` and gives how it ended.
    ///
    /// # Errors
    /// When the machine does not run.
    pub async fn output<A: AsRef<OsStr>>(&self, words: impl IntoIterator<Item = A>, input: &str) -> Result<Output> {
        inside::output(self.init()?, words, input).await
    }

    /// Resets it, as EC2 reboots an instance that does not listen: everything that runs ends at once, the disk stays, `/run`
    /// is empty, and it boots again, with another boot ID. Journal and console begin anew; their files go on.
    ///
    /// # Errors
    /// When it does not run or cannot be started again.
    pub async fn reset(self: &Arc<Self>) -> Result<()> {
        let machine = Arc::clone(self);
        tokio::task::spawn_blocking(move || {
            let mut power = machine.power();
            machine.voice.begin_again();
            machine.console().turn_page();
            let name = &machine.spec.instance_id;
            power.reset(&machine.spawner, name, machine.wire.namespace(), &machine.cgroups)
        })
        .await
        .map_err(std::io::Error::other)?
    }

    /// Terminates: pulls the plug and removes everything but the logs.
    ///
    /// # Errors
    /// When something resists; the next world removes it.
    pub async fn terminate(self: Arc<Self>) -> Result<()> {
        tokio::task::spawn_blocking(move || self.end()).await.map_err(std::io::Error::other)?
    }

    fn power(&self) -> MutexGuard<'_, Power> {
        self.power.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn init(&self) -> Result<ProcessId> {
        self.power().init().ok_or_else(|| {
            let what = format!("`{}` does not run", self.spec.instance_id);
            Error::Missing { what, hint: format!("its console is `{}`", self.console().path().display()) }
        })
    }

    fn end(&self) -> Result<()> {
        if self.gone.swap(true, Ordering::Relaxed) {
            return Ok(());
        }
        self.power().off();
        self.wire.remove()?;
        self.cgroups.remove()?;
        self.spawner.ledger().remove(self.folder)
    }
}

impl Drop for Machine {
    fn drop(&mut self) {
        // What resists stays in the ledger, and whoever closes it says so.
        let _stays_in_the_ledger = self.end();
    }
}
