//! Sockets of ours in the world's network namespace.
//!
//! A socket belongs to the namespace that it was made in, whoever holds it. So a thread of its own enters the namespace,
//! makes the socket and ends; all other threads of this process stay where they are.

use std::io;
use std::net::SocketAddr;
use std::path::Path;
use std::thread;

use fs_err as fs;
use nix::sched::{CloneFlags, setns};
use tokio::sync::oneshot;

use crate::error::Result;

/// A listening socket for `address` in the network namespace `namespace`.
pub(super) async fn listen(namespace: &str, address: SocketAddr) -> Result<tokio::net::TcpListener> {
    let listener = within(namespace, move || std::net::TcpListener::bind(address)).await?;
    listener.set_nonblocking(true)?;
    Ok(tokio::net::TcpListener::from_std(listener)?)
}

/// A connection to `address` in the network namespace `namespace`.
pub(super) async fn connect(namespace: &str, address: SocketAddr) -> Result<tokio::net::TcpStream> {
    let stream = within(namespace, move || std::net::TcpStream::connect(address)).await?;
    stream.set_nonblocking(true)?;
    Ok(tokio::net::TcpStream::from_std(stream)?)
}

/// A socket for datagrams at `path`, made in the network namespace `namespace`: its settings count for the queue.
pub(super) async fn receive(namespace: &str, path: &Path) -> Result<tokio::net::UnixDatagram> {
    let path = path.to_owned();
    let socket = within(namespace, move || std::os::unix::net::UnixDatagram::bind(path)).await?;
    socket.set_nonblocking(true)?;
    Ok(tokio::net::UnixDatagram::from_std(socket)?)
}

/// Makes a socket on a thread in the network namespace `namespace`.
async fn within<T: Send + 'static>(
    namespace: &str,
    make: impl FnOnce() -> io::Result<T> + Send + 'static,
) -> io::Result<T> {
    let place = format!("/run/netns/{namespace}");
    let (made_tx, made_rx) = oneshot::channel();
    // Not one of the runtime's threads, which would stay in the namespace and serve others next.
    thread::Builder::new().name("door".to_owned()).spawn(move || {
        let made = fs::File::open(place).and_then(|namespace| {
            setns(namespace, CloneFlags::CLONE_NEWNET)?;
            make()
        });
        let _not_awaited = made_tx.send(made);
    })?;
    made_rx.await.map_err(|_| io::Error::other("the thread in the namespace has made no socket"))?
}
