//! Terminal colours. They carry no information that is not in the text.

use std::fmt::Display;

use clap::builder::styling::{AnsiColor, Style};
use muster_bootstrap::finding::Severity;

/// Styles of an output stream.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Palette {
    coloured: bool,
}

impl Palette {
    /// Returns the styles of a stream, with or without colour.
    pub(crate) const fn new(coloured: bool) -> Self {
        Self { coloured }
    }

    /// Formats headings and totals.
    pub(crate) fn strong(self, text: impl Display) -> String {
        self.styled(Style::new().bold(), text)
    }

    /// Formats secondary text.
    pub(crate) fn faint(self, text: impl Display) -> String {
        self.styled(Style::new().dimmed(), text)
    }

    /// Formats text in the colour of a severity.
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
