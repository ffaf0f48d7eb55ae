//! Notices: warnings with the object that they are about, for events in a cluster.

use std::collections::BTreeSet;
use std::sync::Arc;

use muster_scheduling::model::Problem;
use rustc_hash::FxHashSet;

use super::Remarks;

/// Most notices of a snapshot. The caller bounds how many of them are published.
const MOST: usize = 1_024;

/// A warning about an object.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Notice {
    /// Kind of the object.
    pub kind: &'static str,
    /// `namespace/name` of the object, or its name.
    pub path: Arc<str>,
    /// Reason, one word.
    pub reason: &'static str,
    /// Message, one line.
    pub message: String,
}

/// Returns one notice for each remark on pending pods of the same make.
pub(super) fn on_pods(remarks: &Remarks, problem: &Problem) -> Vec<Notice> {
    let mut specs = FxHashSet::default();
    let mut told: BTreeSet<(Arc<str>, &'static str, String)> = BTreeSet::new();
    let mut notices = Vec::new();
    for (index, pod) in problem.pods.iter().enumerate() {
        if notices.len() >= MOST {
            break;
        }
        let is_new = specs.insert(pod.spec);
        if !is_new && !remarks.is_printed(index) {
            continue;
        }
        let namespace: Arc<str> = pod.name.split('/').next().unwrap_or_default().into();
        for remark in remarks.on(problem, index) {
            let message = format!("{}: {}", remark.message, remark.hint);
            if told.insert((Arc::clone(&namespace), remark.reason, message.clone())) || is_new {
                notices.push(Notice { kind: "Pod", path: Arc::clone(&pod.name), reason: remark.reason, message });
            }
        }
    }
    notices.truncate(MOST);
    notices
}
