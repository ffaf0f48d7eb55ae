//! Plaintext port: health and reflection only, so that probes need no certificate.

use muster_proto::answer::{HealthOf, Statuses};
use muster_proto::health::health_server::HealthServer;
use tokio::net::TcpListener;
use tokio::sync::watch;
use tokio_stream::wrappers::TcpListenerStream;
use tonic::transport::Server;

use crate::reflection::reflection;

/// Maximum number of concurrent calls per connection.
const CALLS: u32 = 64;

/// Serves until `shutdown` completes.
///
/// # Errors
/// The descriptors are invalid, or the transport fails.
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
