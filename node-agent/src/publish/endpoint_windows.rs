//! Where the agent is asked: a named pipe, for administrators and the system only.

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

/// The folder whose pipe has the short name.
const FOLDER: &str = r"C:\ProgramData\Muster";
/// As much as a request or a report's answer is long.
const BUFFER: u32 = 16 << 10;
/// All instances of the pipe are taken for a moment.
const BUSY: i32 = 231;

/// Those who come.
pub type Incoming = Pin<Box<dyn Stream<Item = io::Result<Pipe>> + Send>>;

/// The name of the pipe of an agent: pipes have no folders, so another agent's is named after its own.
#[must_use]
pub fn name(folder: &Path) -> String {
    if folder == Path::new(FOLDER) {
        return r"\\.\pipe\muster-agent".to_owned();
    }
    let folder = folder.to_string_lossy().to_lowercase().replace([MAIN_SEPARATOR, '/', ':'], "-");
    format!(r"\\.\pipe\muster-agent-{folder}")
}

/// Makes the pipe.
///
/// # Errors
/// It cannot be made, or somebody has it.
pub fn bind(folder: &Path) -> io::Result<Incoming> {
    let name = name(folder);
    let listener = Some(listen(&name)?);
    Ok(Box::pin(unfold((name, listener), |(name, listener)| async {
        let (pipe, listener) = accept(&name, listener).await;
        Some((Ok(Pipe(pipe)), (name, Some(listener))))
    })))
}

fn listen(name: &str) -> io::Result<PipeListener<Bytes, Bytes>> {
    // Full control for the system and administrators, nothing for others, and nothing inherited.
    let security = SecurityDescriptor::deserialize(u16cstr!("D:P(A;;GA;;;SY)(A;;GA;;;BA)"))?;
    let options = PipeListenerOptions::new()
        .path(name)
        .security_descriptor(Some(security))
        .input_buffer_size_hint(BUFFER)
        .output_buffer_size_hint(BUFFER);
    options.create_tokio()
}

/// Waits for somebody. A client that was gone before it was taken in leaves an instance of the pipe that is of no use: the
/// pipe is then made anew, as soon as those who are being served have gone.
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

/// Connects to an agent that runs.
///
/// # Errors
/// None runs, or it may not be asked.
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

/// Somebody who has come, as the server of HTTP wants it.
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

    // What is written is with the system, and waiting for its reader to take it would keep the server from reading.
    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }
}
