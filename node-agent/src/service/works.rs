//! What the agent does to the node, one thing after the other. It takes seconds in which the desk answers whoever asks: an
//! order goes out, what it came to comes back.

use tokio::sync::mpsc;
use tokio::task::JoinSet;

#[cfg(target_os = "linux")]
use crate::preflight::Facts;
use crate::probes::supervisor;
#[cfg(target_os = "linux")]
use muster_bootstrap::finding::Finding;

/// Something to do.
#[derive(Debug)]
pub(super) enum Order {
    /// The agent's own bootstrap, for a node like this.
    #[cfg(target_os = "linux")]
    Bootstrap(Box<Facts>),
    /// Start the kubelet.
    StartKubelet,
}

/// What it came to.
#[derive(Debug)]
pub(super) enum Done {
    /// The bootstrap is over.
    #[cfg(target_os = "linux")]
    Bootstrap(Result<(), Box<Finding>>),
    /// Whether whoever starts services has taken the order.
    StartKubelet(bool),
}

/// Where orders go. There is never more than one of each kind under way.
pub(super) type Orders = mpsc::UnboundedSender<Order>;

/// Starts to carry them out.
pub(super) fn spawn(parts: &mut JoinSet<Result<(), String>>, done_tx: mpsc::Sender<Done>) -> Orders {
    let (orders, orders_rx) = mpsc::unbounded_channel();
    parts.spawn(carry_out(orders_rx, done_tx));
    orders
}

async fn carry_out(mut orders: mpsc::UnboundedReceiver<Order>, done_tx: mpsc::Sender<Done>) -> Result<(), String> {
    let ending = || "the agent is ending".to_owned();
    #[cfg(target_os = "linux")]
    let mut native = crate::native::Bootstrap::default();
    loop {
        let done = match orders.recv().await.ok_or_else(ending)? {
            #[cfg(target_os = "linux")]
            Order::Bootstrap(facts) => Done::Bootstrap(native.run(&facts).await.map_err(Box::new)),
            Order::StartKubelet => Done::StartKubelet(supervisor::order("start", "kubelet").await),
        };
        done_tx.send(done).await.map_err(|_| ending())?;
    }
}
