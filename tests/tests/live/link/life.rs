//! From the first word of a node to what becomes of it.

use std::sync::Mutex;

use jiff::{SignedDuration, Timestamp};
use kube::ResourceExt;
use muster_tests::instances::Alter;
use muster_tests::machine::Spec;
use muster_tests::{Ground as Stage, ec2, on_site_for, wait};

use super::MOST;
use super::ground::{Ground, condition, has, instance_of};

/// The instance that came first.
#[derive(Default)]
struct FirstHasSwap(Mutex<Option<String>>);

impl Alter for FirstHasSwap {
    fn machine(&self, of: &ec2::Instance, spec: &mut Spec) {
        if self.0.lock().unwrap().get_or_insert_with(|| of.id.clone()) == &of.id {
            spec.shape.swap_mib = 512;
        }
    }
}

#[test]
fn a_broken_node_is_replaced_and_a_good_one_is_ready_when_its_agent_says_so() {
    on_site_for(MOST * 5, "link", Stage::Cluster, async |case| {
        // The first machine has swap, which its kubelet refuses: nothing of that shows before it boots.
        let mut ground = Ground::new(case, FirstHasSwap::default()).await;
        ground.deploy().await;

        let is_broken = |claim: &kube::core::DynamicObject| has(claim, "NodeVerdict", "False");
        let broken = ground.claim("a NodeClaim has a verdict", is_broken).await;
        let verdict = condition(&broken, "NodeVerdict").unwrap();
        assert_eq!(verdict["reason"], "KA17", "{verdict}\n{}", ground.told());
        let message = verdict["message"].as_str().unwrap();
        assert!(message.contains("swap") && message.contains("fix: "), "{message}");
        // Conditions have whole seconds.
        let told_at: Timestamp = verdict["lastTransitionTime"].as_str().unwrap().parse().unwrap();
        let launched = condition(&broken, "Launched").unwrap();
        let launched_at: Timestamp = launched["lastTransitionTime"].as_str().unwrap().parse().unwrap();
        println!("verdict at the NodeClaim {:#} after the launch", told_at.duration_since(launched_at));
        assert!(ground.event("NodeClaim", "NodeVerdict").await.contains("KA17"));
        assert!(ground.event("NodePool", "NodeVerdict").await.contains(&broken.name_any()));
        assert!(ground.event("Pod", "NodeVerdict").await.contains(&broken.name_any()));

        // Another one comes in its place; it is ready as soon as its agent says so, and not before.
        let is_good = |claim: &kube::core::DynamicObject| {
            claim.uid() != broken.uid() && has(claim, "Initialized", "True") && has(claim, "AgentReady", "True")
        };
        let good = ground.claim("its replacement is initialized", is_good).await;
        let at = |kind: &str| condition(&good, kind).unwrap()["lastTransitionTime"].as_str().unwrap().to_owned();
        assert!(at("AgentReady") <= at("Initialized"), "the agent's word was waited for");
        assert!(condition(&good, "NodeVerdict").is_none(), "of what was never wrong nothing is said");
        let image = good.data["status"]["imageID"].as_str().unwrap();
        let booted = format!(r#"muster_node_boot_phase_seconds_count{{phase="Kubelet",image="{image}"}} 1"#);
        // Counted once the condition is written.
        let is_counted = || async { Ok(ground.metrics().await.lines().any(|line| line == booted).then_some(())) };
        wait::until_some(&booted, MOST, is_counted).await.unwrap();
        ground.bridge.gone(&instance_of(&broken), MOST).await.unwrap();
        let logs = super::kept::of_a_node_that_is_gone(&ground, &broken).await;
        super::asked::whoever_may_is_answered(&ground, (&broken, &logs), &good).await;

        // Who has the good node's evidence, and not its key, is nobody.
        super::stolen::is_of_no_use(&ground, &good).await;

        // Another controller has the keys of the one before: the node comes back by itself. What happens to a node that takes pods
        // is told, and no reason to end it.
        ground.serves().await;
        ground.restart().await;
        ground.serves().await;
        let node = ground.bridge.node(&instance_of(&good), MOST).await.unwrap();
        node.machine.run(["systemctl", "stop", "containerd"]).await.unwrap();
        let is_ill = |claim: &kube::core::DynamicObject| {
            claim.uid() == good.uid() && has(claim, "NodeVerdict", "False") && has(claim, "AgentReady", "Unknown")
        };
        let ill = ground.claim("what happens later is told", is_ill).await;
        assert!(ill.metadata.deletion_timestamp.is_none());
        node.machine.run(["systemctl", "start", "containerd"]).await.unwrap();
        let is_well = |claim: &kube::core::DynamicObject| {
            claim.uid() == good.uid() && has(claim, "NodeVerdict", "True") && has(claim, "AgentReady", "True")
        };
        let well = ground.claim("what is mended is told", is_well).await;
        assert_eq!(well.annotations()["muster.dev/agent-key"], good.annotations()["muster.dev/agent-key"]);

        // The node hears of its end before anybody else does, and has a successor before it goes.
        let end = Timestamp::now() + SignedDuration::from_mins(2);
        node.served.interrupt("terminate", end);
        drop(node);
        let is_interrupted = |claim: &kube::core::DynamicObject| {
            claim.uid() == good.uid()
                && condition(claim, "Interrupted").is_some_and(|it| it["reason"] == "SpotInterrupted")
        };
        ground.claim("the NodeClaim says that its instance is taken back", is_interrupted).await;
        let is_next =
            |claim: &kube::core::DynamicObject| claim.uid() != good.uid() && has(claim, "Initialized", "True");
        ground.claim("its successor is initialized", is_next).await;
        ground.bridge.gone(&instance_of(&good), MOST).await.unwrap();
        ground.clear().await;
    });
}
