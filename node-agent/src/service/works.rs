//! Long operations on the node, one at a time. They take seconds, during which the supervisor still answers: it sends
//! an order, and later receives the result.

use tokio::sync::mpsc;

use super::parts::{Ended, Part, Parts};
#[cfg(target_os = "linux")]
use crate::preflight::Facts;
use crate::probes::supervisor;
#[cfg(target_os = "linux")]
use muster_bootstrap::finding::Finding;

/// An order.
#[derive(Debug)]
pub(super) enum Order {
    /// Run the native bootstrap.
    #[cfg(target_os = "linux")]
    Bootstrap(Box<Facts>),
    /// Start the kubelet.
    StartKubelet,
}

/// Result of an order.
#[derive(Debug)]
pub(super) enum Done {
    /// Outcome of the bootstrap.
    #[cfg(target_os = "linux")]
    Bootstrap(Result<(), Box<Finding>>),
    /// True if the service manager accepted the order.
    StartKubelet(bool),
}

/// Sender of orders. At most one order of each kind is in progress.
pub(super) type Orders = mpsc::UnboundedSender<Order>;

/// Starts the task that executes orders.
pub(super) fn spawn(parts: &mut Parts, done_tx: mpsc::Sender<Done>) -> Orders {
    let (orders, orders_rx) = mpsc::unbounded_channel();
    parts.spawn(Part::Works, carry_out(orders_rx, done_tx));
    orders
}

async fn carry_out(mut orders: mpsc::UnboundedReceiver<Order>, done_tx: mpsc::Sender<Done>) -> Result<(), Ended> {
    #[cfg(target_os = "linux")]
    let mut native = crate::native::Bootstrap::default();
    loop {
        let done = match orders.recv().await.ok_or(Ended::Ending)? {
            #[cfg(target_os = "linux")]
            Order::Bootstrap(facts) => Done::Bootstrap(native.run(&facts).await.map_err(Box::new)),
            Order::StartKubelet => Done::StartKubelet(supervisor::order("start", "kubelet").await),
        };
        done_tx.send(done).await.map_err(|_| Ended::Ending)?;
    }
}
