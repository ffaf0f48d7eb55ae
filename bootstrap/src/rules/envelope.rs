//! The user data as a whole.

use crate::family::Family;
use crate::finding::{Findings, Severity};
use crate::place::line_text;
use crate::userdata::{LARGEST_USER_DATA, MimeFault, PartKind, UserData, base64};
use crate::verdicts;

/// Judges size, encodings and MIME, and that the document is for this family. Returns false if its content cannot be
/// judged.
pub(crate) fn check(user_data: &UserData, family: Family, findings: &mut Findings) -> bool {
    if user_data.size > LARGEST_USER_DATA {
        let message = format!("the user data has {} bytes; EC2 takes {LARGEST_USER_DATA}", user_data.size);
        findings.add(&verdicts::UD23, message, user_data.anywhere(), "");
    }
    if let Some(fault) = user_data.wrapping_fault {
        findings.add(&verdicts::UD30, format!("the user data cannot be read: {fault}"), user_data.anywhere(), "");
        return false;
    }
    for part in &user_data.parts {
        if let Some(fault) = part.wrapping_fault {
            let message = format!("part {} cannot be read: {fault}", part.number);
            findings.add(&verdicts::UD30, message, part.source.anywhere(), "");
        }
    }
    // Windows and Bottlerocket do not parse MIME.
    if matches!(family, Family::Al2 | Family::Al2023 | Family::Custom) {
        mime(user_data, family, findings);
    }
    is_for(user_data, family, findings)
}

/// Judges whether there is content, where only the user data can start the bootstrap. `is_told` is true if the family
/// was named explicitly. Returns false if there is nothing to judge.
pub(crate) fn content(user_data: &UserData, family: Family, is_told: bool, findings: &mut Findings) -> bool {
    if findings.has(&verdicts::UD01) || findings.has(&verdicts::UD02) {
        return true;
    }
    if user_data.parts.iter().all(|part| part.kind == PartKind::Empty) {
        // Only the owner of a custom image knows its requirements.
        let severity = if family == Family::Custom { Severity::Warning } else { Severity::Error };
        let fix = "write the user data that the image's family starts from, and check that the tool that launches the \
                   node passes it on";
        let message = "the user data is empty";
        findings.add_with_fix_as(severity, &verdicts::UD03, message, fix, (user_data.anywhere(), ""));
        return false;
    }
    if family == Family::Custom && !is_told {
        let line = user_data.text().lines().position(|line| !line.trim().is_empty()).unwrap_or_default() + 1;
        let message = "the user data does not have the format of any AMI family, so it was not validated";
        let fix = "set the family with `--ami-family`; for `Custom`, only parts in a known format are validated";
        let evidence = (user_data.at(line), line_text(user_data.text(), line));
        findings.add_with_fix_as(Severity::Warning, &verdicts::UD03, message, fix, evidence);
    }
    true
}

/// Returns true if a text is user data in base64.
pub(crate) fn is_encoded(text: &str) -> bool {
    const BEGINNINGS: [&str; 10] = [
        "#!",
        "#cloud-",
        "#include",
        "MIME-Version:",
        "Content-Type:",
        "apiVersion:",
        "---",
        "[settings",
        "<powershell>",
        "{\"apiVersion",
    ];
    let Some(bytes) = base64(text.trim().as_bytes()) else { return false };
    let decoded = String::from_utf8_lossy(&bytes);
    // gzip is a valid form of user data.
    bytes.starts_with(&[0x1f, 0x8b]) || BEGINNINGS.iter().any(|mark| decoded.trim_start().starts_with(mark))
}

fn mime(user_data: &UserData, family: Family, findings: &mut Findings) {
    for fault in &user_data.mime_faults {
        let shown = |line: usize| (user_data.at(line), line_text(user_data.text(), line));
        match *fault {
            MimeFault::HeaderIsBody { line } => {
                let (place, text) = shown(line);
                let message = format!("line {line} is among the headers of a part, but is not a header");
                findings.add(&verdicts::UD01, message, place, text);
            }
            MimeFault::NoColon { line } => {
                let (place, text) = shown(line);
                findings.add(&verdicts::UD02, "malformed MIME header: missing colon", place, text);
            }
            MimeFault::Boundary { line } => {
                let (place, text) = shown(line);
                findings.add(
                    &verdicts::UD02,
                    "no line of the document is the boundary that its header names",
                    place,
                    text,
                );
            }
            // cloud-init takes what is there.
            MimeFault::Unterminated { .. } if family == Family::Al2 => {}
            MimeFault::Unterminated { line } => {
                let (place, text) = shown(line);
                let severity = if family == Family::Al2023 { Severity::Error } else { Severity::Warning };
                let message = "the document ends without its closing boundary, so nodeadm reads none of it";
                findings.add_as(severity, &verdicts::UD02, message, place, text);
            }
            MimeFault::Indented { line } => {
                let (place, text) = shown(line);
                findings.add(&verdicts::UD02, "a boundary does not begin at the first column", place, text);
            }
            MimeFault::LateHeader { line } => {
                let (place, text) = shown(line);
                findings.add(&verdicts::UD02, "the document does not begin with its MIME headers", place, text);
            }
            MimeFault::NoVersion => {
                let scripts =
                    user_data.parts.iter().any(|part| matches!(part.kind, PartKind::Shell | PartKind::CloudInit));
                // nodeadm does not need the header; without it, cloud-init runs nothing.
                let severity = if scripts { Severity::Error } else { Severity::Warning };
                let message = "`MIME-Version` is missing, so cloud-init runs none of the parts";
                findings.add_as(severity, &verdicts::UD02, message, user_data.at(1), line_text(user_data.text(), 1));
            }
            MimeFault::NotMultipart => {
                if family == Family::Al2023 {
                    let message = "the document is MIME and not multipart, so nodeadm takes its headers for YAML";
                    findings.add(&verdicts::UD02, message, user_data.at(1), line_text(user_data.text(), 1));
                }
            }
        }
    }
}

/// Returns true if the document is written for the family; reports it otherwise.
fn is_for(user_data: &UserData, family: Family, findings: &mut Findings) -> bool {
    let has = |kind| user_data.of_kind(kind).next().is_some();
    let written_for = if has(PartKind::PowerShell) {
        "Windows"
    } else if has(PartKind::Toml) {
        "Bottlerocket"
    } else if has(PartKind::NodeConfig) {
        "AL2023"
    } else if has(PartKind::Shell) {
        "AL2"
    } else {
        return true;
    };
    let is_alien = match family {
        Family::Custom => false,
        Family::Al2 => written_for != "AL2" && !has(PartKind::Shell),
        // A shell script alone is either for AL2 or lacks a NodeConfig: the rules of the family decide.
        Family::Al2023 => matches!(written_for, "Windows" | "Bottlerocket"),
        Family::Bottlerocket => written_for != "Bottlerocket",
        Family::Windows2019 | Family::Windows2022 | Family::Windows2025 => written_for != "Windows",
    };
    if is_alien {
        let message = format!("the user data is written for {written_for}, and the image is {family}");
        findings.add(&verdicts::UD27, message, user_data.at(1), line_text(user_data.text(), 1));
    }
    !is_alien
}
