//! `muster simulate`: a simulated day of a cluster in virtual time.

mod document;
mod story;
mod text;

use std::cell::RefCell;
use std::io::{Write, stdin};
use std::panic::resume_unwind;
use std::sync::mpsc::channel;
use std::thread;

use jiff::Timestamp;
use muster_manifest::snapshot::{DeviceSettings, Settings};
use muster_manifest::{self as manifest, Fault, InputError, NodeClass};
use muster_scheduling::disrupt;
use muster_simulate::objects::{MOST, check, default_classes};
use muster_simulate::trace::Entry;
use muster_simulate::{
    Glance, Misdeed, Outcome, Policy, Remark, Script, Setting, Written, default_day, play, read_script, rehearse,
};
use muster_stages::provision;
use serde_json::Value;

use self::document::SimulationDocument;
use self::story::Story;
use super::failure::Failure;
use super::inputs::{refuse_expressions, report};
use super::output::{DataFormat, Format, write_document};
use super::palette::Palette;
use super::progress::Progress;
use super::settings::{Packing, SimulateSettings};
use super::types::Supply;

/// Observer of a day.
type Watch<'w> = dyn FnMut(&Entry, &Glance) + 'w;

/// Plays a day and prints it; `now` is the time to which the age of prices is computed. The outer error means that it
/// could not be played, the inner one that a rule was broken.
pub(crate) fn print(
    out: &mut dyn Write,
    settings: &SimulateSettings,
    now: Timestamp,
    progress: &mut Progress,
    stdout: Palette,
    stderr: Palette,
) -> Result<Result<(), Failure>, Failure> {
    let SimulateSettings { files, packing, script, seed, format, .. } = settings;
    let supply = Supply::open(&settings.catalogue, progress)?;
    progress.stage("reading manifests");
    let (mut manifests, mut objects) = manifest::read_with_raw(files, &mut stdin().lock(), &check)?;
    let written =
        script.as_ref().map(|file| read_script(manifest::read_one(file, &mut stdin().lock())?)).transpose()?;
    let script = written.as_ref().map_or_else(|| default_day(&objects), |written| written.script.clone());
    let remarks =
        rehearsed(&script, &objects, &supply).map_err(|misdeed| refusal(misdeed, &script, written.as_ref()))?;
    if settings.prints_script {
        progress.clear();
        return print_script(out, &script, *format).map(Ok);
    }
    objects.extend(default_classes(&objects, &script));
    let Packing { options, gates, aws_gates, gate_warnings, scheduler_config } = packing;
    let default_spread = scheduler_config.as_deref().map(manifest::read_scheduler_config).transpose()?;
    progress.clear();
    let said = |remark: &Remark| written.as_ref().map(|written| said(remark, written));
    let refused = refuse_expressions(&mut manifests.node_classes, *aws_gates);
    let told =
        remarks.iter().filter_map(said).chain(gate_warnings.iter().chain(supply.warnings()).cloned()).chain(refused);
    report(&manifests, &told.collect::<Vec<_>>(), stderr);
    let snapshot = Settings {
        gates: gates.of_files(),
        default_spread: default_spread.unwrap_or_default(),
        legacy_node_repair: false,
        reboot_for_repair: aws_gates.reboot_for_repair,
        // The simulated scheduler does not allocate devices.
        devices: DeviceSettings::default(),
    };
    let types = |class: Option<&NodeClass>| supply.types(class);
    let setting = |policy: Policy, script: Script| Setting {
        objects: objects.clone(),
        types: &types,
        classes: &manifests.node_classes,
        snapshot: snapshot.clone(),
        provision: provision::Settings { packing: *options, ..provision::Settings::default() },
        disruption: disrupt::Settings {
            move_price: settings.move_price,
            payback: settings.payback,
            ..packing.disruption(false)
        },
        policy,
        script,
        seed: *seed,
    };
    let mut story = Story::new(script.start());
    let is_told = *format == Format::Table;
    let shown = RefCell::new(progress);
    let first = || {
        let mut failed = None;
        let outcome = play(setting(Policy::Muster, script.clone()), &mut |entry, glance| {
            let mut progress = shown.borrow_mut();
            progress.clear();
            if is_told && failed.is_none() {
                let lines = story.tell(entry, glance);
                failed = lines.iter().find_map(|line| writeln!(out, "{}", line.painted(stdout)).err());
            }
            progress.advance(|| text::status(entry.at, glance));
        })?;
        failed.map_or(Ok(outcome), |error| Err(error.into()))
    };
    let rival = |watch: &mut Watch<'_>| play(setting(Policy::KarpenterLike, script.clone()), watch);
    let (outcome, rival) = side_by_side(first, settings.compares.then_some(rival), |at, glance| {
        shown.borrow_mut().advance(|| format!("again, Karpenter-like: {}", text::status(at, glance)));
    })?;
    let progress = shown.into_inner();
    progress.clear();
    let price_source = supply.price_source(manifests.node_classes.iter(), now);
    let document = SimulationDocument::new(&outcome, rival.as_ref(), *seed, price_source);
    match format {
        Format::Table => end(out, &mut story, &document, stdout)?,
        Format::Data(format) => write_document(out, &document, *format)?,
    }
    Ok(verdict(&outcome))
}

