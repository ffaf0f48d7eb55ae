//! Lines of the journal, as `journalctl -o json` prints them.

use std::time::Duration;

use jiff::Timestamp;
use serde_json::Value;

/// A line of the journal.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Line {
    /// Unit that the line is about, without `.service`.
    pub unit: String,
    /// Message, shortened.
    pub text: String,
    /// True if systemd wrote the line about the unit, false if the unit wrote it.
    pub is_of_systemd: bool,
    /// Time of the line; `None` if the log does not have it, which counts as now.
    pub written: Option<Written>,
}

/// Time of a line on both clocks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Written {
    /// Wall clock, which may be set later.
    pub at: Timestamp,
    /// Time since boot, as for the start of units.
    pub uptime: Duration,
}

/// Maximum length of a message in characters: the kubelet logs whole objects.
const LONGEST: usize = 4096;

impl Line {
    /// Returns a line of a service.
    #[must_use]
    pub fn new(unit: &str, text: &str) -> Self {
        let mut text = text.to_owned();
        if let Some((end, _)) = text.char_indices().nth(LONGEST) {
            text.truncate(end);
        }
        Self { unit: unit.to_owned(), text, is_of_systemd: false, written: None }
    }

    /// Parses a line of `journalctl -o json`; `None` if it is invalid, or not of a service.
    #[must_use]
    pub fn read(json: &str) -> Option<Self> {
        let entry: Value = serde_json::from_str(json).ok()?;
        let text = |key: &str| entry.get(key).and_then(text_of);
        let is_of_systemd = text("_PID").as_deref() == Some("1");
        let own = || text("_SYSTEMD_UNIT");
        let unit = if is_of_systemd { entry.get("UNIT").and_then(service_of).or_else(own) } else { own() }?;
        let unit = unit.strip_suffix(".service")?.to_owned();
        let number = |key: &str| text(key)?.parse::<u64>().ok();
        let written = || {
            let at = i64::try_from(number("__REALTIME_TIMESTAMP")?).ok()?;
            let uptime = Duration::from_micros(number("__MONOTONIC_TIMESTAMP")?);
            Some(Written { at: Timestamp::from_microsecond(at).ok()?, uptime })
        };
        Some(Self { is_of_systemd, written: written(), ..Self::new(&unit, &text("MESSAGE")?) })
    }
}

/// A line about a dependency cycle names all units of it. The first service is used.
fn service_of(value: &Value) -> Option<String> {
    match value {
        Value::Array(items) if items.iter().any(Value::is_string) => {
            items.iter().filter_map(text_of).find(|unit| unit.ends_with(".service"))
        }
        other => text_of(other),
    }
}

/// A field is a string, an array of bytes if it is not printable, or an array if it occurs repeatedly.
fn text_of(value: &Value) -> Option<String> {
    match value {
        Value::String(text) => Some(text.clone()),
        Value::Array(items) if items.first().is_some_and(Value::is_number) => {
            let bytes: Vec<u8> = items.iter().filter_map(|it| u8::try_from(it.as_u64()?).ok()).collect();
            Some(String::from_utf8_lossy(&bytes).into_owned())
        }
        Value::Array(items) => items.first().and_then(text_of),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_says_when_it_was_written() {
        // Captured from systemd 252. Both timestamps are always printed, regardless of the requested fields.
        let entry = r#"{"_BOOT_ID":"x","__REALTIME_TIMESTAMP":"1795330800123456","__MONOTONIC_TIMESTAMP":"12345678","_PID":"812","_SYSTEMD_UNIT":"kubelet.service","MESSAGE":"x"}"#;
        let written = Line::read(entry).unwrap().written.unwrap();
        assert_eq!(written.at.as_microsecond(), 1_795_330_800_123_456);
        assert_eq!(written.uptime, Duration::from_micros(12_345_678));
        let odd = entry.replace("1795330800123456", "99999999999999999999");
        assert_eq!(Line::read(&odd).unwrap().written, None);
    }

    #[test]
    fn lines_of_services_and_of_systemd_about_them_are_read() {
        let own = r#"{"_PID":"812","_SYSTEMD_UNIT":"kubelet.service","MESSAGE":"E1121 run.go:72] \"command failed\"","PRIORITY":"6"}"#;
        let line = Line::read(own).unwrap();
        assert_eq!((line.unit.as_str(), line.is_of_systemd, line.written), ("kubelet", false, None));
        let about = r#"{"_PID":"1","_SYSTEMD_UNIT":"init.scope","UNIT":"kubelet.service","MESSAGE":"kubelet.service: Main process exited, code=exited, status=1/FAILURE"}"#;
        let line = Line::read(about).unwrap();
        assert_eq!((line.unit.as_str(), line.is_of_systemd), ("kubelet", true));
        assert_eq!(Line::read(r#"{"_PID":"1","_SYSTEMD_UNIT":"x.service","MESSAGE":[104,105]}"#).unwrap().text, "hi");
        let circle = r#"{"_PID":"1","UNIT":["multi-user.target","nodeadm-run.service"],"MESSAGE":"a"}"#;
        assert_eq!(Line::read(circle).unwrap().unit, "nodeadm-run");
        for other in ["", "{", "[]", r#"{"MESSAGE":"a"}"#, r#"{"_SYSTEMD_UNIT":"init.scope","MESSAGE":"a"}"#] {
            assert_eq!(Line::read(other), None, "{other}");
        }
        let long = format!(r#"{{"_SYSTEMD_UNIT":"a.service","MESSAGE":"{}"}}"#, "ä".repeat(10_000));
        assert_eq!(Line::read(&long).unwrap().text.chars().count(), LONGEST);
    }
}
