//! Endpoint of the agent's API: a named pipe that only administrators and the system may use.

use std::io;
use std::path::{MAIN_SEPARATOR, Path};
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use futures::stream::unfold;
use interprocess::os::windows::named_pipe::PipeListenerOptions;
use interprocess::os::windows::named_pipe::pipe_mode::Bytes;
use interprocess::os::windows::named_pipe::tokio::{PipeListener, PipeStream};
use interprocess::os::windows::security_descriptor::SecurityDescriptor;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::windows::named_pipe::{ClientOptions, NamedPipeClient};
use tokio::time::sleep;
use tokio_stream::Stream;
use tonic::transport::server::Connected;
use widestring::u16cstr;

/// Default folder, whose pipe has the short name.
const FOLDER: &str = r"C:\ProgramData\Muster";
/// Buffer size in bytes: fits a request, and the response with a report.
const BUFFER: u32 = 16 << 10;
/// `ERROR_PIPE_BUSY`: all instances of the pipe are in use.
const BUSY: i32 = 231;

/// Stream of incoming connections.
pub type Incoming = Pin<Box<dyn Stream<Item = io::Result<Pipe>> + Send>>;

/// Returns the pipe name of the agent with this folder. Pipes have no folders, so the name contains the folder's path.
#[must_use]
pub fn name(folder: &Path) -> String {
    if folder == Path::new(FOLDER) {
        return r"\\.\pipe\muster-agent".to_owned();
    }
    let folder = folder.to_string_lossy().to_lowercase().replace([MAIN_SEPARATOR, '/', ':'], "-");
    format!(r"\\.\pipe\muster-agent-{folder}")
}

/// Creates the pipe.
///
/// # Errors
/// The pipe cannot be created, or exists already.
pub fn bind(folder: &Path) -> io::Result<Incoming> {
    let name = name(folder);
    let listener = Some(listen(&name)?);
    Ok(Box::pin(unfold((name, listener), |(name, listener)| async {
        let (pipe, listener) = accept(&name, listener).await;
        Some((Ok(Pipe(pipe)), (name, Some(listener))))
    })))
}

fn listen(name: &str) -> io::Result<PipeListener<Bytes, Bytes>> {
    // Full control for the system and administrators, no access for others, no inherited permissions.
    let security = SecurityDescriptor::deserialize(u16cstr!("D:P(A;;GA;;;SY)(A;;GA;;;BA)"))?;
    let options = PipeListenerOptions::new()
        .path(name)
        .security_descriptor(Some(security))
        .input_buffer_size_hint(BUFFER)
        .output_buffer_size_hint(BUFFER);
    options.create_tokio()
}

/// Accepts the next connection. A client that disconnects too early leaves an unusable pipe instance. The pipe is then
/// recreated as soon as the other clients have disconnected.
async fn accept(
    name: &str,
    mut listener: Option<PipeListener<Bytes, Bytes>>,
) -> (PipeStream<Bytes, Bytes>, PipeListener<Bytes, Bytes>) {
    const PAUSE: Duration = Duration::from_millis(100);
    loop {
        listener = match listener {
            Some(listener) => match listener.accept().await {
                Ok(pipe) => return (pipe, listener),
                Err(_) => None,
            },
            None => listen(name).ok(),
        };
        if listener.is_none() {
            sleep(PAUSE).await;
        }
    }
}

/// Connects to a running agent.
///
/// # Errors
/// The agent does not run, or the caller lacks permission.
pub async fn connect(folder: &Path) -> io::Result<NamedPipeClient> {
    const TRIES: u32 = 20;
    let name = name(folder);
    for _ in 1..TRIES {
        match ClientOptions::new().open(&name) {
            Err(error) if error.raw_os_error() == Some(BUSY) => sleep(Duration::from_millis(50)).await,
            result => return result,
        }
    }
    ClientOptions::new().open(&name)
}

/// A connection, with the traits that the HTTP server requires.
pub struct Pipe(PipeStream<Bytes, Bytes>);

impl Connected for Pipe {
    type ConnectInfo = ();

    fn connect_info(&self) {}
}

impl AsyncRead for Pipe {
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buffer: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_read(cx, buffer)
    }
}

impl AsyncWrite for Pipe {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.0).poll_write(cx, bytes)
    }

    // The system buffers written data. Waiting for the client to read it would block the server from reading.
    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }
}