/// Goes through the script before the day, and returns the warnings about it.
fn rehearsed(script: &Script, objects: &[Value], supply: &Supply) -> Result<Vec<Remark>, Misdeed> {
    let remarks = rehearse(script, objects)?;
    // The default class has every zone.
    script.check_offerings(supply.types(None).types())?;
    Ok(remarks)
}

/// Plays the day, and beside it that of `rival`. Once the first day is over, `wait` is called with the state of the
/// other one.
fn side_by_side(
    first: impl FnOnce() -> Result<Outcome, Failure>,
    rival: Option<impl FnOnce(&mut Watch<'_>) -> Result<Outcome, InputError> + Send>,
    mut wait: impl FnMut(Timestamp, &Glance),
) -> Result<(Outcome, Option<Outcome>), Failure> {
    let (state_tx, state_rx) = channel();
    thread::scope(move |scope| {
        let rival = rival.map(|play| {
            scope.spawn(move || {
                play(&mut |entry, glance| {
                    // The first day may have failed.
                    let _ = state_tx.send((entry.at, *glance));
                })
            })
        });
        let outcome = first()?;
        let Some(rival) = rival else { return Ok((outcome, None)) };
        while let Ok(state) = state_rx.recv() {
            let (at, glance) = state_rx.try_iter().last().unwrap_or(state);
            wait(at, &glance);
        }
        let rival = rival.join().unwrap_or_else(|panic| resume_unwind(panic))?;
        Ok((outcome, Some(rival)))
    })
}

/// Prints the script in place of the day.
fn print_script(out: &mut dyn Write, script: &Script, format: Format) -> Result<(), Failure> {
    let format = if let Format::Data(format) = format { format } else { DataFormat::Yaml };
    write_document(out, &script.document(), format)
}

/// Prints the end of the day, and its bill.
fn end(out: &mut dyn Write, story: &mut Story, document: &SimulationDocument, stdout: Palette) -> Result<(), Failure> {
    for line in story.end() {
        writeln!(out, "{}", line.painted(stdout))?;
    }
    Ok(out.write_all(text::summary(document, stdout).as_bytes())?)
}

/// Returns the error for a script that cannot be played.
fn refusal(misdeed: Misdeed, script: &Script, written: Option<&Written>) -> Failure {
    match (misdeed, written) {
        (Misdeed::Crowd(crowd), _) => Failure::Usage(format!(
            "`-f`: the manifests come to {crowd} pods and static nodes\n\nhint: a day is played with at most {MOST} at once"
        )),
        (Misdeed::Event { number, fault }, Some(written)) => written.refuse(number, *fault).into(),
        (Misdeed::Event { number, fault }, None) => {
            let deed = script.text_of(number);
            let Fault { problem, hint, .. } = *fault;
            Failure::Usage(format!("the default day: `{deed}` {problem}\n\nhint: {hint}, or give a `--script`"))
        }
    }
}

fn said(Remark { number, text }: &Remark, written: &Written) -> String {
    format!("{}: {}.apply: {text}", written.file(), written.event(*number))
}

/// Returns an error if a rule was broken. This is a bug of Muster or of the simulator, and must not go unnoticed.
fn verdict(outcome: &Outcome) -> Result<(), Failure> {
    let broken: Vec<String> = outcome.broken().map(str::to_owned).collect();
    if broken.is_empty() { Ok(()) } else { Err(Failure::BrokenRules(broken)) }
}

/// Formats the current state for the progress line.
fn standing(glance: &Glance) -> String {
    let Glance { nodes, placed, waiting, price } = glance;
    let waiting = if *waiting > 0 { format!(", {waiting} waiting") } else { String::new() };
    format!("{nodes} nodes, {placed} pods{waiting}, ${price:.2}/h")
}
