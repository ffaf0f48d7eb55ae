//! User data of an EC2 instance, split into parts with line numbers.
//!
//! ```text
//!  bytes ──► encoding ──► mime ──► parts: NodeConfig, shell, cloud-config, TOML, PowerShell, AgentConfig
//!            base64,      or one part for the whole
//!            gzip
//! ```

mod encoding;
mod mime;
mod write;

#[cfg(test)]
mod tests;

use std::sync::Arc;

pub use self::encoding::{Wrapping, WrappingFault, base64, to_base64};
pub use self::mime::MimeFault;
pub use self::write::{OutgoingPart, multipart};
use crate::place::{Place, Source};

/// Maximum size that EC2 accepts, in bytes, before base64 encoding. Source: EC2 User Guide, "Run commands on your Linux
/// instance at launch".
pub const LARGEST_USER_DATA: usize = 16_384;

/// Media type of nodeadm's parts.
pub const NODE_CONFIG_TYPE: &str = "application/node.eks.aws";
/// Media type of the agent's own part.
pub const AGENT_CONFIG_TYPE: &str = "application/muster.dev";

/// Parsed user data.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UserData {
    /// Size in bytes, as counted by EC2.
    pub size: usize,
    /// Encodings of the whole text.
    pub wrappings: Vec<Wrapping>,
    /// Reason why the text could not be decoded.
    pub wrapping_fault: Option<WrappingFault>,
    /// True if the text is meant to be MIME.
    pub is_mime: bool,
    /// Faults at which one of the MIME parsers stops.
    pub mime_faults: Vec<MimeFault>,
    /// Parts in document order; a single part if the text is not MIME.
    pub parts: Vec<Part>,
    name: Arc<str>,
    text: String,
}

/// A part of user data.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Part {
    /// Number of the part, from 1, in document order.
    pub number: usize,
    /// Format of the part.
    pub kind: PartKind,
    /// Media type in lower case; empty if the part has none.
    pub media_type: String,
    /// Number of multiparts around the part; 0 if the document is not MIME.
    pub depth: usize,
    /// Decoded text. Invalid UTF-8 is replaced.
    pub text: String,
    /// Line of the text, from 1, with the first byte that is not UTF-8.
    pub not_utf8: Option<usize>,
    /// Location of the text.
    pub source: Source,
    /// Reason why the part could not be decoded.
    pub wrapping_fault: Option<WrappingFault>,
}

/// Format of a part.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum PartKind {
    /// The part is empty.
    Empty,
    /// A NodeConfig of nodeadm.
    NodeConfig,
    /// A script that cloud-init runs.
    Shell,
    /// cloud-init's own configuration, boot hooks and includes.
    CloudInit,
    /// Bottlerocket's settings.
    Toml,
    /// A script that EC2Launch runs.
    PowerShell,
    /// The agent's configuration.
    AgentConfig,
    /// Any other format.
    Other,
}

impl UserData {
    /// Parses user data as the instance receives it. `name` is its name in locations: `user-data`.
    ///
    /// ```
    /// use muster_bootstrap::userdata::{PartKind, UserData};
    ///
    /// let data = UserData::read(b"#!/bin/bash\necho hello\n", "user-data");
    /// assert!(data.text().starts_with("#!"));
    /// assert_eq!(data.of_kind(PartKind::PowerShell).count(), 0);
    /// ```
    #[must_use]
    pub fn read(bytes: &[u8], name: &str) -> Self {
        let (content, wrappings, wrapping_fault) = encoding::unwrap(bytes);
        let is_utf8 = std::str::from_utf8(&content).is_ok();
        let text = String::from_utf8_lossy(&content).replace("\r\n", "\n");
        let is_mime = mime::is_meant(&text);
        let name: Arc<str> = name.into();
        let mut read = Self {
            size: bytes.len(),
            wrappings,
            wrapping_fault,
            is_mime,
            mime_faults: Vec::new(),
            parts: Vec::new(),
            name: Arc::clone(&name),
            text,
        };
        if is_mime {
            let mime = mime::read(&read.text);
            read.mime_faults = mime.faults;
            for (index, raw) in mime.parts.into_iter().enumerate() {
                let part = Part::read(raw, index + 1, &name, is_utf8);
                read.parts.push(part);
            }
        } else {
            let kind = kind_of(&read.text, "");
            let source = Source::whole(Arc::clone(&name));
            let (media_type, text) = (String::new(), read.text.clone());
            let not_utf8 = replaced(&text).filter(|_| !is_utf8);
            let wrapping_fault = None;
            read.parts.push(Part { number: 1, kind, media_type, depth: 0, text, not_utf8, source, wrapping_fault });
        }
        read
    }

    /// Returns the decoded text of the whole.
    #[must_use]
    pub fn text(&self) -> &str {
        &self.text
    }

