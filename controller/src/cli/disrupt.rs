//! `muster disrupt`: the nodes that would be disrupted now, and the reasons why others stay.

mod document;
mod text;

use std::io::Write;

use jiff::Timestamp;
use muster_scheduling::disrupt::{Decision, DisruptionInput, Settings, decide};
use muster_scheduling::validate_disruption;

use self::document::DisruptionDocument;
pub(crate) use self::document::{BlockedNode, CommandDocument, with_pods};
use super::failure::Failure;
use super::inputs::Inputs;
use super::output::{Format, write_document};
use super::palette::Palette;
use super::plan::{timed, violations};
use super::progress::Progress;
use super::refused;
use super::settings::DisruptSettings;

/// Decision that passed validation, with the times that both took in seconds.
#[derive(Debug)]
pub(crate) struct Verdict {
    pub(crate) decision: Decision,
    pub(crate) decide_seconds: f64,
    pub(crate) validate_seconds: f64,
}

/// Prints the decision for `inputs`.
pub(crate) fn print(
    out: &mut dyn Write,
    settings: &DisruptSettings,
    inputs: &Inputs,
    progress: &mut Progress,
    palette: Palette,
) -> Result<(), Failure> {
    let DisruptSettings { sources: _, packing, first, move_price, refused, now, format } = settings;
    let mut input = inputs.managed_nodes.disruption_input(&inputs.problem);
    input.problem.refuse(&refused::read(refused, &inputs.problem)?);
    let choices = Settings { move_price: *move_price, ..packing.disruption(*first) };
    let verdict = judge(&input, *now, &choices, progress)?;
    let document = DisruptionDocument::new(&input, &verdict, *now, &inputs.price_source.plain);
    match format {
        Format::Table => {
            out.write_all(text::render(&document, palette).as_bytes())?;
            out.write_all(inputs.price_source.line(palette).as_bytes())?;
        }
        Format::Data(format) => write_document(out, &document, *format)?,
    }
    Ok(())
}

/// Decides for `input`.
///
/// # Errors
/// [`Failure::InvalidPlan`] if the validator disagrees.
pub(crate) fn judge(
    input: &DisruptionInput,
    now: Timestamp,
    settings: &Settings,
    progress: &mut Progress,
) -> Result<Verdict, Failure> {
    progress.stage(&format!("deciding about {} nodes", input.managed_nodes.iter().flatten().count()));
    let (decision, decide_seconds) = timed(|| decide(input, now, settings));
    progress.stage("validating the decision");
    let (found, validate_seconds) = timed(|| validate_disruption(input, now, settings, &decision));
    progress.clear();
    violations(&found)?;
    Ok(Verdict { decision, decide_seconds, validate_seconds })
}
