//! A way to an API server that can be cut: for a partition in which a client no longer reaches it, while it reaches all else.
//!
//! ```text
//!  client ──► Wire, a port on loopback ──► API server
//!               └─ cut: nothing goes either way, and no connection is closed; mend: what was sent meanwhile arrives
//! ```
//!
//! That is what a client sees of a network that drops its packets: neither an error nor an answer.

use std::io;
use std::net::{Ipv4Addr, SocketAddr};

use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio::task::JoinSet;

use crate::error::{Error, Result};

/// Bytes that are carried at a time.
const PIECE: usize = 16 * 1024;

/// A wire to one API server. Its connections end with it.
#[derive(Debug)]
pub struct Wire {
    address: SocketAddr,
    is_whole: watch::Sender<bool>,
    _carries: JoinSet<()>,
}

impl Wire {
    /// To the server at `url`, as `https://127.0.0.1:6443`.
    pub(super) async fn to(url: &str) -> Result<Self> {
        let no_port = || Error::Missing {
            what: format!("`{url}` names no port on loopback"),
            hint: "only our own control plane can be wired".to_owned(),
        };
        let server: SocketAddr = url.strip_prefix("https://").and_then(|it| it.parse().ok()).ok_or_else(no_port)?;
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await?;
        let address = listener.local_addr()?;
        let (is_whole, state) = watch::channel(true);
        let mut carries = JoinSet::new();
        carries.spawn(listen(listener, server, state));
        Ok(Self { address, is_whole, _carries: carries })
    }

    /// Its near end, as `https://127.0.0.1:4711`.
    pub fn url(&self) -> String {
        format!("https://{}", self.address)
    }

    /// Lets nothing through any more.
    pub fn cut(&self) {
        self.is_whole.send_replace(false);
    }

    /// Lets everything through again.
    pub fn mend(&self) {
        self.is_whole.send_replace(true);
    }
}

/// All connections end with this task.
async fn listen(listener: TcpListener, server: SocketAddr, is_whole: watch::Receiver<bool>) {
    let mut connections = JoinSet::new();
    loop {
        tokio::select! {
            accepted = listener.accept() => {
                let Ok((near, _)) = accepted else { continue };
                let mut is_whole = is_whole.clone();
                connections.spawn(async move {
                    // An end that is closed, or a server that is not there, closes the connection: nothing to add.
                    let Ok(()) = whole(&mut is_whole).await else { return };
                    let Ok(far) = TcpStream::connect(server).await else { return };
                    let (_, _) = (near.set_nodelay(true), far.set_nodelay(true));
                    let ((near_in, near_out), (far_in, far_out)) = (near.into_split(), far.into_split());
                    tokio::select! {
                        _ = carry(near_in, far_out, is_whole.clone()) => {}
                        _ = carry(far_in, near_out, is_whole) => {}
                    }
                });
            }
            Some(_) = connections.join_next() => {}
        }
    }
}

/// One direction, until its source closes.
async fn carry(
    mut from: impl AsyncRead + Unpin,
    mut to: impl AsyncWrite + Unpin,
    mut is_whole: watch::Receiver<bool>,
) -> io::Result<()> {
    let mut piece = vec![0; PIECE];
    loop {
        let count = from.read(&mut piece).await?;
        // An end that closes says so through the wire too.
        whole(&mut is_whole).await?;
        if count == 0 {
            return Ok(());
        }
        to.write_all(&piece[..count]).await?;
    }
}

async fn whole(is_whole: &mut watch::Receiver<bool>) -> io::Result<()> {
    is_whole.wait_for(|is_whole| *is_whole).await.map(|_| ()).map_err(io::Error::other)
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use tokio::time::timeout;

    use super::*;

    #[tokio::test]
    async fn what_is_sent_into_a_cut_wire_arrives_when_it_is_mended() {
        let server = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap();
        let wire = Wire::to(&format!("https://{}", server.local_addr().unwrap())).await.unwrap();
        let mut client = TcpStream::connect(wire.address).await.unwrap();
        let (mut far, _) = server.accept().await.unwrap();
        let mut byte = [0];
        client.write_all(b"a").await.unwrap();
        far.read_exact(&mut byte).await.unwrap();

        wire.cut();
        client.write_all(b"b").await.unwrap();
        far.write_all(b"c").await.unwrap();
        let nothing = Duration::from_millis(50);
        assert!(timeout(nothing, far.read(&mut byte)).await.is_err(), "neither the byte nor an end");
        assert!(timeout(nothing, client.read(&mut byte)).await.is_err(), "nor the other way");
        let mut late = TcpStream::connect(wire.address).await.unwrap();
        late.write_all(b"d").await.unwrap();
        assert!(timeout(nothing, server.accept()).await.is_err(), "nor anybody new");

        wire.mend();
        far.read_exact(&mut byte).await.unwrap();
        assert_eq!(byte, *b"b");
        client.read_exact(&mut byte).await.unwrap();
        assert_eq!(byte, *b"c");
        let (mut later, _) = server.accept().await.unwrap();
        later.read_exact(&mut byte).await.unwrap();
        assert_eq!(byte, *b"d");
    }
}
