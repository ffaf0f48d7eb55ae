//! MIME in user data.
//!
//! The tree of parts comes from mail-parser. On a node, two programs parse it, and they differ: cloud-init (Python's
//! email package) is lenient and accepts nested parts; nodeadm (Go's mime/multipart) reads only the top level and stops
//! at the first line that is not a header. Faults at which one of them stops are recorded here as [`MimeFault`].

use mail_parser::{MessageParser, MimeHeaders, PartType};

use crate::place::line_of;

/// A part, as it is in the document.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct RawPart {
    /// Media type in lower case; empty if the part has none.
    pub(super) media_type: String,
    /// Body of the part, with its transfer encoding decoded.
    pub(super) body: Vec<u8>,
    /// Line of the document, from 1, at which the body begins.
    pub(super) line: usize,
    /// True if a transfer encoding was decoded, so that line numbers are those of the decoded text.
    pub(super) is_decoded: bool,
    /// Number of multiparts around the part: 1 at the top level.
    pub(super) depth: usize,
}

/// Fault at which a MIME parser stops, or which makes it skip content.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum MimeFault {
    /// A line among the headers of a part belongs to its body: the blank line between them is missing.
    HeaderIsBody {
        /// Line of the document.
        line: usize,
    },
    /// A header line has no colon.
    NoColon {
        /// Line of the document.
        line: usize,
    },
    /// The header has no boundary, or no line matches it.
    Boundary {
        /// Line of the document.
        line: usize,
    },
    /// The document ends without the closing boundary: nodeadm reads all of it or nothing.
    Unterminated {
        /// Last line of the document.
        line: usize,
    },
    /// A boundary does not begin at the first column.
    Indented {
        /// Line of the document.
        line: usize,
    },
    /// The document does not begin with its headers.
    LateHeader {
        /// Line of the first header.
        line: usize,
    },
    /// `MIME-Version` is missing: cloud-init then treats the whole as text of an unknown type.
    NoVersion,
    /// The document has MIME headers but is not multipart: nodeadm reads all of it, with the headers, as a NodeConfig.
    NotMultipart,
}

/// Result of parsing MIME.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Mime {
    pub(super) parts: Vec<RawPart>,
    pub(super) faults: Vec<MimeFault>,
}

/// Returns true if the text is meant to be MIME: by Karpenter's rule (it begins with one of two headers), or because
/// such a header occurs further down, where no parser looks for it.
pub(super) fn is_meant(text: &str) -> bool {
    begins(text.trim_start()) || text.lines().take(SEARCHED).any(|line| begins(line.trim_start()) && is_multipart(line))
}

/// Number of lines that are searched for a header.
const SEARCHED: usize = 10;
/// Maximum number of parts that are read: a document of 16 KiB has no room for more parts with content.
const MOST_PARTS: usize = 64;

fn begins(text: &str) -> bool {
    let has = |header: &str| text.get(..header.len()).is_some_and(|start| start.eq_ignore_ascii_case(header));
    has("MIME-Version:") || has("Content-Type:")
}

fn is_multipart(line: &str) -> bool {
    line.to_ascii_lowercase().contains("multipart/")
}

/// Parses a document that is meant to be MIME.
pub(super) fn read(text: &str) -> Mime {
    let mut mime = Mime::default();
    // Go reads headers from the first byte; cloud-init and Karpenter skip blanks before them.
    let start = text.len() - text.trim_start().len();
    let late = text.lines().position(|line| begins(line.trim_start())).unwrap_or_default();
    if late > 0 || text.lines().next().is_some_and(|line| line.starts_with([' ', '\t'])) {
        mime.faults.push(MimeFault::LateHeader { line: late + 1 });
    }
    let document = &text[start..];
    let first_line = line_of(text, start);
    if !document.to_ascii_lowercase().contains("mime-version:") {
        mime.faults.push(MimeFault::NoVersion);
    }
    let Some(message) = MessageParser::default().parse(document.as_bytes()) else {
        mime.faults.push(MimeFault::Boundary { line: first_line });
        return mime;
    };
    let line_at = |at: u32| first_line + line_of(document, usize::try_from(at).unwrap_or_default()) - 1;
    let Some(root) = message.parts.first() else { return mime };
    if !matches!(root.body, PartType::Multipart(_)) {
        let named = root.content_type().is_some_and(|it| it.c_type.eq_ignore_ascii_case("multipart"));
        mime.faults.push(if named { MimeFault::Boundary { line: first_line } } else { MimeFault::NotMultipart });
        if !named {
            mime.faults.retain(|fault| *fault != MimeFault::NoVersion);
        }
    }
    // Depth first, in document order; iterative, because nesting is not bounded.
    let mut ahead = vec![(0_u32, 0_usize)];
    while let Some((index, depth)) = ahead.pop() {
        let Some(part) = message.parts.get(usize::try_from(index).unwrap_or(usize::MAX)) else { continue };
        if let PartType::Multipart(inner) = &part.body {
            ahead.extend(inner.iter().rev().map(|inner| (*inner, depth + 1)));
        }
        if matches!(part.body, PartType::Multipart(_)) || mime.parts.len() >= MOST_PARTS {
            continue;
        }
        let media_type = part.content_type().map(|it| match &it.c_subtype {
            Some(subtype) => format!("{}/{subtype}", it.c_type).to_ascii_lowercase(),
            None => it.c_type.to_ascii_lowercase(),
        });
        let raw = slice(document, part.offset_body, part.offset_end);
        let encoding = part.content_transfer_encoding().unwrap_or_default().trim().to_ascii_lowercase();
        let is_decoded = matches!(encoding.as_str(), "base64" | "quoted-printable");
        let body = match encoding.as_str() {
            // The parser takes the content of a text part for text, and it may be gzip.
            "base64" => super::base64(raw.trim().as_bytes()).unwrap_or_else(|| part.contents().to_vec()),
            _ if is_decoded => part.contents().to_vec(),
            _ => raw.as_bytes().to_vec(),
        };
        mime.parts.push(RawPart {
            media_type: media_type.unwrap_or_default(),
            body,
            line: line_at(part.offset_body),
            is_decoded,
            depth,
        });
    }
    check_boundaries(document, first_line, &mut mime);
    mime
}

