//! From files to the engine's problem: the one place where the command line meets the readers.

use std::io::{Write, stdin};

use muster_scheduling::model::Problem;

use super::failure::Failure;
use super::palette::Palette;
use super::progress::Progress;
use super::settings::{Packing, Sources};
use super::types::Supply;
use crate::manifest::{self, DefaultSpread, Manifests, NodeClass};
use crate::snapshot::{self, Remarks, Settings, Snapshot};

/// What a command works on.
#[derive(Debug)]
pub(crate) struct Inputs {
    pub(crate) problem: Problem,
    /// What will surprise the authors of its pods.
    pub(crate) remarks: Remarks,
    /// Where the prices come from, in words.
    pub(crate) price_source: String,
}

/// Reads everything that `sources` and `packing` name.
pub(crate) fn read(
    sources: &Sources,
    packing: &Packing,
    progress: &mut Progress,
    palette: Palette,
) -> Result<Inputs, Failure> {
    let Sources { files, catalogue } = sources;
    let Packing { options: _, gates, scheduler_config } = packing;
    let catalogue = Supply::open(catalogue)?;
    let manifests = read_manifests(files, progress)?;
    let default_spread = match scheduler_config {
        Some(file) => manifest::read_scheduler_config(file)?,
        None => DefaultSpread::default(),
    };
    progress.stage("putting the cluster together");
    let settings = Settings { gates: *gates, default_spread };
    let Snapshot { problem, remarks, warnings } =
        snapshot::assemble(&manifests, &settings, &|class: Option<&NodeClass>| catalogue.types(class))?;
    progress.clear();
    report(&manifests, &warnings, palette);
    Ok(Inputs { problem, remarks, price_source: catalogue.price_source() })
}

/// Reads the manifests in `files`.
pub(crate) fn read_manifests(files: &[std::path::PathBuf], progress: &mut Progress) -> Result<Manifests, Failure> {
    progress.stage("reading manifests");
    let manifests = manifest::read(files, &mut stdin().lock())?;
    Ok(manifests)
}

/// Says on stderr what was read but not used as its author may have meant it.
fn report(manifests: &Manifests, warnings: &[String], palette: Palette) {
    let mut stderr = std::io::stderr().lock();
    for warning in manifests.warnings.iter().chain(warnings) {
        // Nobody is left to tell if stderr is closed.
        let _ = writeln!(stderr, "{}: {warning}", palette.doubtful("warning"));
    }
    for note in manifests.notes() {
        let _ = writeln!(stderr, "{}: {note}", palette.faint("note"));
    }
}
