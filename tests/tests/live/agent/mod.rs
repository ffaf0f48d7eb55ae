//! `muster-agent` on node machines: real systemd, containerd and kubelet, a real API server, and what can go wrong.
//!
//! Needs of the world: root, for namespaces; the programs of `tests/setup`; `muster-agent`, which `cargo test --workspace`
//! builds, and `cargo build -p muster-agent` for this suite alone.

#![expect(
    clippy::panic,
    clippy::print_stdout,
    clippy::unwrap_used,
    reason = "a test that cannot go on has failed, and says what it saw"
)]

mod after;
mod again;
mod arguments;
mod before;
mod delegate;
mod faults;
mod healthy;
mod mended;
mod native;
mod scale;
mod table;

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use jiff::Timestamp;
use muster_bootstrap::Family;
use muster_bootstrap::agent_config::{AgentConfig, AgentSpec};
use muster_tests::cluster::Cluster;
use muster_tests::imds::Instance;
use muster_tests::instances::user_data::{self, NodeConfig};
use muster_tests::instances::{Node, Site};
use muster_tests::machine::{Image, Machine, Spec};
use serde_json::Value;

/// How long anything here may take. Seconds on an idle machine; this is for one that builds on all cores.
const MOST: Duration = Duration::from_secs(60);

/// The taint that Karpenter's and Muster's nodes register with.
const UNREGISTERED: &str = "karpenter.sh/unregistered:NoExecute";

/// The agent as `images/README.md` says that it gets into an image.
fn bake(spec: &mut Spec, is_native: bool) {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let (units, own) = (root.join("images"), root.join("tests/images/agent"));
    let mut put = |from: PathBuf, at: &str| spec.files.push((from, PathBuf::from(at)));
    put(program(), "/usr/bin/muster-agent");
    let system = "/etc/systemd/system";
    put(units.join("systemd/muster-agent.service"), &format!("{system}/muster-agent.service"));
    let drop_in = "kubelet.service.d/10-muster-agent.conf";
    put(units.join("systemd").join(drop_in), &format!("{system}/{drop_in}"));
    for drop_in in ["multi-user.target.d/10-muster-agent.conf", "muster-agent.service.d/10-shape.conf"] {
        let path = format!("etc/systemd/system/{drop_in}");
        put(own.join(&path), &format!("/{path}"));
    }
    if is_native {
        put(own.join("etc/muster/native"), "/etc/muster/native");
        for unit in ["muster-agent", "nodeadm-config", "nodeadm-run"] {
            let drop_in = format!("{unit}.service.d/10-muster-native.conf");
            put(units.join("native").join(&drop_in), &format!("{system}/{drop_in}"));
        }
    }
}

/// The one that `MUSTER_AGENT` names, such as an optimised one; else the one that cargo builds, one folder above the tests.
fn program() -> PathBuf {
    if let Some(path) = std::env::var_os("MUSTER_AGENT") {
        return PathBuf::from(path);
    }
    let own = std::env::current_exe().unwrap();
    let found = own.ancestors().skip(1).take(2).map(|folder| folder.join("muster-agent")).find(|it| it.is_file());
    found.unwrap_or_else(|| {
        panic!("there is no `muster-agent` beside the tests\n\nhint: run `cargo build -p muster-agent`")
    })
}

/// User data of AL2023 with the agent's document in it.
fn user_data(cluster: &Cluster, config: &NodeConfig, agent: AgentSpec) -> Vec<u8> {
    let text = String::from_utf8(user_data::al2023(cluster, config).unwrap()).unwrap();
    AgentConfig::new(agent).put(Family::Al2023, &text).unwrap().into_bytes()
}

/// The same with a piece replaced, which must be there.
fn replaced(bytes: &[u8], from: &str, to: &str) -> Vec<u8> {
    let text = String::from_utf8(bytes.to_vec()).unwrap();
    assert!(text.contains(from), "no `{from}` in\n{text}");
    text.replace(from, to).into_bytes()
}

/// Boots an AL2023 machine with the agent in its image.
async fn boot(site: &Site, instance: Instance, change: impl FnOnce(&mut Spec)) -> Node {
    let baked = |spec: &mut Spec| {
        bake(spec, false);
        change(spec);
    };
    site.boot(instance, Image::Al2023, baked).await.unwrap()
}

/// The agent's report, as anyone on the machine may read it.
async fn report(machine: &Machine) -> Value {
    let text = machine.run(["cat", "/run/muster/status.json"]).await.unwrap();
    serde_json::from_str(&text).unwrap()
}

/// Waits until the agent says something, and says how long it took.
async fn says(machine: &Machine, words: &str) -> Duration {
    let start = Instant::now();
    if let Err(error) = machine.journal().line(words, MOST).await {
        let journal: Vec<String> = machine.journal().lines();
        let of_agent: Vec<&String> = journal.iter().filter(|line| line.contains("muster-agent")).collect();
        panic!("{error}\n--- the agent\n{of_agent:#?}\n--- journal\n{}", machine.journal().tail(60));
    }
    start.elapsed()
}

/// The finding of this code in a report.
fn finding<'r>(report: &'r Value, code: &str) -> &'r Value {
    let findings = report["findings"].as_array().unwrap();
    findings.iter().find(|it| it["code"] == code).unwrap_or_else(|| panic!("no {code} in {report:#}"))
}

/// Findings that are an error or a warning.
fn faults(report: &Value) -> Vec<&Value> {
    report["findings"].as_array().unwrap().iter().filter(|it| it["severity"] != "info").collect()
}

/// A time of a report.
fn time(value: &Value) -> Timestamp {
    value.as_str().unwrap_or_default().parse().unwrap_or_else(|_| panic!("`{value}` is no time"))
}
