//! Tracks on which Nodes pods arrive and leave.

use std::sync::Arc;

use super::changed::Changed;
use super::pod::LivePod;

/// Records the Nodes on which a pod has arrived, has terminated, or starts to be deleted.
pub(super) fn note_move(before: Option<&LivePod>, after: Option<&LivePod>, changed: &mut Changed) {
    let (before, after) = (before.and_then(stand), after.and_then(stand));
    if before == after {
        return;
    }
    // The removal of a pod that was already leaving is not recorded again.
    let left = before.filter(|(_, _, stays)| *stays || after.is_some());
    changed.left.extend(left.filter(|(_, _, stays)| *stays).map(|(_, node, _)| Arc::clone(node)));
    changed.moved.extend(left.into_iter().chain(after).map(|(_, node, _)| Arc::clone(node)));
}

/// Returns UID and node of a pod, and whether it stays there.
fn stand(pod: &LivePod) -> Option<(&str, &Arc<str>, bool)> {
    if pod.is_daemon || pod.is_mirror {
        return None;
    }
    let stays = !pod.pod.terminal && pod.deleted_at.is_none();
    Some((&*pod.uid, pod.pod.node.as_ref()?, stays))
}

#[cfg(test)]
mod tests {
    use super::super::{Cluster, Kind};

    fn see(cluster: &mut Cluster, fields: &str) -> Vec<String> {
        let text =
            format!(r#"{{"apiVersion":"v1","kind":"Pod","metadata":{{"name":"a","namespace":"n","uid":"u"{fields}}}"#);
        cluster.apply(Kind::Pod, &text).moved.iter().map(ToString::to_string).collect()
    }

    #[test]
    fn a_pod_that_comes_ends_or_leaves_is_an_event_once() {
        let mut cluster = Cluster::default();
        let bound = r#"},"spec":{"nodeName":"x","containers":[{"name":"c"}]}"#;
        assert!(see(&mut cluster, r#"},"spec":{"containers":[{"name":"c"}]}"#).is_empty());
        assert_eq!(see(&mut cluster, bound), ["x"]);
        assert!(see(&mut cluster, bound).is_empty(), "nothing has changed");
        let leaving =
            r#","deletionTimestamp":"2026-01-01T00:00:00Z"},"spec":{"nodeName":"x","containers":[{"name":"c"}]}"#;
        assert_eq!(see(&mut cluster, leaving), ["x"]);
        assert!(cluster.remove(Kind::Pod, "n/a").moved.is_empty(), "it was known to leave");
        assert_eq!(see(&mut cluster, bound), ["x"]);
        assert_eq!(cluster.remove(Kind::Pod, "n/a").moved.len(), 1, "it is gone silently");
    }
}
