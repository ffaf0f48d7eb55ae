//! Progress line on stderr, if it is a terminal; otherwise lines, of long work only.

use std::io::Write;
use std::time::{Duration, Instant};

/// Interval between lines where stderr is not a terminal.
const LINE_EVERY: Duration = Duration::from_secs(10);

/// Progress line. It is shown only on a terminal, and cleared before anything else is written.
#[derive(Debug)]
pub(crate) struct Progress {
    shown: bool,
    dirty: bool,
    /// Time of the last line, or of the start of long work.
    line_at: Option<Instant>,
}

impl Progress {
    /// Creates the line, shown only if `shown`.
    pub(crate) const fn new(shown: bool) -> Self {
        Self { shown, dirty: false, line_at: None }
    }

    /// Shows how far long work has come. Where stderr is not a terminal, this is a line every ten seconds.
    #[expect(clippy::disallowed_methods, reason = "lines come at intervals of real time")]
    pub(crate) fn advance(&mut self, text: impl FnOnce() -> String) {
        if self.shown {
            self.stage(&text());
            return;
        }
        let now = Instant::now();
        let since = *self.line_at.get_or_insert(now);
        if now.duration_since(since) >= LINE_EVERY {
            self.line_at = Some(now);
            let _ = writeln!(std::io::stderr().lock(), "{}", text());
        }
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
