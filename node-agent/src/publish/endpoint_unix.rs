//! Endpoint of the agent's API: a Unix socket that only root may use.

use std::io;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use fs_err as fs;
use tokio::net::{UnixListener, UnixStream};
use tokio_stream::wrappers::UnixListenerStream;

/// Name of the socket in the agent's folder.
pub const FILE: &str = "agent.sock";

/// Stream of incoming connections.
pub type Incoming = UnixListenerStream;

/// Binds the socket. It is created under a temporary name, and renamed once its mode is 0600.
///
/// # Errors
/// The socket cannot be created.
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

/// Connects to a running agent.
///
/// # Errors
/// The agent does not run, or the caller lacks permission.
pub async fn connect(folder: &Path) -> io::Result<UnixStream> {
    UnixStream::connect(folder.join(FILE)).await
}
