//! Configuration of containerd in a NodeConfig.

use serde_json::Value;

use crate::finding::Findings;
use crate::parsed::{ParsedBootstrap, Stated};
use crate::place::line_text;
use crate::tree::{self, Tree};
use crate::userdata::Part;
use crate::verdicts;

/// Judges the TOML in `spec.containerd.config`.
pub(crate) fn check(config: &Tree, part: &Part, bootstrap: &mut ParsedBootstrap, findings: &mut Findings) {
    let Some(text) = config.text() else { return };
    let line = config.line.max(1);
    let place = part.source.at(line);
    let tree = match tree::toml(text) {
        Ok(tree) => tree,
        Err(fault) => {
            let inner = fault.line.unwrap_or(1);
            let message = format!("line {inner} of containerd's configuration is not TOML: {}", fault.reason);
            return findings.add(&verdicts::CR01, message, place, line_text(text, inner));
        }
    };
    if let Some(version) = tree.get("version").and_then(Tree::integer) {
        let inner = tree.entry("version").map_or(1, |(line, _)| line);
        let text = line_text(text, inner).to_owned();
        bootstrap.containerd_config_version = Some((version, Stated { text, place: place.clone() }));
    }
    for (name, inner, _) in tree.get("plugins").map(Tree::entries).unwrap_or_default() {
        if !name.starts_with("io.containerd.") {
            let message = format!("plugin `{name}` is named as in version 1");
            findings.add(&verdicts::CR01, message, place.clone(), line_text(text, *inner));
        }
    }
    if let Some(systemd) = systemd_cgroup(&tree.to_json(), 0) {
        bootstrap.systemd_cgroup = Some((systemd, Stated { text: format!("SystemdCgroup = {systemd}"), place }));
    }
}

/// Judges the version of the configuration against the version of containerd.
pub(crate) fn version(bootstrap: &ParsedBootstrap, of_program: Option<&str>, findings: &mut Findings) {
    let (Some((version, stated)), Some(program)) = (&bootstrap.containerd_config_version, of_program) else { return };
    if *version >= 3 && program.trim_start_matches('v').starts_with("1.") {
        let message = format!("a configuration of version {version} for containerd {program}");
        findings.add(&verdicts::UD09, message, stated.place.clone(), &stated.text);
    }
}

/// Returns `SystemdCgroup` at any depth: its path differs between versions of containerd.
fn systemd_cgroup(value: &Value, depth: usize) -> Option<bool> {
    const DEEPEST: usize = 16;
    let Value::Object(fields) = value else { return None };
    if let Some(Value::Bool(systemd)) = fields.get("SystemdCgroup") {
        return Some(*systemd);
    }
    fields.values().filter(|_| depth < DEEPEST).find_map(|field| systemd_cgroup(field, depth + 1))
}