    /// Returns the location of a line of the whole.
    #[must_use]
    pub fn at(&self, line: usize) -> Place {
        Place { source: Arc::clone(&self.name), line: Some(line) }
    }

    /// Returns the location of the whole.
    #[must_use]
    pub fn anywhere(&self) -> Place {
        Place { source: Arc::clone(&self.name), line: None }
    }

    /// Returns the parts of one kind.
    pub fn of_kind(&self, kind: PartKind) -> impl Iterator<Item = &Part> {
        self.parts.iter().filter(move |part| part.kind == kind)
    }
}

impl Part {
    /// `is_utf8` is false if bytes of the document were replaced before it was split.
    fn read(raw: mime::RawPart, number: usize, name: &str, is_utf8: bool) -> Self {
        let (content, wrappings, wrapping_fault) = encoding::unwrap(&raw.body);
        let is_utf8 = is_utf8 && std::str::from_utf8(&content).is_ok();
        let text = String::from_utf8_lossy(&content).into_owned();
        let is_decoded = raw.is_decoded || !wrappings.is_empty();
        let source = Source {
            name: format!("{name} part {number}{}", if is_decoded { " (decoded)" } else { "" }).into(),
            first_line: if is_decoded { 1 } else { raw.line },
        };
        let kind = kind_of(&text, &raw.media_type);
        let not_utf8 = replaced(&text).filter(|_| !is_utf8);
        let (media_type, depth) = (raw.media_type, raw.depth);
        Self { number, kind, media_type, depth, text, not_utf8, source, wrapping_fault }
    }
}

/// Returns the line, from 1, of the first character that stands for bytes which are not UTF-8.
fn replaced(text: &str) -> Option<usize> {
    text.lines().position(|line| line.contains(char::REPLACEMENT_CHARACTER)).map(|index| index + 1)
}

/// Returns the format of a text: by its media type where that is decisive (nodeadm uses nothing else), else by its
/// beginning, like cloud-init and EC2Launch.
fn kind_of(text: &str, media_type: &str) -> PartKind {
    match media_type {
        NODE_CONFIG_TYPE => return PartKind::NodeConfig,
        AGENT_CONFIG_TYPE => return PartKind::AgentConfig,
        "text/x-shellscript"
        | "text/x-shellscript-per-boot"
        | "text/x-shellscript-per-instance"
        | "text/x-shellscript-per-once" => return PartKind::Shell,
        "text/cloud-config"
        | "text/cloud-boothook"
        | "text/x-include-url"
        | "text/upstart-job"
        | "text/jinja2"
        | "text/cloud-config-archive"
        | "text/part-handler" => return PartKind::CloudInit,
        _ => {}
    }
    // A disk or a template that was never written yields a file of zeros.
    let start = text.trim_start_matches(['\u{feff}', '\0']).trim_start();
    let first = start.lines().next().unwrap_or_default().to_ascii_lowercase();
    let is_tagged = |tag: &str| first.starts_with(tag) || text.to_ascii_lowercase().contains(tag);
    if start.is_empty() {
        PartKind::Empty
    } else if first.starts_with("#!") {
        PartKind::Shell
    } else if ["#cloud-", "#include", "#upstart-job", "#part-handler", "## template: jinja"]
        .iter()
        .any(|mark| first.starts_with(mark))
    {
        PartKind::CloudInit
    } else if is_tagged("<powershell>") || is_tagged("<script>") || has_tasks(text) {
        PartKind::PowerShell
    } else if text.lines().any(|line| has_api_version(line, "node.eks.aws/") || is_kind(line, "NodeConfig")) {
        PartKind::NodeConfig
    } else if text.lines().any(|line| has_api_version(line, "muster.dev/")) && text.contains("AgentConfig") {
        PartKind::AgentConfig
    } else if text.lines().any(|line| line.trim_start().starts_with("[settings") || line.starts_with("settings.")) {
        PartKind::Toml
    } else {
        PartKind::Other
    }
}

/// Returns true if a text is a task document of EC2Launch v2, its alternative to tags.
fn has_tasks(text: &str) -> bool {
    text.lines().any(|line| line.trim_end() == "tasks:") && text.contains("executeScript")
}

/// Returns true if a line has this `kind` at the top level; the group next to it may be misspelt.
fn is_kind(line: &str, kind: &str) -> bool {
    let Some(value) = line.strip_prefix("kind:") else { return false };
    value.trim().trim_matches(['"', '\'']) == kind
}

fn has_api_version(line: &str, group: &str) -> bool {
    let line = line.trim_start().trim_start_matches(['{', '"', ' ']);
    line.strip_prefix("apiVersion")
        .is_some_and(|rest| rest.trim_start_matches(['"', ' ', ':', '\'']).starts_with(group))
}
