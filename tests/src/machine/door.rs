//! Sockets of ours in the world's network namespace.
//!
//! A socket belongs to the namespace that it was made in, whoever holds it. So a small program that runs in there makes
//! it and hands it out; this process, with its many threads, stays where it is.

use std::io::{self, IoSlice, IoSliceMut};
use std::mem::MaybeUninit;
use std::net::SocketAddr;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::process::Stdio;

use rustix::net::{
    RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer, SendAncillaryMessage, SendFlags,
    recvmsg, sendmsg,
};
use tokio::process::Command;

use super::{command, guest};
use crate::error::{Error, Result};

/// What a place begins with that is to be connected to.
const TO: &str = "to:";

/// A listening socket for `address` in the network namespace `namespace`.
pub(super) async fn listen(namespace: &str, address: SocketAddr) -> Result<tokio::net::TcpListener> {
    let listener = std::net::TcpListener::from(ask(namespace, &address.to_string()).await?);
    listener.set_nonblocking(true)?;
    Ok(tokio::net::TcpListener::from_std(listener)?)
}

/// A connection to `address` in the network namespace `namespace`.
pub(super) async fn connect(namespace: &str, address: SocketAddr) -> Result<tokio::net::TcpStream> {
    let stream = std::net::TcpStream::from(ask(namespace, &format!("{TO}{address}")).await?);
    stream.set_nonblocking(true)?;
    Ok(tokio::net::TcpStream::from_std(stream)?)
}

/// A socket for datagrams at `path`, made in the network namespace `namespace`: its settings count for the queue.
pub(super) async fn receive(namespace: &str, path: &Path) -> Result<tokio::net::UnixDatagram> {
    let socket = std::os::unix::net::UnixDatagram::from(ask(namespace, &path.to_string_lossy()).await?);
    socket.set_nonblocking(true)?;
    Ok(tokio::net::UnixDatagram::from_std(socket)?)
}

async fn ask(namespace: &str, place: &str) -> Result<OwnedFd> {
    let (ours, theirs) = UnixStream::pair()?;
    let mut command = Command::new("nsenter");
    command.arg(format!("--net=/run/netns/{namespace}")).arg("--").arg(guest::path()?).args(["listen", place]);
    command.stdin(Stdio::from(OwnedFd::from(theirs))).kill_on_drop(true);
    let output = command.output().await?;
    if !output.status.success() {
        return Err(command::failure(&command, "", &output));
    }
    take(&ours)
}

/// What the program in the namespace does: makes a socket at `place` (`ADDRESS:PORT` to listen there,
/// `to:ADDRESS:PORT` to connect to it, a path to receive datagrams there), and hands it to whoever holds the other end of `out`.
///
/// # Errors
/// When the place cannot be had or nobody takes the socket.
pub fn hand_out(place: &str, out: BorrowedFd<'_>) -> io::Result<()> {
    let socket: OwnedFd = match (place.strip_prefix(TO), place.parse::<SocketAddr>()) {
        (Some(address), _) => std::net::TcpStream::connect(address)?.into(),
        (None, Ok(address)) => std::net::TcpListener::bind(address)?.into(),
        (None, Err(_)) => std::os::unix::net::UnixDatagram::bind(place)?.into(),
    };
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut control = SendAncillaryBuffer::new(&mut space);
    let sockets = [socket.as_fd()];
    control.push(SendAncillaryMessage::ScmRights(&sockets));
    sendmsg(out, &[IoSlice::new(b"!")], &mut control, SendFlags::empty())?;
    Ok(())
}

fn take(from: &UnixStream) -> Result<OwnedFd> {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut control = RecvAncillaryBuffer::new(&mut space);
    let mut byte = [0];
    recvmsg(from, &mut [IoSliceMut::new(&mut byte)], &mut control, RecvFlags::CMSG_CLOEXEC).map_err(io::Error::from)?;
    let socket = control.drain().find_map(|message| match message {
        RecvAncillaryMessage::ScmRights(mut sockets) => sockets.next(),
        _ => None,
    });
    socket.ok_or_else(|| Error::Io(io::Error::other("the program in the namespace handed out no socket")))
}
