//! `up`: a world for a person.

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
    let Parts { world, cluster, plane, kwok, times: _ } = parts;
    let servers = || plane.iter().flat_map(|plane| plane.servers()).chain([kwok.server()]);
    if format.is_json() {
        let servers: Vec<_> =
            servers().map(|it| json!({"name": it.name(), "pid": it.id().pid, "log": it.log()})).collect();
        let world = json!({
            "apiVersion": "muster.dev/v1", "kind": "World", "name": world.number(), "kubeconfig": cluster.kubeconfig(),
            "folder": world.folder(), "logs": world.logs(), "servers": servers,
        });
        return print_json(out, &world);
    }
    writeln!(out, "\nworld {}\n", world.number())?;
    writeln!(out, "  kubectl ──► API server ◄── scheduler, controllers")?;
    writeln!(out, "                  │  ▲")?;
    writeln!(out, "                etcd └── KWOK: Nodes with the annotation kwok.x-k8s.io/node: fake\n")?;
    for server in servers() {
        writeln!(out, "  {:<32} process {}", server.name(), server.id().pid)?;
    }
    writeln!(out, "  {:<32} {}\n", "logs", world.logs().display())?;
    writeln!(out, "export KUBECONFIG={}", cluster.kubeconfig().display())?;
    writeln!(out, "\nCtrl-C, or `muster-tests down`, ends it and leaves nothing behind.")?;
    Ok(())
}
