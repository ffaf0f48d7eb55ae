//! Parts of the service: tasks that run as long as the agent. If one ends, the agent ends too, and names it.

use std::collections::HashMap;
use std::error::Error;
use std::fmt;
use std::future::Future;

use tokio::task::{Id, JoinError, JoinSet};

/// Part of the service. `Display` is its name in messages.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Part {
    /// Server of the agent's socket.
    Socket,
    /// Stream to the controller.
    Link,
    /// Collector of facts for preflights.
    Preflights,
    /// Long operations on the node.
    Works,
    /// Writer of log bundles.
    Bundles,
    /// Watcher of units or services, and of their log.
    Services,
    /// Watcher of the kubelet's health.
    Health,
    /// Watcher of the Node.
    Node,
    /// Watcher of devices.
    Devices,
    /// Watcher of what the cloud announces.
    Notices,
}

impl fmt::Display for Part {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Socket => "the server of the agent's socket",
            Self::Link => "the stream to the controller",
            Self::Preflights => "the preflight",
            Self::Works => "the task that bootstraps and starts the kubelet",
            Self::Bundles => "the writer of log bundles",
            Self::Services => "the watcher of services",
            Self::Health => "the watcher of the kubelet's health",
            Self::Node => "the watcher of the Node",
            Self::Devices => "the watcher of devices",
            Self::Notices => "the watcher of the cloud's notices",
        })
    }
}

/// Reason why a part ended.
#[derive(Debug, thiserror::Error)]
pub enum Ended {
    /// The part that it sends to or hears from has ended.
    #[error("the agent is ending")]
    Ending,
    /// It had nothing left to do, which none should say.
    #[error("it has stopped by itself")]
    Stopped,
    /// The server failed.
    #[error("{0}")]
    Serving(#[source] Box<dyn Error + Send + Sync>),
    /// The task panicked.
    #[error("{0}")]
    Broken(#[source] JoinError),
}

/// The running parts.
#[derive(Default)]
pub(super) struct Parts {
    tasks: JoinSet<Result<(), Ended>>,
    names: HashMap<Id, Part>,
}

impl Parts {
    /// Starts a part.
    pub(super) fn spawn(&mut self, part: Part, task: impl Future<Output = Result<(), Ended>> + Send + 'static) {
        let id = self.tasks.spawn(task).id();
        self.names.insert(id, part);
    }

    /// Waits until a part has ended; `None` if none runs. Cancel safe.
    pub(super) async fn ended(&mut self) -> Option<(Part, Ended)> {
        let (id, why) = match self.tasks.join_next_with_id().await? {
            Ok((id, Ok(()))) => (id, Ended::Stopped),
            Ok((id, Err(why))) => (id, why),
            Err(error) => (error.id(), Ended::Broken(error)),
        };
        self.names.remove(&id).map(|part| (part, why))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn the_part_that_ended_is_named() {
        for (ends, expected) in [
            (Ok(()), "it has stopped by itself"),
            (Err(Ended::Ending), "the agent is ending"),
            (Err(Ended::Serving("no room".into())), "no room"),
        ] {
            let mut parts = Parts::default();
            parts.spawn(Part::Link, std::future::pending());
            parts.spawn(Part::Node, async { ends });
            let (part, why) = parts.ended().await.unwrap();
            assert_eq!((part, why.to_string().as_str()), (Part::Node, expected));
        }
        let mut parts = Parts::default();
        parts.spawn(Part::Devices, async { panic!("a bug") });
        let (part, why) = parts.ended().await.unwrap();
        assert!(part == Part::Devices && matches!(why, Ended::Broken(error) if error.is_panic()));
        assert!(parts.ended().await.is_none());
    }
}
