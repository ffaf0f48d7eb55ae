//! The spans of a pod and of a node: pure.

use jiff::Timestamp;
use muster_stages::state::NodeStart;

use super::super::metrics::PodTimes;

/// A span of a trace.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Span {
    pub(super) trace: u128,
    pub(super) id: u64,
    /// ID of the span that it is a part of.
    pub(super) parent: Option<u64>,
    pub(super) name: &'static str,
    pub(super) start: Timestamp,
    pub(super) end: Timestamp,
    pub(super) attributes: Vec<(&'static str, String)>,
}

/// Returns the spans of a pod that was bound at `bound`: the whole, the time until the first decision about it, and the
/// time from the decision that gave it a node until it was bound. None for a pod that Muster never decided about.
pub(super) fn of_pod(path: &str, node: &str, times: &PodTimes, bound: Timestamp) -> Vec<Span> {
    let (Some(decided), Some(trace)) = (times.decided, trace_id(&times.uid)) else { return Vec::new() };
    let (namespace, name) = path.split_once('/').unwrap_or(("", path));
    let attributes = vec![
        ("k8s.namespace.name", namespace.to_owned()),
        ("k8s.pod.name", name.to_owned()),
        ("k8s.pod.uid", times.uid.to_string()),
        ("k8s.node.name", node.to_owned()),
    ];
    let decision = ("decision", times.seen, decided);
    let placement = times.placed.map(|placed| ("placement", placed, bound));
    whole(trace, ("pod pending", times.created, bound), attributes, [decision].into_iter().chain(placement))
}

/// Returns the spans of a node: the whole, and its launch, registration and initialization.
pub(super) fn of_node(start: &NodeStart) -> Vec<Span> {
    let NodeStart { uid, claim, node, of, instance_type, created, launched, registered, initialized } = start;
    let Some(trace) = trace_id(uid) else { return Vec::new() };
    let attributes = vec![
        ("karpenter.sh/nodeclaim", claim.clone()),
        ("karpenter.sh/nodepool", of.pool.clone()),
        ("karpenter.sh/capacity-type", of.capacity_type.clone()),
        ("k8s.node.name", node.clone()),
        ("host.type", instance_type.clone()),
        ("cloud.availability_zone", of.zone.clone()),
    ];
    let parts = [
        ("launch", *created, *launched),
        ("registration", *launched, *registered),
        ("initialization", *registered, *initialized),
    ];
    whole(trace, ("node start", *created, *initialized), attributes, parts.into_iter())
}

/// Name, start and end of a span.
type Part = (&'static str, Timestamp, Timestamp);

fn whole(
    trace: u128,
    (name, start, end): Part,
    attributes: Vec<(&'static str, String)>,
    parts: impl Iterator<Item = Part>,
) -> Vec<Span> {
    // Any bits that are not all zero will do: an ID is unique in its trace.
    let root = (trace & u128::from(u64::MAX)) as u64 | 1;
    let of_root = Span { trace, id: root, parent: None, name, start, end: end.max(start), attributes };
    let of_part = |(number, (name, start, end)): (u64, Part)| {
        let id = root.wrapping_add(2 * number);
        Span { trace, id, parent: Some(root), name, start, end: end.max(start), attributes: Vec::new() }
    };
    [of_root].into_iter().chain((1..).zip(parts).map(of_part)).collect()
}

/// Returns the trace ID of an object: its UID, which is 128 bits. None if it is not a UUID, or zero.
fn trace_id(uid: &str) -> Option<u128> {
    let digits: String = uid.chars().filter(|letter| *letter != '-').collect();
    (digits.len() == 32).then(|| u128::from_str_radix(&digits, 16).ok()).flatten().filter(|id| *id != 0)
}

#[cfg(test)]
mod tests {
    use muster_stages::state::NodeLabels;

    use super::*;

    const UID: &str = "0f0e0d0c-0b0a-4908-8706-050403020100";

    fn at(seconds: i64) -> Timestamp {
        Timestamp::from_second(seconds).unwrap()
    }

    fn shown(spans: &[Span]) -> Vec<(&str, i64, i64, bool)> {
        let one = |span: &Span| (span.name, span.start.as_second(), span.end.as_second(), span.parent.is_some());
        // Names are static; the tuple borrows nothing else.
        spans.iter().map(one).collect()
    }

    fn times(decided: Option<i64>, placed: Option<i64>) -> PodTimes {
        PodTimes {
            uid: UID.into(),
            created: at(10),
            seen: at(11),
            decided: decided.map(at),
            placed: placed.map(at),
            is_bound: true,
            has_resource_claims: false,
        }
    }

    #[test]
    fn a_pod_has_a_trace_from_its_creation_until_it_is_bound() {
        let spans = of_pod("shop/web", "node-1", &times(Some(12), Some(20)), at(50));
        let expected = [("pod pending", 10, 50, false), ("decision", 11, 12, true), ("placement", 20, 50, true)];
        assert_eq!(shown(&spans), expected);
        assert!(spans.iter().all(|span| span.trace == 0x0f0e_0d0c_0b0a_4908_8706_0504_0302_0100));
        assert_eq!(spans[0].attributes[1], ("k8s.pod.name", "web".to_owned()));
        let mut ids: Vec<u64> = spans.iter().map(|span| span.id).collect();
        ids.dedup();
        assert_eq!(ids.len(), 3);
    }

    #[test]
    fn a_pod_without_a_decision_has_none() {
        assert_eq!(of_pod("shop/web", "node-1", &times(None, None), at(50)), []);
        let waited = of_pod("shop/web", "node-1", &times(Some(12), None), at(50));
        assert_eq!(shown(&waited), [("pod pending", 10, 50, false), ("decision", 11, 12, true)]);
        let clock_set_back = of_pod("shop/web", "node-1", &times(Some(12), None), at(5));
        assert_eq!(shown(&clock_set_back)[0], ("pod pending", 10, 10, false));
    }

    #[test]
    fn an_uid_that_is_no_uuid_has_no_trace() {
        for uid in ["", "1", "00000000-0000-0000-0000-000000000000", "0f0e0d0c-0b0a-4908-8706-05040302010g"] {
            assert_eq!(trace_id(uid), None, "{uid}");
        }
    }

    #[test]
    fn a_node_has_a_trace_from_the_decision_until_it_is_initialized() {
        let start = NodeStart {
            uid: UID.to_owned(),
            claim: "general-a".to_owned(),
            node: "node-1".to_owned(),
            of: NodeLabels::default(),
            instance_type: "m7g.large".to_owned(),
            created: at(0),
            launched: at(2),
            registered: at(30),
            initialized: at(45),
        };
        let expected = [
            ("node start", 0, 45, false),
            ("launch", 0, 2, true),
            ("registration", 2, 30, true),
            ("initialization", 30, 45, true),
        ];
        assert_eq!(shown(&of_node(&start)), expected);
    }
}
