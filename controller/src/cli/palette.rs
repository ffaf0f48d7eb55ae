//! Colour, where there is a terminal. It only repeats what the words say.

use std::fmt::Display;

use clap::builder::styling::{AnsiColor, Style};

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

    /// What went wrong.
    pub(crate) fn bad(self, text: impl Display) -> String {
        self.styled(AnsiColor::Red.on_default().bold(), text)
    }

    /// What may be wrong.
    pub(crate) fn doubtful(self, text: impl Display) -> String {
        self.styled(AnsiColor::Yellow.on_default().bold(), text)
    }

    /// What to do.
    pub(crate) fn advice(self, text: impl Display) -> String {
        self.styled(AnsiColor::Cyan.on_default(), text)
    }

    fn styled(self, style: Style, text: impl Display) -> String {
        if self.coloured { format!("{style}{text}{style:#}") } else { text.to_string() }
    }
}
