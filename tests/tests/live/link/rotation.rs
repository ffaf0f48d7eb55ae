//! Another authority for agents, while their nodes live.

use k8s_openapi::api::core::v1::Secret;
use kube::core::DynamicObject;
use kube::{Api, ResourceExt};
use muster_link::Pins;
use muster_tests::{Ground as Stage, on_site_for, wait};

use super::MOST;
use super::ground::{Ground, has, instance_of};

const NAMESPACE: &str = "kube-system";
const SECRET: &str = "muster-agents";
const ASK: &str = "muster.dev/rotate-authority";
const ASK_FOR_LAUNCHES: &str = "muster.dev/rotate-launch-key";

/// By what agents know the authority that signs.
fn signing(secret: &Secret) -> String {
    let certificate = String::from_utf8(secret.data.as_ref().unwrap()["ca.crt"].0.clone()).unwrap();
    Pins::of_pem(&certificate).unwrap().to_string()
}

fn believes(claim: &DynamicObject, authority: &str) -> bool {
    claim.annotations().get("muster.dev/agent-pins").is_some_and(|pins| pins == authority)
}

async fn secret(ground: &Ground<'_>, what: &str, is: impl Fn(&Secret) -> bool) -> Secret {
    let secrets: Api<Secret> = Api::namespaced(ground.cluster().client(), NAMESPACE);
    wait::until(secrets, SECRET, MOST, what, is).await.unwrap_or_else(|error| panic!("{error}\n{}", ground.told()))
}

/// A fault that the node's agent tells, and its end: whoever hears of it is connected.
async fn is_heard(ground: &Ground<'_>, claim: &DynamicObject) {
    let node = ground.bridge.node(&instance_of(claim), MOST).await.unwrap();
    let is_it = |it: &DynamicObject| it.uid() == claim.uid();
    node.machine.run(["systemctl", "stop", "containerd"]).await.unwrap();
    ground.claim("what happens to a node is told", |it| is_it(it) && has(it, "NodeVerdict", "False")).await;
    node.machine.run(["systemctl", "start", "containerd"]).await.unwrap();
    ground.claim("what is mended is told", |it| is_it(it) && has(it, "AgentReady", "True")).await;
}

#[test]
fn nodes_live_on_under_another_authority() {
    on_site_for(MOST * 5, "link-rotation", Stage::Cluster, async |case| {
        let ground = Ground::new(case, ()).await;
        ground.deploy().await;
        ground.scale(2).await;
        let are_two = |all: &[DynamicObject]| all.len() == 2 && all.iter().all(|it| has(it, "Initialized", "True"));
        let both = ground.all_claims("two nodes are initialized", are_two).await;
        let [present, away] = both.as_slice() else { panic!("{both:?}") };
        let first = signing(&secret(&ground, "it is there", |_| true).await);
        assert!(both.iter().all(|it| believes(it, &first)), "what their user data say: {both:?}");

        // One of them is away while the authority is replaced.
        let machine_of = async |claim: &DynamicObject| ground.bridge.node(&instance_of(claim), MOST).await.unwrap();
        machine_of(away).await.machine.run(["systemctl", "stop", "muster-agent"]).await.unwrap();
        let ask = format!("{ASK}=please");
        ground.cluster().kubectl(&["annotate", "secret", SECRET, "-n", NAMESPACE, &ask]).await.unwrap();
        let held = secret(&ground, "another authority signs", |it| signing(it) != first).await;
        let (next, data) = (signing(&held), held.data.as_ref().unwrap());
        assert!(!held.annotations().contains_key(ASK), "it is asked for once");
        assert!(data.contains_key("trusted.crt") && data.contains_key("cross.crt") && !data.contains_key("next.key"));

        // So is what the secrets of launches are made by. Nodes that are there were told theirs.
        let launched_by = |secret: &Secret| secret.data.as_ref().unwrap()["launch.key"].clone();
        let ask = format!("{ASK_FOR_LAUNCHES}=please");
        ground.cluster().kubectl(&["annotate", "secret", SECRET, "-n", NAMESPACE, &ask]).await.unwrap();
        let other =
            secret(&ground, "secrets are made by another key", |it| launched_by(it) != launched_by(&held)).await;
        assert!(!other.annotations().contains_key(ASK_FOR_LAUNCHES), "it is asked for once");

        // Who is connected hears of it; what is launched from now on begins with it.
        let is_present = |it: &DynamicObject| it.uid() == present.uid() && believes(it, &next);
        ground.claim("the node that is connected believes the next authority alone", is_present).await;
        ground.scale(3).await;
        let is_third = |it: &DynamicObject| {
            both.iter().all(|other| other.uid() != it.uid())
                && believes(it, &next)
                && has(it, "Initialized", "True")
                && has(it, "AgentReady", "True")
        };
        ground.claim("a new node enrols under the next authority", is_third).await;
        // Started again, the agent knows from its disk whom to believe.
        machine_of(present).await.machine.run(["systemctl", "restart", "muster-agent"]).await.unwrap();
        is_heard(&ground, present).await;

        // The other one comes back: its user data know the authority that signs no more, which has vouched for the next.
        let still = secret(&ground, "it is there", |_| true).await;
        assert!(still.data.as_ref().unwrap().contains_key("cross.crt"), "it is waited for");
        machine_of(away).await.machine.run(["systemctl", "start", "muster-agent"]).await.unwrap();
        ground
            .claim("the node that was away believes it too", |it| it.uid() == away.uid() && believes(it, &next))
            .await;

        // Nobody needs the first one any more; what it has certified counts no more, and nobody is lost.
        let is_over = |it: &Secret| !it.data.as_ref().unwrap().contains_key("trusted.crt");
        let over = secret(&ground, "the first authority is forgotten", is_over).await;
        assert_eq!(signing(&over), next);
        let is_over = |it: &Secret| !it.data.as_ref().unwrap().contains_key("launch.former.key");
        let over = secret(&ground, "the first key of launches is forgotten", is_over).await;
        assert_eq!(launched_by(&over), launched_by(&other));
        for claim in [present, away] {
            machine_of(claim).await.machine.run(["systemctl", "restart", "muster-agent"]).await.unwrap();
            is_heard(&ground, claim).await;
        }
        ground.clear().await;
    });
}
