//! The plaintext port: health, and reflection of what the controller offers. Nothing else, so that a probe needs no certificate.

use muster_proto::answer::{HealthOf, Statuses};
use muster_proto::health::health_server::HealthServer;
use tokio::net::TcpListener;
use tokio::sync::watch;
use tokio_stream::wrappers::TcpListenerStream;
use tonic::transport::Server;

use crate::reflection::reflection;

/// Calls of one connection at once.
const CALLS: u32 = 64;

/// Answers until `shutdown` is there.
///
/// # Errors
/// The descriptors are broken, or the transport.
pub async fn serve(
    listener: TcpListener,
    statuses: watch::Receiver<Statuses>,
    shutdown: impl Future<Output = ()>,
) -> Result<(), Box<dyn std::error::Error + Send + Sync>> {
    let (v1, v1alpha) = reflection()?;
    Server::builder()
        .max_concurrent_streams(CALLS)
        .add_service(HealthServer::new(HealthOf(statuses)))
        .add_service(v1)
        .add_service(v1alpha)
        .serve_with_incoming_shutdown(TcpListenerStream::new(listener), shutdown)
        .await?;
    Ok(())
}
