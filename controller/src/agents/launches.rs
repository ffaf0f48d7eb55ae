//! Enrolment data of a NodeClaim. Pure.

use std::collections::BTreeSet;

use jiff::Timestamp;
use muster_api::{NodeClaim, annotations, labels, taints};
use muster_link::{Enrolled, KeyHash, Launch, SecretHash};
use muster_stages::node::Node;

use crate::facts::instance_of;

/// Reads the enrolment from the annotation.
pub(super) fn enrolled(claim: &NodeClaim) -> Option<Enrolled> {
    let (key, at) = annotation(claim, annotations::AGENT_KEY)?.split_once(' ')?;
    Some(Enrolled { key: KeyHash::parse(key)?, at: at.parse().ok()? })
}

/// Formats an enrolment for the annotation.
pub(super) fn written(enrolled: &Enrolled) -> String {
    let at = Timestamp::from_second(enrolled.at.as_second()).unwrap_or(enrolled.at);
    format!("{} {at}", enrolled.key)
}

/// Returns the launch of a NodeClaim; `None` if it is not launched, or by a controller that does not record its
/// launches.
pub(super) fn launch(claim: &NodeClaim, roles: BTreeSet<String>, is_ready: bool) -> Option<Launch> {
    let meta = &claim.metadata;
    let label = |key: &str| meta.labels.as_ref()?.get(key).cloned();
    let attempt = annotation(claim, annotations::LAUNCH_ATTEMPT)?;
    let secrets = annotation(claim, annotations::AGENT_SECRET).unwrap_or_default();
    Some(Launch {
        claim: meta.name.clone()?,
        instance: instance_of(claim)?.to_owned(),
        token: format!("{}.{attempt}", meta.uid.as_deref()?),
        secrets: secrets.split(' ').filter_map(SecretHash::parse).collect(),
        instance_type: label(labels::INSTANCE_TYPE)?,
        image: claim.status.as_ref()?.image_id.clone()?,
        zone: label(labels::ZONE)?,
        roles,
        enrolled: enrolled(claim),
        may_enrol_again: annotation(claim, annotations::AGENT_ENROL_AGAIN) == Some("true"),
        is_ready,
        is_ending: meta.deletion_timestamp.is_some(),
    })
}

/// Returns true if the node may run pods, which could impersonate its agent. Until the node has registered, its taint
/// keeps them off, even if it is Ready already: an agent that was delayed, or a controller that was away, is not too
/// late.
pub(super) fn takes_pods(node: &Node) -> bool {
    let conditions = node.status.iter().flat_map(|status| &status.conditions).flatten();
    let is_ready = conditions.into_iter().any(|one| one.type_ == "Ready" && one.status == "True");
    let taints = node.spec.iter().flat_map(|spec| &spec.taints).flatten();
    is_ready && !taints.into_iter().any(|taint| taint.key == taints::UNREGISTERED && taint.effect == "NoExecute")
}

fn annotation<'c>(claim: &'c NodeClaim, key: &str) -> Option<&'c str> {
    claim.metadata.annotations.as_ref()?.get(key).map(String::as_str)
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    pub(in crate::agents) fn claim() -> NodeClaim {
        let text = r#"{"metadata": {"name": "x", "uid": "uid-x", "resourceVersion": "7",
            "labels": {"node.kubernetes.io/instance-type": "m5.large", "topology.kubernetes.io/zone": "eu-west-1a"},
            "annotations": {"muster.dev/launch-attempt": "2", "muster.dev/agent-secret": "SECRET"}},
            "spec": {"requirements": [], "nodeClassRef": {"group": "karpenter.k8s.aws", "kind": "EC2NodeClass", "name": "default"}},
            "status": {"providerID": "aws:///eu-west-1a/i-0123456789abcdef0", "imageID": "ami-1"}}"#;
        serde_json::from_str(&text.replace("SECRET", &SecretHash::of("mlt-1").to_string())).unwrap()
    }

    #[test]
    fn a_launch_is_what_its_claim_says() {
        let launch = launch(&claim(), ["nodes".to_owned()].into(), false).unwrap();
        assert_eq!((launch.claim.as_str(), launch.token.as_str()), ("x", "uid-x.2"));
        assert_eq!((launch.instance.as_str(), launch.image.as_str()), ("i-0123456789abcdef0", "ami-1"));
        assert_eq!((launch.instance_type.as_str(), launch.zone.as_str()), ("m5.large", "eu-west-1a"));
        assert!(launch.secrets[0].is_of("mlt-1") && launch.enrolled.is_none() && !launch.may_enrol_again);
    }

    #[test]
    fn who_has_enrolled_is_read_as_it_is_written() {
        let at = "2026-11-22T20:00:00Z".parse().unwrap();
        let known = Enrolled { key: KeyHash::of(b"key"), at };
        let mut claim = claim();
        let all = claim.metadata.annotations.get_or_insert_default();
        all.insert(annotations::AGENT_KEY.to_owned(), written(&known));
        all.insert(annotations::AGENT_ENROL_AGAIN.to_owned(), "true".to_owned());
        let launch = launch(&claim, BTreeSet::new(), false).unwrap();
        assert_eq!(launch.enrolled, Some(known));
        assert!(launch.may_enrol_again);
        claim.metadata.annotations.as_mut().unwrap().insert(annotations::AGENT_KEY.to_owned(), "x y".to_owned());
        assert_eq!(enrolled(&claim), None);
    }

    #[test]
    fn a_node_takes_pods_when_it_is_ready_and_nothing_keeps_all_of_them_off() {
        let node = |ready: &str, taint: &str| -> Node {
            let text = r#"{"metadata": {"name": "x"}, "spec": {"taints": [{"key": "TAINT", "effect": "NoExecute"}]},
                "status": {"conditions": [{"type": "Ready", "status": "READY"}]}}"#;
            serde_json::from_str(&text.replace("TAINT", taint).replace("READY", ready)).unwrap()
        };
        assert!(!takes_pods(&node("True", "karpenter.sh/unregistered")));
        assert!(takes_pods(&node("True", "example.com/theirs")));
        assert!(!takes_pods(&node("False", "example.com/theirs")));
        assert!(!takes_pods(&Node::default()));
    }

    #[test]
    fn what_was_not_launched_here_has_no_launch() {
        for change in [
            (|claim| claim.status = None) as fn(&mut NodeClaim),
            |claim| claim.metadata.annotations = None,
            |claim| claim.metadata.labels = None,
            |claim| claim.status.as_mut().unwrap().provider_id = Some("kwok://x".to_owned()),
        ] {
            let mut claim = claim();
            change(&mut claim);
            assert_eq!(launch(&claim, BTreeSet::new(), false), None);
        }
    }
}
