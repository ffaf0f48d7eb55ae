//! Colour, where there is a terminal. It only repeats what the words say.

use std::fmt::Display;

use clap::builder::styling::{AnsiColor, Style};
use muster_bootstrap::finding::Severity;

/// The styles of one output stream.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Palette {
    coloured: bool,
}

impl Palette {
    /// For a stream that shows colour, or does not.
    pub(crate) const fn new(coloured: bool) -> Self {
        Self { coloured }
    }

    /// Headings and totals.
    pub(crate) fn strong(self, text: impl Display) -> String {
        self.styled(Style::new().bold(), text)
    }

    /// What matters less.
    pub(crate) fn faint(self, text: impl Display) -> String {
        self.styled(Style::new().dimmed(), text)
    }

    /// As a finding matters.
    pub(crate) fn severity(self, severity: Severity, text: impl Display) -> String {
        let colour = match severity {
            Severity::Error => AnsiColor::Red,
            Severity::Warning => AnsiColor::Yellow,
            Severity::Info => AnsiColor::Cyan,
        };
        self.styled(colour.on_default().bold(), text)
    }

    fn styled(self, style: Style, text: impl Display) -> String {
        if self.coloured { format!("{style}{text}{style:#}") } else { text.to_string() }
    }
}
