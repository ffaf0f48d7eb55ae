//! `doctor`: what a world needs of this machine.

use std::collections::BTreeSet;
use std::io::Write;
use std::path::Path;

use serde_json::json;

use super::arguments::Format;
use super::{Verdict, print_json, table};
use crate::error::Result;
use crate::programs;

/// One thing that was looked at.
struct Finding {
    what: String,
    /// How it is mended, when it is not well.
    fix: Option<String>,
}

/// Tools of the system that the world itself calls, with the Debian package of each.
const TOOLS: [(&str, &str); 6] = [
    ("setpriv", "util-linux"),
    ("stty", "coreutils"),
    ("nsenter", "util-linux"),
    ("ip", "iproute2"),
    ("systemd-socket-activate", "systemd"),
    ("runc", "runc"),
];

/// Looks at everything. The answer is "no" when anything is missing.
pub(super) fn run(out: &mut dyn Write, format: Format) -> Result<Verdict> {
    let findings = look()?;
    let is_well = findings.iter().all(|finding| finding.fix.is_none());
    if format.is_json() {
        let items: Vec<_> = findings
            .iter()
            .map(|finding| json!({"what": finding.what, "ok": finding.fix.is_none(), "fix": finding.fix}))
            .collect();
        print_json(out, &json!({"apiVersion": "muster.dev/v1", "kind": "Doctor", "ok": is_well, "findings": items}))?;
    } else {
        let rows: Vec<[String; 3]> = findings
            .iter()
            .map(|it| {
                let state = if it.fix.is_none() { "ok" } else { "missing" };
                [state.to_owned(), it.what.clone(), it.fix.clone().unwrap_or_default()]
            })
            .collect();
        table::print(out, ["STATE", "WHAT", "FIX"], &rows)?;
    }
    Ok(if is_well { Verdict::Yes } else { Verdict::No })
}

fn look() -> Result<Vec<Finding>> {
    let fix = |is_well: bool, text: &str| (!is_well).then(|| text.to_owned());
    let mut findings = vec![Finding {
        what: "root, for network namespaces and machines".to_owned(),
        fix: fix(nix::unistd::geteuid().is_root(), "run as root; a control plane alone needs none"),
    }];
    let path = std::env::var_os("PATH").unwrap_or_default();
    for (tool, package) in TOOLS {
        let is_there = std::env::split_paths(&path).any(|folder| folder.join(tool).is_file());
        findings.push(Finding {
            what: format!("`{tool}`"),
            fix: fix(is_there, &format!("tests/setup, or apt-get install {package}")),
        });
    }
    findings.push(Finding {
        what: "namespaces of processes, networks and mounts".to_owned(),
        fix: fix(
            ["pid", "net", "mnt", "uts", "ipc", "cgroup"]
                .iter()
                .all(|name| Path::new("/proc/self/ns").join(name).exists()),
            "a kernel with all namespaces",
        ),
    });
    let controllers = cgroup_controllers();
    let lacking: Vec<&str> = ["cpu", "memory", "pids"].into_iter().filter(|it| !controllers.contains(*it)).collect();
    findings.push(Finding {
        what: "control groups for cpu, memory and processes".to_owned(),
        fix: fix(lacking.is_empty(), &format!("mount the controllers {}", lacking.join(", "))),
    });
    let cache = programs::cache()?;
    for package in programs::packages() {
        let is_there = package.programs().all(|program| package.folder(&cache).join(program).is_file());
        findings.push(Finding {
            what: format!("{} {}", package.name, package.version),
            fix: fix(is_there, &format!("tests/setup {}", package.name)),
        });
    }
    Ok(findings)
}

/// Of version 1 those that are mounted, of version 2 those that the root offers.
fn cgroup_controllers() -> BTreeSet<String> {
    let root = Path::new("/sys/fs/cgroup");
    let unified = fs_err::read_to_string(root.join("cgroup.controllers")).unwrap_or_default();
    let mounted = fs_err::read_dir(root).into_iter().flatten().flatten();
    let mounted = mounted.filter_map(|entry| entry.file_name().into_string().ok());
    unified.split_ascii_whitespace().map(String::from).chain(mounted).collect()
}
