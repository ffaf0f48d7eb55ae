//! Colours for terminals. They only repeat what the words say.

use std::fmt::Display;

use clap::builder::styling::{AnsiColor, Style};

/// Styles of one output stream.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Palette {
    coloured: bool,
}

impl Palette {
    /// Creates the styles of a stream with or without colour.
    pub(crate) const fn new(coloured: bool) -> Self {
        Self { coloured }
    }

    /// Styles headings and totals.
    pub(crate) fn strong(self, text: impl Display) -> String {
        self.styled(Style::new().bold(), text)
    }

    /// Styles less important text.
    pub(crate) fn faint(self, text: impl Display) -> String {
        self.styled(Style::new().dimmed(), text)
    }

    /// Styles errors.
    pub(crate) fn bad(self, text: impl Display) -> String {
        self.styled(AnsiColor::Red.on_default().bold(), text)
    }

    /// Styles warnings.
    pub(crate) fn doubtful(self, text: impl Display) -> String {
        self.styled(AnsiColor::Yellow.on_default().bold(), text)
    }

    /// Styles hints.
    pub(crate) fn advice(self, text: impl Display) -> String {
        self.styled(AnsiColor::Cyan.on_default(), text)
    }

    fn styled(self, style: Style, text: impl Display) -> String {
        if self.coloured { format!("{style}{text}{style:#}") } else { text.to_string() }
    }
}
