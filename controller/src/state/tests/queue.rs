//! The order in which a scheduler tries pods, as far as the objects show it.

use serde_json::{Value, json};

use super::super::{Cluster, Kind};

struct Queue(Cluster);

impl Queue {
    /// A pod is as its scheduler, or whoever tells it of a node, has left it.
    fn see(&mut self, name: &str, status: &Value) -> &mut Self {
        let pod = json!({
            "apiVersion": "v1", "kind": "Pod",
            "metadata": {"name": name, "namespace": "default", "uid": name},
            "spec": {"containers": [{"name": "main", "image": "none"}]},
            "status": status,
        });
        self.0.apply(Kind::Pod, &pod.to_string());
        self
    }

    fn names(&self) -> Vec<String> {
        let applicants = self.0.moment().applicants;
        let mut all: Vec<_> = applicants.values().map(|one| (one.queued, one.pod.name.clone())).collect();
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
    assert_eq!(queue.names(), ["c", "b", "a"], "it has forgotten its node");
}
