//! Queries containerd for the sandbox image, over its CRI socket.

use std::time::Duration;

use fs_err as fs;
use hyper_util::rt::TokioIo;
use muster_proto::container_runtime::image_service_client::ImageServiceClient;
use muster_proto::container_runtime::{ImageSpec, ImageStatusRequest};
use tokio::net::UnixStream;
use tokio::time::timeout;
use tonic::transport::{Endpoint, Uri};
use tower::service_fn;

use crate::preflight::containerd::{Sandbox, sandbox_image};

const SOCKET: &str = "/run/containerd/containerd.sock";
const PATIENCE: Duration = Duration::from_millis(500);

/// Returns the state of the sandbox image; `None` if containerd does not run or answer, or its configuration names no
/// image.
pub async fn sandbox() -> Option<Sandbox> {
    let config = fs::read_to_string("/etc/containerd/config.toml").ok()?.parse().ok()?;
    let image = sandbox_image(&config)?.to_owned();
    timeout(PATIENCE, ask(image)).await.ok()?
}

async fn ask(image: String) -> Option<Sandbox> {
    // The URL is required but unused: the connector opens the socket.
    let endpoint = Endpoint::try_from("http://containerd").ok()?;
    let connect = service_fn(|_: Uri| async { UnixStream::connect(SOCKET).await.map(TokioIo::new) });
    let channel = endpoint.connect_with_connector(connect).await.ok()?;
    let mut client = ImageServiceClient::new(channel);
    let answer = client.image_status(ImageStatusRequest { image: Some(ImageSpec { image }) }).await.ok()?.into_inner();
    Some(if answer.image.is_some() { Sandbox::Present } else { Sandbox::Absent })
}
