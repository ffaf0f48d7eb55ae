//! The bundle: what one would ask for first when a node failed, in one file, bounded and without secrets.

use std::fmt::Write;
use std::io;
use std::path::Path;
use std::time::Duration;

use muster_bootstrap::secrets::clean;
use tokio::time::{Instant, timeout_at};

use super::status;
use crate::platform::Platform;
use crate::probes::journal;
use crate::report::Report;

/// Lines of each unit; with at most seven units and 240 characters a line the file stays under half a megabyte.
const LINES: u32 = 200;
const LARGEST: usize = 512 << 10;
/// All of it takes a second; on a disk that hangs it ends by this.
const WITHIN: Duration = Duration::from_secs(30);

/// Writes it.
///
/// # Errors
/// It cannot be written.
pub async fn write(folder: &Path, report: &Report) -> io::Result<()> {
    let deadline = Instant::now() + WITHIN;
    let mut sections = Vec::new();
    for unit in journal::SOURCES {
        // A journal that is too slow for all of them has said something by then.
        let lines = timeout_at(deadline, journal::tail(unit, LINES)).await.unwrap_or_default();
        sections.push(((*unit).to_owned(), lines));
    }
    status::replace(&folder.join("bundle.txt"), text(report, &sections).as_bytes(), 0o600)
}

/// The text of it: the report, then the last lines of each unit.
#[must_use]
pub fn text(report: &Report, sections: &[(String, String)]) -> String {
    let mut text = serde_json::to_string_pretty(report).unwrap_or_default();
    for (unit, lines) in sections {
        let _infallible = write!(text, "\n\n=== {} of {unit}\n", Platform::HERE.log());
        let mut private = false;
        for line in lines.lines() {
            // A key stands on lines of its own between these two.
            private |= line.contains("-----BEGIN");
            let shown = if private { "[hidden]".to_owned() } else { clean(line) };
            private &= !line.contains("-----END");
            if text.len() + shown.len() > LARGEST {
                return text;
            }
            text.push_str(&shown);
            text.push('\n');
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::course::Course;
    use muster_bootstrap::agent_config::Mode;

    #[test]
    fn it_is_bounded_and_has_no_secrets() {
        let now = "2026-11-21T20:00:00Z".parse().unwrap();
        let report = Course::new(Mode::Delegate, false, String::new(), now).report(now);
        let lines = "launchToken: mlt-4f9aQ2secret\n-----BEGIN RSA PRIVATE KEY-----\nMIIEabc\n-----END RSA PRIVATE KEY-----\nplain words\n";
        let told = text(&report, &[("kubelet".to_owned(), lines.to_owned())]);
        assert!(told.contains("plain words") && told.contains(" of kubelet\n"), "{told}");
        assert!(!told.contains("4f9aQ2") && !told.contains("MIIEabc"), "{told}");
        let much = text(&report, &[("kubelet".to_owned(), format!("{}\n", "word ".repeat(40)).repeat(20_000))]);
        assert!(much.len() <= LARGEST);
    }
}
