//! Publication of notices about objects as events, at a bounded rate.
//!
//! ```text
//!  Snapshot::notices ──► NoticeLog::admit: once an hour for each object and reason ──► events
//!                                          a few a minute for each namespace, and for all
//! ```

use std::collections::BTreeMap;
use std::time::Duration;

use jiff::Timestamp;
use muster_cloud::after;
use muster_manifest::snapshot::Notice;

use crate::step::{Event, EventType, Subject, Write};

/// Time for which a notice of an object is not published again.
const AGAIN: Duration = Duration::from_secs(3600);
/// Period of the rates.
const PERIOD: Duration = Duration::from_secs(60);
/// Most events about the objects of one namespace in a period, so that one cannot keep the others from being heard.
const OF_NAMESPACE: u32 = 5;
/// Most events in a period.
const OF_ALL: u32 = 60;
/// Most published notices that are remembered. While there are as many, no other is published.
const REMEMBERED: usize = 4_096;

/// The notices that were published. Kept in memory only: after a restart they are published once more, as repetitions.
#[derive(Debug, Default)]
pub struct NoticeLog {
    published: BTreeMap<(&'static str, String, &'static str), Timestamp>,
    /// Number of events by namespace in the current period, and its begin. The empty name is that of all.
    spent: BTreeMap<String, (u32, Timestamp)>,
}

// === impl NoticeLog ===

impl NoticeLog {
    /// Returns the events to publish at `now`. `subject_of` returns the object of a notice, if it still exists.
    pub fn admit(
        &mut self,
        notices: &[Notice],
        subject_of: impl Fn(&Notice) -> Option<Subject>,
        now: Timestamp,
    ) -> Vec<Write> {
        self.published.retain(|_, at| now < after(*at, AGAIN));
        self.spent.retain(|_, (_, since)| now < after(*since, PERIOD));
        let mut writes = Vec::new();
        for notice in notices {
            let key = (notice.kind, notice.path.to_string(), notice.reason);
            if self.published.contains_key(&key) || self.published.len() >= REMEMBERED {
                continue;
            }
            let namespace = notice.path.split_once('/').map_or("", |(namespace, _)| namespace);
            if self.is_spent("", OF_ALL) || !namespace.is_empty() && self.is_spent(namespace, OF_NAMESPACE) {
                continue;
            }
            let Some(about) = subject_of(notice) else { continue };
            for of in std::iter::once("").chain(Some(namespace).filter(|namespace| !namespace.is_empty())) {
                self.spent.entry(of.to_owned()).or_insert((0, now)).0 += 1;
            }
            self.published.insert(key, now);
            let (reason, message) = (notice.reason, notice.message.clone());
            writes.push(Write::Event(Event { about, kind: EventType::Warning, reason, message }));
        }
        writes
    }

    fn is_spent(&self, of: &str, most: u32) -> bool {
        self.spent.get(of).is_some_and(|(count, _)| *count >= most)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn notice(path: &str) -> Notice {
        let message = "the pod requests no memory".to_owned();
        Notice { kind: "Pod", path: path.into(), reason: "MissingRequests", message }
    }

    fn admitted(log: &mut NoticeLog, notices: &[Notice], second: i64) -> Vec<String> {
        let subject = |notice: &Notice| {
            let (namespace, name) = notice.path.split_once('/')?;
            let (kind, namespace) = (notice.kind.to_owned(), Some(namespace.to_owned()));
            Some(Subject { kind, namespace, name: name.to_owned(), uid: "u".to_owned() })
        };
        let writes = log.admit(notices, subject, Timestamp::from_second(second).unwrap());
        let names = writes.into_iter().map(|write| match write {
            Write::Event(event) => format!("{}/{}", event.about.namespace.unwrap_or_default(), event.about.name),
            other => panic!("{other:?}"),
        });
        names.collect()
    }

    #[test]
    fn a_notice_is_published_once_an_hour() {
        let mut log = NoticeLog::default();
        let all = [notice("shop/a"), notice("shop/b")];
        assert_eq!(admitted(&mut log, &all, 0), ["shop/a", "shop/b"]);
        assert_eq!(admitted(&mut log, &all, 3599), [""; 0]);
        assert_eq!(admitted(&mut log, &all, 3600), ["shop/a", "shop/b"]);
    }

    #[test]
    fn one_namespace_does_not_keep_the_others_from_being_heard() {
        let mut log = NoticeLog::default();
        let mut all: Vec<Notice> = (0..100).map(|number| notice(&format!("loud/{number:03}"))).collect();
        all.push(notice("shop/a"));
        let first = admitted(&mut log, &all, 0);
        assert_eq!((first.len(), first[5].as_str()), (6, "shop/a"));
        assert_eq!(admitted(&mut log, &all, 30).len(), 0);
        assert_eq!(admitted(&mut log, &all, 60)[0], "loud/005", "the others have their turn");
        let many: Vec<Notice> = (0..100).map(|number| notice(&format!("ns{number}/a"))).collect();
        assert_eq!(admitted(&mut log, &many, 120).len(), 60);
    }
}
