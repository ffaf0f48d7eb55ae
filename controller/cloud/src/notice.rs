//! Notices of a cloud about its instances, and the queue on which it sends them.

use std::future::Future;
use std::pin::Pin;

use jiff::Timestamp;

use crate::error::CloudError;

/// Kind of a notice. The names are Karpenter's, but for the end of a capacity block, which it has no name for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum NoticeKind {
    /// A spot instance will be interrupted in two minutes.
    SpotInterrupted,
    /// A spot instance is at elevated risk of interruption.
    RebalanceRecommendation,
    /// Maintenance of the instance is scheduled.
    ScheduledChange,
    /// The instance is stopping or has stopped.
    InstanceStopped,
    /// The instance is terminating or has terminated.
    InstanceTerminated,
    /// The owner of an interruptible capacity reservation takes the instance's capacity back.
    CapacityReservationInterrupted,
    /// The capacity block of the instance ends.
    CapacityBlockEnding,
    /// The instance fails its own status check: its operating system does not answer.
    InstanceStatus,
    /// The instance fails the status check of the machine it runs on.
    SystemStatus,
    /// The instance has a scheduled event, such as a reboot or retirement.
    EventStatus,
}

/// Time that is left after a notice, from long to none.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Urgency {
    /// The instance keeps running.
    None,
    /// Hours to days: a replacement can be ready before the instance ends.
    Planned,
    /// Two minutes.
    Imminent,
    /// No time: the node does not serve its pods any more.
    Immediate,
}

/// A notice about instances.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Notice {
    /// Its kind.
    pub kind: NoticeKind,
    /// IDs of the instances, each once, in order.
    pub instances: Vec<String>,
    /// Time at which the cloud gave it, if it says so.
    pub given_at: Option<Timestamp>,
}

/// Content of a message.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Content {
    /// A notice.
    Notice(Notice),
    /// A valid message that is not a notice about instances.
    Other,
    /// An invalid message, and the reason.
    Malformed(String),
}

/// A received message.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Message {
    /// Handle for its deletion.
    pub handle: String,
    /// Its content.
    pub content: Content,
}

/// Result of a call of the queue.
pub type Pending<'a, T> = Pin<Box<dyn Future<Output = Result<T, CloudError>> + Send + 'a>>;

/// A queue of notices. A received message is hidden from other receivers for some seconds, and received again unless it
/// is deleted by then.
pub trait NoticeQueue: Send + Sync {
    /// Receives a few messages, and waits some seconds if there are none.
    fn receive(&self) -> Pending<'_, Vec<Message>>;

    /// Deletes received messages by their handles. Returns the number of deleted messages; the others are received
    /// again.
    fn delete(&self, handles: Vec<String>) -> Pending<'_, usize>;
}

// === impl NoticeKind ===

impl NoticeKind {
    /// All kinds.
    pub const ALL: [Self; 10] = [
        Self::SpotInterrupted,
        Self::RebalanceRecommendation,
        Self::ScheduledChange,
        Self::InstanceStopped,
        Self::InstanceTerminated,
        Self::CapacityReservationInterrupted,
        Self::CapacityBlockEnding,
        Self::InstanceStatus,
        Self::SystemStatus,
        Self::EventStatus,
    ];

    /// Returns the name in metrics.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::SpotInterrupted => "spot_interrupted",
            Self::RebalanceRecommendation => "rebalance_recommendation",
            Self::ScheduledChange => "scheduled_change",
            Self::InstanceStopped => "instance_stopped",
            Self::InstanceTerminated => "instance_terminated",
            Self::CapacityReservationInterrupted => "capacity_reservation_interrupted",
            Self::CapacityBlockEnding => "capacity_block_ending",
            Self::InstanceStatus => "instance_status",
            Self::SystemStatus => "system_status",
            Self::EventStatus => "event_status",
        }
    }

    /// Returns the time that is left.
    #[must_use]
    pub const fn urgency(self) -> Urgency {
        match self {
            Self::RebalanceRecommendation => Urgency::None,
            Self::ScheduledChange | Self::EventStatus | Self::CapacityBlockEnding => Urgency::Planned,
            Self::SpotInterrupted | Self::CapacityReservationInterrupted => Urgency::Imminent,
            Self::InstanceStopped | Self::InstanceTerminated | Self::InstanceStatus | Self::SystemStatus => {
                Urgency::Immediate
            }
        }
    }
}

impl Content {
    /// Returns the name of its kind in metrics; `None` if it is malformed.
    #[must_use]
    pub const fn name(&self) -> Option<&'static str> {
        match self {
            Self::Notice(notice) => Some(notice.kind.name()),
            Self::Other => Some("no_op"),
            Self::Malformed(_) => None,
        }
    }
}
