//! `up`: a world for a person.

use std::collections::BTreeMap;
use std::io::Write;
use std::time::Duration;

use serde_json::json;
use tokio::signal::unix::{SignalKind, signal};

use super::arguments::Format;
use super::parts::Parts;
use super::{print_json, progress};
use crate::error::Result;

/// The owner in the ledger, by which `down` knows whom to end.
pub(super) const OWNER: &str = "up";

/// How often `up` looks whether its servers live. A person reads a message within that time.
const LOOK: Duration = Duration::from_secs(2);

/// Starts everything, prints how to use it, and stays until it is told to end or a server dies.
pub(super) async fn run(out: &mut dyn Write, format: Format) -> Result<()> {
    // Before anything is made: from here on Ctrl-C takes everything down.
    let mut interrupt = signal(SignalKind::interrupt())?;
    let mut terminate = signal(SignalKind::terminate())?;
    let mut hang_up = signal(SignalKind::hangup())?;
    let mut parts = tokio::select! {
        parts = Parts::start(OWNER) => parts?,
        _ = interrupt.recv() => return Ok(()),
        _ = terminate.recv() => return Ok(()),
        _ = hang_up.recv() => return Ok(()),
    };
    show(out, format, &parts)?;
    out.flush()?;
    let mut look = tokio::time::interval(LOOK);
    let died = loop {
        tokio::select! {
            _ = interrupt.recv() => break Ok(()),
            _ = terminate.recv() => break Ok(()),
            _ = hang_up.recv() => break Ok(()),
            _ = look.tick() => if let Err(died) = parts.check() { break Err(died) },
        }
    };
    progress("taking everything down");
    parts.end()?;
    died
}

fn show(out: &mut dyn Write, format: Format, parts: &Parts) -> Result<()> {
    let Parts { world, cluster, plane, kwok, moto, ec2, times: _ } = parts;
    let person = ec2.environment(&ec2.credentials("person"));
    let servers = plane.iter().flat_map(|plane| plane.servers()).chain([kwok.server()]);
    let mut servers: Vec<_> = servers.map(|it| (it.name(), it.id().pid, it.log())).collect();
    servers.extend(moto.pid().map(|pid| ("moto", pid, moto.log())));
    if format.is_json() {
        let servers: Vec<_> =
            servers.iter().map(|(name, pid, log)| json!({"name": name, "pid": pid, "log": log})).collect();
        let world = json!({
            "apiVersion": "muster.dev/v1", "kind": "World", "name": world.number(), "kubeconfig": cluster.kubeconfig(),
            "endpoint": ec2.endpoint(), "environment": person.iter().cloned().collect::<BTreeMap<_, _>>(),
            "folder": world.folder(), "logs": world.logs(), "servers": servers,
        });
        return print_json(out, &world);
    }
    writeln!(out, "\nworld {}\n", world.number())?;
    writeln!(out, "  kubectl ──► API server ◄── scheduler, controllers")?;
    writeln!(out, "                  │  ▲")?;
    writeln!(out, "                etcd └── KWOK: Nodes with the annotation kwok.x-k8s.io/node: fake\n")?;
    writeln!(out, "  aws, SDK ──► EC2 with faults ({}/_muster) ──► moto\n", ec2.endpoint())?;
    for (name, pid, _) in servers {
        writeln!(out, "  {name:<32} process {pid}")?;
    }
    writeln!(out, "  {:<32} {}\n", "logs", world.logs().display())?;
    writeln!(out, "export KUBECONFIG={}", cluster.kubeconfig().display())?;
    for (name, value) in person {
        writeln!(out, "export {name}={value}")?;
    }
    writeln!(out, "\nCtrl-C, or `muster-tests down`, ends it and leaves nothing behind.")?;
    Ok(())
}
