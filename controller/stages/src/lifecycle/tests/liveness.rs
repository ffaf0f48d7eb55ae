//! Timeouts, expiration, instances that end by themselves, tags.

use std::time::Duration;

use muster_api::conditions::nodeclaim;
use muster_api::{Lifetime, annotations};
use muster_cloud::{CloudError, InstanceState, LaunchError};

use super::check;
use super::fixture::{Fixture, ID, at, instance};
use crate::lifecycle::Listing;
use crate::lifecycle::conditions::Status;
use crate::lifecycle::pause::Pause;

const NOT_FOUND: &str = "Node not registered with cluster";

/// A claim that waited for its turn, and was tried at second 400 without success.
fn tried_late(it: &mut Fixture) {
    it.judge(nodeclaim::LAUNCHED, Status::Unknown, "RequestQueued", "waits for its turn", 0);
    it.answers.launch = Some(Err(LaunchError::of_request(CloudError::Transient { message: "reset".to_owned() })));
    it.decided(400);
    it.answers.launch = None;
}

#[test]
fn launch_timeouts() {
    check(&[
        (
            "A launch that takes too long ends with the last thing that was wrong.",
            |it| it.judge(nodeclaim::LAUNCHED, Status::Unknown, "InternalError", "no answer", 0),
            300,
            &[
                "event LaunchTimeout about x: not launched within 5m; last: InternalError: no answer",
                "status: Launched=False LaunchTimeout: not launched within 5m; last: InternalError: no answer",
                "delete claim x: launch_timeout",
            ],
        ),
        (
            "A launch that had to wait for its turn is not late.",
            |_| {},
            100_000,
            &["launch uid-x.1 as a/eu-west-1a/spot"],
        ),
        (
            "Nor is one that the cloud has refused because there were too many.",
            |it| it.judge(nodeclaim::LAUNCHED, Status::Unknown, "RequestLimitExceeded", "too many calls", 0),
            100_000,
            &["launch uid-x.1 as a/eu-west-1a/spot"],
        ),
        (
            "After such a wait, a launch has its five minutes from the first try.",
            tried_late,
            699,
            &["launch uid-x.1 as a/eu-west-1a/spot"],
        ),
        (
            "Then it is late like any other.",
            tried_late,
            700,
            &[
                "event LaunchTimeout about x: not launched within 5m; last: InternalError: reset",
                "status: Launched=False LaunchTimeout: not launched within 5m; last: InternalError: reset",
                "delete claim x: launch_timeout",
            ],
        ),
    ]);
}

