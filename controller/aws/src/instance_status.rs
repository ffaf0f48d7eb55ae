//! Status checks and scheduled events of instances: which of them are notices.
//!
//! A failed check counts after two minutes, a scheduled event at once. The rules are Karpenter's: the status of
//! attached EBS volumes is not looked at.

use std::collections::BTreeSet;
use std::time::Duration;

use jiff::Timestamp;
use muster_cloud::{NoticeKind, after};

/// Time for which a check must have failed.
const FAILED_FOR: Duration = Duration::from_secs(120);

/// Codes of scheduled events that are looked for.
pub const EVENT_CODES: [&str; 5] =
    ["instance-reboot", "system-reboot", "system-maintenance", "instance-retirement", "instance-stop"];

/// Status of an instance, as EC2 describes it.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct InstanceStatus {
    /// ID of the instance.
    pub instance: String,
    /// Check of the instance.
    pub own: Check,
    /// Check of the machine that the instance runs on.
    pub system: Check,
    /// Scheduled events.
    pub events: Vec<ScheduledEvent>,
}

/// Result of a status check.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Check {
    /// It has not failed.
    #[default]
    Passed,
    /// It is failing since this time, if EC2 says so.
    Failed(Option<Timestamp>),
}

/// A scheduled event.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ScheduledEvent {
    /// Its code.
    pub code: String,
    /// Its description. Those that are over are listed for another week, with a mark at the beginning.
    pub description: String,
}

/// Returns the notices that follow from these statuses: each instance and kind once, in order.
#[must_use]
pub fn notices(statuses: &[InstanceStatus], now: Timestamp) -> BTreeSet<(String, NoticeKind)> {
    let has_failed = |check: Check| match check {
        Check::Passed | Check::Failed(None) => false,
        Check::Failed(Some(since)) => now >= after(since, FAILED_FOR),
    };
    let mut notices = BTreeSet::new();
    for status in statuses {
        let mut note = |kind| notices.insert((status.instance.clone(), kind));
        if has_failed(status.own) {
            note(NoticeKind::InstanceStatus);
        }
        if has_failed(status.system) {
            note(NoticeKind::SystemStatus);
        }
        if status.events.iter().any(ScheduledEvent::is_ahead) {
            note(NoticeKind::EventStatus);
        }
    }
    notices
}

// === impl ScheduledEvent ===

impl ScheduledEvent {
    fn is_ahead(&self) -> bool {
        let is_over = ["[Completed]", "[Canceled]"].iter().any(|mark| self.description.starts_with(mark));
        !is_over && EVENT_CODES.contains(&self.code.as_str())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(second: i64) -> Timestamp {
        Timestamp::from_second(second).unwrap()
    }

    fn event(code: &str, description: &str) -> InstanceStatus {
        let event = ScheduledEvent { code: code.to_owned(), description: description.to_owned() };
        InstanceStatus { instance: "i-1".to_owned(), events: vec![event], ..InstanceStatus::default() }
    }

    #[test]
    fn a_failed_check_counts_after_two_minutes() {
        let of = |own, system| InstanceStatus { instance: "i-1".to_owned(), own, system, events: Vec::new() };
        let failed = Check::Failed(Some(at(1000)));
        let kinds = |status: InstanceStatus, second| -> Vec<NoticeKind> {
            notices(&[status.clone(), status], at(second)).into_iter().map(|(_, kind)| kind).collect()
        };
        assert_eq!(kinds(of(failed, Check::Passed), 1119), []);
        assert_eq!(kinds(of(failed, Check::Passed), 1120), [NoticeKind::InstanceStatus]);
        assert_eq!(kinds(of(Check::Passed, failed), 1120), [NoticeKind::SystemStatus]);
        assert_eq!(kinds(of(failed, failed), 1120), [NoticeKind::InstanceStatus, NoticeKind::SystemStatus]);
        assert_eq!(kinds(of(Check::Failed(None), Check::Passed), 9999), [], "it may have begun this moment");
    }

    #[test]
    fn an_event_counts_at_once_unless_it_is_over() {
        let is_notice = |status: InstanceStatus| !notices(&[status], at(0)).is_empty();
        for code in EVENT_CODES {
            assert!(is_notice(event(code, "The instance is scheduled for it")), "{code}");
            assert!(!is_notice(event(code, "[Completed] The instance is scheduled for it")), "{code}");
            assert!(!is_notice(event(code, "[Canceled] The instance is scheduled for it")), "{code}");
        }
        assert!(!is_notice(event("something-else", "")));
    }
}
