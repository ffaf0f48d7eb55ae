//! What a node's agent says: it is waited for where it is expected, and a fatal verdict ends the claim.

use muster_api::annotations;
use muster_api::conditions::nodeclaim::{AGENT_READY, NODE_VERDICT};

use super::check;
use super::fixture::{Fixture, resident};
use crate::lifecycle::conditions::Status;

/// Registered, and ready for pods by all that is seen without its agent, which is expected.
fn is_ready_but_for_its_agent(it: &mut Fixture) {
    it.registered();
    it.ready("True", "KubeletReady");
    it.untaint("ebs.csi.aws.com/agent-not-ready");
    it.annotate(annotations::AGENT, "expected");
}

#[test]
fn an_agent_that_is_expected_is_waited_for() {
    check(&[
        (
            "An agent that has not reported is waited for.",
            is_ready_but_for_its_agent,
            100,
            &["status: Initialized=Unknown AgentNotReady: the node's agent has not reported yet, Launched=True, \
               Registered=True"],
        ),
        (
            "One that has says what it waits for.",
            |it| {
                is_ready_but_for_its_agent(it);
                it.judge(AGENT_READY, Status::Unknown, "Devices", "nvidia.com/gpu: no device plugin", 95);
            },
            100,
            &[
                "status: AgentReady=Unknown Devices: nvidia.com/gpu: no device plugin, Initialized=Unknown AgentNotReady: \
               the node's agent reports Devices: nvidia.com/gpu: no device plugin, Launched=True, Registered=True",
            ],
        ),
        (
            "When it says that the node is ready, it is.",
            |it| {
                is_ready_but_for_its_agent(it);
                it.judge(AGENT_READY, Status::True, "Initialized", "", 95);
            },
            100,
            &[
                "node node-1: karpenter.sh/initialized=true",
                "status: AgentReady=True, ConsistentStateFound=True, Initialized=True, Launched=True, Registered=True",
            ],
        ),
        (
            "Its word alone makes no node ready.",
            |it| {
                is_ready_but_for_its_agent(it);
                it.ready("False", "KubeletNotReady");
                it.judge(AGENT_READY, Status::True, "Initialized", "", 95);
            },
            100,
            &["status: AgentReady=True, Initialized=Unknown NodeNotReady: Node status is NotReady: KubeletNotReady: \
               runtime network not ready, Launched=True, Registered=True"],
        ),
        (
            "An agent that nobody expects is not waited for.",
            |it| {
                is_ready_but_for_its_agent(it);
                it.claim.metadata.annotations.as_mut().unwrap().remove(annotations::AGENT);
                it.judge(AGENT_READY, Status::Unknown, "Kubelet", "", 95);
            },
            100,
            &[
                "node node-1: karpenter.sh/initialized=true",
                "status: AgentReady=Unknown, ConsistentStateFound=True, Initialized=True, Launched=True, Registered=True",
            ],
        ),
        (
            "An agent that never reports does not hold the node up for ever.",
            |it| {
                is_ready_but_for_its_agent(it);
                it.decided(100);
            },
            960,
            &[
                r#"class: muster.dev/launch-failures={"hash":"1","reason":"AgentNotReady","message":"not initialized within 15m of its registration: the node's agent has not reported yet","claims":["uid-x"],"at":"1970-01-01T00:16:00Z","trials":0}"#,
                "event InitializationTimeout about x: not initialized within 15m of its registration: the node's agent has \
               not reported yet",
                "status: Initialized=False InitializationTimeout: not initialized within 15m of its registration: the \
               node's agent has not reported yet, Launched=True, Registered=True",
                "delete claim x: initialization_timeout",
            ],
        ),
    ]);
}

#[test]
fn a_fatal_verdict_ends_a_claim_without_a_node() {
    const WRONG: &str = "required taint karpenter.sh/unregistered:NoExecute is not in effect";
    check(&[
        (
            "Before there is a Node: at once, counted against the class by its code, said of claim and pool.",
            |it| {
                it.launched();
                it.pool.metadata.name = Some("default".to_owned());
                it.judge(NODE_VERDICT, Status::False, "KA07", WRONG, 15);
            },
            15,
            &[
                r#"class: muster.dev/launch-failures={"hash":"1","reason":"KA07","message":"the node's agent reports KA07: required taint karpenter.sh/unregistered:NoExecute is not in effect","claims":["uid-x"],"at":"1970-01-01T00:00:15Z","trials":0}"#,
                "event NodeVerdict about x: the node's agent reports KA07: required taint karpenter.sh/unregistered:NoExecute \
               is not in effect",
                "event NodeVerdict about default: NodeClaim `x` failed: the node's agent reports KA07: required taint \
               karpenter.sh/unregistered:NoExecute is not in effect",
                "status: Launched=True, NodeVerdict=False KA07: required taint karpenter.sh/unregistered:NoExecute is not \
               in effect, Registered=False KA07: the node's agent reports KA07: required taint \
               karpenter.sh/unregistered:NoExecute is not in effect",
                "delete claim x: node_verdict",
            ],
        ),
        (
            "After a crash between the status and the deletion, the claim is deleted.",
            |it| {
                it.launched();
                it.judge(NODE_VERDICT, Status::False, "KA07", WRONG, 15);
                it.decided(15);
                let failures =
                    r#"{"hash":"1","reason":"KA07","message":"","claims":["uid-x"],"at":"1970-01-01T00:00:15Z"}"#;
                it.annotate_class(annotations::LAUNCH_FAILURES, failures);
            },
            20,
            &[
                "event NodeVerdict about x: the node's agent reports KA07: required taint karpenter.sh/unregistered:NoExecute \
               is not in effect",
                "delete claim x: node_verdict",
            ],
        ),
    ]);
}

