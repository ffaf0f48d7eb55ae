//! A machine without Kubernetes.

use std::time::Instant;

use muster_tests::machine::{Image, Shape};
use muster_tests::{Ground, on_site};

use super::MOST;

#[test]
fn a_machine_boots_and_is_gone_when_its_plug_is_pulled() {
    on_site("bare", Ground::Network, async |case| {
        let site = case.site();
        let before = site.world().ledger().entries().len();
        let start = Instant::now();
        let shape = Shape { cpus: 96, memory_mib: 380_000, ..Shape::default() };
        let node = site.boot(site.instance(), Image::Bare, |spec| spec.shape = shape).await.unwrap();
        println!("made in {:?}", start.elapsed());
        node.machine.booted(MOST).await.unwrap();
        println!("booted in {:?}", start.elapsed());

        assert_eq!(node.machine.run(["systemctl", "is-system-running"]).await.unwrap(), "running\n");
        assert_eq!(node.machine.run(["hostname"]).await.unwrap(), format!("{}\n", node.served.instance.host_name));
        assert_eq!(node.machine.run(["getconf", "_NPROCESSORS_ONLN"]).await.unwrap(), "96\n");
        node.machine.console().line("Reached target multi-user.target", MOST).await.unwrap();
        node.machine.run(["logger", "-t", "probe", "the journal is heard"]).await.unwrap();
        node.machine.journal().line("the journal is heard", MOST).await.unwrap();

        let start = Instant::now();
        site.terminate(node).await.unwrap();
        println!("gone in {:?}", start.elapsed());
        let left = site.world().ledger().entries();
        assert_eq!(left.len(), before, "what a machine made is gone with it: {left:?}");
    });
}
