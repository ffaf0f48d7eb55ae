//! `status` and `down`: the worlds of this machine, from their ledgers.

use std::io::Write;
use std::time::Duration;

use serde_json::json;

use super::arguments::Format;
use super::{Verdict, print_json, table, up};
use crate::error::{Error, Result};
use crate::ledger::{Root, Swept, WorldState, sweep, worlds};
use crate::process::Signal;

/// How long a world may take to come down by itself: each server has its seconds.
const DOWN: Duration = Duration::from_secs(30);

/// Shows all worlds.
pub(super) fn status(out: &mut dyn Write, format: Format) -> Result<()> {
    let states = worlds(&Root::of_this_machine()?)?;
    if format.is_json() {
        let items: Vec<_> = states.iter().map(document).collect();
        return print_json(out, &json!({"apiVersion": "muster.dev/v1", "kind": "WorldList", "items": items}));
    }
    if states.is_empty() {
        return Ok(writeln!(out, "no world on this machine")?);
    }
    let rows: Vec<[String; 5]> = states.iter().map(row).collect();
    table::print(out, ["WORLD", "OWNER", "PROCESS", "STATE", "HAS MADE"], &rows)?;
    if states.iter().any(|state| !state.is_alive) {
        writeln!(out, "\nThe next start removes what dead worlds left; so does `muster-tests down`.")?;
    }
    Ok(())
}

/// Ends worlds, and removes what dead ones left. The answer is "no" if anything resisted.
pub(super) fn down(out: &mut dyn Write, only: &[String]) -> Result<Verdict> {
    let root = Root::of_this_machine()?;
    let states = worlds(&root)?;
    // Before anything is ended: of a list with a mistake in it nothing is done.
    if let Some(name) = only.iter().find(|name| !states.iter().any(|state| state.number == **name)) {
        return Err(Error::NoWorld(name.clone()));
    }
    let mut resisted = false;
    for state in &states {
        let Some(header) = state.header.as_ref().filter(|_| state.is_alive) else { continue };
        let is_meant = if only.is_empty() { header.owner == up::OWNER } else { only.contains(&state.number) };
        if !is_meant {
            continue;
        }
        header.process.signal(Signal::SIGTERM);
        if header.process.wait_end(DOWN) {
            writeln!(out, "ended world `{}` of {}", state.number, header.owner)?;
        } else {
            // It is swept like any that was killed.
            header.process.signal(Signal::SIGKILL);
            resisted |= !header.process.wait_end(DOWN);
            writeln!(out, "killed world `{}` of {}: it did not end in time", state.number, header.owner)?;
        }
    }
    for Swept { number, owner, things, problems } in sweep(&root)? {
        let owner = owner.as_deref().unwrap_or("somebody");
        writeln!(out, "removed what world `{number}` of {owner} had left: {things} things")?;
        for problem in &problems {
            writeln!(out, "still there: {problem}")?;
        }
        resisted |= !problems.is_empty();
    }
    Ok(if resisted { Verdict::No } else { Verdict::Yes })
}

fn row(state: &WorldState) -> [String; 5] {
    let header = state.header.as_ref();
    let unknown = || "-".to_owned();
    [
        state.number.clone(),
        header.map_or_else(unknown, |header| header.owner.clone()),
        header.map_or_else(unknown, |header| header.process.pid.to_string()),
        if state.is_alive { "alive" } else { "dead" }.to_owned(),
        format!("{} things", state.entries.len()),
    ]
}

fn document(state: &WorldState) -> serde_json::Value {
    let header = state.header.as_ref();
    json!({
        "name": state.number,
        "owner": header.map(|header| &header.owner),
        "pid": header.map(|header| header.process.pid),
        "alive": state.is_alive,
        "things": state.entries.iter().map(|entry| entry.thing.to_string()).collect::<Vec<_>>(),
    })
}
