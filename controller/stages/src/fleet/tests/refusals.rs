//! Why nothing is launched.

use serde_json::json;

use super::{Fixture, PAUSED, check, stop_all};
use crate::lifecycle::Readiness;
use crate::lifecycle::caps::Caps;
use crate::provision::Stop;
use crate::provision::tests::fixture::pool;

#[test]
fn whoever_may_not_launch_says_what_to_do() {
    check(&[
        (
            "A pool that there is not, with the names that are near.",
            |it| it.order.node_pool = "genral".to_owned(),
            &["NOT_FOUND: there is no NodePool `genral` | hint: did you mean `general`?"],
        ),
        (
            "Or those that there are.",
            |it| it.order.node_pool = "x".to_owned(),
            &["NOT_FOUND: there is no NodePool `x` | hint: there is `general`"],
        ),
        (
            "Launches are paused, here or in the whole cluster.",
            |it| it.cluster.pause = PAUSED,
            &[
                "FAILED_PRECONDITION: nothing is launched with NodePool `general`: launches are paused by the annotation \
               muster.dev/pause | hint: remove it, or set it to `false`: `kubectl annotate nodepool general \
               muster.dev/pause-`, and from the namespace",
            ],
        ),
        (
            "The breaker is open.",
            |it| drop(it.cluster.stops.insert("general".to_owned(), stop_all())),
            &[
                "FAILED_PRECONDITION: nothing is launched with NodePool `general`: launches with `default` have failed with \
               KA07 | hint: change EC2NodeClass `default`, or `kubectl annotate` it with muster.dev/reset-breaker=true",
            ],
        ),
        (
            "One node is tried, and two were ordered.",
            |it| {
                it.order.count = 2;
                it.cluster
                    .stops
                    .insert("general".to_owned(), Stop::ButOne { why: "one node is being tried".to_owned() });
            },
            &[
                "FAILED_PRECONDITION: 1 of 2 nodes may be launched now: one node is being tried | hint: order one node, or \
               wait until that one is initialized",
            ],
        ),
        (
            "The class is not ready.",
            |it| it.class = Readiness::NotReady("SubnetsReady=False".to_owned()),
            &[
                "FAILED_PRECONDITION: nothing is launched with NodePool `general`: EC2NodeClass `default` is not ready: \
               SubnetsReady=False | hint: `kubectl describe ec2nodeclass default`",
            ],
        ),
        (
            "There is none.",
            |it| it.class = Readiness::Missing,
            &[
                "FAILED_PRECONDITION: nothing is launched with NodePool `general`: there is no EC2NodeClass `default` | \
               hint: create it, or name another one",
            ],
        ),
        (
            "How many nodes a static pool has is said by it.",
            |it| {
                it.cluster.get("NodePool", "general")["spec"]["replicas"] = json!(3);
            },
            &["FAILED_PRECONDITION: nothing is launched with NodePool `general`: it is static | hint: `kubectl scale \
               nodepool general --replicas=…`"],
        ),
        (
            "The pool says itself that it is not ready.",
            |it| {
                it.cluster.get("NodePool", "general")["status"]["conditions"] = json!([{
                    "type": "Ready", "status": "False", "reason": "NodeClassNotReady", "message": "",
                    "lastTransitionTime": "1970-01-01T00:00:00Z",
                }]);
            },
            &["FAILED_PRECONDITION: nothing is launched with NodePool `general`: its condition Ready is False \
               (NodeClassNotReady) | hint: `kubectl describe nodepool general`"],
        ),
    ]);
}

#[test]
fn a_part_of_an_order_is_none() {
    check(&[
        (
            "The launches of a minute, of which pods have their part.",
            |it| {
                it.cluster.settings.caps = Caps { launches_per_minute: Some(1), hourly_price: None };
                it.order.count = 2;
            },
            &[
                "RESOURCE_EXHAUSTED: 1 of 2 nodes may be launched now: no more than 1 nodes are launched in a minute | hint: \
               order fewer at once, or again after 1970-01-01T00:02:40Z: `--max-launches-per-minute`",
            ],
        ),
        (
            "What all nodes together may cost.",
            |it| {
                it.cluster.settings.caps = Caps { launches_per_minute: None, hourly_price: Some(0.15) };
                it.order.count = 2;
            },
            &[
                "RESOURCE_EXHAUSTED: 1 of 2 nodes may be launched now: all nodes together may cost 0.15 USD an hour, and one \
               more would exceed that by 0.0500 | hint: end other nodes first, or raise `--max-hourly-price`",
            ],
        ),
    ]);
}

/// The engine's words are its own to change: the code, and that they are there.
#[test]
fn what_the_pool_cannot_give_is_explained() {
    let refused = |unusual: fn(&mut Fixture)| {
        let mut fixture = Fixture::new();
        fixture.cluster.add(pool("other"));
        unusual(&mut fixture);
        let [words] = &fixture.in_words()[..] else { panic!("it is launched") };
        words.clone()
    };
    let limited = refused(|it| {
        it.cluster.get("NodePool", "general")["spec"]["limits"] = json!({"cpu": "2"});
        it.order.count = 2;
    });
    let prefix =
        "RESOURCE_EXHAUSTED: NodePool `general` has no instance type for this order: only 1 of 2 nodes are possible: ";
    assert!(limited.starts_with(prefix) && limited.contains("limit") && !limited.contains("other"), "{limited}");
    let none = refused(|it| {
        it.cluster.get("NodePool", "general")["spec"]["limits"] = json!({"cpu": "1"});
    });
    assert!(none.starts_with("RESOURCE_EXHAUSTED: NodePool `general` has no instance type for this order: "), "{none}");
    let large = refused(|it| drop(it.order.requests.insert("cpu".to_owned(), "64".to_owned())));
    let prefix = "FAILED_PRECONDITION: NodePool `general` has no instance type for this order: ";
    assert!(large.starts_with(prefix) && large.contains("cpu"), "{large}");
    let spot = refused(|it| it.require("karpenter.sh/capacity-type", "In", &["spot"]));
    assert!(spot.starts_with(prefix) && spot.contains("karpenter.sh/capacity-type"), "{spot}");
    let unknown = refused(|it| it.require("example.com/rack", "In", &["7"]));
    assert!(unknown.starts_with(prefix) && unknown.contains("example.com/rack"), "{unknown}");
}
