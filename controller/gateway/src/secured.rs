//! TLS connection that needs no buffers while it is idle, for ten thousand of them.
//!
//! `tokio_rustls` keeps four kilobytes for the next record of each connection, for as long as it lasts. A node sends
//! nothing for minutes. Here bytes are read into a buffer on the stack, and heap buffers are freed once they are empty.
//! The TLS protocol itself is [`rustls`]: it is given the bytes received and returns the bytes to send.

#[cfg(test)]
mod mutations;

use std::future::poll_fn;
use std::io::{Error, ErrorKind, Result};
use std::mem::MaybeUninit;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use rustls::ServerConfig;
use rustls::pki_types::CertificateDer;
use rustls::server::UnbufferedServerConnection;
use rustls::unbuffered::{ConnectionState, EncodeError, EncryptError, InsufficientSizeError};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;
use tokio::time::{Instant, timeout_at};

/// Number of bytes read at once.
const PIECE: usize = 8 * 1024;
/// Number of bytes encrypted at once: one record.
const RECORD: usize = 16 * 1024;
/// Overhead of a record in bytes, with an alert or handshake message that goes with it.
const AROUND: usize = 128;
/// Maximum number of received bytes without a complete message: the longest handshake message with its record headers.
const MOST: usize = 80 * 1024;

/// Server side of a TLS connection.
pub(crate) struct Secured {
    stream: TcpStream,
    session: UnbufferedServerConnection,
    /// Received bytes that are not a complete record yet.
    incoming: Vec<u8>,
    /// Decrypted bytes, of which `read` are consumed.
    plain: Vec<u8>,
    read: usize,
    /// Encrypted bytes to send, of which `sent` are sent.
    outgoing: Vec<u8>,
    sent: usize,
    /// True if the peer has closed its sending side.
    has_ended: bool,
    /// True if this side has.
    has_closed: bool,
}

/// Operation for the session in addition to processing the received bytes.
#[derive(Clone, Copy)]
enum Wish<'a> {
    Nothing,
    Write(&'a [u8]),
    Close,
}

/// State of the session when no more progress is possible.
#[derive(Debug, PartialEq, Eq)]
enum Stand {
    /// The operation is done.
    Done,
    /// More bytes of the peer are needed.
    Waits,
    /// Both sides are closed.
    Closed,
}

impl Secured {
    /// Performs the handshake. The client's first message has to be there after `hello`.
    pub(crate) async fn accept(config: Arc<ServerConfig>, stream: TcpStream, hello: Duration) -> Result<Box<Self>> {
        let until = Instant::now() + hello;
        let mut was_answered = false;
        let mut new = Box::new(Self {
            stream,
            session: UnbufferedServerConnection::new(config).map_err(Error::other)?,
            incoming: Vec::new(),
            plain: Vec::new(),
            read: 0,
            outgoing: Vec::new(),
            sent: 0,
            has_ended: false,
            has_closed: false,
        });
        loop {
            let stand = new.advance(Wish::Nothing)?;
            was_answered |= !new.outgoing.is_empty();
            poll_fn(|cx| new.poll_send(cx)).await?;
            match stand {
                Stand::Done if !new.session.is_handshaking() => return Ok(new),
                Stand::Closed => return Err(ErrorKind::UnexpectedEof.into()),
                Stand::Done | Stand::Waits if was_answered => poll_fn(|cx| new.poll_fill(cx)).await?,
                Stand::Done | Stand::Waits => timeout_at(until, poll_fn(|cx| new.poll_fill(cx))).await??,
            }
        }
    }

