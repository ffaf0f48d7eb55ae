//! Output of user data.

use std::fmt::Write;

/// A part to be written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OutgoingPart {
    /// Media type, with its parameters.
    pub media_type: String,
    /// Body of the part.
    pub text: String,
}

/// Karpenter's boundary. It occurs in no script that a shell would run.
const BOUNDARY: &str = "//";

/// Writes parts as one MIME document, in Karpenter's format.
#[must_use]
pub fn multipart(parts: &[OutgoingPart]) -> String {
    // A part that contains the boundary would be split in two.
    let mut boundary = BOUNDARY.to_owned();
    let is_taken = |boundary: &str| {
        let opening = format!("--{boundary}");
        parts.iter().any(|part| part.text.lines().any(|line| line.starts_with(&opening)))
    };
    while is_taken(&boundary) {
        boundary.push('=');
    }
    let mut text = format!("MIME-Version: 1.0\nContent-Type: multipart/mixed; boundary=\"{boundary}\"\n\n");
    for part in parts {
        let body = part.text.replace('\r', "");
        let _ = write!(text, "--{boundary}\nContent-Type: {}\n\n{}\n", part.media_type, body.trim_end_matches('\n'));
    }
    let _ = writeln!(text, "--{boundary}--");
    text
}
