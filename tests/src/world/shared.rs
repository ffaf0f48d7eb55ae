//! A test process's way to the shared world.

use std::io::{BufRead, BufReader, ErrorKind, Read, Seek, Write};
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use fs_err as fs;

use super::protocol::{Answer, Ask, Described, Part};
use crate::cluster::Cluster;
use crate::ec2::{Ec2, Moto};
use crate::error::{Error, Result};
use crate::ledger::{Root, WorldState, worlds};

/// The argument that makes the program of this crate the daemon.
pub(crate) const DAEMON: &str = "daemon";

/// How long the daemon may take to open its socket. It cleans up after dead worlds first.
const OPEN: Duration = Duration::from_secs(60);

/// The world that the tests of this run share. The process is a user of it until it ends.
#[derive(Debug)]
pub struct Shared {
    /// Its cluster.
    pub cluster: Cluster,
    /// Where its servers write.
    pub logs: PathBuf,
}

impl Shared {
    /// Joins the shared world, which is started if nobody uses it yet, with these parts.
    ///
    /// # Errors
    /// What kept it from starting, in the daemon's words.
    pub async fn join(parts: &[Part]) -> Result<Self> {
        let with_cluster = [parts, &[Part::Cluster]].concat();
        let Described { cluster, logs, moto: _ } = ask(&with_cluster)?;
        let cluster = cluster.ok_or_else(|| Error::Daemon("it has no cluster".to_owned()))?;
        Ok(Self { cluster: Cluster::at(cluster).await?, logs })
    }

    /// The moto of the shared world, which is started if nobody uses it yet. Brings no cluster.
    ///
    /// # Errors
    /// What kept it from starting, in the daemon's words.
    pub fn moto() -> Result<Moto> {
        let moto = ask(&[Part::Moto])?.moto.ok_or_else(|| Error::Daemon("it has no moto".to_owned()))?;
        Ok(Moto::at(moto.port, moto.log))
    }

    /// An EC2 of one's own on that moto.
    ///
    /// # Errors
    /// As [`Self::moto`].
    pub async fn ec2() -> Result<Ec2> {
        Ec2::start(&Arc::new(Self::moto()?)).await
    }
}

/// Asks the daemon over the one connection of this process. It is never closed: the kernel does that.
fn ask(parts: &[Part]) -> Result<Described> {
    static CONNECTION: Mutex<Option<BufReader<UnixStream>>> = Mutex::new(None);
    let mut connection = CONNECTION.lock().unwrap_or_else(PoisonError::into_inner);
    let mut text = serde_json::to_string(&Ask { parts: parts.to_vec() }).map_err(std::io::Error::from)?;
    text.push('\n');
    // The second time for a daemon that was just leaving when we came: its socket ends, or is reset with our words unread.
    for _ in 0..2 {
        let stream = match &mut *connection {
            Some(stream) => stream,
            none => none.insert(BufReader::new(connect()?)),
        };
        let mut line = String::new();
        let read = stream.get_mut().write_all(text.as_bytes()).and_then(|()| stream.read_line(&mut line));
        if matches!(read, Ok(1..)) {
            return match serde_json::from_str(&line).map_err(std::io::Error::from)? {
                Answer::Ready(described) => Ok(described),
                Answer::Failed(why) => Err(Error::Daemon(why)),
            };
        }
        *connection = None;
    }
    Err(Error::Daemon("its daemon went away twice".to_owned()))
}

/// Connects to the daemon of this build, and starts it if there is none.
fn connect() -> Result<UnixStream> {
    let program = program()?;
    let root = Root::of_this_machine()?;
    let owner = owner(&program)?;
    fs::create_dir_all(root.path())?;
    // Test processes that start together: one starts the daemon, the others find it.
    let lock = fs::OpenOptions::new().create(true).append(true).open(root.path().join("shared.lock"))?;
    lock.lock()?;
    if let Some(stream) = find(&root, &owner)? {
        return Ok(stream);
    }
    let mut log = tempfile::tempfile()?;
    // Its own group: Ctrl-C ends the tests, and the daemon then has no user.
    let mut daemon = Command::new(&program)
        .arg(DAEMON)
        .arg(&owner)
        .stdin(Stdio::null())
        .stdout(log.try_clone()?)
        .stderr(log.try_clone()?)
        .process_group(0)
        .spawn()?;
    let end = Instant::now() + OPEN;
    loop {
        if let Some(stream) = find(&root, &owner)? {
            return Ok(stream);
        }
        let has_ended = daemon.try_wait()?.is_some();
        if has_ended || Instant::now() >= end {
            let mut seen = String::new();
            log.rewind()?;
            log.read_to_string(&mut seen)?;
            return Err(match has_ended {
                true => Error::Daemon(seen.trim().to_owned()),
                false => Error::Deadline { what: "the shared world opens".into(), waited: OPEN, seen },
            });
        }
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// The daemon's socket lies beside its ledger, and goes with it.
pub(super) fn socket(ledger: &Path) -> PathBuf {
    ledger.join("socket")
}

fn find(root: &Root, owner: &str) -> Result<Option<UnixStream>> {
    let is_ours = |world: &WorldState| world.is_alive && world.header.as_ref().is_some_and(|it| it.owner == owner);
    for world in worlds(root)?.into_iter().filter(is_ours) {
        match UnixStream::connect(socket(&root.path().join(&world.number))) {
            Ok(stream) => return Ok(Some(stream)),
            // It comes, or it goes.
            Err(error) if matches!(error.kind(), ErrorKind::NotFound | ErrorKind::ConnectionRefused) => {}
            Err(error) => return Err(error.into()),
        }
    }
    Ok(None)
}

/// The program of this crate: cargo builds it before the suites, which lie in a folder beside it.
pub(crate) fn program() -> Result<PathBuf> {
    let own = std::env::current_exe()?;
    let candidates = own.ancestors().skip(1).take(2).map(|folder| folder.join("muster-tests"));
    candidates.into_iter().find(|path| path.is_file()).ok_or_else(|| Error::Missing {
        what: format!("there is no program `muster-tests` beside `{}`", own.display()),
        hint: "run `cargo build -p muster-tests`".to_owned(),
    })
}

/// Two clones, and two builds of one clone, do not share a world: what they start may differ.
fn owner(program: &Path) -> Result<String> {
    use std::os::unix::fs::MetadataExt;
    let metadata = fs::metadata(program)?;
    Ok(format!("suites of build {:x}-{:x}", metadata.ino(), metadata.mtime_nsec() ^ metadata.mtime()))
}
