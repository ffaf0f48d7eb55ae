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
/// Replacement of a secret.
const HIDDEN: &str = "[hidden]";
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
    let lines: Vec<&str> = lines.lines().collect();
    let show = |(line, is_private): (&&str, bool)| {
        if is_private { HIDDEN.to_owned() } else { clean(&without_base64(line)) }
    };
    lines.iter().zip(in_pem(&lines)).map(show).collect()
}

/// Returns for each line true if it is part of a PEM block, such as a private key. The first line of a block may be
/// older than the lines of the bundle, and its last line may be missing or cut off.
fn in_pem(lines: &[&str]) -> Vec<bool> {
    const BEGIN: &str = "-----BEGIN";
    const END: &str = "-----END";
    let mut private = vec![false; lines.len()];
    let mut open = None;
    for (at, line) in lines.iter().enumerate() {
        let (begin, end) = (line.find(BEGIN), line.find(END));
        if begin.is_none() && end.is_none() {
            continue;
        }
        private[at] = true;
        let ends_earlier_block = end.is_some_and(|end| begin.is_none_or(|begin| end < begin));
        if ends_earlier_block {
            let body = || lines[..at].iter().rposition(|line| !may_be_body(line)).map_or(0, |before| before + 1);
            private[open.unwrap_or_else(body)..at].fill(true);
        }
        open = (line.rfind(BEGIN) > line.rfind(END)).then_some(at);
        if open.is_some() {
            // Without an end, the lines after the body are shown again.
            let body = lines[at + 1..].iter().take_while(|line| may_be_body(line)).count();
            private[at + 1..=at + body].fill(true);
        }
    }
    private
}

/// Returns true if the message of a line is a single word in base64, or empty.
fn may_be_body(line: &str) -> bool {
    let line = line.trim();
    let (before, word) = line.rsplit_once(char::is_whitespace).unwrap_or(("", line));
    // In the journal, a word with a colon precedes the message.
    let is_alone = before.is_empty() || before.ends_with(':');
    word.ends_with(':') || (is_alone && word.trim_end_matches('=').chars().all(is_base64))
}

/// Returns a line without long words in base64. A line of a key is one, also if neither end of the key is in the
/// bundle.
fn without_base64(line: &str) -> String {
    const SHORTEST: usize = 40;
    let is_key = |word: &str| {
        let has = |kind: fn(&u8) -> bool| word.bytes().any(|byte| kind(&byte));
        // Paths and names rarely have all three.
        word.len() >= SHORTEST && has(u8::is_ascii_uppercase) && has(u8::is_ascii_lowercase) && has(u8::is_ascii_digit)
    };
    let mut out = String::with_capacity(line.len());
    for part in line.split_inclusive(|char| !is_base64(char)) {
        let word = part.trim_end_matches(|char| !is_base64(char));
        out.push_str(if is_key(word) { HIDDEN } else { word });
        out.push_str(&part[word.len()..]);
    }
    out
}

fn is_base64(char: char) -> bool {
    char.is_ascii_alphanumeric() || matches!(char, '+' | '/')
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

    /// Returns the text of a bundle whose only section has these lines.
    fn told(lines: &[&str]) -> String {
        let now = "2026-11-21T20:00:00Z".parse().unwrap();
        let report = BootState::new(Mode::Delegate, false, String::new(), now).report(now);
        text(&report, &[("kubelet".to_owned(), lines.join("\n"))], LARGEST)
    }

    const BODY: &str = "MIIEpAIBAAKCAQEA7/b4/x+Qk/plain/Zr8/a/Wn2/Lq/9f/T3/vX/c5/e6/g7h8";

    #[test]
    fn a_key_whose_first_line_is_too_old_is_hidden() {
        let at = "2026-11-21T20:00:00.000001+0000 host kubelet[12]:";
        let [body, rest] = [BODY, "Ab3/x9=="].map(|line| format!("{at} {line}"));
        let [end, before, after] =
            ["-----END RSA PRIVATE KEY-----", "lines before", "lines after"].map(|line| format!("{at} {line}"));
        let told = told(&[&before, &body, &body, &rest, &end, &after]);
        assert!(told.contains("lines before\n") && told.contains("lines after\n"), "{told}");
        assert!(!told.contains("plain") && !told.contains("x9") && !told.contains("PRIVATE"), "{told}");
    }

    #[test]
    fn a_line_of_a_key_is_hidden_without_its_ends() {
        let told = told(&["I1121 begins", BODY, &format!("key: {BODY}, more"), "opens /etc/kubernetes/pki"]);
        assert!(told.contains("I1121 begins\n") && told.contains("opens /etc/kubernetes/pki\n"), "{told}");
        assert!(!told.contains("plain"), "{told}");
    }

    #[test]
    fn a_key_without_an_end_hides_no_other_lines() {
        let told = told(&["-----BEGIN EC PRIVATE KEY-----", BODY, "Ab3/x9==", "kubelet has ended", "it starts again"]);
        assert!(told.contains("kubelet has ended\nit starts again\n"), "{told}");
        assert!(!told.contains("plain") && !told.contains("x9"), "{told}");
        let whole = "-----BEGIN X----- a -----END X-----";
        let told =
            self::told(&["-----BEGIN X-----", "it starts", whole, "it runs", "-----BEGIN X-----", "in it", whole]);
        assert!(told.contains("it starts\n") && told.contains("it runs\n") && told.contains("in it\n"), "{told}");
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
