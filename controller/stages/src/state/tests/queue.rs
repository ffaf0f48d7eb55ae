//! The order in which a scheduler tries pods, as far as the objects show it.

use std::sync::Arc;

use serde_json::{Value, json};

use super::super::{Cluster, Kind};
use crate::provision::PendingPod;

struct Queue(Cluster);

impl Queue {
    /// A pod is as its scheduler, or whoever tells it of a node, has left it.
    fn see(&mut self, name: &str, status: &Value) -> &mut Self {
        self.see_with(name, &json!({}), status)
    }

    /// It has got a node.
    fn bind(&mut self, name: &str) -> &mut Self {
        self.see_with(name, &json!({"nodeName": "node"}), &json!({}))
    }

    fn see_with(&mut self, name: &str, spec: &Value, status: &Value) -> &mut Self {
        let mut pod = json!({
            "apiVersion": "v1", "kind": "Pod",
            "metadata": {"name": name, "namespace": "default", "uid": name},
            "spec": {"containers": [{"name": "main", "image": "none"}]},
            "status": status,
        });
        for (key, value) in spec.as_object().unwrap() {
            pod["spec"][key] = value.clone();
        }
        self.0.apply(Kind::Pod, &pod.to_string());
        self
    }

    fn names(&self) -> Vec<String> {
        let pending_pods = self.0.moment().pending_pods;
        let place = |one: &Arc<PendingPod>| (self.0.queue().position(one), one.pod.name.clone());
        let mut all: Vec<_> = pending_pods.values().map(place).collect();
        all.sort_unstable();
        all.into_iter().map(|(_, name)| name).collect()
    }
}

fn marked() -> Value {
    json!({"conditions": [{"type": "PodScheduled", "status": "False", "reason": "Unschedulable"}]})
}

fn told() -> Value {
    let mut status = marked();
    status["nominatedNodeName"] = json!("node");
    status
}

#[test]
fn whoever_is_tried_in_vain_goes_to_the_end() {
    let mut queue = Queue(Cluster::default());
    queue.see("a", &json!({})).see("b", &json!({})).see("c", &json!({}));
    assert_eq!(queue.names(), ["a", "b", "c"]);
    queue.see("a", &marked());
    assert_eq!(queue.names(), ["b", "c", "a"], "it has been marked");
    queue.see("b", &marked()).see("a", &told());
    assert_eq!(queue.names(), ["c", "a", "b"], "to be told of a node is no try");
    queue.see("a", &told()).see("b", &told());
    assert_eq!(queue.names(), ["c", "a", "b"]);
    queue.see("a", &marked());
    assert_eq!(queue.names(), ["b", "a", "c"], "it has forgotten its node, and c stood before it");
}

#[test]
fn whoever_joined_before_one_that_is_tried_has_been_tried_too() {
    let mut queue = Queue(Cluster::default());
    for name in ["a", "b", "c", "d"] {
        queue.see(name, &json!({}));
    }
    queue.see("c", &marked());
    assert_eq!(queue.names(), ["d", "c", "a", "b"], "it is seen of c alone");
    queue.bind("d");
    assert_eq!(queue.names(), ["c", "a", "b"]);
    queue.see("e", &json!({}));
    assert_eq!(queue.names(), ["c", "e", "a", "b"]);
    queue.bind("e");
    assert_eq!(queue.names(), ["a", "b", "c"]);
}

#[test]
fn more_important_pods_are_tried_first_and_show_nothing_of_others() {
    let mut queue = Queue(Cluster::default());
    queue.see("a", &json!({})).see("b", &json!({}));
    queue.see_with("c", &json!({"priority": 1000}), &json!({}));
    assert_eq!(queue.names(), ["c", "a", "b"]);
    queue.see_with("c", &json!({"priority": 1000}), &marked());
    assert_eq!(queue.names(), ["c", "a", "b"], "it is the only one of its priority");
}
