//! Progress line on stderr, if it is a terminal.

use std::io::Write;

/// Progress line. It is shown only on a terminal, and cleared before anything else is written.
#[derive(Debug)]
pub(crate) struct Progress {
    shown: bool,
    dirty: bool,
}

impl Progress {
    /// Creates the line, shown only if `shown`.
    pub(crate) const fn new(shown: bool) -> Self {
        Self { shown, dirty: false }
    }

    /// Shows the next stage.
    pub(crate) fn stage(&mut self, text: &str) {
        if self.shown {
            // A closed terminal must not fail the command.
            let _ = write!(std::io::stderr().lock(), "\r\x1b[K{text}…");
            self.dirty = true;
        }
    }

    /// Clears the line.
    pub(crate) fn clear(&mut self) {
        if std::mem::take(&mut self.dirty) {
            let _ = write!(std::io::stderr().lock(), "\r\x1b[K");
        }
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        self.clear();
    }
}