#[test]
fn a_fatal_verdict_ends_the_claim_of_a_registered_node() {
    check(&[
        (
            "Of a Node that has registered, initialization has failed.",
            |it| {
                it.registered();
                it.judge(NODE_VERDICT, Status::False, "GP16", "no device plugin registers", 70);
            },
            70,
            &[
                r#"class: muster.dev/launch-failures={"hash":"1","reason":"GP16","message":"the node's agent reports GP16: no device plugin registers","claims":["uid-x"],"at":"1970-01-01T00:01:10Z","trials":0}"#,
                "event NodeVerdict about x: the node's agent reports GP16: no device plugin registers",
                "status: Initialized=False GP16: the node's agent reports GP16: no device plugin registers, Launched=True, \
               NodeVerdict=False GP16: no device plugin registers, Registered=True",
                "delete claim x: node_verdict",
            ],
        ),
        (
            "Pods that were to run there are told, the first three of them.",
            |it| {
                it.registered();
                it.judge(NODE_VERDICT, Status::False, "GP16", "no device plugin registers", 70);
                it.expected = ["a", "b", "c", "d"].map(|name| resident(name).pod).into();
                let failures =
                    r#"{"hash":"1","reason":"GP16","message":"","claims":["uid-x"],"at":"1970-01-01T00:01:10Z"}"#;
                it.annotate_class(annotations::LAUNCH_FAILURES, failures);
                it.decided(70);
            },
            70,
            &[
                "event NodeVerdict about x: the node's agent reports GP16: no device plugin registers",
                "event NodeVerdict about a: NodeClaim `x`, on whose node it was to run, failed: the node's agent reports \
               GP16: no device plugin registers",
                "event NodeVerdict about b: NodeClaim `x`, on whose node it was to run, failed: the node's agent reports \
               GP16: no device plugin registers",
                "event NodeVerdict about c: NodeClaim `x`, on whose node it was to run, failed: the node's agent reports \
               GP16: no device plugin registers",
                "delete claim x: node_verdict",
            ],
        ),
    ]);
}

#[test]
fn a_verdict_ends_nothing_when_pods_run_or_it_is_lifted() {
    check(&[
        (
            "A node that takes pods is not given up for a word.",
            |it| {
                it.initialized();
                it.judge(NODE_VERDICT, Status::False, "CR02", "containerd has stopped", 100);
            },
            100,
            &["look again at 2595600"],
        ),
        (
            "What was wrong and is not any more ends nothing.",
            |it| {
                it.launched();
                it.judge(NODE_VERDICT, Status::True, "VerdictLifted", "", 12);
            },
            12,
            &[
                "status: Launched=True, NodeVerdict=True, Registered=Unknown NodeNotFound: Node not registered with cluster",
            ],
        ),
    ]);
}

#[test]
fn an_agent_is_silent_after_an_hour() {
    check(&[
        (
            "An agent that was heard of may be quiet.",
            |it| {
                it.initialized();
                it.annotate(annotations::AGENT_HEARD, "1970-01-01T01:00:00Z");
                it.judge(AGENT_READY, Status::True, "Initialized", "", 100);
            },
            7199,
            &["look again at 7200"],
        ),
        (
            "After an hour it is silent, and nothing else follows from that.",
            |it| {
                it.initialized();
                it.annotate(annotations::AGENT_HEARD, "1970-01-01T01:00:00Z");
                it.judge(AGENT_READY, Status::True, "Initialized", "", 100);
            },
            7200,
            &["status: AgentReady=Unknown AgentSilent: the node's agent has not reported since \
               1970-01-01T01:00:00Z, Initialized=True, Launched=True, Registered=True"],
        ),
        (
            "It is said once.",
            |it| {
                it.initialized();
                it.annotate(annotations::AGENT_HEARD, "1970-01-01T01:00:00Z");
                it.judge(AGENT_READY, Status::Unknown, "AgentSilent", "", 7200);
            },
            9000,
            &["look again at 2595600"],
        ),
    ]);
}
