use std::time::Duration;

use muster_api::conditions::nodeclaim;
use muster_api::{Operator, Requirement, annotations};
use muster_cloud::{CapacityType, CloudError, InstanceState, LaunchError, Launched, Refusal, Refused};

use super::check;
use super::fixture::{Fixture, instance, offering};
use crate::lifecycle::Readiness;
use crate::lifecycle::conditions::Status;
use crate::lifecycle::pause::Pause;
use crate::step::Write;

fn refused() -> CloudError {
    let refused = Refused { offering: offering("a", CapacityType::Spot), refusal: Refusal::Capacity };
    CloudError::NoCapacity { refused: vec![refused] }
}

fn fails(it: &mut Fixture, error: LaunchError) {
    it.answers.launch = Some(Err(error));
}

fn failures(hash: &str, reason: &str, claims: &str) -> String {
    let at = "1970-01-01T00:00:00Z";
    format!(r#"{{"hash":"{hash}","reason":"{reason}","message":"m","claims":[{claims}],"at":"{at}","trials":0}}"#)
}

#[test]
fn before_the_launch() {
    check(&[
        (
            "Before the cloud is asked, the claim has the finalizer and the number of the attempt, in one write.",
            |it| {
                it.claim.metadata.finalizers = Some(vec!["example.com/x".to_owned()]);
                it.claim.metadata.annotations = None;
            },
            0,
            &["claim x: muster.dev/launch-attempt=1 finalizers [example.com/x, karpenter.sh/termination]"],
        ),
        (
            "One request is of one capacity type: reserved before spot before on-demand.",
            |_| {},
            0,
            &["launch uid-x.1 as a/eu-west-1a/spot"],
        ),
        (
            "The number of the attempt is part of the token.",
            |it| it.annotate(annotations::LAUNCH_ATTEMPT, "3"),
            0,
            &["launch uid-x.3 as a/eu-west-1a/spot"],
        ),
        (
            "After a failure, the moment that was written then is waited for.",
            |it| it.annotate(annotations::LAUNCH_NOT_BEFORE, "1970-01-01T00:01:00Z"),
            59,
            &["look again at 60"],
        ),
        (
            "After five minutes of trying nothing is launched any more: the timeout ends the claim.",
            |it| it.judge(nodeclaim::LAUNCHED, Status::Unknown, "InternalError", "no answer", 0),
            300,
            &[
                "event LaunchTimeout about x: not launched within 5m; last: InternalError: no answer",
                "status: Launched=False LaunchTimeout: not launched within 5m; last: InternalError: no answer",
                "delete claim x: launch_timeout",
            ],
        ),
    ]);
}

#[test]
fn what_keeps_a_launch_back() {
    check(&[
        (
            "A class that does not exist ends the claim; so does one that is not ready, with its reason.",
            |it| it.class.readiness = Readiness::NotReady("SubnetsReady=False".to_owned()),
            0,
            &[
                "event NodeClassNotReady about x: NodeClaim `x` failed: SubnetsReady=False",
                "delete claim x: nodeclass_not_ready",
            ],
        ),
        (
            "A class that has not been judged since it was changed is waited for.",
            |it| it.class.readiness = Readiness::Unknown,
            0,
            &["status: Launched=Unknown NodeClassReadinessUnknown: NodeClass `default` has not been validated yet"],
        ),
        (
            "User data that cannot make a node is not tried out.",
            |it| it.class.bootstrap_fault = Some("KT01: the taint is missing".to_owned()),
            0,
            &["status: Launched=Unknown BootstrapInvalid: KT01: the taint is missing"],
        ),
        (
            "The pause of the cluster holds for every pool.",
            |it| it.pause = Pause::ALL,
            0,
            &["status: Launched=Unknown LaunchesPaused: launches are paused by the annotation muster.dev/pause"],
        ),
        (
            "The pause of a pool holds for its claims.",
            |it| it.annotate_pool(annotations::PAUSE, "launches"),
            0,
            &["status: Launched=Unknown LaunchesPaused: launches are paused by the annotation muster.dev/pause"],
        ),
        (
            "A pause of disruption does not keep launches back.",
            |it| it.annotate_pool(annotations::PAUSE, "disruption"),
            0,
            &["launch uid-x.1 as a/eu-west-1a/spot"],
        ),
        (
            "Two failures in a row are no rule.",
            |it| it.annotate_class(annotations::LAUNCH_FAILURES, &failures("1", "R", r#""1","2""#)),
            0,
            &["launch uid-x.1 as a/eu-west-1a/spot"],
        ),
        (
            "Three failures with an earlier state of the class say nothing about this one.",
            |it| it.annotate_class(annotations::LAUNCH_FAILURES, &failures("0", "R", r#""1","2","3""#)),
            0,
            &["launch uid-x.1 as a/eu-west-1a/spot"],
        ),
        (
            "Three failures for one reason stop launches, and say what to do.",
            |it| it.annotate_class(annotations::LAUNCH_FAILURES, &failures("1", "R", r#""1","2","3""#)),
            0,
            &["status: Launched=Unknown LaunchesStopped: nothing is launched with NodeClass `default`: the last 3 \
               launches failed with R, the last one with: m; one node is tried at 1970-01-01T00:15:00Z\n\nhint: change the class, or `kubectl annotate` it with \
               muster.dev/reset-breaker=true"],
        ),
        (
            "A quarter of an hour after the last failure one launch is tried.",
            |it| {
                it.claim.metadata.creation_timestamp =
                    Some(k8s_openapi::apimachinery::pkg::apis::meta::v1::Time(super::fixture::at(900)));
                it.annotate_class(annotations::LAUNCH_FAILURES, &failures("1", "R", r#""1","2","3""#));
            },
            900,
            &["launch uid-x.1 as a/eu-west-1a/spot"],
        ),
    ]);
}

#[test]
fn what_was_launched() {
    check(&[(
        "What the instance is goes to the labels and annotations first, then to the status. A requirement that leaves \
             one value is a label; one that leaves two is not.",
        |it| {
            let only = |key: &str, values: &[&str]| Requirement {
                key: key.to_owned(),
                operator: Operator::In,
                values: values.iter().map(|value| (*value).to_owned()).collect(),
                min_values: None,
            };
            it.claim.spec.requirements = vec![only("team", &["web"]), only("size", &["1", "2"])];
            let instance = instance(InstanceState::Pending);
            it.answers.launch = Some(Ok(Launched { instance, refused: Vec::new() }));
        },
        0,
        &[
            "claim x: team=web topology.kubernetes.io/zone=eu-west-1a karpenter.k8s.aws/ec2nodeclass-hash=1",
            "status: Launched=True",
        ],
    )]);
}

#[test]
fn launches_that_are_refused() {
    check(&[
        (
            "When all of a request was refused, the next attempt follows at once, with another token.",
            |it| fails(it, LaunchError::outcome(refused())),
            0,
            &[
                "event LaunchFailed about x: none of the 1 offerings tried is available: \
                 a/eu-west-1a/spot: no capacity",
                "claim x: muster.dev/launch-attempt=2",
                "status: Launched=Unknown InsufficientCapacity: none of the 1 offerings tried is available: \
                 a/eu-west-1a/spot: no capacity",
            ],
        ),
        (
            "A missing role of spot is told as Karpenter tells it.",
            |it| {
                let refused = Refused { offering: offering("a", CapacityType::Spot), refusal: Refusal::SpotRole };
                fails(it, LaunchError::outcome(CloudError::NoCapacity { refused: vec![refused] }));
            },
            0,
            &[
                "event LaunchFailed about x: none of the 1 offerings tried is available: \
                 a/eu-west-1a/spot: the service-linked role of spot is missing",
                "event SpotServiceLinkedRoleCreationFailure about x: the service-linked role of spot is missing, and the \
                 controller may not create it",
                "claim x: muster.dev/launch-attempt=2",
                "status: Launched=Unknown SpotSLRCreationFailed: none of the 1 offerings tried is available: \
                 a/eu-west-1a/spot: the service-linked role of spot is missing",
            ],
        ),
        (
            "When nothing is left to try, the claim ends, and says what was tried last.",
            |it| {
                it.annotate(annotations::LAUNCH_ATTEMPT, "2");
                it.judge(nodeclaim::LAUNCHED, Status::Unknown, "InsufficientCapacity", "a: no capacity", 0);
                it.alternatives.clear();
            },
            0,
            &[
                "event InsufficientCapacityError about x: NodeClaim `x` failed: a: no capacity",
                "delete claim x: insufficient_capacity",
            ],
        ),
    ]);
}

#[test]
fn requests_that_fail() {
    check(&[
        (
            "An answer that was lost is asked for again with the same token. The wait doubles: it is the claim's age.",
            |it| fails(it, LaunchError::of_request(CloudError::Transient { message: "reset".to_owned() })),
            4,
            &[
                "event LaunchFailed about x: reset",
                "claim x: muster.dev/launch-not-before=1970-01-01T00:00:08Z",
                "status: Launched=Unknown InternalError: reset",
            ],
        ),
        (
            "What was said already is not said again; at most 30 seconds are waited for.",
            |it| {
                it.judge(nodeclaim::LAUNCHED, Status::Unknown, "RequestLimitExceeded", "before", 0);
                let operation = "CreateFleet".to_owned();
                fails(it, LaunchError::of_request(CloudError::Throttled { operation }));
            },
            120,
            &[
                "claim x: muster.dev/launch-not-before=1970-01-01T00:02:30Z",
                "status: Launched=Unknown RequestLimitExceeded: the cloud limits the rate of CreateFleet",
            ],
        ),
        (
            "A launch whose turn has not come says so once, to whoever looks, and comes again then.",
            |it| {
                let (operation, again) = ("CreateFleet".to_owned(), Duration::from_secs(40));
                fails(it, LaunchError::of_request(CloudError::Queued { operation, again }));
            },
            4,
            &[
                "status: Launched=Unknown RequestQueued: waits for its turn: the rate of CreateFleet is limited",
                "look again at 44",
            ],
        ),
    ]);
}

#[test]
fn failures_of_the_class() {
    check(&[
        (
            "A refused permission is named, and counted against the class; the same token stays, since an earlier request \
             may have gone through.",
            |it| {
                let (action, message) = ("ec2:RunInstances".to_owned(), "explicit deny".to_owned());
                fails(it, LaunchError::of_request(CloudError::Unauthorized { action, message }));
            },
            0,
            &[
                r#"class: muster.dev/launch-failures={"hash":"1","reason":"Unauthorized","message":"not authorized to perform ec2:RunInstances: explicit deny","claims":["uid-x"],"at":"1970-01-01T00:00:00Z","trials":0}"#,
                "event LaunchFailed about x: not authorized to perform ec2:RunInstances: explicit deny",
                "claim x: muster.dev/launch-not-before=1970-01-01T00:00:01Z",
                "status: Launched=Unknown Unauthorized: not authorized to perform ec2:RunInstances: explicit deny",
            ],
        ),
        (
            "A claim is counted once, however often it fails. This is what came of the token, so the next attempt takes another.",
            |it| {
                it.annotate_class(annotations::LAUNCH_FAILURES, &failures("1", "InvalidAMIID", r#""uid-x""#));
                it.judge(nodeclaim::LAUNCHED, Status::Unknown, "InvalidAMIID", "no such image", 0);
                let (reason, message) = ("InvalidAMIID".to_owned(), "no such image".to_owned());
                fails(it, LaunchError::outcome(CloudError::BadClass { reason, message }));
            },
            0,
            &[
                "claim x: muster.dev/launch-attempt=2 muster.dev/launch-not-before=1970-01-01T00:00:01Z",
                "status: Launched=Unknown InvalidAMIID: no such image",
            ],
        ),
    ]);
}

/// The cloud reports what it knows; the claim also says what overlays promise, or pods for it would be planned again.
#[test]
fn a_launched_claim_has_the_resources_of_overlays() {
    let mut it = Fixture::new();
    it.answers.launch = Some(Ok(Launched { instance: instance(InstanceState::Running), refused: Vec::new() }));
    let gpus = [("example.com/gpu".to_owned(), "8".to_owned())].into();
    it.overlaid.capacity.insert(instance(InstanceState::Running).offering.instance_type, gpus);
    let step = it.decide(super::fixture::at(10));
    let status = step.writes.iter().find_map(|write| match write {
        Write::ClaimStatus { status, .. } => Some(status),
        _ => None,
    });
    let amounts =
        status.map(|status| (status.capacity.get("example.com/gpu"), status.allocatable.get("example.com/gpu")));
    let eight = k8s_openapi::apimachinery::pkg::api::resource::Quantity("8".to_owned());
    assert_eq!(amounts, Some((Some(&eight), Some(&eight))));
}
