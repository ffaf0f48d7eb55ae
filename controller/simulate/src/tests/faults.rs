//! Stories about faults of machines, other images, and room that is kept.

use super::super::trace::Event;
use super::super::{Outcome, Policy};
use super::stories::script;
use super::{CLUSTER, day_with, larger_cluster, settings_of_all};

/// Plays a day that lasts three hours, with these events.
fn story(cluster: &str, events: &str) -> Outcome {
    let text = format!("  length: 3h\n  events:\n{events}");
    let outcome = day_with(cluster, script(&text), 0, Policy::Muster, settings_of_all());
    assert_eq!(outcome.broken().collect::<Vec<_>>(), Vec::<&str>::new());
    outcome
}

fn count(outcome: &Outcome, is: impl Fn(&Event) -> bool) -> usize {
    outcome.trace.iter().filter(|entry| is(&entry.event)).count()
}

fn disruptions(outcome: &Outcome, reason: &str) -> usize {
    count(outcome, |event| matches!(event, Event::Disrupting { reason: why, .. } if why == reason))
}

#[test]
fn a_fault_that_a_reboot_mends_reboots_the_node_and_another_replaces_it() {
    let fault =
        |reason: &str| format!("  - {{at: 20m, condition: {{type: AcceleratedHardwareReady, reason: {reason}}}}}\n");
    let outcome = story(CLUSTER, &fault("NvidiaXID48Error"));
    let reboots = count(&outcome, |event| matches!(event, Event::Rebooting { .. }));
    assert_eq!((reboots, disruptions(&outcome, "Unhealthy")), (1, 0));
    let outcome = story(CLUSTER, &fault("NvidiaXID79Error"));
    let reboots = count(&outcome, |event| matches!(event, Event::Rebooting { .. }));
    assert_eq!((reboots, disruptions(&outcome, "Unhealthy")), (0, 1));
}

#[test]
fn another_image_replaces_every_node_of_before() {
    let quiet = story(CLUSTER, "  - {at: 1h, stop: {}}\n");
    assert_eq!(disruptions(&quiet, "Drifted"), 0);
    let outcome = story(CLUSTER, "  - {at: 20m, publishImage: true}\n");
    let drifted: usize = outcome
        .trace
        .iter()
        .map(|entry| match &entry.event {
            Event::Disrupting { reason, claims, .. } if reason == "Drifted" => claims.len(),
            _ => 0,
        })
        .sum();
    assert!(drifted >= 2, "{drifted} nodes");
}

#[test]
fn room_is_kept_for_the_pods_of_a_buffer() {
    let scale = |replicas: u32| {
        let set = format!("{{spec: {{replicas: {replicas}}}}}");
        format!("  - {{at: 10m, patch: {{kind: CapacityBuffer, namespace: shop, name: spare, set: {set}}}}}\n")
    };
    let cores = |outcome: &Outcome| outcome.nodes.iter().map(|node| node.price).sum::<f64>();
    let (without, with) = (story(&larger_cluster(), &scale(0)), story(&larger_cluster(), &scale(6)));
    assert!(cores(&with) > cores(&without), "{} and {}", cores(&with), cores(&without));
    assert_eq!((with.glance.waiting, without.glance.waiting), (0, 0));
}

#[test]
fn nodes_get_the_capacity_of_overlays() {
    let overlay = "apiVersion: karpenter.sh/v1alpha1\nkind: NodeOverlay\nmetadata: {name: fuses}\nspec:\n  \
                   requirements: [{key: karpenter.sh/capacity-type, operator: In, values: [on-demand, spot]}]\n  \
                   capacity: {example.com/fuse: '2'}\n";
    let needs = "{containers: [{name: main, image: none, resources: {requests: {cpu: 100m, example.com/fuse: '2'}}}]}";
    let pods = format!(
        "  - {{at: 10m, apply: {{apiVersion: apps/v1, kind: Deployment, metadata: {{name: fused, namespace: shop}}, spec: \
         {{replicas: 2, selector: {{matchLabels: {{app: fused}}}}, template: {{metadata: {{labels: {{app: fused}}}}, \
         spec: {needs}}}}}}}}}\n"
    );
    let outcome = story(&format!("{CLUSTER}---\n{overlay}"), &pods);
    assert_eq!(outcome.glance.waiting, 0, "each of the two has a node whose fuses it takes");
    let without = story(CLUSTER, &pods);
    assert_eq!(without.glance.waiting, 2);
}
