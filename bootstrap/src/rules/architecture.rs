//! Programs that a script downloads for another architecture.

use crate::arch::Arch;
use crate::finding::{Findings, Severity};
use crate::userdata::{PartKind, UserData};
use crate::verdicts;
use crate::words::shell::commands;

/// Names of the architectures in download URLs.
const NAMES: [(Arch, [&str; 4]); 2] =
    [(Arch::Amd64, ["amd64", "x86_64", "x86-64", "linux-x64"]), (Arch::Arm64, ["arm64", "aarch64", "armv8", "arm-64"])];

/// Judges the URLs in the scripts.
pub(crate) fn check(user_data: &UserData, arch: Arch, findings: &mut Findings) {
    for part in user_data.of_kind(PartKind::Shell) {
        for word in commands(&part.text).iter().flat_map(|command| &command.words) {
            let named = |(_, names): &&(Arch, [&str; 4])| names.iter().any(|name| word.text.contains(name));
            let mut found = NAMES.iter().filter(named);
            let (Some((other, names)), None) = (found.next(), found.next()) else { continue };
            if *other == arch || !word.text.contains("://") {
                continue;
            }
            let name = names.iter().find(|name| word.text.contains(**name)).copied().unwrap_or_default();
            let wanted = if arch == Arch::Amd64 { "amd64" } else { "arm64" };
            let message = format!("a script fetches a file for {name}, and the instances are {wanted}");
            findings.add_as(Severity::Warning, &verdicts::KA24, message, part.source.at(word.line), &word.text);
        }
    }
}
