//! Where the agent is asked: a Unix socket, for root only.

use std::io;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use fs_err as fs;
use tokio::net::{UnixListener, UnixStream};
use tokio_stream::wrappers::UnixListenerStream;

/// Name of the socket in the agent's folder.
pub const FILE: &str = "agent.sock";

/// Those who come.
pub type Incoming = UnixListenerStream;

/// Binds the socket. It is made where nobody else may enter, and moved when its rights are set.
///
/// # Errors
/// It cannot be made.
pub fn bind(folder: &Path) -> io::Result<Incoming> {
    let (made, path) = (folder.join("agent.sock.new"), folder.join(FILE));
    for old in [&made, &path] {
        match fs::remove_file(old) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            _ => {}
        }
    }
    let listener = UnixListener::bind(&made)?;
    fs::set_permissions(&made, std::fs::Permissions::from_mode(0o600))?;
    fs::rename(&made, &path)?;
    Ok(UnixListenerStream::new(listener))
}

/// Connects to an agent that runs.
///
/// # Errors
/// None runs, or it may not be asked.
pub async fn connect(folder: &Path) -> io::Result<UnixStream> {
    UnixStream::connect(folder.join(FILE)).await
}
