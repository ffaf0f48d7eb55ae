//! Faults that are there before the kubelet starts: named, told on the console, and the kubelet is held back.

use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use futures::StreamExt;
use jiff::SignedDuration;
use k8s_openapi::api::core::v1::Node as KubeNode;
use kube::Api;
use kube::api::{DeleteParams, PostParams};
use muster_tests::instances::Site;
use muster_tests::wait::{self, Selection};
use muster_tests::{Ground as Needs, on_site_for};
use serde_json::json;

use super::faults::{BLACK_HOLE, Cause, FAULTS, Fault, Ground};
use super::table::Took;
use super::{MOST, boot, finding, report, time};

/// All faults on one site.
const LONG: Duration = Duration::from_secs(600);
/// Machines at a time.
const AT_ONCE: usize = 3;
/// The clock of the world against the machines'.
pub(crate) const AHEAD: SignedDuration = SignedDuration::from_mins(20);

/// Boots a machine with a fault, waits for the verdict on its console, checks that no Node came, and says how long it
/// took: from the start of the agent, or from when a script had done its harm.
pub(crate) async fn named(site: &Arc<Site>, fault: &Fault) -> Result<Took> {
    let ground = Ground::of(site.cluster().unwrap());
    let code = fault.code;
    let nodes: Api<KubeNode> = Api::all(ground.cluster.client());
    let mut instance = site.instance();
    instance.user_data = Some(ground.with(&fault.cause));
    if let Cause::Instance(change) = &fault.cause {
        change(&mut instance);
    }
    let (name, id) = (instance.host_name.clone(), instance.instance_id.clone());
    if matches!(fault.cause, Cause::StaleNode) {
        let object = json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": name},
                            "spec": {"providerID": "aws:///us-west-2a/i-00000000000000000"}});
        nodes.create(&PostParams::default(), &serde_json::from_value(object).unwrap()).await.unwrap();
    }
    let node = boot(site, instance, |spec| {
        if let Cause::Machine(change) = &fault.cause {
            change(spec);
        }
    })
    .await;
    if matches!(fault.cause, Cause::NoAccess) {
        site.authenticator().refuse(&id);
    }
    let line = node.machine.console().line(&format!("MUSTER-AGENT VERDICT code={code} "), MOST).await;
    let line = line.with_context(|| format!("{code}\n--- journal\n{}", node.machine.journal().tail(80)))?;
    assert!(line.contains(" message=") && line.contains(" fix="), "{line}");
    // nodeadm waits a minute for metadata that is turned off, and nothing after it starts meanwhile.
    if code != "ID02" {
        node.machine.booted(MOST).await.unwrap();
    }
    let none = |nodes: &[KubeNode]| {
        let providers = nodes.iter().filter_map(|node| node.spec.as_ref()?.provider_id.as_deref());
        !providers.into_iter().any(|provider| provider.ends_with(&id))
    };
    wait::stays(nodes.clone(), Selection::named(&name), Duration::from_millis(500), "no Node", none).await.unwrap();
    let found = report(&node.machine).await;
    let said = finding(&found, code);
    assert!(!said["fix"].as_str().unwrap().is_empty());
    let visible = match fault.cause {
        Cause::Script(_) => node.machine.run(["cat", "/run/fault"]).await.unwrap().trim().parse().unwrap(),
        _ => time(&found["phases"][0]["began"]),
    };
    let after = time(&said["since"]).duration_since(visible).max(SignedDuration::ZERO);
    site.terminate(node).await.unwrap();
    if matches!(fault.cause, Cause::StaleNode) {
        let _gone_with_its_instance = nodes.delete(&name, &DeleteParams::default()).await;
    }
    Ok(Took { what: fault.what, code, after: after.unsigned_abs() })
}

#[test]
fn faults_of_the_boot_are_named_and_hold_the_kubelet_back() {
    on_site_for(LONG, "before", Needs::Cluster, async |case| {
        let site = case.site();
        site.fabric().swallow(BLACK_HOLE.parse().unwrap()).await.unwrap();
        let all = futures::stream::iter(FAULTS).map(|fault| named(site, fault)).buffered(AT_ONCE);
        // All of them, whatever becomes of one.
        let all: Vec<Result<Took>> = all.inspect(|it| it.iter().for_each(|took| println!("{took}"))).collect().await;
        let failed: Vec<String> = all.into_iter().filter_map(Result::err).map(|error| format!("{error:#}")).collect();
        assert!(failed.is_empty(), "{}", failed.join("\n\n"));
    });
}

/// The fault of a whole world: its clocks are ahead of the machines'.
pub(crate) const CLOCK: Fault = Fault { code: "ID12", what: "a clock twenty minutes off", cause: Cause::None };

#[test]
fn a_clock_that_is_wrong_is_named() {
    on_site_for(LONG, "clock", Needs::ClusterAhead(AHEAD), async |case| {
        println!("{}", named(case.site(), &CLOCK).await.unwrap());
    });
}

#[test]
fn what_is_mended_lets_the_kubelet_start() {
    on_site_for(LONG, "mended", Needs::Cluster, async |case| {
        let site = case.site();
        let mut instance = site.instance();
        instance.user_data = Some(Ground::of(site.cluster().unwrap()).with(&Cause::None));
        let id = instance.instance_id.clone();
        let whole = instance.clone();
        let node = boot(site, instance, |_| {}).await;
        site.authenticator().refuse(&id);
        node.machine.console().line("MUSTER-AGENT VERDICT code=AU01 ", MOST).await.unwrap();
        node.machine.journal().line("muster-agent keeps the kubelet from starting: AU01", MOST).await.unwrap();
        // The access entry is made, and nothing is done on the node.
        let start = Instant::now();
        site.authenticator().admit(&whole);
        node.machine.journal().line("Successfully registered node", MOST).await.unwrap();
        println!("registered {:?} after the access entry was made", start.elapsed());
        site.terminate(node).await.unwrap();
    });
}
