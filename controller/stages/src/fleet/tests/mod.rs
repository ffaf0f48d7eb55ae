//! Orders: what is launched for them, and why not. One rule each: in prose, what is unusual, and what comes of it in words.

mod read;
mod refusals;
mod request;
mod terminate;

use serde_json::json;

use super::{Decision, Order, OrderedNode, Refusal, Ticket, WrittenOrder, WrittenRequirement, launch};
use crate::lifecycle::Readiness;
use crate::lifecycle::pause::Pause;
use crate::provision::Stop;
use crate::provision::tests::fixture::{Cluster, at, pool};

/// A cluster with the pool `general`, and an order of one node of it.
struct Fixture {
    cluster: Cluster,
    class: Readiness,
    order: WrittenOrder,
    ticket: Option<Ticket>,
    second: i64,
}

/// A rule: in prose, what is unusual, and the answer in words.
type Rule = (&'static str, fn(&mut Fixture), &'static [&'static str]);

fn check(rules: &[Rule]) {
    for (rule, unusual, expected) in rules {
        let mut fixture = Fixture::new();
        unusual(&mut fixture);
        assert_eq!(fixture.in_words(), *expected, "{rule}");
    }
}

impl Fixture {
    fn new() -> Self {
        let order = WrittenOrder {
            node_pool: "general".to_owned(),
            count: 1,
            requests: [("cpu".to_owned(), "1".to_owned())].into(),
            requirements: Vec::new(),
        };
        let ticket = Some(Ticket { by: "ann".to_owned(), id: "a-1".to_owned() });
        Self { cluster: Cluster::new(), class: Readiness::Ready, order, ticket, second: 100 }
    }

    fn decide(&self) -> Result<Decision, Refusal> {
        let order: Order = super::read(self.order.clone())?;
        self.cluster.with_round(|round| launch(round, &self.class, &order, self.ticket.as_ref(), at(self.second)))
    }

    fn in_words(&self) -> Vec<String> {
        match self.decide() {
            Ok(decision) => in_words(&decision),
            Err(Refusal { kind, message }) => vec![format!("{}: {}", kind.code(), message.replace("\n\n", " | "))],
        }
    }

    /// The order is carried out, as far as `most` of its writes.
    fn carry_out(&mut self, most: usize) -> Vec<String> {
        let decision = self.decide().unwrap();
        for claim in decision.claims.iter().take(most) {
            let mut object = serde_json::to_value(claim).unwrap();
            let name = claim.metadata.name.clone().unwrap();
            object["metadata"]["uid"] = json!(format!("uid-{name}"));
            object["metadata"]["creationTimestamp"] = json!(at(self.second).to_string());
            self.cluster.add(object);
        }
        decision.nodes.into_iter().filter_map(|node| node.claim).collect()
    }

    fn require(&mut self, key: &str, operator: &str, values: &[&str]) {
        let values = values.iter().map(|value| (*value).to_owned()).collect();
        let requirement = WrittenRequirement { key: key.to_owned(), operator: operator.to_owned(), values };
        self.order.requirements.push(requirement);
    }
}

/// Each node, and what all cost.
fn in_words(decision: &Decision) -> Vec<String> {
    let node = |node: &OrderedNode| {
        let Some(planned) = &node.planned else { return format!("there: {}", node.uid.as_deref().unwrap_or_default()) };
        let cheapest = planned.offerings.first().unwrap();
        let requests: Vec<String> = planned.requests.iter().map(|(name, amount)| format!("{name}={amount}")).collect();
        format!(
            "{} of {} in {} {} for {}",
            cheapest.instance_type,
            planned.types,
            cheapest.zone,
            cheapest.capacity_type,
            requests.join(" ")
        )
    };
    let mut words: Vec<String> = decision.nodes.iter().map(node).collect();
    words.push(format!("{:.2} USD/h, {} writes", decision.hourly_price, decision.claims.len()));
    words
}

#[test]
fn an_order_is_launched_as_pods_would_be() {
    check(&[
        (
            "The cheapest that has room; every type that has it may be launched.",
            |_| {},
            &["small of 2 in a on-demand for cpu=1 pods=1", "0.10 USD/h, 1 writes"],
        ),
        (
            "Each node has room of its own: none is shared, though one could hold both.",
            |it| it.order.count = 2,
            &[
                "small of 2 in a on-demand for cpu=1 pods=1",
                "small of 2 in a on-demand for cpu=1 pods=1",
                "0.20 USD/h, 2 writes",
            ],
        ),
        (
            "What is there is not used: a node is what was ordered.",
            |it| {
                let free = crate::provision::tests::fixture::node("free", "16");
                it.cluster.add(free);
            },
            &["small of 2 in a on-demand for cpu=1 pods=1", "0.10 USD/h, 1 writes"],
        ),
        (
            "Pods that wait are none of the order's business.",
            |it| {
                it.cluster.add(crate::provision::tests::fixture::marked("web", "1"));
            },
            &["small of 2 in a on-demand for cpu=1 pods=1", "0.10 USD/h, 1 writes"],
        ),
        (
            "Overhead is not room.",
            |it| drop(it.order.requests.insert("cpu".to_owned(), "2".to_owned())),
            &["large of 1 in a on-demand for cpu=2 pods=1", "0.19 USD/h, 1 writes"],
        ),
        (
            "Nothing needs to be asked for.",
            |it| it.order.requests.clear(),
            &["small of 2 in a on-demand for pods=1", "0.10 USD/h, 1 writes"],
        ),
        (
            "Requirements narrow those of the pool.",
            |it| it.require("topology.kubernetes.io/zone", "In", &["b"]),
            &["small of 2 in b on-demand for cpu=1 pods=1", "0.10 USD/h, 1 writes"],
        ),
        (
            "Taints of the pool keep off what is not meant for it, and an order is.",
            |it| {
                let taints = json!([{"key": "dedicated", "value": "shop", "effect": "NoSchedule"}]);
                it.cluster.get("NodePool", "general")["spec"]["template"]["spec"]["taints"] = taints;
            },
            &["small of 2 in a on-demand for cpu=1 pods=1", "0.10 USD/h, 1 writes"],
        ),
        (
            "Static pools beside it are none of the order's business.",
            |it| {
                let mut fixed = pool("fixed");
                fixed["spec"]["replicas"] = json!(3);
                it.cluster.add(fixed);
            },
            &["small of 2 in a on-demand for cpu=1 pods=1", "0.10 USD/h, 1 writes"],
        ),
        (
            "Without a ticket it is a plan: nothing is written.",
            |it| it.ticket = None,
            &["small of 2 in a on-demand for cpu=1 pods=1", "0.10 USD/h, 0 writes"],
        ),
    ]);
}

#[test]
fn the_offerings_are_told_cheapest_first() {
    let mut fixture = Fixture::new();
    let spec = &mut fixture.cluster.get("NodePool", "general")["spec"]["template"]["spec"];
    spec["requirements"] = json!([]);
    let decision = fixture.decide().unwrap();
    let offerings = &decision.nodes[0].planned.as_ref().unwrap().offerings;
    let told: Vec<String> = offerings
        .iter()
        .map(|one| format!("{} {} {} {:.3}", one.instance_type, one.zone, one.capacity_type, one.price))
        .collect();
    assert_eq!(
        told,
        [
            "small a spot 0.050",
            "large a spot 0.095",
            "small a on-demand 0.100",
            "small b on-demand 0.100",
            "large a on-demand 0.190",
            "large b on-demand 0.190",
        ]
    );
}

#[test]
fn a_claim_of_an_order_is_one_as_for_pods_that_says_whose_it_is() {
    let mut fixture = Fixture::new();
    fixture.cluster.add(crate::provision::tests::fixture::marked("web", "1"));
    let ordered = fixture.decide().unwrap().claims.remove(0);
    let outcome = fixture.cluster.decide(100);
    let for_pods = outcome.step.writes.into_iter().find_map(|write| match write {
        crate::step::Write::CreateClaim(claim) => Some(*claim),
        _ => None,
    });
    let for_pods = for_pods.unwrap();
    assert_eq!(ordered.spec, for_pods.spec);
    assert_eq!(ordered.metadata.labels, for_pods.metadata.labels);
    assert_eq!(ordered.metadata.owner_references, for_pods.metadata.owner_references);
    let mut more = ordered.metadata.annotations.unwrap();
    more.retain(|key, value| for_pods.metadata.annotations.as_ref().unwrap().get(key) != Some(value));
    let said: Vec<(&str, &str)> = more.iter().map(|(key, value)| (key.as_str(), value.as_str())).collect();
    let fingerprint = super::read(fixture.order.clone()).unwrap().fingerprint();
    assert_eq!(
        said,
        [
            ("muster.dev/request", "a-1"),
            ("muster.dev/request-hash", fingerprint.as_str()),
            ("muster.dev/requested-by", "ann"),
        ]
    );
}

fn stop_all() -> Stop {
    Stop::All { why: "launches with `default` have failed with KA07".to_owned(), until: None }
}

const PAUSED: Pause = Pause { launches: true, disruption: false };
