//! Records of the Windows event log, as `wevtutil query-events /format:XML /element:Events` prints them.

use super::journal::Line;

/// A record.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Record {
    /// Record number in the log.
    pub number: u64,
    /// Provider and message.
    pub line: Line,
}

/// Parses the records, in the order of the text. Invalid ones are skipped.
#[must_use]
pub fn read(xml: &str) -> Vec<Record> {
    let Ok(document) = roxmltree::Document::parse(xml) else { return Vec::new() };
    document.root_element().children().filter(|it| it.has_tag_name_of("Event")).filter_map(record).collect()
}

/// Element names without their namespace.
trait Named {
    fn has_tag_name_of(&self, name: &str) -> bool;
}

impl Named for roxmltree::Node<'_, '_> {
    fn has_tag_name_of(&self, name: &str) -> bool {
        self.is_element() && self.tag_name().name() == name
    }
}

fn record(event: roxmltree::Node<'_, '_>) -> Option<Record> {
    let find = |name: &str| event.descendants().find(|it| it.has_tag_name_of(name));
    let number = find("EventRecordID")?.text()?.trim().parse().ok()?;
    let provider = find("Provider")?.attribute("Name")?;
    let data = event.descendants().filter(|it| it.has_tag_name_of("Data")).filter_map(|it| it.text());
    let text = data.map(str::trim).filter(|it| !it.is_empty()).collect::<Vec<_>>().join(" ");
    Some(Record { number, line: Line::new(provider, &text) })
}

/// Decodes the output of Windows programs: UTF-16 with a byte order mark, or UTF-8 with or without one.
#[must_use]
pub fn decode(bytes: &[u8]) -> String {
    match bytes {
        [0xff, 0xfe, rest @ ..] => {
            let units: Vec<u16> = rest.chunks_exact(2).map(|pair| u16::from_le_bytes([pair[0], pair[1]])).collect();
            String::from_utf16_lossy(&units)
        }
        [0xef, 0xbb, 0xbf, rest @ ..] => String::from_utf8_lossy(rest).into_owned(),
        _ => String::from_utf8_lossy(bytes).into_owned(),
    }
}

/// Returns the text of the complete lines in a piece of a file, and their length in bytes. A line that does not fit
/// into a piece of `most` bytes is skipped: otherwise, no line after it would be read.
#[must_use]
pub fn complete_lines(mut piece: Vec<u8>, is_wide: bool, most: usize) -> (String, usize) {
    const MARK: [u8; 2] = [0xff, 0xfe];
    let end = if is_wide {
        piece.chunks_exact(2).rposition(|pair| pair == [b'\n', 0]).map_or(0, |at| 2 * at + 2)
    } else {
        piece.iter().rposition(|byte| *byte == b'\n').map_or(0, |at| at + 1)
    };
    if end == 0 && piece.len() >= most {
        return (String::new(), piece.len());
    }
    piece.truncate(end);
    if is_wide && !piece.starts_with(&MARK) {
        piece.splice(..0, MARK);
    }
    (decode(&piece), end)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// As the event schema defines records of classic providers.
    const EVENTS: &str = r#"<Events>
<Event xmlns='http://schemas.microsoft.com/win/2004/08/events/event'><System><Provider Name='kubelet'/><EventID Qualifiers='0'>0</EventID><TimeCreated SystemTime='2026-11-21T20:00:00.0000000Z'/><EventRecordID>41</EventRecordID><Channel>EKS</Channel></System><EventData><Data>E1121 20:00:00 run.go:72] "command failed" err="failed to parse kubelet flag: unknown flag: --x"</Data></EventData></Event>
<Event xmlns='http://schemas.microsoft.com/win/2004/08/events/event'><System><Provider Name='kube-proxy'/><EventRecordID>42</EventRecordID></System><EventData><Data>a &lt; b</Data><Data/><Data>c</Data></EventData></Event>
<Event><System><EventRecordID>x</EventRecordID></System></Event>
</Events>"#;

    #[test]
    fn records_are_lines_of_their_providers() {
        let records = read(EVENTS);
        assert_eq!(records.len(), 2);
        assert_eq!((records[0].number, records[0].line.unit.as_str()), (41, "kubelet"));
        assert!(records[0].line.text.ends_with("unknown flag: --x\""), "{records:?}");
        assert_eq!(records[1].line.text, "a < b c");
        for other in ["", "<", "<Events/>", "<Event/>", "nonsense"] {
            assert_eq!(read(other), [], "{other}");
        }
    }

    #[test]
    fn windows_has_two_ways_to_write_text() {
        assert_eq!(decode(b"plain"), "plain");
        assert_eq!(decode(b"\xef\xbb\xbfmarked"), "marked");
        assert_eq!(decode(b"\xff\xfeh\0i\0"), "hi");
        assert_eq!(decode(b"\xff\xfeh\0i"), "h");
    }

    #[test]
    fn lines_after_one_that_is_too_long_are_read() {
        let read = |bytes: &[u8], is_wide| complete_lines(bytes.to_vec(), is_wide, 8);
        assert_eq!(read(b"a\nb\nc", false), ("a\nb\n".to_owned(), 4));
        assert_eq!(read(b"begun", false), (String::new(), 0), "the rest of the line is not written yet");
        assert_eq!(read(b"too long", false), (String::new(), 8));
        assert_eq!(read(b"\xff\xfea\0\n\0b\0", true), ("a\n".to_owned(), 6));
        assert_eq!(read(b"a\0\n\0b\0", true), ("a\n".to_owned(), 4));
        assert_eq!(read(b"l\0o\0n\0g\0", true), (String::new(), 8));
    }
}
