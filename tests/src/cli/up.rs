//! `up`: a world for a person.

use std::collections::BTreeMap;
use std::io::Write;
use std::time::Duration;

use serde_json::json;
use tokio::signal::unix::{Signal, SignalKind, signal};

use super::arguments::Format;
use super::parts::{Ground, Parts, timed};
use super::{machines, print_json, progress};
use crate::error::Result;
use crate::instances::Node;
use crate::machine::METADATA;

/// The owner in the ledger, by which `down` knows whom to end.
pub(super) const OWNER: &str = "up";

/// How often `up` looks whether its servers live. A person reads a message within that time.
const LOOK: Duration = Duration::from_secs(2);

/// Ctrl-C, `down`, a terminal that was closed.
pub(super) struct Told([Signal; 3]);

impl Told {
    pub(super) fn listen() -> Result<Self> {
        Ok(Self([signal(SignalKind::interrupt())?, signal(SignalKind::terminate())?, signal(SignalKind::hangup())?]))
    }

    /// Waits until we are told to end.
    pub(super) async fn come(&mut self) {
        let [interrupt, terminate, hang_up] = &mut self.0;
        tokio::select! {
            _ = interrupt.recv() => {}
            _ = terminate.recv() => {}
            _ = hang_up.recv() => {}
        }
    }
}

/// Starts everything and `count` machines, prints how to use it, and stays until it is told to end or a server dies.
pub(super) async fn run(out: &mut dyn Write, format: Format, count: u32) -> Result<()> {
    // Before anything is made: from here on Ctrl-C takes everything down.
    let mut told = Told::listen()?;
    let mut parts = tokio::select! {
        parts = Parts::start(OWNER, count > 0) => parts?,
        () = told.come() => return Ok(()),
    };
    let stayed = tokio::select! {
        stayed = stay(out, format, &mut parts, count) => stayed,
        () = told.come() => Ok(()),
    };
    progress("taking everything down");
    let ended = parts.end().await;
    stayed.and(ended)
}

/// Ends only with an error: when a machine does not join, or a server dies.
async fn stay(out: &mut dyn Write, format: Format, parts: &mut Parts, count: u32) -> Result<()> {
    let mut nodes = Vec::new();
    if let Ground::Site(_, bridge) = &parts.ground
        && count > 0
    {
        let who = parts.ec2.credentials("person");
        let launch = machines::launch(&parts.ec2, &who, &parts.cluster, bridge, count);
        nodes = timed(&mut parts.times, "machines", launch).await?;
    }
    show(out, format, parts, &nodes)?;
    out.flush()?;
    let mut look = tokio::time::interval(LOOK);
    loop {
        look.tick().await;
        parts.check()?;
    }
}

fn show(out: &mut dyn Write, format: Format, parts: &Parts, nodes: &[Node]) -> Result<()> {
    let (world, kubeconfig, ec2) = (parts.world(), parts.cluster.kubeconfig(), &parts.ec2);
    let person = ec2.environment(&ec2.credentials("person"));
    let servers = parts.servers();
    let network = match &parts.ground {
        Ground::Loopback(..) => None,
        Ground::Site(site, _) => Some(site.fabric().namespace()),
    };
    if format.is_json() {
        let machine = |node: &Node| {
            let machine = &node.machine;
            json!({
                "instanceId": machine.spec().instance_id, "node": machine.spec().host_name, "pid": machine.pid(),
                "console": machine.console().path(), "journal": machine.journal().path(),
            })
        };
        let world = json!({
            "apiVersion": "muster.dev/v1", "kind": "World", "name": world.number(), "kubeconfig": kubeconfig,
            "endpoint": ec2.endpoint(), "environment": person.iter().cloned().collect::<BTreeMap<_, _>>(),
            "networkNamespace": network, "folder": world.folder(), "logs": world.logs(), "servers": servers,
            "machines": nodes.iter().map(machine).collect::<Vec<_>>(),
        });
        return print_json(out, &world);
    }
    writeln!(out, "\nworld {}\n", world.number())?;
    writeln!(out, "  kubectl ──► API server ◄── scheduler, controllers")?;
    writeln!(out, "                │   │  ▲")?;
    writeln!(out, "              etcd  │  └── KWOK: Nodes with the annotation kwok.x-k8s.io/node: fake")?;
    writeln!(out, "                    └───── instances: systemd, containerd, kubelet ◄── metadata at {METADATA}")?;
    writeln!(out, "                             ▲ launched, ended")?;
    writeln!(out, "  aws, SDK ──► EC2 with faults ({}/_muster) ──► moto\n", ec2.endpoint())?;
    match network {
        Some(name) => writeln!(out, "  in network namespace `{name}`; instances of AL2 and AL2023 images boot\n")?,
        None => writeln!(out, "  on loopback: no metadata, and no instance ever boots\n")?,
    }
    for server in servers {
        writeln!(out, "  {:<32} process {}", server.name, server.pid)?;
    }
    for node in nodes {
        let spec = node.machine.spec();
        let inside = node.machine.pid().map(|pid| format!("nsenter --all --target {pid} bash")).unwrap_or_default();
        writeln!(out, "  {:<32} {}   {inside}", spec.host_name, spec.instance_id)?;
    }
    writeln!(out, "  {:<32} {}\n", "logs", world.logs().display())?;
    writeln!(out, "export KUBECONFIG={}", kubeconfig.display())?;
    for (name, value) in person {
        writeln!(out, "export {name}={value}")?;
    }
    writeln!(out, "\nCtrl-C, or `muster-tests down`, ends it and leaves nothing behind.")?;
    Ok(())
}
