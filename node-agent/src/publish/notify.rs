//! Readiness notification to systemd (`sd_notify(3)`, a datagram).

use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixDatagram};

/// Notifies systemd that the agent is ready. `socket` is the value of `NOTIFY_SOCKET`, if set.
///
/// # Errors
/// The datagram cannot be sent.
pub fn ready(socket: Option<&str>) -> std::io::Result<()> {
    let Some(socket) = socket else { return Ok(()) };
    let address = match socket.strip_prefix('@') {
        Some(name) => SocketAddr::from_abstract_name(name)?,
        None => SocketAddr::from_pathname(socket)?,
    };
    UnixDatagram::unbound()?.send_to_addr(b"READY=1", &address).map(drop)
}
