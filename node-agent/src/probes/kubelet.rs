//! Queries a kubelet binary for its version, flags and architecture.

use std::io::{self, Read};
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::mpsc;
use std::time::{Duration, Instant};

use muster_bootstrap::input::Arch;
use muster_bootstrap::kubelet::arguments::FlagSet;
use muster_bootstrap::kubelet::flags;

/// Timeout of `kubelet --help`, which takes 0.1 s, or longer from a cold disk.
const PATIENCE: Duration = Duration::from_secs(20);
const PAUSE: Duration = Duration::from_millis(10);
/// Maximum size of the output. The help of a kubelet has 50 KB.
const LONGEST: u64 = 4 << 20;

/// Reason why a kubelet cannot be queried.
#[derive(Debug, thiserror::Error)]
pub enum KubeletFault {
    /// The file cannot be read.
    #[error("{0}")]
    Unreadable(#[source] io::Error),
    /// The program does not respond as a kubelet does.
    #[error("{0}")]
    Silent(String),
}

/// Properties of a kubelet binary.
#[derive(Debug, Default)]
pub struct Kubelet {
    /// Version and flags; `None` if it cannot run here.
    pub flags: Option<FlagSet>,
    /// Target architecture, if the file header has it.
    pub arch: Option<Arch>,
}

/// Queries the kubelet at `path`.
///
/// # Errors
/// The file cannot be read, or the program does not respond as a kubelet does.
pub fn ask(path: &Path) -> Result<Kubelet, KubeletFault> {
    let arch = architecture(path).map_err(KubeletFault::Unreadable)?;
    // A binary of another architecture fails to start, or starts in an emulator.
    if arch.is_some_and(|arch| Some(arch) != own()) {
        return Ok(Kubelet { flags: None, arch });
    }
    let failed = KubeletFault::Silent;
    let version = output(path, "--version").map_err(|error| failed(error.to_string()))?;
    let help = output(path, "--help").map_err(|error| failed(error.to_string()))?;
    let version = version.lines().find_map(|line| line.parse().ok());
    let names = flags::of_help(&help);
    if version.is_none() || !names.contains("kubeconfig") {
        return Err(failed("it prints neither the version nor the flags of a kubelet".to_owned()));
    }
    Ok(Kubelet { flags: Some(FlagSet { version, of_binary: Some(names) }), arch })
}

fn own() -> Option<Arch> {
    std::env::consts::ARCH.parse().ok()
}

/// Returns the standard output of a program. Fails if it does not end within [`PATIENCE`].
fn output(path: &Path, argument: &str) -> io::Result<String> {
    let mut child =
        Command::new(path).arg(argument).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::null()).spawn()?;
    let Some(stdout) = child.stdout.take() else { return Ok(String::new()) };
    // Read in a thread: a full pipe would block the program.
    let (sender, receiver) = mpsc::channel();
    std::thread::spawn(move || {
        let mut text = Vec::new();
        // The receiver may have stopped waiting.
        let _ = sender.send(stdout.take(LONGEST).read_to_end(&mut text).map(|_| text));
    });
    let start = Instant::now();
    while child.try_wait()?.is_none() {
        if start.elapsed() > PATIENCE {
            child.kill()?;
            child.wait()?;
            return Err(io::Error::new(io::ErrorKind::TimedOut, format!("{argument} has not ended after 20 s")));
        }
        std::thread::sleep(PAUSE);
    }
    // A process that it has left behind may keep the pipe open.
    let text = receiver.recv_timeout(PATIENCE.saturating_sub(start.elapsed()));
    let text =
        text.map_err(|_| io::Error::new(io::ErrorKind::TimedOut, format!("the output of {argument} does not end")))??;
    Ok(String::from_utf8_lossy(&text).into_owned())
}

/// Returns the architecture in the header of an ELF or PE file; `None` for other files, such as scripts.
///
/// # Errors
/// The file cannot be read.
pub fn architecture(path: &Path) -> io::Result<Option<Arch>> {
    let mut header = Vec::new();
    std::fs::File::open(path)?.take(4096).read_to_end(&mut header)?;
    let two = |at: usize| header.get(at..at + 2).map(|bytes| u16::from_le_bytes([bytes[0], bytes[1]]));
    if header.starts_with(b"\x7fELF") {
        // e_machine. Both architectures are little-endian.
        return Ok(match two(18) {
            Some(62) => Some(Arch::Amd64),
            Some(183) => Some(Arch::Arm64),
            _ => None,
        });
    }
    if header.starts_with(b"MZ") {
        let at = header.get(60..64).map(|bytes| u32::from_le_bytes([bytes[0], bytes[1], bytes[2], bytes[3]]));
        let at = at
            .and_then(|at| usize::try_from(at).ok())
            .filter(|at| header.get(*at..).is_some_and(|it| it.starts_with(b"PE\0\0")));
        return Ok(match at.and_then(|at| two(at + 4)) {
            Some(0x8664) => Some(Arch::Amd64),
            Some(0xaa64) => Some(Arch::Arm64),
            _ => None,
        });
    }
    Ok(None)
}