fn slice(text: &str, from: u32, to: u32) -> &str {
    let at = |offset: u32| usize::try_from(offset).unwrap_or(usize::MAX).min(text.len());
    text.get(at(from)..at(to)).unwrap_or_default()
}

/// Checks the headers of a part by Go's rules: each has a name and a colon, or continues the previous one.
fn check_headers<'t>(lines: impl Iterator<Item = &'t str>, first_line: usize, faults: &mut Vec<MimeFault>) {
    for (index, line) in lines.enumerate() {
        let line_number = first_line + index;
        if line.trim().is_empty() {
            break;
        }
        if line.starts_with([' ', '\t']) && index > 0 {
            continue;
        }
        let Some((name, _)) = line.split_once(':') else {
            let is_body = line.trim_start().starts_with("---") || line.starts_with("#!") || line.starts_with('<');
            faults.push(if is_body {
                MimeFault::HeaderIsBody { line: line_number }
            } else {
                MimeFault::NoColon { line: line_number }
            });
            return;
        };
        let name = name.trim().to_ascii_lowercase();
        let is_header = ["content-", "mime-", "x-"].iter().any(|prefix| name.starts_with(prefix))
            || matches!(name.as_str(), "merge-type" | "number-attachments" | "from" | "to" | "subject" | "date");
        if !is_header {
            faults.push(MimeFault::HeaderIsBody { line: line_number });
            return;
        }
    }
}

/// Checks the boundaries: an indented or misspelt boundary is text to every parser.
fn check_boundaries(document: &str, first_line: usize, mime: &mut Mime) {
    let Some(boundary) = boundary(document) else {
        if !mime.faults.iter().any(|fault| matches!(fault, MimeFault::NotMultipart | MimeFault::Boundary { .. })) {
            mime.faults.push(MimeFault::Boundary { line: first_line });
        }
        return;
    };
    let opening = format!("--{boundary}");
    let closing = format!("{opening}--");
    let mut seen = 0;
    let lines: Vec<&str> = document.lines().collect();
    for (index, line) in lines.iter().enumerate() {
        if line.starts_with(&opening) {
            seen += 1;
            if !line.starts_with(&closing) {
                let part = lines[index + 1..].iter().take_while(|line| !line.starts_with(&opening));
                check_headers(part.copied(), first_line + index + 1, &mut mime.faults);
            }
        } else if line.trim_start().starts_with(&opening) {
            mime.faults.push(MimeFault::Indented { line: first_line + index });
        }
    }
    let is_closed = lines.iter().any(|line| line.starts_with(&closing));
    if seen > 0 && !is_closed && mime.faults.is_empty() {
        mime.faults.push(MimeFault::Unterminated { line: first_line + lines.len().saturating_sub(1) });
    }
    if seen == 0
        && !mime.faults.iter().any(|fault| matches!(fault, MimeFault::Boundary { .. } | MimeFault::Indented { .. }))
    {
        mime.faults.push(MimeFault::Boundary { line: first_line });
    }
}

/// Returns the boundary of the outermost multipart.
fn boundary(document: &str) -> Option<String> {
    let mut headers = document.lines().take_while(|line| !line.trim().is_empty());
    let text = headers.by_ref().collect::<Vec<_>>().join(" ");
    let at = text.to_ascii_lowercase().find("boundary=")? + "boundary=".len();
    let value = text.get(at..)?.trim_start();
    let boundary = match value.strip_prefix('"') {
        Some(quoted) => quoted.split('"').next()?,
        None => value.split([';', ' ', '\t']).next()?,
    };
    (!boundary.is_empty()).then(|| boundary.to_owned())
}