    /// Returns the peer's certificate, if it sent one.
    pub(crate) fn certificate(&self) -> Option<&CertificateDer<'static>> {
        self.session.peer_certificates().and_then(<[_]>::first)
    }

    /// Processes the received bytes and collects the bytes to send, until no more progress is possible.
    fn advance(&mut self, wish: Wish<'_>) -> Result<Stand> {
        let mut heard = 0;
        let mut stand = loop {
            match self.step(&mut heard, wish) {
                Ok(None) => {}
                Ok(Some(stand)) => break Ok(stand),
                Err(error) => {
                    // Send the alert to the peer, if the socket takes it.
                    let _nothing_to_say = self.step(&mut heard, Wish::Nothing);
                    let _not_sent = self.stream.try_write(self.outgoing.get(self.sent..).unwrap_or_default());
                    break Err(error);
                }
            }
        };
        self.incoming.drain(..heard.min(self.incoming.len()));
        if self.incoming.len() > MOST {
            stand = Err(invalid("a message without an end"));
        }
        if self.incoming.is_empty() || stand.is_err() {
            self.incoming = Vec::new();
        }
        if stand.is_err() {
            // The session is not used any more after an error.
            (self.has_ended, self.has_closed) = (true, true);
            (self.outgoing, self.sent) = (Vec::new(), 0);
        }
        stand
    }

    /// Processes one state of the session; returns `Some` if no more progress is possible. Adds the number of consumed
    /// bytes to `heard`.
    fn step(&mut self, heard: &mut usize, wish: Wish<'_>) -> Result<Option<Stand>> {
        let Self { session, incoming, plain, outgoing, has_ended, .. } = self;
        let status = session.process_tls_records(incoming.get_mut(*heard..).unwrap_or_default());
        *heard += status.discard;
        match status.state.map_err(invalid)? {
            ConnectionState::ReadTraffic(mut traffic) => {
                while let Some(record) = traffic.next_record() {
                    let record = record.map_err(invalid)?;
                    *heard += record.discard;
                    plain.extend_from_slice(record.payload);
                }
            }
            ConnectionState::EncodeTlsData(mut data) => {
                encode(outgoing, 0, |room| data.encode(room).map_err(Unwritten::from))?;
            }
            // It is sent before anything that is encoded later.
            ConnectionState::TransmitTlsData(data) => data.done(),
            ConnectionState::PeerClosed => *has_ended = true,
            ConnectionState::WriteTraffic(mut traffic) => {
                match wish {
                    Wish::Nothing => {}
                    Wish::Write(said) => {
                        let room = said.len() + AROUND;
                        encode(outgoing, room, |room| traffic.encrypt(said, room).map_err(Unwritten::from))?;
                    }
                    Wish::Close => {
                        encode(outgoing, AROUND, |room| traffic.queue_close_notify(room).map_err(Unwritten::from))?;
                    }
                }
                return Ok(Some(Stand::Done));
            }
            ConnectionState::BlockedHandshake => return Ok(Some(Stand::Waits)),
            ConnectionState::Closed => {
                *has_ended = true;
                return Ok(Some(Stand::Closed));
            }
            _ => return Err(invalid("this is not offered")),
        }
        Ok(None)
    }

    /// Reads from the socket.
    fn poll_fill(&mut self, cx: &mut Context<'_>) -> Poll<Result<()>> {
        let mut room = [const { MaybeUninit::uninit() }; PIECE];
        let mut piece = ReadBuf::uninit(&mut room);
        ready!(Pin::new(&mut self.stream).poll_read(cx, &mut piece))?;
        if piece.filled().is_empty() {
            return Poll::Ready(Err(ErrorKind::UnexpectedEof.into()));
        }
        self.incoming.extend_from_slice(piece.filled());
        Poll::Ready(Ok(()))
    }

    /// Sends the pending bytes.
    fn poll_send(&mut self, cx: &mut Context<'_>) -> Poll<Result<()>> {
        while let Some(rest @ [_, ..]) = self.outgoing.get(self.sent..) {
            match ready!(Pin::new(&mut self.stream).poll_write(cx, rest))? {
                0 => return Poll::Ready(Err(ErrorKind::WriteZero.into())),
                sent => self.sent += sent,
            }
        }
        (self.outgoing, self.sent) = (Vec::new(), 0);
        Poll::Ready(Ok(()))
    }
}

