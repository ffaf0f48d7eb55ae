//! Log bundle: the report and recent logs of a failed node as one text, bounded and without secrets. It is written to a
//! file and sent to the controller on request.

use std::io;
use std::path::Path;
use std::time::Duration;

use muster_bootstrap::secrets::clean;
use tokio::time::{Instant, timeout_at};

use super::status;
use crate::platform::Platform;
use crate::probes::journal;
use crate::report::Report;

/// Lines per unit. With at most seven units and 240 characters per line, the file stays under half a megabyte.
const LINES: u32 = 200;
const LARGEST: usize = 512 << 10;
/// Maximum size of a bundle for the controller: the most that it accepts.
pub const LARGEST_SENT: usize = 192 << 10;
/// Timeout for all logs. Normally they take a second, on a hanging disk much longer.
const WITHIN: Duration = Duration::from_secs(30);

/// Writes the bundle to `bundle.txt` in `folder`.
///
/// # Errors
/// The file cannot be written.
pub async fn write(folder: &Path, report: &Report) -> io::Result<()> {
    status::replace(&folder.join("bundle.txt"), gather(report, LARGEST).await.as_bytes(), 0o600)
}

/// Collects a bundle of at most `largest` bytes.
pub async fn gather(report: &Report, largest: usize) -> String {
    let deadline = Instant::now() + WITHIN;
    let mut sections = Vec::new();
    for unit in journal::SOURCES {
        // Once the deadline has passed, the remaining units have no lines.
        let lines = timeout_at(deadline, journal::tail(unit, LINES)).await.unwrap_or_default();
        sections.push(((*unit).to_owned(), lines));
    }
    text(report, &sections, largest)
}

/// Returns the text of a bundle: the report, then the last lines of each unit. If it is too long, the oldest lines of
/// each unit are dropped.
#[must_use]
pub fn text(report: &Report, sections: &[(String, String)], largest: usize) -> String {
    let mut text = serde_json::to_string_pretty(report).unwrap_or_default();
    text.truncate(text.floor_char_boundary(largest / 2));
    for (index, (unit, lines)) in sections.iter().enumerate() {
        let heading = format!("\n\n=== {} of {unit}\n", Platform::HERE.log());
        // Space that a unit does not use is left to the following ones.
        let share = largest.saturating_sub(text.len()) / (sections.len() - index);
        let Some(room) = share.checked_sub(heading.len()) else { continue };
        text.push_str(&heading);
        let shown = shown(lines);
        let mut first = shown.len();
        let mut taken = 0;
        while first > 0 && taken + shown[first - 1].len() < room {
            first -= 1;
            taken += shown[first].len() + 1;
        }
        for line in &shown[first..] {
            text.push_str(line);
            text.push('\n');
        }
    }
    text
}

/// Returns the lines with secrets removed.
fn shown(lines: &str) -> Vec<String> {
    let mut private = false;
    let show = |line: &str| {
        // A PEM private key spans several lines between these two.
        private |= line.contains("-----BEGIN");
        let shown = if private { "[hidden]".to_owned() } else { clean(line) };
        private &= !line.contains("-----END");
        shown
    };
    lines.lines().map(show).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::boot_state::BootState;
    use muster_bootstrap::agent_config::Mode;

    #[test]
    fn it_is_bounded_and_has_no_secrets() {
        let now = "2026-11-21T20:00:00Z".parse().unwrap();
        let report = BootState::new(Mode::Delegate, false, String::new(), now).report(now);
        let lines = "launchToken: mlt-4f9aQ2secret\n-----BEGIN RSA PRIVATE KEY-----\nMIIEabc\n-----END RSA PRIVATE KEY-----\nplain words\n";
        let told = text(&report, &[("kubelet".to_owned(), lines.to_owned())], LARGEST);
        assert!(told.contains("plain words") && told.contains(" of kubelet\n"), "{told}");
        assert!(!told.contains("4f9aQ2") && !told.contains("MIIEabc"), "{told}");
        let many = |word: &str| format!("{}\n", word.repeat(40)).repeat(20_000);
        let much = text(&report, &[("kubelet".to_owned(), many("word "))], LARGEST);
        assert!(much.len() <= LARGEST);
    }

    #[test]
    fn what_is_cut_is_the_oldest_of_each() {
        let now = "2026-11-21T20:00:00Z".parse().unwrap();
        let report = BootState::new(Mode::Delegate, false, String::new(), now).report(now);
        let section = |unit: &str, count: usize| {
            let lines: String = (0..count).map(|index| format!("{unit} line {index}\n")).collect();
            (unit.to_owned(), lines)
        };
        let sections = [section("kubelet", 100_000), section("containerd", 3), section("nodeadm", 100_000)];
        let told = text(&report, &sections, LARGEST_SENT);
        assert!(told.len() <= LARGEST_SENT && told.len() > LARGEST_SENT - 200, "{}", told.len());
        assert!(told.contains("kubelet line 99999\n") && told.contains("nodeadm line 99999\n"));
        assert!(told.contains("containerd line 0\n") && !told.contains("kubelet line 0\n"));
        let tiny = text(&report, &sections, 60);
        assert!(tiny.len() <= 60, "{tiny}");
    }
}