#[test]
fn registration_timeouts() {
    check(&[
        (
            "Registration has 15 minutes from the launch.",
            |it| {
                it.launched().judge(nodeclaim::REGISTERED, Status::Unknown, "NodeNotFound", NOT_FOUND, 10);
            },
            909,
            &["look again at 910"],
        ),
        (
            "Before a claim is given up that has not registered, its instance is looked at, then its console.",
            |it| {
                it.launched().judge(nodeclaim::REGISTERED, Status::Unknown, "NodeNotFound", NOT_FOUND, 10);
                it.answers.instance = Some(Ok(instance(InstanceState::Running)));
            },
            910,
            &[r#"Console("aws:///eu-west-1a/i-1")"#],
        ),
        (
            "What was observed is said, a Node under another identity too; what looks like a secret is not.",
            |it| {
                it.joined();
                it.namesakes = std::mem::take(&mut it.nodes);
                it.namesakes[0].spec.as_mut().unwrap().provider_id = None;
                it.judge(nodeclaim::REGISTERED, Status::Unknown, "NodeNotFound", NOT_FOUND, 10);
                let mut stopped = instance(InstanceState::Stopped);
                stopped.state_reason = Some("Server.InternalError".to_owned());
                it.answers.instance = Some(Ok(stopped));
                it.answers.console = Some(Ok(Some("password=hunter2hunter2\n\nno route to host\n".to_owned())));
            },
            910,
            &[
                r#"class: muster.dev/launch-failures={"hash":"1","reason":"RegistrationTimeout","message":"no Node registered within 15m of the launch; instance `aws:///eu-west-1a/i-1` is stopped (Server.InternalError); Node `node-1` has its name but no provider ID; its console ends with: password=[hidden] / no route to host","claims":["uid-x"],"at":"1970-01-01T00:15:10Z","trials":0}"#,
                "event RegistrationTimeout about x: no Node registered within 15m of the launch; instance \
                 `aws:///eu-west-1a/i-1` is stopped (Server.InternalError); Node `node-1` has its name but no provider ID; \
                 its console ends with: password=[hidden] / no route to host",
                "status: Launched=True, Registered=False RegistrationTimeout: no Node registered within 15m of the launch; \
                 instance `aws:///eu-west-1a/i-1` is stopped (Server.InternalError); Node `node-1` has its name but no \
                 provider ID; its console ends with: password=[hidden] / no route to host",
                "delete claim x: registration_timeout",
            ],
        ),
        (
            "A failure of a claim that was launched with an earlier state of the class is not counted.",
            |it| {
                it.launched().judge(nodeclaim::REGISTERED, Status::Unknown, "NodeNotFound", NOT_FOUND, 10);
                it.annotate(annotations::EC2NODECLASS_HASH, "0");
                it.answers.instance = Some(Err(CloudError::NotFound { what: ID.to_owned() }));
                it.answers.console = Some(Ok(None));
            },
            910,
            &[
                "event RegistrationTimeout about x: no Node registered within 15m of the launch; instance \
                 `aws:///eu-west-1a/i-1` does not exist",
                "status: Launched=True, Registered=False RegistrationTimeout: no Node registered within 15m of the launch; \
                 instance `aws:///eu-west-1a/i-1` does not exist",
                "delete claim x: registration_timeout",
            ],
        ),
    ]);
}

#[test]
fn initialization_timeout() {
    check(&[
        (
            "Initialization has 15 minutes from the registration, and ends with what is missing.",
            |it| {
                it.registered();
                it.decided(70);
            },
            960,
            &[
                r#"class: muster.dev/launch-failures={"hash":"1","reason":"NodeNotReady","message":"not initialized within 15m of its registration: Node status is NotReady: KubeletNotReady: runtime network not ready","claims":["uid-x"],"at":"1970-01-01T00:16:00Z","trials":0}"#,
                "event InitializationTimeout about x: not initialized within 15m of its registration: Node status is \
                 NotReady: KubeletNotReady: runtime network not ready",
                "status: Initialized=False InitializationTimeout: not initialized within 15m of its registration: Node \
                 status is NotReady: KubeletNotReady: runtime network not ready, Launched=True, Registered=True",
                "delete claim x: initialization_timeout",
            ],
        ),
        (
            "The NodePool may give it longer.",
            |it| {
                it.registered();
                it.decided(70);
                it.annotate_pool(annotations::INITIALIZATION_TIMEOUT, "1h");
            },
            960,
            &["look again at 3660"],
        ),
        (
            "Or for ever.",
            |it| {
                it.registered();
                it.decided(70);
                it.annotate_pool(annotations::INITIALIZATION_TIMEOUT, "Never");
            },
            960,
            &["look again at 2595600"],
        ),
        (
            "A node that another program launched is not judged by a rule that it was not launched under.",
            |it| {
                it.registered();
                it.decided(70);
                it.claim.metadata.annotations = None;
            },
            960,
            &["look again at 2595600"],
        ),
        (
            "Unless its NodePool says so.",
            |it| {
                it.registered();
                it.decided(70);
                it.claim.metadata.annotations = None;
                it.annotate_pool(annotations::INITIALIZATION_TIMEOUT, "20m");
            },
            960,
            &["look again at 1260"],
        ),
    ]);
}

#[test]
fn expiration() {
    check(&[
        (
            "A claim whose node serves has an hour more, in which disruption finds a place for its pods first.",
            |it| {
                it.initialized();
                it.claim.spec.expire_after = Lifetime::After(Duration::from_secs(3600));
            },
            3600,
            &["look again at 7200"],
        ),
        (
            "A claim that has none goes at its age.",
            |it| {
                it.launched();
                it.claim.spec.expire_after = Lifetime::After(Duration::from_secs(60));
            },
            60,
            &[
                "event DisruptionTerminating about x: NodeClaim `x` is older than its expireAfter of 1m",
                "delete claim x: expired",
            ],
        ),
        (
            "When the hour is over, it goes at once.",
            |it| {
                it.initialized();
                it.claim.spec.expire_after = Lifetime::After(Duration::from_secs(3600));
            },
            7200,
            &[
                "event DisruptionTerminating about x: NodeClaim `x` is older than its expireAfter of 1h",
                "delete claim x: expired",
            ],
        ),
        (
            "Not while disruption is paused.",
            |it| {
                it.initialized();
                it.claim.spec.expire_after = Lifetime::After(Duration::from_secs(3600));
                it.pause = Pause { launches: false, disruption: true };
            },
            7200,
            &[],
        ),
        (
            "Or never.",
            |it| {
                it.initialized();
                it.claim.spec.expire_after = Lifetime::Never;
            },
            1_000_000_000,
            &[],
        ),
    ]);
}

#[test]
fn instances_are_looked_at_in_time() {
    check(&[
        (
            "An instance that the list does not have is looked at.",
            |it| {
                it.launched().judge(nodeclaim::REGISTERED, Status::Unknown, "NodeNotFound", NOT_FOUND, 10);
                it.listing = Some(Listing { at: at(70), has_instance: false, capacity_type: None });
            },
            70,
            &[r#"Get("aws:///eu-west-1a/i-1")"#],
        ),
        (
            "A list that was asked for soon after the launch says nothing.",
            |it| {
                it.launched().judge(nodeclaim::REGISTERED, Status::Unknown, "NodeNotFound", NOT_FOUND, 10);
                it.listing = Some(Listing { at: at(69), has_instance: false, capacity_type: None });
            },
            70,
            &["look again at 910"],
        ),
        (
            "Until lists can tell, a new instance is looked at by itself.",
            |it| {
                it.launched().judge(nodeclaim::REGISTERED, Status::Unknown, "NodeNotFound", NOT_FOUND, 10);
            },
            14,
            &["look again at 15"],
        ),
        (
            "Five seconds after its launch,",
            |it| {
                it.launched().judge(nodeclaim::REGISTERED, Status::Unknown, "NodeNotFound", NOT_FOUND, 10);
            },
            15,
            &[r#"Get("aws:///eu-west-1a/i-1")"#],
        ),
        (
            "and if it is still there, after as long again.",
            |it| {
                it.launched().judge(nodeclaim::REGISTERED, Status::Unknown, "NodeNotFound", NOT_FOUND, 10);
                it.answers.instance = Some(Ok(instance(InstanceState::Pending)));
            },
            15,
            &["look again at 20"],
        ),
        (
            "Nobody asks for an instance whose kubelet has come up.",
            |it| {
                it.joined();
                it.hold = Some("pods are being told".to_owned());
                it.judge(nodeclaim::REGISTERED, Status::Unknown, "RegistrationHookPending", "pods are being told", 10);
            },
            15,
            &["look again at 910"],
        ),
        (
            "A kubelet that reports is better evidence than a list.",
            |it| {
                it.initialized();
                it.listing = Some(Listing { at: at(700), has_instance: false, capacity_type: None });
            },
            700,
            &["look again at 2595600"],
        ),
    ]);
}

#[test]
fn instances_that_end_by_themselves() {
    check(&[
        (
            "That an instance cannot be found says nothing yet.",
            |it| {
                it.launched().judge(nodeclaim::REGISTERED, Status::Unknown, "NodeNotFound", NOT_FOUND, 10);
                it.listing = Some(Listing { at: at(30), has_instance: false, capacity_type: None });
                it.answers.instance = Some(Err(CloudError::NotFound { what: ID.to_owned() }));
            },
            50,
            &["look again at 910"],
        ),
        (
            "That it has ended is said with the cloud's reason.",
            |it| {
                it.launched().judge(nodeclaim::REGISTERED, Status::Unknown, "NodeNotFound", NOT_FOUND, 10);
                let mut ended = instance(InstanceState::Terminated);
                ended.state_reason = Some("Client.InternalError: Client error on launch".to_owned());
                it.answers.instance = Some(Ok(ended));
            },
            15,
            &[
                r#"class: muster.dev/launch-failures={"hash":"1","reason":"InstanceEnded","message":"instance `aws:///eu-west-1a/i-1` has ended: Client.InternalError: Client error on launch","claims":["uid-x"],"at":"1970-01-01T00:00:15Z","trials":0}"#,
                "status: Launched=True, Registered=False InstanceEnded: instance `aws:///eu-west-1a/i-1` has ended: \
                 Client.InternalError: Client error on launch",
                "event InstanceEnded about x: instance `aws:///eu-west-1a/i-1` has ended: Client.InternalError: Client \
                 error on launch",
                "delete claim x: instance_ended",
            ],
        ),
        (
            "One that ended while it started ends the claim with the cloud's reason, and counts against the class.",
            |it| {
                it.launched().judge(nodeclaim::REGISTERED, Status::Unknown, "NodeNotFound", NOT_FOUND, 10);
                it.listing = Some(Listing { at: at(70), has_instance: false, capacity_type: None });
                let mut ended = instance(InstanceState::Terminated);
                ended.state_reason = Some("Client.InvalidKMSKey.InvalidState".to_owned());
                it.answers.instance = Some(Ok(ended));
            },
            70,
            &[
                r#"class: muster.dev/launch-failures={"hash":"1","reason":"InstanceEnded","message":"instance `aws:///eu-west-1a/i-1` has ended: Client.InvalidKMSKey.InvalidState","claims":["uid-x"],"at":"1970-01-01T00:01:10Z","trials":0}"#,
                "status: Launched=True, Registered=False InstanceEnded: instance `aws:///eu-west-1a/i-1` has ended: \
                 Client.InvalidKMSKey.InvalidState",
                "event InstanceEnded about x: instance `aws:///eu-west-1a/i-1` has ended: Client.InvalidKMSKey.InvalidState",
                "delete claim x: instance_ended",
            ],
        ),
        (
            "One that has served ends the claim, and counts against nobody.",
            |it| {
                it.initialized().ready("Unknown", "NodeStatusUnknown");
                it.listing = Some(Listing { at: at(700), has_instance: false, capacity_type: None });
                it.answers.instance = Some(Err(CloudError::NotFound { what: ID.to_owned() }));
            },
            700,
            &[
                "event InstanceEnded about x: instance `aws:///eu-west-1a/i-1` has ended: the cloud does not know it any more",
                "delete claim x: instance_ended",
            ],
        ),
        (
            "A look that fails decides nothing.",
            |it| {
                it.initialized().ready("Unknown", "NodeStatusUnknown");
                it.listing = Some(Listing { at: at(700), has_instance: false, capacity_type: None });
                it.answers.instance = Some(Err(CloudError::Throttled { operation: "DescribeInstances".to_owned() }));
            },
            700,
            &["look again at 2595600"],
        ),
    ]);
}

#[test]
fn tags() {
    check(&[
        (
            "A registered node's instance gets the Node's name.",
            |it| {
                it.initialized();
                it.class.tags_instances = true;
                it.claim.status.as_mut().unwrap().node_name = Some("node-1".to_owned());
            },
            100,
            &["tag Name=node-1, karpenter.sh/nodeclaim=x"],
        ),
        (
            "Once.",
            |it| {
                it.initialized();
                it.class.tags_instances = true;
                it.claim.status.as_mut().unwrap().node_name = Some("node-1".to_owned());
                it.answers.tag = Some(Ok(()));
            },
            100,
            &["claim x: compatibility.karpenter.k8s.aws/cluster-name-tagged=true karpenter.k8s.aws/tagged=true"],
        ),
        (
            "A failure is no reason to do it again at once.",
            |it| {
                it.initialized();
                it.class.tags_instances = true;
                it.claim.status.as_mut().unwrap().node_name = Some("node-1".to_owned());
                it.answers.tag = Some(Err(CloudError::Throttled { operation: "CreateTags".to_owned() }));
            },
            100,
            &["look again at 160"],
        ),
        (
            "What waits for its turn is done in its turn.",
            |it| {
                it.initialized();
                it.class.tags_instances = true;
                it.claim.status.as_mut().unwrap().node_name = Some("node-1".to_owned());
                let (operation, again) = ("CreateTags".to_owned(), Duration::from_secs(7));
                it.answers.tag = Some(Err(CloudError::Queued { operation, again }));
            },
            100,
            &["look again at 107"],
        ),
    ]);
}
