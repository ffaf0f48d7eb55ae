//! Timeline of a day, with related events on one line.

use std::fmt::Write as _;

use jiff::Timestamp;
use muster_simulate::Glance;
use muster_simulate::trace::{Entry, Event};

use super::super::palette::Palette;
use super::standing;

/// Maximum time between events of one kind on one line, in seconds.
const TOGETHER: i64 = 60;
/// Number of events that a line names; the others are counted.
const NAMED: usize = 3;

/// Style of a line.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Tone {
    Plain,
    Faint,
    Good,
    Doubtful,
    Bad,
}

/// Line of the timeline.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Line {
    at: String,
    word: &'static str,
    text: String,
    tone: Tone,
}

/// Formats events as they occur; a line is held back until it is complete.
pub(super) struct Story {
    start: Timestamp,
    held: Option<Held>,
    glance: Glance,
}

/// Events of one kind within a minute.
struct Held {
    since: Timestamp,
    word: &'static str,
    tone: Tone,
    /// Event texts and their numbers, in order of occurrence.
    things: Vec<(String, usize)>,
}

// === impl Line ===

impl Line {
    /// Formats the line for a terminal.
    pub(super) fn painted(&self, palette: Palette) -> String {
        let text = format!("{:<11} {}", self.word, self.text);
        let text = match self.tone {
            Tone::Plain => text,
            Tone::Faint => palette.faint(text),
            Tone::Good => palette.strong(text),
            Tone::Doubtful => palette.doubtful(text),
            Tone::Bad => palette.bad(text),
        };
        format!("{}  {text}", palette.faint(&self.at))
    }
}

// === impl Story ===

impl Story {
    pub(super) fn new(start: Timestamp) -> Self {
        Self { start, held: None, glance: Glance::default() }
    }

    /// Adds an event and returns the lines that are complete.
    pub(super) fn tell(&mut self, entry: &Entry, glance: &Glance) -> Vec<Line> {
        let Some((word, (thing, count), tone)) = words(&entry.event) else {
            self.glance = *glance;
            return Vec::new();
        };
        let mut lines = Vec::new();
        let goes_on = self.held.as_ref().is_some_and(|held| {
            held.word == word && word != "script" && entry.at.duration_since(held.since).as_secs() < TOGETHER
        });
        if !goes_on {
            lines.extend(self.end());
            self.held = Some(Held { since: entry.at, word, tone, things: Vec::new() });
        }
        if let Some(held) = &mut self.held {
            match held.things.iter_mut().find(|(there, _)| *there == thing) {
                Some((_, there)) => *there += count,
                None => held.things.push((thing, count)),
            }
        }
        self.glance = *glance;
        lines
    }

    /// Returns the line that was held back.
    pub(super) fn end(&mut self) -> Vec<Line> {
        let Some(held) = self.held.take() else { return Vec::new() };
        let mut text = summed(&held.things);
        if matches!(held.word, "up" | "gone") {
            let _ = write!(text, "  ({})", standing(&self.glance));
        }
        vec![Line { at: self.clock(held.since), word: held.word, text, tone: held.tone }]
    }

    /// Formats the time, with the day if it is not the first.
    fn clock(&self, at: Timestamp) -> String {
        let zoned = at.to_zoned(jiff::tz::TimeZone::UTC);
        let days = zoned.date().duration_since(self.start.to_zoned(jiff::tz::TimeZone::UTC).date()).as_hours() / 24;
        let day = if days > 0 { format!("+{days}d ") } else { String::new() };
        format!("{day}{:02}:{:02}:{:02}", zoned.hour(), zoned.minute(), zoned.second())
    }
}

/// Returns the word of an event, its text and count, and its style; `None` for events that are not shown.
fn words(event: &Event) -> Option<(&'static str, (String, usize), Tone)> {
    let one = |text: String| (text, 1);
    Some(match event {
        Event::Script { what } => ("script", one(what.clone()), Tone::Faint),
        Event::PodsCame { workload, pods } => ("pods", (workload.clone(), *pods), Tone::Plain),
        Event::Launched { instance_type, zone, capacity_type, price, .. } => {
            ("launch", one(format!("{instance_type} {capacity_type} in {zone}, ${price:.4}/h")), Tone::Plain)
        }
        Event::Refused { offerings, .. } => {
            ("refused", one(format!("no capacity of {}", offerings.join(", "))), Tone::Doubtful)
        }
        Event::Initialized { claim, seconds, .. } => ("up", one(format!("{claim} after {seconds} s")), Tone::Good),
        Event::Interrupted { claim, .. } => {
            ("interrupted", one(format!("{claim} is reclaimed in two minutes")), Tone::Doubtful)
        }
        Event::Disrupting { reason, claims, replacements, savings } => {
            let by = match replacements.len() {
                0 => String::new(),
                1 => " by 1 other".to_owned(),
                count => format!(" by {count} others"),
            };
            let saves = if *savings > 0.0 { format!(", saves ${savings:.4}/h") } else { String::new() };
            ("disrupt", one(format!("{reason}: {}{by}{saves}", claims.join(", "))), Tone::Plain)
        }
        Event::Rebooting { claim } => ("reboot", one(claim.clone()), Tone::Plain),
        Event::Gone { claim } => ("gone", one(claim.clone()), Tone::Plain),
        Event::Warned { about, reason, message } => {
            ("warning", one(format!("{about}: {reason}: {message}")), Tone::Doubtful)
        }
        Event::Stopped => ("controller", one("stops between two writes".to_owned()), Tone::Doubtful),
        Event::Back => ("controller", one("is back".to_owned()), Tone::Plain),
        Event::Broken { what } => ("BROKEN", one(what.clone()), Tone::Bad),
        Event::ClaimAndNode { .. } | Event::Joined { .. } | Event::Bound { .. } | Event::Ending { .. } => return None,
    })
}

/// Formats the events of a line, each with its number.
fn summed(things: &[(String, usize)]) -> String {
    let one = |(thing, count): &(String, usize)| match count {
        1 => thing.clone(),
        count => format!("{thing} ×{count}"),
    };
    let shown = if things.len() > NAMED + 1 { NAMED } else { things.len() };
    let mut text = things.iter().take(shown).map(one).collect::<Vec<_>>().join("; ");
    if things.len() > shown {
        let _ = write!(text, "; and {} more", things.len() - shown);
    }
    text
}
