//! `muster nodes`: the lifecycle phase of each node, and its agent's report.

mod document;
mod text;

use std::collections::BTreeSet;
use std::io::Write;

use jiff::Timestamp;
use muster_api::likeness;
use muster_manifest::Manifests;
use muster_stages::roster::{self, Member};

#[cfg(feature = "cluster")]
pub(crate) use self::document::NodeDocument;
use self::document::NodesDocument;
pub(crate) use self::document::{AgentDocument, FaultDocument, StandDocument};
pub(crate) use self::text::{fault, meanings, span};
use super::failure::Failure;
use super::inputs::read_nodes;
use super::output::{Format, write_document};
use super::palette::Palette;
use super::progress::Progress;
use super::settings::NodesSettings;

/// Maximum number of similar names in the hint of an unknown name.
const SIMILAR: usize = 3;

/// Prints the nodes that `settings` select.
pub(crate) fn print(
    out: &mut dyn Write,
    settings: &NodesSettings,
    progress: &mut Progress,
    palette: Palette,
    stderr: Palette,
) -> Result<(), Failure> {
    let NodesSettings { cluster, files, pools, wide, now, format } = settings;
    let manifests = read_nodes(cluster.as_ref(), files, progress, stderr)?;
    let document = shown(&manifests, pools, *now)?;
    match format {
        Format::Table => out.write_all(text::render(&document, *wide, *now, palette).as_bytes())?,
        Format::Data(format) => write_document(out, &document, *format)?,
    }
    Ok(())
}

/// Returns the document of the nodes of these pools, or of all if `pools` is empty.
pub(crate) fn shown(manifests: &Manifests, pools: &[String], now: Timestamp) -> Result<NodesDocument, Failure> {
    let mut members = roster::members(manifests);
    if !pools.is_empty() {
        check_pools(pools, manifests, &members)?;
        members.retain(|member| member.pool.as_ref().is_some_and(|pool| pools.iter().any(|it| **it == **pool)));
    }
    Ok(NodesDocument::new(&members, now))
}

/// Returns an error for a pool that neither exists nor has nodes, which is a typo rather than an empty pool.
fn check_pools(wanted: &[String], manifests: &Manifests, members: &[Member]) -> Result<(), Failure> {
    let of_members = members.iter().filter_map(|member| member.pool.as_deref());
    let known: BTreeSet<&str> = manifests.node_pools.iter().map(|pool| &*pool.meta.name).chain(of_members).collect();
    let Some(unknown) = wanted.iter().find(|name| !known.contains(name.as_str())) else { return Ok(()) };
    let similar = likeness::similar(known.iter().copied(), unknown).into_iter().take(SIMILAR);
    let names: Vec<String> = similar.map(|other| format!("`{other}`")).collect();
    let hint = match (names.as_slice(), known.is_empty()) {
        ([_, ..], _) => format!("did you mean {}?", names.join(", ")),
        ([], true) => "there is no NodePool in the input, and no node of one".to_owned(),
        ([], false) => {
            let first: Vec<String> = known.iter().take(SIMILAR).map(|name| format!("`{name}`")).collect();
            format!("there is {}{}", first.join(", "), if known.len() > SIMILAR { ", …" } else { "" })
        }
    };
    Err(Failure::Usage(format!("there is no NodePool `{unknown}` in the input\n\nhint: {hint}")))
}