impl AsyncRead for Secured {
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<Result<()>> {
        let this = &mut *self;
        while this.plain.is_empty() && !this.has_ended {
            ready!(this.poll_fill(cx))?;
            this.advance(Wish::Nothing)?;
            // The rest is sent with the next write or flush.
            if let Poll::Ready(sent) = this.poll_send(cx) {
                sent?;
            }
        }
        let rest = this.plain.get(this.read..).unwrap_or_default();
        let (now, later) = rest.split_at(rest.len().min(buf.remaining()));
        buf.put_slice(now);
        this.read += now.len();
        if later.is_empty() {
            (this.plain, this.read) = (Vec::new(), 0);
        }
        Poll::Ready(Ok(()))
    }
}

impl AsyncWrite for Secured {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &[u8]) -> Poll<Result<usize>> {
        // At most one record is pending.
        ready!(self.poll_send(cx))?;
        let said = buf.get(..RECORD).unwrap_or(buf);
        if self.has_closed || self.advance(Wish::Write(said))? != Stand::Done {
            return Poll::Ready(Err(ErrorKind::BrokenPipe.into()));
        }
        match self.poll_send(cx) {
            Poll::Ready(Err(error)) => Poll::Ready(Err(error)),
            // It is buffered, and the waker is registered.
            Poll::Ready(Ok(())) | Poll::Pending => Poll::Ready(Ok(said.len())),
        }
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Result<()>> {
        self.poll_send(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Result<()>> {
        if !self.has_closed {
            self.has_closed = true;
            self.advance(Wish::Close)?;
        }
        ready!(self.poll_send(cx))?;
        Pin::new(&mut self.stream).poll_shutdown(cx)
    }
}

/// Reason why nothing was written into a buffer.
enum Unwritten {
    /// The buffer needs this many bytes.
    TooSmall(usize),
    Broken(Error),
}

/// Appends the output of `write` to `outgoing`, in a buffer of `room` bytes or of the size that it requires.
fn encode(
    outgoing: &mut Vec<u8>,
    mut room: usize,
    mut write: impl FnMut(&mut [u8]) -> std::result::Result<usize, Unwritten>,
) -> Result<()> {
    let start = outgoing.len();
    loop {
        outgoing.resize(start + room, 0);
        let written = write(outgoing.get_mut(start..).unwrap_or_default());
        outgoing.truncate(start + *written.as_ref().unwrap_or(&0));
        match written {
            Ok(_) => return Ok(()),
            Err(Unwritten::TooSmall(needed)) if needed > room => room = needed,
            Err(Unwritten::TooSmall(_)) => return Err(invalid("no room is enough")),
            Err(Unwritten::Broken(error)) => return Err(error),
        }
    }
}

impl From<EncodeError> for Unwritten {
    fn from(error: EncodeError) -> Self {
        match error {
            EncodeError::InsufficientSize(InsufficientSizeError { required_size }) => Self::TooSmall(required_size),
            other @ EncodeError::AlreadyEncoded => Self::Broken(invalid(other)),
        }
    }
}

impl From<EncryptError> for Unwritten {
    fn from(error: EncryptError) -> Self {
        match error {
            EncryptError::InsufficientSize(InsufficientSizeError { required_size }) => Self::TooSmall(required_size),
            other @ EncryptError::EncryptExhausted => Self::Broken(invalid(other)),
        }
    }
}

fn invalid(error: impl Into<Box<dyn std::error::Error + Send + Sync>>) -> Error {
    Error::new(ErrorKind::InvalidData, error)
}

#[cfg(test)]
mod tests {
    use rustls::pki_types::ServerName;
    use rustls::{ClientConfig, RootCertStore};
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    use tokio::net::TcpListener;
    use tokio::time::timeout;
    use tokio_rustls::TlsConnector;
    use tokio_rustls::client::TlsStream;

    use super::*;

    /// Returns both ends of a connection.
    async fn pair() -> (TlsStream<TcpStream>, Box<Secured>) {
        let key = rcgen::generate_simple_self_signed(["here".to_owned()]).unwrap();
        let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
        let certificate = key.cert.der().clone();
        let mut roots = RootCertStore::empty();
        roots.add(certificate.clone()).unwrap();
        let client = ClientConfig::builder_with_provider(Arc::clone(&provider))
            .with_protocol_versions(&[&rustls::version::TLS13])
            .unwrap()
            .with_root_certificates(roots)
            .with_no_client_auth();
        let private = rustls::pki_types::PrivatePkcs8KeyDer::from(key.signing_key.serialize_der()).into();
        let mut server = ServerConfig::builder_with_provider(provider)
            .with_protocol_versions(&[&rustls::version::TLS13])
            .unwrap()
            .with_no_client_auth()
            .with_single_cert(vec![certificate], private)
            .unwrap();
        server.send_tls13_tickets = 0;
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let connect = async {
            let stream = TcpStream::connect(listener.local_addr().unwrap()).await.unwrap();
            TlsConnector::from(Arc::new(client)).connect(ServerName::try_from("here").unwrap(), stream).await.unwrap()
        };
        let hello = Duration::from_secs(60);
        let accept =
            async { Secured::accept(Arc::new(server), listener.accept().await.unwrap().0, hello).await.unwrap() };
        tokio::join!(connect, accept)
    }

    fn holds(secured: &Secured) -> usize {
        secured.incoming.capacity() + secured.plain.capacity() + secured.outgoing.capacity()
    }

    #[tokio::test]
    async fn what_is_said_arrives_and_what_rests_holds_nothing() {
        let (mut client, mut server) = pair().await;
        assert_eq!(holds(&server), 0, "after the handshake");
        let said: Vec<u8> = (0..1_000_000_u32).map(|number| (number % 251) as u8).collect();
        let (mut there, mut back) = (vec![0; said.len()], vec![0; said.len()]);
        // Traffic keys are updated midway.
        let speak = async {
            let (first, last) = said.split_at(said.len() / 2);
            client.write_all(first).await.unwrap();
            client.get_mut().1.refresh_traffic_keys().unwrap();
            client.write_all(last).await.unwrap();
            client.flush().await.unwrap();
            client.read_exact(&mut back).await.unwrap();
        };
        let answer = async {
            server.read_exact(&mut there).await.unwrap();
            server.write_all(&there).await.unwrap();
            server.flush().await.unwrap();
        };
        timeout(Duration::from_secs(60), async { tokio::join!(speak, answer) }).await.unwrap();
        assert!(there == said && back == said);
        assert_eq!(holds(&server), 0);
    }

    #[tokio::test]
    async fn an_end_is_an_end_and_a_cut_is_none() {
        let (mut client, mut server) = pair().await;
        client.write_all(b"last words").await.unwrap();
        client.shutdown().await.unwrap();
        let mut heard = Vec::new();
        server.read_to_end(&mut heard).await.unwrap();
        assert_eq!(heard, b"last words");
        server.write_all(b"and the answer").await.unwrap();
        server.shutdown().await.unwrap();
        heard.clear();
        client.read_to_end(&mut heard).await.unwrap();
        assert_eq!(heard, b"and the answer");

        let (client, mut server) = pair().await;
        drop(client.into_inner().0);
        assert_eq!(server.read_to_end(&mut heard).await.unwrap_err().kind(), ErrorKind::UnexpectedEof);
    }

    #[tokio::test]
    async fn what_is_no_record_ends_it_and_the_peer_is_told() {
        let (mut client, mut server) = pair().await;
        client
            .get_mut()
            .0
            .write_all(&[23, 3, 3, 0, 20, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18, 19, 20])
            .await
            .unwrap();
        let mut heard = Vec::new();
        assert_eq!(server.read_to_end(&mut heard).await.unwrap_err().kind(), ErrorKind::InvalidData);
        assert_eq!(server.write(b"no more").await.unwrap_err().kind(), ErrorKind::BrokenPipe);
        assert_eq!(server.read(&mut [0; 8]).await.unwrap(), 0);
        let told = client.read_to_end(&mut heard).await.unwrap_err();
        assert!(told.to_string().contains("BadRecordMac") || told.to_string().contains("DecryptError"), "{told}");
        assert_eq!(holds(&server), 0);
    }
}
