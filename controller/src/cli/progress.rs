//! One line on stderr that says what is being done, while somebody looks.

use std::io::Write;

/// The line. It exists only if stderr is a terminal, and is gone before anything else is written.
#[derive(Debug)]
pub(crate) struct Progress {
    shown: bool,
    dirty: bool,
}

impl Progress {
    /// A line on stderr, if `shown`.
    pub(crate) const fn new(shown: bool) -> Self {
        Self { shown, dirty: false }
    }

    /// Says what comes next.
    pub(crate) fn stage(&mut self, text: &str) {
        if self.shown {
            // A terminal that cannot be written to is no reason to fail.
            let _ = write!(std::io::stderr().lock(), "\r\x1b[K{text}…");
            self.dirty = true;
        }
    }

    /// Takes the line away.
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
