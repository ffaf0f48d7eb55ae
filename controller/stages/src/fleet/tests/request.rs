//! The same request again, and another one by its name.

use serde_json::json;

use super::{Fixture, in_words};
use crate::lifecycle::caps::Caps;

#[test]
fn a_request_that_is_repeated_launches_nothing_twice() {
    let mut fixture = Fixture::new();
    fixture.order.count = 3;
    let names = fixture.carry_out(3);
    let again = fixture.decide().unwrap();
    let there: Vec<String> = names.iter().map(|name| format!("there: uid-{name}")).collect();
    assert_eq!(in_words(&again), [there, vec!["0.00 USD/h, 0 writes".to_owned()]].concat());
    // However little may be launched by now.
    fixture.cluster.pause = super::PAUSED;
    assert_eq!(fixture.decide().unwrap(), again);
    fixture.cluster.pause = crate::lifecycle::pause::Pause::NOTHING;
    fixture.cluster.remove("NodePool", "general");
    assert_eq!(fixture.decide().unwrap(), again);
}

#[test]
fn who_was_stopped_in_the_middle_is_continued() {
    let mut fixture = Fixture::new();
    fixture.order.count = 3;
    let first = fixture.decide().unwrap();
    let names = fixture.carry_out(1);
    // Only what is missing counts against what is left.
    fixture.second += 60;
    fixture.cluster.settings.caps = Caps { launches_per_minute: Some(2), hourly_price: None };
    let rest = fixture.decide().unwrap();
    assert_eq!(rest.claims, first.claims[1..]);
    assert_eq!(rest.nodes[0].uid, Some(format!("uid-{}", names[0])));
    fixture.carry_out(3);
    assert_eq!(fixture.decide().unwrap().claims, []);
}

#[test]
fn what_is_ending_is_not_there_and_its_name_is_not_free_yet() {
    let mut fixture = Fixture::new();
    fixture.order.count = 2;
    let [_, name] = &fixture.carry_out(2)[..] else { panic!("not two") };
    fixture.cluster.get("NodeClaim", name)["metadata"]["deletionTimestamp"] = json!("1970-01-01T00:01:00Z");
    let expected = format!(
        "UNAVAILABLE: NodeClaim `{name}` of this order is ending, and nothing was done | hint: repeat the order when it has \
         gone, which launches it again, or give an order with an ID of its own now"
    );
    assert_eq!(fixture.in_words(), [expected]);
    fixture.cluster.remove("NodeClaim", name);
    assert_eq!(fixture.decide().unwrap().claims.len(), 1, "its name is free when it has gone");
}

#[test]
fn an_id_is_one_orders_and_one_users() {
    let mut fixture = Fixture::new();
    let [name] = &fixture.carry_out(1)[..] else { panic!("not one") };
    fixture.order.requests.insert("cpu".to_owned(), "1000m".to_owned());
    assert_eq!(fixture.decide().unwrap().claims, [], "the same amount, written otherwise");
    fixture.order.count = 2;
    let words = fixture.in_words();
    let expected = format!(
        "ALREADY_EXISTS: request_id: `a-1` was used for another order, which has NodeClaim `{name}` | hint: give each order \
         an ID of its own"
    );
    assert_eq!(words, [expected]);
    fixture.ticket.as_mut().unwrap().by = "ben".to_owned();
    assert_eq!(fixture.decide().unwrap().claims.len(), 2, "another user's ID is another ID");
}

/// What was ordered a moment ago counts, so that no two decisions pass one limit.
#[test]
fn what_was_ordered_counts_for_pods_and_orders() {
    let mut fixture = Fixture::new();
    fixture.cluster.get("NodePool", "general")["spec"]["limits"] = json!({"cpu": "4"});
    fixture.carry_out(1);
    fixture.ticket.as_mut().unwrap().id = "a-2".to_owned();
    let [words] = &fixture.in_words()[..] else { panic!("it is launched") };
    assert!(words.starts_with("RESOURCE_EXHAUSTED: "), "what it may become is counted: {words}");
    fixture.cluster.get("NodePool", "general")["spec"]["limits"] = json!({"cpu": "6"});
    assert_eq!(fixture.decide().unwrap().claims.len(), 1);
}
