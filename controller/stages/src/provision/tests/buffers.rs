//! Buffers: their pods get nodes, give way to real ones, and are counted.

use serde_json::{Value, json};

use super::fixture::{Cluster, node, pod};
use crate::provision::{BufferPlaces, Outcome};

fn buffer(replicas: u32) -> Value {
    json!({"apiVersion": "autoscaling.x-k8s.io/v1beta1", "kind": "CapacityBuffer",
        "metadata": {"name": "spare", "namespace": "default"},
        "spec": {"podTemplateRef": {"name": "chunk"}, "replicas": replicas}})
}

fn template(cpu: &str) -> Value {
    let containers = json!([{"name": "main", "resources": {"requests": {"cpu": cpu}}}]);
    json!({"apiVersion": "v1", "kind": "PodTemplate", "metadata": {"name": "chunk", "namespace": "default"},
        "template": {"spec": {"containers": containers}}})
}

fn places(outcome: &Outcome) -> BufferPlaces {
    let [only] = outcome.buffers.as_slice() else { panic!("{:?}", outcome.buffers) };
    assert_eq!(&*only.buffer.path, "default/spare");
    only.places.clone()
}

fn of(existing: u32, coming: u32) -> BufferPlaces {
    BufferPlaces { existing, coming, ..BufferPlaces::default() }
}

#[test]
fn a_buffer_has_room_that_is_there_and_room_that_is_coming() {
    let mut cluster = Cluster::new();
    // Four cores of `n`, three of them left, and three chunks of one core and a half.
    cluster.add(template("1500m")).add(buffer(3)).add(node("n", "4"));
    let mut there = pod("there", "1");
    there["spec"]["nodeName"] = json!("n");
    cluster.add(there);
    let outcome = cluster.decide(0);
    assert_eq!((outcome.figures.claims, places(&outcome)), (1, of(2, 1)));
    cluster.round(0);
    let outcome = cluster.decide(1);
    assert_eq!((outcome.figures.claims, places(&outcome)), (0, of(2, 1)), "the claim is on its way");

    // A real pod takes the room, and more is made.
    let mut real = pod("real", "1500m");
    real["spec"]["nodeName"] = json!("n");
    cluster.add(real);
    let outcome = cluster.decide(2);
    assert_eq!((outcome.figures.claims, places(&outcome)), (1, of(1, 2)));

    cluster.remove("CapacityBuffer", "spare");
    let outcome = cluster.decide(3);
    assert_eq!((outcome.figures.claims, outcome.buffers.len()), (0, 0));
}

#[test]
fn limits_hold_a_buffer_back_and_what_is_too_large_never_fits() {
    let mut cluster = Cluster::new();
    cluster.get("NodePool", "general")["spec"]["limits"] = json!({"cpu": "4"});
    cluster.add(template("1500m")).add(buffer(4));
    let found = places(&cluster.decide(0));
    assert_eq!((found.existing, found.coming, found.failed), (0, 2, 2));
    assert_eq!(found.why.unwrap().0, "Limits");
    cluster.add(template("64"));
    let found = places(&cluster.decide(0));
    assert_eq!((found.coming, found.failed), (0, 4));
    assert_eq!(found.why.unwrap().0, "Resources");
}
